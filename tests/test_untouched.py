"""Whatever the file: where no face was laid, the pixels written are the pixels read."""

from __future__ import annotations

from fractions import Fraction

import cv2
import imagecodecs
import numpy as np
import pytest
import tifffile
from conftest import CONSENT
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from making import ORIENTATION, P3, SHORT, STORED, after_header, chunk, exif, rgb_profile
from PIL import Image

from mien.media import read_picture

EIGHT = {
    "L": (".png", ".tif", ".bmp"),
    "LA": (".png", ".tif"),
    "RGB": (".png", ".tif", ".bmp", ".webp"),
    "RGBA": (".png", ".tif", ".webp"),
    "CMYK": (".tif",),
    "P": (".png", ".gif", ".bmp"),
    "P, one clear": (".png", ".gif"),
    "RGB in P3": (".png", ".tif", ".webp"),
}
SIXTEEN = {
    "16-bit gray": (".png", ".tif"),
    "16-bit gray and alpha": (".png", ".tif"),
    "16-bit RGB": (".png", ".tif"),
    "16-bit RGBA": (".png", ".tif"),
    "16-bit CMYK": (".tif",),
}
KINDS = [(kind, suffix) for kind, several in (EIGHT | SIXTEEN).items() for suffix in several]
TURNING = (".png", ".tif", ".webp")

pytestmark = pytest.mark.usefixtures("no_watermark")


@pytest.fixture
def swap(loaded, swapper, load):
    """Swap the face in a file, and return the result."""
    identity = swapper.identity(load("dev"), consent=CONSENT)
    return lambda path: swapper.swap(path, identity)


@pytest.fixture(scope="module")
def face(load):
    return Image.fromarray(load("ben"))


def scene(face, draw):
    """Return a portrait among noise, uint8 (H, W, 3), at a random place."""
    side = int(draw.integers(100, 140))
    height, width = (int(value) for value in draw.integers(side, side + 70, 2))
    pixels = draw.integers(0, 256, (height, width, 3)).astype(np.uint8)
    top, left = (int(draw.integers(0, room + 1)) for room in (height - side, width - side))
    pixels[top : top + side, left : left + side] = np.array(face.resize((side, side)))
    return pixels


def upright(kind, face, draw):
    """Return pixels of ``kind``, (H, W) or (H, W, C), and what else goes into the file."""
    rgb = scene(face, draw)
    gray = np.array(Image.fromarray(rgb).convert("L"))
    inks = np.array(Image.fromarray(rgb).convert("CMYK"))
    alpha = draw.integers(0, 256, gray.shape).astype(np.uint8)
    pixels = {
        "L": gray,
        "LA": np.dstack([gray, alpha]),
        "RGB": rgb,
        "RGBA": np.dstack([rgb, alpha]),
        "CMYK": inks,
        "RGB in P3": rgb,
        "16-bit gray": gray,
        "16-bit gray and alpha": np.dstack([gray, alpha]),
        "16-bit RGB": rgb,
        "16-bit RGBA": np.dstack([rgb, alpha]),
        "16-bit CMYK": inks,
    }.get(kind)
    if kind in SIXTEEN:
        finer = draw.integers(0, 256, pixels.shape).astype(np.uint16)
        return pixels.astype(np.uint16) << 8 | finer
    return pixels


def save(path, kind, pixels, turn):
    """Save upright ``pixels`` stored as an orientation says."""
    stored = np.ascontiguousarray(STORED[turn](pixels))
    options = {"lossless": True, "exact": True} if path.suffix == ".webp" else {}
    if path.suffix in TURNING and turn != 1:
        options["exif"] = exif(turn)
    if kind == "RGB in P3":
        options["icc_profile"] = rgb_profile(P3, "srgb")
    if kind not in SIXTEEN:
        if path.suffix == ".tif" and "exif" in options:
            options["exif"] = Image.Exif()
            options["exif"][ORIENTATION] = turn
        Image.fromarray(stored).save(path, **options) if kind != "CMYK" else Image.fromarray(
            stored, "CMYK"
        ).save(path, **options)
    elif path.suffix == ".png":
        data = imagecodecs.png_encode(stored)
        path.write_bytes(after_header(data, chunk(b"eXIf", exif(turn)[6:])))
    else:
        more = {"extrasamples": ["unassalpha"]} if kind.lower().endswith(("alpha", "rgba")) else {}
        colours = "rgb" if "RGB" in kind else "separated" if "CMYK" in kind else "minisblack"
        if stored.ndim == 3:
            more["planarconfig"] = "contig"
        tags = [(ORIENTATION, SHORT, 1, turn, True)]
        tifffile.imwrite(path, stored, photometric=colours, metadata=None, extratags=tags, **more)


def save_palette(path, kind, pixels, draw):
    """Save ``pixels`` with a palette; return what the file shows, (H, W, 3) or (H, W, 4)."""
    image = Image.fromarray(pixels).quantize(int(draw.integers(64, 257)))
    if kind == "P":
        image.save(path)
        return np.array(image.convert("RGB"))
    clear = int(np.array(image)[0, 0])
    image.save(path, transparency=clear)
    shown = np.array(image.convert("RGB"))
    return np.dstack([shown, np.where(np.array(image) == clear, 0, 255).astype(np.uint8)])


def by_another(path, kind):
    """Return the pixels of a file, read without mien."""
    if kind not in SIXTEEN:
        with Image.open(path) as file:
            if kind.startswith("P") and path.suffix == ".gif":
                return np.array(file.convert("RGB" if kind == "P" else "RGBA"))
            assert file.mode == {"P": "RGB", "P, one clear": "RGBA"}.get(kind, kind.split()[0])
            return np.array(file)
    if path.suffix == ".tif":
        return tifffile.imread(path)
    if kind == "16-bit gray and alpha":  # OpenCV makes four channels of two
        return imagecodecs.png_decode(path.read_bytes())
    found = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    return found if found.ndim == 2 else found[..., [2, 1, 0, 3][: found.shape[2]]]


def channel_last(pixels):
    return pixels[..., None] if pixels.ndim == 2 else pixels


def outside_of(covered, shape):
    outside = np.ones(shape[:2], bool)
    for part in covered:
        left, top, right, bottom = part.rectangle
        outside[top:bottom, left:right] = False
    return outside


@pytest.mark.parametrize(("kind", "suffix"), KINDS)
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # what fails is a seed: there is nothing to make smaller
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(turn=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
def test_outside_of_what_was_laid_nothing_changes(swap, face, tmp_path, kind, suffix, turn, seed):
    draw = np.random.default_rng(seed)
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if kind.startswith("P"):
        wanted = save_palette(source, kind, scene(face, draw), draw)
    else:
        wanted = upright(kind, face, draw)
        save(source, kind, wanted, turn if suffix in TURNING else 1)
    result = swap(source)
    result.save(target)
    found, wanted = channel_last(by_another(target, kind)), channel_last(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    covered = result.swapped.layers.covered
    assert covered
    outside = outside_of(covered, found.shape)
    assert 0 < outside.sum() < outside.size
    colours = wanted.shape[2] - ("alpha" in kind or kind in ("LA", "RGBA", "16-bit RGBA"))
    if kind == "P, one clear":
        colours = 3
        outside &= wanted[..., 3] > 0 if suffix == ".gif" else True
    assert np.array_equal(found[outside][:, :colours], wanted[outside][:, :colours])
    assert np.array_equal(found[..., colours:], wanted[..., colours:])
    assert not np.array_equal(found[..., :colours], wanted[..., :colours])
    assert np.array_equal(result.before, read_picture(source).frame.view)


@pytest.mark.parametrize("suffix", [".gif", ".png", ".webp"])
def test_nor_does_it_in_any_frame_that_moves(swap, face, tmp_path, suffix):
    draw = np.random.default_rng(7)
    pixels = scene(face, draw)
    frames = [pixels, draw.integers(0, 256, pixels.shape).astype(np.uint8), pixels[:, ::-1]]
    images = [Image.fromarray(frame).quantize(200) for frame in frames]
    images = images if suffix == ".gif" else [image.convert("RGB") for image in images]
    wanted = [np.array(image.convert("RGB")) for image in images]
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    options = {"lossless": True} if suffix == ".webp" else {}
    images[0].save(
        source, save_all=True, append_images=images[1:], duration=[70, 80, 90], **options
    )
    result = swap(source)
    result.save(target)
    assert [len(moment.chosen) for moment in result.moments] == [1, 0, 1]
    assert result.target.durations == (Fraction(7, 100), Fraction(8, 100), Fraction(9, 100))
    with Image.open(target) as file:
        assert file.n_frames == 3
        for i, moment in enumerate(result.moments):
            file.seek(i)
            file.load()
            assert round(file.info["duration"]) == (70, 80, 90)[i]
            found = np.array(file.convert("RGB"))
            outside = outside_of(moment.layers.covered if moment.layers else (), found.shape)
            assert np.array_equal(found[outside], wanted[i][outside])
            assert np.array_equal(found, wanted[i]) == (not moment.chosen)
