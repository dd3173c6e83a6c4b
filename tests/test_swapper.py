"""The Python API from end to end, with the networks that ship."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import CONSENT
from PIL import Image

import mien


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
    assert report["consent"] == dev.consent
    assert report["providers"] == {
        "yunet": "cpu",
        "facemesh": "cpu",
        "sface": "cpu",
        "starter": "cpu",
    }
    assert report["swapped"] == [0]
    assert set(report["milliseconds"]) == {"detect", "landmark", "align", "swap", "mask", "blend"}
    assert not result.partial
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


def test_a_damaged_file_of_weights_is_found_before_it_runs(tmp_path):
    shipped = mien.Catalogue().card("starter")
    card = shipped.file.with_suffix(".toml").read_text()
    (tmp_path / "starter.toml").write_text(card)
    content = bytearray(shipped.file.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / shipped.file.name).write_bytes(content)
    with pytest.raises(mien.errors.WeightsCorrupt, match="starter"):
        mien.Swapper(models=tmp_path)
