"""The Python API from end to end, with the networks that ship."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import CONSENT, scene
from PIL import Image

import mien
from mien.engines import OnnxEngine, Peak


@pytest.fixture(scope="module")
def dev(swapper, load):
    return swapper.identity(load("dev"), consent=CONSENT)


def test_swap_changes_the_face_and_nothing_else(swapper, load, dev):
    target = load("ben")
    result = swapper.swap(target, dev)
    left, top, right, bottom = (round(v) for v in result.faces.boxes[0].tolist())
    inside = (slice(top, bottom), slice(left, right))
    assert np.abs(result.pixels[inside].astype(int) - target[inside]).mean() > 3
    outside = np.ones(target.shape[:2], bool)
    outside[top - 2 : bottom + 3, left - 2 : right + 3] = False
    assert np.array_equal(result.pixels[outside], target[outside])


def test_the_swapped_face_is_nearer_to_the_source(swapper, load, dev):
    # by SFace itself, which conditions the network: a check of the wiring, not of quality
    def cosine(picture):
        return float(swapper.identity(picture, consent=CONSENT).embedding @ dev.embedding)

    before = cosine(load("ben"))
    full, half = (swapper.swap(load("ben"), dev, strength=s).pixels for s in (1.0, 0.5))
    assert before < 0.4
    assert before + 0.05 < cosine(half) < cosine(full)
    assert cosine(full) > before + 0.25


def test_every_kind_of_picture_gives_the_same(swapper, load, portraits, dev):
    array = load("ben")
    kinds = [
        array,
        Image.fromarray(array),
        torch.from_numpy(array),
        portraits["ben"],
        str(portraits["ben"]),
    ]
    results = [swapper.swap(picture, dev).pixels for picture in kinds]
    assert all(np.array_equal(results[0], other) for other in results[1:])
    # the caller's own pixels are left alone
    assert np.array_equal(array, load("ben"))
    assert np.array_equal(np.asarray(kinds[1]), array)
    assert {swapper.identity(picture, consent=CONSENT).digest for picture in kinds} == {
        swapper.identity(array, consent=CONSENT).digest
    }


def test_a_stranger_among_the_pictures_is_left_out_and_named(swapper, load, portraits, tmp_path):
    lighter, wider = tmp_path / "lighter.png", tmp_path / "wider.png"
    Image.fromarray(np.clip(load("dev") * 1.2, 0, 255).astype(np.uint8)).save(lighter)
    Image.fromarray(load("dev")[20:620, 10:600]).save(wider)
    several = [portraits["dev"], lighter, portraits["mei"], wider]
    person = swapper.identity(several, consent=CONSENT)
    alone = swapper.identity(portraits["dev"], consent=CONSENT)
    assert person.outliers == ("mei.jpg",)
    assert float(person.embedding @ alone.embedding) > 0.9
    assert float(person.embedding.norm()) == pytest.approx(1, abs=1e-5)
    with pytest.raises(mien.errors.DifferentPeople, match="mei"):
        swapper.identity([portraits["dev"], portraits["mei"]], consent=CONSENT)


def test_a_statement_covers_nobody_else(load, portraits, tmp_path):
    swapper = mien.Swapper(ledger=tmp_path / "ledger.sqlite3")
    again = load("eva")[10:630, 5:635].copy()
    eva = swapper.identity([load("eva"), again, load("femi")], consent="I am Eva.")
    assert eva.outliers == ("the array",)
    assert swapper.identity([load("eva"), again, load("femi")]).consent == eva.consent
    assert swapper.identity(again).consent == eva.consent
    with pytest.raises(mien.errors.ConsentMissing):
        swapper.identity(load("femi"))
    # whom the first picture shows decides: others cannot take its place
    with pytest.raises(mien.errors.DifferentPeople):
        swapper.identity([load("femi"), load("eva"), again], consent="I am Femi.")
    with pytest.raises(mien.errors.NoFace):
        swapper.identity([np.zeros((90, 90, 3), np.uint8)], consent="I am nobody.")
    for refused in (load("femi"), np.zeros((90, 90, 3), np.uint8)):
        with pytest.raises(mien.errors.ConsentMissing):
            swapper.identity(refused)


@pytest.mark.parametrize("wrong", ["eva.jpg", None, 3])
def test_what_is_no_identity_or_statement_is_named(swapper, load, wrong):
    with pytest.raises(mien.errors.InvalidOption, match="identity"):
        swapper.swap(load("ben"), wrong)
    if not isinstance(wrong, str | None):
        with pytest.raises(mien.errors.InvalidOption, match="consent"):
            swapper.identity(load("ben"), consent=wrong)


def test_who_is_only_recognised_is_not_put_on_anybody(swapper, load):
    # a picture that no ledger knows, and whose face is still told from others
    stranger = np.ascontiguousarray(load("femi")[:, ::-1])[7:]
    person = swapper.reference(stranger)
    assert person.consent == ""
    with pytest.raises(mien.errors.ConsentMissing):
        swapper.identity(stranger)
    for use in ({"who": person}, {"map": {person: load("ben")}}):
        with pytest.raises(mien.errors.ConsentMissing):
            swapper.swap(load("ben"), **use)


def test_consent_is_asked_recorded_and_remembered(load, tmp_path):
    swapper = mien.Swapper(ledger=tmp_path / "ledger.sqlite3")
    with pytest.raises(mien.errors.ConsentMissing, match="the array"):
        swapper.identity(load("eva"))
    with pytest.raises(mien.errors.ConsentMissing):
        swapper.identity(load("eva"), consent="  ")
    given = swapper.identity(load("eva"), consent=CONSENT)
    assert given.consent.startswith("c-")
    assert swapper.identity(load("eva")).consent == given.consent
    with pytest.raises(mien.errors.ConsentMissing):
        swapper.identity(load("mei"))


def test_no_face_names_the_picture(swapper, dev):
    sky = np.full((120, 160, 3), 200, np.uint8)
    with pytest.raises(mien.errors.NoFace, match="the array"):
        swapper.swap(sky, dev)
    with pytest.raises(mien.errors.NoFace, match="the array"):
        swapper.identity(sky, consent=CONSENT)
    with pytest.raises(mien.errors.PictureUnreadable):
        swapper.identity([], consent=CONSENT)


def test_the_result_tells_what_happened(swapper, load, dev):
    result = swapper.swap(load("ben"), dev)
    report = json.loads(json.dumps(result.report()))
    assert report["consents"] == [dev.consent]
    assert report["providers"] == {
        "yunet": "cpu",
        "facemesh": "cpu",
        "sface": "cpu",
        "mien-occlusion": "cpu",
        "mien-256": "cpu",
    }
    assert report["swapped"] == [{"face": 0, "role": 0}]
    assert (report["faults"], report["missing"]) == ([], [])
    assert [face["index"] for face in report["faces"]] == [0]
    assert set(report["milliseconds"]) == {
        "detect",
        "landmark",
        "align",
        "swap",
        "mask",
        "guard",
        "occlusion",
        "blend",
    }
    assert not result.partial
    assert "gpu" not in report
    peak = Peak("cuda:0", "Some GPU", allocated=3, reserved=7)
    told = replace(result, gpu=peak).report()
    assert told == result.report() | {"gpu": peak.report()}
    assert result.consents == (dev.consent,)
    assert repr(result) == "Result(the array: 1 of 1 faces)"
    assert "0." not in repr(dev)  # a repr shows shapes, never biometric data
    assert result.image.size == (640, 640)


def test_two_swappers_with_different_settings_side_by_side(swapper, load, dev):
    other = mien.Swapper(blend="poisson", color_match=False, detector="retinaface", threads=1)
    targets = [load(name) for name in ("ben", "femi", "eva", "ada")]
    work = [(which, target) for target in targets for which in (swapper, other)]
    alone = [which.swap(target, dev).pixels for which, target in work]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda pair: pair[0].swap(pair[1], dev).pixels, work))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
    assert not np.array_equal(alone[0], alone[1])


def test_the_small_network_brings_the_same_person(swapper, load, dev):
    lite = mien.Swapper(model="mien-lite")
    results = [which.swap(load("ben"), dev) for which in (swapper, lite)]
    assert results[1].providers["mien-lite"] == "cpu"
    source, *swapped = (
        swapper.identity(picture, consent=CONSENT).embedding
        for picture in (load("dev"), *(result.pixels for result in results))
    )
    before = swapper.identity(load("ben"), consent=CONSENT).embedding
    likeness = [float((source * each).sum()) for each in (*swapped, before)]
    assert min(likeness[:2]) > likeness[2] + 0.15
    untouched = (results[0].pixels == load("ben")).all(axis=2) & ~(
        results[1].pixels == load("ben")
    ).all(axis=2)
    assert untouched.mean() < 0.01


def test_a_damaged_file_of_weights_is_found_before_it_runs(tmp_path):
    shipped = mien.Catalogue().card("mien-256")
    card = shipped.file.with_suffix(".toml").read_text()
    (tmp_path / "mien-256.toml").write_text(card)
    content = bytearray(shipped.file.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / shipped.file.name).write_bytes(content)
    with pytest.raises(mien.errors.WeightsCorrupt, match="mien_256"):
        mien.Swapper(models=tmp_path)


def test_a_network_that_fails_on_every_face_is_an_error(swapper, load, dev, monkeypatch):
    call = OnnxEngine.__call__

    def spoiled(engine, inputs):
        outputs = call(engine, inputs)
        if engine.model == "mien-256":
            outputs["output"][:] = float("nan")
        return outputs

    monkeypatch.setattr(OnnxEngine, "__call__", spoiled)
    with pytest.raises(mien.errors.BadOutput, match=r"'mien-256'.*not finite"):
        swapper.swap(load("ben"), dev)


# Whose face goes where


@pytest.fixture(scope="module")
def three(load):
    """Three people in a row, from left to right: ben, ada, mei."""
    return scene([load(name) for name in ("ben", "ada", "mei")], 256, 3).numpy()


def changed(before, after):
    """Return the numbers of the tiles that are different; the others are equal to the bit."""
    differs = (before != after).any(axis=(0, 2))
    return [i for i in range(3) if differs[256 * i : 256 * (i + 1)].any()]


def test_a_cast_is_made_once_for_many_pictures(swapper, load, three, dev):
    cast = swapper.cast(dev, only=load("mei"))
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        tiles = [three[:, 256 * i : 256 * (i + 1)] for i in order]
        picture = np.ascontiguousarray(np.hstack(tiles))
        result = swapper.swap(picture, cast)
        assert changed(picture, result.pixels) == [order.index(2)]
        assert result.cast is cast
        again = swapper.swap(picture, dev, only=load("mei"))
        assert np.array_equal(again.pixels, result.pixels)


def test_a_person_may_be_named_by_picture_pictures_or_reference(
    swapper, load, portraits, three, dev
):
    people = (load("ada"), portraits["ada"], [load("ada")], swapper.reference(load("ada")))
    results = [swapper.swap(three, dev, only=person).pixels for person in people]
    assert all(changed(three, pixels) == [1] for pixels in results)
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_two_people_swapped_crosswise(swapper, load, three):
    ben, ada = (swapper.identity(load(name), consent=CONSENT) for name in ("ben", "ada"))
    for pairs in ({ben: ada, ada: ben}, [(ben, load("ada")), (ada, [load("ben")])]):
        result = swapper.swap(three, map=pairs)
        assert changed(three, result.pixels) == [0, 1]
        assert sorted(result.consents) == sorted({ben.consent, ada.consent})
        left, middle = (
            swapper.reference(np.ascontiguousarray(result.pixels[:, i : i + 256])).embedding
            for i in (0, 256)
        )
        assert float(left @ ada.embedding) > float(left @ ben.embedding)
        assert float(middle @ ben.embedding) > float(middle @ ada.embedding)


def test_who_is_missing_is_said(swapper, load, three, dev):
    result = swapper.swap(three, map=[(dev, load("femi")), (dev, load("ben"))])
    assert (result.missing, result.partial) == ((0,), False)
    result = swapper.swap(three, dev, faces=[4, 0, 9], order="left-right")
    assert (result.missing, result.partial) == ((4, 9), True)
    assert changed(three, result.pixels) == [0]
    with pytest.raises(mien.errors.NoSuchFace, match=r"3 faces, 0 to 2.*no face 3, 5") as caught:
        swapper.swap(three, dev, faces=[3, 5])
    assert caught.value.found == 3
    with pytest.raises(mien.errors.NoSuchFace, match=r"one face, 0;.*no face 1"):
        swapper.swap(load("ben"), dev, faces=[1])


def test_a_person_who_is_absent_has_a_distance(swapper, load, three, dev):
    for options in ({"who": dev, "only": load("femi")}, {"map": {dev: load("femi")}}):
        with pytest.raises(mien.errors.PersonAbsent) as caught:
            swapper.swap(three, **options)
        error = caught.value
        assert 0.637 < error.nearest < 2
        assert error.limit == pytest.approx(0.637)
        assert f"{error.nearest:.2f}" in str(error)
        assert f"{error.limit:.2f}" in str(error)
        options["max_distance"] = error.nearest + 0.001
        assert len(changed(three, swapper.swap(three, **options).pixels)) == 1


def test_an_absent_person_in_a_picture_without_faces_is_no_face(swapper, load, dev):
    sky = np.full((90, 120, 3), 180, np.uint8)
    for options in ({"only": load("ben")}, {"faces": [2]}, {"faces": "all"}):
        with pytest.raises(mien.errors.NoFace) as caught:
            swapper.swap(sky, dev, **options)
        assert type(caught.value) is mien.errors.NoFace


# Looking


def test_before_is_what_was_there(swapper, three, dev, tmp_path, no_watermark):
    result = swapper.swap(three, dev, faces="all")
    assert np.array_equal(result.before, three)
    assert changed(three, result.pixels) == [0, 1, 2]
    result.save_compare(tmp_path / "c.png")
    result.save_debug_view(tmp_path / "d.png")
    with Image.open(tmp_path / "c.png") as image:
        both = np.array(image)
    assert np.array_equal(both[:256], three)
    assert np.array_equal(both[-256:], result.pixels)
    assert result.consents[0].encode() in (tmp_path / "c.png").read_bytes()
    # looking changes nothing
    assert np.array_equal(result.before, three)
    with Image.open(tmp_path / "d.png") as image:
        assert image.size == (768, 256)


def test_each_frame_of_an_animation_has_its_own_faces(swapper, load, dev, tmp_path):
    sky = np.full((200, 200, 3), 180, np.uint8)
    frames = [scene([load("ben")], 200, 1).numpy(), sky, scene([load("mei")], 200, 1).numpy()]
    first, *others = (Image.fromarray(frame) for frame in frames)
    path = tmp_path / "moves.png"
    first.save(path, save_all=True, append_images=others, duration=[100, 200, 300])
    for options, who in (({}, [True, False, True]), ({"only": load("mei")}, [False, False, True])):
        result = swapper.swap(path, dev, **options)
        assert [bool(moment.chosen) for moment in result.moments] == who
        after = [moment.frame.pixels.numpy() for moment in result.moments]
        same = [np.array_equal(a, b) for a, b in zip(after, frames, strict=True)]
        assert same == [not each for each in who]
        shown = who.index(True)
        assert np.array_equal(result.before, frames[shown])
        assert np.array_equal(result.pixels, after[shown])
        report = result.report()
        assert [row["seconds"] for row in report["frames"]] == pytest.approx([0, 0.1, 0.3])
        assert [len(row["swapped"]) for row in report["frames"]] == [int(each) for each in who]
        assert (result.partial, result.missing) == (False, ())
    with pytest.raises(mien.errors.PersonAbsent, match=r"moves\.png"):
        swapper.swap(path, dev, only=load("femi"))
    with pytest.raises(mien.errors.NoSuchFace, match="one face"):
        swapper.swap(path, dev, faces=[1])


def test_a_number_is_not_missing_if_some_frame_has_it(swapper, load, dev, tmp_path):
    alone = scene([load("ben")], 150, 2)
    alone[:, 150:] = 180
    both = scene([load("ben"), load("mei")], 150, 2)
    first, second = (Image.fromarray(frame.numpy()) for frame in (alone, both))
    path = tmp_path / "moves.png"
    first.save(path, save_all=True, append_images=[second], duration=100)
    result = swapper.swap(path, dev, faces=[1], order="left-right")
    assert [len(moment.faces) for moment in result.moments] == [1, 2]
    assert [moment.chosen for moment in result.moments] == [(), (1,)]
    assert (result.missing, result.partial) == ((), False)
    assert swapper.swap(path, dev, faces=[1, 2], order="left-right").missing == (2,)
