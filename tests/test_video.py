"""Clips from file to file: what is swapped, what stays, and how it may end."""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
from fractions import Fraction

import numpy as np
import pytest
import torch
from conftest import CONSENT
from filmed import along, content, files, film, head, metadata, packets, planes, times_of
from PIL import Image

from mien import ClipSettings, Policy
from mien.engines import OnnxEngine
from mien.errors import ClipUnreadable, ClipUnwritable, DiskFull, InvalidOption
from mien.evaluate.moving import Place
from mien.media.clip import Clip, ClipWriter, StoredFrame, copy_clip
from mien.media.clip.run import Run
from mien.safety import statement, xmp_packet
from mien.video.preview import Preview

EXACT = ClipSettings(codec="ffv1")


pytestmark = pytest.mark.usefixtures("painted")


# What is swapped, and what stays


def test_where_a_gpu_has_no_memory_for_frames_the_cpu_works_on_them(
    swapper, dev, clips, tmp_path, no_watermark, monkeypatch, caplog
):
    swapper.swap_video(clips["exact"], dev, output=tmp_path / "cpu.mkv")
    asked, picture = [], StoredFrame.picture

    def full(stored, *device):
        asked.extend(device)
        if device:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return picture(stored)

    monkeypatch.setattr(StoredFrame, "picture", full)
    monkeypatch.setattr("mien.video.engine.home_of", lambda engines: torch.device("cuda", 0))
    swapper.swap_video(clips["exact"], dev, output=tmp_path / "gpu.mkv")
    assert asked == [torch.device("cuda", 0)]
    assert "worked on by the CPU" in caplog.text
    assert content(tmp_path / "gpu.mkv") == content(tmp_path / "cpu.mkv")


def test_a_face_is_swapped_and_all_other_samples_are_those_of_the_input(
    swapper, dev, clips, tmp_path, no_watermark
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


def test_a_comparison_has_both_and_is_like_the_output_in_all_else(
    swapper, dev, clips, tmp_path, no_watermark
):
    out, both = tmp_path / "out.mkv", tmp_path / "both.mkv"
    swapper.swap_video(clips["one"], dev, output=out, compare=both, settings=EXACT)
    source, swapped = planes(clips["one"]), planes(out)
    assert len(source) == len(swapped) == len(planes(both))
    for before, after, joined in zip(source, swapped, planes(both), strict=True):
        for one, other, plane in zip(before, after, joined, strict=True):
            height, step = one.shape[0], 240 // one.shape[0]
            assert plane.shape == (2 * height + 4 // step, one.shape[1])
            assert np.array_equal(plane[:height], one)
            assert np.array_equal(plane[-height:], other)
            assert bool((plane[height:-height] == 128).all())
    assert times_of(both) == times_of(out)
    assert packets(both, "audio") == packets(out, "audio") != []
    assert metadata(both)["comment"] == metadata(out)["comment"]
    assert "consent" in metadata(both)["comment"]


def test_nothing_is_compared_if_nobody_was_found(swapper, dev, clips, tmp_path):
    for resume in (False, True):
        report = swapper.swap_video(
            clips["nobody"], dev, output=tmp_path / "out.mp4", compare=tmp_path / "both.mp4",
            resume=resume, quality=50,
        )  # fmt: skip
        assert report.untouched
        assert files(tmp_path) == ["out.mp4"]


def test_a_comparison_goes_where_its_output_goes(swapper, dev, clips, tmp_path, monkeypatch):
    (tmp_path / "both.ts.xmp").write_bytes(b"not ours")
    with pytest.raises(ClipUnwritable, match="not from mien"):
        swapper.swap_video(
            clips["one"], dev, output=tmp_path / "out.mkv", compare=tmp_path / "both.ts"
        )
    assert files(tmp_path) == ["both.ts.xmp"]
    (tmp_path / "both.ts.xmp").unlink()
    swapper.swap_video(clips["one"], dev, output=tmp_path / "out.mkv", compare=tmp_path / "both.ts")
    assert files(tmp_path) == [
        *("both.ts", "both.ts.c2pa", "both.ts.xmp", "out.mkv", "out.mkv.c2pa")
    ]


@pytest.mark.parametrize("fails", ["out.mkv", "p.png"])
@pytest.mark.parametrize("resume", [False, True])
def test_a_comparison_does_not_appear_without_its_output(
    swapper, dev, clips, tmp_path, monkeypatch, fails, resume
):
    for name in ("out.mkv", "both.ts", "both.ts.xmp"):
        (tmp_path / name).write_bytes(b"urn:mien:consent:, what was there")
    (finish, save), full = (Run.finish, Preview.save), OSError(errno.ENOSPC, "No space left")

    def finish_or_fail(run):
        if run._order.path.name == fails:
            raise full
        finish(run)

    def save_or_fail(preview, path, *marks):
        if path.name == fails:
            raise full
        save(preview, path, *marks)

    monkeypatch.setattr(Run, "finish", finish_or_fail)
    monkeypatch.setattr(Preview, "save", save_or_fail)
    with pytest.raises((DiskFull, OSError)):
        swapper.swap_video(
            clips["one"], dev, output=tmp_path / "out.mkv", compare=tmp_path / "both.ts",
            preview=tmp_path / "p.png", settings=ClipSettings(codec="h264"), resume=resume,
        )  # fmt: skip
    work = [".both.ts.mien-resume", ".out.mkv.mien-resume"] if resume else []
    assert files(tmp_path) == [*work, "both.ts", "both.ts.xmp", "out.mkv"]
    for name in ("out.mkv", "both.ts", "both.ts.xmp"):
        assert (tmp_path / name).read_bytes().endswith(b"what was there")


@pytest.mark.parametrize("name", ["in.mp4", "out.mp4", "p.png"])
def test_a_comparison_is_a_file_of_its_own(swapper, dev, clips, tmp_path, name):
    source = shutil.copy(clips["one"], tmp_path / "in.mp4")
    with pytest.raises(InvalidOption, match=r"^compare=.*a file other than the"):
        swapper.swap_video(
            source, dev, output=tmp_path / "out.mp4", preview=tmp_path / "p.png",
            compare=tmp_path / name,
        )  # fmt: skip
    assert files(tmp_path) == ["in.mp4"]


def test_frames_without_a_face_are_as_they_were(swapper, dev, clips, tmp_path, no_watermark):
    report = swapper.swap_video(clips["late"], dev, output=tmp_path / "out.mkv")
    before, after = planes(clips["late"]), planes(tmp_path / "out.mkv")
    same = [
        all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        for one, other in zip(before, after, strict=True)
    ]
    assert all(same[:8])
    # a face that fades lies behind what is there now: where it is gone nothing is changed
    assert 8 <= same.count(False) <= report.swapped
    assert 8 <= report.swapped <= 16


def test_times_and_sound_are_kept(swapper, dev, portraits, tmp_path):
    times = [0, 1, 2, 4, 7, 8, 12, 13]
    source = film(tmp_path / "v.mp4", [head(portraits, "ben", along(150, 120, 0))], times=times)
    swapper.swap_video(source, dev, output=tmp_path / "out.mp4")
    assert times_of(tmp_path / "out.mp4") == times_of(source)
    assert packets(tmp_path / "out.mp4", "audio") == packets(source, "audio") != []


@pytest.mark.parametrize("action", ["hold", "fade"])
def test_one_thread_is_as_four(swapper, dev, clips, tmp_path, action, one_watermark):
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
    assert content(tmp_path / "1.mkv") == content(tmp_path / "4.mkv")
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
    assert not {"comment", "aigc"} & set(metadata(tmp_path / "out.mp4"))  # none is synthetic
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


@pytest.mark.parametrize("resume", [False, True])
def test_what_is_encoded_for_nobody_has_no_mark(swapper, dev, clips, tmp_path, resume):
    (tmp_path / "out.mkv").write_bytes(b"what was there")
    report = swapper.swap_video(
        clips["nobody"], dev, output=tmp_path / "out.mkv", settings=EXACT, resume=resume
    )
    assert (report.copied, report.frames, report.written.frames) == (False, 12, 12)
    assert not {"comment", "aigc"} & set(metadata(tmp_path / "out.mkv"))
    for before, after in zip(planes(clips["nobody"]), planes(tmp_path / "out.mkv"), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert times_of(tmp_path / "out.mkv") == times_of(clips["nobody"])
    assert files(tmp_path) == ["out.mkv"]


def test_encoding_a_second_time_is_told_too(swapper, dev, clips, tmp_path):
    states = []
    swapper.swap_video(
        *(clips["nobody"], dev),
        output=tmp_path / "out.mkv",
        settings=EXACT,
        progress=states.append,
    )
    assert [(state.frames, state.again) for state in states] == [
        (number, again) for again in (False, True) for number in range(1, 13)
    ]
    assert states[12].share < 0.1 < 0.9 < states[-1].share
    assert set(states[-1].shares) == {"decode", "find", "make", "encode"}
    assert states[-1].shares["encode"] > 0
    assert str(states[-1]).startswith("again, ")
    assert not str(states[0]).startswith("again, ")


@pytest.mark.parametrize("number", [3, 15])
def test_an_interrupt_of_either_run_leaves_nothing(swapper, dev, clips, tmp_path, number):
    states = []

    def progress(state):
        states.append(state)
        if len(states) == number:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swapper.swap_video(
            *(clips["nobody"], dev),
            output=tmp_path / "out.mkv",
            settings=EXACT,
            progress=progress,
        )
    assert files(tmp_path) == []


def test_nor_has_a_stream_a_mark_beside_it(swapper, dev, clips, tmp_path):
    swapper.swap_video(clips["one"], dev, output=tmp_path / "out.ts", end=0.2)
    hevc = ClipSettings(codec="hevc")
    swapper.swap_video(clips["nobody"], dev, output=tmp_path / "out.ts", settings=hevc)
    assert files(tmp_path) == ["out.ts"]


@pytest.mark.parametrize("codec", [None, "hevc"])
def test_a_mark_goes_along_into_a_stream(swapper, dev, clips, tmp_path, codec):
    said = statement(consents=("c-1", "c-2"), model="mien-256", version="0.1")
    tags = {"comment": f"A trip.\n{said}"}
    copy_clip(tmp_path / "in.mp4", Clip(clips["nobody"]), settings=ClipSettings(tags=tags))
    report = swapper.swap_video(
        tmp_path / "in.mp4", dev, output=tmp_path / "out.ts", settings=ClipSettings(codec=codec)
    )
    assert report.copied == (codec is None)
    packet = xmp_packet(consents=("c-1", "c-2"), model="mien-256", version="0.1")
    beside = (tmp_path / "out.ts.xmp").read_bytes()
    number = rb"[0-9a-f]{32}"  # which is new each time
    assert re.sub(number, b"", beside) == re.sub(number, b"", packet)
    swapper.swap_video(tmp_path / "out.ts", dev, output=tmp_path / "again.m2ts")
    assert (tmp_path / "again.m2ts.xmp").read_bytes() == beside
    swapper.swap_video(tmp_path / "again.m2ts", dev, output=tmp_path / "back.mkv")
    assert metadata(tmp_path / "back.mkv")["comment"] == said
    assert re.findall(number, metadata(tmp_path / "back.mkv")["aigc"].encode()) == [
        re.search(number, beside)[0]
    ]


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
def test_resumed_is_as_uninterrupted(
    swapper, dev, portraits, pieces, tmp_path, action, one_watermark
):
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
    assert content(tmp_path / "out.mkv") == content(tmp_path / "whole.mkv")
    for name in ("stretches", "tracks", "events", "frames", "swapped"):
        assert getattr(report, name) == getattr(whole, name), name
    assert files(tmp_path) == [
        *("in.mp4", "out.mkv", "out.mkv.c2pa", "whole.mkv", "whole.mkv.c2pa")
    ]


def test_a_resumed_comparison_and_preview_show_the_whole_clip(
    swapper, dev, portraits, pieces, tmp_path, one_watermark
):
    source = film(tmp_path / "in.mp4", [head(portraits, "ben", along(120, 120, 40))], frames=30)

    def swap(folder, **options):
        (tmp_path / folder).mkdir(exist_ok=True)
        return swapper.swap_video(
            source, dev, output=tmp_path / folder / "out.mkv", settings=EXACT, threads=1,
            compare=tmp_path / folder / "both.mkv", preview=tmp_path / folder / "p.png", **options
        )  # fmt: skip

    swap("whole")
    with pytest.raises(KeyboardInterrupt):
        swap("parts", resume=True, progress=stop_after(27))
    # the two may have come differently far
    assert files(tmp_path / "parts") == [".both.mkv.mien-resume", ".out.mkv.mien-resume"]
    (tmp_path / "parts" / ".both.mkv.mien-resume" / "segment-000001").unlink()
    assert swap("parts", resume=True).kept >= 16
    names = ["both.mkv", "both.mkv.c2pa", "out.mkv", "out.mkv.c2pa", "p.png"]
    assert files(tmp_path / "parts") == files(tmp_path / "whole") == names
    for name in ("both.mkv", "out.mkv"):
        parts, whole = (tmp_path / folder / name for folder in ("parts", "whole"))
        assert content(parts) == content(whole), name
    with (  # no two manifests are alike
        Image.open(tmp_path / "parts" / "p.png") as parts,
        Image.open(tmp_path / "whole" / "p.png") as whole,
    ):
        assert parts.tobytes() == whole.tobytes()


def test_a_comparison_whose_frames_are_all_kept_is_whole(
    swapper, dev, portraits, pieces, tmp_path, monkeypatch, no_watermark
):
    source = film(tmp_path / "in.mp4", [head(portraits, "ben", along(120, 120, 40))], frames=16)
    finish, calls = ClipWriter._finish, []

    def interrupted(writer):
        calls.append(writer.path.name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return finish(writer)

    def swap():
        return swapper.swap_video(
            source, dev, output=tmp_path / "out.mkv", compare=tmp_path / "both.mkv",
            settings=EXACT, resume=True,
        )  # fmt: skip

    monkeypatch.setattr(ClipWriter, "_finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        swap()
    assert calls == ["both.mkv"]
    assert swap().kept == 16
    before, after = planes(source), planes(tmp_path / "out.mkv")
    for one, other, joined in zip(before, after, planes(tmp_path / "both.mkv"), strict=True):
        assert np.array_equal(joined[0][:240], one[0])
        assert np.array_equal(joined[0][-240:], other[0])
        assert joined[0].shape == (484, 320)


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
    whole = clips["long"].read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) // 3])
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
