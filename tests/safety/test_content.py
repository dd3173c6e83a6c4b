"""The content filter: by a network that gives a fixed score; no such picture is needed."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch
from conftest import CONSENT
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from mien.cli.exits import Exit, exit_code
from mien.engines import OnnxEngine
from mien.errors import UnsuitableContent, WeightsCorrupt, WeightsMissing
from mien.loader import CONTENT
from mien.models import Catalogue, catalogue
from mien.stages.content import Content


def scoring(score):
    """Return a network that gives every picture this score."""
    chances = np.array([[1 - score, score]], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["input_0"], ["mean"], axes=[1, 2, 3], keepdims=0),
            helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
            helper.make_node("Unsqueeze", ["nothing", "one"], ["row"]),
            helper.make_node("Add", ["row", "chances"], ["4195"]),
        ],
        "fixed",
        [helper.make_tensor_value_info("input_0", TensorProto.FLOAT, ["n", 224, 224, 3])],
        [helper.make_tensor_value_info("4195", TensorProto.FLOAT, ["n", 2])],
        [
            numpy_helper.from_array(np.zeros((), np.float32), "zero"),
            numpy_helper.from_array(np.array([1], np.int64), "one"),
            numpy_helper.from_array(chances, "chances"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return Content(OnnxEngine("fixed", model.SerializeToString), Catalogue().card(CONTENT).contract)


@pytest.fixture
def score(swapper, monkeypatch):
    def give(value):
        monkeypatch.setattr(swapper._guard, "content", lambda: scoring(value))

    return give


@pytest.fixture
def who(swapper, people):
    return swapper.identity(people["dev"], consent=CONSENT)


def test_the_bundled_portraits_are_no_false_alarm(swapper, people):
    for path in people.values():
        assert swapper._guard.content()(swapper._read(path)[0].frame.view) < 0.2


def test_a_picture_is_refused_and_the_log_tells(swapper, people, score, who):
    score(0.9)
    with pytest.raises(UnsuitableContent, match=r"the picture.*score 0.90, refused from") as caught:
        swapper.swap(people["ada"], who)
    assert exit_code(caught.value) == Exit.CONTENT == 10
    last = sorted(swapper.ledger.audit.folder.glob("*.jsonl"))[-1].read_text().splitlines()[-1]
    line = json.loads(last)
    assert (line["event"], line["reason"]) == ("refused", "UnsuitableContent")


def test_below_the_limit_it_is_swapped(swapper, people, score, who, painted):
    score(0.79)
    assert swapper.swap(people["ada"], who).swapped.chosen


def test_a_clip_is_refused_with_the_time_and_nothing_is_left(
    swapper, clips, who, monkeypatch, tmp_path, painted
):
    calls, networks = [], [scoring(0.1), scoring(0.95)]

    def content():
        calls.append(1)
        return networks[min(len(calls) - 1, 1)]

    monkeypatch.setattr(swapper._guard, "content", content)
    monkeypatch.setattr("mien.pipeline.guarding.SAMPLE", 0.5)
    with pytest.raises(UnsuitableContent, match=r"the frame at 0\.[56]\d s") as caught:
        swapper.swap_video(clips["long"], who, output=tmp_path / "o.mkv", resume=True)
    assert caught.value.time == pytest.approx(0.5, abs=0.1)
    assert (len(calls), list(tmp_path.iterdir())) == (2, [])


@pytest.mark.parametrize("damaged", [False, True])
def test_without_its_weights_nothing_is_swapped(
    swapper, people, who, monkeypatch, tmp_path, damaged
):
    if damaged:
        (tmp_path / "open_nsfw.onnx").write_bytes(b"not the network")
    monkeypatch.setattr(
        catalogue, "_carrier", lambda package, folder: tmp_path if package else folder
    )
    monkeypatch.setattr(
        swapper._guard, "content", lambda: Content(None, Catalogue().card(CONTENT).read())
    )
    with pytest.raises(WeightsCorrupt if damaged else WeightsMissing, match="open"):
        swapper.swap(people["ada"], who)


def test_the_picture_is_given_as_the_network_was_taught(monkeypatch):
    content = scoring(0.5)
    prepared = content._prepared(
        torch.from_numpy(np.asarray(Image.new("RGB", (640, 300), (255, 0, 0))).copy())
    )
    given = content.contract.pixels.encode(prepared)
    assert given.shape == (1, 224, 224, 3)
    assert given[0, 112, 112].tolist() == pytest.approx([-104, -117, 132], abs=3)


@pytest.mark.parametrize(
    ("height", "width"), [(480, 853), (1200, 900), (90, 70), (1, 5), (3000, 2)]
)
def test_a_picture_is_made_small_as_pillow_does_it(height, width, monkeypatch):
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    content, kept = scoring(0.5), []
    monkeypatch.setattr(
        "mien.stages.content.Image.fromarray", lambda array: kept.append(array) or picture
    )
    picture = Image.new("RGB", (256, 256))
    content._prepared(torch.from_numpy(pixels))
    monkeypatch.undo()
    wanted = Image.fromarray(pixels).resize((256, 256), Image.Resampling.BILINEAR)
    assert np.abs(kept[0].astype(int) - np.asarray(wanted).astype(int)).max() <= 1
