"""Looking: ``--compare``, ``--debug-view``, and who is who with ``mien faces``."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from conftest import CONSENT, scene
from pictures import landscape, names, pair
from PIL import Image

from mien.media import read_picture
from mien.safety import DIGITAL_SOURCE_TYPE

MARK = DIGITAL_SOURCE_TYPE.encode()


def pixels(path):
    return read_picture(path).frame.pixels.numpy()


@pytest.fixture
def looked(mien_, loaded, tmp_path, people, load, no_watermark):
    """Swap both faces of a picture with both views; return the picture, and where they are."""
    target = pair(load, tmp_path / "two.png")  # 400 wide and 240 high
    out = tmp_path / "out"
    out.mkdir()
    code, printed, errors = mien_(
        *("swap", people["dev"], target, "-o", out / "o.png", "--faces", "all"),
        *("--consent", CONSENT, "--compare", "--debug-view", "--json"),
    )
    assert (code, errors) == (0, "")
    return pixels(target), out, json.loads(printed)


def test_two_more_pictures_are_written(looked):
    _, out, _ = looked
    assert names(out) == ["o.compare.png", "o.debug.png", "o.png"]


def test_a_comparison_is_before_and_after(looked):
    before, out, _ = looked
    both, after = pixels(out / "o.compare.png"), pixels(out / "o.png")
    assert not np.array_equal(after, before)
    gap = both.shape[0] - 2 * before.shape[0]  # a wide picture: above each other
    assert both.shape == (480 + gap, 400, 3)
    assert 2 <= gap <= 8
    assert np.array_equal(both[:240], before)
    assert np.array_equal(both[-240:], after)
    assert (both[240 : 240 + gap] == 255).all()


def test_a_high_picture_is_compared_side_by_side(mien_, loaded, tmp_path, people):
    command = ("swap", people["dev"], people["ben"], "-o", tmp_path / "o.jpg", "--compare")
    assert mien_(*command, "--consent", CONSENT)[0] == 0
    height, width, _ = pixels(tmp_path / "o.compare.jpg").shape
    assert height == 256
    assert 514 <= width <= 520


def test_a_comparison_is_marked_as_the_output_is(looked):
    _, out, report = looked
    for name in ("o.png", "o.compare.png"):
        content = (out / name).read_bytes()
        assert MARK in content
        assert report["consents"][0].encode() in content
    assert MARK not in (out / "o.debug.png").read_bytes()


def test_a_debug_view_shows_the_picture_before_with_what_was_found(looked):
    before, out, report = looked
    view = pixels(out / "o.debug.png")
    assert view.shape == before.shape
    drawn = (view != before).any(axis=2)
    for face in report["faces"]:
        left, top, right, bottom = (round(v) for v in face["box"])
        # the box
        assert drawn[max(0, top - 1) : top + 2, left:right].any(axis=0).mean() > 0.9
        assert drawn[top:bottom, max(0, left - 1) : left + 2].any(axis=1).mean() > 0.9
        # the five points, in their own red
        for x, y in face["points"]:
            assert view[round(y), round(x)].tolist() == [255, 80, 60]
        # the mask: nearly everything in the middle is tinted
        middle = drawn[(3 * top + bottom) // 4 : (top + 3 * bottom) // 4]
        assert middle[:, (3 * left + right) // 4 : (left + 3 * right) // 4].mean() > 0.95
    # nothing is drawn where nobody is, and the tint is laid on the face before the swap
    assert not drawn[230:, 250:].any()
    inside = [round(v) for v in report["faces"][0]["box"]]
    tinted = drawn[inside[1] : inside[3], inside[0] : inside[2]]
    shown = view[inside[1] : inside[3], inside[0] : inside[2]][tinted].astype(int)
    old = before[inside[1] : inside[3], inside[0] : inside[2]][tinted].astype(int)
    new = pixels(out / "o.png")[inside[1] : inside[3], inside[0] : inside[2]][tinted].astype(int)
    assert np.abs(shown - old).mean() < np.abs(shown - new).mean()


def test_views_of_a_folder_lie_beside_their_outputs(mien_, loaded, tmp_path, people):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for name, place in (("ada", ""), ("ben", "sub/")):
        (tmp_path / "in" / f"{place}{name}.png").write_bytes(people[name].read_bytes())
    out = tmp_path / "out"
    code, _, errors = mien_(
        *("swap", people["dev"], tmp_path / "in", "-o", f"{out}/", "--consent", CONSENT),
        *("--compare", "--debug-view"),
    )
    assert (code, errors) == (0, "")
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*.png")) == [
        *("ada.compare.png", "ada.debug.png", "ada.png"),
        *("sub/ben.compare.png", "sub/ben.debug.png", "sub/ben.png"),
    ]


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".tif", ".bmp", ".avif", ".gif"])
def test_views_are_written_in_every_format(mien_, loaded, tmp_path, people, suffix):
    out = tmp_path / f"o{suffix}"
    code, _, errors = mien_(
        *("swap", people["dev"], people["ben"], "-o", out, "--consent", CONSENT),
        *("--compare", "--debug-view"),
    )
    assert (code, errors) == (0, "")
    views = sorted(path for path in tmp_path.iterdir() if path.suffix not in (".xmp", ".c2pa"))
    assert len(views) == 3
    assert all(pixels(view).shape[0] == 256 for view in views)


def test_views_are_not_written_over_inputs(mien_, built, tmp_path, people):
    for name in ("t.png", "o.compare.png"):
        (tmp_path / name).write_bytes(people["ben"].read_bytes())
    command = ("swap", tmp_path / "o.compare.png", tmp_path / "t.png", "-o", tmp_path / "o.png")
    code, _, errors = mien_(*command, "--compare")
    assert (code, built) == (2, [])
    assert "o.compare.png" in errors
    assert "SOURCE" in errors


def test_a_faulty_face_is_shown_too(mien_, loaded, tmp_path, people, load):
    target = pair(load, tmp_path / "two.png")
    code, _, _ = mien_(
        *("swap", people["dev"], target, "-o", tmp_path / "o.png", "--consent", CONSENT),
        *("--faces", "0", "--debug-view"),
    )
    assert code == 0
    drawn = (pixels(tmp_path / "o.debug.png") != pixels(target)).any(axis=2)
    assert drawn[:, :240].any()
    assert drawn[:, 240:].any()


# mien faces


@pytest.fixture(scope="module")
def three(load, tmp_path_factory):
    """A picture of three people in a row, from left to right: ben, ada, mei."""
    path = tmp_path_factory.mktemp("scene") / "three.png"
    who = [load(name) for name in ("ben", "ada", "mei")]
    Image.fromarray(scene(who, 256, 3).numpy()).save(path)
    return path


@pytest.mark.parametrize(
    ("order", "key", "rising"),
    [
        (None, lambda box: (box[2] - box[0]) * (box[3] - box[1]), False),
        ("large-small", lambda box: (box[2] - box[0]) * (box[3] - box[1]), False),
        ("small-large", lambda box: (box[2] - box[0]) * (box[3] - box[1]), True),
        ("left-right", lambda box: box[0] + box[2], True),
        ("right-left", lambda box: box[0] + box[2], False),
        ("top-bottom", lambda box: box[1] + box[3], True),
        ("bottom-top", lambda box: box[1] + box[3], False),
    ],
)
def test_faces_are_listed_in_order(mien_, three, order, key, rising):
    options = [] if order is None else ["--order", order]
    code, printed, errors = mien_("faces", three, "--json", *options)
    assert (code, errors) == (0, "")
    rows = json.loads(printed)["faces"]
    assert [row["index"] for row in rows] == [0, 1, 2]
    values = [key(row["box"]) for row in rows]
    assert all((a < b) is rising for a, b in pairwise(values))


def test_who_is_who_is_listed(mien_, three, people):
    against = ("--against", people["mei"], "--against", people["femi"])
    code, printed, errors = mien_("faces", three, "--order", "left-right", *against)
    assert (code, errors) == (0, "")
    head, *rows = printed.splitlines()
    assert re.split(r" {2,}", head.strip()) == [
        *("face", "score", "roll", "size", "left, top", "person", "mei.png", "femi.png")
    ]
    cells = [re.split(r" {2,}", row.strip()) for row in rows]
    assert [row[5] for row in cells] == ["-", "-", "mei.png"]
    assert all(len(row) == len(line) for row, line in zip(rows, [head] * 3, strict=True))
    report = json.loads(mien_("faces", three, "--order", "left-right", *against, "--json")[1])
    assert [row["person"] for row in report["faces"]] == [None, None, "mei.png"]
    for row, face in zip(cells, report["faces"], strict=True):
        assert [float(cell) for cell in row[6:]] == face["distances"]
        assert row[3] == "{:.0f} x {:.0f}".format(*face["size"])
        assert row[2] == f"{face['roll']:.0f}°"


def test_the_limit_of_a_person_is_an_option(mien_, three, people):
    command = ("faces", three, "--against", people["femi"], "--json")

    def persons(*options):
        return [row["person"] for row in json.loads(mien_(*command, *options)[1])["faces"]]

    assert persons() == [None] * 3
    assert sorted(persons("--max-distance", "2"), key=str) == [None, None, "femi.png"]


def test_two_people_of_one_file_name_are_told_apart_by_distance(mien_, three, people, tmp_path):
    for folder, name in (("a", "ben"), ("b", "mei")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.png").write_bytes(people[name].read_bytes())
    against = ("--against", tmp_path / "a" / "x.png", "--against", tmp_path / "b" / "x.png")
    rows = json.loads(mien_("faces", three, "--order", "left-right", *against, "--json")[1])[
        "faces"
    ]
    assert [row["person"] is not None for row in rows] == [True, False, True]
    assert [int(np.argmin(row["distances"])) for row in (rows[0], rows[2])] == [0, 1]


@pytest.mark.parametrize(
    ("options", "code", "fault"),
    [
        (["--order", "up"], 2, "--order"),
        (["--max-distance", "3"], 2, "--max-distance"),
        (["--against", "nowhere.png"], 1, "nowhere.png"),
        (["--against", "hills.png"], 3, "hills.png"),
        (["-o", "three.png"], 2, "PICTURE"),
        (["--against", "ben.png", "-o", "ben.png"], 2, "--against"),
        (["-o", "nowhere/o.png"], 1, "nowhere"),
        (["-o", "o.psd"], 1, ".psd"),
        (["extra.png"], 2, "extra"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_what_cannot_be_is_named(mien_, three, people, tmp_path, monkeypatch, options, code, fault):
    monkeypatch.chdir(tmp_path)
    landscape(tmp_path / "hills.png")
    for name, path in (("three.png", three), ("ben.png", people["ben"])):
        (tmp_path / name).write_bytes(path.read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    found, printed, errors = mien_("faces", "three.png", *options)
    assert (found, printed) == (code, "")
    assert fault in errors
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_nobody_is_found_with_people_to_look_for(mien_, people, tmp_path):
    hills = landscape(tmp_path / "hills.png")
    code, printed, errors = mien_("faces", hills, "--against", people["ben"])
    assert (code, printed) == (3, "")
    assert "hills.png" in errors
