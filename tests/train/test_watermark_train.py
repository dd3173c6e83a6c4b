import json

import numpy as np
import onnxruntime as ort
import pytest
import torch

from mien.errors import TrainingError
from mien.nets.watermark import SIDE, chips, composed
from mien.safety.watermark import Marker
from mien.safety.watermark import marked as marked_alone
from mien.train.occlusion.canvas import Dice
from mien.train.packs import write_pack
from mien.train.watermark.__main__ import FILE, LOG, NOTES, STATE, main
from mien.train.watermark.learn import MEASURES, Learner, correlation, marked, words
from mien.train.watermark.pictures import Pictures
from mien.train.watermark.recipe import Recipe, changed

CPU = torch.device("cpu")
TINY = changed(Recipe(), ["side=64", "stored=64", "batch=8", "width=8", "reach=[1]"])
SETTINGS = [f"--set={each}" for each in ("side=64", "stored=64", "batch=8", "width=8", "reach=[1]")]


def pixels(count=6, size=64):
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    quad = np.array([[0, 0], [64, 0], [64, 64], [0, 64]], np.float32)
    for name in ("some_64", "heldout_64"):
        faces = pixels(3).permute(0, 2, 3, 1).numpy()
        write_pack(folder / name, faces, range(3), [quad] * 3)
    return folder


def test_pictures_of_all_kinds():
    drawn = Pictures(pixels(), 64, Dice(0, CPU))
    batch = drawn(16)
    assert batch.shape == (16, 3, 64, 64)
    assert batch.min() >= 0
    assert batch.max() <= 1
    assert not torch.equal(batch, drawn(16))
    with pytest.raises(ValueError, match="multiple of 8"):
        drawn(12)


def test_marks_are_those_that_are_laid_on_pictures():
    bits = words(Dice(0, CPU), 2)
    tile = composed(chips(), bits)
    assert torch.allclose(tile[1:], composed(chips(), bits[1:]))
    marker = Marker(1)
    marker._tile = tile[:1]
    picture = (torch.rand(1, 3, 384, 384, generator=torch.Generator().manual_seed(0)) * 255).byte()
    mine, lie = marked(picture.float() / 255, tile[:1])
    theirs = marked_alone(picture[0].permute(1, 2, 0).contiguous(), marker)
    apart = (mine[0].permute(1, 2, 0) * 255 - theirs).abs()
    assert float((apart > 1).float().mean()) < 0.001
    assert lie.shape == (1, 1, 384, 384)
    assert (
        float(correlation(lie, mine.mean(dim=1, keepdim=True) - picture.float().mean(1) / 255))
        > 0.6
    )


def test_marks_are_loud_first():
    learner = Learner(TINY, CPU)
    batch = Pictures(pixels(), 64, Dice(0, CPU))(8)
    found = []
    for progress in (0.0, 0.5):
        learner.progress = progress
        found.append(dict(zip(MEASURES, learner.losses(batch)[1].tolist(), strict=True)))
    assert [each["loud"] for each in found] == [TINY.loud, 1]
    assert found[0]["psnr"] + 6 < found[1]["psnr"]
    assert found[1]["psnr"] > 42


def test_steps_change_the_network_and_a_state_is_taken_up(tmp_path):
    learner = Learner(TINY, CPU)
    batch = Pictures(pixels(), 64, Dice(0, CPU))(8)
    before = learner.network.out.weight.clone()
    measures = learner.learn(batch, 0.3)
    assert torch.isfinite(measures).all()
    assert not torch.equal(before, learner.network.out.weight)
    learner.save(tmp_path / "state.pt")
    other = Learner(TINY, CPU)
    other.resume(tmp_path / "state.pt")
    assert (other.step, other.progress) == (1, 0.3)
    assert torch.equal(other.network.out.weight, learner.network.out.weight)
    with pytest.raises(TrainingError, match="no state"):
        Learner(changed(TINY, ["width=24"]), CPU).resume(tmp_path / "state.pt")


def test_a_network_learns_to_see_loud_marks():
    torch.manual_seed(0)
    recipe = changed(TINY, ["side=256", "width=16", "loud=12", "quiet=100", "rate=3e-3"])
    learner = Learner(changed(recipe, ["warm_up=1"]), CPU)
    pictures = Pictures(pixels(), 256, learner.dice)
    alike = [float(learner.learn(pictures(8), 0.0)[1]) for _ in range(14)]
    assert sum(alike[-3:]) / 3 > 0.08 > alike[0]


def test_the_command_trains_scores_and_exports(tmp_path, data):
    out = tmp_path / "out"
    given = ["--data", str(data), "--out", str(out), "--steps", "2", "--every", "1", *SETTINGS]
    main([*given, "--device", "cpu", "--to", "0.5"])
    notes = json.loads((out / NOTES).read_text())
    assert notes["steps"] == 2
    assert set(notes["scores"]["none"]) == {"alike", "least"}
    assert notes["scores"]["psnr"] > 42
    kinds = [json.loads(line)["kind"] for line in (out / LOG).read_text().splitlines()]
    assert kinds[:2] == ["step", "step"]
    assert "score" in kinds
    session = ort.InferenceSession(out / FILE, providers=["CPUExecutionProvider"])
    y = np.zeros((1, 1, SIDE, 300), np.float32)
    assert session.run(None, {"brightness": y})[0].shape == y.shape
    main([*given, "--device", "cpu", "--resume", str(out / STATE)])
    assert json.loads((out / NOTES).read_text())["steps"] == 4


@pytest.mark.parametrize("setting", ["nothing=1", "batch=0.5", "reach=[0.5]", "batch=12"])
def test_what_is_no_setting_is_refused(setting):
    with pytest.raises(ValueError, match=r"has no|cannot be|multiple"):
        changed(Recipe(), [setting])
