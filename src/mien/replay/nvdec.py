"""Clips decoded on an NVIDIA GPU, whose frames stay there: PyNvVideoCodec and NVDEC.

The package is optional: ``pip install 'mien[nvdec]'``. Nothing falls back to the CPU: what the GPU
does not decode is refused, and a frame that is elsewhere is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from mien.engines.streams import streams_of
from mien.errors import ClipUnreadable, DecoderUnavailable, InvalidOption
from mien.media.clip import Clip, ClipInfo, ahead
from mien.media.clip.opening import explained, open_clip, pictures_of
from mien.replay.nv12 import Nv12

BATCH = 16
"""Frames that are decoded at once: more take memory, fewer keep the decoder waiting."""

BLOCK = 16
"""Pixels on a side of a macroblock, in which decoders count what they can hold."""


class NvdecFrames:
    """The frames of a clip, uint8 (H, W, 3), RGB, on a GPU; can be gone through several times.

    They have the colours that ``Clip`` gives on the CPU, but for rounding. A batch is decoded
    while the caller works on the one before. A frame is the caller's own, and complete when it
    comes: any stream may read it, but one that was not current then must be told to the frame by
    ``record_stream``. The decoder works in a thread: no CUDA graph can be captured meanwhile.

    Raises ClipUnreadable if the file is no clip, and DecoderUnavailable if the package is missing
    or the GPU cannot decode the clip: on making one or, what only the decoder finds out, on going
    through the frames. What is refused: more than 8 bits or another chroma than 4:2:0, HDR and
    wide colours, interlaced, turned, and odd sizes.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, device: int = 0, batch: int = BATCH
    ) -> None:
        """``device`` is the GPU's number, ``batch`` how many frames are decoded at once."""
        for name, value, least in (("device", device, 0), ("batch", batch, 1)):
            if value < least:
                raise InvalidOption(name, value, f"whole numbers from {least} up")
        self.path, self.device = Path(path), torch.device("cuda", device)
        self._batch = batch
        clip = Clip(self.path)
        self.info = clip.info
        reason = unfit(clip.info)
        if reason:
            raise self._refused(reason)
        self._rgb = Nv12(clip.look)
        self._package = self._imported()
        found = torch.cuda.device_count()
        if device >= found:
            raise self._refused(f"PyTorch sees {found} CUDA devices" if found else NO_GPU)
        self._check_capabilities()
        self._count = count_frames(self.path)

    def __len__(self) -> int:
        """Return how many frames the file says it has."""
        return self._count

    def __iter__(self) -> Iterator[Tensor]:
        """Yield every frame, in the order in which they are shown.

        Raises DecoderUnavailable, and ClipUnreadable where a frame does not decode.
        """
        with closing(ahead(self._batches(), 1)) as batches:
            for frames in batches:
                for frame in frames:
                    frame.record_stream(torch.cuda.current_stream(self.device))
                    yield frame

    def _batches(self) -> Iterator[list[Tensor]]:
        """Yield frames that are ready, whichever stream they are used on."""
        # a stream of its own: the decoder's work and ours does not queue up behind the caller's
        aside = streams_of(self.device).fresh()
        with torch.cuda.device(self.device), torch.cuda.stream(aside):
            decoder = self._opened(aside)
            left = self._count
            while left:
                with self._explained():
                    surfaces = decoder.get_batch_frames(min(self._batch, left))
                if not surfaces:
                    raise ClipUnreadable(
                        f"{self.path} is damaged or cut short: of its {self._count} frames "
                        f"{self.device} decoded {self._count - left}. mien.media.clip.Clip reads "
                        "on past damage, and says what is lost.",
                        path=self.path,
                    )
                left -= len(surfaces)
                frames = [self._rgb(self._samples(surface)) for surface in surfaces]
                aside.synchronize()  # the decoder uses its surfaces again, or frees them
                yield frames

    def _opened(self, stream: torch.cuda.Stream) -> Any:
        """Return a decoder whose samples are ready on ``stream``."""
        with self._explained():
            decoder = self._package.SimpleDecoder(
                str(self.path),
                gpu_id=self.device.index,
                cuda_stream=stream.cuda_stream,
                use_device_memory=True,
                output_color_type=self._package.OutputColorType.NATIVE,
            )
            found = len(decoder)
        if found < self._count:
            raise self._refused(
                f"PyNvVideoCodec sees {found} of {self._count} frames; the index of the file may "
                "be missing, and copying its tracks into an .mp4 makes one"
            )
        return decoder

    def _samples(self, surface: object) -> Tensor:
        """Return what was decoded, uint8 (3 H / 2, W), where the decoder has it."""
        with self._explained():
            samples = from_dlpack(surface)
        if samples.device != self.device:
            raise self._refused(f"the decoder put a frame on {samples.device}")
        if samples.dim() == 3 and samples.shape[2] == 1:
            samples = samples[..., 0]
        if samples.dtype != torch.uint8 or tuple(samples.shape) != self._rgb.shape:
            kind = str(samples.dtype).removeprefix("torch.")
            raise self._refused(
                f"the decoder gave {kind} {tuple(samples.shape)} for a frame, where "
                f"uint8 {self._rgb.shape} belongs; the size may change amid the clip"
            )
        return samples

    def _imported(self) -> ModuleType:
        try:
            import PyNvVideoCodec
        except ModuleNotFoundError:
            raise self._refused(
                "PyNvVideoCodec is not installed (pip install 'mien[nvdec]')"
            ) from None
        except (ImportError, RuntimeError, OSError) as error:  # RuntimeError: its driver is missing
            raise self._refused(f"PyNvVideoCodec cannot be loaded: {_said(error)}") from error
        module: ModuleType = PyNvVideoCodec
        return module

    def _check_capabilities(self) -> None:
        """Raise DecoderUnavailable if the GPU says that it does not decode such clips."""
        with self._explained():
            demuxer = self._package.CreateDemuxer(str(self.path))
            able = self._package.GetDecoderCaps(
                self.device.index,
                demuxer.GetNvCodecId(),
                demuxer.ChromaFormat(),
                demuxer.BitDepth(),
            )
        width, height, codec = self.info.width, self.info.height, self.info.codec
        if not able.get("supported", True):
            raise self._refused(f"this GPU does not decode {codec} of {self.info.pixel_format}")
        least = able.get("width_min", 0), able.get("height_min", 0)
        most = able.get("width_max", width), able.get("height_max", height)
        blocks = -(-width // BLOCK) * -(-height // BLOCK)
        fits = least[0] <= width <= most[0] and least[1] <= height <= most[1]
        if not fits or blocks > able.get("mb_num_max", blocks):
            raise self._refused(
                f"it is {width} x {height}, and this GPU decodes {codec} from "
                f"{least[0]} x {least[1]} to {most[0]} x {most[1]}"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what the package raises, of classes of its own, into DecoderUnavailable."""
        try:
            yield
        except Exception as error:
            raise self._refused(f"PyNvVideoCodec says: {_said(error)}") from error

    def _refused(self, reason: str) -> DecoderUnavailable:
        return DecoderUnavailable(self.path, device=str(self.device), reason=reason)


NO_GPU = "PyTorch sees no CUDA device ('mien doctor' says why)"


def unfit(info: ClipInfo) -> str:
    """Return why the frames of a clip cannot stay on the GPU, or an empty text if they can."""
    if info.layout.name != "yuv420p":
        return (
            f"its pictures are {info.pixel_format}, and only 8 bits and 4:2:0 are converted there"
        )
    if info.colour.hdr or info.colour.wide:
        return f"its colours are HDR or wide ({info.colour}), which are mapped on the CPU only"
    if info.interlaced:
        return "it is interlaced, and lines are brought together on the CPU only"
    if not info.orientation.plain:
        return "it is to be turned or mirrored when shown, which is done on the CPU only"
    if info.width % 2 or info.height % 2:
        return f"it is {info.width} x {info.height}, and only even sizes are converted there"
    return ""


def count_frames(path: Path) -> int:
    """Return how many frames the clip at ``path`` has, by its index or else by its packets."""
    with explained(path), open_clip(path) as container:
        track = pictures_of(container, path)
        return track.frames or sum(1 for packet in container.demux(track) if packet.size)


def _said(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(". ")
