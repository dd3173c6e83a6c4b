"""The judges: their cards are true, and they see what is there to be seen."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from mien.errors import CardInvalid, InvalidOption, WeightsCorrupt, WeightsMissing
from mien.evaluate.cards import SHIPPED, read_judge_card, shipped
from mien.evaluate.judges import Judges
from mien.evaluate.reading import read
from mien.evaluate.topology import EYES


@pytest.fixture(scope="module")
def judges():
    return Judges.load(threads=1)


@pytest.fixture(scope="module")
def seen(judges, find, load):
    """Return a portrait, turned by 0 and 15 degrees about its face, and what the judges say."""
    pixels = load("ada")
    frame = torch.from_numpy(pixels)
    face = find(frame, largest_only=True)[:1]
    centre = tuple(face.points[0].mean(dim=0).tolist())
    image = Image.fromarray(pixels).rotate(-15, Image.Resampling.BICUBIC, center=centre)
    turned = torch.from_numpy(np.array(image))
    faces = [face, find(turned, largest_only=True)[:1]]
    return read(judges, [frame, turned], torch.cat([one.points for one in faces]))


def embedder(path, shape=(None, 3, 112, 112)):
    """Write an ONNX file that embeds a crop by its mean colours."""
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["data"], ["mean"]),
            helper.make_node("Flatten", ["mean"], ["out"]),
        ],
        "colours",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [None, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def test_the_shipped_cards_describe_their_files():
    paths = sorted(SHIPPED.glob("*.toml"))
    cards = [read_judge_card(path)[0] for path in paths]
    assert {card.role for card in cards} == {"identity", "pose", "mesh"}
    for card in cards:
        card.read()
        assert card.notice is not None
        assert (SHIPPED / card.notice).is_file()
    assert sorted(card.file.name for card in cards) == sorted(
        p.name for p in SHIPPED.glob("*.onnx*")
    )
    assert sum(card.size for card in cards) < 17e6


def test_dlibs_points_are_those_of_its_author():
    """From get_face_chip_details in dlib/image_transforms/interpolation.h, padding 0.25."""
    unit = [
        (0.8595674595992, 0.2134981538014),
        (0.6460604764104, 0.2289674387677),
        (0.1205750620789, 0.2137274526848),
        (0.3340850613712, 0.2290642403242),
        (0.4901123135679, 0.6277975316475),
    ]
    ((_, contract),) = shipped("identity")
    expected = [((0.25 + x) / 1.5 * 150, (0.25 + y) / 1.5 * 150) for x, y in unit]
    assert np.allclose(contract.points, expected, atol=0.001)


def test_a_card_that_is_wrong_is_refused(tmp_path):
    text = (SHIPPED / "dlib_resnet_128d.toml").read_text()
    path = tmp_path / "card.toml"
    for wrong in (
        text.replace("size = 150", 'size = "150"'),
        text.replace('role = "identity"', 'role = "swapper"'),
        text + "\n[more]\nx = 1\n",
        "name =",
    ):
        path.write_text(wrong)
        with pytest.raises(CardInvalid, match=r"card\.toml"):
            read_judge_card(path)
    path.write_text(text)
    card, _ = read_judge_card(path)
    with pytest.raises(WeightsMissing):
        card.read()
    card.file.write_bytes(b"not it")
    with pytest.raises(WeightsCorrupt):
        card.read()


def test_a_bare_embedder_sees_arcfaces_crop_and_range(tmp_path, find, load):
    path = embedder(tmp_path / "colours.onnx")
    judges = Judges.load([path], threads=1)
    assert [judge.name for judge in judges.identity] == ["colours", "dlib"]
    assert judges.account()[0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    frame = torch.zeros(200, 200, 3, dtype=torch.uint8)
    frame[..., 0], frame[..., 1] = 255, 51
    points = torch.tensor([[[80.0, 80], [120, 80], [100, 100], [85, 120], [115, 120]]])
    found = judges.identity[0]([frame], points, torch.zeros(1, 478, 3))
    assert found[0].tolist() == pytest.approx([1.0, -0.6, -1.0], abs=1e-4)


def test_a_file_that_is_no_embedder_is_refused(tmp_path):
    with pytest.raises(InvalidOption, match="112"):
        Judges.load([embedder(tmp_path / "small.onnx", (None, 3, 64, 64))], threads=1)
    with pytest.raises(InvalidOption, match="judge"):
        Judges.load([tmp_path / "missing.onnx"], threads=1)
    with pytest.raises(InvalidOption, match="a judge of identity"):
        Judges.load([SHIPPED / "fsanet_var.toml"], threads=1)
    twice = embedder(tmp_path / "dlib.onnx")
    with pytest.raises(InvalidOption, match="different names"):
        Judges.load([twice], threads=1)


def test_a_face_is_found_and_its_irises_lie_in_its_eyes(seen):
    assert bool((seen.presence > 5).all())
    for left, right, upper, lower, iris in EYES:
        x, y = seen.mesh[0, iris, :2].tolist()
        assert seen.mesh[0, left, 0] < x < seen.mesh[0, right, 0]
        assert seen.mesh[0, upper, 1] - 2 < y < seen.mesh[0, lower, 1] + 2


def test_a_head_turned_by_fifteen_degrees_has_that_roll_and_is_the_same_person(seen):
    yaw, pitch, roll = (seen.pose[1] - seen.pose[0]).tolist()
    assert roll == pytest.approx(15, abs=3)
    assert max(abs(yaw), abs(pitch)) < 5
    across = seen.mesh[:, 263, :2] - seen.mesh[:, 33, :2]
    angles = torch.atan2(across[:, 1], across[:, 0])
    assert math.degrees(float(angles[1] - angles[0])) == pytest.approx(15, abs=1.5)
    a, b = seen.embeddings["dlib"]
    assert float((a - b).norm()) < 0.3


def test_strangers_are_apart(judges, find, load):
    frames = [torch.from_numpy(load(name)) for name in ("ada", "ben")]
    points = torch.cat([find(frame, largest_only=True)[:1].points for frame in frames])
    a, b = read(judges, frames, points).embeddings["dlib"]
    assert float((a - b).norm()) > 0.6


def test_a_reading_of_what_did_not_change_does_not_change(judges, find, load):
    frame = torch.from_numpy(load("ben"))
    points = find(frame, largest_only=True)[:1].points
    before = read(judges, [frame], points)
    after = read(judges, [frame], points, before=before)
    assert torch.equal(after.points, before.points)
    assert torch.equal(after.pose, before.pose)
    assert torch.equal(after.embeddings["dlib"], before.embeddings["dlib"])


def test_the_points_move_with_the_mesh(judges, find, load):
    frame = torch.from_numpy(load("ben"))
    points = find(frame, largest_only=True)[:1].points
    before = read(judges, [frame], points)
    moved = torch.roll(frame, (4, 6), dims=(0, 1))
    after = read(judges, [moved], points, before=before)
    shift = (after.points - before.points)[0].mean(dim=0).tolist()
    assert shift == pytest.approx([6, 4], abs=1.0)


def test_ages_are_the_mean_of_the_distribution(tmp_path, judges):
    """A network that is sure of 30 for a white crop and of 20 for a black one."""
    weights = np.zeros((3, 100), np.float32)
    weights[:, 30], weights[:, 20] = 1 / 3 / 255, -1 / 3 / 255
    bias = np.zeros((1, 100), np.float32)
    bias[0, 20] = 1
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["crop"], ["mean"], axes=[1, 2], keepdims=0),
            helper.make_node("Gemm", ["mean", "w", "b"], ["years"]),
        ],
        "age",
        [helper.make_tensor_value_info("crop", TensorProto.FLOAT, [None, 224, 224, 3])],
        [helper.make_tensor_value_info("years", TensorProto.FLOAT, [None, 100])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "age.onnx")
    age = Judges.load(age=tmp_path / "age.onnx", threads=1).age
    points = torch.tensor([[[40.0, 40], [60, 40], [50, 50], [42, 60], [58, 60]]]).repeat(2, 1, 1)
    frames = [torch.full((100, 100, 3), value, dtype=torch.uint8) for value in (255, 0)]
    assert age(frames, points).tolist() == pytest.approx([30, 20], abs=1e-3)
