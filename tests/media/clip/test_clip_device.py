"""Frames on a device: its code is run on the CPU here, against FFmpeg's scaler and definitions."""

from contextlib import nullcontext
from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from conftest import nothing_waits
from drawn import bits, samples

from mien.media.clip import stored as module
from mien.media.clip.colour import Colour, Hdr
from mien.media.clip.layout import layout_of
from mien.media.clip.look import Look
from mien.media.clip.orientation import Orientation
from mien.media.clip.stored import StoredFrame
from mien.pipeline.imprint import Imprint
from mien.safety.label import Label
from mien.types import Rectangle

CPU = torch.device("cpu")
SITINGS = ["left", "center", "topleft"]
TURNS = [
    Orientation(),
    Orientation(True, False, True),
    Orientation(False, True, True),
    Orientation(True),
]
PLACES = [Rectangle(-3, -3, 20, 18), Rectangle(15, 9, 41, 33), Rectangle(40, 30, 99, 99)]


@pytest.fixture
def device(monkeypatch):
    """The CPU, with what a GPU does in the place of FFmpeg."""
    monkeypatch.setattr(module, "apart", lambda device: True)
    return CPU


@pytest.fixture
def both(monkeypatch):
    """Return what a frame gives by FFmpeg, and what it gives as on a GPU."""

    def call(make, work):
        with monkeypatch.context() as patch:
            here = work(make())
            patch.setattr(module, "apart", lambda device: True)
            return here, work(make())

    return call


def noise(
    size, name="yuv420p", *, full=False, siting="left", turn=TURNS[0], seed=0, any_code=False
):
    """Return a stored frame of noise, of codes that may be; the scaler wraps around at others."""
    frame, random = av.VideoFrame(*size, name), np.random.default_rng(seed)
    low, high = (0, 256) if any_code else (16, 236)
    for plane in samples(frame):
        unit = 1 << bits(name) - 8
        plane[:] = random.integers(low * unit, high * unit, plane.shape)
    frame.pts, frame.time_base = 0, Fraction(1, 24)
    look = Look(
        width=frame.width,
        height=frame.height,
        layout=layout_of(name),
        colour=Colour(full=full, matrix=1),
        siting=siting,
        orientation=turn,
        hdr=Hdr(),
        aspect=Fraction(1),
    )
    return StoredFrame(frame, look, Fraction(0))


def painted(frame, seed=1):
    """Return the picture of a frame, with noise in half of all pixels and in a solid part."""
    picture, random = frame.picture(), np.random.default_rng(seed)
    pixels = picture.pixels.numpy()
    where = random.random(pixels.shape[:2]) < 0.5
    where[10:30, 12:34] = True
    where[-8:, -6:] = True
    other = random.integers(0, picture.peak + 1, pixels.shape).astype(pixels.dtype)
    pixels[where] = other[where]
    return picture


def kept(planes):
    return [plane.copy() for plane in planes]


# From samples to RGB


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("siting", SITINGS)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("size", [(64, 48), (65, 47)])
def test_pictures_are_those_of_the_scaler(both, size, full, siting, turn):
    here, there = both(
        lambda: noise(size, full=full, siting=siting, turn=turn), lambda frame: frame.picture(CPU)
    )
    off = (here.pixels.int() - there.pixels.int()).abs()
    assert off.max() == 1  # or this has not been the device's code
    assert off.float().mean() < 0.02
    assert there.pixels.is_contiguous()
    assert (there.sight, there.table, there.time) == (None, None, 0)


@pytest.mark.parametrize("name", ["yuv420p10le", "yuv422p", "gray", "gbrp"])
def test_what_a_device_does_not_convert_is_brought_there(name):
    frame = noise((64, 48), name)
    here, there = frame.picture(), frame.picture(torch.device("meta"))
    assert there.pixels.is_meta
    assert there.pixels.shape == here.pixels.shape
    assert (here.sight is None) == (there.sight is None) == (name != "yuv420p10le")


def test_all_pictures_of_a_frame_are_the_same(device, monkeypatch):
    frame = noise((64, 48))
    there = frame.picture(device)
    monkeypatch.undo()
    assert torch.equal(frame.picture().pixels, there.pixels)
    there.pixels.zero_()
    assert frame.picture().pixels.any()


# And back


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("size", [(64, 48), (65, 47)])
def test_no_change_leaves_every_sample_and_is_not_looked_for(device, size, turn):
    frame = noise(size, turn=turn)
    before = kept(frame.planes)
    after = frame.with_changes(frame.picture(device), PLACES)
    assert len(after.patches) == 3 * len(PLACES)
    for planes in (after.planes, samples(after.for_encoder())):
        assert all(np.array_equal(*pair) for pair in zip(before, planes, strict=True))


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("siting", SITINGS)
@pytest.mark.parametrize("size", [(64, 48), (65, 47)])
def test_changes_are_those_of_the_cpu(both, size, siting, turn):
    def work(frame):
        before = kept(frame.planes)
        after = frame.with_changes(painted(frame), PLACES)
        shown = kept(after.planes)
        written = samples(after.for_encoder())
        assert all(np.array_equal(*pair) for pair in zip(shown, written, strict=True))
        return before, shown

    (before, here), (_, there) = both(lambda: noise(size, siting=siting, turn=turn), work)
    for old, one, other in zip(before, here, there, strict=True):
        assert np.abs(one.astype(int) - other).max() <= 1
        assert (one != old).mean() > 0.1
        # noise may fall on the very value that one of both pictures had there
        assert ((one == old) != (other == old)).mean() < 0.02


FORMATS = ["yuv420p", "yuv422p", "yuv444p", "yuv410p", "yuv411p", "yuv440p", "yuv422p10le"]


def shares(size, step, on_sample):
    """Return the weights (samples, pixels) by which pixels count for chroma along an axis."""
    count = -(-size // step)
    weights = np.zeros((count, size))
    for sample in range(count):
        ways = range(step) if not (on_sample and step == 2) else (-1, 0, 0, 1)
        for way in ways:
            weights[sample, np.clip(sample * step + way, 0, size - 1)] += 1 / len(ways)
    return weights


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("siting", SITINGS)
@pytest.mark.parametrize("full", [False, True])
def test_samples_are_those_of_the_definition(name, full, siting):
    frame = noise((65, 47), name, full=full, siting=siting, any_code=True)
    layout, own = frame.look.layout, [plane.astype(float) for plane in kept(frame.planes)]
    old = frame.picture().pixels.double().numpy()
    picture = painted(frame)
    new, peak, unit = picture.pixels.double().numpy(), picture.peak, 1 << layout.depth - 8
    differs = (new != old).any(axis=2)
    weights = np.array([0.2126, 0.7152, 0.0722])
    black, span = (0, layout.top) if full else (16 * unit, 219 * unit)
    wide = layout.top if full else 224 * unit
    wanted = [np.where(differs, new @ weights / peak * span + black, own[0])]
    down = shares(47, layout.down, siting == "topleft")
    across = shares(65, layout.across, siting != "center")
    share = down @ differs @ across.T
    for plane, channel in ((1, 2), (2, 0)):
        fresh, there = (
            down
            @ ((rgb[..., channel] - rgb @ weights) / peak / 2 / (1 - weights[channel]))
            @ across.T
            * wide
            for rgb in (new, old)
        )
        moved = np.where(share > 0.999, fresh + 128 * unit, own[plane] + fresh - there)
        wanted.append(np.where(share > 0, moved, own[plane]))
    made = frame.with_changes(picture, [Rectangle(0, 0, 65, 47)]).planes
    untouched = [~differs, share == 0, share == 0]
    for one, expected, before, same in zip(made, wanted, own, untouched, strict=True):
        assert np.array_equal(one[same], before[same])
        assert np.abs(one - expected.clip(0, layout.top)).max() < 0.501


def test_what_was_changed_there_is_changed_again(device):
    frame = noise((64, 48))
    once = frame.with_changes(painted(frame), PLACES)
    picture = once.picture(device)
    twice = once.with_changes(picture, PLACES)
    assert all(np.array_equal(*pair) for pair in zip(once.planes, twice.planes, strict=True))
    picture.pixels[5:9, 5:9] = 0
    assert (once.with_changes(picture, PLACES).planes[0][6:8, 6:8] == 16).all()


# Marks


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", ["yuv420p", "yuv420p10le", "gbrp"])
def test_marks_are_those_of_the_cpu(both, name, turn):
    imprint = Imprint(Label("AI", "bottom-right"), "urn:uuid:1")

    def work(frame):
        film, picture = imprint.film(), painted(frame)
        first, second = (film(frame, picture, PLACES) for _ in range(2))
        assert all(np.array_equal(*pair) for pair in zip(first.planes, second.planes, strict=True))
        assert sum(patch.plane == 0 for patch in first.patches) == 1  # hidden ones are forgotten
        return kept(first.planes)

    here, there = both(lambda: noise((160, 128), name, turn=turn), work)
    for one, other in zip(here, there, strict=True):
        assert np.abs(one.astype(int) - other).max() <= (1 if name != "gbrp" else 0)


def test_a_shift_is_that_of_the_look_at_hand():
    film = Imprint(None, "urn:uuid:1").film()
    plain, flipped = noise((160, 128)), noise((160, 128), turn=Orientation(False, False, True))
    film(plain)
    second = film(flipped)
    change = film._marker._change.whole
    assert not np.array_equal(flipped.look.shift(change), plain.look.shift(change))
    assert np.array_equal(second.planes[0], flipped.brightened(change).planes[0])


def through(frame, place, film):
    """Take a frame to where all that is left is to write it."""
    picture = frame.picture(place)
    picture.pixels[8:30, 8:30] = 0
    return film(frame, picture, PLACES)


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le", "gray", "gbrp10le"])
@pytest.mark.parametrize("turn", TURNS)
def test_nothing_is_asked_of_a_device_until_it_is_written(name, turn):
    """Tensors of "meta" have no values: to ask for one is an error."""
    film, meta = Imprint(Label("AI", "bottom-right"), "urn:uuid:1").film(), torch.device("meta")
    for _ in range(5):  # among which a watermark is computed anew
        made = through(noise((160, 128), name, turn=turn), meta, film)
        assert {patch.samples.device for patch in made.patches} == {meta}
    with pytest.raises(NotImplementedError):
        made.for_encoder()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", ["yuv420p", "yuv420p10le"])
@pytest.mark.parametrize("turn", TURNS)
def test_a_frame_stays_on_the_gpu(name, turn):
    films = [Imprint(None, "urn:uuid:1").film() for _ in range(2)]
    through(noise((160, 128), name, turn=turn), torch.device("cuda:0"), films[1])
    for seed in range(5):
        here = through(noise((160, 128), name, turn=turn, seed=seed), CPU, films[0])
        with nothing_waits() if name == "yuv420p" else nullcontext():
            frame = noise((160, 128), name, turn=turn, seed=seed)
            there = through(frame, torch.device("cuda:0"), films[1])
        assert all(patch.samples.is_cuda for patch in there.patches)
        planes = (samples(each.for_encoder()) for each in (here, there))
        for one, other in zip(*planes, strict=True):
            assert np.abs(one.astype(int) - other).max() <= 2 << bits(name) - 8
