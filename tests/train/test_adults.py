import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mien.train.adults import adults, estimated_ages
from mien.train.faces import Watchers
from mien.train.packs import Pack, write_pack
from mien.train.recipe import Recipe, from_table
from mien.train.visit import Order, run

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def looker(nets):
    return Watchers.read(nets, CPU).age


def pack_of(levels, size=64):
    pixels = torch.stack([torch.full((3, size, size), v, dtype=torch.uint8) for v in levels])
    quads = torch.tensor([[[0.0, 0], [size, 0], [size, size], [0, size]]]).repeat(len(levels), 1, 1)
    numbers = torch.arange(len(levels))
    return Pack(pixels, numbers, quads, torch.full((len(levels),), size))


def test_ages_are_the_expected_years(looker):
    # the stand-in takes bright pictures for 80 years and dark ones for 2
    ages = estimated_ages(pack_of([0, 255]).pixels, looker)
    assert float(ages[0]) < 12
    assert float(ages[1]) > 70


def test_the_young_are_left_out_by_what_is_known_of_the_pack(looker):
    pack = pack_of([0, 50, 60, 255])
    ages = estimated_ages(pack.pixels, looker)
    limits = {"youngest": float(ages[2]) + 1, "labelled": float(ages[1]) + 1}
    kept = adults(pack, Path("faces_256"), looker, **limits)
    assert kept.people.tolist() == [3]
    assert kept.pixels.shape == (1, 3, 64, 64)
    assert len(kept.quads) == len(kept.native) == 1
    labelled = adults(pack, Path("some_adults_256"), looker, **limits)
    assert labelled.people.tolist() == [2, 3]


def test_the_usual_limits_are_not_below_24():
    assert Recipe().youngest >= 30 > Recipe().youngest_labelled >= 24


def test_a_run_learns_from_nobody_young(tmp_path, nets, recipe, capsys):
    bright, dark = np.full((64, 64, 3), 250, np.uint8), np.full((64, 64, 3), 5, np.uint8)
    quad = np.array([[-9, -9], [73, -9], [73, 73], [-9, 73]], dtype=np.float32)
    write_pack(tmp_path / "all", [bright, dark, bright], [0, 1, 2], [quad] * 3)
    run(Order(data=tmp_path, nets=nets, out=tmp_path / "out", device="cpu", steps=1), recipe)
    assert "all: 2 of 3 are old enough" in capsys.readouterr().out
    assert json.loads((tmp_path / "out/state.json").read_text())["step"] == 1


def test_a_pack_of_children_alone_is_refused(tmp_path, nets):
    dark = np.full((64, 64, 3), 5, np.uint8)
    quad = np.array([[-9, -9], [73, -9], [73, 73], [-9, 73]], dtype=np.float32)
    write_pack(tmp_path / "all", [dark] * 3, [0, 1, 2], [quad] * 3)
    order = Order(data=tmp_path, nets=nets, out=tmp_path / "out", device="cpu", steps=1)
    with pytest.raises(ValueError, match="old enough"):
        run(order, from_table({"batch": 2, "shape": {"size": 64}}))
