import json

import numpy as np
import onnxruntime as ort
import pytest
import torch

from mien.errors import TrainingError
from mien.train.occlusion.canvas import Dice
from mien.train.packs import write_pack
from mien.train.watermark.__main__ import FILES, LOG, NOTES, STATE, main
from mien.train.watermark.learn import MEASURES, Learner
from mien.train.watermark.pictures import Pictures
from mien.train.watermark.recipe import Recipe, changed
from mien.train.watermark.score import scores

CPU = torch.device("cpu")
TINY = changed(
    Recipe(),
    ["size=64", "side=64", "stored=64", "batch=16", "width=16", "depth=1", "widths=[8,8,8,8,8]"],
)
SETTINGS = [
    "--set=size=64",
    "--set=side=64",
    "--set=stored=64",
    "--set=batch=8",
    "--set=width=16",
    "--set=depth=1",
    "--set=widths=[8,8,8,8,8]",
]


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


def test_the_task_becomes_harder_when_bits_are_right_and_with_time():
    learner = Learner(TINY, CPU)
    learner._level(0.0)
    assert learner.level == 0
    learner.right.fill_(0.99)
    learner._level(0.0)
    assert float(learner.level) == pytest.approx(1 / TINY.pace)
    learner.right.fill_(0.5)
    learner._level(sum(TINY.forced) / 2)
    assert float(learner.level) == pytest.approx(1.0)
    learner._level(1.0)
    assert learner.level == 2


def test_marks_are_loud_first_and_end_above_the_floor():
    torch.manual_seed(0)
    learner = Learner(TINY, CPU)
    batch = Pictures(pixels(), 64, Dice(0, CPU))(16)
    for weight in learner.pair.encoder.out.parameters():
        weight.data.mul_(100)
    found = {}
    for level in (0.0, 2.0):
        learner.level.fill_(level)
        measures = dict(zip(MEASURES, learner.losses(batch)[1].tolist(), strict=True))
        found[level] = measures["psnr"]
    assert TINY.loud_floor - 0.5 < found[0.0] < TINY.loud_floor + 6
    assert found[2.0] > TINY.floor - 0.3


def test_steps_change_networks_and_a_state_is_taken_up(tmp_path):
    learner = Learner(TINY, CPU)
    batch = Pictures(pixels(), 64, Dice(0, CPU))(16)
    before = learner.pair.encoder.out.weight.clone()
    measures = learner.learn(batch, 0.3)
    assert torch.isfinite(measures).all()
    assert not torch.equal(before, learner.pair.encoder.out.weight)
    learner.save(tmp_path / "state.pt")
    other = Learner(TINY, CPU)
    other.resume(tmp_path / "state.pt")
    assert (other.step, other.progress, other.level) == (1, 0.3, learner.level)
    assert torch.equal(other.pair.encoder.out.weight, learner.pair.encoder.out.weight)
    with pytest.raises(TrainingError, match="no state"):
        Learner(changed(TINY, ["width=24"]), CPU).resume(tmp_path / "state.pt")


def test_the_command_trains_scores_and_exports(tmp_path, data):
    out = tmp_path / "out"
    given = ["--data", str(data), "--out", str(out), "--steps", "2", "--every", "1", *SETTINGS]
    main([*given, "--device", "cpu", "--to", "0.5"])
    notes = json.loads((out / NOTES).read_text())
    assert notes["steps"] == 2
    assert notes["scores"]["none"]["right"] > 0.2
    assert notes["scores"]["false"] == 0
    kinds = [json.loads(line)["kind"] for line in (out / LOG).read_text().splitlines()]
    assert kinds[:2] == ["step", "step"]
    assert "score" in kinds
    for name in FILES:
        ort.InferenceSession(out / name, providers=["CPUExecutionProvider"])
    main([*given, "--device", "cpu", "--resume", str(out / STATE)])
    assert json.loads((out / NOTES).read_text())["steps"] == 4


def test_scores_of_other_bits_have_no_payload():
    learner = Learner(changed(TINY, ["bits=16"]), CPU)
    found = scores(learner.average.encoder, learner.average.decoder, pixels(2).float() / 255)
    assert found["none"].whole is None
    assert found["psnr"] >= TINY.floor - 0.3


@pytest.mark.parametrize("setting", ["nothing=1", "batch=0.5", "widths=[1]", "batch=12"])
def test_what_is_no_setting_is_refused(setting):
    with pytest.raises(ValueError, match=r"has no|cannot be|multiple"):
        changed(Recipe(), [setting])
