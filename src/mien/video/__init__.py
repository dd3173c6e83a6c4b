"""Clips, from file to file: what is between the media and the faces."""

from mien.video.cores import share_cores
from mien.video.engine import swap_clip
from mien.video.heap import one_heap
from mien.video.job import VideoJob, resumed_id, video_job, work_folder
from mien.video.progress import Pace, VideoProgress
from mien.video.report import FaceStretch, Stretch, TrackSummary, VideoReport
from mien.video.span import Time, parse_time

__all__ = [
    "FaceStretch",
    "Pace",
    "Stretch",
    "Time",
    "TrackSummary",
    "VideoJob",
    "VideoProgress",
    "VideoReport",
    "one_heap",
    "parse_time",
    "resumed_id",
    "share_cores",
    "swap_clip",
    "video_job",
    "work_folder",
]
