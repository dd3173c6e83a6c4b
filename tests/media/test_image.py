"""Pictures in and out: pixel formats, orientation, objects, odd names, limits, damage."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from making import (
    MARKS,
    ORIENTATION,
    STORED,
    UPRIGHT,
    after_header,
    before_end,
    channels,
    chunk,
    exif,
    gif,
    gif_frame,
    header,
    noise,
    picture,
    smooth,
)
from PIL import Image

from mien import Frame
from mien.errors import InvalidOption, PictureUnreadable, PictureUnwritable
from mien.media import (
    FORMATS,
    READABLE,
    Picture,
    check_output,
    in_srgb,
    read_picture,
    write_picture,
)

RGB, ALPHA, GRAY = noise(6, 9, 3, seed=3), noise(6, 9, seed=4), noise(6, 9, seed=5)

NAMES = [
    "two words",
    'it\'s "quoted"',
    "100% & more%20",
    "顔写真",
    "Жуковский",
    "party 🎉👩‍🚀",
    "-leading-dash",
    ".hidden",
    "a\nline",
    "x" * 200,
]


def pixels_of(read):
    return read.frame.pixels.numpy()


def attempt(path, **options):
    """Return the picture in a file and no words, or None and why it is refused."""
    try:
        return read_picture(path, **options), ""
    except PictureUnreadable as error:
        return None, str(error)


def three(gray):
    return np.repeat(gray[..., None], 3, axis=2)


# Formats


@pytest.mark.parametrize("suffix", [*FORMATS, ".JPG", ".Png", ".TiFf"])
def test_a_picture_comes_back_from_every_format(tmp_path, suffix):
    path = tmp_path / f"picture{suffix}"
    write_picture(path, picture(smooth()), xmp=MARKS)
    with Image.open(path) as file:
        assert file.format == FORMATS[suffix.lower()].name
    read = read_picture(path)
    error = np.abs(pixels_of(read).astype(int) - smooth())
    exact = suffix.lower() in (".png", ".apng", ".tif", ".tiff", ".bmp")
    assert error.max() <= (0 if exact else 25 if suffix == ".gif" else 12)
    assert error.mean() < (6 if suffix == ".gif" else 2)
    assert (read.path, read.name, read.durations) == (path, path.name, ())
    (frame,) = read.frames
    assert (frame.height, frame.width, frame.time, frame.alpha) == (48, 64, None, None)
    assert (frame.sight, frame.table, frame.peak) == (None, None, 255)


def test_what_can_be_read_is_what_can_be_written_and_heic():
    assert set(READABLE) == {*FORMATS, ".heic", ".heif"}


@pytest.mark.parametrize("suffix", [".webp", ".avif"])
def test_gray_becomes_rgb_where_a_format_has_no_gray(tmp_path, suffix):
    gray = np.ascontiguousarray(smooth()[..., 0])
    write_picture(tmp_path / f"p{suffix}", picture(gray), xmp=MARKS)
    error = np.abs(pixels_of(read_picture(tmp_path / f"p{suffix}")).astype(int) - three(gray))
    assert error.max() <= 12
    assert error.mean() < 2


def test_a_picture_without_a_face_that_changed_is_not_marked(tmp_path):
    write_picture(tmp_path / "p.jpg", picture(smooth()), xmp=None)
    assert b"adobe" not in (tmp_path / "p.jpg").read_bytes()


# Pixels


@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp"])
def test_rgba(tmp_path, suffix):
    image = Image.fromarray(np.dstack([RGB, ALPHA]))
    image.save(tmp_path / f"p{suffix}", lossless=True, exact=True)
    read = read_picture(tmp_path / f"p{suffix}")
    assert np.array_equal(pixels_of(read), RGB)
    assert np.array_equal(read.frame.alpha, ALPHA)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_gray_with_alpha(tmp_path, suffix):
    Image.fromarray(np.dstack([GRAY, ALPHA]), "LA").save(tmp_path / f"p{suffix}")
    read = read_picture(tmp_path / f"p{suffix}")
    assert np.array_equal(pixels_of(read), GRAY[..., None])
    assert np.array_equal(read.frame.alpha, ALPHA)
    assert np.array_equal(read.frame.view, three(GRAY))


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp"])
def test_gray_stays_gray_and_is_seen_as_rgb(tmp_path, suffix):
    Image.fromarray(GRAY).save(tmp_path / f"p{suffix}")
    read = read_picture(tmp_path / f"p{suffix}")
    assert np.array_equal(pixels_of(read), GRAY[..., None])
    assert np.array_equal(read.frame.view, three(GRAY))
    assert read.frame.alpha is None
    assert read.frame.table.shape[0] == 1
    assert np.array_equal(in_srgb(read, read.frame), three(GRAY))


@pytest.mark.parametrize(
    ("suffix", "transparent"),
    [(".png", None), (".png", 2), (".gif", None), (".gif", 2), (".bmp", None), (".tif", None)],
)
def test_palette(tmp_path, suffix, transparent):
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (9, 8, 7)]
    indices = np.arange(54).reshape(6, 9) % 4
    image = Image.fromarray(indices.astype(np.uint8), "P")
    image.putpalette([value for colour in colours for value in colour])
    image.save(
        tmp_path / f"p{suffix}", **({} if transparent is None else {"transparency": transparent})
    )
    read = read_picture(tmp_path / f"p{suffix}")
    seen = np.ones(indices.shape, bool) if transparent is None else indices != transparent
    assert np.array_equal(pixels_of(read)[seen], np.array(colours, np.uint8)[indices][seen])
    if transparent is None:
        assert read.frame.alpha is None
    else:
        assert np.array_equal(read.frame.alpha, np.where(seen, 255, 0))


def test_palette_with_an_alpha_for_every_entry(tmp_path):
    image = Image.fromarray(np.array([[0, 1, 2]], np.uint8), "P")
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    image.save(tmp_path / "p.png", transparency=bytes([0, 128, 255]))
    read = read_picture(tmp_path / "p.png")
    assert read.frame.alpha.tolist() == [[0, 128, 255]]
    assert pixels_of(read).tolist() == [[[255, 0, 0], [0, 255, 0], [0, 0, 255]]]


@pytest.mark.parametrize(("mode", "key"), [("RGB", (1, 2, 3)), ("L", 7)])
def test_one_colour_that_stands_for_transparency(tmp_path, mode, key):
    image = Image.new(mode, (3, 1), "white")
    image.putpixel((1, 0), key)
    image.save(tmp_path / "p.png", transparency=key)
    read = read_picture(tmp_path / "p.png")
    assert read.frame.alpha.tolist() == [[255, 0, 255]]
    assert pixels_of(read)[0, 1].tolist() == (list(key) if mode == "RGB" else [key])


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp"])
def test_one_bit(tmp_path, suffix):
    Image.fromarray(GRAY > 127).save(tmp_path / f"p{suffix}")
    with Image.open(tmp_path / f"p{suffix}") as file:
        assert file.mode == "1"
    read = read_picture(tmp_path / f"p{suffix}")
    assert np.array_equal(pixels_of(read)[..., 0], np.where(GRAY > 127, 255, 0))


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_inks_are_kept_and_seen_as_rgb(tmp_path, suffix):
    inks = [(0, 255, 255, 0), (255, 0, 255, 0), (255, 255, 0, 0), (0, 0, 0, 0), (0, 0, 0, 255)]
    wanted = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)]
    image = Image.new("CMYK", (16 * len(inks), 16))
    for i, ink in enumerate(inks):
        image.paste(ink, (16 * i, 0, 16 * i + 16, 16))
    image.save(tmp_path / f"p{suffix}", quality=100)
    read = read_picture(tmp_path / f"p{suffix}")
    assert np.abs(pixels_of(read)[8, 8::16].astype(int) - inks).max() <= 6
    assert np.abs(read.frame.view.numpy()[8, 8::16].astype(int) - wanted).max() <= 6
    assert read.frame.table.shape[0] == 4


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_inks_come_back(tmp_path, suffix):
    inks = np.dstack([smooth(), smooth()[::-1, :, 0] // 2])
    write_picture(tmp_path / f"p{suffix}", picture(inks), xmp=MARKS)
    with Image.open(tmp_path / f"p{suffix}") as file:
        assert file.mode == "CMYK"
        found = np.array(file)
    assert np.abs(found.astype(int) - inks).max() <= (12 if suffix == ".jpg" else 0)
    assert np.array_equal(pixels_of(read_picture(tmp_path / f"p{suffix}")), found)


@pytest.mark.parametrize("suffix", [".png", ".webp", ".avif", ".bmp", ".gif"])
def test_inks_become_rgb_where_a_format_has_none(tmp_path, suffix):
    inks = np.zeros((16, 16, 4), np.uint8)
    inks[..., 1:3] = 255  # red
    write_picture(tmp_path / f"p{suffix}", picture(inks), xmp=MARKS)
    found = pixels_of(read_picture(tmp_path / f"p{suffix}"))
    assert np.abs(found.astype(int) - (255, 0, 0)).max() <= 6


@pytest.mark.parametrize("mode", ["I", "F"])
def test_thirty_two_bits_are_refused_with_advice(tmp_path, mode):
    path = tmp_path / "p.tif"
    Image.new(mode, (3, 3)).save(path)
    with pytest.raises(PictureUnreadable, match=r"p\.tif.*32 bits.*convert") as caught:
        read_picture(path)
    assert caught.value.path == path


# Alpha


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif", ".avif"])
@pytest.mark.parametrize("colours", [RGB, GRAY], ids=["RGB", "gray"])
def test_alpha_is_kept(tmp_path, suffix, colours):
    path = tmp_path / f"p{suffix}"
    write_picture(path, picture(colours, ALPHA), xmp=MARKS)
    read = read_picture(path)
    off = np.abs(read.frame.alpha.numpy().astype(int) - ALPHA)
    assert off.max() <= (8 if suffix == ".avif" else 0)
    if suffix in (".png", ".tif"):
        assert np.array_equal(pixels_of(read).squeeze(), colours)


def test_a_gif_shows_a_pixel_or_not(tmp_path):
    write_picture(tmp_path / "p.gif", picture(RGB, ALPHA), xmp=MARKS)
    read = read_picture(tmp_path / "p.gif")
    assert np.array_equal(read.frame.alpha, np.where(ALPHA >= 128, 255, 0))
    assert np.array_equal(pixels_of(read)[ALPHA >= 128], RGB[ALPHA >= 128])


@pytest.mark.parametrize("suffix", [".jpg", ".bmp"])
def test_alpha_that_a_format_cannot_hold_is_left_out_with_a_warning(tmp_path, suffix, caplog):
    path = tmp_path / f"p{suffix}"
    write_picture(path, picture(smooth(), np.zeros((48, 64), np.uint8)), xmp=MARKS)
    assert str(path) in caplog.text
    assert "transparen" in caplog.text
    read = read_picture(path)
    assert read.frame.alpha is None
    assert np.abs(pixels_of(read).astype(int) - smooth()).max() <= 12


# Orientation


@pytest.mark.parametrize("turn", UPRIGHT)
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif", ".avif"])
def test_pictures_are_read_upright(tmp_path, turn, suffix):
    tags = Image.Exif()
    tags[ORIENTATION] = turn
    options = {".webp": {"lossless": True}, ".avif": {"quality": 100, "subsampling": "4:4:4"}}
    path = tmp_path / f"p{suffix}"
    Image.fromarray(smooth()).save(path, exif=tags, **options.get(suffix, {}))
    read = pixels_of(read_picture(path))
    wanted = UPRIGHT[turn](smooth())
    assert read.shape == wanted.shape
    lossy = suffix in (".jpg", ".avif")
    assert np.abs(read.astype(int) - wanted).max() <= (12 if lossy else 0)
    if suffix == ".jpg":  # another reader that knows the tag
        other = cv2.imread(str(path))[..., ::-1]
        assert np.abs(read.astype(int) - other).max() <= 4


@pytest.mark.parametrize("turn", UPRIGHT)
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_alpha_turns_with_the_picture(tmp_path, turn, suffix):
    tags = Image.Exif()
    tags[ORIENTATION] = turn
    Image.fromarray(np.dstack([RGB, ALPHA])).save(tmp_path / f"p{suffix}", exif=tags)
    read = read_picture(tmp_path / f"p{suffix}")
    assert np.array_equal(channels(read.frame), UPRIGHT[turn](np.dstack([RGB, ALPHA])))


@pytest.mark.parametrize("turn", UPRIGHT)
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif", ".avif"])
def test_a_picture_that_was_turned_is_not_turned_again(tmp_path, turn, suffix):
    stored = np.ascontiguousarray(STORED[turn](smooth()))
    Image.fromarray(stored).save(tmp_path / f"in{suffix}", exif=exif(turn), quality=95)
    write_picture(tmp_path / f"out{suffix}", read_picture(tmp_path / f"in{suffix}"), xmp=MARKS)
    with Image.open(tmp_path / f"out{suffix}") as file:
        assert ORIENTATION not in file.getexif()
        found = np.array(file.convert("RGB"))
    assert found.shape == smooth().shape
    assert np.abs(found.astype(int) - smooth()).mean() < 6
    again = pixels_of(read_picture(tmp_path / f"out{suffix}"))
    assert np.array_equal(again, found)


def test_an_orientation_after_the_pixels_of_a_png_counts(tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(RGB).save(buffer, "PNG")
    late = before_end(buffer.getvalue(), chunk(b"eXIf", exif(6)[6:]))
    (tmp_path / "p.png").write_bytes(late)
    assert np.array_equal(pixels_of(read_picture(tmp_path / "p.png")), UPRIGHT[6](RGB))


def test_an_orientation_that_only_xmp_names_counts_and_is_gone_after(tmp_path):
    packet = (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf'
        b'-syntax-ns#"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" '
        b'tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
    )
    Image.fromarray(smooth()).save(tmp_path / "p.jpg", xmp=packet)
    assert pixels_of(read_picture(tmp_path / "p.jpg")).shape == (64, 48, 3)


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_orientation_out_of_range_is_none(tmp_path, value):
    Image.fromarray(smooth()).save(tmp_path / "p.jpg", exif=exif(value))
    assert pixels_of(read_picture(tmp_path / "p.jpg")).shape == (48, 64, 3)


def test_a_pil_image_is_turned_too_and_not_changed():
    image = Image.fromarray(RGB)
    image.getexif()[ORIENTATION] = 6
    for _ in range(2):
        assert np.array_equal(pixels_of(read_picture(image)), UPRIGHT[6](RGB))
    assert image.getexif()[ORIENTATION] == 6
    assert image.size == (9, 6)


@pytest.mark.parametrize("turn", UPRIGHT)
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif"])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_pil_image_of_a_file_is_turned_once(tmp_path, turn, suffix, loaded):
    tags = Image.Exif()
    tags[ORIENTATION] = turn
    Image.fromarray(smooth()).save(tmp_path / f"p{suffix}", exif=tags)
    with Image.open(tmp_path / f"p{suffix}") as image:
        if loaded:
            image.load()
        read = pixels_of(read_picture(image)).astype(int)
    wanted = UPRIGHT[turn](smooth())
    assert read.shape == wanted.shape
    assert np.abs(read - wanted).mean() < 4


def test_other_tags_that_are_malformed_do_not_matter(tmp_path):
    # resolution unit, by the standard a number, as text: some cameras write such things
    entries = [(ORIENTATION, 3, 1, struct.pack("<HH", 6, 0)), (296, 2, 4, b"two\0")]
    table = struct.pack("<H", len(entries))
    for tag, kind, count, value in entries:
        table += struct.pack("<HHI", tag, kind, count) + value
    data = b"Exif\0\0II*\0" + struct.pack("<I", 8) + table + struct.pack("<I", 0)
    Image.fromarray(smooth()).save(tmp_path / "p.jpg", exif=data)
    read = pixels_of(read_picture(tmp_path / "p.jpg"))
    wanted = UPRIGHT[6](smooth())
    assert read.shape == wanted.shape
    assert np.abs(read.astype(int) - wanted).max() <= 12


# Objects


def test_the_same_picture_is_taken_in_any_form(tmp_path):
    image = Image.fromarray(RGB)
    image.save(tmp_path / "p.png")
    forms = [tmp_path / "p.png", str(tmp_path / "p.png"), RGB, torch.from_numpy(RGB), image]
    for form in forms:
        read = read_picture(form)
        assert np.array_equal(pixels_of(read), RGB)
        assert read.frame.pixels.is_contiguous()
        assert read.digest == read_picture(RGB).digest


def test_what_was_given_is_copied():
    for given in (RGB.copy(), torch.from_numpy(RGB.copy()), Image.fromarray(RGB)):
        read_picture(given).frame.pixels.zero_()
        assert np.array_equal(np.asarray(given), RGB)


def test_an_array_may_be_gray_or_have_alpha():
    assert np.array_equal(pixels_of(read_picture(GRAY)), three(GRAY))
    for form in (np.dstack([RGB, ALPHA]), torch.from_numpy(np.dstack([RGB, ALPHA]))):
        read = read_picture(form)
        assert np.array_equal(pixels_of(read), RGB)
        assert np.array_equal(read.frame.alpha, ALPHA)


@pytest.mark.parametrize(
    ("mode", "made"),
    [
        ("L", GRAY),
        ("LA", np.dstack([GRAY, ALPHA])),
        ("RGBA", np.dstack([RGB, ALPHA])),
        ("CMYK", np.dstack([RGB, ALPHA])),
        ("I;16", noise(6, 9, dtype=np.uint16)),
    ],
)
def test_a_pil_image_keeps_its_channels(mode, made):
    image = Image.fromarray(made) if mode == "I;16" else Image.fromarray(made, mode)
    assert image.mode == mode
    read = read_picture(image)
    assert np.array_equal(channels(read.frame).squeeze(), made)
    assert (read.name, read.path, read.encoding) == ("the PIL image", None, None)


@pytest.mark.parametrize("mode", ["YCbCr", "HSV", "LAB", "RGBX", "1", "P"])
def test_a_pil_image_of_another_mode_becomes_rgb_or_gray(mode):
    image = Image.fromarray(smooth()).convert(mode)
    wanted = np.asarray(image.convert("L" if mode == "1" else "RGB"))
    assert np.array_equal(pixels_of(read_picture(image)).squeeze(), wanted)


def test_strided_arrays_and_tensors_are_taken():
    assert np.array_equal(pixels_of(read_picture(RGB[::-1, ::2, ::-1])), RGB[::-1, ::2, ::-1])
    channels_first = torch.from_numpy(np.ascontiguousarray(RGB.transpose(2, 0, 1)))
    assert np.array_equal(pixels_of(read_picture(channels_first.permute(1, 2, 0))), RGB)


def test_an_array_that_is_read_only_is_taken_in_silence():
    locked = RGB.copy()
    locked.flags.writeable = False
    torch.set_warn_always(True)  # by default torch warns once in a process
    try:
        assert np.array_equal(pixels_of(read_picture(locked)), RGB)
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize(
    ("odd", "fault"),
    [
        (RGB / 255.0, "float64.*uint8"),
        (RGB.astype(np.int64), "int64.*uint8"),
        (RGB > 9, "bool.*uint8"),
        (RGB[..., :2], r"\(6, 9, 2\).*\(H, W, 3\)"),
        (RGB.transpose(2, 0, 1), r"\(3, 6, 9\).*\(H, W, 3\)"),
        (RGB[None], r"\(1, 6, 9, 3\).*\(H, W, 3\)"),
        (RGB[0, 0], r"\(3,\).*\(H, W, 3\)"),
        (RGB[:0], r"\(0, 9, 3\).*\(H, W, 3\)"),
        (RGB[:, :0], r"\(6, 0, 3\).*\(H, W, 3\)"),
        (torch.from_numpy(RGB) / 255, "float32.*uint8"),
        (torch.from_numpy(RGB).bfloat16(), "bfloat16.*uint8"),
        (torch.from_numpy(RGB).permute(2, 0, 1), r"\(3, 6, 9\).*\(H, W, 3\)"),
        (torch.from_numpy(RGB)[:0], r"\(0, 9, 3\).*\(H, W, 3\)"),
        (Image.new("F", (3, 3)), "32 bits.*convert"),
        (Image.new("RGB", (0, 3)), "the PIL image.*no pixels"),
        (b"bytes", "bytes.*path"),
        (7, "int.*path"),
        (None, "NoneType.*path"),
        ([RGB], "list.*path"),
    ],
)
def test_what_is_no_picture_is_refused_with_advice(odd, fault):
    with pytest.raises(PictureUnreadable, match=f"(?s){fault}") as caught:
        read_picture(odd)
    assert caught.value.path is None


# Damage


def huge_png(side):
    """Return a PNG file that says it is ``side`` x ``side`` pixels."""
    return header(side, side) + chunk(b"IDAT", zlib.compress(bytes(99)))


@pytest.mark.parametrize("form", [str, Path], ids=["as text", "as path"])
@pytest.mark.parametrize(
    ("prepare", "fault"),
    [
        (lambda path: None, "no file"),
        (lambda path: path.touch(), "empty"),
        (lambda path: path.write_text("These are words."), "not a picture"),
        (lambda path: path.write_bytes(huge_png(40_000)), "too large"),
        (lambda path: path.mkdir(), "not a file"),
    ],
    ids=["missing", "empty", "words", "huge", "folder"],
)
def test_a_file_that_is_no_picture_is_named(tmp_path, prepare, fault, form):
    path = tmp_path / "a picture.jpg"
    prepare(path)
    with pytest.raises(PictureUnreadable, match=fault) as caught:
        read_picture(form(path))
    assert str(path) in str(caught.value)
    assert caught.value.path == path


def test_a_path_through_a_file_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PictureUnreadable) as caught:
        read_picture(tmp_path / "file" / "p.jpg")
    assert str(tmp_path / "file" / "p.jpg") in str(caught.value)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".gif", ".tif", ".bmp", ".avif"])
def test_a_file_that_was_cut_short_is_named(tmp_path, suffix, share):
    path = tmp_path / f"p{suffix}"
    Image.fromarray(noise(64, 64, 3, seed=6)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(PictureUnreadable) as caught:
        read_picture(path)
    assert str(path) in str(caught.value)
    assert caught.value.path == path


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".gif", ".tif", ".bmp", ".avif"])
def test_a_file_is_taken_for_what_it_is_whatever_its_name(tmp_path, suffix):
    Image.fromarray(smooth()).save(tmp_path / f"p{suffix}")
    name = tmp_path / ("p.jpg" if suffix == ".png" else "p.png")
    (tmp_path / f"p{suffix}").rename(name)
    read = read_picture(name)
    assert read.encoding.name == FORMATS[suffix].name
    assert pixels_of(read).shape == (48, 64, 3)


def test_without_the_extra_a_heic_picture_is_named_for_what_it_is(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    heic = (Path(__file__).parent / "mei.heic").read_bytes()
    for brand in (b"heic", b"heix", b"mif1"):
        (tmp_path / "p.jpg").write_bytes(heic[:8] + brand + heic[12:])
        with pytest.raises(PictureUnreadable, match=r"HEIC.*pip install 'mien\[heic\]'"):
            read_picture(tmp_path / "p.jpg")


@pytest.mark.parametrize("brand", [b"heic", b"mif1"])
def test_a_heic_picture_is_read_whichever_brand_comes_first(tmp_path, brand):
    pytest.importorskip("pi_heif")
    heic = (Path(__file__).parent / "mei.heic").read_bytes()
    (tmp_path / "p.heic").write_bytes(heic[:8] + brand + heic[12:])
    assert pixels_of(read_picture(tmp_path / "p.heic")).shape == (192, 192, 3)


def test_the_size_of_a_heic_picture_is_checked_before_it_is_decoded(monkeypatch):
    pi_heif = pytest.importorskip("pi_heif")

    def decode(image):
        raise AssertionError("it was decoded")

    monkeypatch.setattr(pi_heif.heif.HeifImage, "to_pillow", decode)
    monkeypatch.setattr(pi_heif.HeifFile, "to_pillow", decode)
    with pytest.raises(PictureUnreadable, match="too large"):
        read_picture(Path(__file__).parent / "mei.heic", max_megapixels=0.01)


# Names (T6)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_will_do(tmp_path, name, suffix):
    folder = tmp_path / name
    folder.mkdir()
    path = folder / f"{name}{suffix}"
    write_picture(path, picture(smooth()), xmp=MARKS)
    assert [child.name for child in folder.iterdir()] == [f"{name}{suffix}"]
    assert read_picture(path).name == f"{name}{suffix}"
    assert read_picture(str(path)).frame.width == 64


def test_a_relative_name_may_begin_with_a_dash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_picture(Path("-o.png"), picture(RGB), xmp=MARKS)
    assert np.array_equal(pixels_of(read_picture("-o.png")), RGB)


# Digests


def test_the_digest_is_that_of_the_content(tmp_path):
    digest = read_picture(RGB).digest
    for name in ("a.png", "b.png", "c.webp", "d.tif", "e.bmp"):
        Image.fromarray(RGB).save(tmp_path / name, lossless=True)
        assert read_picture(tmp_path / name).digest == digest
    assert len(digest) == 64
    other = RGB.copy()
    other[5, 8, 2] ^= 1
    assert read_picture(other).digest != digest


def test_the_digest_is_that_of_what_is_seen(tmp_path):
    Image.fromarray(GRAY).save(tmp_path / "gray.png")
    assert cv2.imwrite(str(tmp_path / "deep.png"), RGB[..., ::-1].astype(np.uint16) * 257)
    assert read_picture(tmp_path / "gray.png").digest == read_picture(three(GRAY)).digest
    assert read_picture(tmp_path / "deep.png").digest == read_picture(RGB).digest


def test_the_digest_depends_on_the_size():
    digests = {
        read_picture(RGB.reshape(shape)).digest for shape in [(6, 9, 3), (9, 6, 3), (54, 1, 3)]
    }
    assert len(digests) == 3


# Limits


def test_the_limit_of_size_says_what_it_is_and_what_changes_it(tmp_path):
    Image.new("RGB", (100, 60)).save(tmp_path / "p.png")
    with pytest.raises(PictureUnreadable, match=r"limit is 0\.005 megapixels.*'max_megapixels'"):
        read_picture(tmp_path / "p.png", max_megapixels=0.005)
    assert read_picture(tmp_path / "p.png", max_megapixels=0.006).frame.width == 100


def test_a_pil_image_has_the_same_limit():
    with pytest.raises(PictureUnreadable, match=r"the PIL image.*too large"):
        read_picture(Image.new("RGB", (100, 60)), max_megapixels=0.005)


@pytest.mark.parametrize("suffix", [".png", ".webp", ".gif", ".avif"])
def test_all_frames_count_together(tmp_path, suffix):
    frames = [Image.fromarray(noise(20, 50, 3, seed=i)) for i in range(3)]
    frames[0].save(tmp_path / f"p{suffix}", save_all=True, append_images=frames[1:], duration=100)
    with pytest.raises(PictureUnreadable, match=r"3 frames.*limit is 0\.002 megapixels"):
        read_picture(tmp_path / f"p{suffix}", max_megapixels=0.002)
    assert len(read_picture(tmp_path / f"p{suffix}", max_megapixels=0.003).frames) == 3


@pytest.mark.parametrize(
    ("suffix", "mode", "options"),
    [
        *((suffix, "RGB", {}) for suffix in (".jpg", ".png", ".gif", ".bmp", ".avif")),
        *((".tif", mode, {}) for mode in ("RGB", "P", "1")),
        (".tif", "RGB", {"compression": "jpeg"}),
        (".tif", "1", {"compression": "group4"}),
    ],
)
@pytest.mark.parametrize("limit", [1000, 2000], ids=["an error", "a warning"])
def test_there_is_no_limit_but_miens_own(tmp_path, suffix, mode, options, limit, monkeypatch):
    # as a picture of 200 megapixels meets Pillow's limit, which is lowered here; its reader of
    # WebP has that limit built in
    Image.fromarray(smooth()).convert(mode).save(tmp_path / f"p{suffix}", **options)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    read = read_picture(tmp_path / f"p{suffix}")
    assert read.frame.width == 64
    write_picture(tmp_path / f"out{suffix}", read, xmp=MARKS)


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read as Linux tells them")
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif"])
def test_no_copies_are_made_of_a_large_picture(tmp_path, suffix):
    path = tmp_path / f"p{suffix}"
    side = 3600  # 39 MB of pixels
    Image.fromarray(smooth(40, 40)).resize((side, side)).save(path)
    script = (
        "import sys; from pathlib import Path; from mien.media import read_picture, write_picture\n"
        "def now(what):\n"
        "    said = Path('/proc/self/status').read_text().split(what)[1].split()[0]\n"
        "    return int(said) * 1024\n"
        "before = now('VmRSS:'); read = read_picture(sys.argv[1])\n"
        "write_picture(Path(sys.argv[2]), read, xmp=b'<x/>')\n"
        "print(now('VmHWM:') - before)"
    )
    arguments = [sys.executable, "-c", script, str(path), str(tmp_path / f"out{suffix}")]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=120)
    # the pixels, what Pillow holds (four bytes for three), and less than another copy
    assert int(done.stdout) < 4 * 3 * side * side


def test_a_frame_larger_than_its_canvas_does_not_go_round_the_limit(tmp_path):
    # readers clip it, or let the canvas grow; both are fine, but not beyond the limit
    (tmp_path / "p.gif").write_bytes(gif(4, 4, gif_frame(4, 4), *[gif_frame(90, 90)] * 3))
    read, said = attempt(tmp_path / "p.gif", max_megapixels=0.002)
    if read is None:
        assert "too large" in said
    else:
        assert sum(frame.width * frame.height for frame in read.frames) <= 2000


def test_all_frames_have_one_size(tmp_path):
    (tmp_path / "p.gif").write_bytes(gif(4, 4, gif_frame(4, 4), gif_frame(9, 7)))
    sizes = {(frame.width, frame.height) for frame in read_picture(tmp_path / "p.gif").frames}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("suffix", "limit"), [(".jpg", 65_500), (".webp", 16_383), (".gif", 65_535)]
)
@pytest.mark.parametrize("tall", [False, True])
def test_a_picture_too_long_for_its_format_is_refused_with_the_limit(tmp_path, suffix, limit, tall):
    path = tmp_path / f"p{suffix}"
    shape = (limit + 1, 1, 3) if tall else (1, limit + 1, 3)
    long = picture(np.zeros(shape, np.uint8))
    for refuse in (
        lambda: write_picture(path, long, xmp=MARKS),
        lambda: check_output(path, picture=long),
    ):
        with pytest.raises(PictureUnwritable, match=str(limit)) as caught:
            refuse()
        assert caught.value.path == path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".gif", ".avif"])
def test_the_longest_picture_that_may_be_written_can_be_read(tmp_path, suffix):
    long = picture(np.zeros((1, FORMATS[suffix].longest, 3), np.uint8))
    write_picture(tmp_path / f"p{suffix}", long, xmp=MARKS)
    assert read_picture(tmp_path / f"p{suffix}").frame.width == FORMATS[suffix].longest


@pytest.mark.parametrize("suffix", [".jpg", ".tif", ".bmp"])
def test_what_moves_is_refused_where_a_format_holds_one_frame(tmp_path, suffix):
    frames = tuple(Frame(torch.zeros(4, 4, 3, dtype=torch.uint8)) for _ in range(2))
    moving = Picture(frames, name="p.gif")
    with pytest.raises(PictureUnwritable, match=r"p\.gif moves.*\.png.*\.gif"):
        check_output(tmp_path / f"p{suffix}", picture=moving)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("quality", value) for value in (0, 101, -1, 50.0, True, "95")),
        *(("subsampling", value) for value in ("4:1:1", "444", 0, "")),
    ],
)
def test_a_quality_that_is_none_is_named(tmp_path, option, value):
    with pytest.raises(InvalidOption, match=option):
        write_picture(tmp_path / "p.jpg", picture(RGB), xmp=MARKS, **{option: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["p.heic", "p.gif2", "p", "p.jp2", "p.psd"])
def test_a_format_that_cannot_be_written_is_refused(tmp_path, name):
    with pytest.raises(PictureUnwritable, match="cannot be written"):
        check_output(tmp_path / name)


# Bombs of text and profile


@pytest.mark.parametrize(
    ("kind", "head"),
    [(b"zTXt", b"key\0\0"), (b"iTXt", b"key\0\1\0\0\0"), (b"iCCP", b"name\0\0")],
)
@pytest.mark.parametrize("place", [after_header, before_end])
def test_what_unpacks_to_much_is_refused_or_left_out(tmp_path, kind, head, place):
    buffer = io.BytesIO()
    Image.fromarray(RGB).save(buffer, "PNG")
    packed = zlib.compress(bytes(30_000_000), 9)
    (tmp_path / "p.png").write_bytes(place(buffer.getvalue(), chunk(kind, head + packed)))
    read, said = attempt(tmp_path / "p.png")
    if read is None:
        assert str(tmp_path / "p.png") in said
    else:
        assert np.array_equal(pixels_of(read), RGB)
        assert len(read.metadata.profile or b"") + sum(map(len, read.metadata.texts)) < 10_000
