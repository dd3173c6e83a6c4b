import math

import onnxruntime as ort
import pytest
import torch

from mien.nets.export import export
from mien.nets.watermark import (
    BITS,
    BOUND,
    BRIGHTNESS,
    CHIPS,
    FLAT,
    GRAIN,
    LIMIT,
    SIDE,
    SLOPE,
    Extractor,
    ExtractorShape,
    chips,
    composed,
    mean,
    noticeable,
    repeated,
    residual,
    tiles,
)

WORD = torch.randint(0, 2, (BITS,), generator=torch.Generator().manual_seed(0)).float() * 2 - 1


def picture(height, width, seed=0):
    draw = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 1, 9, 9, generator=draw) * 200
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")
    return (smooth + torch.randn(1, 1, height, width, generator=draw) * 4).clamp(0, 255)


def test_patterns_are_the_same_for_ever_and_tell_each_other_apart():
    patterns = chips()
    assert patterns.shape == (1 + BITS, CHIPS, CHIPS)
    assert patterns.dtype == torch.int8
    assert patterns[0, 0, :16].tolist() == [-1, 1, -1, -1, -1, 1, -1, 1, 1, -1, -1, 1, -1, 1, 1, 1]
    flat = patterns.flatten(1).float()
    alike = flat @ flat.T / CHIPS**2
    assert (alike.diagonal() == 1).all()
    assert (alike - torch.eye(1 + BITS)).abs().max() < 0.05


def test_a_tile_says_its_word_by_correlation():
    tile = composed(chips(), WORD[None])
    assert tile.shape == (1, 1, SIDE, SIDE)
    assert float(tile.var()) == pytest.approx(1, abs=0.1)
    said = tiles(chips()[1:]).flatten(1) @ tile.flatten()
    assert torch.equal(said.sign(), WORD)
    assert torch.equal(repeated(tile, 300, 520)[..., 256:, 512:], tile[..., :44, :8])


def test_means_leave_out_what_is_beyond_the_picture():
    assert torch.allclose(mean(torch.full((1, 1, 12, 9), 7.0), 5), torch.tensor(7.0))


def test_flat_parts_and_edges_hide_little_and_texture_much():
    flat = torch.full((1, 1, 64, 64), 128.0)
    edge = flat.clone()
    edge[..., 32:] = 20
    texture = flat + torch.randn(1, 1, 64, 64, generator=torch.Generator().manual_seed(0)) * 10
    assert float(noticeable(flat).max()) < 1.2
    assert float(noticeable(edge)[..., 20:44].max()) < 2
    assert float(noticeable(texture).mean()) > 5


@pytest.mark.parametrize("size", [(SIDE, 455), (3, 40), (7, 1)])
def test_what_is_noticeable_is_that_of_its_definition(size):
    y = picture(SIDE, 455)[..., : size[0], : size[1]]
    apart = y - mean(y, 5)
    deviation = (mean(apart * apart, 5) + 1e-3).sqrt()
    least = -torch.nn.functional.max_pool2d(-deviation, 9, 1, 4)
    light = (y - apart) / 127.5 - 1
    wanted = (FLAT + SLOPE * (least - GRAIN).clamp_min(0)) * (1 + BRIGHTNESS * light * light)
    assert torch.allclose(noticeable(y), wanted.clamp_max(BOUND), atol=1e-4)


@pytest.mark.parametrize("size", [(SIDE, 455), (480, SIDE)])
def test_changes_keep_to_their_bounds(size):
    y, tile = picture(*size), composed(chips(), WORD[None])
    change = residual(y, tile)
    assert change.shape == y.shape
    assert float(change.square().mean().sqrt()) <= LIMIT * 1.03
    assert (change.abs() <= noticeable(y) + 1e-4).all()
    assert torch.equal(change.sign(), repeated(tile, *size).sign())
    flat = residual(torch.full((1, 1, *size), 128.0), tile)
    assert float(flat.abs().max()) < 1.5


def test_an_extractor_is_exported_for_any_size(tmp_path):
    torch.manual_seed(0)
    network = Extractor(ExtractorShape(width=8, reach=(1, 2))).eval()
    export(network, tmp_path / "net.onnx", int8=False)
    session = ort.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    for height, width in ((SIDE, 300), (96, 64)):
        y = picture(height, width) - 128
        (theirs,) = session.run(None, {"brightness": y.numpy()})
        with torch.inference_mode():
            ours = network(y)
        assert ours.shape == y.shape
        torch.testing.assert_close(torch.from_numpy(theirs), ours, atol=1e-4, rtol=1e-3)


def test_an_extractor_looks_the_same_way_everywhere():
    network = Extractor(ExtractorShape(width=8, reach=(1, 2))).eval()
    y = picture(128, 128) - 128
    with torch.inference_mode():
        whole, part = network(y), network(y[..., 32:96, 32:96])
    assert math.isfinite(float(whole.sum()))
    torch.testing.assert_close(whole[..., 56:72, 56:72], part[..., 24:40, 24:40])
