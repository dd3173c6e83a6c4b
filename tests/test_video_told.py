"""Clips from file to file: what is told of them, which options there are, and many in a row."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from filmed import SIDE, files, metadata

from mien import ClipSettings
from mien.engines import Peak
from mien.errors import ClipUnwritable, DiskFull, InvalidOption, OptionsConflict
from mien.media.clip import Clip, copy_clip
from mien.safety import DIGITAL_SOURCE_TYPE
from mien.video import Pace, parse_time

pytestmark = pytest.mark.usefixtures("painted")

# What is told


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".avi"])
def test_the_output_says_that_it_is_synthetic(swapper, dev, clips, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    swapper.swap_video(clips["one"], dev, output=out, end=0.2)
    said = metadata(out)["comment"]
    assert said.startswith("Synthetic:")
    assert DIGITAL_SOURCE_TYPE in said
    assert dev.consent in said
    assert "mien-256" in said
    # again: the new mark takes the place of the old one
    swapper.swap_video(out, dev, output=tmp_path / f"again{suffix}")
    assert metadata(tmp_path / f"again{suffix}")["comment"] == said


def test_a_stream_without_metadata_has_its_mark_beside_it(swapper, dev, clips, tmp_path):
    swapper.swap_video(clips["one"], dev, output=tmp_path / "out.ts", end=0.2)
    assert files(tmp_path) == ["out.ts", "out.ts.c2pa", "out.ts.xmp"]
    packet = (tmp_path / "out.ts.xmp").read_text()
    assert DIGITAL_SOURCE_TYPE in packet
    assert dev.consent in packet


def with_cover(clip, picture, path):
    """Write a clip again, with a picture as its cover."""
    with (
        av.open(str(clip)) as source,
        av.open(str(picture)) as cover,
        av.open(str(path), "w") as output,
    ):
        for each in (source, cover):
            output.add_stream_from_template(each.streams.video[0], opaque=True)
        output.streams[1].disposition = av.stream.Disposition.attached_pic
        for each, stream in ((cover, output.streams[1]), (source, output.streams[0])):
            for packet in each.demux(video=0):
                if packet.dts is not None:
                    packet.stream = stream
                    output.mux(packet)
    return path


@pytest.mark.parametrize(("which", "fate"), [("one", "dropped"), ("nobody", "copied")])
def test_covers_do_not_show_the_face_that_was_replaced(
    swapper, dev, clips, portraits, tmp_path, which, fate
):
    clip = with_cover(clips[which], portraits["ben"], tmp_path / "in.mp4")
    report = swapper.swap_video(clip, dev, output=tmp_path / "out.mp4", end=0.2)
    assert {track.kind: track.fate for track in report.written.tracks} == {"cover": fate}
    with av.open(str(tmp_path / "out.mp4")) as made:
        assert len(made.streams.video) == (2 if fate == "copied" else 1)


def test_a_cover_that_mp4_cannot_hold_beside_its_metadata_is_not_called_kept(
    swapper, dev, clips, portraits, tmp_path
):
    cover = with_cover(clips["nobody"], portraits["ben"], tmp_path / "in.mp4")
    tags = ClipSettings(tags={"AIGC": "{}"})
    copy_clip(tmp_path / "both.mkv", Clip(cover), settings=tags)
    report = swapper.swap_video(tmp_path / "both.mkv", dev, output=tmp_path / "out.mp4")
    assert [(track.kind, track.fate) for track in report.written.tracks] == [("cover", "dropped")]
    assert metadata(tmp_path / "out.mp4")["aigc"] == "{}"
    with av.open(str(tmp_path / "out.mp4")) as made:
        assert len(made.streams.video) == 1


@pytest.mark.parametrize("resume", [False, True])
def test_covers_stay_if_nobody_was_found_and_it_is_encoded(
    swapper, dev, clips, portraits, tmp_path, resume
):
    clip = with_cover(clips["nobody"], portraits["ben"], tmp_path / "in.mp4")
    report = swapper.swap_video(
        clip, dev, output=tmp_path / "out.mp4", quality=50, resume=resume,
        settings=ClipSettings(codec="hevc"),
    )  # fmt: skip
    assert (report.untouched, report.copied) == (True, False)
    assert [(track.kind, track.fate) for track in report.written.tracks] == [("cover", "copied")]
    with av.open(str(tmp_path / "out.mp4")) as made:
        assert [each.codec_context.name for each in made.streams] == ["hevc", "mjpeg"]


@pytest.mark.parametrize(
    ("name", "kind", "fate"),
    [
        ("cover.webp", "image/webp", "dropped"),
        ("cover.jpg", "application/octet-stream", "dropped"),
        ("letters.ttf", "font/ttf", "copied"),
    ],
)
def test_attached_pictures_are_covers_too(
    swapper, dev, clips, portraits, tmp_path, name, kind, fate
):
    clip = tmp_path / "in.mkv"
    with av.open(str(clips["one"])) as source, av.open(str(clip), "w") as output:
        stream = output.add_stream_from_template(source.streams.video[0])
        output.add_attachment(name, kind, portraits["ben"].read_bytes())
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                output.mux(packet)
    report = swapper.swap_video(clip, dev, output=tmp_path / "out.mkv", end=0.2)
    assert {track.kind: track.fate for track in report.written.tracks} == {"attachment": fate}
    with av.open(str(tmp_path / "out.mkv")) as made:
        assert len(made.streams) == (2 if fate == "copied" else 1)


def test_what_goes_beside_does_not_stay_without_the_clip(
    swapper, dev, clips, tmp_path, monkeypatch
):
    def finish(run):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mien.media.clip.run.Run.finish", finish)
    with pytest.raises(DiskFull):
        swapper.swap_video(
            clips["one"], dev, output=tmp_path / "out.ts", preview=tmp_path / "strip.png", end=0.2
        )
    assert files(tmp_path) == []


def test_the_file_beside_is_not_written_over_somebody_elses(swapper, dev, clips, tmp_path):
    (tmp_path / "out.ts.xmp").write_text("mine")
    with pytest.raises(ClipUnwritable, match="not from mien"):
        swapper.swap_video(clips["one"], dev, output=tmp_path / "out.ts", end=0.2)
    assert (tmp_path / "out.ts.xmp").read_text() == "mine"
    swapper.swap_video(clips["nobody"], dev, output=tmp_path / "out.ts")
    assert (tmp_path / "out.ts.xmp").read_text() == "mine"


def test_the_report_is_json_and_complete(swapper, dev, clips, tmp_path):
    states = []
    report = swapper.swap_video(
        clips["late"], dev, output=tmp_path / "out.mkv", progress=states.append
    )
    said = json.loads(json.dumps(report.report()))
    assert said["kind"] == "clip"
    assert said["frames"] == 25 == sum(each["frames"] for each in said["ranges"])
    assert said["ranges"][0]["faces"] == []
    assert said["ranges"][0]["start"] == 0
    shown = [face for each in said["ranges"] for face in each["faces"] if face["role"] == 0]
    assert shown
    assert all(0 < face["score"] <= 1 for face in shown if face["score"])
    assert said["tracks"][0]["swapped_frames"] == said["swapped_frames"] > 0
    assert {event["reason"] for event in said["events"]} >= {"lost"}
    assert said["written"]["tracks"][0]["fate"] == "copied"
    assert sum(said["shares"].values()) == pytest.approx(1, abs=0.01)
    assert {"decode", "landmark", "swap", "encode"} <= set(said["milliseconds"])
    assert "gpu" not in said
    peak = Peak("cuda:0", "Some GPU", allocated=3, reserved=7)
    assert replace(report, gpu=peak).report() == report.report() | {"gpu": peak.report()}
    assert [state.frames for state in states] == list(range(1, 26))
    assert states[-1].share == pytest.approx(1, abs=0.1)
    assert "frames, " in str(states[-1])
    assert repr(report) == f"VideoReport(out.mkv: {report.swapped} of 25 frames swapped)"


def test_a_preview_shows_before_and_after(swapper, dev, clips, tmp_path):
    from PIL import Image

    swapper.swap_video(
        clips["one"], dev, output=tmp_path / "out.mp4", preview=tmp_path / "strip.png"
    )
    with Image.open(tmp_path / "strip.png") as image:
        strip = np.asarray(image).astype(int)
        assert "compositeWithTrainedAlgorithmicMedia" in image.info["XML:com.adobe.xmp"]
    assert strip.shape == (2 * 240 + 4, 6 * 320 + 5 * 4, 3)
    differs = np.abs(strip[:240] - strip[244:]).max(axis=-1) > 20
    for column in range(6):
        assert 1000 < differs[:, column * 324 : column * 324 + 320].sum() < SIDE * SIDE


# Options


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"start": -1}, InvalidOption),
        ({"start": "1:75"}, InvalidOption),
        ({"start": "soon"}, InvalidOption),
        ({"start": 100}, InvalidOption),
        ({"start": 0.4, "end": 0.2}, InvalidOption),
        ({"end": 0}, InvalidOption),
        ({"end": "0:00"}, InvalidOption),
        ({"threads": 0}, InvalidOption),
        ({"threads": True}, InvalidOption),
        ({"strength": 2}, InvalidOption),
        ({"quality": 0}, InvalidOption),
        ({"quality": 101}, InvalidOption),
        ({"fields": "weave"}, InvalidOption),
        ({"hardware": "magic"}, InvalidOption),
        ({"settings": ClipSettings(preset="hasty")}, InvalidOption),
        ({"settings": ClipSettings(codec="vp8")}, ClipUnwritable),
        ({"faces": [0], "only": "ben.jpg"}, OptionsConflict),
        ({"look": 5}, InvalidOption),
    ],
)
def test_what_is_not_possible_is_refused(swapper, dev, clips, portraits, tmp_path, options, error):
    if "only" in options:
        options = options | {"only": portraits["ben"]}
    with pytest.raises(error):
        swapper.swap_video(clips["one"], dev, output=tmp_path / "out.mp4", **options)
    assert files(tmp_path) == []


def test_an_input_is_not_written_over(swapper, dev, clips, tmp_path):
    source = tmp_path / "in.mp4"
    source.write_bytes(clips["one"].read_bytes())
    with pytest.raises(InvalidOption, match="a file other than the input"):
        swapper.swap_video(source, dev, output=source)
    for preview in (tmp_path / "out.mp4", tmp_path / "in.png"):
        (tmp_path / "in.png").unlink(missing_ok=True)
        (tmp_path / "in.png").hardlink_to(source)
        with pytest.raises(InvalidOption, match=r"^preview='.*: a file other than the (in|out)put"):
            swapper.swap_video(source, dev, output=tmp_path / "out.mp4", preview=preview)
    with pytest.raises(ClipUnwritable, match=r"\.gif"):
        swapper.swap_video(source, dev, output=tmp_path / "out.gif")


def test_better_quality_makes_larger_files(swapper, dev, clips, one_watermark, tmp_path):
    sizes = []
    for quality in (20, 60, 90, 99):
        out = tmp_path / f"{quality}.mkv"  # its manifest is beside it
        sizes.append(
            swapper.swap_video(clips["one"], dev, output=out, quality=quality, end=0.2).written.size
        )
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] / 3
    swapper.swap_video(clips["one"], dev, output=tmp_path / "default.mkv", end=0.2)
    size = (tmp_path / "default.mkv").stat().st_size
    assert size == pytest.approx(sizes[2], rel=0.02)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("75.5", Fraction(151, 2)),
        ("1:15.5", Fraction(151, 2)),
        ("01:01:01.001", Fraction(3661001, 1000)),
        ("0", Fraction(0)),
        (".5", Fraction(1, 2)),
        ("90", Fraction(90)),
        (0.2, Fraction(1, 5)),
        (None, None),
    ],
)
def test_times_are_exact(text, seconds):
    assert parse_time("start", text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("1:60", "1:60:00", "-1", "1e3", "", "1:2:3:4", "٣", float("nan"), 1e10, 10**400),
        *("9" * 25, "1" * 5000 + ":00", "1:" + "1" * 5000, "0." + "1" * 5000, "999999:00:00"),
    ],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InvalidOption, match="seconds from the beginning"):
        parse_time("start", text)


def test_the_time_left_is_reckoned_from_the_clips_own_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("mien.video.progress.perf_counter", lambda: now[0])
    pace = Pace(Fraction(10), Fraction(20))
    pace(1, Fraction(10), {})
    now[0] = 2.0
    state = pace(11, Fraction(11), {"make": 1.0})
    assert (state.speed, state.share, state.seconds_left) == (5.0, 0.1, pytest.approx(18))
    assert str(state) == "10 %, 11 frames, 5.0/s, 0:18 left (make 100 %)"
    assert Pace(Fraction(0), None)(1, Fraction(0), {}).seconds_left is None


# Many


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


MANY = """
import sys, threading
from pathlib import Path
import filmed, mien
from mien.engines import OnnxEngine
from mien.video import one_heap
assert one_heap()
call = OnnxEngine.__call__
def quick(engine, inputs):
    return filmed.negative(inputs) if engine.model == "mien-256" else call(engine, inputs)
OnnxEngine.__call__ = quick
swapper = mien.Swapper(threads=1)
dev = swapper.identity(sys.argv[1], consent="A generated portrait.")
for _ in range(6):
    swapper.swap_video(sys.argv[2], dev, output=sys.argv[3])
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    print(pages, len(list(Path("/proc/self/fd").iterdir())), threading.active_count())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is told in /proc")
def test_memory_and_open_files_stay_where_they_are(clips, portraits, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MANY, portraits["dev"], clips["one"], tmp_path / "out.mp4"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert rows[-1][0] < 1.05 * rows[2][0]
    assert len({row[1:] for row in rows}) == 1
