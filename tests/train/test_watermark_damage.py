import io
import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from mien.train.occlusion.canvas import Dice
from mien.train.watermark.chains import CROP, PARTS, Chains, fixed
from mien.train.watermark.damage import (
    blocks,
    blurred,
    filmed,
    jpeg,
    lit,
    noisy,
    resized,
    rgb,
    seen,
    stored,
    unblocked,
    ycc,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def pictures(portraits):
    found = []
    for name in ("eva", "femi"):
        with Image.open(portraits[name]) as opened:
            small = opened.convert("RGB").resize((128, 128), Image.Resampling.LANCZOS)
        found.append(torch.from_numpy(np.array(small)).permute(2, 0, 1) / 255)
    return torch.stack(found)


def all_of(value):
    return torch.tensor([value, value])


def image(picture):
    return Image.fromarray((picture.permute(1, 2, 0) * 255).round().byte().numpy())


def tensor(shown):
    return torch.from_numpy(np.array(shown)).permute(2, 0, 1) / 255


@pytest.mark.parametrize("quality", [30, 50, 75, 95])
def test_jpeg_is_pillows(pictures, quality):
    ours = stored(jpeg(pictures, all_of(float(quality))))
    for mine, picture in zip(ours, pictures, strict=True):
        file = io.BytesIO()
        image(picture).save(file, "JPEG", quality=quality, subsampling=2)
        theirs = tensor(Image.open(file))
        change = (theirs - picture).abs().mean()
        # rounding of decoded colours, and a finer filter for their enlargement, are not ours
        assert (mine - theirs).abs().mean() < 0.35 * change + 0.4 / 255
        assert (mine - theirs).abs().mean() < 2 / 255


def test_colours_and_blocks_come_back(pictures):
    assert (rgb(ycc(pictures)) - pictures).abs().max() < 1e-5
    assert (unblocked(blocks(pictures)) - pictures).abs().max() < 1e-5
    flat = blocks(torch.full((1, 1, 8, 8), 0.5))
    assert flat[0, 0, 0, 0, 0, 0] == pytest.approx(4.0)  # orthonormal: 8 times the mean


def test_a_coarser_quantiser_loses_more(pictures):
    lost = [
        float((filmed(pictures, all_of(q)) - pictures).abs().mean()) for q in (14.0, 24.0, 34.0)
    ]
    assert lost[0] < lost[1] < lost[2]
    assert lost[0] < 3 / 255
    # what is far below a step on a flat part is lost, as it is in films
    grid = torch.full((1, 3, 32, 32), 0.5)
    grid[..., ::2, ::2] += 2 / 255
    assert filmed(grid, torch.tensor([34.0])).std(dim=(2, 3)).max() < 0.1 / 255


def test_light_is_pillows(pictures):
    for light in (0.8, 1.2):
        ours = lit(pictures, all_of(light), all_of(1.0), all_of(1.0), all_of(1.0))
        theirs = tensor(ImageEnhance.Brightness(image(pictures[0])).enhance(light))
        assert (ours[0] - theirs).abs().max() < 2 / 255
    grey = lit(pictures, all_of(1.0), all_of(1.0), all_of(0.0), all_of(1.0))
    assert (grey[:, 0] - grey[:, 2]).abs().max() < 1e-5
    low = lit(pictures, all_of(1.0), all_of(0.5), all_of(1.0), all_of(1.0))
    assert low.std() < 0.6 * pictures.std()


def test_turns_and_crops_are_pillows(pictures):
    turned = seen(pictures, all_of(math.radians(5)), all_of(1.0), torch.zeros(2, 2))
    theirs = tensor(image(pictures[0]).rotate(5, Image.Resampling.BILINEAR))
    other = tensor(image(pictures[0]).rotate(-5, Image.Resampling.BILINEAR))
    inside = (slice(None), slice(16, -16), slice(16, -16))
    apart = [(turned[0] - each)[inside].abs().mean() for each in (theirs, other)]
    assert min(apart) < 1.5 / 255
    cropped = seen(pictures, all_of(0.0), all_of(0.5), torch.tensor([[1.0, -1.0]] * 2))
    part = pictures[:, :, :64, 64:].repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert (cropped - part).abs().mean() < 0.03


def test_sizes_blur_and_noise(pictures):
    assert resized(pictures, 128) is pictures
    assert (resized(pictures, 256) - pictures).abs().mean() < 0.015
    assert (resized(pictures, 64) - pictures).abs().mean() > 0.015
    assert torch.equal(blurred(pictures, all_of(0.0)), pictures)
    assert blurred(pictures, all_of(3.0)).std() < pictures.std()
    noise = torch.randn(2, 3, 128, 128)
    assert noisy(pictures, all_of(0.02), noise).sub(pictures).std() == pytest.approx(0.02, rel=0.1)


def test_every_part_of_a_batch_is_damaged(pictures):
    given = pictures[:1].repeat(2 * PARTS, 1, 1, 1)
    done = Chains(Dice(0, CPU), 0)(given)
    assert done.shape == given.shape
    assert ((done >= 0) & (done <= 1)).all()
    changed = (done - given).abs().mean(dim=(1, 2, 3)).view(PARTS, 2)
    assert (changed[1:] > 0.001).all()
    assert changed.max() < 0.25


def test_views_show_pictures_and_marks_alike(pictures):
    both = torch.cat([pictures[:1], pictures[:1, :1]], dim=1).repeat(24, 1, 1, 1)
    seen = Chains(Dice(1, CPU), 0).view(both)
    assert torch.equal(seen[:, 0], seen[:, 3])
    still = (seen - both).abs().amax(dim=(1, 2, 3)) < 1e-4
    assert 2 <= int(still.sum()) <= 14
    assert CROP < 0.65  # more than is to be survived


def test_fixed_damage_is_always_the_same(pictures):
    for name, damage in fixed().items():
        once = damage.rest(damage.view(pictures))
        assert once.shape == pictures.shape, name
        assert torch.equal(once, damage.rest(damage.view(pictures))), name
