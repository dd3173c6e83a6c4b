"""Operators that are taken together do what they did one by one, and no others are."""

from __future__ import annotations

import pytest
import torch

from mien import Catalogue
from mien.nets.frozen import RULES, FrozenNet
from mien.nets.graph import Operator
from mien.nets.separable import merge_separable
from mien.nets.siblings import merge_siblings

HOW = {
    "within": {"group": 8, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]},
    "down": {"group": 8, "kernel_shape": [3, 3], "pads": [0, 0, 1, 1], "strides": [2, 2]},
    "across": {"kernel_shape": [1, 1]},
    "pool": {"kernel_shape": [2, 2], "strides": [2, 2]},
}


@pytest.fixture
def values():
    """Return what is stored: weights and biases for 8 channels, and 16 to become of them."""
    draw = torch.Generator().manual_seed(0)
    shapes = {
        "depth": (8, 1, 3, 3), "depth bias": (8,), "point": (8, 8, 1, 1), "point bias": (8,),
        "wide": (16, 8, 1, 1), "wide bias": (16,), "slope": (8, 1, 1), "wide slope": (16, 1, 1),
        "rows": (5, 8), "rows bias": (5,), "more": (3, 8), "more bias": (3,),
    }  # fmt: skip
    stored = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    return stored | {"channels": [0, 0, 0, 0, 0, 8, 0, 0], "lines": [0, 0, 0, 0, 0, 8, 1, 0]}


def conv(x, kind, to, how):
    return Operator("Conv", [x, kind, f"{kind} bias"], [to], HOW[how])


def op(kind, *names, **how):
    return Operator(kind, list(names[:-1]), [names[-1]], how)


BLOCK = [
    conv("x", "depth", "a", "within"), conv("a", "point", "b", "across"),
    op("Add", "x", "b", "c"), op("PRelu", "c", "slope", "y"),
]  # fmt: skip
POOL = Operator("MaxPool", ["x"], ["p"], HOW["pool"])
DOWN = [
    POOL, op("Pad", "p", "channels", "q"), conv("x", "depth", "a", "down"),
    conv("a", "wide", "b", "across"), op("Add", "q", "b", "c"), op("PRelu", "c", "wide slope", "y"),
]  # fmt: skip
UNIT = [conv("x", "point", "a", "across"), conv("a", "depth", "b", "within"), op("Relu", "b", "y")]


def run(steps, values, x, output="y"):
    known = {**values, "x": x, "": None}
    for step in steps:
        known[step.outputs[0]] = RULES[step.kind]([known[n] for n in step.inputs], step.attributes)
    return known[output]


def kinds(steps):
    return [step.kind for step in steps]


@pytest.mark.parametrize(("steps", "merged"), [
    (BLOCK, ["DepthPoint"]),
    ([*BLOCK[:2], op("Add", "b", "x", "c"), BLOCK[3]], ["DepthPoint"]),
    (DOWN, ["DepthPoint"]),
    (UNIT, ["PointDepth"]),
    ([*UNIT[:1], conv("a", "depth", "y", "within")], ["PointDepth"]),
])  # fmt: skip
def test_convolutions_in_a_row_are_one(steps, merged, values):
    x = torch.randn(2, 8, 6, 8)
    wanted = run(steps, values, x)
    made = merge_separable(steps, values, ["y"])
    assert kinds(made) == merged
    torch.testing.assert_close(run(made, values, x), wanted)


LATER = Operator("Conv", ["a", "depth", "depth bias"], ["b"], HOW["within"] | {"dilations": [2, 2]})


@pytest.mark.parametrize(("steps", "outputs"), [
    (BLOCK, ["y", "b"]),
    ([*UNIT, op("Add", "a", "y", "z")], ["z"]),
    ([UNIT[0], LATER, UNIT[2]], ["y"]),
    ([conv("x", "point", "a", "across"), conv("a", "depth", "y", "down")], ["y"]),
])  # fmt: skip
def test_what_somebody_else_reads_or_is_of_another_kind_is_left(steps, outputs, values):
    assert merge_separable(steps, values, outputs) == steps


@pytest.mark.parametrize("change", [{"strides": [1, 1]}, {"pads": [1, 1, 1, 1]}])
def test_another_pool_is_left(change, values):
    pool = Operator("MaxPool", ["x"], ["p"], HOW["pool"] | change)
    made = merge_separable([pool, *DOWN[1:]], values, ["y"])
    assert kinds(made) == ["MaxPool", "Pad", "DepthPoint"]
    assert not made[2].attributes["pooled"]


def test_a_pad_that_adds_lines_is_left(values):
    pad = op("Pad", "p", "lines", "q")
    assert kinds(merge_separable([POOL, pad, *DOWN[2:]], values, ["y"]))[:2] == ["MaxPool", "Pad"]


def test_a_pool_that_others_read_stays_for_them(values):
    steps = [*DOWN, op("Relu", "p", "z")]
    x = torch.randn(1, 8, 4, 4)
    wanted = run(steps, values, x), run(steps, values, x, "z")
    made = merge_separable(steps, values, ["y", "z"])
    assert kinds(made) == ["MaxPool", "DepthPoint", "Relu"]
    torch.testing.assert_close((run(made, values, x), run(made, values, x, "z")), wanted)


def test_products_of_the_same_value_are_one(values):
    how = {"alpha": 1.0, "beta": 1.0, "transB": 1}
    first = op("Gemm", "x", "rows", "rows bias", "u", **how)
    second = op("Gemm", "x", "more", "more bias", "v", **how)
    steps = [first, op("Relu", "u", "w"), second]
    x = torch.randn(4, 8)
    wanted = run(steps, values, x, "w"), run(steps, values, x, "v")
    made = merge_siblings(steps, values)
    assert kinds(made) == ["Gemm", "Slice", "Slice", "Relu"]
    torch.testing.assert_close((run(made, values, x, "w"), run(made, values, x, "v")), wanted)
    other = op("Gemm", "w", "more", "more bias", "v", **how)
    assert merge_siblings([first, other], values) == [first, other]


def test_heads_are_one(values):
    steps = [conv("x", "point", "a", "across"), conv("a", "depth", "y", "within")]
    twins = [conv("x", "point", "e", "across"), conv("e", "depth", "z", "within")]
    x = torch.randn(1, 8, 5, 4)
    wanted = run(steps, values, x)
    made = merge_siblings(merge_separable([*steps, *twins], values, ["y", "z"]), values)
    assert kinds(made) == ["PointDepth", "Slice", "Slice"]
    for name in "yz":
        torch.testing.assert_close(run(made, values, x, name), wanted)


@pytest.mark.parametrize(("name", "kind", "count"), [
    ("facemesh", "DepthPoint", 20), ("yunet", "PointDepth", 17), ("mien-256", "Gemm", 3),
    ("mien-lite", "Gemm", 3),
])  # fmt: skip
def test_the_networks_are_such(name, kind, count):
    steps = FrozenNet.read(Catalogue().card(name).read())._steps
    assert kinds(steps).count(kind) == count
