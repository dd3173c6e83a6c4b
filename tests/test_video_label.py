"""The visible label on what a swapper writes: on all of it, and on nothing that nobody changed."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import CONSENT
from filmed import metadata, planes
from PIL import Image

from mien import ClipSettings, Swapper
from mien.media import read_picture
from mien.media.lettering import lettering

TEXT = "AI合成"
EXACT = ClipSettings(codec="ffv1")

pytestmark = pytest.mark.usefixtures("painted")


@pytest.fixture(scope="module")
def labelling(home):
    return Swapper(label_text=TEXT, label_place="top-left")


@pytest.fixture(scope="module")
def somebody(labelling, people):
    return labelling.identity(people["dev"], consent=CONSENT)


def labelled(gray):
    """Return whether pixels (H, W) have the label's letters where they belong."""
    height, width = gray.shape
    drawn = lettering(TEXT, "top-left", width, height)
    left, top, right, bottom = drawn.plate
    inside = gray[top:bottom, left:right].astype(float)
    bright, dark = inside[drawn.ink == 255], inside[drawn.ink == 0]
    return bright.min() > 200 and np.percentile(dark, 90) < 110


def gray_of(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("L"))


def test_pictures_that_are_written_have_it_and_those_in_memory_do_not(
    labelling, somebody, people, tmp_path, no_watermark
):
    result = labelling.swap(people["ben"], somebody)
    result.save(tmp_path / "out.png")
    result.save_compare(tmp_path / "both.png")
    result.save_debug_view(tmp_path / "debug.png")
    assert labelled(gray_of(tmp_path / "out.png"))
    assert labelled(gray_of(tmp_path / "both.png"))
    assert not labelled(gray_of(tmp_path / "debug.png"))  # the picture as it was
    assert result.report()["label"] == {"text": TEXT, "place": "top-left"}
    left, top, right, bottom = lettering(TEXT, "top-left", 256, 256).plate
    written = read_picture(tmp_path / "out.png").frame.pixels.numpy().copy()
    assert not np.array_equal(written, result.pixels)
    written[top:bottom, left:right] = result.pixels[top:bottom, left:right]
    assert np.array_equal(written, result.pixels)
    assert np.array_equal(
        result.pixels[top:bottom, left:right], result.before[top:bottom, left:right]
    )


def test_every_frame_of_a_clip_has_it_also_without_a_face(
    labelling, somebody, clips, tmp_path, no_watermark
):
    out, both, strip = (tmp_path / name for name in ("out.mkv", "both.mkv", "strip.png"))
    report = labelling.swap_video(
        *(clips["late"], somebody),
        output=out, compare=both, preview=strip, settings=EXACT, start=0.24, end=0.4,
    )  # fmt: skip
    assert 0 < report.swapped < report.frames == 4
    assert report.report()["written"]["label"] == {"text": TEXT, "place": "top-left"}
    before = planes(clips["late"])[6:10]
    for path in (out, both):
        assert all(labelled(frame[0]) for frame in planes(path))
    assert len(planes(both)) == len(planes(out)) == 4
    assert labelled(gray_of(strip))
    left, top, right, bottom = lettering(TEXT, "top-left", 320, 240).plate
    plain = planes(out)[0]  # nobody is there yet
    outside = np.ones((240, 320), bool)
    outside[top:bottom, left:right] = False
    assert np.array_equal(plain[0][outside], before[0][0][outside])
    right, bottom = (right + 3) // 2 * 2, (bottom + 3) // 2 * 2
    outside[:bottom, :right] = False
    for number in (1, 2):
        chroma = outside[::2, ::2]
        assert np.array_equal(plain[number][chroma], before[0][number][chroma])


@pytest.mark.parametrize("resume", [False, True])
def test_a_clip_without_anybody_has_none(labelling, somebody, clips, tmp_path, resume):
    report = labelling.swap_video(
        *(clips["nobody"], somebody),
        output=tmp_path / "out.mkv", preview=tmp_path / "strip.png", settings=EXACT, end=0.2,
        resume=resume,
    )  # fmt: skip
    assert (report.untouched, report.copied, report.label) == (True, False, None)
    assert report.report()["written"]["label"] is None
    for before, after in zip(planes(clips["nobody"]), planes(tmp_path / "out.mkv"), strict=False):
        assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))
    assert not labelled(gray_of(tmp_path / "strip.png"))
    assert "comment" not in metadata(tmp_path / "out.mkv")
    assert not list(tmp_path.glob(".*resume"))
    copied = labelling.swap_video(clips["nobody"], somebody, output=tmp_path / "copy.mp4")
    assert (copied.copied, copied.label) == (True, None)
    assert not labelled(planes(tmp_path / "copy.mp4")[0][0])


def test_pieces_with_another_label_are_not_taken_up(
    labelling, swapper, somebody, clips, tmp_path, monkeypatch
):
    for module in ("encoding", "run", "writer"):
        monkeypatch.setattr(f"mien.media.clip.{module}.SEGMENT", 2)

    def stop(state):
        if state.frames == 5:
            raise KeyboardInterrupt

    options = {"output": tmp_path / "out.mkv", "resume": True, "threads": 1}
    with pytest.raises(KeyboardInterrupt):
        labelling.swap_video(clips["exact"], somebody, progress=stop, **options)
    assert list(tmp_path.glob(".out.mkv.mien-resume/segment-*"))
    report = swapper.swap_video(clips["exact"], somebody, **options)
    assert (report.kept, report.swapped, report.label) == (0, 6, None)
    assert not any(labelled(frame[0]) for frame in planes(tmp_path / "out.mkv"))
