"""Pictures in and out: formats, modes, orientation, alpha, profiles, odd names, damage."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image, ImageCms

from mien import Frame
from mien.errors import PictureUnreadable, PictureUnwritable
from mien.media import FORMATS, Picture, read_picture, write_picture

ORIENTATION = 274
RGB = np.random.default_rng(3).integers(0, 256, (6, 9, 3), np.uint8)
ALPHA = np.random.default_rng(4).integers(0, 256, (6, 9), np.uint8)
GRAY = np.random.default_rng(5).integers(0, 256, (6, 9), np.uint8)
MARKS = b"<x/>"

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


def smooth(height=48, width=64):
    """Return a picture that lossy formats keep within a few codes."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 3, y * 4, 255 - x * 2 - y], axis=-1).clip(0, 255).astype(np.uint8)


def picture(pixels, **rest):
    return Picture(Frame(torch.from_numpy(pixels)), name="generated", **rest)


def pixels_of(read):
    return read.frame.pixels.numpy()


# Formats


@pytest.mark.parametrize("suffix", [*FORMATS, ".JPG", ".Png"])
def test_a_picture_comes_back_from_every_format(tmp_path, suffix):
    path = tmp_path / f"picture{suffix}"
    write_picture(path, picture(smooth()), xmp=MARKS)
    with Image.open(path) as file:
        assert file.format == FORMATS[suffix.lower()]
    read = read_picture(path)
    error = np.abs(pixels_of(read).astype(int) - smooth())
    assert error.max() <= (0 if suffix.lower() == ".png" else 12)
    assert error.mean() < 2
    assert (read.path, read.name, read.alpha) == (path, path.name, None)
    assert (read.frame.height, read.frame.width, read.frame.time) == (48, 64, None)


def test_jpeg_keeps_full_colour_resolution(tmp_path):
    write_picture(tmp_path / "p.jpg", picture(smooth()), xmp=MARKS)
    with Image.open(tmp_path / "p.jpg") as file:
        assert [(h, v) for _, h, v, _ in file.layer] == [(1, 1)] * 3


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_alpha_is_kept(tmp_path, suffix):
    path = tmp_path / f"p{suffix}"
    write_picture(path, picture(RGB, alpha=ALPHA), xmp=MARKS)
    assert np.array_equal(read_picture(path).alpha, ALPHA)
    if suffix == ".png":
        assert np.array_equal(pixels_of(read_picture(path)), RGB)


def test_jpeg_has_no_alpha(tmp_path):
    path = tmp_path / "p.jpg"
    write_picture(path, picture(smooth(), alpha=np.zeros((48, 64), np.uint8)), xmp=MARKS)
    read = read_picture(path)
    assert read.alpha is None
    assert np.abs(pixels_of(read).astype(int) - smooth()).max() <= 12


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_the_colour_profile_is_kept(tmp_path, suffix):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.fromarray(RGB).save(tmp_path / f"in{suffix}", icc_profile=profile)
    read = read_picture(tmp_path / f"in{suffix}")
    assert read.profile == profile
    write_picture(tmp_path / f"out{suffix}", read, xmp=MARKS)
    with Image.open(tmp_path / f"out{suffix}") as file:
        assert file.info["icc_profile"] == profile


@pytest.mark.parametrize("mode", ["L", "LA", "CMYK"])
def test_a_profile_of_other_pixels_is_not_put_on_rgb(tmp_path, mode):
    path = tmp_path / ("p.jpg" if mode == "CMYK" else "p.png")
    Image.new(mode, (4, 4)).save(path, icc_profile=b"a profile of other channels")
    assert read_picture(path).profile is None


# Modes


def test_rgba(tmp_path):
    Image.fromarray(np.dstack([RGB, ALPHA])).save(tmp_path / "p.png")
    read = read_picture(tmp_path / "p.png")
    assert np.array_equal(pixels_of(read), RGB)
    assert np.array_equal(read.alpha, ALPHA)


def test_gray_with_alpha(tmp_path):
    Image.fromarray(np.dstack([GRAY, ALPHA]), "LA").save(tmp_path / "p.png")
    read = read_picture(tmp_path / "p.png")
    assert np.array_equal(pixels_of(read), np.dstack([GRAY] * 3))
    assert np.array_equal(read.alpha, ALPHA)


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp"])
def test_gray(tmp_path, suffix):
    Image.fromarray(GRAY).save(tmp_path / f"p{suffix}")
    read = read_picture(tmp_path / f"p{suffix}")
    assert np.array_equal(pixels_of(read), np.dstack([GRAY] * 3))
    assert read.alpha is None


@pytest.mark.parametrize("suffix", [".png", ".gif"])
@pytest.mark.parametrize("transparent", [None, 2])
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
        assert read.alpha is None
    else:
        assert np.array_equal(read.alpha, np.where(seen, 255, 0))


def test_palette_with_an_alpha_for_every_entry(tmp_path):
    image = Image.fromarray(np.array([[0, 1, 2]], np.uint8), "P")
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    image.save(tmp_path / "p.png", transparency=bytes([0, 128, 255]))
    read = read_picture(tmp_path / "p.png")
    assert read.alpha.tolist() == [[0, 128, 255]]
    assert pixels_of(read).tolist() == [[[255, 0, 0], [0, 255, 0], [0, 0, 255]]]


@pytest.mark.parametrize(("mode", "key"), [("RGB", (1, 2, 3)), ("L", 7)])
def test_one_colour_that_stands_for_transparency(tmp_path, mode, key):
    image = Image.new(mode, (3, 1), "white")
    image.putpixel((1, 0), key)
    image.save(tmp_path / "p.png", transparency=key)
    assert read_picture(tmp_path / "p.png").alpha.tolist() == [[255, 0, 255]]


def test_one_bit(tmp_path):
    Image.fromarray(GRAY > 127).save(tmp_path / "p.png")
    with Image.open(tmp_path / "p.png") as file:
        assert file.mode == "1"
    wanted = np.dstack([np.where(GRAY > 127, 255, 0)] * 3)
    assert np.array_equal(pixels_of(read_picture(tmp_path / "p.png")), wanted)


@pytest.mark.parametrize(
    ("suffix", "channels"), [(".png", 1), (".tif", 1), (".png", 3), (".tif", 3)]
)
def test_sixteen_bits_become_eight(tmp_path, suffix, channels):
    wanted = np.dstack([GRAY] * 3) if channels == 1 else RGB
    stored = GRAY if channels == 1 else RGB[..., ::-1]  # OpenCV writes blue, green, red
    assert cv2.imwrite(str(tmp_path / f"p{suffix}"), stored.astype(np.uint16) * 256 + 77)
    assert np.array_equal(pixels_of(read_picture(tmp_path / f"p{suffix}")), wanted)


@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_inks(tmp_path, suffix):
    inks = [(0, 255, 255, 0), (255, 0, 255, 0), (255, 255, 0, 0), (0, 0, 0, 0), (0, 0, 0, 255)]
    wanted = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)]
    image = Image.new("CMYK", (16 * len(inks), 16))
    for i, ink in enumerate(inks):
        image.paste(ink, (16 * i, 0, 16 * i + 16, 16))
    image.save(tmp_path / f"p{suffix}", quality=100)
    found = pixels_of(read_picture(tmp_path / f"p{suffix}"))[8, 8::16]
    assert np.abs(found.astype(int) - wanted).max() <= 6


def test_the_first_picture_of_an_animation_is_read(tmp_path):
    moments = [Image.new("RGB", (4, 4), colour) for colour in ("red", "lime")]
    moments[0].save(tmp_path / "p.gif", save_all=True, append_images=moments[1:])
    assert (pixels_of(read_picture(tmp_path / "p.gif")) == (255, 0, 0)).all()


@pytest.mark.parametrize("mode", ["I", "F"])
def test_thirty_two_bits_are_refused_with_advice(tmp_path, mode):
    path = tmp_path / "p.tif"
    Image.new(mode, (3, 3)).save(path)
    with pytest.raises(PictureUnreadable, match=r"p\.tif.*32 bits.*convert") as caught:
        read_picture(path)
    assert caught.value.path == path


# Orientation


UPRIGHT = {
    # what row 0 and column 0 of the stored pixels are in the scene (Exif 2.32, tag 274)
    1: lambda stored: stored,  # top, left
    2: lambda stored: stored[:, ::-1],  # top, right
    3: lambda stored: stored[::-1, ::-1],  # bottom, right
    4: lambda stored: stored[::-1],  # bottom, left
    5: lambda stored: stored.transpose(1, 0, 2),  # left, top
    6: lambda stored: stored[::-1].transpose(1, 0, 2),  # right, top
    7: lambda stored: stored[::-1, ::-1].transpose(1, 0, 2),  # right, bottom
    8: lambda stored: stored[:, ::-1].transpose(1, 0, 2),  # left, bottom
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_pictures_are_read_upright(tmp_path, orientation, suffix):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    options = {"lossless": True} if suffix == ".webp" else {}
    Image.fromarray(smooth()).save(tmp_path / f"p{suffix}", exif=exif, **options)
    read = pixels_of(read_picture(tmp_path / f"p{suffix}"))
    wanted = UPRIGHT[orientation](smooth())
    assert read.shape == wanted.shape
    assert np.abs(read.astype(int) - wanted).max() <= (12 if suffix == ".jpg" else 0)
    if suffix == ".jpg":  # another reader that knows the tag
        other = cv2.imread(str(tmp_path / "p.jpg"))[..., ::-1]
        assert np.abs(read.astype(int) - other).max() <= 4


def test_alpha_turns_with_the_picture(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    Image.fromarray(np.dstack([RGB, ALPHA])).save(tmp_path / "p.png", exif=exif)
    read = read_picture(tmp_path / "p.png")
    assert np.array_equal(read.alpha, ALPHA[::-1].T)


def test_a_picture_that_was_turned_is_not_turned_again(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION] = 8
    Image.fromarray(RGB).save(tmp_path / "in.png", exif=exif)
    first = read_picture(tmp_path / "in.png")
    write_picture(tmp_path / "out.png", first, xmp=MARKS)
    assert np.array_equal(pixels_of(read_picture(tmp_path / "out.png")), pixels_of(first))


def test_a_pil_image_is_turned_too():
    image = Image.fromarray(RGB)
    image.getexif()[ORIENTATION] = 3
    assert np.array_equal(pixels_of(read_picture(image)), RGB[::-1, ::-1])


def test_other_tags_that_are_malformed_do_not_matter(tmp_path):
    # resolution unit, by the standard a number, as text: some cameras write such things
    entries = [(ORIENTATION, 3, 1, struct.pack("<HH", 6, 0)), (296, 2, 4, b"two\0")]
    table = struct.pack("<H", len(entries))
    for tag, kind, count, value in entries:
        table += struct.pack("<HHI", tag, kind, count) + value
    exif = b"Exif\0\0II*\0" + struct.pack("<I", 8) + table + struct.pack("<I", 0)
    Image.fromarray(smooth()).save(tmp_path / "p.jpg", exif=exif)
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


def test_an_array_may_be_gray_or_have_alpha():
    assert np.array_equal(pixels_of(read_picture(GRAY)), np.dstack([GRAY] * 3))
    for form in (np.dstack([RGB, ALPHA]), torch.from_numpy(np.dstack([RGB, ALPHA]))):
        read = read_picture(form)
        assert np.array_equal(pixels_of(read), RGB)
        assert np.array_equal(read.alpha, ALPHA)


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
        (Image.new("RGB", (0, 3)), r"\(3, 0, 3\)"),
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

    def chunk(kind, data):
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(99)))


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


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".gif", ".tif", ".bmp"])
def test_a_file_that_was_cut_short_is_named(tmp_path, suffix, share):
    path = tmp_path / f"p{suffix}"
    noise = np.random.default_rng(6).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(PictureUnreadable) as caught:
        read_picture(path)
    assert str(path) in str(caught.value)
    assert caught.value.path == path


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
    for name in ("a.png", "b.png", "c.webp"):
        Image.fromarray(RGB).save(tmp_path / name, lossless=True)
        assert read_picture(tmp_path / name).digest == digest
    assert len(digest) == 64
    other = RGB.copy()
    other[5, 8, 2] ^= 1
    assert read_picture(other).digest != digest


def test_the_digest_depends_on_the_size():
    digests = {
        read_picture(RGB.reshape(shape)).digest for shape in [(6, 9, 3), (9, 6, 3), (54, 1, 3)]
    }
    assert len(digests) == 3


# Limits


def test_a_picture_too_wide_for_its_format_is_refused_with_the_limit(tmp_path):
    path = tmp_path / "p.webp"
    with pytest.raises(PictureUnwritable, match="16383") as caught:
        write_picture(path, picture(np.zeros((1, 16384, 3), np.uint8)), xmp=MARKS)
    assert caught.value.path == path
    assert list(tmp_path.iterdir()) == []
