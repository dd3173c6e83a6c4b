"""Damage: what decodes is delivered, what does not is counted; nothing hangs (T3)."""

import os
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from drawn import number_of, numbered, rewrite, write_clip

from mien.errors import ClipUnreadable, MienError
from mien.media.clip import Clip
from mien.media.clip.damage import Ledger

COUNT = 30


def noisy(number):
    """A numbered frame whose right half is noise, so that there are bytes to lose."""
    frame = numbered(64, 48, number)
    rows = np.frombuffer(frame.planes[0], np.uint8).reshape(48, -1)
    rows[:, 32:64] = np.random.default_rng(number).integers(60, 200, (48, 32))
    return frame


def write(path, **options):
    return write_clip(
        path, frames=COUNT, draw=noisy, options={"crf": "10", "g": "5", "bf": "0"}, **options
    )


def numbers(frames):
    return [number_of(frame.raw) for frame in frames]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts", ".avi"])
def test_a_file_cut_at_60_percent(tmp_path, suffix):
    options = {"container_options": {"movflags": "faststart"}} if suffix == ".mp4" else {}
    path = write(tmp_path / f"a{suffix}", **options)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    clip = Clip(path)
    frames = list(clip.frames())
    found = numbers(frames)
    # the last one may be half there, and then shows what the one before did
    assert found[:-1] == list(range(len(found) - 1))
    assert found[-1] == len(found) - 1 or frames[-1].damaged or suffix == ".ts"
    assert 10 < len(found) < 25
    assert suffix == ".ts" or clip.lost
    if suffix in (".mp4", ".mkv"):  # the others do not say how long they are to be
        (lost,) = [lost for lost in clip.lost if lost.kind == "cut"]
        assert lost.start >= Fraction(len(found) - 2, 24)
        if suffix == ".mp4":
            assert len(found) + sum(lost.frames or 0 for lost in clip.lost) >= COUNT
    _, written = rewrite(path, suffix=".mkv")
    assert written.frames == len(found)


def test_an_mp4_cut_before_its_index_is_refused(tmp_path):
    path = write(tmp_path / "a.mp4")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    with pytest.raises(ClipUnreadable, match="cut short before its index"):
        Clip(path)


@pytest.mark.parametrize("place", [0.3, 0.5, 0.7])
def test_a_block_of_zeros_in_matroska(tmp_path, place):
    path = write(tmp_path / "a.mkv")
    data = bytearray(path.read_bytes())
    start = int(len(data) * place)
    data[start : start + 6000] = bytes(6000)
    path.write_bytes(data)
    clip = Clip(path)
    times = [frame.time for frame in clip.frames()]
    assert times == sorted(times)
    assert len(times) >= 8
    assert clip.lost
    assert all(str(lost) for lost in clip.lost)
    missing = COUNT - len(times)
    assert missing <= 2 or any(lost.kind in ("gap", "cut", "missing") for lost in clip.lost)


def test_zeros_within_one_packet_are_told(tmp_path):
    path = write(tmp_path / "a.mp4")
    data = bytearray(path.read_bytes())
    start = data.index(b"mdat") + (len(data) // 2)
    data[start : start + 200] = bytes(200)
    path.write_bytes(data)
    clip = Clip(path)
    frames = list(clip.frames())
    assert any(lost.kind in ("damaged", "missing") and lost.frames == 1 for lost in clip.lost)
    assert len(frames) + sum(lost.kind == "missing" for lost in clip.lost) == COUNT
    damaged = [frame for frame in frames if frame.damaged]
    assert len(damaged) == sum(lost.kind == "damaged" for lost in clip.lost)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
def test_random_damage_never_ends_in_anything_but_frames_or_an_error_of_miens(
    tmp_path, seed, suffix
):
    path = write(tmp_path / f"a{suffix}", sounds=[("aac", 1, "eng")])
    random = np.random.default_rng(seed)
    data = bytearray(path.read_bytes())
    for _ in range(12):
        place = int(random.integers(0, len(data)))
        size = int(random.integers(1, 400))
        data[place : place + size] = random.bytes(size)[: len(data) - place]
    path.write_bytes(data)
    try:
        output, written = rewrite(path, suffix=".mkv")
    except MienError:
        return
    assert written.frames > 0
    assert output.exists()


@pytest.mark.parametrize("content", [b"", b"not a clip" * 100, os.urandom(5000), b"\0" * 10_000])
def test_files_that_are_no_clips(tmp_path, content):
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    with pytest.raises(ClipUnreadable) as caught:
        Clip(path)
    assert str(path) in str(caught.value)


def test_names_of_nothing(tmp_path):
    with pytest.raises(ClipUnreadable, match="There is no file"):
        Clip(tmp_path / "absent.mp4")
    with pytest.raises(ClipUnreadable, match="not a file"):
        Clip(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "#EXTM3U\n#EXTINF:1,\n/etc/hostname\n",
        "ffconcat version 1.0\nfile '/etc/hostname'\n",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n",
    ],
)
def test_lists_that_name_other_files_are_not_followed(tmp_path, text):
    path = tmp_path / "list.mp4"
    path.write_text(text)
    with pytest.raises(ClipUnreadable):
        Clip(path)


def test_sound_alone_is_no_clip(tmp_path):
    import av
    from drawn import _sound

    path = tmp_path / "sound.m4a"
    with av.open(str(path), "w", format="mp4") as output:
        track = _sound(output, "aac", 0.5, "eng")
        output.start_encoding()
        for packet in track:
            output.mux(packet)
    with pytest.raises(ClipUnreadable, match="no pictures"):
        Clip(path)


def test_huge_frames_are_refused_before_they_are_decoded(tmp_path):
    path = write_clip(tmp_path / "a.mp4", size=(320, 240), frames=1)
    with pytest.raises(ClipUnreadable, match="megapixels"):
        Clip(path, max_megapixels=0.05)


CLEAN = [
    (".mp4", "libx264", {"bf": "3", "b-pyramid": "normal", "g": "12"}),
    (".mp4", "libx264", {"x264-params": "open-gop=1:keyint=8:bframes=3"}),
    (".mkv", "libx265", {"bf": "4"}),
    (".webm", "libvpx-vp9", {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "200k"}),
    (".webm", "libvpx", {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "200k"}),
    (".mp4", "libsvtav1", {"preset": "10"}),
    (".ts", "mpeg2video", {"bf": "2", "b": "1M"}),
    (".mpg", "mpeg2video", {"bf": "2", "b": "1M"}),
    (".avi", "mpeg4", {"bf": "2"}),
    (".flv", "flv", {}),
    (".mov", "mjpeg", {"strict": "-1"}),
]


@pytest.mark.parametrize(("suffix", "codec", "options"), CLEAN)
def test_nothing_is_lost_of_whole_files(tmp_path, suffix, codec, options):
    path = write_clip(tmp_path / f"a{suffix}", codec=codec, options=options, frames=40)
    clip = Clip(path)
    assert len(list(clip.frames())) == 40
    assert clip.lost == ()
    for start in (Fraction(1, 2), Fraction(5, 4)):
        begin = clip.info.start + start
        times = [frame.time for frame in clip.frames(start=begin)]
        assert times == [frame.time for frame in clip.frames() if frame.time >= times[0]]
        assert begin - Fraction(1, 1000) <= times[0] < begin + Fraction(1, 20)
        assert clip.lost == ()


def test_fragments(tmp_path):
    path = write(tmp_path / "a.mp4", container_options={"movflags": "frag_keyframe+empty_moov"})
    clip = Clip(path)
    assert numbers(clip.frames()) == list(range(COUNT))
    assert clip.lost == ()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    clip = Clip(path)
    found = numbers(clip.frames())
    assert found == list(range(len(found)))
    assert len(found) >= 10


class FakePacket(SimpleNamespace):
    """A packet as the ledger sees it, somewhere in a Matroska file."""

    def __init__(self, pos, size, time, beside=0):
        super().__init__(
            pos=pos, size=size, pts=time, duration=1, beside=beside, time_base=Fraction(1, 24)
        )
        self.is_discard = self.is_corrupt = False

    def has_sidedata(self, kind):
        return self.beside > 0

    def get_sidedata(self, kind):
        return SimpleNamespace(data_size=self.beside)


@pytest.mark.parametrize(
    ("places", "gaps"),
    [
        ([(0, 9000, 0), (9010, 9000, 0), (18_020, 9000, 0)], 0),
        ([(0, 9000, 0), (0, 9000, 0), (0, 9000, 0), (27_100, 9000, 0)], 0),  # in one block
        ([(0, 1000, 8000), (9020, 1000, 0)], 0),  # with transparency beside it
        ([(0, 1000, 0), (9020, 1000, 0)], 1),
        ([(0, 9000, 0), (0, 9000, 0), (27_100, 9000, 0)], 1),
    ],
)
def test_bytes_that_belong_to_nothing_are_a_gap(places, gaps):
    ledger = Ledger("vp9", holes=True, fields=False)
    for time, (pos, size, beside) in enumerate(places):
        ledger.packet(FakePacket(pos, size, time, beside), pictures=True)
    assert [lost.kind for lost in ledger.losses] == ["gap"] * gaps
