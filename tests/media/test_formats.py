"""Files are written as the input was: tables, subsampling, compression, palettes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from making import MARKS, channels, noise, picture, rgb_profile, smooth
from making import SRGB as SRGB_PRIMARIES
from PIL import Image

from mien.media import read_picture, write_picture


def through(source, target, **options):
    """Read a file, write it again, and return it as it was read."""
    read = read_picture(source)
    write_picture(target, read, xmp=MARKS, **options)
    return read


def of_jpeg(path):
    """Return the sampling, the tables as components use them, and whether it is progressive."""
    with Image.open(path) as file:
        sampling = [(across, down) for _, across, down, _ in file.layer]
        tables = [list(file.quantization[table]) for *_, table in file.layer]
        return sampling, tables, bool(file.info.get("progressive"))


# Nothing lost where nothing is lossy


LOSSLESS = [
    *((".png", mode) for mode in ("L", "LA", "RGB", "RGBA")),
    *((".tif", mode) for mode in ("L", "LA", "RGB", "RGBA", "CMYK")),
    *((".bmp", mode) for mode in ("L", "RGB")),
    *((".webp", mode) for mode in ("RGB", "RGBA")),
]


@pytest.mark.parametrize(("suffix", "mode"), LOSSLESS)
def test_what_is_not_touched_comes_back_bit_for_bit(tmp_path, suffix, mode):
    made = noise(16, 24, len(Image.new(mode, (1, 1)).getbands()), seed=8).squeeze()
    if mode in ("LA", "RGBA"):
        made[:4, ..., -1] = 0  # colours that nobody sees are kept as well
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    Image.fromarray(made, mode).save(source, lossless=True, exact=True)
    assert np.array_equal(channels(through(source, target).frame).squeeze(), made)
    with Image.open(target) as file:
        assert file.mode == mode
        assert np.array_equal(np.array(file), made)


@pytest.mark.parametrize("transparency", [None, 3])
def test_a_palette_of_a_png_becomes_its_colours(tmp_path, transparency):
    image = Image.fromarray(noise(16, 24, seed=2) % 16, "P")
    image.putpalette(noise(16, 3, seed=3).tobytes())
    options = {} if transparency is None else {"transparency": transparency}
    image.save(tmp_path / "in.png", **options)
    through(tmp_path / "in.png", tmp_path / "out.png")
    with Image.open(tmp_path / "in.png") as before, Image.open(tmp_path / "out.png") as after:
        wanted = np.array(before.convert("RGB" if transparency is None else "RGBA"))
        assert np.array_equal(np.array(after), wanted)


# JPEG


FACTORS = {
    "4:4:4": (cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444, (1, 1)),
    "4:2:2": (cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422, (2, 1)),
    "4:2:0": (cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420, (2, 2)),
    "4:4:0": (cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440, (1, 2)),
    "4:1:1": (cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411, (4, 1)),
}


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("quality", [30, 75, 98])
@pytest.mark.parametrize("progressive", [0, 1])
def test_a_jpeg_is_written_as_it_was(tmp_path, sampling, quality, progressive):
    factor, first = FACTORS[sampling]
    options = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor, cv2.IMWRITE_JPEG_QUALITY, quality]
    options += [cv2.IMWRITE_JPEG_PROGRESSIVE, progressive]
    assert cv2.imwrite(str(tmp_path / "in.jpg"), smooth(), options)
    through(tmp_path / "in.jpg", tmp_path / "out.jpg")
    assert of_jpeg(tmp_path / "in.jpg")[0] == [first, (1, 1), (1, 1)]
    assert of_jpeg(tmp_path / "out.jpg") == of_jpeg(tmp_path / "in.jpg")


@pytest.mark.parametrize("sampling", ["4:4:0", "4:1:1"])
def test_a_rare_subsampling_loses_no_further_colour(tmp_path, sampling):
    # where a format of subsampling cannot be written, a finer one takes its place
    factor, (across, down) = FACTORS[sampling]
    options = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor]
    assert cv2.imwrite(str(tmp_path / "in.jpg"), smooth(), options)
    assert of_jpeg(tmp_path / "in.jpg")[0][0] == (across, down)
    through(tmp_path / "in.jpg", tmp_path / "out.jpg")
    new_across, new_down = of_jpeg(tmp_path / "out.jpg")[0][0]
    assert new_across <= across
    assert new_down <= down


def test_a_table_for_each_component_is_kept(tmp_path):
    tables = [[min(255, first + i) for i in range(64)] for first in (1, 5, 9)]
    Image.fromarray(smooth()).save(tmp_path / "in.jpg", qtables=tables, subsampling=0)
    through(tmp_path / "in.jpg", tmp_path / "out.jpg")
    assert of_jpeg(tmp_path / "out.jpg")[1] == of_jpeg(tmp_path / "in.jpg")[1]
    assert len({tuple(table) for table in of_jpeg(tmp_path / "out.jpg")[1]}) == 3


@pytest.mark.parametrize("number", [2, 3])
def test_tables_may_have_any_number(tmp_path, number):
    Image.fromarray(smooth()).save(tmp_path / "in.jpg", quality=70, subsampling=0)
    data = bytearray((tmp_path / "in.jpg").read_bytes())
    second = data.index(b"\xff\xdb", data.index(b"\xff\xdb") + 2)
    assert data[second + 4] == 1
    data[second + 4] = number
    start = data.index(b"\xff\xc0") + 10
    for component in (1, 2):
        data[start + 3 * component + 2] = number
    (tmp_path / "in.jpg").write_bytes(data)
    through(tmp_path / "in.jpg", tmp_path / "out.jpg")
    assert of_jpeg(tmp_path / "out.jpg")[1] == of_jpeg(tmp_path / "in.jpg")[1]


@pytest.mark.parametrize("mode", ["L", "CMYK"])
@pytest.mark.parametrize("options", [{}, {"quality": 90}, {"subsampling": "4:2:0"}])
def test_jpegs_of_one_and_four_channels(tmp_path, mode, options):
    made = smooth()[..., 0] if mode == "L" else np.dstack([smooth(), smooth()[..., 0] // 2])
    Image.fromarray(np.ascontiguousarray(made), mode).save(tmp_path / "in.jpg", quality=60)
    before = through(tmp_path / "in.jpg", tmp_path / "out.jpg", **options)
    if not options:
        assert of_jpeg(tmp_path / "out.jpg") == of_jpeg(tmp_path / "in.jpg")
    after = read_picture(tmp_path / "out.jpg").frame.pixels.numpy().astype(int)
    assert np.abs(after - before.frame.pixels.numpy()).mean() < 2
    with Image.open(tmp_path / "out.jpg") as file:
        assert file.mode == mode


@pytest.mark.parametrize("quality", [30, 90])
def test_a_quality_that_is_given_counts(tmp_path, quality):
    Image.fromarray(smooth()).save(tmp_path / "in.jpg", quality=60, subsampling=2, progressive=True)
    Image.fromarray(smooth()).save(tmp_path / "like.jpg", quality=quality, subsampling=2)
    through(tmp_path / "in.jpg", tmp_path / "out.jpg", quality=quality)
    assert of_jpeg(tmp_path / "out.jpg")[:2] == of_jpeg(tmp_path / "like.jpg")[:2]
    assert of_jpeg(tmp_path / "out.jpg")[2]


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_a_subsampling_that_is_given_counts(tmp_path, sampling):
    Image.fromarray(smooth()).save(tmp_path / "in.jpg", quality=60, subsampling="4:2:2")
    through(tmp_path / "in.jpg", tmp_path / "out.jpg", subsampling=sampling)
    assert of_jpeg(tmp_path / "out.jpg")[0][0] == FACTORS[sampling][1]
    assert of_jpeg(tmp_path / "out.jpg")[1] == of_jpeg(tmp_path / "in.jpg")[1]


def test_a_jpeg_of_what_was_none_is_fine(tmp_path):
    write_picture(tmp_path / "p.jpg", picture(smooth()), xmp=MARKS)
    Image.fromarray(smooth()).save(tmp_path / "like.jpg", quality=95, subsampling="4:4:4")
    assert of_jpeg(tmp_path / "p.jpg") == of_jpeg(tmp_path / "like.jpg")


def test_writing_a_jpeg_again_moves_little(tmp_path):
    # the same tables and sampling: what was rounded once is rounded to the same again
    Image.fromarray(smooth()).save(tmp_path / "in.jpg", quality=60, subsampling="4:4:4")
    before = through(tmp_path / "in.jpg", tmp_path / "out.jpg").frame.pixels.numpy()
    after = read_picture(tmp_path / "out.jpg").frame.pixels.numpy()
    assert np.abs(after.astype(int) - before).mean() < 0.6


# WebP


def is_lossless(path):
    data = path.read_bytes()
    return b"VP8L" in data and b"VP8 " not in data


@pytest.mark.parametrize("lossless", [False, True])
def test_webp_stays_as_it_was(tmp_path, lossless):
    Image.fromarray(smooth()).save(tmp_path / "in.webp", lossless=lossless)
    through(tmp_path / "in.webp", tmp_path / "out.webp")
    assert is_lossless(tmp_path / "in.webp") == lossless
    assert is_lossless(tmp_path / "out.webp") == lossless


@pytest.mark.parametrize("size", [1_000, 70_000], ids=["small", "large"])
def test_webp_stays_lossless_behind_a_profile(tmp_path, size):
    profile = rgb_profile(SRGB_PRIMARIES, "srgb", name="x" * size)
    made = noise(16, 24, 3)
    Image.fromarray(made).save(tmp_path / "in.webp", lossless=True, icc_profile=profile)
    through(tmp_path / "in.webp", tmp_path / "out.webp")
    assert is_lossless(tmp_path / "out.webp")
    assert np.array_equal(read_picture(tmp_path / "out.webp").frame.pixels, made)


@pytest.mark.parametrize("place", ["exif", "xmp"])
def test_a_lossy_webp_that_speaks_of_lossless_ones_is_lossy(tmp_path, place):
    Image.fromarray(smooth()).save(tmp_path / "in.webp", quality=80, **{place: b"VP8L"})
    through(tmp_path / "in.webp", tmp_path / "out.webp")
    assert not is_lossless(tmp_path / "out.webp")


def test_a_quality_makes_webp_lossy_and_counts(tmp_path):
    Image.fromarray(smooth(200, 200)).save(tmp_path / "in.webp", lossless=True)
    sizes = []
    for quality in (20, 90):
        through(tmp_path / "in.webp", tmp_path / "out.webp", quality=quality)
        assert not is_lossless(tmp_path / "out.webp")
        sizes.append((tmp_path / "out.webp").stat().st_size)
    assert sizes[0] < sizes[1]


# AVIF


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_avif_keeps_its_subsampling(tmp_path, sampling):
    Image.fromarray(smooth()).save(tmp_path / "in.avif", subsampling=sampling)
    through(tmp_path / "in.avif", tmp_path / "out.avif")
    assert read_picture(tmp_path / "in.avif").encoding.options["subsampling"] == sampling
    assert read_picture(tmp_path / "out.avif").encoding.options["subsampling"] == sampling


def test_avif_takes_quality_and_subsampling(tmp_path):
    Image.fromarray(noise(64, 64, 3)).save(tmp_path / "in.avif", subsampling="4:2:0")
    sizes = []
    for quality in (20, 90):
        through(tmp_path / "in.avif", tmp_path / "out.avif", quality=quality, subsampling="4:4:4")
        sizes.append((tmp_path / "out.avif").stat().st_size)
        options = read_picture(tmp_path / "out.avif").encoding.options
        assert options["subsampling"] == "4:4:4"
    assert sizes[0] < sizes[1]


# TIFF


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"])
@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "CMYK"])
def test_tiff_keeps_its_compression(tmp_path, compression, mode):
    made = noise(16, 24, len(Image.new(mode, (1, 1)).getbands())).squeeze()
    Image.fromarray(made, mode).save(tmp_path / "in.tif", compression=compression)
    through(tmp_path / "in.tif", tmp_path / "out.tif")
    with Image.open(tmp_path / "out.tif") as file:
        assert file.info["compression"] == compression
        assert np.array_equal(np.array(file), made)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_tiff_with_jpeg_inside_keeps_alpha_and_moves_little(tmp_path, mode):
    made = {"L": smooth()[..., :1], "RGB": smooth()}[mode.rstrip("A") if mode != "LA" else "L"]
    if mode.endswith("A"):
        made = np.dstack([made, smooth()[::-1, :, 0]])
    Image.fromarray(made.squeeze(), mode).save(tmp_path / "in.tif", compression="jpeg", quality=90)
    before = through(tmp_path / "in.tif", tmp_path / "out.tif").frame
    after = read_picture(tmp_path / "out.tif").frame
    assert channels(after).shape == channels(before).shape
    assert np.abs(channels(after).astype(int) - channels(before)).mean() < 2


@pytest.mark.parametrize("compression", ["group3", "group4"])
def test_a_fax_becomes_gray_and_small(tmp_path, compression):
    Image.fromarray(noise(32, 48) > 127).save(tmp_path / "in.tif", compression=compression)
    through(tmp_path / "in.tif", tmp_path / "out.tif")
    with Image.open(tmp_path / "in.tif") as before, Image.open(tmp_path / "out.tif") as after:
        assert after.info["compression"] == "tiff_adobe_deflate"
        assert np.array_equal(np.array(after), np.where(np.array(before), 255, 0))


# GIF


def test_colours_of_a_gif_stay_what_they_are(tmp_path):
    image = Image.fromarray(noise(16, 16, seed=1) % 200, "P")
    image.putpalette(noise(200, 3, seed=3).tobytes())
    image.save(tmp_path / "in.gif")
    read = read_picture(tmp_path / "in.gif")
    before = read.frame.pixels.numpy().copy()
    read.frame.pixels[4:12, 4:12] = torch.from_numpy(
        noise(8, 8, 3, seed=77)
    )  # as a swap would: many new colours
    write_picture(tmp_path / "out.gif", read, xmp=MARKS)
    with Image.open(tmp_path / "out.gif") as file:
        after = np.array(file.convert("RGB"))
    outside = np.ones((16, 16), bool)
    outside[4:12, 4:12] = False
    assert np.array_equal(after[outside], before[outside])
    assert np.abs(after[4:12, 4:12].astype(int) - read.frame.pixels[4:12, 4:12].numpy()).mean() < 60


@pytest.mark.parametrize("transparency", [None, 0, 7, 255])
def test_a_gif_with_every_colour_it_can_have_comes_back(tmp_path, transparency):
    image = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16), "P")
    image.putpalette(noise(256, 3, seed=3).tobytes())
    options = {} if transparency is None else {"transparency": transparency}
    image.save(tmp_path / "in.gif", **options)
    before = through(tmp_path / "in.gif", tmp_path / "out.gif").frame
    after = read_picture(tmp_path / "out.gif").frame
    if transparency is None:
        assert after.alpha is None
        assert np.array_equal(after.pixels, before.pixels)
        return
    assert np.array_equal(after.alpha, before.alpha)
    assert int((before.alpha == 0).sum()) == 1
    seen = before.alpha.numpy() > 0
    assert np.array_equal(after.pixels.numpy()[seen], before.pixels.numpy()[seen])


def test_a_gif_that_cannot_be_seen_at_all(tmp_path):
    clear = picture(noise(4, 4, 3), np.zeros((4, 4), np.uint8))
    write_picture(tmp_path / "p.gif", clear, xmp=MARKS)
    assert read_picture(tmp_path / "p.gif").frame.alpha.tolist() == [[0] * 4] * 4


# What becomes of quality where there is none


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp", ".gif"])
def test_a_quality_does_not_matter_where_a_format_has_none(tmp_path, suffix):
    Image.fromarray(smooth()).save(tmp_path / f"in{suffix}")
    through(tmp_path / f"in{suffix}", tmp_path / f"a{suffix}")
    through(tmp_path / f"in{suffix}", tmp_path / f"b{suffix}", quality=5, subsampling="4:2:0")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
