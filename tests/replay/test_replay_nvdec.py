"""What a GPU decodes has the colours of the CPU, and what it does not decode is refused."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from fractions import Fraction
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from media.clip.drawn import drawn, write_clip

from mien.errors import ClipUnreadable, DecoderUnavailable, InvalidOption
from mien.media.clip import Clip
from mien.media.clip.colour import Colour, Hdr
from mien.media.clip.layout import layout_of, planes_of
from mien.media.clip.look import Look
from mien.media.clip.orientation import Orientation
from mien.media.clip.stored import StoredFrame
from mien.replay import nvdec
from mien.replay.nv12 import Nv12
from mien.replay.nvdec import NvdecFrames, count_frames

TURNED = (0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30)
MISSING = find_spec("PyNvVideoCodec") is None


def packed(frame):
    """Return a PyAV frame's samples as NV12, (3 H / 2, W)."""
    luma, *chroma = planes_of(frame, layout_of("yuv420p"))
    pairs = np.stack(chroma, axis=-1).reshape(len(chroma[0]), -1)
    return torch.from_numpy(np.concatenate([luma, pairs]))


def look(colour, siting, width, height):
    return Look(
        width=width,
        height=height,
        layout=layout_of("yuv420p"),
        colour=colour,
        siting=siting,
        orientation=Orientation(),
        hdr=Hdr(),
        aspect=Fraction(1),
    )


# Colours


@pytest.mark.parametrize("siting", ["left", "center", "topleft"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("matrix", "height"), [(1, 34), (6, 34), (9, 34), (2, 34), (2, 578)])
def test_colours_are_those_of_the_cpu(matrix, height, full, siting):
    seen = look(Colour(full=full, matrix=matrix), siting, 50, height)
    frame = drawn(50, height)
    random = np.random.default_rng(0)
    for plane, (low, high) in zip(
        planes_of(frame, layout_of("yuv420p")), [(0, 256), (70, 190), (70, 190)], strict=True
    ):
        plane[:16, :16] = random.integers(low, high, (16, 16))
    made = Nv12(seen)(packed(frame))
    theirs = StoredFrame(frame, seen, Fraction(0)).picture().pixels
    off = (made.int() - theirs.int()).abs()
    assert made.dtype == torch.uint8
    assert made.shape == theirs.shape
    assert off.max() <= 1
    assert off.float().mean() < 0.02


@pytest.mark.parametrize("tags", [{}, {"color_range": 2, "colorspace": 1}])
def test_a_clip_has_the_colours_that_it_says(tmp_path, tags):
    clip = Clip(write_clip(tmp_path / "a.mp4", frames=2, **tags))
    convert = Nv12(clip.look)
    for frame in clip.frames():
        off = convert(packed(frame.raw)).int() - frame.picture().pixels.int()
        assert off.abs().max() <= 1


def test_frames_are_counted(tmp_path):
    for name in ("a.mp4", "a.mkv"):
        assert count_frames(write_clip(tmp_path / name, frames=7)) == 7


# What is refused


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip") / "a.mp4", frames=5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "yuv420p10le"}, "yuv420p10le, and only 8 bits and 4:2:0"),
        ({"name": "yuv444p"}, "yuv444p, and only"),
        ({"matrix": TURNED}, "turned or mirrored"),
        ({"options": {"x264-params": "tff=1"}}, "interlaced"),
        ({"size": (64, 47), "codec": "ffv1"}, "64 x 47, and only even sizes"),
        ({"color_primaries": 9, "color_trc": 16, "colorspace": 9}, "HDR or wide"),
    ],
)
def test_clips_that_are_not_converted_are_refused(tmp_path, options, said):
    path = tmp_path / ("a.mkv" if "codec" in options else "a.mp4")
    write_clip(path, frames=1, **options)
    with pytest.raises(DecoderUnavailable, match=f"on cuda:0: .*{said}.*Clip decodes it on the"):
        NvdecFrames(path)


def test_options_and_files_are_checked(clip, tmp_path):
    with pytest.raises(InvalidOption, match="batch=0"):
        NvdecFrames(clip, batch=0)
    with pytest.raises(InvalidOption, match="device=-1"):
        NvdecFrames(clip, device=-1)
    with pytest.raises(ClipUnreadable, match="no file"):
        NvdecFrames(tmp_path / "none.mp4")


def test_a_missing_package_is_named(clip, monkeypatch):
    monkeypatch.setitem(sys.modules, "PyNvVideoCodec", None)
    with pytest.raises(DecoderUnavailable, match=r"not installed \(pip install 'mien\[nvdec\]'\)"):
        NvdecFrames(clip)


class Package(ModuleType):
    """Stands for the package where it fails: what it decodes is not looked at here."""

    OutputColorType = SimpleNamespace(NATIVE=0)

    def __init__(self, batches=(), able=None, count=5):
        super().__init__("PyNvVideoCodec")
        self.batches, self.able, self.count = list(batches), able or {}, count

    def CreateDemuxer(self, path):  # noqa: N802
        return SimpleNamespace(GetNvCodecId=lambda: 4, ChromaFormat=lambda: 1, BitDepth=lambda: 8)

    def GetDecoderCaps(self, *asked):  # noqa: N802
        return self.able

    def SimpleDecoder(self, path, **options):  # noqa: N802
        return self

    def __len__(self):
        return self.count

    def get_batch_frames(self, count):
        assert count <= self.count
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch


@pytest.fixture
def stand_in(monkeypatch):
    """Let a package and a GPU seem to be there."""

    def put(package):
        monkeypatch.setitem(sys.modules, "PyNvVideoCodec", package)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        stream = SimpleNamespace(cuda_stream=1, synchronize=lambda: None)
        streams = SimpleNamespace(fresh=lambda: stream)
        monkeypatch.setattr(nvdec, "streams_of", lambda device: streams)
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())

    return put


def test_a_number_without_a_gpu_is_refused(clip, stand_in, monkeypatch):
    stand_in(Package())
    with pytest.raises(DecoderUnavailable, match="on cuda:3: PyTorch sees 1 CUDA devices"):
        NvdecFrames(clip, device=3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(DecoderUnavailable, match="sees no CUDA device"):
        NvdecFrames(clip)


@pytest.mark.parametrize(
    ("able", "said"),
    [
        ({"supported": 0}, "this GPU does not decode h264 of yuv420p"),
        ({"width_min": 96, "height_max": 4096}, "64 x 48, and this GPU .* from 96 x 0 to 64 x"),
        ({"mb_num_max": 11}, "64 x 48"),
    ],
)
def test_what_the_gpu_does_not_decode_is_refused(clip, stand_in, able, said):
    stand_in(Package(able=able))
    with pytest.raises(DecoderUnavailable, match=said):
        NvdecFrames(clip)


def host(*shape, dtype=np.uint8):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("package", "error", "said"),
    [
        (Package(batches=[[host(72, 64)]]), DecoderUnavailable, "put a frame on cpu"),
        (Package(batches=[[]]), ClipUnreadable, "of its 5 frames cuda:0 decoded 0"),
        (Package(batches=[OSError("no\nroom")]), DecoderUnavailable, "says: no. mien.media"),
        (Package(count=3), DecoderUnavailable, "sees 3 of 5 frames"),
    ],
)
def test_nothing_falls_back_unsaid(clip, stand_in, package, error, said):
    stand_in(package)
    frames = NvdecFrames(clip)
    assert len(frames) == 5
    with pytest.raises(error, match=said):
        next(iter(frames))


def test_frames_of_another_size_are_refused(clip, stand_in, monkeypatch):
    stand_in(Package(batches=[[host(36, 64)]]))
    frames = NvdecFrames(clip)
    frames.device = torch.device("cpu")
    with pytest.raises(DecoderUnavailable, match=r"gave uint8 \(36, 64\) .* uint8 \(72, 64\)"):
        next(iter(frames))


# On a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.skipif(MISSING, reason="PyNvVideoCodec is not installed here")
@pytest.mark.parametrize("tags", [{}, {"color_range": 2, "colorspace": 1}])
def test_a_gpu_gives_the_frames_of_the_cpu(tmp_path, tags):
    path = write_clip(tmp_path / "a.mp4", size=(320, 240), frames=21, **tags)
    frames = NvdecFrames(path, batch=8)
    theirs = [frame.picture().pixels for frame in Clip(path).frames()]
    for _ in range(2):
        made = list(frames)  # all are held: none may be written over
        assert len(made) == len(theirs) == len(frames)
        for ours, wanted in zip(made, theirs, strict=True):
            assert ours.device == torch.device("cuda", 0)
            assert (ours.cpu().int() - wanted.int()).abs().float().mean() < 0.5
    first = next(iter(frames))  # and left in between
    assert first.shape == (240, 320, 3)
