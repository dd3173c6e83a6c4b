"""Samples: RGB by independent formulas, and nothing changed that the swap did not touch."""

from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from drawn import bits, drawn, read_back, samples, write_clip

from mien.errors import InvalidOption
from mien.media.clip import Clip
from mien.media.clip.colour import Colour, Hdr
from mien.media.clip.layout import in_planes, layout_of, planar_name
from mien.media.clip.look import Look
from mien.media.clip.orientation import Orientation
from mien.media.clip.stored import StoredFrame
from mien.types import Frame, Rectangle

WEIGHTS = {1: (0.2126, 0.0722), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}


def stored(frame, *, colour=Colour(), siting="left", orientation=Orientation()):  # noqa: B008
    look = Look(
        width=frame.width,
        height=frame.height,
        layout=layout_of(frame.format.name),
        colour=colour,
        siting=siting,
        orientation=orientation,
        hdr=Hdr(),
        aspect=Fraction(1),
    )
    frame.pts, frame.time_base = 0, Fraction(1, 24)
    return StoredFrame(frame, look, Fraction(0))


def stretched(plane, count, step, on_sample):
    """Interpolate chroma linearly along axis 0: written from the definition of the sitings."""
    if step == 1:
        return plane
    place = np.arange(count) / step if on_sample else (np.arange(count) + 0.5) / step - 0.5
    low = np.floor(place).astype(int)
    part = (place - low)[:, None]
    first, second = np.clip(low, 0, len(plane) - 1), np.clip(low + 1, 0, len(plane) - 1)
    return plane[first] * (1 - part) + plane[second] * part


def by_formula(frame, full, matrix, siting):
    """Return RGB in [0, 1] of a PyAV frame, by H.273's equations in float64."""
    layout = layout_of(frame.format.name)
    y, u, v = (plane.astype(float) for plane in samples(frame))
    unit = 2 ** (layout.depth - 8)
    height, width = y.shape
    chroma = []
    for plane in (u, v):
        rows = stretched(plane, height, layout.down, siting == "topleft")
        whole = stretched(rows.T, width, layout.across, siting != "center").T
        chroma.append((whole - 128 * unit) / (layout.top if full else 224 * unit))
    luma = y / layout.top if full else (y - 16 * unit) / (219 * unit)
    red, blue = WEIGHTS[matrix]
    r, b = luma + 2 * (1 - red) * chroma[1], luma + 2 * (1 - blue) * chroma[0]
    g = (luma - red * r - blue * b) / (1 - red - blue)
    return np.clip(np.stack([r, g, b], axis=-1), 0, 1)


FORMATS = [
    "yuv420p",
    "yuv422p",
    "yuv444p",
    "yuv420p10le",
    "yuv422p10le",
    "yuv444p10le",
    "yuv422p12le",
]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", [1, 6, 9])
def test_pictures_follow_the_formulas(name, full, matrix):
    frame = drawn(96, 64, name)
    expected = by_formula(frame, full, matrix, "left")
    picture = stored(frame, colour=Colour(full=full, matrix=matrix)).picture()
    assert picture.pixels.dtype == (torch.uint8 if bits(name) == 8 else torch.uint16)
    found = picture.pixels.numpy() / picture.peak
    # half a code of 8 bits; for deeper ones, a sixteenth of a code of 10 bits
    assert np.abs(found - expected).max() < (0.51 / 255 if bits(name) == 8 else 1 / 16368)


@pytest.mark.parametrize("siting", ["left", "center", "topleft"])
@pytest.mark.parametrize("size", [(96, 64), (65, 47)])
def test_chroma_lies_where_it_is_said_to(siting, size):
    frame = drawn(*size)
    expected = by_formula(frame, False, 1, siting)
    found = stored(frame, colour=Colour(matrix=1), siting=siting).picture().pixels.numpy() / 255
    assert np.abs(found - expected).max() < 0.51 / 255


@pytest.mark.parametrize("name", [*FORMATS, "gray", "gray10le", "gbrp", "gbrp10le", "yuva444p"])
def test_no_change_leaves_every_sample(name):
    frame = stored(drawn(65, 47, name))
    before = [plane.copy() for plane in frame.planes]
    after = frame.with_changes(frame.picture(), [Rectangle(3, 5, 60, 44)])
    assert not after.patches
    for old, new in zip(before, samples(after.for_encoder()), strict=True):
        assert np.array_equal(old, new)


@pytest.mark.parametrize("name", [*FORMATS, "gray", "gbrp", "gbrp10le"])
@pytest.mark.parametrize("siting", ["left", "center", "topleft"])
def test_only_samples_under_the_change_differ(name, siting):
    frame = stored(drawn(97, 61, name), siting=siting)
    before = [plane.copy() for plane in frame.planes]
    picture = frame.picture()
    picture.pixels[20:33, 31:50] = picture.peak // 3
    after = frame.with_changes(picture, [Rectangle(25, 15, 60, 40)])
    layout = layout_of(name)
    for index, (old, new) in enumerate(zip(before, after.planes, strict=True)):
        chroma = layout.kind == "yuv" and index in (1, 2)
        across, down = (layout.across, layout.down) if chroma else (1, 1)
        rows, columns = np.nonzero(old != new)
        assert len(rows)
        # a chroma sample that lies on a pixel has half of its weight on those beside it
        assert rows.min() >= 20 // down
        assert rows.max() <= -(-33 // down)
        assert columns.min() >= 31 // across
        assert columns.max() <= -(-50 // across)
    assert all(np.array_equal(a, b) for a, b in zip(before, frame.planes, strict=True))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("full", [False, True])
def test_a_changed_patch_comes_back_as_it_was_painted(name, full):
    frame = stored(drawn(96, 64, name), colour=Colour(full=full, matrix=1))
    picture = frame.picture()
    y, x = np.mgrid[:40, :48]
    patch = np.stack([0.3 + x / 120, 0.55 - y / 150 + 0 * x, 0.4 + (x + y) / 300], axis=-1)
    painted = np.round(patch * picture.peak)
    picture.pixels[10:50, 20:68] = torch.from_numpy(painted.astype(picture.pixels.numpy().dtype))
    after = frame.with_changes(picture, [Rectangle(20, 10, 68, 50)])
    seen = by_formula(after.for_encoder(), full, 1, "left")[12:48, 22:66]
    wrong = np.abs(seen - patch[2:-2, 2:-2]) * 255
    assert wrong.mean() < 1
    assert wrong.mean() * 2 ** (bits(name) - 8) < 1.5  # in codes of its own depth


def test_soft_edges_keep_the_detail_of_chroma_that_was_there():
    """A swap of no opacity but for one pixel must not blur colours around it."""
    frame = drawn(64, 48)
    samples(frame)[1][:, ::2] = 60  # chroma as fine as it can be
    whole = stored(frame)
    old = whole.planes[1].copy()
    picture = whole.picture()
    picture.pixels[20, 20] += 9
    new = whole.with_changes(picture, [Rectangle(0, 0, 64, 48)]).planes[1]
    assert np.abs(new.astype(int) - old).max() <= 3


def test_overlapping_rectangles_are_one_change():
    frame = drawn(64, 48)
    one, two = stored(frame), stored(frame)
    picture = one.picture()
    picture.pixels[10:30, 10:40] = 90
    whole = one.with_changes(picture, [Rectangle(10, 10, 40, 30)])
    parts = two.with_changes(picture, [Rectangle(10, 10, 27, 30), Rectangle(23, 10, 40, 30)])
    for a, b in zip(whole.planes, parts.planes, strict=True):
        assert np.array_equal(a, b)


def test_a_change_on_top_of_a_change():
    frame = stored(drawn(64, 48))
    picture = frame.picture()
    picture.pixels[10:20, 10:20] = 90
    once = frame.with_changes(picture, [Rectangle(10, 10, 20, 20)])
    again = once.picture()
    again.pixels[30:40, 30:40] = 200
    twice = once.with_changes(again, [Rectangle(30, 30, 40, 40)])
    shown = twice.picture().pixels.int()
    assert (shown[12:18, 12:18] - 90).abs().max() <= 2
    assert (shown[32:38, 32:38] - 200).abs().max() <= 2


@pytest.mark.parametrize(
    "orientation",
    [Orientation(t, m, f) for t in (False, True) for m in (False, True) for f in (False, True)],
)
def test_changes_find_their_place_in_turned_frames(orientation):
    frame = stored(drawn(64, 48), orientation=orientation)
    picture = frame.picture()
    assert (picture.width, picture.height) == frame.size
    place = Rectangle(6, 8, 21, 25)
    picture.pixels[place.top : place.bottom, place.left : place.right] = 77
    after = frame.with_changes(picture, [place])
    difference = (after.picture().pixels.int() - picture.pixels.int()).abs()
    assert difference[10:23, 8:19].max() <= 1
    outside = torch.ones(picture.height, picture.width, dtype=torch.bool)
    outside[6:28, 4:24] = False
    assert difference[outside].max() == 0


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le", "gray", "gbrp", "gbrp10le"])
def test_brightness_is_added_to_luma_alone_or_to_all_of_rgb(name, full, turned):
    frame = stored(
        drawn(64, 48, name), colour=Colour(full=full), orientation=Orientation(turned, False, True)
    )
    layout, (width, height) = frame.look.layout, frame.size
    change = torch.arange(height * width).view(height, width).remainder(21).sub(10).short()
    before = [plane.copy() for plane in frame.planes]
    after = frame.brightened(change).planes
    assert all(np.array_equal(*pair) for pair in zip(before, frame.planes, strict=True))
    rgb, unit = layout.kind == "rgb", 1 << layout.depth - 8
    codes = layout.top / 255 if full or rgb else 219 * unit / 255  # BT.601's span of luma
    by = np.rint(frame.look.orientation.stored(change.numpy()) * codes)
    bright = 3 if rgb else 1
    for old, new in zip(before[:bright], after, strict=False):
        assert new.dtype == old.dtype
        assert np.abs(new - (old + by).clip(0, layout.top)).max() <= (codes > 1)
    assert all(np.array_equal(*pair) for pair in zip(before[bright:], after[bright:], strict=True))


def test_brightness_stays_within_the_codes():
    for value, wanted in ((0, 0), (255, 255)):
        raw = drawn(64, 48)
        samples(raw)[0][:] = value
        change = torch.full((48, 64), -9 if value == 0 else 9, dtype=torch.int16)
        assert (stored(raw).brightened(change).planes[0] == wanted).all()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("name", "full"), [("yuv420p", True), ("yuv420p10le", False), ("gbrp", 1)])
def test_luma_is_the_brightness_that_is_seen(name, full, turned):
    frame = stored(
        drawn(64, 48, name), colour=Colour(full=full), orientation=Orientation(turned, False, False)
    )
    width, height = frame.size
    weights = torch.tensor([0.299, 0.587, 0.114])
    seen = (frame.picture().view.float() * weights).sum(dim=2)
    assert frame.luma(height, width).shape == seen.shape
    assert (frame.luma(height, width) - seen).abs().mean() < 3
    assert frame.luma(12, 16).shape == (12, 16)


@pytest.mark.parametrize(
    "name", ["nv12", "yuyv422", "rgb24", "bgr0", "p010le", "yuvj420p", "gray10be"]
)
def test_formats_of_another_order_hold_the_same_samples(name):
    wanted, exact = planar_name(name)
    assert exact
    assert layout_of(wanted)
    first = drawn(64, 48, wanted)
    shuffled = first.reformat(format=name) if name != "yuvj420p" else None
    if shuffled is None:
        shuffled = av.VideoFrame(64, 48, name)
        for into, plane in zip(samples(shuffled), samples(first), strict=True):
            into[:] = plane
    back = in_planes(shuffled)
    for a, b in zip(samples(first), samples(back), strict=True):
        assert np.array_equal(a, b)


def test_frames_are_untouched_until_they_are_encoded(tmp_path):
    path = write_clip(tmp_path / "a.mkv", codec="ffv1", options={})
    raw = read_back(path)[0]
    for frame, expected in zip(Clip(path).frames(), raw, strict=True):
        for a, b in zip(frame.planes, samples(expected), strict=True):
            assert np.array_equal(a, b)


def test_a_picture_is_a_frame_of_mien():
    picture = stored(drawn(64, 48)).picture()
    assert isinstance(picture, Frame)
    assert picture.sight is None
    assert picture.table is None
    assert picture.time == 0
    deep = stored(drawn(64, 48, "yuv420p10le")).picture()
    assert deep.view.dtype == torch.uint8
    assert deep.table is None


def test_hardware_that_is_not_there_is_told_and_changes_nothing(tmp_path):
    clip = Clip(write_clip(tmp_path / "a.mp4", frames=4))
    plain = [[plane.copy() for plane in frame.planes] for frame in clip.frames()]
    assert clip.notes == ()
    for hardware in ("auto", "vaapi"):
        for frame, expected in zip(clip.frames(hardware=hardware), plain, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(frame.planes, expected, strict=True))
        assert "decode" in clip.notes[0]
    with pytest.raises(InvalidOption):
        next(clip.frames(hardware="abacus"))
