import io

import numpy as np
import pytest
import torch
from PIL import Image

from mien.nets.watermark import chips, composed
from mien.safety.watermark import (
    Finder,
    Marker,
    code,
    false_positive_rate,
    finding,
    identifier,
    marked,
)
from mien.safety.watermark.dwtdct import DwtDct
from mien.safety.watermark.laying import Change
from mien.watermarked import finder

NUMBER = identifier("m-1")


@pytest.fixture(scope="module")
def picture(portraits):
    with Image.open(portraits["eva"]) as opened:
        return torch.from_numpy(np.array(opened.convert("RGB")))


@pytest.fixture(scope="module")
def shown(picture):
    return marked(picture, Marker(NUMBER))


def psnr(a, b):
    return float(-10 * ((a.float() - b.float()) / 255).square().mean().log10())


def tensor(image):
    return torch.from_numpy(np.array(image.convert("RGB")))


def image(pixels):
    return Image.fromarray(pixels.numpy())


def coded(pixels, quality):
    file = io.BytesIO()
    image(pixels).save(file, "JPEG", quality=quality)
    return tensor(Image.open(file))


def test_a_mark_is_not_seen_and_comes_back(picture, shown):
    assert psnr(shown, picture) > 42
    found = finder()([shown])
    assert found is not None
    assert found.identifier == NUMBER
    assert found.corrected <= 2
    assert (found.turn, found.size, found.mirrored) == (0, 1, False)
    assert finder()([]) is None


DAMAGE = {
    "JPEG 50": lambda x: coded(x, 50),
    "half the size, JPEG 50": lambda x: coded(tensor(image(x).resize((320, 320))), 50),
    "twice the size": lambda x: tensor(image(x).resize((1280, 1280))),
    "crop 0.7": lambda x: x[150:598, 20:468],
    "turned": lambda x: tensor(image(x).rotate(5, Image.Resampling.BICUBIC)),
    "mirrored, cropped, JPEG 75": lambda x: coded(x.flip(1)[40:, 30:560], 75),
    "darker": lambda x: (x.float() * 0.8).byte(),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_mark_outlives(name, shown):
    found = finder()([DAMAGE[name](shown)])
    assert found is not None
    assert found.identifier == NUMBER


def test_there_is_none_where_none_was_laid(picture):
    assert finder()([picture]) is None
    assert false_positive_rate() < 1e-6


def test_frames_vote():
    word = torch.from_numpy(code.write(NUMBER)).float() * 2 - 1
    tile = composed(chips(), word[None])[0, 0]
    rng = torch.Generator().manual_seed(0)

    def said(y):  # so little is seen of a mark in one frame that it cannot be read
        return (tile * 0.018 + torch.randn(256, 256, generator=rng))[None, None]

    frame = torch.zeros(256, 256, 3, dtype=torch.uint8)
    assert Finder(said)([frame]) is None
    found = Finder(said)([frame] * 40)
    assert found is not None
    assert found.identifier == NUMBER
    assert found.corrected > 0


@pytest.mark.parametrize(
    "shape", [(48, 300, 3), (900, 70, 3), (300, 400, 1), (300, 400, 3), (300, 400, 4)]
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16])
def test_any_size_and_kind_of_samples_takes_a_mark(shape, dtype):
    peak = 255 if dtype == torch.uint8 else 65535
    grain = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 0.02 + 0.5
    pixels = (grain.clamp(0, 1) * peak).to(dtype)
    before = pixels.clone()
    made = marked(pixels, Marker(NUMBER))
    assert (made.shape, made.dtype) == (pixels.shape, dtype)
    assert torch.equal(pixels, before)
    colours = min(shape[2], 3)
    change = (made.to(torch.int64) - pixels.to(torch.int64)) / (peak // 255)
    assert torch.equal(change[..., colours:], torch.zeros_like(change[..., colours:]))
    if min(shape[:2]) > 256:  # of smaller ones the chips are too small for whole codes
        assert 0.1 < float(change[..., :colours].abs().mean()) < 4
    assert torch.equal(change[..., 0], change[..., colours - 1])
    if shape[2] == 4:  # ink: more of it is darker
        light = marked((peak - pixels.to(torch.int64)).to(dtype)[..., :3], Marker(NUMBER))
        change = light.to(torch.int64) + made.to(torch.int64)[..., :3] - peak
        assert float((change != 0).float().mean()) < 0.02


def test_a_mark_in_gray_and_in_16_bits_is_found(picture):
    gray = picture.float().mean(dim=2, keepdim=True).byte()
    deep = picture.to(torch.int32).mul(257).to(torch.uint16)
    for pixels in (gray, deep):
        made = marked(pixels, Marker(NUMBER))
        if made.dtype == torch.uint16:
            made = made.to(torch.int32).div(257, rounding_mode="floor").to(torch.uint8)
        found = finder()([made.expand(-1, -1, 3)])
        assert found is not None
        assert found.identifier == NUMBER


def test_a_change_serves_the_frames_after_it():
    asked = []

    def small(rows, columns):
        asked.append((rows, columns))
        return torch.full((rows, columns), 128.0)

    marker = Marker(NUMBER, every=3)
    changes = [marker(small, 512, 900).whole for _ in range(7)]
    assert asked == [(256, 450)] * 3
    assert all(torch.equal(changes[0], change) for change in changes)
    marker(small, 900, 512)  # another size
    assert asked[-1] == (450, 256)


@pytest.mark.parametrize(("height", "width"), [(700, 300), (200, 257), (256, 300), (3000, 301)])
def test_a_change_is_enlarged_band_by_band_as_a_whole(height, width):
    residual = torch.randn(256, 300, generator=torch.Generator().manual_seed(0)) * 3
    change = Change(residual, height, width)
    whole = torch.nn.functional.interpolate(
        residual[None, None],
        (height, width),
        mode="bilinear",
        antialias=height < 256 or width < 300,
        align_corners=False,
    )[0, 0]
    assert (change.whole - whole).abs().max() <= 0.501
    assert torch.equal(change.rows(60, 131), change.whole[60:131])


@pytest.mark.parametrize("shape", [(1, 60000, 3), (6000, 20, 3)])
def test_a_strip_costs_no_more_than_other_pictures(shape):
    grain = torch.randint(90, 160, shape, generator=torch.Generator().manual_seed(0))
    made = marked(grain.byte(), Marker(NUMBER))
    assert made.shape == shape
    high = shape[0] > shape[1]
    assert finding._brightness(made).shape[-2:] == ((2048, 256) if high else (256, 2048))


def test_nothing_is_found_in_noise():
    noise = torch.randn(1, 1, 256, 300, generator=torch.Generator().manual_seed(0))
    assert Finder(lambda y: noise)([torch.zeros(64, 75, 3, dtype=torch.uint8)]) is None


def test_the_reference_keeps_its_bits_and_its_floor(picture):
    reference, bits = DwtDct(42.5), torch.from_numpy(code.write(NUMBER)).float()[None] * 2 - 1
    shown = reference.laid(picture, bits)
    assert 41.5 < psnr(shown, picture) < 47
    found = code.read(reference.said(shown).double().numpy())
    assert found is not None
    assert found.identifier == NUMBER
    assert code.read(reference.said(picture).double().numpy()) is None
