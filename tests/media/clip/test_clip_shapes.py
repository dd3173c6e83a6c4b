"""Shapes: turned, mirrored, odd, tiny, deep, in any chroma, through every container (T5)."""

from fractions import Fraction

import av
import numpy as np
import pytest
from drawn import drawn, read_back, rewrite, samples, side, write_clip

from mien.errors import ClipUnwritable, InvalidOption
from mien.media.clip import Clip, ClipSettings, ClipWriter
from mien.media.clip.orientation import orientation_of

ONE = 1 << 16
TURNS = {
    "90": (0, ONE, 0, -ONE, 0, 0, 0, 0, 1 << 30),
    "180": (-ONE, 0, 0, 0, -ONE, 0, 0, 0, 1 << 30),
    "270": (0, -ONE, 0, ONE, 0, 0, 0, 0, 1 << 30),
    "mirrored": (-ONE, 0, 0, 0, ONE, 0, 0, 0, 1 << 30),
    "flipped": (ONE, 0, 0, 0, -ONE, 0, 0, 0, 1 << 30),
    "mirrored 90": (0, ONE, 0, ONE, 0, 0, 0, 0, 1 << 30),
    "mirrored 270": (0, -ONE, 0, -ONE, 0, 0, 0, 0, 1 << 30),
}


def corner(number):
    """A frame with a bright top left corner, as it is stored."""
    frame = drawn(64, 48, number=number)
    luma = samples(frame)[0]
    luma[:] = 60
    luma[:16, :16] = 220
    return frame


def shown(frame, matrix):
    """Return luma as a player shows it: each stored pixel moved to where the matrix says."""
    luma = samples(frame)[0]
    a, b, c, d = (matrix[place] // ONE for place in (0, 1, 3, 4))
    height, width = luma.shape
    y, x = np.mgrid[:height, :width]
    to_x, to_y = a * x + c * y, b * x + d * y
    to_x, to_y = to_x - to_x.min(), to_y - to_y.min()
    picture = np.zeros((to_y.max() + 1, to_x.max() + 1), luma.dtype)
    picture[to_y, to_x] = luma
    return picture


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
def test_turned_clips_are_seen_upright_and_stay_turned(tmp_path, turn, suffix):
    matrix = TURNS[turn]
    path = write_clip(tmp_path / f"a{suffix}", frames=2, draw=corner, matrix=matrix)
    frame = next(Clip(path).frames())
    expected = shown(read_back(path)[0][0], matrix)
    seen = frame.picture().pixels.numpy()
    assert seen.shape[:2] == expected.shape
    assert np.array_equal(seen[..., 1] > 128, expected > 128)
    output, written = rewrite(path)
    written_matrix = np.frombuffer(side(read_back(output)[0][0], "DISPLAYMATRIX"), np.int32)
    assert np.array_equal(written_matrix[[0, 1, 3, 4]], np.array(matrix)[[0, 1, 3, 4]])
    assert written.notes == ()


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize(("suffix", "name"), [(".ts", "yuv420p"), (".avi", "yuv422p")])
def test_where_a_file_cannot_say_it_pictures_are_turned(tmp_path, turn, suffix, name):
    matrix = TURNS[turn]

    def draw(number):
        return corner(number).reformat(format=name)

    path = write_clip(
        tmp_path / "a.mp4", frames=9, draw=draw, matrix=matrix, name=name, options={"crf": "5"}
    )
    output, written = rewrite(path, suffix=suffix)
    assert any("turned upright" in note for note in written.notes)
    frame = read_back(output)[0][0]
    assert side(frame, "DISPLAYMATRIX") is None
    expected = shown(read_back(path)[0][0], matrix)
    assert np.abs(samples(frame)[0].astype(int) - expected).mean() < 6


def test_a_matrix_that_is_no_quarter_turn_is_told():
    slanted = np.array([46341, 46341, 0, -46341, 46341, 0, 0, 0, 1 << 30], np.int32).tobytes()
    assert not orientation_of(slanted).exact
    assert orientation_of(slanted).plain
    assert orientation_of(None).exact


SIZES = [(65, 47), (1, 47), (65, 1), (1, 1), (33, 32)]


def exact(path, **options):
    return write_clip(path, codec="libvpx-vp9", options={"lossless": "1"}, **options)


@pytest.mark.parametrize("size", SIZES)
def test_odd_sizes_are_padded_and_said(tmp_path, size):
    path = exact(tmp_path / "a.mkv", size=size, frames=3)
    output, written = rewrite(path, settings=ClipSettings(codec="h264", quality=4))
    assert any("padded" in note for note in written.notes)
    before, after = read_back(path)[0], read_back(output)[0]
    assert len(after) == 3
    for old, new in zip(before, after, strict=True):
        assert (new.width, new.height) == (size[0] + size[0] % 2, size[1] + size[1] % 2)
        ours = samples(new)[0][: size[1], : size[0]].astype(int)
        assert np.abs(ours - samples(old)[0]).mean() < 2.5


@pytest.mark.parametrize("size", SIZES)
def test_odd_sizes_are_exact_in_444(tmp_path, size):
    path = exact(tmp_path / "a.mkv", size=size, frames=2)
    if min(size) == 1:
        pytest.skip("libx264 wants two pixels")
    output, _ = rewrite(path, settings=ClipSettings(codec="h264", quality=4, odd="444"))
    frame = read_back(output)[0][0]
    assert (frame.width, frame.height, frame.format.name) == (*size, "yuv444p")


@pytest.mark.parametrize(
    ("suffix", "codec"), [(".webm", "libvpx-vp9"), (".mkv", "libsvtav1"), (".mov", "prores_ks")]
)
def test_odd_sizes_stay_where_the_codec_takes_them(tmp_path, suffix, codec):
    name = "yuv422p10le" if codec == "prores_ks" else "yuv420p"
    path = write_clip(
        tmp_path / f"a{suffix}", codec=codec, options={}, size=(65, 47), frames=2, name=name
    )
    output, written = rewrite(path)
    assert written.notes == ()
    assert (read_back(output)[0][0].width, read_back(output)[0][0].height) == (65, 47)


KINDS = [
    (".mp4", "libx264", "yuv420p", "h264"),
    (".mp4", "libx264", "yuv422p", "h264"),
    (".mkv", "libx264", "yuv444p", "h264"),
    (".mp4", "libx264", "yuv420p10le", "h264"),
    (".mov", "libx264", "yuv422p10le", "h264"),
    (".mkv", "libx264", "yuv444p10le", "h264"),
    (".mp4", "libx265", "yuv420p", "hevc"),
    (".mp4", "libx265", "yuv420p10le", "hevc"),
    (".mkv", "libx265", "yuv422p12le", "hevc"),
    (".webm", "libvpx-vp9", "yuv420p", "vp9"),
    (".webm", "libvpx-vp9", "yuv444p", "vp9"),
    (".webm", "libvpx", "yuv420p", "vp8"),
    (".mp4", "libsvtav1", "yuv420p10le", "av1"),
    (".mov", "prores_ks", "yuv422p10le", "prores"),
    (".mkv", "ffv1", "yuv420p", "ffv1"),
    (".mkv", "ffv1", "yuv422p16le", "ffv1"),
    (".mkv", "ffv1", "gbrp10le", "ffv1"),
    (".avi", "mjpeg", "yuvj420p", "mjpeg"),
    (".mkv", "libx264", "gray", "h264"),
]


@pytest.mark.parametrize(("suffix", "encoder", "name", "codec"), KINDS)
def test_codec_depth_and_chroma_follow_the_input(tmp_path, suffix, encoder, name, codec):
    options = {} if encoder in ("prores_ks", "ffv1", "mjpeg") else {"crf": "8"}
    path = write_clip(
        tmp_path / f"a{suffix}", codec=encoder, name=name, options=options, frames=4, size=(64, 64)
    )
    output, written = rewrite(path)
    assert written.notes == ()
    assert written.codec == codec
    before, after = read_back(path)[0], read_back(output)[0]
    assert len(before) == len(after) == 4
    clip = Clip(output)
    assert clip.info.codec == codec
    assert len(list(clip.frames())) == 4
    assert not clip.lost
    for old, new in zip(before, after, strict=True):
        assert new.format.name == old.format.name
        scale = 2 ** (av.VideoFormat(name, 16, 16).components[0].bits - 8)
        for a, b in zip(samples(old), samples(new), strict=True):
            error = np.abs(a.astype(int) - b).mean() / scale
            assert error == 0 if codec == "ffv1" else error < 3


@pytest.mark.parametrize("encoder", ["libx264", "libx265", "libvpx-vp9", "libsvtav1"])
@pytest.mark.parametrize("tags", [(1, 1, 1, 1), (2, 1, 13, 1), (1, 6, 6, 6), (1, 9, 14, 9)])
def test_tags_and_aspect_are_kept(tmp_path, encoder, tags):
    spread, primaries, transfer, matrix = tags
    path = write_clip(
        tmp_path / "a.mp4",
        codec=encoder,
        frames=6,  # of fewer, libx265 does not know when they are decoded
        options={},
        color_range=spread,
        color_primaries=primaries,
        color_trc=transfer,
        colorspace=matrix,
        sample_aspect_ratio=Fraction(4, 3),
    )
    output, _ = rewrite(path)
    frame = read_back(output)[0][0]
    found = frame.color_range, frame.color_primaries, frame.color_trc, frame.colorspace
    assert found == tags
    assert Clip(output).info.aspect == Fraction(4, 3)
    assert Clip(output).info.colour == Clip(path).info.colour


def test_transparency_and_prores_stay(tmp_path):
    path = write_clip(
        tmp_path / "a.mov", codec="prores_ks", name="yuva444p10le", options={}, frames=2
    )
    output, written = rewrite(path)
    assert written.codec == "prores"
    assert written.notes == ("Samples that were yuva444p12le are written as yuva444p10le.",)
    old, new = read_back(path)[0][0], read_back(output)[0][0]
    assert np.abs(samples(old)[3].astype(int) - samples(new)[3]).mean() < 16


@pytest.mark.parametrize(("suffix", "codec"), [(".avi", "ffv1"), (".mov", "prores")])
def test_transparency_of_lossless_clips_stays(tmp_path, suffix, codec):
    def draw(number):
        frame = av.VideoFrame(64, 48, "rgba")
        rows = np.frombuffer(frame.planes[0], np.uint8).reshape(48, 64, 4)
        rows[:] = np.arange(48, dtype=np.uint8)[:, None, None] * 3 + [40, 60, 80, 10]
        return frame

    path = write_clip(
        tmp_path / f"a{suffix}", codec="png", name="rgba", options={}, frames=3, draw=draw
    )
    clip = Clip(path)
    assert clip.look.layout.alpha
    output, written = rewrite(path)
    assert written.codec == codec
    new = Clip(output).look.layout
    assert new.alpha
    old, fresh = next(clip.frames()), next(Clip(output).frames())
    peak = new.top
    assert np.abs(old.planes[3] / 255 - fresh.planes[3] / peak).max() < 2 / 255
    shown = [frame.picture().pixels.numpy() for frame in (old, fresh)]
    values = [pixels / np.iinfo(pixels.dtype).max for pixels in shown]
    assert np.abs(values[0] - values[1]).mean() < 3 / 255


@pytest.mark.parametrize("encoder", ["libvpx-vp9", "libsvtav1"])
def test_a_shape_of_pixels_that_is_lost_is_told(tmp_path, encoder):
    aspect = Fraction(4, 3)
    path = write_clip(
        tmp_path / "a.mp4", codec=encoder, frames=2, options={}, sample_aspect_ratio=aspect
    )
    _, written = rewrite(path, suffix=".mkv")
    assert any("4/3" in note for note in written.notes)


def test_what_is_not_said_stays_unsaid(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=2)
    output, _ = rewrite(path)
    frame = read_back(output)[0][0]
    assert (frame.color_primaries, frame.color_trc, frame.colorspace) == (2, 2, 2)


@pytest.mark.parametrize("siting", ["left", "center", "topleft"])
def test_siting_is_found_and_kept(tmp_path, siting):
    path = write_clip(tmp_path / "a.mp4", frames=2, options={"chroma_sample_location": siting})
    assert Clip(path).info.siting == siting
    output, _ = rewrite(path)
    assert Clip(output).info.siting == siting


def test_interlaced_frames_are_brought_together_one_for_one(tmp_path):
    path = write_clip(
        tmp_path / "a.mkv",
        frames=8,
        size=(64, 64),
        options={"x264-params": "tff=1"},
        more_flags=av.codec.context.Flags.interlaced_dct | av.codec.context.Flags.interlaced_me,
    )
    clip = Clip(path)
    assert clip.info.interlaced
    output, written = rewrite(path)
    assert any("deinterlaced" in note for note in written.notes)
    assert read_back(output)[1] == read_back(path)[1]
    assert not Clip(output).info.interlaced
    with pytest.raises(Exception, match="interlaced"):
        list(clip.frames(fields="refuse"))


def test_settings_are_checked(tmp_path):
    clip = Clip(write_clip(tmp_path / "a.mp4", frames=2))
    for wrong in (
        {"codec": "h266"},
        {"quality": 52},
        {"preset": "slothful"},
        {"pixel_format": "yuv999"},
        {"pixel_format": "gbrp"},
        {"odd": "crop"},
        {"sound": "loud"},
    ):
        with pytest.raises(InvalidOption):
            ClipWriter(tmp_path / "b.mp4", clip, settings=ClipSettings(**wrong))
    with pytest.raises(ClipUnwritable, match="of the format"):
        ClipWriter(tmp_path / "b.xyz", clip)
    with pytest.raises(ClipUnwritable, match="h264"):
        ClipWriter(tmp_path / "b.webm", clip, settings=ClipSettings(codec="h264"))
    with pytest.raises(InvalidOption, match="the input"):
        ClipWriter(clip.path, clip)
    with pytest.raises(ClipUnwritable, match="does not exist"):
        ClipWriter(tmp_path / "no" / "b.mp4", clip)


def test_a_preset_and_a_quality_reach_the_encoder(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=12, size=(128, 96))
    sizes = []
    for quality in (10, 40):
        output, written = rewrite(
            path, settings=ClipSettings(codec="hevc", preset="ultrafast", quality=quality)
        )
        assert written.codec == "hevc"
        sizes.append(output.stat().st_size)
    assert sizes[0] > sizes[1]


def test_blu_ray_streams_have_their_own_packets(tmp_path):
    path = write_clip(tmp_path / "a.mp4", frames=12)
    output, _ = rewrite(path, suffix=".m2ts")
    data = output.read_bytes()
    assert len(data) % 192 == 0
    assert data[4] == data[196] == 0x47
    assert len(read_back(output)[0]) == 12
