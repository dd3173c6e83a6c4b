"""Hardware encoders: the choice, the trial and the way back to software.

No machine that the tests run on has such hardware. What is real in them: the trial's process, the
failures of drivers that are not there, and FFmpeg's own tables of options. A software encoder plays
the hardware where something is to be written.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
from drawn import (
    drawn,
    number_of,
    numbered,
    read_back,
    rewrite,
    samples,
    tracks,
    write_clip,
)
from test_clip_whole import SIZE, TIMES, noisy, resuming, take_up, write_all

from mien.errors import ClipUnwritable, InvalidOption
from mien.media.clip import Clip, ClipSettings, ClipWriter, families, trying
from mien.media.clip.encoding import ENCODERS
from mien.media.clip.families import CARE, FAMILIES, HardEncoder
from mien.media.clip.layout import planar_name

REAL = [hard for family in FAMILIES.values() for hard in family]
SOFT = {encoder.codec: encoder for encoder in reversed(ENCODERS)}
WORDS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow")
NVENC = ClipSettings(encoder="nvenc")


def stand_in(name="libx264", codec="h264", formats=None, **options):
    """Return a software encoder in the clothes of a hardware one."""
    formats = formats or {"yuv420p": "nv12"}
    told = {"bf": "0", "g": "240", "forced-idr": "1"} | options
    return HardEncoder(name, codec, formats, told, ("crf",), (0, 18, 51), "preset", WORDS)


@pytest.fixture
def hardware(monkeypatch):
    """Return what puts encoders in the place of NVIDIA's."""
    trying.forget()

    def put(*encoders):
        monkeypatch.setattr(families, "FAMILIES", {**FAMILIES, "nvenc": encoders or (stand_in(),)})

    yield put
    trying.forget()


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Return what puts another program in the place of the trial."""
    trying.forget()

    def put(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        monkeypatch.setattr(trying, "PROGRAM", path)

    yield put
    trying.forget()


def test_hardware_that_is_not_there_is_told_and_software_encodes(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=4)
    soft, written = rewrite(path)
    assert written.notes == ()
    before = read_back(soft)[0]
    for encoder in ("auto", "nvenc", "videotoolbox"):
        output, written = rewrite(path, settings=ClipSettings(encoder=encoder))
        (note,) = written.notes
        if note.startswith("Pictures are encoded by"):
            pytest.skip("there is hardware here")
        assert note.startswith("No hardware can encode the pictures (")
        assert note.endswith("; libx264 does.")
        if encoder != "auto":
            assert f"({encoder}: " in note
        for a, b in zip(read_back(output)[0], before, strict=True):
            assert np.abs(samples(a)[0].astype(int) - samples(b)[0]).mean() < 0.5
    with pytest.raises(InvalidOption, match="nvenc"):
        ClipSettings(encoder="abacus")


@pytest.mark.parametrize("hard", REAL, ids=lambda hard: hard.name)
def test_every_option_is_in_the_encoder_s_own_table(hard):
    """As are the words, and the ends of the scale of qualities."""
    if not trying.in_build(hard.name):
        pytest.skip("FFmpeg is built without it here")
    context = av.CodecContext.create(hard.name, "w")
    found = context.supported_options
    table = {option.name: option for option in (*found.generic, *found.private)}
    scale = SOFT[hard.codec]
    for quality in (0, int(scale.options["crf"]), scale.worst):
        for deep in (False, True):
            settings = ClipSettings(quality=quality)
            for name, value in hard.told(scale, settings, deep=deep).items():
                option = table[name]
                if value.lstrip("-").isdigit() and not option.choices:
                    assert option.min <= int(value) <= option.max, (name, value)
                elif option.choices:
                    words = {choice.name for choice in option.choices}
                    assert value.lstrip("+") in words | set(map(str, range(8))), (name, value)
    words = {choice.name for choice in table[hard.care].choices}
    assert len(hard.degrees) == 7
    assert set(hard.degrees) <= words
    formats = {each.name for each in av.codec.Codec(hard.name, "w").video_formats}
    assert set(hard.formats.values()) <= formats
    assert all(planar_name(own) == (planar, True) for planar, own in hard.formats.items())


@pytest.mark.parametrize("hard", REAL, ids=lambda hard: hard.name)
def test_quality_and_care_go_one_way(hard):
    soft, best = SOFT[hard.codec], hard.scale[0]
    values = []
    for quality in range(soft.worst + 1):
        told = hard.told(soft, ClipSettings(quality=quality), deep=False)
        values.append({int(told[name]) // hard.unit for name in hard.quality})
    assert all(len(each) == 1 for each in values)
    values = [each.pop() for each in values]
    assert (values[0], values[-1]) == (best, hard.scale[2])
    assert values == sorted(values, reverse=hard.scale[2] < best)
    usual = hard.told(soft, ClipSettings(), deep=False)
    assert int(usual[hard.quality[0]]) // hard.unit == values[int(soft.options["crf"])]
    places = [CARE[preset] for preset in soft.presets]
    assert places == sorted(places, reverse=soft.codec == "av1")
    assert {places[0], places[-1]} == {0, 6}
    medium = hard.told(soft, ClipSettings(preset=soft.presets[len(places) // 2]), deep=False)
    assert medium[hard.care] == usual[hard.care]


@pytest.mark.parametrize(
    "clip",
    [
        {},
        {"times": TIMES, "unit": Fraction(1, 1000)},
        {"times": [n * 1001 for n in range(20)], "unit": Fraction(1, 120_000)},
        {"options": {"bf": "3"}, "draw": lambda n: numbered(64, 48, n)},
        {"size": (64, 46), "sample_aspect_ratio": Fraction(4, 3)},
        {"color_range": 2, "color_primaries": 9, "color_trc": 14, "colorspace": 9},
        {"options": {"chroma_sample_location": "topleft"}},
        {"options": {"chroma_sample_location": "center"}},
    ],
    ids=["plain", "vfr", "fine", "b-frames", "aspect", "colours", "topleft", "center"],
)
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
def test_what_hardware_writes_is_as_exact_as_what_software_writes(tmp_path, hardware, clip, suffix):
    hardware()
    path = write_clip(tmp_path / f"a{suffix}", sounds=[("aac", 1, "eng")], **clip)
    soft, expected = rewrite(path)
    soft = soft.rename(tmp_path / f"soft{suffix}")
    output, written = rewrite(path, settings=NVENC)
    assert written.notes == (*expected.notes, "Pictures are encoded by libx264.")
    assert (written.frames, written.duration) == (expected.frames, expected.duration)
    (frames, times), (others, before) = read_back(output), read_back(soft)
    assert times == before
    # FFmpeg reckons the length of a transport stream from its last packet, a B-frame or not
    count = 5 if suffix == ".ts" else None
    assert [track[:count] for track in tracks(output)] == [track[:count] for track in tracks(soft)]
    for a, b in zip(frames, others, strict=True):
        for name in ("color_range", "color_primaries", "color_trc", "colorspace", "width"):
            assert getattr(a, name) == getattr(b, name)
        assert np.abs(samples(a)[0].astype(int) - samples(b)[0]).mean() < 2
    assert Clip(output).look.aspect == Clip(soft).look.aspect
    assert Clip(output).look.siting == Clip(soft).look.siting
    if "draw" in clip:
        assert [number_of(frame) for frame in frames] == list(range(12))


def test_ten_bits_reach_the_encoder(tmp_path, hardware):
    formats = {"yuv420p10le": "yuv420p10le"}
    hardware(stand_in("libx265", "hevc", formats, **{"x265-params": "log-level=none"}))
    path = write_clip(tmp_path / "a.mkv", codec="libx265", name="yuv420p10le")
    output, written = rewrite(path, settings=NVENC)
    assert written.notes == ("Pictures are encoded by libx265.",)
    assert Clip(output).info.pixel_format == "yuv420p10le"


@pytest.mark.parametrize("name", ["yuv420p", "yuv420p10le"])
def test_av1_goes_the_same_way(tmp_path, hardware, name):
    formats = {"yuv420p": "yuv420p", "yuv420p10le": "yuv420p10le"}
    encoder = stand_in("libsvtav1", "av1", formats, **{"svtav1-params": "pred-struct=1"})
    hardware(replace(encoder, degrees=("11",) * 7))
    path = write_clip(tmp_path / "a.mp4", codec="libsvtav1", name=name, options={"preset": "11"})
    output, written = rewrite(path, settings=NVENC)
    assert written.notes == ("Pictures are encoded by libsvtav1.",)
    assert Clip(output).info.pixel_format == name
    assert read_back(output)[1] == read_back(path)[1]


@pytest.mark.parametrize(
    ("planar", "own", "colour_range"), [("yuv420p", "nv12", 2), ("yuv420p10le", "p010le", 1)]
)
def test_the_order_of_samples_changes_none(planar, own, colour_range):
    frame = drawn(66, 50, planar)
    frame.color_range = colour_range
    back = frame.reformat(format=own, threads=1).reformat(format=planar, threads=1)
    assert all(np.array_equal(a, b) for a, b in zip(samples(frame), samples(back), strict=True))


HDR = {"color_primaries": 9, "color_trc": 16, "colorspace": 9}
LIGHT = {"x265-params": "log-level=none:max-cll=1000,400"}


@pytest.mark.parametrize(
    ("clip", "settings", "why", "soft"),
    [
        ({"name": "yuv422p"}, {}, "does not take yuv422p", "libx264"),
        ({"name": "yuv444p"}, {}, "does not take yuv444p", "libx264"),
        ({"name": "yuv420p10le"}, {}, "does not take yuv420p10le", "libx264"),
        ({"codec": "libx264rgb", "name": "rgb24"}, {}, "does not take bgr0", "libx264rgb"),
        ({"codec": "ffv1"}, {"codec": "h264"}, "none is without loss", "libx264"),
        ({"codec": "libvpx-vp9"}, {}, "does not make vp9", "libvpx-vp9"),
        (
            {"codec": "libx265", "name": "yuv420p10le", "options": LIGHT, **HDR},
            {},
            "HDR metadata",
            "libx265",
        ),
        ({"codec": "ffv1", "size": (65, 47)}, {"codec": "av1", "quality": 30}, "even", "libsvtav1"),
    ],
    ids=["422", "444", "10", "rgb", "lossless", "vp9", "hdr", "odd"],
)
def test_what_hardware_cannot_keep_software_does(tmp_path, hardware, clip, settings, why, soft):
    hardware(stand_in(), stand_in("libsvtav1", "av1", {"yuv420p": "yuv420p"}))
    path = write_clip(tmp_path / "a.mkv", frames=3, **clip)
    _, written = rewrite(path, settings=ClipSettings(encoder="nvenc", **settings))
    assert written.notes[-1].endswith(f"; {soft} does.") or why in written.notes[0]
    assert any(why in note and f"; {soft} does." in note for note in written.notes), written.notes


def test_odd_sizes_are_padded_as_by_software(tmp_path, hardware):
    hardware()
    path = write_clip(tmp_path / "a.mkv", frames=3, codec="mpeg4", size=(65, 47))
    _, written = rewrite(path, settings=ClipSettings(encoder="nvenc"))
    assert any("padded to 66x48" in note for note in written.notes)
    assert "Pictures are encoded by libx264." in written.notes
    _, written = rewrite(path, settings=ClipSettings(encoder="nvenc", odd="444"))
    assert any("does not take yuv444p" in note for note in written.notes)
    assert any("written as 4:4:4" in note for note in written.notes)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"bf": "2"}, "frames do not come out as they went in"),
        ({"preset": "abacus", "tune": "abacus"}, "abacus|Invalid"),
        ({"crop-left": "0", "x264-params": "colorprim=bt470bg"}, "does not say the colours"),
        ({"x264-params": "fullrange=on"}, "the range"),
        ({"x264-params": "sar=2/1"}, "the shape"),
        ({"x264-params": "chromaloc=2"}, "where chroma samples lie"),
    ],
)
def test_a_trial_sees_what_is_wrong(tmp_path, hardware, wrong, why):
    hardware(stand_in(**wrong))
    path = write_clip(tmp_path / "a.mp4", frames=3)
    (note,) = rewrite(path, settings=NVENC)[1].notes
    assert note.startswith("No hardware"), note
    assert any(part in note for part in why.split("|")), note


def test_a_trial_sees_pictures_that_come_out_as_others(tmp_path, hardware):
    hardware(stand_in("mjpeg", "h264", {"yuv420p": "yuvj420p"}))
    path = write_clip(tmp_path / "a.mp4", frames=3)
    (note,) = rewrite(path, settings=NVENC)[1].notes
    assert note.startswith("No hardware can encode the pictures (nvenc: ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "import os, time\nopen('PID', 'w').write(str(os.getpid()))\ntime.sleep(60)",
            "no answer within 1 s",
        ),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGABRT)", "ended with -"),
        ("print('a driver says hello')", "came to nothing"),
        ("import sys\nsys.exit(7)", "ended with 7"),
    ],
    ids=["hangs", "crashes", "chatters", "exits"],
)
def test_a_driver_that_hangs_or_crashes_harms_nothing(tmp_path, hardware, program, text, why):
    hardware()
    told = tmp_path / "pid"
    program(text.replace("PID", str(told)))
    path = write_clip(tmp_path / "a.mp4", frames=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trying, "PATIENCE", 1.0)
        (note,) = rewrite(path, settings=NVENC)[1].notes
    assert why in note
    assert note.endswith("; libx264 does.")
    if told.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(told.read_text()), 0)


def test_without_a_python_to_run_software_encodes(tmp_path, hardware, monkeypatch):
    hardware()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    path = write_clip(tmp_path / "a.mp4", frames=3)
    (note,) = rewrite(path, settings=NVENC)[1].notes
    assert "cannot be tried" in note


def test_it_is_tried_once_and_before_anything_is_decoded(tmp_path, hardware, program):
    hardware()
    program(f"open({str(tmp_path / 'tries')!r}, 'a').write('x')\nprint('\"no\"')")
    clip = Clip(write_clip(tmp_path / "a.mp4", frames=3))
    writer = ClipWriter(tmp_path / "b.mp4", clip, settings=replace(NVENC, quality=30))
    assert (tmp_path / "tries").read_text() == "x"
    write_all(writer, clip.frames())
    assert (tmp_path / "tries").read_text() == "x"
    assert "(nvenc: no)" in writer.result.notes[0]


def test_auto_takes_the_first_family_that_works(tmp_path, hardware, monkeypatch):
    hardware()
    monkeypatch.setattr(families, "ORDER", ("videotoolbox", "qsv", "nvenc", "amf"))
    monkeypatch.setattr(families, "FAMILIES", {
        "videotoolbox": (replace(stand_in(), name="h264_nothing"),),
        "qsv": (stand_in(bf="2"),),
        "nvenc": (stand_in(),),
        "amf": (stand_in("libx264rgb", formats={"yuv420p": "bgr0"}),),
    })  # fmt: skip
    path = write_clip(tmp_path / "a.mp4", frames=3)
    (note,) = rewrite(path, settings=ClipSettings(encoder="auto"))[1].notes
    assert note == "Pictures are encoded by libx264."
    (note,) = rewrite(path, settings=ClipSettings(encoder="qsv"))[1].notes
    assert note.startswith("No hardware can encode the pictures (qsv: frames do not come out")
    (note,) = rewrite(path, settings=ClipSettings(encoder="videotoolbox"))[1].notes
    assert "(videotoolbox: not in this build)" in note


@pytest.fixture
def short_segments(monkeypatch):
    for module in ("run", "writer"):
        monkeypatch.setattr(f"mien.media.clip.{module}.SEGMENT", 8)


@pytest.mark.parametrize("suffix", [".mp4", ".ts"])
def test_pieces_go_together_at_the_same_places(tmp_path, hardware, short_segments, suffix):
    hardware(stand_in("libx265", "hevc", {"yuv420p": "yuv420p"}, **{"x265-params": "log-level=0"}))
    path = write_clip(
        tmp_path / f"a{suffix}", times=TIMES, unit=Fraction(1, 1000), draw=noisy, size=SIZE
    )
    clip, settings = Clip(path), replace(NVENC, codec="hevc")
    whole, again, work = tmp_path / f"whole{suffix}", tmp_path / f"again{suffix}", tmp_path / "w"
    write_all(ClipWriter(whole, clip, settings=settings), clip.frames())
    for stop in (11, 15):
        with pytest.raises(KeyboardInterrupt):
            take_up(resuming(again, clip, settings, work), stop=stop)
    writer = resuming(again, clip, settings, work)
    assert take_up(writer) == 8
    assert again.read_bytes() == whole.read_bytes()
    assert read_back(again)[1] == read_back(path)[1]
    with av.open(str(again)) as file:
        keys = [packet.is_keyframe for packet in file.demux(video=0) if packet.size]
    assert [n for n, key in enumerate(keys) if key] == list(range(0, len(TIMES), 8))


def test_pieces_of_another_encoder_are_made_again(tmp_path, hardware, short_segments):
    hardware()
    clip = Clip(write_clip(tmp_path / "a.mp4", frames=20, draw=noisy, size=SIZE))
    work, output = tmp_path / "w", tmp_path / "o.mp4"

    def begun(encoder):
        with pytest.raises(KeyboardInterrupt):
            take_up(resuming(output, clip, NVENC, work), stop=11)
        manifest = json.loads((work / "manifest.json").read_text())
        assert manifest["recipe"]["encoders"] == [encoder]
        assert len(manifest["segments"]) == 1
        return (work / "segment-000000").read_bytes()

    piece = begun(["nvenc", "libx264"])
    hardware(replace(stand_in(), codec="vp9"))  # what was there yesterday is not today
    assert begun(["", "libx264"]) != piece
    writer = resuming(output, clip, NVENC, work)
    assert take_up(writer) == 8
    assert "libx264 does" in writer.result.notes[0]
    with av.open(str(output)) as file:
        assert file.streams.video[0].codec_context.has_b_frames  # as software makes them


class Lost:
    """An encoder whose device goes away at a frame, or that swallows one."""

    def __init__(self, context, at, error):
        self._context, self._at, self._error, self._count = context, at, error, 0

    def __getattr__(self, name):
        return getattr(self._context, name)

    def encode(self, frame):
        self._count += 1
        if self._count == self._at:
            if self._error is None:
                return []
            raise self._error
        return self._context.encode(frame)


@pytest.mark.parametrize("error", [av.error.ExternalError(542398533, "gone"), None])
def test_a_device_that_is_lost_ends_in_words_and_pieces_stay(
    tmp_path, hardware, short_segments, monkeypatch, error
):
    hardware()
    clip = Clip(write_clip(tmp_path / "a.mp4", frames=20, draw=noisy, size=SIZE))
    work, output = tmp_path / "w", tmp_path / "o.mp4"
    from mien.media.clip import run

    made = []

    def next_context(self, plain=run.Run._next_context):
        made.append(self)
        context = plain(self)
        return Lost(context, 3, error) if len(made) == 2 else context

    with monkeypatch.context() as patch:
        patch.setattr(run.Run, "_next_context", next_context)
        with pytest.raises(ClipUnwritable, match=r"--encoder none.* pieces are kept") as failure:
            take_up(resuming(output, clip, NVENC, work))
    assert "libx264 failed after 1" in str(failure.value)
    assert not output.exists()
    writer = resuming(output, clip, NVENC, work)
    assert take_up(writer) == 8
    assert len(read_back(output)[0]) == 20
    assert not work.exists()
