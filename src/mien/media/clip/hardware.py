"""Hardware decoders: used where they work, and said so either way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from av.codec.hwaccel import HWAccel, hwdevices_available
from av.error import FFmpegError

from mien.media.clip.opening import open_clip, pictures_of

Hardware = Literal["none", "auto", "cuda", "videotoolbox", "d3d11va", "vaapi", "qsv"]

ORDER: tuple[str, ...] = ("videotoolbox", "cuda", "d3d11va", "vaapi", "qsv")
"""FFmpeg's names of devices that decode, in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """What decodes a clip. True if it is hardware; as text, a sentence for people."""

    device: HWAccel | None
    sentence: str

    def __bool__(self) -> bool:
        return self.device is not None

    def __str__(self) -> str:
        return self.sentence


CPU = Decoder(None, "The CPU decodes.")


def choose_decoder(path: Path, hardware: Hardware) -> Decoder:
    """Return what decodes the pictures of ``path``; the CPU if no hardware can.

    H.264, H.265, VP9 and AV1 are exact: any decoder gives the same samples. Raises
    ClipUnreadable if the file is no clip.
    """
    if hardware == "none":
        return CPU
    wanted = ORDER if hardware == "auto" else (hardware,)
    here = set(hwdevices_available())
    failures = [f"{name}: not in this build" for name in wanted if name not in here]
    if hardware == "auto":
        failures = []
    for name in wanted:
        if name not in here:
            continue
        device = HWAccel(device_type=name, allow_software_fallback=True)
        try:
            with open_clip(path, device, bare=True) as container:
                track = pictures_of(container, path)
                if not track.codec_context.is_hwaccel:
                    failures.append(f"{name}: not for {track.codec_context.name}")
                    continue
                frame = next(iter(container.decode(track)), None)
                if frame is not None:
                    return Decoder(device, f"Pictures are decoded by {name}.")
        except (FFmpegError, RuntimeError, ValueError, NotImplementedError) as error:
            failures.append(f"{name}: {getattr(error, 'strerror', None) or error}")
    tried = f" ({'; '.join(failures)})" if failures else ""
    return Decoder(None, f"No hardware can decode the pictures{tried}; the CPU does.")
