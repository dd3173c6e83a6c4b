"""The two warps: cutting against scikit-image, pasting against its own promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from skimage.transform import warp
from torch.nn import functional

from mien import geometry
from mien.geometry import apply, compose, cut, invert, paste_rectangle, sample
from mien.stages.mask import FEATHER, face_mask
from mien.types import Rectangle

steady = settings(derandomize=True, deadline=None, max_examples=40)

CODE = 1 / 255
IDENTITY = torch.eye(3)[:2]


def similarity(angle, factor, source, target):
    """Return the matrix that turns, scales and takes the point ``source`` to ``target``."""
    c, s = factor * np.cos(np.deg2rad(angle)), factor * np.sin(np.deg2rad(angle))
    linear = np.array([[c, -s], [s, c]])
    shift = np.array(target) - linear @ np.array(source)
    return torch.tensor(np.c_[linear, shift], dtype=torch.float32)


def shift(x, y):
    return torch.tensor([[1.0, 0, x], [0, 1.0, y]])


def noise(height, width, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def gray(values):
    """Return a frame with the same (H, W) codes in all channels."""
    return torch.from_numpy(np.ascontiguousarray(values, np.uint8))[..., None].repeat(1, 1, 3)


def blob(height, width, centre, sigma):
    y, x = np.mgrid[:height, :width]
    return np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / (2 * sigma**2))


def centroid(values):
    """Return the (x, y) of the mass of an (H, W) picture, without its last few codes."""
    values = np.where(values > 0.02, values, 0.0)
    y, x = np.mgrid[: values.shape[0], : values.shape[1]]
    return np.array([(values * x).sum(), (values * y).sum()]) / values.sum()


def patch(colour, opacity):
    """Return a premultiplied patch (4, S, S) of one colour and an opacity (S, S)."""
    return torch.cat([torch.tensor(colour)[:, None, None] * opacity, opacity[None]])


def opaque(colour, size):
    return patch(colour, torch.ones(size, size))


def soft_mask(size, seed):
    """Return a random opacity with soft edges and values all over [0, 1]."""
    rough = np.random.default_rng(seed).random((size, size))
    smooth = gaussian_filter(rough, size / 12)
    low, high = np.quantile(smooth, [0.3, 0.9])
    return torch.from_numpy(np.clip((smooth - low) / (high - low), 0, 1).astype(np.float32))


def paste(pixels, patches, matrices):
    """Return a copy of ``pixels`` with ``patches`` laid over it."""
    copy = pixels.clone()
    geometry.paste(copy, patches, matrices)
    return copy


# ---------------------------------------------------------------- cut


def test_cutting_with_the_identity_changes_nothing():
    frame = noise(48, 48)
    crop = cut(frame, IDENTITY[None], 48)
    assert crop.shape == (1, 3, 48, 48)
    assert crop.dtype == torch.float32
    torch.testing.assert_close(crop[0].permute(1, 2, 0) * 255, frame.float(), atol=0.01, rtol=0)


@pytest.mark.parametrize("at", [(0, 0), (13, 7), (40, 29), (61, 0)])
def test_cutting_after_a_whole_shift_is_exact(at):
    frame = noise(61, 93)
    left, top = at
    crop = cut(frame, shift(-left, -top)[None], 32)[0].permute(1, 2, 0) * 255
    expected = frame[top : top + 32, left : left + 32]
    torch.testing.assert_close(crop, expected.float(), atol=0.01, rtol=0)


@pytest.mark.parametrize("at", [(-10, -5), (80, -5), (-10, 50), (80, 50), (-40, 20), (200, 20)])
def test_edges_are_repeated_beyond_the_frame(at):
    frame = noise(61, 93)
    left, top = at
    rows = np.clip(np.arange(top, top + 32), 0, 60)
    columns = np.clip(np.arange(left, left + 32), 0, 92)
    expected = frame.numpy()[np.ix_(rows, columns)]
    crop = cut(frame, shift(-left, -top)[None], 32)[0].permute(1, 2, 0) * 255
    np.testing.assert_allclose(crop.numpy(), expected, atol=0.01)


@pytest.mark.parametrize("factor", [0.11, 0.5, 1.7])
def test_a_plain_border_goes_on_beyond_the_frame(factor):
    # a frame of noise whose outer 40 pixels are red: everything beyond must be that red
    frame = noise(300, 300)
    red = torch.tensor([200, 30, 20], dtype=torch.uint8)
    inner = frame[40:-40, 40:-40].clone()
    frame[:] = red
    frame[40:-40, 40:-40] = inner
    for corner in [(-10, -10), (310, -10), (-10, 310), (310, 310)]:
        matrix = similarity(25, factor, corner, (31.5, 31.5))
        crop = cut(frame, matrix[None], 64)[0].permute(1, 2, 0) * 255
        y, x = torch.meshgrid(torch.arange(64), torch.arange(64), indexing="ij")
        places = apply(invert(matrix), torch.stack([x, y], -1).reshape(-1, 2).float())
        beyond = ((places < 0) | (places > 299)).any(dim=1).reshape(64, 64)
        assert int(beyond.sum()) > 64 * 16
        off = (crop[beyond] - red.float()).abs().max()
        assert float(off) < 0.5


@pytest.mark.parametrize("factor", [0.05, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("away", [(-1, -1), (0, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1)])
def test_a_crop_wholly_outside_the_frame_shows_its_edge(factor, away):
    frame = noise(40, 50)
    centre = (24.5 + 5000 * away[0], 19.5 + 5000 * away[1])
    crop = cut(frame, similarity(0, factor, centre, (15.5, 15.5))[None], 32)[0]
    assert bool(torch.isfinite(crop).all())
    if 0 not in away:
        corner = frame[0 if away[1] < 0 else -1, 0 if away[0] < 0 else -1]
        if factor >= 1:
            expected = (corner / 255)[:, None, None].expand(3, 32, 32)
            torch.testing.assert_close(crop, expected, atol=1e-4, rtol=0)
    # nothing but one row, column or pixel of the frame is seen
    if away[0]:
        assert float((crop - crop[:, :, :1]).abs().max()) < CODE
    if away[1]:
        assert float((crop - crop[:, :1]).abs().max()) < CODE


@pytest.mark.parametrize("angle", [0, 37, 90, -121])
def test_a_turned_crop_is_bilinear(angle):
    frame = noise(90, 120)
    matrix = similarity(angle, 1, (60, 45), (31.5, 31.5))
    back = np.vstack([invert(matrix).double().numpy(), [0, 0, 1]])
    crop = cut(frame, matrix[None], 64)[0].numpy()
    for found, channel in zip(crop, frame.numpy().transpose(2, 0, 1) / 255, strict=True):
        expected = warp(channel, back, output_shape=(64, 64), order=1, mode="edge")
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_face_eight_times_the_crop_does_not_alias():
    # noise, a zone plate with rings down to 2 pixels, and a smooth light; measured against the
    # supersampled reference the engine has 34, 31 and 50 dB, plain bilinear look-up 17, 16 and 27
    side, size, fine = 512, 64, 16
    y, x = np.mgrid[:side, :side] / side
    rings = 0.5 + 0.5 * np.cos(2 * np.pi * side * 0.5 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))
    grains = np.random.default_rng(1).random((side, side))
    light = blob(side, side, (200, 300), 120)
    planes = np.stack([0.5 * grains + 0.5 * light, 0.5 * rings + 0.5 * light, light])
    frame = torch.from_numpy((255 * planes).round().astype(np.uint8)).permute(1, 2, 0)
    matrix = similarity(20, 1 / 8, (255, 258), (31.5, 31.5))
    back = np.vstack([invert(matrix).double().numpy(), [0, 0, 1]])
    # a fine crop has ``fine`` pixels for one of the crop's, with the same edges
    step = 1 / fine
    back = back @ np.array([[step, 0, (step - 1) / 2], [0, step, (step - 1) / 2], [0, 0, 1]])
    crop = cut(frame, matrix[None], size)[0].numpy()
    for found, channel in zip(crop, frame.numpy().transpose(2, 0, 1) / 255, strict=True):
        shape = (size * fine, size * fine)
        detail = warp(channel, back, output_shape=shape, order=1, mode="edge")
        expected = detail.reshape(size, fine, size, fine).mean(axis=(1, 3))
        psnr = -10 * np.log10(((found - expected) ** 2).mean())
        assert psnr > 30


@pytest.mark.parametrize("angle", [0, 20, 45])
@pytest.mark.parametrize("times", [8, 7.3])
def test_a_fine_checkerboard_becomes_flat_gray(times, angle):
    y, x = np.mgrid[:600, :600]
    matrix = similarity(angle, 1 / times, (299, 303), (35, 35))
    crop = cut(gray((x + y) % 2 * 255), matrix[None], 64)
    assert float((crop - 0.5).abs().max()) < 1.5 * CODE


@pytest.mark.parametrize("angle", [0, 17, 45])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_a_crop_is_the_middle_of_a_wider_one(factor, angle):
    # what lies just outside of the crop has its say in the filters at the crop's border
    frame = noise(120, 130)
    matrix = similarity(angle, factor, (60.4, 58.7), (15.5, 15.5))
    wider = compose(shift(8, 8), matrix)
    middle = cut(frame, wider[None], 48)[..., 8:-8, 8:-8]
    torch.testing.assert_close(cut(frame, matrix[None], 32), middle, atol=1e-4, rtol=0)


@pytest.mark.parametrize("angle", [0, 13, 90, -137])
@pytest.mark.parametrize("factor", [0.1, 0.125, 0.37, 0.7, 1, 1.4, 4])
def test_cutting_puts_a_blob_where_the_matrix_says(factor, angle):
    centre = (200.3, 190.7)
    frame = gray((255 * blob(400, 420, centre, 5 / factor)).round())
    matrix = similarity(angle, factor, centre, (44.2, 51.6))
    crop = cut(frame, matrix[None], 96)[0, 0].double().numpy()
    np.testing.assert_allclose(centroid(crop), (44.2, 51.6), atol=0.05)


def test_crops_are_cut_one_by_one():
    frame = noise(80, 90)
    matrices = torch.stack([similarity(a, f, (40, 40), (20, 20)) for a, f in [(5, 0.4), (70, 2)]])
    both = cut(frame, matrices, 40)
    assert torch.equal(both, torch.cat([cut(frame, m[None], 40) for m in matrices]))


def test_no_faces_give_no_crops():
    crops = cut(noise(8, 8), torch.zeros(0, 2, 3), 16)
    assert crops.shape == (0, 3, 16, 16)
    assert crops.dtype == torch.float32


def test_a_frame_of_one_pixel_can_be_cut():
    frame = torch.tensor([[[10, 20, 30]]], dtype=torch.uint8)
    for factor in (0.01, 1, 50):
        crop = cut(frame, similarity(30, factor, (0, 0), (7.5, 7.5))[None], 16)
        expected = torch.tensor([10.0, 20, 30]).view(1, 3, 1, 1).expand(1, 3, 16, 16) / 255
        torch.testing.assert_close(crop, expected, atol=1e-4, rtol=0)


def test_sampling_beyond_an_image_repeats_its_edge_or_gives_zeros():
    image = torch.arange(6.0).reshape(1, 1, 2, 3) + 1
    # two pixels to the right and one up: the grid starts at (-2, 1)
    grid = torch.tensor([[1.0, 0, -2], [0, 1.0, 1]])
    border = sample(image, grid, 2, 4)[0, 0]
    torch.testing.assert_close(border, torch.tensor([[4.0, 4, 4, 5], [4, 4, 4, 5]]))
    zeros = sample(image, grid, 2, 4, outside="zeros")[0, 0]
    torch.testing.assert_close(zeros, torch.tensor([[0.0, 0, 4, 5], [0, 0, 0, 0]]))


# ---------------------------------------------------------------- paste

places = st.builds(
    similarity,
    st.floats(-180, 180),
    st.floats(-3, 3).map(lambda exponent: 2.0**exponent),
    st.tuples(st.floats(-150, 250), st.floats(-150, 250)),
    st.tuples(st.floats(0, 31), st.floats(0, 31)),
)


@steady
@given(places, st.integers(0, 10))
def test_nothing_changes_outside_the_paste_rectangle(matrix, seed):
    frame = noise(96, 128)
    colours = torch.from_numpy(np.random.default_rng(seed).random((3, 32, 32), np.float32))
    opacity = soft_mask(32, seed) if seed % 2 else torch.ones(32, 32)
    pixels = paste(frame, torch.cat([colours * opacity, opacity[None]])[None], matrix[None])
    box = paste_rectangle(matrix, 32, (96, 128))
    outside = torch.ones(96, 128, dtype=torch.bool)
    if not box.empty:
        assert 0 <= box.left < box.right <= 128
        assert 0 <= box.top < box.bottom <= 96
        outside[box.top : box.bottom, box.left : box.right] = False
    assert torch.equal(pixels[outside], frame[outside])
    assert pixels.dtype == torch.uint8


@steady
@given(places)
def test_the_paste_rectangle_cuts_nothing_off(matrix):
    # the outermost pixels of the rectangle stay as they are, where the frame goes on beyond them
    frame = gray(np.zeros((96, 128)))
    pixels = paste(frame, opaque((1.0, 1.0, 1.0), 32)[None], matrix[None])[..., 0]
    left, top, right, bottom = box = paste_rectangle(matrix, 32, (96, 128))
    if box.empty:
        assert not bool(pixels.any())
        return
    inside = pixels[top:bottom, left:right]
    if left > 0:
        assert not bool(inside[:, 0].any())
    if top > 0:
        assert not bool(inside[0].any())
    if right < 128:
        assert not bool(inside[:, -1].any())
    if bottom < 96:
        assert not bool(inside[-1].any())


@steady
@given(places, st.integers(0, 10))
def test_a_frame_is_a_window_on_a_larger_one(matrix, seed):
    # pasting partly or wholly outside of a frame equals pasting into a larger one, then cropping
    frame = noise(64, 80)
    # by 60, of which every coarse step is a divisor
    larger = functional.pad(frame, (0, 0, 60, 60, 60, 60))
    colours = torch.from_numpy(np.random.default_rng(seed).random((3, 32, 32), np.float32))
    opacity = soft_mask(32, seed)
    patches = torch.cat([colours * opacity, opacity[None]])[None]
    moved = matrix - torch.cat([torch.zeros(2, 2), matrix[:, :2] @ torch.full((2, 1), 60.0)], 1)
    there = paste(larger, patches, moved[None])[60:-60, 60:-60]
    here = paste(frame, patches, matrix[None])
    assert int((there.int() - here.int()).abs().max()) <= 1


@steady
@given(places, st.tuples(*[st.integers(0, 255)] * 3), st.integers(0, 20))
def test_a_flat_frame_stays_flat_under_a_patch_of_its_colour(matrix, codes, seed):
    frame = torch.tensor(codes, dtype=torch.uint8).expand(96, 128, 3)
    colour = tuple(code / 255 for code in codes)
    pixels = paste(frame, patch(colour, soft_mask(32, seed))[None], matrix[None])
    assert int((pixels.int() - frame.int()).abs().max()) <= 1


@pytest.mark.parametrize("factor", [0.2, 1.0, 3.0])
def test_the_frame_is_changed_in_place_and_the_patches_are_not(factor):
    frame = noise(64, 64)
    place, before = frame.data_ptr(), frame.clone()
    matrix = similarity(10, factor, (30, 30), (15.5, 15.5))
    patches = opaque((0.2, 0.4, 0.6), 32)[None]
    untouched = patches.clone()
    geometry.paste(frame, patches, matrix[None])
    assert frame.data_ptr() == place
    assert not torch.equal(frame, before)
    assert torch.equal(patches, untouched)


@pytest.mark.parametrize("factor", [0.2, 0.9, 1.0, 3.0])
@pytest.mark.parametrize("angle", [0, 33])
def test_an_opaque_patch_paints_its_colour(factor, angle):
    codes = (13, 128, 251)
    matrix = similarity(angle, factor, (70, 60), (15.5, 15.5))
    pixels = paste(noise(128, 140), opaque([c / 255 for c in codes], 32)[None], matrix[None])
    y, x = torch.meshgrid(torch.arange(128), torch.arange(140), indexing="ij")
    inside = apply(matrix, torch.stack([x, y], dim=-1).reshape(-1, 2).float())
    # one pixel of the frame and one of the patch away from the patch's edges
    near = 0.5 + max(1.0, factor)
    deep = ((inside > near) & (inside < 31 - near)).all(dim=1).reshape(128, 140)
    assert int(deep.sum()) > 20
    assert (pixels[deep] == torch.tensor(codes, dtype=torch.uint8)).all()


def test_a_patch_at_its_own_size_is_painted_pixel_by_pixel():
    colours = noise(16, 16, seed=5)
    patches = torch.cat([colours.permute(2, 0, 1) / 255, torch.ones(1, 16, 16)])
    frame = noise(40, 50)
    expected = frame.clone()
    expected[20:36, 11:27] = colours
    assert torch.equal(paste(frame, patches[None], shift(-11, -20)[None]), expected)


def test_half_an_opacity_is_half_the_colour():
    frame = gray(np.full((40, 40), 100))
    half = patch((1.0, 0.0, 0.4), torch.full((16, 16), 0.5))
    pixels = paste(frame, half[None], shift(-10, -10)[None])
    # (255 + 100) / 2 = 177.5, (0 + 100) / 2 = 50, (102 + 100) / 2 = 101
    middle = pixels[14:22, 14:22].reshape(-1, 3)
    assert set(middle[:, 0].tolist()) <= {177, 178}
    assert set(middle[:, 1].tolist()) == {50}
    assert set(middle[:, 2].tolist()) == {101}


def test_later_faces_lie_on_top():
    red, blue = opaque((1.0, 0.0, 0.0), 16), opaque((0.0, 0.0, 1.0), 16)
    matrices = torch.stack([shift(-10, -10), shift(-18, -10)])
    frame = noise(40, 50)
    over = paste(frame, torch.stack([red, blue]), matrices)
    assert over[15, 22].tolist() == [0, 0, 255]
    assert over[15, 14].tolist() == [255, 0, 0]
    under = paste(frame, torch.stack([blue, red]), matrices.flip(0))
    assert under[15, 22].tolist() == [255, 0, 0]
    one_by_one = paste(paste(frame, red[None], matrices[:1]), blue[None], matrices[1:])
    assert torch.equal(over, one_by_one)


@pytest.mark.parametrize("factor", [0.2, 1.0, 3.0])
def test_no_opacity_leaves_the_frame(factor):
    frame = noise(64, 64)
    matrices = similarity(10, factor, (30, 30), (15.5, 15.5))[None]
    pixels = paste(frame, torch.zeros(1, 4, 32, 32), matrices)
    assert torch.equal(pixels, frame)
    # also beside a single pixel that is not empty: all but its surroundings stay
    spot = torch.zeros(1, 4, 32, 32)
    spot[:, :, 3, 3] = 1
    pixels = paste(frame, spot, matrices)
    box = paste_rectangle(matrices[0], Rectangle(1, 1, 6, 6), (64, 64))
    outside = torch.ones(64, 64, dtype=torch.bool)
    outside[box.top : box.bottom, box.left : box.right] = False
    assert torch.equal(pixels[outside], frame[outside])


def test_no_faces_leave_the_frame():
    frame = noise(8, 8)
    before = frame.clone()
    assert geometry.paste(frame, torch.zeros(0, 4, 16, 16), torch.zeros(0, 2, 3)) == ()
    assert torch.equal(frame, before)


@pytest.mark.parametrize("angle", [0, 13, 90, -137])
@pytest.mark.parametrize("factor", [0.1, 0.137, 0.37, 0.7, 1, 1.4, 2.7])
def test_pasting_puts_a_blob_where_the_matrix_says(factor, angle):
    opacity = torch.from_numpy(blob(64, 64, (30.4, 33.1), 6 if factor > 1 else 4)).float()
    matrix = similarity(angle, factor, (150.27, 140.61), (30.4, 33.1))
    patches = patch((1.0, 1.0, 1.0), torch.where(opacity > 0.004, opacity, 0))[None]
    pixels = paste(gray(np.zeros((300, 320))), patches, matrix[None])
    found = centroid(pixels[..., 0].double().numpy() / 255)
    np.testing.assert_allclose(found, (150.27, 140.61), atol=0.05)


@pytest.mark.parametrize("factor", [0.4, 1.0, 2.5])
def test_what_was_cut_goes_back_where_it_was(factor):
    # a smooth frame survives the way to the crop and back within two codes
    rough = np.random.default_rng(2).random((160, 180, 3))
    smooth = gaussian_filter(rough, (20, 20, 0))
    smooth = (smooth - smooth.min()) / (smooth.max() - smooth.min())
    frame = torch.from_numpy((255 * smooth).round().astype(np.uint8))
    matrix = similarity(28, factor, (91.3, 77.8), (31.5, 31.5))
    opacity = torch.ones(1, 1, 64, 64)
    pixels = paste(frame, torch.cat([cut(frame, matrix[None], 64), opacity], 1), matrix[None])
    assert int((pixels.int() - frame.int()).abs().max()) <= 2


def rise(values, low, high):
    """Return over how many pixels rising ``values`` go from ``low`` to ``high``."""

    def crossing(level):
        i = int(np.argmax(values >= level))
        return i - 1 + (level - values[i - 1]) / (values[i] - values[i - 1])

    return crossing(high) - crossing(low)


def test_feather_takes_the_same_share_of_small_and_large_faces():
    # a face 80 crop pixels wide, pasted 50 and 900 pixels wide, in white on black
    turn = torch.arange(36) * (2 * torch.pi / 36)
    oval = torch.stack([63.5 + 40 * turn.cos(), 63.5 + 52 * turn.sin()], dim=-1)
    patches = patch((1.0, 1.0, 1.0), face_mask(oval[None], 128)[0])[None]
    shares = []
    for face in (50, 900):
        side = 2 * (face * 8 // 10)
        centre = (side - 1) / 2
        matrix = similarity(0, 80 / face, (centre, centre), (63.5, 63.5))
        pixels = paste(gray(np.zeros((side, side))), patches, matrix[None])
        row = pixels[side // 2, : side // 2, 0].numpy() / 255
        shares.append(rise(row, 0.1, 0.9) / face)
    # the mask's own ramp: its share of 128 pixels, of which the cubic spends 0.608 on 10 to 90 %
    own = 0.608 * FEATHER * 128 / 80
    assert shares[1] == pytest.approx(own, rel=0.02)
    assert shares[0] == pytest.approx(shares[1], rel=0.1)


def test_a_patch_enlarged_beyond_all_measure_is_pasted():
    # 700 times: the step at which it is turned exceeds the rows that are pasted at a time
    frame = torch.zeros(40, 50, 3, dtype=torch.uint8)
    matrix = torch.tensor([[[1 / 700, 0, 7.0], [0, 1 / 700, 7.0]]])
    assert bool((paste(frame, torch.ones(1, 4, 16, 16), matrix) == 255).all())


# ---------------------------------------------------------------- paste: depths and channels


def fine(height, width, channels=3, seed=0):
    """Return a frame of 16-bit noise."""
    codes = np.random.default_rng(seed).integers(0, 65536, (height, width, channels))
    return torch.from_numpy(codes.astype(np.uint16))


def layered(channels, size, seed):
    """Return a premultiplied patch (1, channels + 1, size, size) with a soft edge."""
    colours = torch.from_numpy(
        np.random.default_rng(seed).random((channels, size, size), np.float32)
    )
    opacity = soft_mask(size, seed)
    return torch.cat([colours * opacity, opacity[None]])[None]


def outside_of(box, height, width):
    outside = torch.ones(height, width, dtype=torch.bool)
    if not box.empty:
        outside[box.top : box.bottom, box.left : box.right] = False
    return outside


@steady
@given(places, st.integers(0, 10), st.sampled_from([1, 3, 4]))
def test_sixteen_bits_change_nothing_outside_the_paste_rectangle(matrix, seed, channels):
    frame = fine(96, 128, channels)
    pixels = paste(frame, layered(channels, 32, seed), matrix[None])
    outside = outside_of(paste_rectangle(matrix, 32, (96, 128)), 96, 128)
    assert pixels.dtype == torch.uint16
    assert np.array_equal(pixels.numpy()[outside], frame.numpy()[outside])


@pytest.mark.parametrize("codes", [(0, 1, 2), (77, 30_001, 65_534), (65_535, 65_535, 65_535)])
def test_a_patch_is_painted_at_sixteen_bits(codes):
    # a code of 65535 is a step of 2 ** -16, and float32 has 24 bits: every code comes out exactly
    frame = fine(60, 70)
    pixels = paste(frame, opaque([c / 65_535 for c in codes], 32)[None], shift(-20, -10)[None])
    assert pixels.numpy()[12:40, 22:50].reshape(-1, 3).tolist() == [list(codes)] * (28 * 28)


def test_half_an_opacity_is_half_the_colour_at_sixteen_bits():
    frame = torch.full((40, 40, 1), 10_001, dtype=torch.uint16)
    half = torch.cat([torch.full((1, 16, 16), 0.5 * 3 / 65_535), torch.full((1, 16, 16), 0.5)])
    middle = paste(frame, half[None], shift(-10, -10)[None]).numpy()[14:22, 14:22]
    assert set(middle.flatten().tolist()) == {5_002}  # (10001 + 3) / 2


@pytest.mark.parametrize("factor", [0.2, 1.0, 3.0])
def test_sixteen_bits_are_a_finer_eight(factor):
    coarse = noise(80, 90)
    deep = torch.from_numpy(coarse.numpy().astype(np.uint16) * 257)
    matrix, patches = similarity(20, factor, (40, 40), (15.5, 15.5))[None], layered(3, 32, 4)
    small = paste(coarse, patches, matrix).numpy().astype(float)
    large = paste(deep, patches, matrix).numpy() / 257
    assert np.abs(large - small).max() <= 0.51
    between = np.abs(large - np.round(large)) > 0.1
    assert between.mean() > 0.01  # and there is something between


@pytest.mark.parametrize("make", [noise, fine], ids=["8 bits", "16 bits"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_channels_are_painted_one_by_one(make, channels):
    three = make(70, 80).numpy()
    frame = torch.from_numpy(np.concatenate([three, three[::-1]], axis=2)[..., :channels].copy())
    patches, matrix = layered(channels, 32, 3), similarity(30, 0.7, (40, 35), (15, 16))[None]
    together = paste(frame, patches, matrix).numpy()
    assert together.shape == frame.shape
    for i in range(channels):
        alone = paste(frame[..., i : i + 1].contiguous(), patches[:, [i, -1]], matrix).numpy()
        assert np.array_equal(together[..., i], alone[..., 0])
    assert not np.array_equal(together, frame.numpy())


@pytest.mark.parametrize("factor", [1 / 20, 0.4, 1.5])
def test_bands_have_no_seams(monkeypatch, factor):
    frame = fine(300, 40, 1)
    matrix, patches = similarity(3, factor, (20, 150), (15.5, 15.5))[None], layered(1, 32, 6)
    monkeypatch.setattr("mien.geometry.warp.BAND", 16)
    bands = paste(frame, patches, matrix).numpy().astype(int)
    monkeypatch.setattr("mien.geometry.warp.BAND", 1000)
    whole = paste(frame, patches, matrix).numpy().astype(int)
    assert np.abs(whole - bands).max() <= 8  # of 65535: rounding, no more
    assert not np.array_equal(whole, frame.numpy())


# ---------------------------------------------------------------- covered, and uncovered again


@steady
@given(
    st.lists(places, min_size=1, max_size=3), st.sampled_from([1, 3, 4]), st.sampled_from([8, 16])
)
def test_what_was_covered_can_be_uncovered(matrices, channels, bits):
    frame = fine(96, 128, channels)
    if bits == 8:
        frame = torch.from_numpy((frame.numpy() >> 8).astype(np.uint8))
    before = frame.clone()
    patches = torch.cat([layered(channels, 32, seed) for seed in range(len(matrices))])
    covered = geometry.paste(frame, patches, torch.stack(matrices))
    after = frame.clone()
    geometry.uncover(frame, covered)
    assert torch.equal(frame, before)
    outside = np.ones((96, 128), bool)
    for part in covered:
        left, top, right, bottom = part.rectangle
        assert 0 <= left < right <= 128
        assert 0 <= top < bottom <= 96
        assert part.before.shape == (bottom - top, right - left, channels)
        outside[top:bottom, left:right] = False
    assert np.array_equal(after.numpy()[outside], before.numpy()[outside])


def test_each_covered_part_is_what_lay_there_before():
    frame = noise(40, 50)
    before = frame.clone()
    red, blue = opaque((1.0, 0.0, 0.0), 16), opaque((0.0, 0.0, 1.0), 16)
    matrices = torch.stack([shift(-10, -10), shift(-18, -10)])
    lower, upper = geometry.paste(frame, torch.stack([red, blue]), matrices)
    assert lower.rectangle == paste_rectangle(matrices[0], 16, (40, 50))
    assert upper.rectangle == paste_rectangle(matrices[1], 16, (40, 50))
    left, top, right, bottom = lower.rectangle
    assert torch.equal(lower.before, before[top:bottom, left:right])
    left, top, right, bottom = upper.rectangle
    one = paste(before, red[None], matrices[:1])
    assert torch.equal(upper.before, one[top:bottom, left:right])


def test_a_covered_part_is_a_copy():
    frame = noise(40, 50)
    (part,) = geometry.paste(frame, opaque((1.0, 0.0, 0.0), 16)[None], shift(-10, -10)[None])
    kept = part.before.clone()
    frame.zero_()
    assert torch.equal(part.before, kept)


@pytest.mark.parametrize(
    ("patch_", "matrix"),
    [
        (torch.zeros(4, 16, 16), shift(-10, -10)),
        (opaque((1.0, 0.0, 0.0), 16), shift(-100, -10)),
        (opaque((1.0, 0.0, 0.0), 16), shift(60, 10)),
    ],
    ids=["no opacity", "right of the frame", "left of the frame"],
)
def test_what_touches_nothing_covers_nothing(patch_, matrix):
    frame = noise(40, 50)
    before = frame.clone()
    assert geometry.paste(frame, patch_[None], matrix[None]) == ()
    assert torch.equal(frame, before)
