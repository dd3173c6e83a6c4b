"""Sharpness, colour, seam and what else was changed: of pictures made for it."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from mien.evaluate import pixels
from mien.geometry import apply, invert, template
from mien.stages.color import from_oklab, to_oklab

SIZE = pixels.SIZE


def disc(radius=100.0):
    """Return an outline (1, 468, 2) around the middle of the crop."""
    angles = torch.arange(468) * (2 * math.pi / 468)
    return (radius * torch.stack([angles.cos(), angles.sin()], dim=1) + (SIZE - 1) / 2)[None]


def scene_of(frame):
    """Return a scene whose crop is the whole of a picture of SIZE pixels."""
    points = template(pixels.TEMPLATE).at(SIZE)[None]
    mesh = torch.cat([disc(), torch.zeros(1, 468, 1)], dim=2)
    return pixels.scenes([frame], points, mesh)


def noise(seed=0):
    generator = torch.Generator().manual_seed(seed)
    grain = torch.rand(1, 3, SIZE // 4, SIZE // 4, generator=generator)
    fine = functional.interpolate(grain, (SIZE, SIZE), mode="bilinear") * 0.5 + 0.25
    return (fine[0] * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()


@pytest.fixture(scope="module")
def scene():
    return scene_of(noise())


@pytest.fixture(scope="module")
def flat():
    return scene_of(torch.full((SIZE, SIZE, 3), 128, dtype=torch.uint8))


def test_the_crop_is_the_picture_and_the_depth_that_of_the_disc(scene):
    assert torch.allclose(scene.crops[0], noise().permute(2, 0, 1) / 255, atol=1e-4)
    assert float(scene.depth[0, SIZE // 2, SIZE // 2]) == pytest.approx(99.5, abs=1)
    assert float(scene.depth[0, SIZE // 2, 1]) < 0


def test_nothing_differs_from_itself(scene, flat):
    for one in (scene, flat):
        assert float(pixels.sharpness(one.crops, one)) == 1
        assert float(pixels.colour_shift(one.lab, one)) == 0
        assert float(pixels.seam(one.lab, one)) == 1


def test_a_blurred_face_is_less_sharp_by_the_filters_own_response():
    """A wave of one frequency keeps the share of its amplitude that the filter lets through."""
    x = torch.arange(SIZE, dtype=torch.float32)
    wave = 0.4 * torch.sin(2 * math.pi * x / 16).expand(1, 3, SIZE, SIZE)
    frame = ((wave[0] + 0.5) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()
    made = scene_of(frame)
    averaged = functional.avg_pool2d(functional.pad(made.crops, (2,) * 4, mode="replicate"), 5, 1)
    response = sum(math.cos(2 * math.pi * k / 16) for k in range(-2, 3)) / 5
    assert float(pixels.sharpness(averaged, made)) == pytest.approx(response, abs=0.005)


def test_detail_outside_of_the_face_does_not_count_as_sharpness(scene):
    blank = torch.where(scene.depth[:, None] > 10, scene.crops, 0.5)
    assert float(pixels.sharpness(blank, scene)) == pytest.approx(1, abs=1e-6)


def test_a_shifted_face_has_that_colour_shift_and_a_shifted_picture_none(flat):
    step = torch.tensor([0.03, 0.04, 0.0])[None, :, None, None]
    everywhere = flat.lab + step
    face = torch.where(flat.depth[:, None] >= flat.soft, everywhere, flat.lab)
    assert float(pixels.colour_shift(face, flat)) == pytest.approx(5, abs=0.01)
    assert float(pixels.colour_shift(everywhere, flat)) == pytest.approx(0, abs=1e-4)
    shown = to_oklab(from_oklab(face))
    assert float(pixels.colour_shift(shown, flat)) == pytest.approx(5, abs=0.05)


def test_shifts_to_both_sides_do_not_cancel(flat):
    left = torch.arange(SIZE)[None, None, None, :] < SIZE // 2
    step = torch.where(left, 0.05, -0.05) * torch.tensor([1.0, 0, 0])[None, :, None, None]
    face = torch.where(flat.depth[:, None] >= flat.soft, flat.lab + step, flat.lab)
    assert float(pixels.colour_shift(face, flat)) == pytest.approx(5, abs=0.2)


def test_a_planted_seam_is_seen_and_a_ramp_of_the_same_height_less(flat, scene):
    edge = flat.soft / 2
    step = 0.05 * (flat.depth >= edge)[:, None] * torch.tensor([1.0, 0, 0])[None, :, None, None]
    hard = float(pixels.seam(flat.lab + step, flat))
    # the blurred step's derivative is a Gaussian; its square adds up to 1 / (2 s sqrt(pi))
    per_pixel = 0.05**2 / (2 * pixels.BROAD * math.sqrt(math.pi))
    expected = 1 + per_pixel / (1.25 * flat.soft) / pixels.FLOOR
    assert hard == pytest.approx(expected, rel=0.1)
    ramp = 0.05 * (flat.depth / flat.soft).clamp(0, 1)[:, None]
    slow = torch.cat([flat.lab[:, :1] + ramp, flat.lab[:, 1:]], dim=1)
    assert 1 < float(pixels.seam(slow, flat)) < hard / 1.5
    assert float(pixels.seam(scene.lab + 2 * step, scene)) > 1.5


def test_softness_is_no_seam(scene):
    soft = to_oklab(functional.avg_pool2d(scene.crops, 9, 1, padding=4, count_include_pad=False))
    assert float(pixels.seam(soft, scene)) == pytest.approx(1, abs=0.05)


def test_a_gradient_along_the_edge_is_no_seam(flat):
    """Colour that turns with the angle changes along the edge, and not across it."""
    line = torch.arange(SIZE, dtype=torch.float32) - (SIZE - 1) / 2
    angle = torch.atan2(line[:, None], line[None, :])
    turning = flat.lab + 0.05 * torch.sin(3 * angle)[None, None]
    assert float(pixels.seam(turning, flat)) < 0.3


def test_pixels_outside_of_the_face_are_counted(scene):
    before = noise()
    outline, matrix = scene.outline[0], scene.matrices[0]
    after = before.clone()
    middle = SIZE // 2
    after[middle, middle] ^= 1  # inside
    after[middle, middle + 100 + 2] ^= 1  # the spill of the paste
    assert pixels.changed_outside(after, before, matrix, outline) == 0
    after[middle, middle + 100 + 8, 2] ^= 1
    after[0, :3] ^= 1
    assert pixels.changed_outside(after, before, matrix, outline) == 4
    assert pixels.changed_outside(before, before, matrix, outline) == 0


def test_beyond_the_crop_is_outside_also_within_the_outline(scene):
    """A face larger than the crop ends at the crop's border."""
    wide = disc(400)[0]
    before = torch.zeros(2 * SIZE, 2 * SIZE, 3, dtype=torch.uint8)
    after = before.clone()
    after[SIZE + 20, SIZE + 20] = 1
    assert pixels.changed_outside(after, before, scene.matrices[0], wide) == 1
    inverse = invert(scene.matrices)
    assert torch.allclose(apply(inverse, scene.outline), disc(), atol=1e-2)
