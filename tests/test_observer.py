"""Who can be seen: numbers, places, and who is who."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import scene
from PIL import Image

import mien
from mien.engines import OnnxEngine
from mien.errors import InvalidOption, NoFace, PictureUnreadable, UnknownModel
from mien.media import read_picture
from mien.safety import DIGITAL_SOURCE_TYPE


@pytest.fixture(scope="module")
def observe():
    return mien.Observer()


@pytest.fixture(scope="module")
def three(load):
    """From left to right: ben, ada, mei; mei is the largest, and ada hangs lowest."""
    frame = np.full((440, 1000, 3), 127, np.uint8)
    places = (("ben", 0, 0, 300), ("ada", 310, 170, 240), ("mei", 580, 40, 400))
    for name, left, top, side in places:
        frame[top : top + side, left : left + side] = scene([load(name)], side, 1).numpy()
    return frame


def people(seen):
    """Return who the faces are, by where they are."""
    return [int(left > 305) + int(left > 575) for left in seen.faces.boxes[:, 0]]


BEN, ADA, MEI = range(3)


@pytest.mark.parametrize(
    ("order", "who"),
    [
        (None, [MEI, BEN, ADA]),
        ("large-small", [MEI, BEN, ADA]),
        ("small-large", [ADA, BEN, MEI]),
        ("left-right", [BEN, ADA, MEI]),
        ("right-left", [MEI, ADA, BEN]),
        ("top-bottom", [BEN, MEI, ADA]),
        ("bottom-top", [ADA, MEI, BEN]),
    ],
)
def test_faces_are_numbered_in_the_order_that_is_asked_for(observe, three, order, who):
    seen = observe(three, **({} if order is None else {"order": order}))
    assert people(seen) == who
    assert (seen.people, seen.distances) == ((None,) * 3, None)


def test_a_number_is_the_one_that_a_swap_takes(observe, swapper, three, load):
    dev = swapper.identity(load("dev"), consent="A generated portrait.")
    for order in ("right-left", "top-bottom"):
        seen = observe(three, order=order)
        for number in range(3):
            result = swapper.swap(three, dev, faces=[number], order=order)
            changed = (result.pixels != three).any(axis=2)
            left, top, right, bottom = seen.faces.boxes[number].round().int().tolist()
            assert changed[top:bottom, left:right].mean() > 0.3
            changed[top - 2 : bottom + 3, left - 2 : right + 3] = False
            assert not changed.any()


def test_who_is_who(observe, three, portraits):
    against = [portraits["mei"], portraits["dev"], portraits["ben"]]
    seen = observe(three, order="left-right", against=against)
    assert seen.people == ("ben.jpg", None, "mei.jpg")
    assert seen.distances.shape == (3, 3)
    assert float(seen.distances[BEN, 2]) < 0.3
    assert float(seen.distances[MEI, 0]) < 0.3
    assert float(seen.distances[ADA].min()) > 0.637


def test_a_distance_is_the_one_that_a_swap_measures(observe, swapper, three, load):
    seen = observe(three, order="left-right", against=[load("dev")])
    dev = swapper.identity(load("dev"), consent="A generated portrait.")
    with pytest.raises(mien.errors.PersonAbsent) as caught:
        swapper.swap(three, dev, only=load("dev"))
    assert caught.value.nearest == pytest.approx(float(seen.distances.min()), abs=1e-5)
    assert f"{float(seen.distances.min()):.2f}" in str(caught.value)


def test_the_limit_may_be_another(three, portraits, load):
    strict, loose = mien.Observer(max_distance=0.0), mien.Observer(max_distance=2.0)
    assert strict(three, against=[portraits["dev"]]).people == (None,) * 3
    seen = loose(three, order="left-right", against=[portraits["dev"]])
    assert seen.people == ("dev.jpg", None, None)  # at most one face is hers, the nearest


def test_a_person_seen_twice_is_named_once(observe, load, portraits):
    twins = scene([load("ben"), load("ben")], 300, 2).numpy()
    seen = observe(twins, against=[portraits["ben"]])
    assert sorted(seen.people, key=str) == [None, "ben.jpg"]
    assert float(seen.distances.max()) < 0.3


def test_a_report_has_a_row_for_each_face(observe, three, portraits):
    seen = observe(three, order="left-right", against=[portraits["mei"]])
    rows = json.loads(json.dumps(seen.report()))
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert [row["person"] for row in rows] == [None, None, "mei.jpg"]
    for row, box in zip(rows, seen.faces.boxes.tolist(), strict=True):
        assert row["box"] == pytest.approx(box, abs=0.06)
        size = [box[2] - box[0], box[3] - box[1]]
        assert row["size"] == pytest.approx(size, abs=0.06)
        assert 0 <= row["score"] <= 1
        assert abs(row["roll"]) < 20
        assert len(row["points"]) == 5
        assert len(row["distances"]) == 1
    assert "person" not in observe(three).report()[0]
    assert "distances" not in observe(three).report()[0]


def test_where_nobody_is_nobody_is_found(observe, load):
    sky = np.full((90, 120, 3), 180, np.uint8)
    for against in ((), [load("ben")]):
        seen = observe(sky, against=against)
        assert (len(seen.faces), seen.people, seen.report()) == (0, (), [])


def test_pictures_of_any_kind_and_what_is_none(observe, three, load, tmp_path):
    path = tmp_path / "three.png"
    Image.fromarray(three).save(path)
    for picture in (str(path), path, Image.fromarray(three), three):
        assert len(observe(picture).faces) == 3
    with pytest.raises(PictureUnreadable):
        observe(tmp_path / "nowhere.png")
    with pytest.raises(PictureUnreadable):
        observe(three, against=[tmp_path / "nowhere.png"])
    with pytest.raises(NoFace, match="the array"):
        observe(three, against=[np.zeros((90, 90, 3), np.uint8)])


def test_options_that_cannot_be_are_named(observe, three):
    with pytest.raises(InvalidOption, match="order="):
        observe(three, order="left")
    for distance in (-1, 3, "0.5", float("nan")):
        with pytest.raises(InvalidOption, match="max_distance"):
            mien.Observer(max_distance=distance)
    with pytest.raises(UnknownModel):
        mien.Observer(detector="mien-256")


def test_a_single_person_to_look_for_needs_no_list(observe, three, portraits, load):
    together = observe(three, against=[portraits["mei"]])
    for one in (str(portraits["mei"]), portraits["mei"], load("mei")):
        assert np.array_equal(observe(three, against=one).distances, together.distances)


def test_a_picture_that_is_too_large_is_refused(three):
    observe = mien.Observer(max_megapixels=0.1)
    with pytest.raises(PictureUnreadable, match=r"0\.1"):
        observe(Image.fromarray(three))


def test_only_networks_that_are_needed_run(three, monkeypatch, load):
    names, call = set(), OnnxEngine.__call__

    def counted(engine, inputs):
        names.add(engine.model)
        return call(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", counted)
    observe = mien.Observer()
    observe(three)
    assert names == {"yunet", "facemesh"}
    observe(three, against=[load("ben")])
    assert names == {"yunet", "facemesh", "sface"}


def test_no_consent_is_needed_to_look_and_nothing_is_kept(three, load, tmp_path, monkeypatch):
    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "home"))
    stranger = np.ascontiguousarray(load("eva")[:, ::-1])
    mien.Observer()(three, against=[stranger])
    assert list(tmp_path.iterdir()) == []


def test_a_drawing_has_numbers_and_no_mark(observe, three, tmp_path):
    path = tmp_path / "drawn.png"
    before = three.copy()
    seen = observe(three)
    seen.save(path)
    assert np.array_equal(three, before)
    drawn = read_picture(path).frame.pixels.numpy()
    assert drawn.shape == three.shape
    for left, top, right, bottom in seen.faces.boxes.round().int().tolist():
        changed = (drawn != three).any(axis=2)
        assert changed[top - 1 : top + 2, max(0, left) : right].any(axis=0).mean() > 0.9
        assert 0.1 < changed[top:bottom, left:right].mean() < 0.9
    assert DIGITAL_SOURCE_TYPE.encode() not in path.read_bytes()
