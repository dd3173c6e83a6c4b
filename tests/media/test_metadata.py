"""What a file says beside its pixels: kept where it still holds, left out where it does not."""

from __future__ import annotations

import contextlib
import io
import struct

import imagecodecs
import numpy as np
import pytest
import tifffile
from making import (
    ASCII,
    COPYRIGHT,
    LATITUDE,
    LONG,
    MAKER,
    MARKS,
    ORIENTATION,
    SHORT,
    THUMBNAIL,
    UNDEFINED,
    after_header,
    before_end,
    chunk,
    exif,
    noise,
    picture,
    smooth,
)
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from mien.errors import PictureUnreadable, PictureUnwritable
from mien.media import FORMATS, Metadata, read_picture, write_picture
from mien.media.decode import Encoding

EXIF_IFD, GPS_IFD = 0x8769, 0x8825
XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-'
    'syntax-ns#"><rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" dc:format="亀"/>'
    "</rdf:RDF></x:xmpmeta>"
).encode()
IPTC = b"\x1c\x02\x78\0\x0bthe caption"
ABLE = [".jpg", ".png", ".webp", ".avif", ".tif"]
"""Suffixes of formats that hold EXIF, XMP and a profile."""


def save(path, *, pixels=None, **options):
    """Save a picture whose EXIF data and other metadata are in ``options``."""
    image = Image.fromarray(smooth() if pixels is None else pixels)
    if path.suffix == ".tif" and "exif" in options:
        tags = Image.Exif()
        tags.load(options["exif"])
        options["exif"] = tags
    image.save(path, **options)
    return path


def through(source, target):
    read = read_picture(source)
    write_picture(target, read, xmp=MARKS)
    return read


# EXIF


def check_exif(path):
    """Check what the EXIF data of ``making.exif`` say once they have gone through mien."""
    data = path.read_bytes()
    assert THUMBNAIL not in data
    with Image.open(path) as file:
        tags = file.getexif()
        assert ORIENTATION not in tags
        assert tags[271] == "mien"
        assert tags.get_ifd(EXIF_IFD)[37500] == MAKER
        place = tags.get_ifd(GPS_IFD)
        assert place[1] == "N"
        assert tuple(map(float, place[2])) == LATITUDE


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("suffix", ABLE)
def test_exif_is_kept_without_orientation_and_thumbnail(tmp_path, suffix, order):
    source = save(tmp_path / f"in{suffix}", exif=exif(6, order))
    if suffix not in (".tif", ".avif"):
        assert THUMBNAIL in source.read_bytes()
    through(source, tmp_path / f"out{suffix}")
    check_exif(tmp_path / f"out{suffix}")


@pytest.mark.parametrize("suffix", ABLE)
@pytest.mark.parametrize("other", ABLE)
def test_exif_goes_from_any_format_into_any_other(tmp_path, suffix, other):
    source = save(tmp_path / f"in{suffix}", exif=exif(3))
    through(source, tmp_path / f"out{other}")
    check_exif(tmp_path / f"out{other}")


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("order", ["<", ">"])
def test_exif_goes_into_a_tiff_of_any_compression(tmp_path, compression, bits, order):
    pixels = smooth() if bits == 8 else smooth().astype(np.uint16) * 257
    made = picture(
        pixels,
        metadata=Metadata(exif=exif(1, order), iptc=IPTC, dpi=(300, 300)),
        encoding=Encoding("TIFF", {"compression": compression}),
    )
    write_picture(tmp_path / "p.tif", made, xmp=XMP)
    check_exif(tmp_path / "p.tif")
    read = read_picture(tmp_path / "p.tif")
    assert np.array_equal(read.frame.pixels, pixels)
    assert np.array_equal(imagecodecs.tiff_decode((tmp_path / "p.tif").read_bytes()), pixels)
    assert (read.metadata.iptc, read.metadata.xmp) == (IPTC, XMP)


@pytest.mark.parametrize("suffix", ABLE)
def test_names_in_other_letters_are_kept(tmp_path, suffix):
    # the standard has ASCII only; all the world writes UTF-8
    source = save(tmp_path / "in.jpg", exif=exif(1))
    assert COPYRIGHT.encode() in source.read_bytes()
    through(source, tmp_path / f"out{suffix}")
    assert COPYRIGHT.encode() in (tmp_path / f"out{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp", ".avif"])
def test_a_long_note_of_the_maker_is_kept(tmp_path, suffix):
    tags = Image.Exif()
    tags.get_ifd(EXIF_IFD)[37500] = b"M" * 100_000
    source = save(tmp_path / "in.png", exif=tags.tobytes())
    through(source, tmp_path / f"out{suffix}")
    assert b"M" * 100_000 in (tmp_path / f"out{suffix}").read_bytes()


def test_exif_too_long_for_a_jpeg_is_left_out_with_a_warning(tmp_path, caplog):
    tags = Image.Exif()
    tags.get_ifd(EXIF_IFD)[37500] = b"M" * 100_000
    source = save(tmp_path / "in.png", exif=tags.tobytes())
    through(source, tmp_path / "out.jpg")
    assert read_picture(tmp_path / "out.jpg").frame.width == 64
    assert "EXIF" in caplog.text


def test_the_size_in_exif_is_not_that_of_before_it_was_turned(tmp_path):
    tags = Image.Exif()
    tags[ORIENTATION] = 6
    tags.get_ifd(EXIF_IFD).update({0xA002: 64, 0xA003: 48})
    through(save(tmp_path / "in.jpg", exif=tags), tmp_path / "out.jpg")
    with Image.open(tmp_path / "out.jpg") as file:
        inner = file.getexif().get_ifd(EXIF_IFD)
        assert file.size == (48, 64)
        assert (inner.get(0xA002, 48), inner.get(0xA003, 64)) == (48, 64)


def test_exif_in_the_text_of_a_png_is_not_kept_as_it_was(tmp_path):
    # as ImageMagick wrote it: with its orientation, and with a thumbnail of the old face
    raw = exif(6)
    lines = "\n".join(raw.hex()[i : i + 72] for i in range(0, len(raw.hex()), 72))
    texts = PngInfo()
    texts.add_text("Raw profile type exif", f"\nexif\n{len(raw):8d}\n{lines}\n")
    save(tmp_path / "in.png", pnginfo=texts)
    read = through(tmp_path / "in.png", tmp_path / "out.png")
    assert read.frame.pixels.shape == (64, 48, 3)
    content = (tmp_path / "out.png").read_bytes()
    assert THUMBNAIL.hex()[:20].encode() not in content.replace(b"\n", b"")
    with Image.open(tmp_path / "out.png") as file:
        assert not [key for key in file.text if "exif" in key]
        assert file.getexif()[271] == "mien"


def entries(*rows, order="<", at=8):
    """Return EXIF data with these entries, whatever sense they make."""
    table = struct.pack(f"{order}H", len(rows))
    for tag, kind, count, value in rows:
        table += struct.pack(f"{order}HHI", tag, kind, count) + value
    start = {"<": b"II*\0", ">": b"MM\0*"}[order]
    return b"Exif\0\0" + start + struct.pack(f"{order}I", at) + table + bytes(4)


GARBAGE = {
    "words": b"Exif\0\0these are no tags at all",
    "no header": b"II*\0\x08\0\0\0",
    "empty": b"Exif\0\0",
    "cut": exif(6)[:60],
    "cut inside": exif(6)[:150],
    "flipped": bytes(byte ^ 0x55 for byte in exif(6)),
    "offset beyond": entries(at=0xFFFFFF),
    "offset to itself": entries((34665, LONG, 1, struct.pack("<I", 8))),
    "places to itself": entries((34853, LONG, 1, struct.pack("<I", 8))),
    "far value": entries((271, ASCII, 4000, struct.pack("<I", 0xFFFFFF00))),
    "huge count": entries((271, ASCII, 0xFFFFFFFF, struct.pack("<I", 8))),
    "unknown type": entries((271, 99, 1, b"\0\0\0\0")),
    "text as number": entries((296, ASCII, 4, b"two\0")),
    "number as text": entries((271, SHORT, 1, b"\1\0\0\0")),
    "nought below": entries((282, 5, 1, struct.pack("<I", 26)), (283, 5, 1, struct.pack("<I", 0))),
    "numbers as pointer": entries((34665, ASCII, 4, b"abc\0")),
    "pointer beyond": entries(
        (34665, LONG, 1, b"\xff\xff\xff\0"), (34853, LONG, 1, b"\xff\0\xff\0")
    ),
    "orientation as text": entries((ORIENTATION, ASCII, 2, b"6\0\0\0")),
    "two orientations": entries((ORIENTATION, SHORT, 2, struct.pack("<HH", 6, 3))),
    "many": entries(*[(50_000 + i, SHORT, 1, b"\1\0\0\0") for i in range(2000)]),
    "undefined as user": entries((37510, UNDEFINED, 4, b"\xff\xfe\xfd\xfc")),
    "strange maker": entries((37500, SHORT, 1, b"\1\0\0\0"), (40960, UNDEFINED, 4, b"01\xff0")),
}


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_tags_that_lie_on_each_other_do_not_multiply(tmp_path, suffix):
    count, size = 200, 20_000
    rows = [struct.pack("<HHII", 40_000 + i, UNDEFINED, size - 8, 8) for i in range(count)]
    if suffix == ".jpg":
        table = struct.pack("<H", count) + b"".join(rows) + bytes(4)
        data = b"Exif\0\0" + (b"II*\0\x08\0\0\0" + table).ljust(size, b"\0")
        save(tmp_path / "in.jpg", exif=data)
    else:
        own = [(256, 8), (257, 8), (258, 8), (259, 1), (262, 1), (273, size), (277, 1), (278, 8)]
        own.append((279, 64))
        rows = [struct.pack("<HHII", tag, LONG, 1, value) for tag, value in own] + rows
        table = struct.pack("<H", len(rows)) + b"".join(rows) + bytes(4)
        content = (b"II*\0\x08\0\0\0" + table).ljust(size, b"\0") + bytes(64)
        (tmp_path / "in.tif").write_bytes(content)
    read = through(tmp_path / f"in{suffix}", tmp_path / "out.png")
    assert len(read.metadata.exif) <= 2 * size
    assert (tmp_path / "out.png").stat().st_size <= 4 * size


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("what", GARBAGE)
def test_malformed_exif_does_not_matter_to_the_picture(tmp_path, what):
    buffer = io.BytesIO()
    Image.fromarray(smooth()).save(buffer, "PNG")
    data = after_header(buffer.getvalue(), chunk(b"eXIf", GARBAGE[what][6:]))
    (tmp_path / "in.png").write_bytes(data)
    save(tmp_path / "in.jpg", exif=GARBAGE[what])
    save(tmp_path / "in.webp", exif=GARBAGE[what], lossless=True)
    for suffix in (".png", ".jpg", ".webp"):
        read = read_picture(tmp_path / f"in{suffix}")
        assert sorted(read.frame.pixels.shape) == [3, 48, 64]
        for other in (*ABLE, ".bmp", ".gif"):
            write_picture(tmp_path / f"out{other}", read, xmp=MARKS)
            assert read_picture(tmp_path / f"out{other}").frame.height == read.frame.height


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize("what", ["cut inside", "far value", "pointer beyond", "flipped"])
def test_nothing_but_mien_itself_warns(tmp_path, suffix, what, recwarn):
    # what decoders warn of is not for the user, and an error where warnings are errors
    data = GARBAGE[what]
    if suffix == ".tif":
        save(tmp_path / "in.tif")
        content = (tmp_path / "in.tif").read_bytes()
        (tmp_path / "in.tif").write_bytes(content[:-8])
    elif suffix == ".png":
        buffer = io.BytesIO()
        Image.fromarray(smooth()).save(buffer, "PNG")
        (tmp_path / "in.png").write_bytes(after_header(buffer.getvalue(), chunk(b"eXIf", data[6:])))
    else:
        save(tmp_path / f"in{suffix}", exif=data)
    with contextlib.suppress(PictureUnreadable):
        read_picture(tmp_path / f"in{suffix}")
    assert not recwarn.list


def warned(name):
    """Return files of which Pillow warns."""
    buffer = io.BytesIO()
    if name.endswith(".png"):
        Image.fromarray(smooth()).save(buffer, "PNG")
        frames = {"no frames.png": 0, "too many frames.png": 2**32 - 1}.get(name, 1)
        told = chunk(b"acTL", struct.pack(">II", frames, 0))
        return after_header(buffer.getvalue(), *[told] * (2 if name == "twice.png" else 1))
    compression = "jpeg" if name == "jpeg.tif" else None
    image = Image.fromarray(smooth())
    image = image.quantize(16) if name == "palette.tif" else image
    image.save(buffer, "TIFF", compression=compression)
    return buffer.getvalue()[:-8]


@pytest.mark.parametrize(
    "name", ["no frames.png", "too many frames.png", "twice.png", "jpeg.tif", "palette.tif"]
)
def test_nothing_but_mien_warns_of_structure(tmp_path, name, recwarn):
    (tmp_path / name).write_bytes(warned(name))
    with contextlib.suppress(PictureUnreadable):
        read_picture(tmp_path / name)
    assert not recwarn.list


# XMP


@pytest.mark.parametrize("suffix", [*ABLE, ".gif"])
def test_xmp_is_read_and_written(tmp_path, suffix):
    write_picture(tmp_path / f"p{suffix}", picture(smooth()), xmp=XMP)
    assert read_picture(tmp_path / f"p{suffix}").metadata.xmp == XMP


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".avif", ".tif"])
def test_xmp_of_other_writers_is_read(tmp_path, suffix):
    if suffix == ".png":
        texts = PngInfo()
        texts.add_itxt("XML:com.adobe.xmp", XMP.decode(), zip=True)
        save(tmp_path / "p.png", pnginfo=texts)
    elif suffix == ".tif":
        tifffile.imwrite(
            tmp_path / "p.tif", smooth(), photometric="rgb", metadata=None,
            extratags=[(700, 1, len(XMP), XMP, True)],
        )  # fmt: skip
    else:
        save(tmp_path / f"p{suffix}", xmp=XMP)
    assert read_picture(tmp_path / f"p{suffix}").metadata.xmp == XMP


def test_xmp_after_the_pixels_of_a_png_is_read(tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(smooth()).save(buffer, "PNG")
    late = before_end(buffer.getvalue(), chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP))
    (tmp_path / "p.png").write_bytes(late)
    assert read_picture(tmp_path / "p.png").metadata.xmp == XMP


def test_the_old_packet_gives_way_to_the_new_one(tmp_path):
    for suffix in (*ABLE, ".gif"):
        write_picture(tmp_path / f"in{suffix}", picture(smooth()), xmp=XMP)
        through(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}")
        content = (tmp_path / f"out{suffix}").read_bytes()
        assert content.count(MARKS) == 1
        assert XMP not in content


def test_the_packet_of_a_bmp_lies_beside_it(tmp_path):
    write_picture(tmp_path / "p.bmp", picture(smooth()), xmp=XMP)
    assert (tmp_path / "p.bmp.xmp").read_bytes() == XMP
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.bmp", "p.bmp.xmp"]


def test_a_bmp_without_marks_has_nothing_beside_it(tmp_path):
    write_picture(tmp_path / "p.bmp", picture(smooth()), xmp=None)
    assert [path.name for path in tmp_path.iterdir()] == ["p.bmp"]


def test_no_bmp_no_packet(tmp_path, monkeypatch):
    def fail(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mien.media.image.encode", fail)
    with pytest.raises(PictureUnwritable, match="No space left"):
        write_picture(tmp_path / "p.bmp", picture(smooth()), xmp=XMP)
    assert list(tmp_path.iterdir()) == []


def test_no_packet_no_bmp(tmp_path):
    (tmp_path / "p.bmp.xmp").mkdir()
    with pytest.raises(PictureUnwritable):
        write_picture(tmp_path / "p.bmp", picture(smooth()), xmp=XMP)
    assert [path.name for path in tmp_path.iterdir()] == ["p.bmp.xmp"]


# IPTC, comments, resolution, texts


def photoshop(*resources):
    data = b"Photoshop 3.0\0"
    for number, content in resources:
        data += b"8BIM" + struct.pack(">HHI", number, 0, len(content)) + content
        data += b"\0" * (len(content) % 2)
    return b"\xff\xed" + struct.pack(">H", len(data) + 2) + data


def iptc_of(path):
    """Return the IPTC record in a JPEG's APP13 segment."""
    content = path.read_bytes()
    at = content.index(b"Photoshop 3.0\0008BIM\x04\x04\0\0") + 22
    (size,) = struct.unpack(">I", content[at : at + 4])
    return content[at + 4 : at + 4 + size]


@pytest.mark.parametrize("record", [IPTC, IPTC + b"\x1c\x02\x78\0\x04more"])
def test_iptc_is_kept_in_jpeg_without_the_old_thumbnail(tmp_path, record):
    extra = photoshop((0x040C, THUMBNAIL), (0x0404, record), (0x03ED, b"resolution"))
    save(tmp_path / "in.jpg", extra=extra)
    read = through(tmp_path / "in.jpg", tmp_path / "out.jpg")
    assert read.metadata.iptc == record
    assert iptc_of(tmp_path / "out.jpg") == record
    assert THUMBNAIL not in (tmp_path / "out.jpg").read_bytes()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [1, 4, 7])
def test_iptc_is_read_from_tiff(tmp_path, order, kind):
    record = IPTC + b"\0" * (-len(IPTC) % 4)
    value = record
    if kind == 4:  # as libtiff writes it: bytes that are called numbers
        value = struct.unpack(f"<{len(record) // 4}I", record)
    tags = [(33723, kind, len(value), value, True)]
    tifffile.imwrite(
        tmp_path / "p.tif", smooth(), photometric="rgb", metadata=None, byteorder=order,
        extratags=tags,
    )  # fmt: skip
    assert read_picture(tmp_path / "p.tif").metadata.iptc.rstrip(b"\0") == IPTC


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
@pytest.mark.parametrize("other", [".jpg", ".tif"])
def test_iptc_goes_from_jpeg_to_tiff_and_back(tmp_path, suffix, other):
    write_picture(
        tmp_path / f"in{suffix}", picture(smooth(), metadata=Metadata(iptc=IPTC)), xmp=MARKS
    )
    through(tmp_path / f"in{suffix}", tmp_path / f"out{other}")
    assert read_picture(tmp_path / f"out{other}").metadata.iptc == IPTC


@pytest.mark.parametrize("size", [65_000, 70_000, 200_000])
def test_a_long_record_does_not_spoil_a_jpeg(tmp_path, size):
    metadata = Metadata(iptc=b"\x1c" * size)
    write_picture(tmp_path / "p.jpg", picture(smooth(), metadata=metadata), xmp=MARKS)
    assert read_picture(tmp_path / "p.jpg").frame.width == 64


@pytest.mark.parametrize("suffix", [".jpg", ".gif"])
def test_a_comment_is_kept(tmp_path, suffix):
    save(tmp_path / f"in{suffix}", comment="a comment: Żółw")
    for other in (".jpg", ".gif"):
        through(tmp_path / f"in{suffix}", tmp_path / f"out{other}")
        with Image.open(tmp_path / f"out{other}") as file:
            assert file.info["comment"] == "a comment: Żółw".encode()


def test_a_comment_too_long_for_a_jpeg_does_not_spoil_it(tmp_path):
    save(tmp_path / "in.gif", comment=b"x" * 70_000)
    through(tmp_path / "in.gif", tmp_path / "out.jpg")
    assert read_picture(tmp_path / "out.jpg").frame.width == 64


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".bmp"])
@pytest.mark.parametrize("other", [".jpg", ".png", ".tif", ".bmp"])
def test_the_resolution_is_kept(tmp_path, suffix, other):
    save(tmp_path / f"in{suffix}", dpi=(300, 150))
    through(tmp_path / f"in{suffix}", tmp_path / f"out{other}")
    with Image.open(tmp_path / f"out{other}") as file:
        assert file.info["dpi"] == pytest.approx((300, 150), abs=0.05)


@pytest.mark.parametrize("dpi", [(1, 1), (65_535, 65_535), (100_000, 90_000), (0.2, 0.3)])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".bmp"])
def test_no_resolution_spoils_a_picture(tmp_path, suffix, dpi):
    path = tmp_path / f"p{suffix}"
    write_picture(path, picture(smooth(), metadata=Metadata(dpi=dpi)), xmp=MARKS)
    assert read_picture(path).frame.width == 64


@pytest.mark.parametrize(
    "resolution", [(2**32 - 1, 1), (1, 2**32 - 1), (70_000, 1), (2**31, 1), (1, 0), (0, 1), (0, 0)]
)
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".bmp"])
def test_no_resolution_of_a_tiff_spoils_a_picture(tmp_path, suffix, resolution):
    fraction = struct.pack("<II", *resolution)
    tifffile.imwrite(tmp_path / "in.tif", smooth(), photometric="rgb", metadata=None)
    with_resolution(tmp_path / "in.tif", fraction)
    through(tmp_path / "in.tif", tmp_path / f"out{suffix}")
    assert read_picture(tmp_path / f"out{suffix}").frame.width == 64


def with_resolution(path, fraction):
    """Put other values into the place of a TIFF's resolution."""
    with tifffile.TiffFile(path) as file:
        places = [file.pages[0].tags[tag].valueoffset for tag in (282, 283)]
    content = bytearray(path.read_bytes())
    for place in places:
        content[place : place + 8] = fraction
    path.write_bytes(content)


def test_texts_of_a_png_are_kept(tmp_path):
    texts = PngInfo()
    texts.add_text("Title", "plain")
    texts.add_text("Long", "packed " * 500, zip=True)
    texts.add_itxt("Author", "Żółw 亀", "pl", "Autor")
    texts.add(b"tEXt", b"Late\0after the pixels", True)
    save(tmp_path / "in.png", pnginfo=texts)
    read = through(tmp_path / "in.png", tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as file:
        found = dict(file.text)
    assert found.pop("XML:com.adobe.xmp", "<x/>") == "<x/>"
    assert found == {
        "Title": "plain",
        "Long": "packed " * 500,
        "Author": "Żółw 亀",
        "Late": "after the pixels",
    }
    assert [key for key, _ in read.metadata.texts] == ["Title", "Long", "Author", "Late"]


# Parts of files that are something else


def test_the_second_picture_of_two_is_not_read_and_gone(tmp_path):
    Image.fromarray(smooth()).save(
        tmp_path / "in.mpo", save_all=True, append_images=[Image.fromarray(noise(48, 64, 3))]
    )
    content = (tmp_path / "in.mpo").read_bytes()
    assert b"MPF\0" in content
    (tmp_path / "in.jpg").write_bytes(content)
    read = through(tmp_path / "in.jpg", tmp_path / "out.jpg")
    assert len(read.frames) == 1
    assert np.abs(read.frame.pixels.numpy().astype(int) - smooth()).mean() < 3
    assert b"MPF\0" not in (tmp_path / "out.jpg").read_bytes()


def test_the_film_behind_a_motion_photo_is_gone(tmp_path):
    save(tmp_path / "in.jpg")
    content = (tmp_path / "in.jpg").read_bytes() + b"\0\0\0\x18ftypmp42 and the old face"
    (tmp_path / "in.jpg").write_bytes(content)
    through(tmp_path / "in.jpg", tmp_path / "out.jpg")
    assert b"old face" not in (tmp_path / "out.jpg").read_bytes()


def test_of_pages_the_first_is_read_and_the_loss_of_others_is_said(tmp_path, caplog):
    pages = [Image.fromarray(noise(8, 9, 3, seed=i)) for i in range(3)]
    pages[0].save(tmp_path / "p.tif", save_all=True, append_images=pages[1:])
    read = read_picture(tmp_path / "p.tif")
    assert len(read.frames) == 1
    assert np.array_equal(read.frame.pixels, np.array(pages[0]))
    assert "pages" in caplog.text


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize(
    ("tag", "kind", "count", "value"),
    [
        (34675, 2, 0, "no profile"),
        (34675, 3, 1, 7),
        (34675, 12, 2, (1.5, 2.5)),
        (33723, 12, 2, (1.5, 2.5)),
        (33723, 2, 0, "no record"),
        (700, 3, 2, (1, 2)),
        (700, 2, 0, "no packet"),
        (282, 2, 0, "no number"),
        (305, 3, 1, 7),
        (315, 12, 1, 1.5),
        (34377, 3, 1, 7),
    ],
)
def test_tags_of_the_wrong_type_do_not_spoil_a_picture(tmp_path, tag, kind, count, value):
    tags = [(tag, kind, count, value, True)]
    tifffile.imwrite(
        tmp_path / "in.tif", smooth(), photometric="rgb", metadata=None, software=False,
        extratags=tags,
    )  # fmt: skip
    read = read_picture(tmp_path / "in.tif")
    assert np.array_equal(read.frame.pixels, smooth())
    for suffix in FORMATS:
        write_picture(tmp_path / f"out{suffix}", read, xmp=MARKS)
        assert read_picture(tmp_path / f"out{suffix}").frame.width == 64
