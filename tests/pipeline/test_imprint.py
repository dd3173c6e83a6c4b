"""Imprint: a label in the colours of any picture and clip, and nothing else changed."""

from __future__ import annotations

import numpy as np
import pytest
from making import P3, gray_profile, ink_profile, noise, picture, rgb_profile
from media.clip.drawn import read_back, samples, write_clip

from mien.media import in_srgb, read_picture, write_picture
from mien.media.clip import Clip, ClipSettings, ClipWriter
from mien.media.lettering import lettering
from mien.media.metadata import Metadata
from mien.pipeline import NONE, Imprint
from mien.safety.label import Label

IMPRINT = Imprint(Label("AI合成"))
HEIGHT, WIDTH = 90, 120


def inside(width=WIDTH, height=HEIGHT):
    """Return where the label is, and where its letters are, as masks (H, W)."""
    found = lettering("AI合成", "bottom-right", width, height)
    left, top, right, bottom = found.plate
    plate, letters = np.zeros((2, height, width), bool)
    plate[top:bottom, left:right] = True
    letters[top:bottom, left:right] = found.ink == 255
    assert letters.sum() > 20
    return plate, letters


def luminance(seen):
    """Return that of sRGB pixels (..., 3), 0 to 1, as WCAG 2 has it."""
    share = seen / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(seen, plate, letters):
    """Return the least contrast of a letter's inside to the plate, as WCAG 2 has it."""
    bright, dark = luminance(seen[letters]).min(), luminance(seen[plate & ~letters])
    return (bright + 0.05) / (np.percentile(dark, 75) + 0.05)


KINDS = {
    "RGB": ((3,), np.uint8, None, ".png"),
    "gray": ((1,), np.uint8, None, ".png"),
    "gray with a profile": ((1,), np.uint8, gray_profile(1.8), ".tif"),
    "P3": ((3,), np.uint8, rgb_profile(P3, "srgb"), ".png"),
    "CMYK": ((4,), np.uint8, None, ".tif"),
    "CMYK with a profile": ((4,), np.uint8, ink_profile(), ".tif"),
    "16-bit RGB": ((3,), np.uint16, None, ".png"),
    "16-bit gray": ((1,), np.uint16, None, ".tif"),
    "16-bit CMYK": ((4,), np.uint16, None, ".tif"),
}


@pytest.mark.parametrize("paper", ["noise", "white", "black"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_label_is_read_on_any_paper_in_any_colours(tmp_path, kind, paper):
    channels, dtype, profile, suffix = KINDS[kind]
    pixels = noise(HEIGHT, WIDTH, *channels, dtype=dtype)
    if paper != "noise":
        ink = (paper == "white") == (channels != (4,))
        pixels[:] = np.iinfo(dtype).max if ink else 0
        if channels == (4,) and paper == "black":
            pixels[..., :3] = 0
    path = tmp_path / f"in{suffix}"
    write_picture(path, picture(pixels, metadata=Metadata(profile=profile)), xmp=None)
    before = read_picture(path)
    marked = IMPRINT.picture(before)
    plate, letters = inside()
    after = marked.frame.pixels.numpy()
    assert after.dtype == dtype
    assert np.array_equal(after[~plate], pixels[~plate])
    assert np.array_equal(before.frame.pixels.numpy(), pixels)
    assert contrast(in_srgb(marked, marked.frame), plate, letters) > 4.5
    write_picture(tmp_path / f"out{suffix}", marked, xmp=None)
    assert np.array_equal(read_picture(tmp_path / f"out{suffix}").frame.pixels.numpy(), after)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_the_label_is_opaque_and_shows_nothing_that_was_hidden(dtype):
    peak = np.iinfo(dtype).max
    alpha = noise(HEIGHT, WIDTH, dtype=dtype)
    alpha[:, : WIDTH - 10] = 0
    pixels = noise(HEIGHT, WIDTH, 3, dtype=dtype)
    marked = IMPRINT.picture(picture(pixels, alpha)).frame
    plate, letters = inside()
    assert (marked.alpha.numpy()[plate] == peak).all()
    assert np.array_equal(marked.alpha.numpy()[~plate], alpha[~plate])
    hidden = plate & (alpha == 0)
    found = marked.pixels.numpy()[hidden].astype(int)
    assert (found == found[:, :1]).all()  # ink and plate alone, which have no colour
    assert (marked.pixels.numpy()[letters] == peak).all()


def test_every_frame_of_an_animation_has_it(tmp_path):
    frames = [picture(noise(HEIGHT, WIDTH, 3, seed=seed) // 64 * 64).frame for seed in (1, 2)]
    moving = picture(noise(4, 4, 3))
    moving = type(moving)(tuple(frames), name="two", durations=(0.1, 0.1))
    write_picture(tmp_path / "in.gif", moving, xmp=None)
    before = read_picture(tmp_path / "in.gif")
    write_picture(tmp_path / "out.gif", IMPRINT.picture(before), xmp=None)
    plate, letters = inside()
    after = read_picture(tmp_path / "out.gif")
    assert len(after.frames) == 2
    for old, new in zip(before.frames, after.frames, strict=True):
        assert contrast(new.pixels.numpy(), plate, letters) > 4.5
        assert np.array_equal(old.pixels.numpy()[~plate], new.pixels.numpy()[~plate])


@pytest.mark.parametrize("size", [(1, 1), (3, 40), (20, 20)], ids=str)
def test_where_there_is_no_room_it_is_no_error(size, caplog):
    before = picture(noise(*size, 3))
    assert IMPRINT.picture(before).frame.pixels.shape == (*size, 3)
    assert ("too few for a label" in caplog.text) == (min(size) < 20)


def test_without_a_label_all_stays_what_it_is():
    before = picture(noise(HEIGHT, WIDTH, 3))
    assert NONE.picture(before) is before
    assert not NONE
    assert NONE.report() is None
    assert IMPRINT.report() == {"text": "AI合成", "place": "bottom-right"}


ONE = 1 << 16
CLIPS = {
    "plain": {},
    "turned": {"matrix": (0, ONE, 0, -ONE, 0, 0, 0, 0, 1 << 30)},
    "interlaced": {"more_flags": 0x20040000},
    "4:2:2, 10 bits": {"name": "yuv422p10le", "codec": "ffv1"},
    "gray": {"name": "gray", "codec": "ffv1"},
    "PQ": {
        **{"name": "yuv420p10le", "codec": "ffv1"},
        **{"color_primaries": 9, "color_trc": 16, "colorspace": 9, "color_range": 1},
    },
}


@pytest.mark.parametrize("kind", CLIPS)
def test_a_frame_of_a_clip_has_it_and_keeps_all_other_samples(tmp_path, kind):
    options = {"size": (128, 96), "frames": 2, **CLIPS[kind]}
    suffix = "mkv" if options.get("codec") else "mp4"
    path = write_clip(tmp_path / f"in.{suffix}", **options)
    clip = Clip(path)
    before, film = [], IMPRINT.film()
    with ClipWriter(tmp_path / "out.mkv", clip, settings=ClipSettings(codec="ffv1")) as writer:
        for frame in clip.frames():
            before.append([plane.copy() for plane in frame.planes])
            writer.write(film(frame))
    after = Clip(tmp_path / "out.mkv")
    plate, letters = inside(*((96, 128) if kind == "turned" else (128, 96)))
    seen = [frame.picture().view.numpy().copy() for frame in after.frames()]
    assert len(seen) == len(before) == 2
    for picture_ in seen:
        assert contrast(picture_, plate, letters) > 4.5
    if kind == "turned":
        plate = np.rot90(plate)
    for old, new in zip(before, read_back(tmp_path / "out.mkv")[0], strict=True):
        for one, other in zip(old, samples(new), strict=True):
            share = 96 // one.shape[0], 128 // one.shape[1]
            outside = ~grown(plate)[:: share[0], :: share[1]]
            assert outside.mean() > 0.5
            assert np.array_equal(one[outside], other[outside])


def grown(mask):
    """Return ``mask`` with two more pixels on every side: the reach of a sample of chroma."""
    wide = np.pad(mask, 2)
    return np.max(
        [np.roll(wide, (y, x), (0, 1)) for y in range(-2, 3) for x in range(-2, 3)], axis=0
    )[2:-2, 2:-2].astype(bool)
