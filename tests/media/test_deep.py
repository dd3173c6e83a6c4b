"""Sixteen bits per channel: every value comes in and goes out as it is."""

from __future__ import annotations

import struct
import zlib
from itertools import product

import cv2
import imagecodecs
import numpy as np
import pytest
import tifffile
from making import (
    MARKS,
    ORIENTATION,
    P3,
    SHORT,
    UPRIGHT,
    after_header,
    channels,
    chunk,
    curve,
    exif,
    gray_profile,
    noise,
    picture,
    rgb_profile,
)

from mien.errors import PictureUnreadable
from mien.media import Metadata, read_picture, write_picture

KINDS = {"gray": 1, "gray and alpha": 2, "RGB": 3, "RGB and alpha": 4}


def deep(count, height=13, width=17, seed=1):
    """Return noise of 16 bits, (H, W) or (H, W, C)."""
    return noise(height, width, count, dtype=np.uint16, seed=seed).squeeze()


def write_tiff(path, pixels, kind, *, planar=False, extra="unassalpha", **options):
    """Write ``pixels`` with tifffile, which knows nothing of mien."""
    if kind.endswith("alpha"):
        options["extrasamples"] = [extra]
    if kind == "inks":
        options["photometric"] = "separated"
    if pixels.ndim == 3:
        options["planarconfig"] = "separate" if planar else "contig"
        pixels = np.moveaxis(pixels, -1, 0) if planar else pixels
    options = {"photometric": "rgb" if kind.startswith("RGB") else "minisblack"} | options
    tifffile.imwrite(path, pixels, metadata=None, **options)


def by_another(path):
    """Return the values in a file, read without Pillow."""
    if path.suffix == ".png":
        found = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        if found is None or found.ndim == 2:
            return found
        return found[..., [2, 1, 0, 3][: found.shape[2]]]
    found = tifffile.imread(path)
    if found.ndim == 2 or found.shape[2] < 4:  # libtiff agrees, where it can be asked
        assert np.array_equal(imagecodecs.tiff_decode(path.read_bytes()), found)
    return found


# Reading


@pytest.mark.parametrize("kind", KINDS)
def test_a_png_is_read(tmp_path, kind):
    made = deep(KINDS[kind])
    (tmp_path / "p.png").write_bytes(imagecodecs.png_encode(made))
    frame = read_picture(tmp_path / "p.png").frame
    assert frame.pixels.numpy().dtype == np.uint16
    assert frame.peak == 65535
    assert np.array_equal(channels(frame).squeeze(), made)
    assert (frame.alpha is not None) == kind.endswith("alpha")


PACKED = [(None, False), ("lzw", False), ("lzw", True), ("deflate", True), ("packbits", False)]


@pytest.mark.parametrize("layout", ["strips", "one strip", "tiles"])
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "inks"])
def test_a_tiff_is_read(tmp_path, kind, planar, layout):
    made = deep(KINDS.get(kind, 4))
    rows = {"strips": {"rowsperstrip": 5}, "one strip": {}, "tiles": {"tile": (16, 16)}}[layout]
    for (compression, predictor), order in product(PACKED, "<>"):
        packed = {"compression": compression, "predictor": predictor} if compression else {}
        options = {"planar": planar, "byteorder": order, **rows, **packed}
        write_tiff(tmp_path / "p.tif", made, kind, **options)
        frame = read_picture(tmp_path / "p.tif").frame
        assert frame.pixels.numpy().dtype == np.uint16
        assert np.array_equal(channels(frame).squeeze(), made), options
        assert (frame.alpha is not None) == kind.endswith("alpha")


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("kind", ["gray", "RGB", "RGB and alpha"])
def test_what_opencv_wrote_is_read(tmp_path, suffix, kind):
    made = deep(KINDS[kind])
    order = [2, 1, 0, 3][: KINDS[kind]]  # OpenCV begins with blue
    stored = made if kind == "gray" else np.ascontiguousarray(made[..., order])
    assert cv2.imwrite(str(tmp_path / f"p{suffix}"), stored)
    assert np.array_equal(channels(read_picture(tmp_path / f"p{suffix}").frame).squeeze(), made)


@pytest.mark.parametrize("kind", ["gray", "RGB"])
@pytest.mark.parametrize("side", [3, 4])
def test_a_small_square_in_planes_is_not_mixed_up(tmp_path, kind, side):
    # where height, width and channels are the same, shapes do not say which is which
    made = deep(KINDS[kind], side, side)
    write_tiff(tmp_path / "p.tif", made, kind, planar=kind == "RGB")
    assert np.array_equal(channels(read_picture(tmp_path / "p.tif").frame).squeeze(), made)


def test_a_tiff_in_which_white_is_zero_is_turned_round(tmp_path):
    made = deep(1)
    write_tiff(tmp_path / "p.tif", made, "gray", photometric="miniswhite")
    assert np.array_equal(channels(read_picture(tmp_path / "p.tif").frame).squeeze(), 65535 - made)


@pytest.mark.parametrize("kind", ["gray", "RGB"])
def test_one_colour_of_a_png_that_stands_for_transparency(tmp_path, kind):
    made = deep(KINDS[kind])
    key = made[2, 3]
    made[5, 6] = key
    colour = np.atleast_1d(key).astype(">u2").tobytes()
    data = after_header(imagecodecs.png_encode(made), chunk(b"tRNS", colour))
    (tmp_path / "p.png").write_bytes(data)
    frame = read_picture(tmp_path / "p.png").frame
    clear = (made == key).reshape(13, 17, -1).all(axis=2)
    assert clear.sum() >= 2
    assert np.array_equal(frame.pixels.numpy().squeeze(), made)
    assert np.array_equal(frame.alpha.numpy(), np.where(clear, 0, 65535))


def test_an_interlaced_png_is_read(tmp_path):
    made = deep(3)
    stream = b""
    for x, y, across, down in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4),
                               (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:  # fmt: skip
        for row in made[y::down, x::across]:
            stream += b"\0" + row.astype(">u2").tobytes()
    fields = struct.pack(">IIBBBBB", 17, 13, 16, 2, 0, 0, 1)
    parts = (b"IHDR", fields), (b"IDAT", zlib.compress(stream)), (b"IEND", b"")
    data = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)
    (tmp_path / "p.png").write_bytes(data)
    assert np.array_equal(by_another(tmp_path / "p.png"), made)
    assert np.array_equal(read_picture(tmp_path / "p.png").frame.pixels, made)


@pytest.mark.parametrize("turn", UPRIGHT)
@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("kind", ["gray", "RGB and alpha"])
def test_sixteen_bits_are_read_upright(tmp_path, turn, suffix, kind):
    made = deep(KINDS[kind])
    if suffix == ".png":
        data = after_header(imagecodecs.png_encode(made), chunk(b"eXIf", exif(turn)[6:]))
        (tmp_path / "p.png").write_bytes(data)
    else:
        tags = [(ORIENTATION, SHORT, 1, turn, True)]
        write_tiff(tmp_path / "p.tif", made, kind, extratags=tags)
    read = read_picture(tmp_path / f"p{suffix}")
    assert np.array_equal(channels(read.frame).squeeze(), UPRIGHT[turn](made))
    assert read.frame.pixels.is_contiguous()


def test_what_networks_see_is_rounded(tmp_path):
    steps = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    (tmp_path / "p.png").write_bytes(imagecodecs.png_encode(steps))
    (tmp_path / "c.png").write_bytes(imagecodecs.png_encode(np.dstack([steps] * 3)))
    for name in ("p.png", "c.png"):
        frame = read_picture(tmp_path / name).frame
        assert frame.view.numpy().dtype == np.uint8
        assert frame.view.shape == (256, 256, 3)
        assert np.abs(frame.view.numpy() - steps[..., None] / 257).max() <= 0.5


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["gray", "RGB"])
def test_a_profile_of_sixteen_bits_is_kept_and_used(tmp_path, order, kind):
    profile = gray_profile(1.0) if kind == "gray" else rgb_profile(P3, "srgb")
    made = np.full((4, 4) if kind == "gray" else (4, 4, 3), 0x8000, np.uint16)
    if kind == "RGB":
        made[..., 0] = 0xC000
    write_tiff(tmp_path / "p.tif", made, kind, byteorder=order, iccprofile=profile)
    read = read_picture(tmp_path / "p.tif")
    assert read.metadata.profile == profile
    assert read.frame.table is not None
    assert not np.array_equal(read.frame.view[..., 0], made.reshape(4, 4, -1)[..., 0] >> 8)
    write_picture(tmp_path / "out.tif", read, xmp=MARKS)
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        assert file.pages[0].iccprofile == profile


@pytest.mark.parametrize("kind", ["float16", "int16", "uint32", "float32"])
def test_other_deep_pixels_are_refused_by_name(tmp_path, kind):
    tifffile.imwrite(
        tmp_path / "p.tif", np.zeros((5, 6, 3), kind), photometric="rgb", metadata=None
    )
    with pytest.raises(PictureUnreadable, match=r"p\.tif"):
        read_picture(tmp_path / "p.tif")


def test_of_six_channels_colours_and_one_more_are_kept_with_a_warning(tmp_path, caplog):
    made = noise(5, 6, 6, dtype=np.uint16)
    write_tiff(tmp_path / "p.tif", made, "six", photometric="minisblack", extrasamples=[0] * 5)
    frame = read_picture(tmp_path / "p.tif").frame
    assert np.array_equal(frame.pixels[..., 0], made[..., 0])
    assert np.array_equal(frame.alpha, made[..., 1])
    assert "6 channels" in caplog.text


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kinds", [("unassalpha", "unspecified"), ("unspecified", "unspecified")])
def test_further_channels_are_left_out_with_a_warning(tmp_path, kinds, bits, caplog):
    # as those that editors keep selections in
    made = noise(8, 9, 5, dtype=np.uint8 if bits == 8 else np.uint16)
    write_tiff(tmp_path / "p.tif", made, "RGB", extrasamples=list(kinds))
    read = read_picture(tmp_path / "p.tif")
    assert np.array_equal(read.frame.pixels, made[..., :3])
    assert "channel" in caplog.text


# Writing


@pytest.mark.parametrize(("suffix", "kind"), [*product([".png", ".tif"], KINDS), (".tif", "inks")])
def test_values_go_out_as_they_are(tmp_path, suffix, kind):
    made = deep(KINDS.get(kind, 4))
    write_tiff(tmp_path / "in.tif", made, kind, predictor=True, compression="lzw")
    read = read_picture(tmp_path / "in.tif")
    write_picture(tmp_path / f"out{suffix}", read, xmp=MARKS)
    if kind != "gray and alpha" or suffix == ".tif":  # OpenCV makes four channels of two
        found = by_another(tmp_path / f"out{suffix}")
        assert found.dtype == np.uint16
        assert np.array_equal(found, made)
    assert np.array_equal(channels(read_picture(tmp_path / f"out{suffix}").frame).squeeze(), made)


@pytest.mark.parametrize("kind", KINDS)
def test_a_png_goes_out_as_it_came(tmp_path, kind):
    made = deep(KINDS[kind])
    (tmp_path / "in.png").write_bytes(imagecodecs.png_encode(made))
    write_picture(tmp_path / "out.png", read_picture(tmp_path / "in.png"), xmp=MARKS)
    found = imagecodecs.png_decode((tmp_path / "out.png").read_bytes())
    assert np.array_equal(found.squeeze(), made)


def test_an_alpha_that_was_multiplied_in_still_is(tmp_path):
    # or is divided out again; but the same numbers under the other name are another picture
    made = np.array([[[10_000, 20_000, 30_000, 32_768], [5, 6, 7, 65_535]]], np.uint16)
    write_tiff(tmp_path / "in.tif", made, "RGB and alpha", extra="assocalpha")
    write_picture(tmp_path / "out.tif", read_picture(tmp_path / "in.tif"), xmp=MARKS)
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        found, kind = file.pages[0].asarray().astype(float), file.pages[0].extrasamples
    if tuple(map(int, kind)) == (2,):
        found[..., :3] = found[..., :3] * found[..., 3:] / 65535
    assert np.abs(found - made).max() <= 1


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".avif", ".bmp", ".gif"])
def test_where_there_are_eight_bits_values_are_rounded(tmp_path, suffix):
    made = np.full((16, 16, 3), (0x7FFF, 0x1234, 0xFEDC), np.uint16)
    write_picture(tmp_path / f"p{suffix}", picture(made), xmp=MARKS)
    found = read_picture(tmp_path / f"p{suffix}").frame.pixels.numpy()
    assert found.dtype == np.uint8
    limit = 3 if suffix in (".jpg", ".webp", ".avif") else 0.5
    assert np.abs(found - made / 257).max() <= limit


DETAILS = {
    "profile": rgb_profile(P3, "srgb"),
    "exif": exif(),
    "xmp": b'<x:xmpmeta xmlns:x="adobe:ns:meta/"/>',
    "dpi": (300.0, 150.0),
}


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_what_lies_beside_deep_pixels_goes_along(tmp_path, suffix):
    metadata = Metadata(texts=(("Title", "Żółw"),), iptc=b"\x1c\x02\x78\0\3abc", **DETAILS)
    made = deep(3)
    path = tmp_path / f"p{suffix}"
    write_picture(path, picture(made, metadata=metadata), xmp=DETAILS["xmp"])
    read = read_picture(path)
    assert np.array_equal(by_another(path), made)
    assert (read.metadata.profile, read.metadata.xmp) == (DETAILS["profile"], DETAILS["xmp"])
    assert read.metadata.dpi == pytest.approx((300, 150), abs=0.02)
    assert b"MAKER" in read.metadata.exif
    if suffix == ".png":
        assert read.metadata.texts == (("Title", "Żółw"),)
    else:
        assert read.metadata.iptc == metadata.iptc


@pytest.mark.parametrize("word", ["IDAT", "IEND", "IHDR"])
@pytest.mark.parametrize("place", ["text", "xmp", "exif", "profile"])
def test_names_of_chunks_may_stand_in_the_metadata(tmp_path, word, place):
    said = f"about {word} and {word}".encode()
    metadata = {
        "text": Metadata(texts=(("Title", said.decode()),)),
        "exif": Metadata(exif=exif(more=[(315, 2, len(said) + 1, said + b"\0")])),
        "profile": Metadata(profile=rgb_profile(P3, "srgb", name=said.decode())),
        "xmp": Metadata(),
    }[place]
    made = deep(3)
    xmp = b"<x>" + said + b"</x>" if place == "xmp" else MARKS
    write_picture(tmp_path / "p.png", picture(made, metadata=metadata), xmp=xmp)
    assert np.array_equal(by_another(tmp_path / "p.png"), made)
    read = read_picture(tmp_path / "p.png")
    assert np.array_equal(read.frame.pixels, made)
    assert read.metadata.xmp == xmp


def test_tags_of_the_structure_in_exif_do_not_break_a_tiff(tmp_path):
    # as in a PNG that was made of a TIFF: predictor, bits, tiles, planes, strips
    tags = [(258, 8), (259, 7), (262, 0), (273, 5), (279, 6), (284, 2), (317, 2), (322, 16)]
    more = [(tag, SHORT, 1, struct.pack("<H", value)) for tag, value in tags]
    metadata = Metadata(exif=exif(more=more))
    for made in (deep(3), noise(13, 17, 3)):
        write_picture(tmp_path / "p.tif", picture(made, metadata=metadata), xmp=MARKS)
        assert np.array_equal(by_another(tmp_path / "p.tif"), made)
        assert np.array_equal(read_picture(tmp_path / "p.tif").frame.pixels, made)


def test_a_linear_profile_has_a_table_of_its_own(tmp_path):
    # the curve of the profile is a line: a test that tables are made from profiles
    profile = rgb_profile(P3, 1.0)
    assert curve(1.0) in profile
    write_tiff(tmp_path / "p.tif", deep(3), "RGB", iccprofile=profile)
    table = read_picture(tmp_path / "p.tif").frame.table
    middle = float(table[0, 26, 26, 26])  # sRGB 130 of 255 is 0.223 of the light
    assert middle == pytest.approx(0.223, abs=0.01)
