"""Files of a training run that are damaged: what is said of them."""

import json
import shutil

import numpy as np
import pytest
import torch

from mien.errors import TrainingError
from mien.train import state
from mien.train.deliver import deliver
from mien.train.faces import Watchers
from mien.train.packs import read_pack
from mien.train.recipe import Recipe, changed, from_table
from mien.train.visit import Order, run

CPU = torch.device("cpu")


@pytest.fixture
def pack(tmp_path, data):
    shutil.copytree(data, tmp_path / "packs")
    return tmp_path / "packs" / "fine"


def cut_short(pack):
    pack.with_suffix(".bin").write_bytes(pack.with_suffix(".bin").read_bytes()[:-9])


def scribbled(pack):
    size = pack.with_suffix(".bin").stat().st_size
    pack.with_suffix(".bin").write_bytes(b"x" * size)


def table(name, value):
    return lambda pack: np.save(f"{pack}.{name}.npy", value)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (cut_short, r"fine\.bin .* its pictures end at"),
        (scribbled, r"fine\.bin .* picture 0 cannot be decoded"),
        (lambda pack: pack.with_suffix(".bin").unlink(), r"fine\.bin .* No such file"),
        (lambda pack: (pack.parent / "fine.quad.npy").unlink(), r"quad\.npy .* No such file"),
        (lambda pack: (pack.parent / "fine.pid.npy").write_text("x"), r"pid\.npy .* NumPy"),
        (lambda pack: (pack.parent / "fine.off.npy").write_text(""), r"off\.npy .* NumPy"),
        (table("off", np.arange(3)), "end at 2"),
        (table("off", np.int64([0, 9, 5])), "rising"),
        (table("off", np.int64([])), "rising"),
        (table("pid", np.arange(2)), r"\(2,\) instead of numbers \(4,\)"),
        (table("pid", np.array(["a", "b", "c", "d"])), "instead of numbers"),
        (table("quad", np.zeros((4, 8))), r"\(4, 8\) instead of numbers \(4, 4, 2\)"),
        (table("quad", np.full((4, 4, 2), np.nan)), "not finite"),
    ],
)
def test_packs(pack, harm, said):
    harm(pack)
    with pytest.raises(TrainingError, match=said):
        read_pack(pack, 64, CPU)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("sface.pt", None, "no network sface"),
        ("facemesh.pt", None, "no network facemesh"),
        ("sface.pt", "nonsense", r"sface\.pt .* no network could be read"),
        ("sface.pt", "judge.pt", r"returns \(2, 16\)"),
        ("judge.pt", "facemesh.pt", r"judge\.pt .* cannot be run on faces"),
    ],
)
def test_networks(tmp_path, nets, name, content, said):
    folder = shutil.copytree(nets, tmp_path / "nets")
    if content is None:
        (folder / name).unlink()
    elif (nets / content).exists():
        shutil.copy(nets / content, folder / name)
    else:
        (folder / name).write_text(content)
    with pytest.raises(TrainingError, match=said):
        Watchers.read(folder, CPU)


@pytest.fixture
def trained(tmp_path, data, nets, recipe):
    order = Order(data=data, nets=nets, out=tmp_path / "out", device="cpu", steps=1, start=0.0)
    run(order, recipe)
    return order.out


@pytest.mark.parametrize("harm", ["cut", "piece", "manifest", "keys", "whole"])
def test_states(trained, harm):
    manifest = trained / state.MANIFEST
    notes = json.loads(manifest.read_text())
    match harm:
        case "cut":
            (trained / "state.0").write_bytes((trained / "state.0").read_bytes()[:1000])
        case "piece":
            (trained / "state.0").unlink()
        case "manifest":
            manifest.write_text("{")
        case "keys":
            manifest.write_text(json.dumps({k: v for k, v in notes.items() if k != "sha256"}))
        case "whole":
            (trained / state.WHOLE).write_text("junk")
    with pytest.raises(TrainingError, match="damaged"):
        state.averaged(trained)


def test_a_state_of_another_network(trained, data, nets, tmp_path):
    order = Order(data=data, nets=nets, out=tmp_path / "x", device="cpu", steps=1, state=trained)
    other = changed(Recipe(network="mien-lite"), ["width=4", "batch=2", "bfloat16=false"])
    with pytest.raises(TrainingError, match="not those of the recipe"):
        run(order, other)
    manifest = trained / state.MANIFEST
    notes = json.loads(manifest.read_text())
    notes["recipe"]["shape"]["middle"] = 2
    manifest.write_text(json.dumps(notes))
    with pytest.raises(TrainingError, match="not that of its recipe"):
        deliver(trained, tmp_path / "net.onnx")


@pytest.mark.parametrize(
    "setting",
    [
        *("batch=abc", "batch=0", "batch=-1", "batch=1.5", "batch=true", "weights.mesh=x"),
        *("weights=3", "rate=NaN", "rate=-1", "bfloat16=yes", "network=5", "betas=[0]"),
        *("betas=[0, 1.5]", 'shape={"a":1}', "shape.widths=3", "shape.size=63", "shape.size=64.5"),
        *("shares.triplet=0.9", "seed.x=3", "weigths.mesh=3", "phases.decay=null"),
    ],
)
def test_recipes(setting):
    with pytest.raises(ValueError, match=r"\w"):
        changed(Recipe(), [setting])


def test_whole_numbers_are_numbers_too():
    assert changed(Recipe(), ["weights.mesh=8"]).weights.mesh == 8.0
    # states from before ``compile`` named a mode
    assert from_table({"compile": False}) == Recipe()
