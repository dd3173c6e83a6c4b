"""Colours: what networks see of other spaces, and the way back, against formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from making import (
    ADOBE,
    ADOBE_GAMMA,
    D50,
    MARKS,
    P3,
    SRGB,
    fixed,
    gray_profile,
    in_srgb_by_formula,
    ink_profile,
    noise,
    picture,
    profile_of,
    rgb_profile,
    smooth,
    srgb_coded,
    srgb_linear,
    text_tags,
    to_xyz,
)
from PIL import Image, ImageCms

from mien.media import Metadata, in_srgb, read_picture, write_picture
from mien.media.colors import Colors, to_eight_bits
from mien.stages.color import through_table


def power(values):
    return values**ADOBE_GAMMA


WIDE = {
    "P3": (P3, "srgb", srgb_linear, srgb_coded),
    "Adobe": (ADOBE, ADOBE_GAMMA, power, lambda linear: linear.clip(0, 1) ** (1 / ADOBE_GAMMA)),
}
LINE = np.linspace(0, 255, 18).round().astype(np.uint8)
CUBE = np.stack(np.meshgrid(LINE, LINE, LINE, indexing="ij"), axis=-1).reshape(18, -1, 3)


def own_colours(codes, primaries, coded):
    """Return the values, 0 to 255, of sRGB ``codes`` in another space."""
    linear = srgb_linear(codes / 255) @ (np.linalg.inv(to_xyz(primaries)) @ to_xyz(SRGB)).T
    return 255 * coded(linear)


def looked_up(table, codes):
    """Return what a table says of sRGB ``codes`` (H, W, 3), 0 to 255."""
    pixels = torch.from_numpy(codes).permute(2, 0, 1)[None] / 255
    return through_table(pixels, table)[0].permute(1, 2, 0).numpy() * 255


def test_the_formulas_are_those_of_the_standards():
    # IEC 61966-2-1 in the connection space of ICC profiles, as lcms and others print it
    wanted = [[0.4360, 0.3851, 0.1431], [0.2225, 0.7169, 0.0606], [0.0139, 0.0971, 0.7142]]
    np.testing.assert_allclose(to_xyz(SRGB), wanted, atol=3e-4)
    np.testing.assert_allclose(to_xyz(P3).sum(axis=1), D50, atol=3e-4)


# What is seen


@pytest.mark.parametrize("space", WIDE)
def test_wide_colours_are_seen_in_srgb(space):
    primaries, gamma, linear, _ = WIDE[space]
    seen = Colors(3, rgb_profile(primaries, gamma), "p").sight(CUBE).numpy()
    wanted = in_srgb_by_formula(CUBE.astype(float), primaries, linear)
    assert seen.dtype == np.uint8
    assert np.abs(seen - wanted).max() <= 2
    assert np.abs(seen.astype(int) - CUBE).max() > 20  # and it is another space


@pytest.mark.parametrize("gamma", [1.0, 1.8, 2.2])
def test_gray_is_seen_by_its_curve(gamma):
    codes = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    seen = Colors(1, gray_profile(gamma), "p").sight(codes).numpy()
    off = np.abs(seen - 255 * srgb_coded((codes / 255) ** gamma))
    # next to black lcms' 33 steps of a line are too coarse for the steep start of sRGB's curve
    assert off[codes[..., 0] >= 8].max() <= 2
    assert off.max() <= (10 if gamma == 1 else 2)


def test_inks_are_seen_by_their_profile():
    inks = np.array([[[0, 0, 0, 0], [0, 0, 0, 255], [255, 255, 255, 0], [255, 0, 0, 0]]], np.uint8)
    seen = Colors(4, ink_profile(), "p").sight(inks).numpy()[0]
    assert seen[0].tolist() == [255, 255, 255]
    assert seen[1].tolist() == seen[2].tolist() == [0, 0, 0]
    # one ink of three takes a third of the lightness: L = 66.7 is 162 in sRGB
    assert np.abs(seen[3].astype(int) - 162).max() <= 2
    without = Colors(4, None, "p").sight(inks).numpy()[0]
    assert without[3].tolist() == [0, 255, 255]


def test_plain_colours_are_seen_as_they_are():
    for profile in (None, rgb_profile(SRGB, "srgb"), srgb_of_the_library()):
        colors = Colors(3, profile, "p")
        assert colors.plain
        assert colors.sight(CUBE) is None
        assert colors.table() is None


def srgb_of_the_library():
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def test_large_pictures_are_seen_band_by_band(monkeypatch):
    monkeypatch.setattr("mien.media.colors.BAND", 100)
    colors, pixels = Colors(3, rgb_profile(P3, "srgb"), "p"), noise(37, 23, 3)
    banded = colors.sight(pixels)
    monkeypatch.undo()
    assert torch.equal(banded, colors.sight(pixels))


def test_sixteen_bits_are_rounded_to_eight():
    values = np.arange(65536, dtype=np.uint16)
    assert np.array_equal(to_eight_bits(values), np.round(values / 257).astype(np.uint8))


# And the way back


@pytest.mark.parametrize("space", WIDE)
def test_what_is_made_in_srgb_is_put_into_the_colours_of_the_picture(space):
    primaries, gamma, _, coded = WIDE[space]
    codes = noise(64, 64, 3, seed=5)
    found = looked_up(Colors(3, rgb_profile(primaries, gamma), "p").table(), codes)
    off = np.abs(found - own_colours(codes, primaries, coded)).max(axis=2)
    assert off[codes.min(axis=2) >= 8].max() <= 1
    assert off.max() <= 4  # next to black a power is steep, and a table's step is five codes


@pytest.mark.parametrize("space", WIDE)
def test_to_srgb_and_back_is_where_it_was(space):
    # colours that both spaces have: as a swapped face of the target's own colours
    primaries, gamma, _, coded = WIDE[space]
    wanted = own_colours(noise(64, 64, 3, seed=6) // 2 + 64, primaries, coded)
    pixels = wanted.round().astype(np.uint8)
    colors = Colors(3, rgb_profile(primaries, gamma), "p")
    back = looked_up(colors.table(), colors.sight(pixels).numpy())
    assert np.abs(back - pixels).max() <= 2


@pytest.mark.parametrize("gamma", [None, 1.0, 1.8])
def test_gray_and_back_is_where_it_was(gamma):
    codes = np.arange(24, 256, dtype=np.uint8).reshape(8, 29, 1)
    colors = Colors(1, None if gamma is None else gray_profile(gamma), "p")
    back = looked_up(colors.table(), colors.sight(codes).contiguous().numpy())
    assert back.shape == codes.shape
    assert np.abs(back - codes).max() <= 2


def test_gray_weighs_colours_as_the_standard_does():
    codes = np.eye(3, dtype=np.uint8)[None] * 255
    found = looked_up(Colors(1, None, "p").table(), codes)[0, :, 0] / 255
    np.testing.assert_allclose(found, (0.299, 0.587, 0.114), atol=1e-4)  # ITU-R BT.601


def test_inks_and_back_are_the_same_colour():
    colors, codes = Colors(4, None, "p"), noise(32, 32, 3, seed=7)
    inks = looked_up(colors.table(), codes).round().astype(np.uint8)
    assert inks.shape == (32, 32, 4)
    assert np.abs(colors.sight(inks).numpy().astype(int) - codes).max() <= 1


def test_inks_with_a_profile_go_back_by_it():
    table = Colors(4, ink_profile(), "p").table()
    assert looked_up(table, np.zeros((1, 1, 3), np.uint8)).round().tolist() == [[[0, 0, 0, 255]]]
    assert looked_up(table, np.full((1, 1, 3), 255, np.uint8)).round().tolist() == [[[0] * 4]]


# Profiles that cannot be used


def broken():
    whole = rgb_profile(P3, "srgb")
    lab = profile_of(
        b"spac", b"Lab ", text_tags("lab") | {b"wtpt": b"XYZ " + bytes(4) + fixed(*D50)}
    )
    return {
        "words": b"this is no profile",
        "empty": b"\0" * 128,
        "cut": whole[:200],
        "half": whole[: len(whole) // 2],
        "without curves": profile_of(b"mntr", b"RGB ", text_tags("bare")),
        "of gray": gray_profile(2.2),
        "of inks": ink_profile(),
        "of Lab": lab,
        "endless": whole[:128] + b"\xff\xff\xff\xff" + whole[132:],
        "of no class": whole[:12] + b"zzzz" + whole[16:],
    }


@pytest.mark.parametrize("what", broken())
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif", ".avif"])
def test_a_profile_that_cannot_be_used_is_ignored_with_a_warning(tmp_path, what, suffix, caplog):
    path = tmp_path / f"p{suffix}"
    Image.fromarray(smooth()).save(path, icc_profile=broken()[what], quality=90)
    read = read_picture(path)
    assert (read.frame.sight, read.frame.table) == (None, None)
    assert "colour profile" in caplog.text
    assert str(path) in caplog.text
    write_picture(tmp_path / f"out{suffix}", read, xmp=MARKS)
    with Image.open(tmp_path / f"out{suffix}") as file:
        assert file.size == (64, 48)
        file.load()


# In files


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".avif", ".tif"])
@pytest.mark.parametrize("make", [srgb_of_the_library, lambda: rgb_profile(P3, "srgb")])
def test_the_profile_is_kept(tmp_path, suffix, make):
    profile = make()
    Image.fromarray(smooth()).save(tmp_path / f"in{suffix}", icc_profile=profile)
    read = read_picture(tmp_path / f"in{suffix}")
    assert read.metadata.profile == profile
    write_picture(tmp_path / f"out{suffix}", read, xmp=MARKS)
    with Image.open(tmp_path / f"out{suffix}") as file:
        assert file.info["icc_profile"] == profile


@pytest.mark.parametrize("deep", [False, True])
def test_a_profile_too_large_for_readers_of_png_becomes_srgb(tmp_path, deep):
    profile = rgb_profile(P3, "srgb", name="x" * 1_500_000)
    pixels = smooth().astype(np.uint16) * 257 if deep else smooth()
    write_picture(
        tmp_path / "p.png", picture(pixels, metadata=Metadata(profile=profile)), xmp=MARKS
    )
    read = read_picture(tmp_path / "p.png")
    assert read.metadata.profile is None
    wanted = in_srgb_by_formula(smooth().astype(float), P3, srgb_linear)
    assert np.abs(read.frame.view.numpy() - wanted).max() <= 3


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".tif"])
@pytest.mark.parametrize("deep", [False, True])
def test_a_large_profile_is_kept(tmp_path, suffix, deep):
    # those of printers have megabytes
    profile = rgb_profile(P3, "srgb", name="x" * 1_500_000)
    pixels = smooth().astype(np.uint16) * 257 if deep else smooth()
    made = picture(pixels, metadata=Metadata(profile=profile))
    write_picture(tmp_path / f"p{suffix}", made, xmp=MARKS)
    assert read_picture(tmp_path / f"p{suffix}").metadata.profile == profile


@pytest.mark.parametrize(
    ("mode", "suffix", "make"),
    [
        *(("L", suffix, lambda: gray_profile(1.8)) for suffix in (".jpg", ".png", ".tif")),
        ("LA", ".png", lambda: gray_profile(1.8)),
        ("CMYK", ".jpg", ink_profile),
        ("CMYK", ".tif", ink_profile),
        ("RGBA", ".png", lambda: rgb_profile(P3, "srgb")),
        ("P", ".png", lambda: rgb_profile(P3, "srgb")),
    ],
)
def test_the_profile_of_other_pixels_is_kept_and_used(tmp_path, mode, suffix, make):
    profile = make()
    image = Image.fromarray(noise(16, 16, 3)).convert(mode)
    image.save(tmp_path / f"in{suffix}", icc_profile=profile)
    read = read_picture(tmp_path / f"in{suffix}")
    assert read.metadata.profile == profile
    assert read.frame.table is not None
    write_picture(tmp_path / f"out{suffix}", read, xmp=MARKS)
    with Image.open(tmp_path / f"out{suffix}") as file:
        assert file.info["icc_profile"] == profile


@pytest.mark.parametrize("suffix", [".bmp", ".gif"])
def test_where_no_profile_can_be_kept_colours_become_srgb(tmp_path, suffix):
    flat = np.full((8, 8, 3), (40, 200, 60), np.uint8)
    Image.fromarray(flat).save(tmp_path / "in.png", icc_profile=rgb_profile(P3, "srgb"))
    write_picture(tmp_path / f"p{suffix}", read_picture(tmp_path / "in.png"), xmp=MARKS)
    wanted = in_srgb_by_formula(flat.astype(float), P3, srgb_linear)
    found = read_picture(tmp_path / f"p{suffix}")
    assert found.metadata.profile is None
    assert np.abs(found.frame.pixels.numpy() - wanted).max() <= 2


@pytest.mark.parametrize("suffix", [".webp", ".avif", ".gif"])
def test_gray_with_a_profile_becomes_srgb_where_there_is_no_gray(tmp_path, suffix):
    flat = np.full((8, 8), 100, np.uint8)
    Image.fromarray(flat).save(tmp_path / "in.png", icc_profile=gray_profile(1.0))
    write_picture(tmp_path / f"p{suffix}", read_picture(tmp_path / "in.png"), xmp=MARKS)
    found = read_picture(tmp_path / f"p{suffix}")
    wanted = 255 * srgb_coded(100 / 255)
    if found.metadata.profile is None:
        assert np.abs(found.frame.view.numpy() - wanted).max() <= 3


@pytest.mark.parametrize("suffix", [".png", ".webp", ".bmp"])
def test_inks_with_a_profile_become_srgb_where_there_are_no_inks(tmp_path, suffix):
    inks = np.zeros((16, 16, 4), np.uint8)
    inks[..., 0] = 255
    Image.fromarray(inks, "CMYK").save(tmp_path / "in.tif", icc_profile=ink_profile())
    write_picture(tmp_path / f"p{suffix}", read_picture(tmp_path / "in.tif"), xmp=MARKS)
    found = read_picture(tmp_path / f"p{suffix}")
    assert found.metadata.profile is None
    assert np.abs(found.frame.pixels.numpy().astype(int) - 162).max() <= 3


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_picture_can_be_had_in_srgb(tmp_path, mode):
    profile = {"L": gray_profile(1.8), "RGB": rgb_profile(P3, "srgb"), "CMYK": ink_profile()}[mode]
    made = noise(9, 11, 3 if mode != "L" else 1).squeeze()
    image = Image.fromarray(made).convert(mode)
    image.save(tmp_path / "p.tif", icc_profile=profile)
    read = read_picture(tmp_path / "p.tif")
    found = in_srgb(read, read.frame)
    assert np.array_equal(found, read.frame.view)
    found[:] = 0  # a copy
    assert bool(read.frame.pixels.any())
