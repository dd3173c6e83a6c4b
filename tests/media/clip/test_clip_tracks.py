"""All other tracks: kept, rewritten, or reported (T7); metadata, chapters, attachments."""

from fractions import Fraction

import av
import numpy as np
import pytest
from drawn import drawn, read_back, rewrite, tracks, write_clip

from mien.media.clip import Clip, ClipSettings, copy_clip, why_not_copied
from mien.media.clip.subtitles import rewritten

LINES = [(0.1, 0.4, "Guten Tag"), (0.6, 0.9, "<i>Ça va ?</i>")]
CHAPTERS = [(0, 0.5, "One"), (0.5, 1, "Two")]


def test_two_sounds_subtitles_chapters_and_fonts_are_kept_in_matroska(tmp_path):
    path = write_clip(
        tmp_path / "full.mkv",
        frames=24,
        sounds=[("aac", 1, "eng"), ("libopus", 1, "fra")],
        texts=[("subrip", LINES, "deu")],
        chapters=CHAPTERS,
        metadata={"title": "A clip", "comment": "Ünïcode"},
        attachments=[("font.ttf", "font/ttf", b"not really a font")],
    )
    output, written = rewrite(path)
    before, after = tracks(path), tracks(output)
    assert [track[:4] for track in before] == [track[:4] for track in after]
    for old, new in zip(before[1:], after[1:], strict=True):
        assert old[4:] == new[4:]
    assert {report.fate for report in written.tracks} == {"copied"}
    assert len(written.tracks) == 4
    info = Clip(output).info
    assert info.metadata["title"] == "A clip"
    assert info.metadata["COMMENT"] == "Ünïcode"  # as Matroska writes it
    assert [(c.start, c.end, c.metadata["title"]) for c in info.chapters] == CHAPTERS
    with av.open(str(output)) as container:
        (attachment,) = container.streams.attachments
        assert attachment.data == b"not really a font"
    assert packets(path, "audio") == packets(output, "audio")


def packets(path, kind):
    """Return the bytes of all packets of a kind of track."""
    with av.open(str(path)) as container:
        chosen = [stream for stream in container.streams if stream.type == kind]
        return [bytes(packet) for packet in container.demux(chosen) if packet.size]


@pytest.mark.parametrize("suffix", [".mp4", ".mov"])
def test_sound_in_mp4_is_the_same_bytes_at_the_same_time(tmp_path, suffix):
    path = write_clip(tmp_path / f"a{suffix}", frames=24, sounds=[("aac", 1.4, "eng")])
    output, written = rewrite(path)
    assert packets(path, "audio") == packets(output, "audio")
    assert [track[4:] for track in tracks(path)][1] == [track[4:] for track in tracks(output)][1]
    assert written.tracks[0].fate == "copied"


def test_what_another_container_cannot_hold_is_rewritten_and_said(tmp_path):
    path = write_clip(
        tmp_path / "full.mkv",
        frames=24,
        sounds=[("libopus", 1, "eng"), ("pcm_s16le", 1, "fra")],
        texts=[("subrip", LINES, "deu"), ("ass", LINES, "fra")],
        attachments=[("font.ttf", "font/ttf", b"not really a font")],
    )
    output, written = rewrite(path, suffix=".mp4")
    fates = [(report.kind, report.fate, report.into) for report in written.tracks]
    assert fates == [
        ("audio", "copied", ""),
        ("audio", "encoded", "alac"),
        ("subtitle", "rewritten", "mov_text"),
        ("subtitle", "rewritten", "mov_text"),
        ("attachment", "dropped", ""),
    ]
    kinds = [(kind, codec, language) for kind, codec, language, *_ in tracks(output)]
    assert kinds[1:] == [
        ("audio", "opus", "eng"),
        ("audio", "alac", "fra"),
        ("subtitle", "mov_text", "deu"),
        ("subtitle", "mov_text", "fra"),
    ]
    words = [data[2:] for data in packets(output, "subtitle") if len(data) > 2]
    assert words.count(b"Guten Tag") == 2
    assert words.count("Ça va ?".encode()) == 2
    assert "font.ttf" in str(written.tracks[-1])


def test_sound_that_is_encoded_again_stays_in_time(tmp_path):
    path = write_clip(tmp_path / "a.mov", frames=48, sounds=[("pcm_s16le", 2, "eng")])
    output, written = rewrite(path, suffix=".webm", settings=ClipSettings(quality=40))
    assert written.tracks[0].into == "opus"
    from test_clip_times import heard

    old, new = heard(path), heard(output)
    assert len(old) == len(new) == 5
    assert np.abs(np.array(old) - new).max() < 960 / 48_000


@pytest.mark.parametrize("sound", [(), (("aac", 1, "eng"),)])
def test_a_clip_with_and_without_sound(tmp_path, sound):
    path = write_clip(tmp_path / "a.mp4", frames=24, sounds=sound)
    output, written = rewrite(path)
    assert len(written.tracks) == len(sound) == len(tracks(output)) - 1


def test_sound_is_left_out_when_asked(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=24, sounds=[("aac", 1, "eng")])
    output, written = rewrite(path, settings=ClipSettings(sound="drop"))
    assert [track[0] for track in tracks(output)] == ["video"]
    assert str(written.tracks[0]) == "Track 1 (audio, aac, eng) was dropped: as asked."


def test_a_cut_moves_chapters_and_subtitles(tmp_path):
    path = write_clip(
        tmp_path / "a.mkv", frames=24, texts=[("subrip", LINES, "deu")], chapters=CHAPTERS
    )
    output, _ = rewrite(path, start=Fraction(1, 4), end=Fraction(3, 4))
    spans = [(float(c.start), float(c.end)) for c in Clip(output).info.chapters]
    assert np.allclose(spans, [(0, 0.25), (0.25, 0.5)], atol=0.002)
    subtitle = next(track for track in tracks(output) if track[0] == "subtitle")
    assert subtitle[3] == 2
    assert subtitle[4] == 0  # it was on since 0.1 s


def test_phones_metadata_and_covers_survive(tmp_path):
    path = write_clip(
        tmp_path / "a.mov",
        metadata={"com.apple.quicktime.make": "Phone", "title": "T"},
        container_options={"movflags": "use_metadata_tags"},
    )
    output, _ = rewrite(path)
    metadata = Clip(output).info.metadata
    assert metadata["com.apple.quicktime.make"] == "Phone"
    assert metadata["title"] == "T"


def test_tags_of_ones_own_are_written(tmp_path):
    path = write_clip(tmp_path / "a.mp4", metadata={"title": "T"})
    output, _ = rewrite(path, settings=ClipSettings(tags={"comment": "made with mien"}))
    assert Clip(output).info.metadata["comment"] == "made with mien"
    assert Clip(output).info.metadata["title"] == "T"


def test_a_copy_is_the_same_packets(tmp_path):
    path = write_clip(
        tmp_path / "a.mp4",
        frames=24,
        options={"bf": "2"},
        sounds=[("aac", 1, "eng")],
        matrix=(0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30),
        metadata={"title": "T"},
    )
    for suffix in (".mp4", ".mkv"):
        output = tmp_path / f"copy{suffix}"
        written = copy_clip(output, Clip(path))
        assert packets(output, "video") == packets(path, "video")
        assert packets(output, "audio")[-40:] == packets(path, "audio")[-40:]
        assert written.frames == 24
        assert Clip(output).info.upright == (48, 64)
        old, new = read_back(path)[1], read_back(output)[1]
        assert max(abs((a - old[0]) - (b - new[0])) for a, b in zip(old, new, strict=True)) < 0.001
    assert "vp8, vp9" not in why_not_copied(tmp_path / "a.mkv", Clip(path))
    assert why_not_copied(tmp_path / "a.webm", Clip(path))
    assert why_not_copied(tmp_path / "a.ts", Clip(path))  # it cannot be turned there


def test_words_of_subtitles():
    ass = rb"0,0,Default,,0,0,0,,{\i1}Hi,\Nthere{\i0}"
    assert rewritten(ass, codec="ass", into="subrip") == b"Hi,\nthere"
    assert (
        rewritten("\0\x02é"[:1].encode() + b"\x02\xc3\xa9", codec="mov_text", into="webvtt")
        == "é".encode()
    )
    assert rewritten(b"", codec="subrip", into="mov_text") == b""


def test_chapters_and_names_of_tracks_in_mp4(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=24, chapters=CHAPTERS, sounds=[("aac", 1, "eng")])
    output, written = rewrite(path)
    info = Clip(output).info
    assert [(c.start, c.end, c.metadata["title"]) for c in info.chapters] == CHAPTERS
    fates = {report.kind: str(report) for report in written.tracks}
    assert "chapters" in fates["data"]


def test_statistics_of_the_old_file_are_left_out(tmp_path):
    from mien.media.clip.labels import track_tags

    tags = {"language": "eng", "BPS-eng": "1", "DURATION": "2", "_STATISTICS_TAGS": "3"}
    assert track_tags(tags) == {"language": "eng"}


def test_sound_is_encoded_when_asked(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=24, sounds=[("aac", 1, "eng")])
    output, written = rewrite(path, settings=ClipSettings(sound="encode"))
    assert (written.tracks[0].fate, written.tracks[0].into) == ("encoded", "aac")
    assert abs(tracks(output)[1][5] - 1) < 0.05


def test_hevc_in_mp4_has_the_name_that_all_players_know(tmp_path):
    path = write_clip(tmp_path / "a.mp4", codec="libx265", frames=8)
    output, _ = rewrite(path)
    copy_clip(tmp_path / "copy.mp4", Clip(path))
    assert b"hvc1" in output.read_bytes()
    assert b"hvc1" in (tmp_path / "copy.mp4").read_bytes()


def covered_clip(path):
    """Write a clip with a cover, and with a second track of pictures."""
    with av.open(str(path), "w") as output:
        streams = [output.add_stream(codec, rate=24) for codec in ("libx264", "mjpeg", "libx264")]
        for stream, name in zip(streams, ("yuv420p", "yuvj420p", "yuv420p"), strict=True):
            stream.width, stream.height, stream.pix_fmt = 64, 48, name
        streams[1].disposition = av.stream.Disposition.attached_pic
        streams[2].disposition = av.stream.Disposition.dub
        output.start_encoding()
        found = []
        for stream, count in zip(streams, (12, 1, 12), strict=True):
            for number in range(count):
                frame = drawn(64, 48, number=number)
                if count == 1:
                    frame = frame.reformat(format="yuvj420p")
                frame.pts, frame.time_base = number, Fraction(1, 24)
                found += stream.encode(frame)
            found += stream.encode(None)
        for packet in sorted(found, key=lambda packet: packet.dts * packet.time_base):
            output.mux(packet)
    return path


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_covers_and_other_pictures_go_along(tmp_path, suffix):
    path = covered_clip(tmp_path / "a.mp4")
    info = Clip(path).info
    assert [track.kind for track in info.tracks].count("cover") == 1
    assert Clip(path).info.codec == "h264"
    output, written = rewrite(path, suffix=suffix)
    assert {report.kind: report.fate for report in written.tracks} == {
        "cover": "copied",
        "video": "copied",
    }
    kinds = sorted(track.kind for track in Clip(output).info.tracks)
    assert kinds == ["cover", "video", "video"]
    assert len(read_back(output)[0]) == 12


def test_a_track_that_nothing_can_hold_is_told(tmp_path):
    path = covered_clip(tmp_path / "a.mp4")
    _, written = rewrite(path, suffix=".webm")
    fates = {report.kind: report for report in written.tracks}
    assert fates["video"].fate == "dropped"
    assert "webm cannot hold it" in fates["video"].why
