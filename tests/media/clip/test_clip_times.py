"""Every frame at its own time: variable rates, B-frames, negative starts, cuts (T2, T4, T8)."""

from fractions import Fraction

import av
import numpy as np
import pytest
from drawn import number_of, numbered, read_back, rewrite, samples, tracks, write_clip

from mien.errors import ClipUnwritable, InvalidOption
from mien.media.clip import Clip, copy_clip

MS = Fraction(1, 1000)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov"])
def test_times_of_a_variable_rate_are_kept_exactly(tmp_path, suffix):
    times = np.cumsum([0] + [33, 50] * 14 + [33]).tolist()
    path = write_clip(tmp_path / f"vfr{suffix}", times=times, unit=MS)
    output, written = rewrite(path)
    (before, old), (after, new) = read_back(path), read_back(output)
    assert len(before) == len(after) == written.frames == 30
    assert old == new == [time * MS for time in times]
    assert tracks(output)[0][5] == tracks(path)[0][5]  # the last frame lasts as long


def test_frames_at_60_a_second_are_not_four_times_as_many(tmp_path):
    times = [number * 1500 for number in range(30)]
    path = write_clip(tmp_path / "fast.mp4", times=times, unit=Fraction(1, 90_000))
    output, _ = rewrite(path)
    assert read_back(output)[1] == [Fraction(number, 60) for number in range(30)]


def test_b_frames_come_in_order_and_the_end_is_not_black(tmp_path):
    """T4: two seconds of pictures in a file of three seconds of sound."""
    path = write_clip(
        tmp_path / "b.mp4",
        times=range(20),
        unit=Fraction(1, 10),
        options={"bf": "3", "b-pyramid": "normal", "crf": "10"},
        draw=lambda number: numbered(64, 48, number),
        sounds=[("aac", 3, "eng")],
    )
    output, written = rewrite(path)
    before, after = read_back(path)[0], read_back(output)[0]
    assert [number_of(frame) for frame in after] == list(range(20))
    assert written.frames == 20
    last = [samples(frames[-1])[0].astype(float) for frames in (before, after)]
    assert 10 * np.log10(255**2 / np.mean((last[0] - last[1]) ** 2)) > 35
    sound = next(track for track in tracks(output) if track[0] == "audio")
    assert abs(sound[5] - 3) < Fraction(1024, 48_000) * 2
    assert Clip(output).info.duration > 2.9


def test_a_start_before_zero_stays_before_zero(tmp_path):
    path = tmp_path / "early.mov"
    write_clip(
        path, times=range(-6, 6), options={"bf": "0"}, container_options={"use_editlist": "0"}
    )
    times = [frame.time for frame in Clip(path).frames()]
    output, _ = rewrite(path)
    assert [frame.time for frame in Clip(output).frames()] == times


def test_a_late_start_stays_late(tmp_path):
    path = write_clip(tmp_path / "late.mkv", times=range(30, 42))
    output, _ = rewrite(path, suffix=".mp4")
    old, new = read_back(path)[1], read_back(output)[1]
    assert max(abs(a - b) for a, b in zip(old, new, strict=True)) < MS
    assert new[0] > 1


def test_leading_edits_hide_what_they_hid(tmp_path):
    path = write_clip(tmp_path / "whole.mp4", draw=lambda n: numbered(64, 48, n), frames=24)
    cut = tmp_path / "cut.mp4"
    copy_clip(cut, Clip(path), start=Fraction(7, 24))  # an edit list: it starts at frame 7
    frames = list(Clip(cut).frames())
    assert [number_of(frame.raw) for frame in frames] == list(range(7, 24))
    assert [frame.time for frame in frames] == [Fraction(n, 24) for n in range(17)]
    assert not Clip(cut).lost


def test_one_frame_is_a_clip(tmp_path):
    path = write_clip(tmp_path / "one.mp4", frames=1)
    output, written = rewrite(path)
    assert written.frames == len(read_back(output)[0]) == 1


@pytest.mark.parametrize(
    ("suffix", "codec", "into"),
    [
        (".mp4", "aac", ".mp4"),
        (".mkv", "libopus", ".mkv"),
        (".mov", "pcm_s16le", ".mov"),
        (".mov", "pcm_s16le", ".webm"),
        (".mp4", "aac", ".mkv"),
        (".mkv", "aac", ".mp4"),
    ],
)
def test_pictures_and_sound_are_cut_at_the_same_instant(tmp_path, suffix, codec, into):
    """T8: a flash and a click every ten frames; frames 7 to 22 are kept, the click is at 10."""

    def flash(number):
        frame = numbered(64, 48, 0)
        samples(frame)[0][:] = 220 if number % 10 == 0 else 30
        return frame

    path = write_clip(
        tmp_path / f"clicks{suffix}", frames=40, draw=flash, sounds=[(codec, 40 / 24, "eng")]
    )
    start, end = Fraction(7, 24), Fraction(23, 24)
    output, written = rewrite(path, start=start, end=end, suffix=into)
    assert written.frames == 16
    frames, times = read_back(output)
    flashes = [t for f, t in zip(frames, times, strict=True) if samples(f)[0].mean() > 120]
    assert times[0] == 0
    assert np.allclose([float(time) for time in flashes], [3 / 24, 13 / 24], atol=1e-3)
    clicks = heard(output)
    assert len(clicks) == 2
    assert max(abs(a - b) for a, b in zip(flashes, clicks, strict=True)) < 1024 / 48_000


def heard(path):
    """Return when clicks begin, in seconds, as a player would play them."""
    with av.open(str(path)) as container:
        parts = []
        for frame in container.decode(audio=0):
            wave = frame.to_ndarray().astype(float)
            if frame.format.name.startswith("s16"):
                wave /= 32768
            if not frame.format.is_planar:
                wave = wave.reshape(-1, 2).T
            parts.append((float(frame.pts * frame.time_base), np.abs(wave[0]), frame.sample_rate))
    loud = [
        start + place / rate for start, wave, rate in parts for place in np.flatnonzero(wave > 0.3)
    ]
    return [time for number, time in enumerate(loud) if not number or time - loud[number - 1] > 0.1]


def test_a_cut_gives_the_frames_between(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=24, draw=lambda n: numbered(64, 48, n))
    clip = Clip(path)
    frames = list(clip.frames(start=Fraction(5, 24), end=Fraction(9, 24)))
    assert [number_of(frame.raw) for frame in frames] == [5, 6, 7, 8]
    assert [frame.number for frame in frames] == [0, 1, 2, 3]
    assert not clip.lost
    with pytest.raises(InvalidOption):
        next(clip.frames(start=Fraction(2), end=Fraction(1)))


def test_a_clock_that_jumps_is_joined(tmp_path):
    """Two broadcasts put together: the second begins a minute earlier by its own clock."""
    whole = b""
    for part, start in enumerate((100, 40)):
        path = write_clip(
            tmp_path / f"part{part}.ts",
            times=range(start * 24, start * 24 + 24),
            draw=lambda number, part=part: numbered(64, 48, number % 12 + part * 12),
            options={"bf": "0"},
        )
        whole += path.read_bytes()
    joined = tmp_path / "joined.ts"
    joined.write_bytes(whole)
    clip = Clip(joined)
    times = [frame.time for frame in clip.frames()]
    assert len(times) == 48
    steps = np.diff([float(time) for time in times])
    assert steps.min() > 0
    assert steps.max() < 0.2
    assert any("jumps" in note for note in clip.notes)


def test_avi_has_one_rate_and_says_so(tmp_path):
    times = np.cumsum([0] + [33, 50, 10] * 6).tolist()
    path = write_clip(tmp_path / "vfr.mkv", times=times, unit=MS, rate=30)
    output, written = rewrite(path, suffix=".avi")
    assert len(read_back(output)[0]) == len(times)
    assert any("avi can tell" in note for note in written.notes)


@pytest.mark.parametrize("sounds", [(), (("aac", 1, "eng"),)])
def test_a_gap_that_avi_cannot_hold_is_said(tmp_path, sounds):
    options = {"codec": "mjpeg", "name": "yuvj420p", "unit": MS, "rate": 25, "sounds": sounds}
    path = write_clip(tmp_path / "gap.mkv", times=[*range(0, 400, 40), 10_000_000], **options)
    for write in (rewrite, copied):
        with pytest.raises(ClipUnwritable, match=r"AVI .* gap of \d{5} seconds .* \.mkv"):
            write(path, suffix=".avi")
    assert [each.name for each in tmp_path.iterdir()] == ["gap.mkv"]


def copied(path, *, suffix):
    return copy_clip(path.with_suffix(suffix), Clip(path))
