"""Clips from file to file: what is swapped, what stays, what is told, and how it may end."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from conftest import CONSENT
from filmed import SIDE, along, film, head, metadata, packets, planes, times_of

from mien import ClipSettings, Policy
from mien.engines import OnnxEngine
from mien.errors import ClipUnreadable, ClipUnwritable, DiskFull, InvalidOption, OptionsConflict
from mien.evaluate.moving import Place
from mien.media.clip import Clip
from mien.safety import DIGITAL_SOURCE_TYPE
from mien.video import Pace, parse_time

EXACT = ClipSettings(codec="ffv1")


def negative(inputs):
    """Return the target's negative with some of the source in it: all inputs count."""
    return {"output": -0.9 * inputs["target"] + inputs["source"][:, :1, None, None] * 0.1}


@pytest.fixture(autouse=True)
def painted(monkeypatch):
    """A swap network that paints, as the real one takes a tenth of a second a face."""
    call = OnnxEngine.__call__

    def quick(engine, inputs):
        return negative(inputs) if engine.model == "mien-256" else call(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", quick)


@pytest.fixture(scope="module")
def dev(swapper, portraits):
    return swapper.identity(portraits["dev"], consent=CONSENT)


@pytest.fixture(scope="module")
def clips(portraits, tmp_path_factory):
    """Clips by name: one face, late and gone again; two that cross; nobody."""
    folder = tmp_path_factory.mktemp("clips")
    lossless = {"codec": "ffv1"}
    ben = head(portraits, "ben", along(100, 120, 80))
    late = head(portraits, "ben", lambda t: Place(150, 120) if 0.3 <= t < 0.7 else None)
    left = head(portraits, "ada", along(70, 120, 140), 130)
    right = head(portraits, "ben", along(250, 110, -140), 130)
    return {
        "one": film(folder / "one.mp4", [ben]),
        "exact": film(folder / "exact.mkv", [ben], frames=6, **lossless),
        "long": film(folder / "long.mkv", [ben], frames=25, **lossless),
        "late": film(folder / "late.mkv", [late], frames=25, **lossless),
        "two": film(folder / "two.mp4", [left, right], frames=30),
        "nobody": film(folder / "nobody.mp4", [], frames=12),
    }


def files(folder):
    return sorted(path.name for path in Path(folder).iterdir())


# What is swapped, and what stays


def test_a_face_is_swapped_and_all_other_samples_are_those_of_the_input(
    swapper, dev, clips, tmp_path
):
    report = swapper.swap_video(clips["exact"], dev, output=tmp_path / "out.mkv")
    assert (report.frames, report.swapped, report.copied, report.partial) == (6, 6, False, False)
    (stretch,) = report.stretches
    (face,) = stretch.faces
    left, top, right, bottom = (round(v) for v in face.around)
    inside = np.zeros((240, 320), bool)
    inside[top - 20 : bottom + 30, left - 20 : right + 20] = True
    for before, after in zip(planes(clips["exact"]), planes(tmp_path / "out.mkv"), strict=True):
        for one, other in zip(before, after, strict=True):
            step = 240 // one.shape[0]
            assert np.array_equal(one[~inside[::step, ::step]], other[~inside[::step, ::step]])
        luma = np.abs(before[0].astype(int) - after[0])
        assert (luma > 20).sum() > 1000


def test_frames_without_a_face_are_as_they_were(swapper, dev, clips, tmp_path):
    report = swapper.swap_video(clips["late"], dev, output=tmp_path / "out.mkv")
    before, after = planes(clips["late"]), planes(tmp_path / "out.mkv")
    same = [
        all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        for one, other in zip(before, after, strict=True)
    ]
    assert all(same[:8])
    # the first and the last of a face that fades may round to nothing
    assert report.swapped - 2 <= same.count(False) <= report.swapped
    assert 8 <= report.swapped <= 16


def test_times_and_sound_are_kept(swapper, dev, portraits, tmp_path):
    times = [0, 1, 2, 4, 7, 8, 12, 13]
    source = film(tmp_path / "v.mp4", [head(portraits, "ben", along(150, 120, 0))], times=times)
    swapper.swap_video(source, dev, output=tmp_path / "out.mp4")
    assert times_of(tmp_path / "out.mp4") == times_of(source)
    assert packets(tmp_path / "out.mp4", "audio") == packets(source, "audio") != []


@pytest.mark.parametrize("action", ["hold", "fade"])
def test_one_thread_is_as_four(swapper, dev, clips, tmp_path, action):
    """Bit for bit, by an encoder that repeats itself: libx264 now and then does not."""
    reports = [
        swapper.swap_video(
            clips["two"],
            dev,
            output=tmp_path / f"{threads}.mkv",
            faces="all",
            threads=threads,
            policy=Policy(action),
            settings=EXACT,
        )
        for threads in (1, 4)
    ]
    assert (tmp_path / "1.mkv").read_bytes() == (tmp_path / "4.mkv").read_bytes()
    assert reports[0].stretches == reports[1].stretches
    assert reports[0].tracks == reports[1].tracks


@pytest.mark.parametrize("sdr", [False, True])
def test_hdr_stays_or_is_brought_to_an_ordinary_screen(swapper, dev, portraits, tmp_path, sdr):
    source = film(
        tmp_path / "in.mp4",
        [head(portraits, "ben", along(150, 120, 0))],
        frames=4,
        codec="libx265",
        pixels="yuv420p10le",
        color_primaries=9,
        color_trc=16,
        colorspace=9,
        color_range=1,
    )
    report = swapper.swap_video(
        source, dev, output=tmp_path / "out.mp4", sdr=sdr, preview=tmp_path / "strip.png"
    )
    assert (report.swapped, report.written.codec) == (4, "hevc")
    info = Clip(tmp_path / "out.mp4").info
    assert info.pixel_format == ("yuv420p" if sdr else "yuv420p10le")
    assert info.colour.transfer == (1 if sdr else 16)
    before = Clip(source).frames(sdr=sdr)
    for one, other in zip(before, Clip(tmp_path / "out.mp4").frames(), strict=True):
        far = np.abs(one.planes[0].astype(int) - other.planes[0]) / (1 if sdr else 4)
        assert np.median(far) <= 2
        assert (far > 20).sum() > 500


def test_people_who_cross_keep_their_roles(swapper, dev, clips, portraits, tmp_path):
    eva = swapper.identity(portraits["eva"], consent=CONSENT)
    report = swapper.swap_video(
        clips["two"],
        map={dev: portraits["ada"], eva: portraits["ben"]},
        output=tmp_path / "out.mp4",
    )
    first, last = report.stretches[0].faces, report.stretches[-1].faces
    assert {face.role for face in first} == {face.role for face in last} == {0, 1}
    begin = {face.role: face.first[0] for face in first}
    end = {face.role: face.last[0] for face in last}
    assert begin[0] < begin[1]
    assert end[0] > end[1]
    assert all(len(track.roles) <= 1 for track in report.tracks)
    assert report.missing == ()
    assert len(report.consents) == 2


def test_the_policy_decides_what_becomes_of_bad_frames(swapper, dev, portraits, tmp_path):
    out = head(portraits, "ben", along(250, 120, 200))
    source = film(tmp_path / "out.mp4", [out], frames=20)
    for action in ("fade", "leave"):
        report = swapper.swap_video(
            source, dev, output=tmp_path / f"{action}.mp4", policy=Policy(action)
        )
        assert {event.action for event in report.events} == {action}
        assert "outside" in {event.reason for event in report.events}


def test_only_a_part(swapper, dev, clips, tmp_path):
    report = swapper.swap_video(
        clips["one"], dev, output=tmp_path / "out.mp4", start=0.2, end="0:00.4"
    )
    assert report.frames == 5
    assert times_of(tmp_path / "out.mp4") == [Fraction(n, 25) for n in range(5)]
    assert report.stretches[0].start == Fraction(1, 5)
    assert report.stretches[-1].end == Fraction(9, 25)


def test_a_clock_that_begins_late_counts_from_the_beginning(swapper, dev, portraits, tmp_path):
    ben = head(portraits, "ben", along(150, 120, 0))
    source = film(tmp_path / "a.mkv", [ben], frames=8, sound=False, start=250)
    assert Clip(source).info.start == 10
    report = swapper.swap_video(source, dev, output=tmp_path / "out.mp4", start=0.16)
    assert report.frames == 4
    assert report.stretches[0].start == Fraction(4, 25)


# Nobody


def test_a_clip_without_a_face_is_copied(swapper, dev, clips, tmp_path):
    report = swapper.swap_video(
        clips["nobody"], dev, output=tmp_path / "out.mp4", quality=50, resume=True
    )
    assert (report.copied, report.untouched, report.swapped, report.frames) == (True, True, 0, 12)
    assert report.consents == ()
    for kind in ("video", "audio"):
        assert packets(tmp_path / "out.mp4", kind) == packets(clips["nobody"], kind)
    assert "comment" not in metadata(tmp_path / "out.mp4")  # nothing in it is synthetic
    assert files(tmp_path) == ["out.mp4"]


def test_so_is_one_in_which_the_person_is_not(swapper, dev, clips, portraits, tmp_path):
    report = swapper.swap_video(
        clips["one"], dev, only=portraits["mei"], output=tmp_path / "out.mp4"
    )
    assert report.copied
    assert report.missing == (0,)
    assert not report.partial
    assert packets(tmp_path / "out.mp4", "video") == packets(clips["one"], "video")


def test_another_codec_is_made_also_if_nobody_is_there(swapper, dev, clips, tmp_path):
    report = swapper.swap_video(
        clips["nobody"], dev, output=tmp_path / "out.mp4", settings=ClipSettings(codec="hevc")
    )
    assert (report.copied, report.untouched) == (False, True)
    assert report.written.codec == "hevc"


# Interruption and damage


def stop_after(number):
    def progress(state):
        if state.frames == number:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_leaves_nothing(swapper, dev, clips, tmp_path, threads):
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        swapper.swap_video(
            clips["one"], dev, output=tmp_path / "out.mp4", threads=threads, progress=stop_after(6)
        )
    assert files(tmp_path) == []
    assert threading.active_count() == before


def test_what_was_there_stays_if_it_is_interrupted(swapper, dev, clips, tmp_path):
    (tmp_path / "out.mp4").write_bytes(b"what was there")
    with pytest.raises(KeyboardInterrupt):
        swapper.swap_video(clips["one"], dev, output=tmp_path / "out.mp4", progress=stop_after(6))
    assert (tmp_path / "out.mp4").read_bytes() == b"what was there"


@pytest.fixture
def pieces(monkeypatch):
    """Let pieces of clips be short."""
    for module in ("encoding", "run", "writer"):
        monkeypatch.setattr(f"mien.media.clip.{module}.SEGMENT", 8)
    monkeypatch.setattr("mien.video.engine.MEMORY", Fraction(1, 5))


@pytest.mark.parametrize("action", ["hold", "fade", "leave"])
def test_resumed_is_as_uninterrupted(swapper, dev, portraits, pieces, tmp_path, action):
    paths = {"there": lambda t: Place(90 + 60 * t, 120) if t < 0.5 or t > 0.7 else None,
             "late": lambda t: Place(230, 120) if t > 0.3 else None}  # fmt: skip
    people = [
        head(portraits, "ben", paths["there"], 130), head(portraits, "ada", paths["late"], 130)
    ]  # fmt: skip
    source = film(tmp_path / "in.mp4", people, frames=30)
    options = {"faces": "all", "policy": Policy(action, hold=0.1, fade=0.1), "settings": EXACT}
    whole = swapper.swap_video(source, dev, output=tmp_path / "whole.mkv", **options)
    for number in (10, 22):  # twice
        with pytest.raises(KeyboardInterrupt):
            swapper.swap_video(
                source, dev, output=tmp_path / "out.mkv", resume=True, threads=1,
                progress=stop_after(number), **options,
            )  # fmt: skip
        assert ".out.mkv.mien-resume" in files(tmp_path)
        assert "out.mkv" not in files(tmp_path)
    report = swapper.swap_video(source, dev, output=tmp_path / "out.mkv", resume=True, **options)
    assert report.kept in (8, 16)
    assert (tmp_path / "out.mkv").read_bytes() == (tmp_path / "whole.mkv").read_bytes()
    for name in ("stretches", "tracks", "events", "frames", "swapped"):
        assert getattr(report, name) == getattr(whole, name), name
    assert files(tmp_path) == ["in.mp4", "out.mkv", "whole.mkv"]


def test_pieces_of_other_options_are_not_taken_up(swapper, dev, clips, pieces, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        swapper.swap_video(
            clips["one"], dev, output=tmp_path / "out.mp4", resume=True, progress=stop_after(14)
        )
    report = swapper.swap_video(
        clips["one"], dev, output=tmp_path / "out.mp4", resume=True, strength=0.5
    )
    assert report.kept == 0


def test_garbage_is_refused(swapper, dev, tmp_path):
    (tmp_path / "a.mp4").write_bytes(os.urandom(5000))
    with pytest.raises(ClipUnreadable, match=r"a\.mp4"):
        swapper.swap_video(tmp_path / "a.mp4", dev, output=tmp_path / "out.mp4")
    assert files(tmp_path) == ["a.mp4"]


def test_of_a_clip_that_was_cut_short_all_that_decodes_is_swapped(swapper, dev, clips, tmp_path):
    content = clips["long"].read_bytes()
    (tmp_path / "cut.mkv").write_bytes(content[: len(content) // 3])
    report = swapper.swap_video(tmp_path / "cut.mkv", dev, output=tmp_path / "out.mkv")
    assert report.partial
    assert 2 <= report.frames < 16
    assert report.lost
    assert len(planes(tmp_path / "out.mkv")) == report.frames == report.swapped
    assert report.report()["lost"][0]["why"]


def test_a_full_disk_is_said_and_leaves_nothing(swapper, dev, clips, tmp_path, monkeypatch):
    monkeypatch.setattr("mien.media.clip.writer.free_bytes", lambda folder: 10)
    with pytest.raises(DiskFull, match="MB are free"):
        swapper.swap_video(clips["one"], dev, output=tmp_path / "out.mp4")
    assert files(tmp_path) == []


def test_so_is_one_that_fills_up_meanwhile(swapper, dev, clips, tmp_path, monkeypatch):
    frames = []

    def write(run, frame):
        frames.append(frame.number)
        if len(frames) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mien.media.clip.run.Run.write", write)
    before = threading.active_count()
    with pytest.raises(DiskFull, match="the disk is full"):
        swapper.swap_video(clips["one"], dev, output=tmp_path / "out.mp4")
    assert files(tmp_path) == []
    assert threading.active_count() == before


def test_an_error_in_the_networks_ends_it_cleanly(swapper, dev, clips, tmp_path, monkeypatch):
    calls = []

    def broken(maker, *arguments, **options):
        calls.append(1)
        if len(calls) == 5:
            raise RuntimeError("the card fell out")
        return made(maker, *arguments, **options)

    made = type(swapper._pipeline.make).__call__
    monkeypatch.setattr(type(swapper._pipeline.make), "__call__", broken)
    with pytest.raises(RuntimeError, match="fell out"):
        swapper.swap_video(clips["one"], dev, output=tmp_path / "out.mp4")
    assert files(tmp_path) == []


def test_rejected_output_is_left_out_and_told(swapper, dev, clips, tmp_path, monkeypatch):
    call = OnnxEngine.__call__

    def blank(engine, inputs):
        if engine.model == "mien-256":
            return {"output": inputs["target"] * float("nan")}
        return call(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", blank)
    report = swapper.swap_video(clips["one"], dev, output=tmp_path / "out.mp4")
    assert (report.swapped, report.partial) == (0, True)
    assert {event.reason for event in report.events} == {"rejected"}


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
    assert files(tmp_path) == ["out.ts", "out.ts.xmp"]
    packet = (tmp_path / "out.ts.xmp").read_text()
    assert DIGITAL_SOURCE_TYPE in packet
    assert dev.consent in packet


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
    with pytest.raises(ClipUnwritable, match=r"\.gif"):
        swapper.swap_video(source, dev, output=tmp_path / "out.gif")


def test_better_quality_makes_larger_files(swapper, dev, clips, tmp_path):
    sizes = []
    for quality in (20, 60, 90, 99):
        out = tmp_path / f"{quality}.mp4"
        sizes.append(
            swapper.swap_video(clips["one"], dev, output=out, quality=quality, end=0.2).written.size
        )
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] / 3
    swapper.swap_video(clips["one"], dev, output=tmp_path / "default.mp4", end=0.2)
    size = (tmp_path / "default.mp4").stat().st_size
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


@pytest.mark.parametrize("text", ["1:60", "1:60:00", "-1", "1e3", "", "1:2:3:4", "٣", float("nan")])
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
import test_video, mien
from mien.engines import OnnxEngine
from mien.video import one_heap
assert one_heap()
call = OnnxEngine.__call__
def quick(engine, inputs):
    return test_video.negative(inputs) if engine.model == "mien-256" else call(engine, inputs)
OnnxEngine.__call__ = quick
swapper = mien.Swapper(threads=1)
dev = swapper.identity(sys.argv[1], consent="A generated portrait.")
for _ in range(9):
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
