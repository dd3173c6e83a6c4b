"""Clips: videos in and out, exact in their times and samples."""

from mien.media.clip.copying import copy_clip, why_not_copied
from mien.media.clip.damage import Lost
from mien.media.clip.hardware import Hardware
from mien.media.clip.info import Chapter, ClipInfo, Track
from mien.media.clip.lanes import TrackReport
from mien.media.clip.look import Look
from mien.media.clip.order import Written
from mien.media.clip.overlap import Behind, ahead
from mien.media.clip.reading import Clip, Fields
from mien.media.clip.settings import ClipSettings, Codec, EncoderKind, OddSizes, Sound
from mien.media.clip.stored import StoredFrame
from mien.media.clip.writer import ClipWriter, check_clip_output, check_space, encoder_for

__all__ = [
    "Behind",
    "Chapter",
    "Clip",
    "ClipInfo",
    "ClipSettings",
    "ClipWriter",
    "Codec",
    "EncoderKind",
    "Fields",
    "Hardware",
    "Look",
    "Lost",
    "OddSizes",
    "Sound",
    "StoredFrame",
    "Track",
    "TrackReport",
    "Written",
    "ahead",
    "check_clip_output",
    "check_space",
    "copy_clip",
    "encoder_for",
    "why_not_copied",
]
