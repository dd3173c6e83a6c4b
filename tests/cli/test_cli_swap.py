"""``mien swap``: what it prints and writes, and what it will not do for lack of sense or a face."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from conftest import CONSENT
from pictures import landscape, names, pair, stranger

from mien.media import read_picture

# Success


def test_a_swap_prints_a_line_and_writes_the_file(mien_, tmp_path, portraits, load, no_watermark):
    out = tmp_path / "out.png"
    code, printed, errors = mien_(
        "swap", portraits["dev"], portraits["ben"], "-o", out, "--consent", CONSENT
    )
    assert (code, errors) == (0, "")
    assert re.fullmatch(
        rf"{re.escape(str(out))}: 1 face swapped in \d+ ms; consent c-[0-9a-f]+\n", printed
    )
    new, old = read_picture(out).frame.pixels.numpy(), load("ben")
    changed = (new != old).any(axis=2)
    assert 0.02 < changed.mean() < 0.6
    assert names(tmp_path) == ["out.png"]


def test_every_network_runs_in_pytorch_when_asked(mien_, people, tmp_path):
    code, printed, errors = mien_(
        *("swap", people["dev"], people["ben"], "-o", tmp_path / "out.png", "--consent", CONSENT),
        *("--provider", "torch-cpu", "--model", "mien-lite", "--json"),
    )
    assert (code, errors) == (0, "")
    report = json.loads(printed)
    assert set(report["providers"].values()) == {"torch-cpu"}
    assert report["swapped"] == [{"face": 0, "role": 0}]


def test_the_report_says_what_happened(mien_, loaded, tmp_path, people, swapper, load):
    out, target = tmp_path / "out.webp", pair(load, tmp_path / "two.png")
    code, printed, errors = mien_(
        *("swap", people["dev"], target, "-o", out, "--consent", CONSENT, "--json"),
        *("--faces", "all"),
    )
    assert (code, errors) == (0, "")
    report = json.loads(printed)
    assert (report["output"], report["target"]) == (str(out), str(target))
    assert report["source"] == str(people["dev"])
    assert report["model"] == "mien-256"
    names = ["yunet", "facemesh", "sface", "mien-occlusion", "mien-256"]
    assert report["providers"] == dict.fromkeys(names, "cpu")
    consent = swapper.ledger.find([read_picture(people["dev"]).digest]).id
    assert report["consents"] == [consent]
    assert report["swapped"] == [{"face": 0, "role": 0}, {"face": 1, "role": 0}]
    assert (report["faults"], report["missing"]) == ([], [])
    first, second = report["faces"]
    for number, face in enumerate((first, second)):
        left, top, right, bottom = face["box"]
        assert face["index"] == number
        assert left < right
        assert top < bottom
        assert 0.5 <= face["score"] <= 1
        assert len(face["points"]) == 5
        for x, y in face["points"]:
            assert left < x < right
            assert top < y < bottom
    assert first["box"][2] <= 240 <= second["box"][0]  # the larger portrait is the left one
    times = report["milliseconds"]
    assert list(times) == [
        "detect",
        "landmark",
        "guard",
        "align",
        "swap",
        "mask",
        "occlusion",
        "blend",
    ]
    assert all(time >= 0 for time in times.values())
    assert out.is_file()


def test_only_the_largest_face_is_swapped_unless_told(
    mien_, loaded, tmp_path, people, load, no_watermark
):
    target, out = pair(load, tmp_path / "two.png"), tmp_path / "out.png"
    code, printed, _ = mien_("swap", people["dev"], target, "-o", out, "--consent", CONSENT)
    assert code == 0
    assert re.search(r": 1 (of 2 faces|face) swapped in ", printed)
    before, after = (read_picture(path).frame.pixels.numpy() for path in (target, out))
    assert (after[:, :240] != before[:, :240]).any()
    assert np.array_equal(after[:, 240:], before[:, 240:])


def test_all_faces_are_swapped_when_told(mien_, loaded, tmp_path, people, load, no_watermark):
    target, out = pair(load, tmp_path / "two.png"), tmp_path / "out.png"
    code, printed, _ = mien_(
        "swap", people["dev"], target, "-o", out, "--consent", CONSENT, "--faces", "all"
    )
    assert (code, "2 of 2 faces swapped" in printed) == (0, True)
    before, after = (read_picture(path).frame.pixels.numpy() for path in (target, out))
    assert (after[:, :240] != before[:, :240]).any()
    assert (after[:, 240:] != before[:, 240:]).any()


def test_quiet_prints_nothing(mien_, loaded, tmp_path, people):
    out = tmp_path / "out.jpg"
    command = ("swap", people["dev"], people["ben"], "-o", out, "--consent", CONSENT, "-q")
    assert mien_(*command) == (0, "", "")
    assert out.is_file()


def test_options_reach_the_swapper(mien_, built, tmp_path, people):
    mien_(
        *("swap", people["dev"], people["ben"], "-o", tmp_path / "out.jpg"),
        *(
            "--blend",
            "poisson",
            "--no-color-match",
            "--no-occlusion",
            "--model",
            "m",
            "--detector",
            "retinaface",
        ),
        *("--provider", "cuda", "--allow-fallback", "--threads", "3", "--models", tmp_path),
        *("--gpu-memory", "4GB", "--max-megapixels", "9.5"),
        *("--label", "--label-text", "AI", "--label-place", "top-left"),
    )
    mien_("swap", people["dev"], people["ben"], "-o", tmp_path / "out.jpg")
    given, default = built
    assert given == {
        "blend": "poisson",
        "color_match": False,
        "occlusion": False,
        "model": "m",
        "detector": "retinaface",
        "provider": "cuda",
        "allow_fallback": True,
        "threads": 3,
        "gpu_memory": "4GB",
        "models": tmp_path,
        "max_megapixels": 9.5,
        "cache_size": 100,
        "cache_folder": None,
        "ledger": None,
        "certificate": None,
        "private_key": None,
        "signing_pkcs11": None,
        "timestamp": None,
        "label": True,
        "label_text": "AI",
        "label_place": "top-left",
    }
    assert default == {
        "blend": "alpha",
        "color_match": True,
        "occlusion": True,
        "model": "mien-256",
        "detector": "yunet",
        "provider": "cpu",
        "allow_fallback": False,
        "threads": None,
        "gpu_memory": None,
        "models": None,
        "max_megapixels": 250.0,
        "cache_size": 100,
        "cache_folder": None,
        "ledger": None,
        "certificate": None,
        "private_key": None,
        "signing_pkcs11": None,
        "timestamp": None,
        "label": None,
        "label_text": None,
        "label_place": None,
    }


def test_a_label_that_the_policy_wants_cannot_be_taken_away(mien_, people, tmp_path, monkeypatch):
    (tmp_path / "policy.toml").write_text('profile = "cn"')
    monkeypatch.setenv("MIEN_POLICY", str(tmp_path / "policy.toml"))
    command = ("swap", people["dev"], people["ben"], "-o", tmp_path / "out.png")
    for options, said in (
        (("--no-label",), f"the policy {tmp_path / 'policy.toml'} (profile 'cn') wants a visible"),
        (("--label-text", "AI-edited"), "the profile 'cn' wants the words of GB 45438-2025"),
    ):
        code, printed, errors = mien_(*command, *options)
        assert (code, printed) == (2, "")
        assert said in " ".join(errors.split())
    assert names(tmp_path) == ["policy.toml"]


def test_settings_reach_the_swapper_and_options_beat_them(
    mien_, built, tmp_path, people, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mien.toml").write_text(
        'blend = "poisson"\ncolor_match = false\ncache_size = 7\nledger = "mine.sqlite3"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("MIEN_THREADS", "2")
    command = ("swap", people["dev"], people["ben"], "-o", "out.jpg")
    mien_(*command)
    mien_(*command, "--blend", "alpha", "--color-match", "--threads", "5")
    chosen = ("blend", "color_match", "threads", "cache_size", "ledger")
    assert [[each[key] for key in chosen] for each in built] == [
        ["poisson", False, 2, 7, tmp_path / "mine.sqlite3"],
        ["alpha", True, 5, 7, tmp_path / "mine.sqlite3"],
    ]


def test_several_pictures_of_the_person_and_one_of_another(mien_, loaded, tmp_path, people, caplog):
    stranger(people, tmp_path / "dev2.png", "dev")
    code, printed, _ = mien_(
        *("swap", people["dev"], people["ben"], "-o", tmp_path / "out.jpg", "--json"),
        *("--also", tmp_path / "dev2.png", "--also", people["mei"], "--consent", CONSENT),
    )
    assert code == 0
    assert len(json.loads(printed)["consents"]) == 1
    assert "mei.png" in caplog.text
    assert "somebody else" in caplog.text
    assert "dev2.png" not in caplog.text


def test_odd_names_are_taken(mien_, loaded, tmp_path, people, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, target, out = "-source 'q\".png", "-100% 顔 жук 🎉.png", "-out %s.png"
    shutil.copy(people["dev"], source)
    shutil.copy(people["ben"], target)
    code, printed, _ = mien_("swap", "-o", out, "--consent", CONSENT, "--", source, target)
    assert code == 0
    assert printed.startswith(f"{out}: 1 face swapped")
    assert sorted([source, target, out]) == names(tmp_path)


# Usage


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["swap"], "source"),
        (["swap", "-o", "c.jpg"], "source"),
        (["swap", "a.jpg", "-o", "c.jpg"], "target"),
        (["swap", "a.jpg", "b.jpg"], "--output"),
        (["swap", "a.jpg", "b.jpg", "-o", "c.jpg", "--colour", "blue"], "--colour"),
        (["swap", "a.jpg", "b.jpg", "-o", "c.jpg", "--strength", "much"], "--strength"),
        (["swap", "a.jpg", "b.jpg", "-o", "c.jpg", "--blend", "glue"], "--blend"),
        (["swap", "a.jpg", "b.jpg", "-o", "c.jpg", "--threads", "0"], "--threads"),
        (["faces"], "picture"),
        (["models", "show"], "name"),
        (["models", "show", "nobody"], "nobody"),
        (["swop"], "swop"),
        (["--colour"], "--colour"),
    ],
)
def test_wrong_usage_is_two_and_names_the_fault(mien_, tmp_path, monkeypatch, arguments, fault):
    monkeypatch.chdir(tmp_path)
    code, printed, errors = mien_(*arguments)
    assert (code, printed) == (2, "")
    assert errors.startswith("mien: ")
    assert fault in errors.lower()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--model", "nobody"], "Known: mien-256"),
        (["--model", "yunet"], "Known: mien-256"),
        (["--detector", "nobody"], "Known: retinaface, yunet"),
        (["--provider", "gpu"], "cpu, cuda"),
    ],
)
def test_unknown_names_list_the_known_ones(mien_, tmp_path, people, options, fault):
    out = tmp_path / "out.jpg"
    code, printed, errors = mien_("swap", people["dev"], people["ben"], "-o", out, *options)
    assert (code, printed) == (2, "")
    assert fault in errors
    assert names(tmp_path) == []


@pytest.mark.parametrize("value", ["101", "-0.1", "nan", "inf", "much", ""])
@pytest.mark.parametrize(
    "option", ["--strength", "--max-distance", "--quality", "--threads", "--max-megapixels"]
)
def test_a_number_that_cannot_be_is_refused(mien_, built, tmp_path, people, option, value):
    if (option, value) in {("--threads", "101"), ("--max-megapixels", "101")}:
        value = "0"
    code, printed, errors = mien_(
        *("swap", people["dev"], people["ben"], "-o", tmp_path / "out.jpg"),
        *("--consent", CONSENT, option, value),
    )
    assert (code, printed, built) == (2, "", [])
    assert option.strip("-") in errors.replace("_", "-")
    assert names(tmp_path) == []


@pytest.mark.parametrize("which", ["source", "target", "also"])
@pytest.mark.parametrize("spelling", ["the same", "another", "link"])
def test_no_input_is_overwritten(mien_, built, tmp_path, people, which, spelling):
    paths = {}
    for role, name in {"source": "dev", "target": "ben", "also": "dev"}.items():
        paths[role] = tmp_path / f"{role}.png"
        shutil.copy(people[name], paths[role])
    contents = {path: path.read_bytes() for path in paths.values()}
    out = paths[which]
    if spelling == "another":
        out = tmp_path / ".." / tmp_path.name / out.name
    elif spelling == "link":
        (tmp_path / "link.png").symlink_to(out)
        out = tmp_path / "link.png"
    code, printed, errors = mien_(
        *("swap", paths["source"], paths["target"], "--also", paths["also"], "-o", out),
        *("--consent", CONSENT),
    )
    assert (code, printed, built) == (2, "", [])
    assert which.lower() in errors.lower()
    assert {path: path.read_bytes() for path in contents} == contents


# No face


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_picture_without_a_face_is_three(mien_, loaded, tmp_path, people, which):
    paths = {"source": people["dev"], "target": people["ben"]}
    paths[which] = landscape(tmp_path / "hills.png")
    out = tmp_path / "out.jpg"
    code, printed, errors = mien_(
        "swap", paths["source"], paths["target"], "-o", out, "--consent", CONSENT
    )
    assert (code, printed) == (3, "")
    assert "No face was found in hills.png" in errors
    assert names(tmp_path) == ["hills.png"]
