"""The invisible watermark: what is written, how it is laid on pictures, and how it is found."""

from mien.safety.watermark.code import identifier, read, write
from mien.safety.watermark.finding import Finder, Found, false_positive_rate
from mien.safety.watermark.laying import Change, Marker, marked

__all__ = [
    "Change",
    "Finder",
    "Found",
    "Marker",
    "false_positive_rate",
    "identifier",
    "marked",
    "read",
    "write",
]
