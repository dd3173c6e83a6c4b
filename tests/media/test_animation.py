"""Pictures that move: every frame, its time, its transparency, and how often it all is shown."""

from __future__ import annotations

import io
import struct
from fractions import Fraction

import numpy as np
import pytest
import torch
from making import (
    MARKS,
    P3,
    UPRIGHT,
    chunk,
    exif,
    gray_profile,
    in_srgb_by_formula,
    noise,
    rgb_profile,
    smooth,
    srgb_linear,
)
from PIL import Image

from mien import Frame
from mien.errors import PictureUnwritable
from mien.media import Metadata, Picture, read_picture, write_picture

MOVING = [".png", ".gif", ".webp", ".avif"]
EXACT = [".png", ".gif", ".webp"]
TIMES = [100, 40, 200, 70]
OPTIONS = {".webp": {"lossless": True}, ".avif": {"quality": 95, "subsampling": "4:4:4"}}


def made(count=4, height=12, width=16, colours=60):
    """Return frames of few enough colours for a GIF."""
    palette = noise(colours, 3, seed=9)
    return [palette[noise(height, width, seed=i) % colours] for i in range(count)]


def blocks(count=4):
    """Return frames of four large areas, which lossy formats keep."""
    shades = np.array([[60, 90, 140], [150, 110, 70], [90, 160, 100], [170, 170, 160]])
    frames = [np.roll(shades, i, axis=0).reshape(2, 2, 3) for i in range(count)]
    return [np.kron(frame, np.ones((16, 16, 1))).astype(np.uint8) for frame in frames]


def save(path, frames, *, times=TIMES, loop=0, **options):
    images = [
        frame if isinstance(frame, Image.Image) else Image.fromarray(frame) for frame in frames
    ]
    options = OPTIONS.get(path.suffix, {}) | options
    if loop is not None:
        options["loop"] = loop
    images[0].save(path, save_all=True, append_images=images[1:], duration=times, **options)
    return path


def by_another(path):
    """Return frames as RGBA, milliseconds and the number of loops, as Pillow reads them."""
    frames, times = [], []
    with Image.open(path) as file:
        for number in range(getattr(file, "n_frames", 1)):
            file.seek(number)
            file.load()
            times.append(file.info.get("duration"))
            frames.append(np.array(file.convert("RGBA")))
        return frames, times, file.info.get("loop")


def through(source, target, **options):
    read = read_picture(source)
    write_picture(target, read, xmp=MARKS, **options)
    return read


def moving(frames, times, **rest):
    tensors = [torch.from_numpy(np.ascontiguousarray(frame)) for frame in frames]
    return Picture(
        tuple(Frame(tensor) for tensor in tensors),
        name="generated",
        durations=tuple(Fraction(time, 1000) for time in times),
        **rest,
    )


# Reading


@pytest.mark.parametrize("suffix", MOVING)
def test_every_frame_is_read_with_its_time(tmp_path, suffix):
    frames = made()
    read = read_picture(save(tmp_path / f"p{suffix}", frames))
    assert read.durations == tuple(Fraction(time, 1000) for time in TIMES)
    assert [frame.time for frame in read.frames] == [
        Fraction(sum(TIMES[:i]), 1000) for i in range(4)
    ]
    for found, wanted in zip(read.frames, frames, strict=True):
        off = np.abs(found.pixels.numpy().astype(int) - wanted)
        assert off.max() <= (0 if suffix in EXACT else 60)
        assert off.mean() < 5
        assert found.alpha is None or bool((found.alpha == 255).all())
    assert read.frame is read.frames[0]


def test_a_time_of_a_png_is_read_as_the_fraction_it_is(tmp_path):
    (tmp_path / "p.png").write_bytes(with_delay(save(tmp_path / "p.png", made()), 1, 30))
    assert read_picture(tmp_path / "p.png").durations == (Fraction(1, 30),) * 4


def with_delay(path, numerator, denominator):
    """Return an animated PNG whose frames all last so many seconds."""
    data, at = bytearray(path.read_bytes()), 0
    while (at := data.find(b"fcTL", at)) >= 0:
        data[at + 24 : at + 28] = struct.pack(">HH", numerator, denominator)
        data[at - 4 : at + 34] = chunk(b"fcTL", bytes(data[at + 4 : at + 30]))
        at += 4
    return bytes(data)


def test_frames_that_only_say_what_changed_are_read_whole(tmp_path):
    frames = [np.zeros((12, 16, 3), np.uint8) + 30 for _ in range(4)]
    for i, frame in enumerate(frames):
        frame[i : i + 4, 2 * i : 2 * i + 5] = (200, 40 * i, 90)
    for suffix in EXACT:
        read = read_picture(save(tmp_path / f"p{suffix}", frames))
        assert all(
            np.array_equal(found.pixels, wanted)
            for found, wanted in zip(read.frames, frames, strict=True)
        )


@pytest.mark.parametrize("turn", UPRIGHT)
@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_every_frame_is_read_upright(tmp_path, suffix, turn):
    frames = made()
    read = read_picture(save(tmp_path / f"p{suffix}", frames, exif=exif(turn)))
    for found, wanted in zip(read.frames, frames, strict=True):
        assert np.array_equal(found.pixels, UPRIGHT[turn](wanted))


def test_frames_of_gray_and_palettes_are_read(tmp_path):
    grays = [noise(8, 9, seed=i) for i in range(3)]
    read = read_picture(save(tmp_path / "gray.png", grays, times=[10, 20, 30]))
    for found, wanted in zip(read.frames, grays, strict=True):
        assert np.array_equal(found.view, np.repeat(wanted[..., None], 3, axis=2))
    images = [Image.fromarray(frame).quantize(60) for frame in made(3)]
    read = read_picture(save(tmp_path / "palette.png", images, times=[10, 20, 30]))
    for found, wanted in zip(read.frames, images, strict=True):
        assert np.array_equal(found.view, np.array(wanted.convert("RGB")))


@pytest.mark.parametrize("suffix", [".png", ".webp", ".avif"])
def test_a_profile_holds_for_every_frame(tmp_path, suffix):
    profile = rgb_profile(P3, "srgb")
    flat = [np.full((16, 16, 3), colour, np.uint8) for colour in ((90, 160, 100), (160, 90, 100))]
    read = read_picture(save(tmp_path / f"p{suffix}", flat, times=[50, 60], icc_profile=profile))
    for frame, pixels in zip(read.frames, flat, strict=True):
        wanted = in_srgb_by_formula(pixels.astype(float), P3, srgb_linear)
        assert np.abs(frame.view.numpy() - wanted).max() <= 6
        assert frame.table is not None
    through(tmp_path / f"p{suffix}", tmp_path / f"out{suffix}")
    assert read_picture(tmp_path / f"out{suffix}").metadata.profile == profile


def test_a_profile_of_gray_is_not_put_on_frames_of_rgb(tmp_path):
    grays = [np.full((8, 8), value, np.uint8) for value in (100, 180)]
    save(tmp_path / "in.png", grays, times=[50, 60], icc_profile=gray_profile(1.8))
    through(tmp_path / "in.png", tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as file:
        if file.mode not in ("L", "LA"):
            assert file.info.get("icc_profile") != gray_profile(1.8)


# Writing


@pytest.mark.parametrize("suffix", MOVING)
@pytest.mark.parametrize("loop", [None, 0, 1, 5])
def test_an_animation_comes_back(tmp_path, suffix, loop):
    save(tmp_path / f"in{suffix}", made(), loop=loop)
    through(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
    before, times, loops = by_another(tmp_path / f"in{suffix}")
    after, new_times, new_loops = by_another(tmp_path / f"out{suffix}")
    assert (new_times, new_loops) == (times, loops)
    for old, new in zip(before, after, strict=True):
        off = np.abs(new.astype(int) - old)
        assert off.max() <= (0 if suffix in EXACT else 80)
        assert off.mean() < 6


@pytest.mark.parametrize("suffix", EXACT)
@pytest.mark.parametrize("disposal", [0, 1, 2])
def test_transparency_that_moves_comes_back(tmp_path, suffix, disposal):
    frames = []
    for i in range(4):
        frame = np.zeros((12, 14, 4), np.uint8)
        frame[i : i + 5, i : i + 6] = (200, 30 * i, 40, 255)
        frames.append(frame)
    options = {} if suffix == ".webp" else {"disposal": disposal}
    save(tmp_path / f"in{suffix}", frames, **options)
    read = through(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
    if disposal == 2 or suffix == ".webp":
        for found, wanted in zip(read.frames, frames, strict=True):
            assert np.array_equal(found.alpha, wanted[..., 3])
    before, times, _ = by_another(tmp_path / f"in{suffix}")
    after, new_times, _ = by_another(tmp_path / f"out{suffix}")
    assert new_times == times
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(new[..., 3], old[..., 3])
        assert np.array_equal(new[old[..., 3] > 0], old[old[..., 3] > 0])


def test_half_transparency_that_moves_comes_back(tmp_path):
    frames = [noise(9, 11, 4, seed=i) for i in range(3)]
    for suffix in (".png", ".webp"):
        options = {"exact": True} if suffix == ".webp" else {}
        save(tmp_path / f"in{suffix}", frames, times=[30, 40, 50], **options)
        read = through(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
        again = read_picture(tmp_path / f"out{suffix}")
        for old, new in zip(read.frames, again.frames, strict=True):
            seen = old.alpha.numpy() > 0
            assert np.array_equal(new.alpha, old.alpha)
            assert np.array_equal(new.pixels.numpy()[seen], old.pixels.numpy()[seen])


@pytest.mark.parametrize("suffix", MOVING)
@pytest.mark.parametrize("other", MOVING)
def test_an_animation_goes_from_any_format_into_any_other(tmp_path, suffix, other):
    save(tmp_path / f"in{suffix}", blocks())
    read = through(tmp_path / f"in{suffix}", tmp_path / f"out{other}", quality=95)
    frames, times, _ = by_another(tmp_path / f"out{other}")
    assert list(map(round, times)) == TIMES
    for found, wanted in zip(frames, read.frames, strict=True):
        assert np.abs(found[..., :3].astype(int) - wanted.pixels.numpy()).mean() < 6


@pytest.mark.parametrize("other", [".png", ".webp"])
@pytest.mark.parametrize("shown", [None, 0, 2])
def test_how_often_it_is_shown_is_kept_in_other_formats(tmp_path, other, shown):
    # a GIF without the extension is shown once, and its number counts what comes after that;
    # PNG and WebP count all; nought is for ever
    save(tmp_path / "in.gif", made(), loop=shown)
    through(tmp_path / "in.gif", tmp_path / f"out{other}")
    assert by_another(tmp_path / f"out{other}")[2] == {None: 1, 0: 0, 2: 3}[shown]


@pytest.mark.parametrize("suffix", [".png", ".webp"])
@pytest.mark.parametrize("shown", [0, 1, 3])
def test_how_often_it_is_shown_is_kept_in_a_gif(tmp_path, suffix, shown):
    save(tmp_path / f"in{suffix}", made(), loop=shown)
    through(tmp_path / f"in{suffix}", tmp_path / "out.gif")
    assert by_another(tmp_path / "out.gif")[2] == {0: 0, 1: None, 3: 2}[shown]


def test_a_time_that_is_no_whole_millisecond_is_kept_in_a_png(tmp_path):
    (tmp_path / "in.png").write_bytes(with_delay(save(tmp_path / "in.png", made()), 1, 30))
    through(tmp_path / "in.png", tmp_path / "out.png")
    assert sum(read_picture(tmp_path / "out.png").durations) == pytest.approx(4 / 30, abs=0.0005)


@pytest.mark.parametrize("suffix", MOVING)
def test_a_frame_may_be_shown_for_long(tmp_path, suffix):
    times = [100, 100_000, 50]
    write_picture(tmp_path / f"p{suffix}", moving(made(3), times), xmp=MARKS)
    found = read_picture(tmp_path / f"p{suffix}").durations
    assert [float(time) for time in found] == pytest.approx([0.1, 100, 0.05])


@pytest.mark.parametrize("suffix", MOVING)
@pytest.mark.parametrize("time", [10**7, 2**31, 2**40])
def test_a_time_beyond_what_a_format_holds_is_no_traceback(tmp_path, suffix, time):
    picture = moving(made(3), [100, time, 50])
    try:
        write_picture(tmp_path / f"p{suffix}", picture, xmp=MARKS)
    except PictureUnwritable:
        assert list(tmp_path.iterdir()) == []
    else:
        assert read_picture(tmp_path / f"p{suffix}").frame.width == 16


@pytest.mark.parametrize("suffix", MOVING)
def test_frames_that_are_alike_take_the_same_time_together(tmp_path, suffix):
    one, other = blocks(2)
    times = [100, 200, 300, 50]
    write_picture(tmp_path / f"p{suffix}", moving([one, one, other, other], times), xmp=MARKS)
    frames, found, _ = by_another(tmp_path / f"p{suffix}")
    assert sum(found) == sum(times)
    first = sum(
        time
        for frame, time in zip(frames, found, strict=True)
        if np.abs(frame[..., :3].astype(int) - one).mean() < 10
    )
    assert first == 300


@pytest.mark.parametrize("suffix", MOVING)
def test_an_animation_in_which_nothing_moves_can_be_read(tmp_path, suffix):
    write_picture(tmp_path / f"p{suffix}", moving(made(1) * 3, [100, 200, 300]), xmp=MARKS)
    assert read_picture(tmp_path / f"p{suffix}").frame.width == 16


@pytest.mark.parametrize("shown", [2, 0])
def test_a_png_that_shows_another_picture_to_old_readers(tmp_path, shown):
    frames = made()
    save(tmp_path / "in.png", frames, times=TIMES[1:], loop=shown, default_image=True)
    through(tmp_path / "in.png", tmp_path / "out.png")
    before, after = by_another(tmp_path / "in.png"), by_another(tmp_path / "out.png")
    assert after[1:] == before[1:]
    assert all(np.array_equal(old, new) for old, new in zip(before[0], after[0], strict=True))


def test_a_png_for_old_readers_becomes_a_gif_without_that_picture(tmp_path):
    save(tmp_path / "in.png", made(), times=TIMES[1:], default_image=True)
    through(tmp_path / "in.png", tmp_path / "out.gif")
    frames, times, _ = by_another(tmp_path / "out.gif")
    assert times == TIMES[1:]
    assert np.array_equal(frames[0][..., :3], made()[1])


def test_an_animation_stays_lossless_or_lossy(tmp_path):
    for lossless in (True, False):
        save(tmp_path / "in.webp", [smooth(), smooth()[::-1]], times=[50, 60], lossless=lossless)
        through(tmp_path / "in.webp", tmp_path / "out.webp")
        assert (b"VP8L" in (tmp_path / "out.webp").read_bytes()) == lossless


@pytest.mark.parametrize("suffix", [".png", ".webp", ".gif"])
def test_metadata_go_with_an_animation(tmp_path, suffix):
    tags = exif(1) if suffix != ".gif" else b""
    picture = moving(made(), TIMES, metadata=Metadata(exif=tags, comment=b"said"))
    write_picture(tmp_path / f"p{suffix}", picture, xmp=MARKS)
    read = read_picture(tmp_path / f"p{suffix}")
    assert len(read.frames) == 4
    if tags:
        assert read.metadata.xmp == MARKS
        assert b"MAKER" in read.metadata.exif
    else:
        assert read.metadata.comment == b"said"


# GIF: colours


def test_palettes_of_single_frames_are_kept(tmp_path):
    images = [Image.fromarray(noise(16, 16, 3, seed=i)).quantize(256) for i in range(3)]
    save(tmp_path / "in.gif", images, times=[30, 40, 50])
    through(tmp_path / "in.gif", tmp_path / "out.gif")
    before, after = by_another(tmp_path / "in.gif"), by_another(tmp_path / "out.gif")
    assert all(np.array_equal(old, new) for old, new in zip(before[0], after[0], strict=True))


def test_what_a_swap_adds_leaves_the_other_colours(tmp_path):
    save(tmp_path / "in.gif", made(colours=200))
    read = read_picture(tmp_path / "in.gif")
    before = [frame.pixels.numpy().copy() for frame in read.frames]
    for i, frame in enumerate(read.frames):
        frame.pixels[2:8, 3:9] = torch.from_numpy(noise(6, 6, 3, seed=50 + i))
    write_picture(tmp_path / "out.gif", read, xmp=MARKS)
    outside = np.ones((12, 16), bool)
    outside[2:8, 3:9] = False
    for old, new in zip(before, by_another(tmp_path / "out.gif")[0], strict=True):
        assert np.array_equal(new[outside][:, :3], old[outside])


def test_alpha_in_frames_of_a_gif_is_what_is_shown(tmp_path):
    colours = noise(8, 8, 3)
    alpha = noise(8, 8, seed=3)
    frames = tuple(
        Frame(torch.from_numpy(colours), alpha=torch.from_numpy(np.roll(alpha, i, axis=1)))
        for i in range(3)
    )
    picture = Picture(frames, name="p", durations=(Fraction(1, 10),) * 3)
    write_picture(tmp_path / "p.gif", picture, xmp=MARKS)
    for i, frame in enumerate(by_another(tmp_path / "p.gif")[0]):
        assert np.array_equal(frame[..., 3] > 0, np.roll(alpha, i, axis=1) >= 128)


def part_of_a_gif(image, left, top):
    """Return a frame with a palette of its own, for 100 ms."""
    buffer = io.BytesIO()
    image.save(buffer, "GIF")
    data = buffer.getvalue()
    size = data[10] & 7
    table = data[13 : 13 + (3 << size + 1)]
    at = data.index(b"\x2c", 13 + len(table))
    place = b"\x2c" + struct.pack("<HH", left, top) + data[at + 5 : at + 9] + bytes([0x80 | size])
    return b"\x21\xf9\x04\x04\x0a\0\0\0" + place + table + data[at + 10 : -1]


def test_more_colours_than_a_palette_holds_are_kept_or_it_is_said(tmp_path, caplog):
    # frames that lie on each other, each with a palette of its own, as good encoders make them
    whole = Image.fromarray(noise(32, 32, 3, seed=1)).quantize(256)
    part = Image.fromarray(noise(16, 16, 3, seed=2)).quantize(200)
    frames = part_of_a_gif(whole, 0, 0) + part_of_a_gif(part, 4, 4)
    (tmp_path / "in.gif").write_bytes(b"GIF89a\x20\0\x20\0\0\0\0" + frames + b";")
    read = through(tmp_path / "in.gif", tmp_path / "out.gif")
    assert len(np.unique(read.frames[1].pixels.reshape(-1, 3), axis=0)) > 256
    after = read_picture(tmp_path / "out.gif")
    assert np.array_equal(after.frames[0].pixels, read.frames[0].pixels)
    exact = np.array_equal(after.frames[1].pixels, read.frames[1].pixels)
    assert exact or "colour" in caplog.text
