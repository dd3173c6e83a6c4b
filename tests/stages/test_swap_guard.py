"""Never a black face: what a broken network returns is noticed, retried, and reported."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
import torch
from conftest import StandIn

from mien.engines import numbers_faults, run_guarded
from mien.errors import EngineError, SpaceMismatch, TemplateMismatch
from mien.models import SwapperContract
from mien.models.contracts import PixelFormat
from mien.stages.swap import FaceSwap
from mien.types import Crops

SIDE = 16


def contract(pixels):
    return SwapperContract(
        target="target",
        source="source",
        output="output",
        pixels=pixels,
        size=SIDE,
        template="arcface_128",
        space="sface",
    )


SIGNED = PixelFormat(low=-1.0, high=1.0)
FORMATS = {
    "0 to 1": PixelFormat(),
    "-1 to 1": SIGNED,
    "0 to 255, BGR": PixelFormat(high=255.0, order="BGR"),
    "last channel": PixelFormat(low=-1.0, high=1.0, layout="NHWC"),
    "ImageNet": PixelFormat(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    "(code - 127.5) / 127.5": PixelFormat(high=255.0, mean=(127.5,) * 3, std=(127.5,) * 3),
}


def crops(number=3, template="arcface_128"):
    pixels = torch.from_numpy(np.random.default_rng(0).random((number, 3, SIDE, SIDE), np.float32))
    return Crops(pixels, torch.eye(3)[:2].expand(number, 2, 3), template)


EMBEDDINGS = torch.nn.functional.normalize(torch.arange(1.0, 13).reshape(3, 4), dim=1)


def painted(inputs, pixels=SIGNED):
    """A good output: each target as a negative, dimmed by the first number of its embedding."""
    faces = pixels.decode(inputs["target"])
    return pixels.encode((1 - faces) * inputs["source"][:, :1, None, None])


def good(inputs):
    return {"output": painted(inputs)}


def swap_with(function, safe=None, pixels=SIGNED):
    calls = []

    def counted(which, run):
        def call(inputs):
            calls.append((which, len(inputs["target"])))
            return run(inputs)

        return call

    engine = StandIn(counted("first", function), counted("safe", safe or function))
    return FaceSwap(engine, contract(pixels)), calls


def expected(number=3):
    return (1 - crops(number).pixels) * EMBEDDINGS[:number, :1, None, None]


def full(value):
    return lambda inputs: {"output": torch.full_like(inputs["target"], value)}


def coloured(inputs):
    """One flat colour that is not gray, as a network gives whose features are all zero."""
    skin = torch.tensor([0.8, 0.6, 0.5]).view(1, 3, 1, 1) * 2 - 1
    return {"output": skin.expand_as(inputs["target"]).clone()}


def partly(value):
    def run(inputs):
        result = painted(inputs)
        result[:, 1, 3, 5] = value
        return {"output": result}

    return run


def off_range(offset):
    """Values that vary, but all lie on one side of the range: clamped they are one colour."""
    return lambda inputs: {"output": painted(inputs) + offset}


BAD = {
    "NaN": full(torch.nan),
    "infinity": full(torch.inf),
    "a single NaN": partly(torch.nan),
    "a single infinity": partly(-torch.inf),
    "zeros": full(0.0),
    "black": full(-1.0),
    "white": full(1.0),
    "gray": full(0.3),
    "one flat colour": coloured,
    "far too dark": off_range(-4.0),
    "far too bright": off_range(4.0),
    "a huge constant": full(1e30),
    "wrong channels": lambda inputs: {"output": painted(inputs)[:, :2]},
    "wrong size": lambda inputs: {"output": painted(inputs)[..., :-1]},
    "wrong layout": lambda inputs: {"output": painted(inputs).permute(0, 2, 3, 1)},
    "no batch": lambda inputs: {"output": painted(inputs)[0]},
    "half a batch": lambda inputs: {"output": painted(inputs)[:1]},
    "a larger batch": lambda inputs: {"output": torch.cat([painted(inputs)] * 2)},
    "a number": lambda inputs: {"output": torch.tensor(0.5)},
}

REASONS = {
    "NaN": "not finite",
    "infinity": "not finite",
    "a single NaN": "not finite",
    "a single infinity": "not finite",
    "zeros": "flat",
    "black": "flat",
    "white": "flat",
    "gray": "flat",
    "one flat colour": "flat",
    "wrong channels": r"\(2, 16, 16\)",
    "wrong size": r"\(3, 16, 15\)",
    "wrong layout": r"\(16, 16, 3\)",
    "no batch": r"\(16, 16\)",
    "half a batch": "batch of 3",
    "a larger batch": "batch of 3",
    "a number": "batch of 3",
}


def test_a_good_output_is_used_as_it_is():
    swap, calls = swap_with(good)
    swapped, faults = swap(crops(), EMBEDDINGS, "sface")
    assert faults == (None, None, None)
    torch.testing.assert_close(swapped.pixels, expected(), atol=1e-6, rtol=0)
    assert calls == [("first", 3)]
    assert torch.equal(swapped.matrices, crops().matrices)
    assert swapped.template == "arcface_128"


@pytest.mark.parametrize("name", BAD)
def test_a_bad_output_is_retried_once_and_the_good_one_used(name, caplog):
    swap, calls = swap_with(BAD[name], safe=good)
    with caplog.at_level(logging.WARNING):
        swapped, faults = swap(crops(), EMBEDDINGS, "sface")
    assert calls == [("first", 3), ("safe", 3)]
    assert faults == (None, None, None)
    torch.testing.assert_close(swapped.pixels, expected(), atol=1e-6, rtol=0)
    # the fallback is not silent
    assert "stand-in" in caplog.text
    assert "safe mode" in caplog.text


@pytest.mark.parametrize("name", BAD)
def test_a_face_that_is_bad_twice_has_a_fault_and_a_reason(name):
    swap, calls = swap_with(BAD[name])
    _, faults = swap(crops(), EMBEDDINGS, "sface")
    assert len(faults) == 3
    assert all(faults)
    assert calls == [("first", 3), ("safe", 3)]
    assert all(re.search(REASONS.get(name, "."), fault) for fault in faults)


@pytest.mark.parametrize("name", [name for name in BAD if name != "half a batch"])
def test_a_single_face_is_guarded_too(name):
    swap, calls = swap_with(BAD[name], safe=good)
    swapped, faults = swap(crops(1), EMBEDDINGS[:1], "sface")
    assert calls == [("first", 1), ("safe", 1)]
    assert faults == (None,)
    torch.testing.assert_close(swapped.pixels, expected(1), atol=1e-6, rtol=0)


ROW_BAD = ["NaN", "infinity", "zeros", "black", "white", "one flat colour", "far too dark"]


def spoilt(name, row):
    """Return a good function whose output is bad in one row of a batch of three."""

    def run(inputs):
        result = painted(inputs)
        wanted = EMBEDDINGS[row].expand_as(inputs["source"])
        same = (inputs["source"] == wanted).all(dim=1)
        result[same] = BAD[name](inputs)["output"][same]
        return {"output": result}

    return run


@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("name", ROW_BAD)
def test_one_bad_face_leaves_the_others(name, row):
    swap, calls = swap_with(spoilt(name, row))
    swapped, faults = swap(crops(), EMBEDDINGS, "sface")
    # only the bad row is run again
    assert calls == [("first", 3), ("safe", 1)]
    others = [i for i in range(3) if i != row]
    assert faults[row]
    assert [faults[i] for i in others] == [None, None]
    torch.testing.assert_close(swapped.pixels[others], expected()[others], atol=1e-6, rtol=0)


@pytest.mark.parametrize("row", [0, 1, 2])
def test_one_bad_face_is_replaced_by_the_safe_modes(row):
    swap, calls = swap_with(spoilt("NaN", row), safe=good)
    swapped, faults = swap(crops(), EMBEDDINGS, "sface")
    assert calls == [("first", 3), ("safe", 1)]
    assert faults == (None, None, None)
    torch.testing.assert_close(swapped.pixels, expected(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("bad", [(1,), (0, 1, 2)])
@pytest.mark.parametrize("pixels", [FORMATS["0 to 1"], FORMATS["-1 to 1"]], ids=["0..1", "-1..1"])
def test_a_crop_with_a_fault_is_black(pixels, bad):
    def run(inputs):
        result = painted(inputs, pixels)
        if len(result) == 3:
            result[list(bad)] = torch.nan
        else:
            result[:] = torch.nan
        return {"output": result}

    swap, _ = swap_with(run, pixels=pixels)
    swapped, faults = swap(crops(), EMBEDDINGS, "sface")
    assert tuple(i for i, fault in enumerate(faults) if fault) == bad
    assert not bool(swapped.pixels[list(bad)].any())


@pytest.mark.parametrize("name", FORMATS)
def test_good_outputs_pass_in_every_format(name):
    pixels = FORMATS[name]
    swap, calls = swap_with(lambda inputs: {"output": painted(inputs, pixels)}, pixels=pixels)
    swapped, faults = swap(crops(), EMBEDDINGS, "sface")
    assert faults == (None, None, None)
    assert calls == [("first", 3)]
    torch.testing.assert_close(swapped.pixels, expected(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("shade", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", FORMATS)
def test_one_shade_is_caught_in_every_format(name, shade):
    # a shade of gray with a ripple of one code: nothing that could be a face
    pixels = FORMATS[name]
    ripple = torch.arange(SIDE) % 2 / 255

    def run(inputs):
        plain = torch.full((len(inputs["target"]), 3, SIDE, SIDE), shade)
        return {"output": pixels.encode((plain + ripple).clamp(0, 1))}

    swap, _ = swap_with(run, pixels=pixels)
    _, faults = swap(crops(), EMBEDDINGS, "sface")
    assert all(faults)


@pytest.mark.parametrize("contrast", [0.05, 0.3])
def test_a_dim_face_is_not_mistaken_for_a_blank_one(contrast):
    y, x = np.mgrid[:SIDE, :SIDE] / (SIDE - 1)
    shading = torch.from_numpy((0.1 + contrast * x * y).astype(np.float32))

    def run(inputs):
        return {"output": SIGNED.encode(shading.expand(len(inputs["target"]), 3, -1, -1))}

    _, faults = swap_with(run)[0](crops(), EMBEDDINGS, "sface")
    assert faults == (None, None, None)


def test_values_are_clamped_to_pictures():
    # a half more contrast than fits: a third of the values lies beyond black or white
    swap, _ = swap_with(lambda inputs: {"output": inputs["target"] * 1.5})
    swapped, faults = swap(crops(), EMBEDDINGS, "sface")
    assert faults == (None, None, None)
    wanted = ((crops().pixels - 0.5) * 1.5 + 0.5).clamp(0, 1)
    torch.testing.assert_close(swapped.pixels, wanted, atol=1e-6, rtol=0)
    assert float(swapped.pixels.min()) == 0
    assert float(swapped.pixels.max()) == 1


def test_inputs_are_what_the_contract_says():
    seen = {}

    def run(inputs):
        seen.update(inputs)
        return good(inputs)

    swap_with(run)[0](crops(), EMBEDDINGS, "sface")
    torch.testing.assert_close(seen["target"], crops().pixels * 2 - 1)
    assert torch.equal(seen["source"], EMBEDDINGS)


def test_crops_for_another_network_are_refused():
    swap, calls = swap_with(good)
    with pytest.raises(TemplateMismatch) as caught:
        swap(crops(template="ffhq_512"), EMBEDDINGS, "sface")
    assert (caught.value.expected, caught.value.found) == ("arcface_128", "ffhq_512")
    assert calls == []


def test_embeddings_of_another_network_are_refused():
    swap, calls = swap_with(good)
    with pytest.raises(SpaceMismatch) as caught:
        swap(crops(), EMBEDDINGS, "arcface")
    assert (caught.value.expected, caught.value.found) == ("sface", "arcface")
    assert calls == []


def test_a_missing_output_is_named():
    swap, _ = swap_with(lambda inputs: {"other": painted(inputs)})
    with pytest.raises(EngineError, match="'output'"):
        swap(crops(), EMBEDDINGS, "sface")


def test_no_faces_give_no_faces():
    swapped, faults = swap_with(good)[0](crops(0), EMBEDDINGS[:0], "sface")
    assert faults == ()
    assert swapped.pixels.shape == (0, 3, SIDE, SIDE)


def test_guarded_run_returns_zeros_for_what_failed_twice():
    def run(inputs):
        return {"y": torch.where(inputs["x"] > 1, torch.nan, inputs["x"])}

    def check(rows):
        return [None if bool(torch.isfinite(row).all()) else "bad" for row in rows]

    value, faults = run_guarded(
        StandIn(run), {"x": torch.tensor([[1.0], [2.0], [0.5]])}, output="y", check=check
    )
    assert value.tolist() == [[1.0], [0.0], [0.5]]
    assert faults == (None, "bad", None)


def test_numbers_whose_sum_overflows_are_finite():
    rows = torch.full((2, 2, 2), torch.finfo(torch.float32).max)
    assert numbers_faults(rows, (2, 2)) == [None, None]
    rows[1, 1, 1] = torch.inf
    assert numbers_faults(rows, (2, 2)) == [None, "values that are not finite"]
