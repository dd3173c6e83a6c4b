"""The watermark in files: what is written carries it, and nothing else is changed by it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tifffile
import torch
from filmed import along, film, head, planes
from media.clip.drawn import write_clip
from PIL import Image

from mien import ClipSettings
from mien.media import read_picture
from mien.media.clip import Clip, ClipWriter
from mien.pipeline import Imprint
from mien.safety.manifest import QUIET, kind_of, read_beside, reader_of
from mien.safety.verify import verify
from mien.safety.watermark import identifier
from mien.watermarked import finder

EXACT = ClipSettings(codec="ffv1")

pytestmark = pytest.mark.usefixtures("painted")


@pytest.fixture(scope="module")
def ben(people):
    with Image.open(people["ben"]) as image:
        return image.convert("RGB")


def written_as(path):
    """Return the identifier of what a file says it is: its marks and its manifest agree."""
    said = verify(path)
    assert said.marks.produced == said.manifest.produced is not None
    return identifier(said.manifest.produced)


def found_in(pixels):
    """Return the identifier in a picture, (H, W, 3), or None."""
    found = finder()([torch.from_numpy(np.ascontiguousarray(pixels))])
    return None if found is None else found.identifier


def shown(path):
    """Return the frames of a picture in sRGB."""
    return [frame.view.numpy() for frame in read_picture(path).frames]


def moments(path):
    """Return the frames of a clip in sRGB."""
    return [frame.picture().view.numpy().copy() for frame in Clip(path).frames()]


def bindings(path):
    """Return what the manifest of a file says of watermarks."""
    kind, beside = kind_of(path), read_beside(path)
    with path.open("rb") as stream, reader_of(stream, kind, beside, QUIET) as reader:
        found = json.loads(reader.json())
    said = found["manifests"][found["active_manifest"]]["assertions"]
    return [each["data"] for each in said if each["label"] == "c2pa.soft-binding"]


def last_done(swapper):
    """Return what the audit log says of the last file that was written."""
    log = max(swapper.ledger.audit.folder.glob("audit-*.jsonl"))
    line = json.loads(log.read_text().splitlines()[-1])
    assert line["event"] == "swap.done"
    return line


# Pictures


def deep(image, path):
    fine = np.random.default_rng(1).integers(0, 256, (256, 256, 3))
    tifffile.imwrite(path, np.array(image, np.uint16) << 8 | fine.astype(np.uint16))


def clear(image, path):
    alpha = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
    Image.fromarray(np.dstack([np.array(image), alpha])).save(path)


def one_clear(image, path):
    image = image.quantize(200)
    image.save(path, transparency=image.getpixel((0, 0)))


def moving(image, path, **options):
    image.save(path, save_all=True, append_images=[image.rotate(4)], duration=80, **options)


KINDS = {
    "PNG": ("png", lambda image, path: image.save(path)),
    "BMP": ("bmp", lambda image, path: image.save(path)),
    "JPEG": ("jpg", lambda image, path: image.save(path, quality=90)),
    "WebP": ("webp", lambda image, path: image.save(path, quality=90)),
    "16 bits": ("tif", deep),
    "gray": ("png", lambda image, path: image.convert("L").save(path)),
    "inks": ("jpg", lambda image, path: image.convert("CMYK").save(path, quality=92)),
    "alpha": ("png", clear),
    "GIF": ("gif", moving),
    "GIF, one clear": ("gif", one_clear),
    "APNG": ("png", moving),
}
LOSSY = ("JPEG", "WebP", "inks", "GIF", "GIF, one clear")


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_carries_the_id_that_it_says(swapper, dev, ben, tmp_path, kind):
    suffix, save = KINDS[kind]
    source, out = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    save(ben, source)
    result = swapper.swap(source, dev)
    assert len(result.swapped.chosen) == 1
    result.save(out)
    number, frames = written_as(out), shown(out)
    assert [found_in(frame) for frame in frames] == [number] * len(result.moments)
    if kind not in LOSSY:
        (frame,) = (
            frame
            for frame, moment in zip(frames, result.moments, strict=True)
            if moment is result.swapped
        )
        far = frame.astype(float) - result.pixels
        assert 20 * np.log10(255 / np.sqrt((far**2).mean())) >= 42
    if kind in ("alpha", "GIF, one clear"):
        before, after = (read_picture(path).frame.alpha for path in (source, out))
        assert torch.equal(before, after)


def test_each_file_has_an_id_of_its_own(swapper, dev, ben, tmp_path):
    result = swapper.swap(np.array(ben), dev)
    for name in ("one.png", "two.png", "both.png"):
        (result.save_compare if name == "both.png" else result.save)(tmp_path / name)
    numbers = [written_as(tmp_path / name) for name in ("one.png", "two.png", "both.png")]
    assert len(set(numbers)) == 3
    for name, number in zip(("one.png", "two.png", "both.png"), numbers, strict=True):
        assert found_in(*shown(tmp_path / name)) == number
    assert found_in(result.pixels) is None  # in memory there is none


def test_manifest_and_log_tell_of_it(swapper, dev, ben, tmp_path):
    out = tmp_path / "out.png"
    swapper.swap(np.array(ben), dev).save(out)
    number = f"{written_as(out):012x}"
    (binding,) = bindings(out)
    assert binding["alg"] == "io.mien.watermark.2"
    assert [block["value"] for block in binding["blocks"]] == [number]
    assert last_done(swapper)["watermark"] == number


# Frames of clips

ONE = 1 << 16
CLIPS = {
    "plain": {},
    "turned": {"matrix": (0, ONE, 0, -ONE, 0, 0, 0, 0, 1 << 30)},
    "full range": {"color_range": 2},
    "4:2:2, 10 bits": {"name": "yuv422p10le", "codec": "ffv1"},
    "gray": {"name": "gray", "codec": "ffv1"},
    "RGB": {"name": "gbrp10le", "codec": "ffv1"},
    "PQ": {
        **{"name": "yuv420p10le", "codec": "ffv1"},
        **{"color_primaries": 9, "color_trc": 16, "colorspace": 9, "color_range": 1},
    },
}


@pytest.fixture(params=CLIPS)
def clip(request, tmp_path):
    options = {"size": (320, 272), "frames": 5, **CLIPS[request.param]}
    suffix = "mkv" if options.get("codec") else "mp4"
    return Clip(write_clip(tmp_path / f"in.{suffix}", **options))


def test_a_clip_carries_it_whatever_its_samples(clip, tmp_path):
    imprint, before = Imprint().of("a clip"), []
    lay = imprint.film()
    with ClipWriter(tmp_path / "out.mkv", clip, settings=EXACT) as writer:
        for frame in clip.frames():
            before.append([plane.copy() for plane in frame.planes])
            writer.write(lay(frame))
    frames = moments(tmp_path / "out.mkv")
    assert len(frames) == 5
    assert [found_in(frames[i]) for i in (0, -1)] == [identifier("a clip")] * 2
    layout = clip.look.layout
    unit = 1 << layout.depth - 8
    for old, new in zip(before, planes(tmp_path / "out.mkv"), strict=True):
        changed = [a.astype(int) - b for a, b in zip(new, old, strict=True)]
        bright = changed if layout.kind == "rgb" else changed[:1]
        assert all(0.1 < np.abs(each).mean() / unit < 3 for each in bright)
        assert all(not each.any() for each in changed[len(bright) :])


# Clips


def test_every_frame_of_a_clip_carries_it_also_without_a_face(swapper, dev, clips, tmp_path):
    out, both, strip = (tmp_path / name for name in ("out.mp4", "both.mkv", "p.png"))
    report = swapper.swap_video(
        *(clips["late"], dev), output=out, compare=both, preview=strip, start=0.2, end=0.4
    )
    assert 0 < report.swapped < report.frames == 5
    (number,) = {written_as(path) for path in (out, both, strip)}
    for path in (out, both):
        frames = moments(path)
        assert [found_in(frames[i]) for i in (0, -1)] == [number] * 2
    assert found_in(*shown(strip)) == number
    last = last_done(swapper)
    assert last["watermark"] == f"{number:012x}"
    (binding,) = bindings(out)
    assert binding["blocks"][0]["value"] == last["watermark"]


def test_a_clip_in_which_nobody_is_carries_none(swapper, dev, clips, tmp_path):
    for name, settings in (("copy.mp4", None), ("coded.mkv", EXACT)):
        strip = tmp_path / "p.png"
        report = swapper.swap_video(
            *(clips["nobody"], dev),
            output=tmp_path / name, preview=strip, settings=settings or ClipSettings(), end=0.2,
        )  # fmt: skip
        assert report.untouched
        for before, after in zip(planes(clips["nobody"]), planes(tmp_path / name), strict=False):
            assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))
        (pixels,) = shown(strip)
        assert np.array_equal(pixels[:240], pixels[-240:])
        assert last_done(swapper)["watermark"] is None


def test_what_is_taken_up_again_carries_one_id(swapper, dev, portraits, tmp_path, monkeypatch):
    for module in ("encoding", "run", "writer"):
        monkeypatch.setattr(f"mien.media.clip.{module}.SEGMENT", 4)
    source = film(tmp_path / "in.mp4", [head(portraits, "ben", along(150, 120, 20))], frames=10)

    def stop(state):
        if state.frames == 8:
            raise KeyboardInterrupt

    options = {"output": tmp_path / "out.mkv", "settings": EXACT, "resume": True, "threads": 1}
    with pytest.raises(KeyboardInterrupt):
        swapper.swap_video(source, dev, progress=stop, **options)
    source = source.rename(tmp_path / "moved.mp4")  # it holds what it held
    source.touch()
    report = swapper.swap_video(source, dev, **options)
    assert report.kept in (4, 8)
    number, frames = written_as(tmp_path / "out.mkv"), moments(tmp_path / "out.mkv")
    assert len(frames) == 10
    assert [found_in(frames[i]) for i in (0, 3, 4, -1)] == [number] * 4


def test_pieces_with_another_id_are_not_taken_up(swapper, dev, clips, tmp_path, monkeypatch):
    for module in ("encoding", "run", "writer"):
        monkeypatch.setattr(f"mien.media.clip.{module}.SEGMENT", 2)

    def stop(state):
        if state.frames == 5:
            raise KeyboardInterrupt

    def swap(**options):
        return swapper.swap_video(
            clips["exact"], dev, output=folder / "out.mkv", resume=True, threads=1, **options
        )

    folder = tmp_path / "here"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        swap(progress=stop)
    assert list(folder.glob(".out.mkv.mien-resume/segment-*"))
    folder = folder.rename(tmp_path / "there")
    assert swap().kept == 0
    frames = moments(folder / "out.mkv")
    assert [found_in(frames[i]) for i in (0, -1)] == [written_as(folder / "out.mkv")] * 2
