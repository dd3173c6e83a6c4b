"""Pictures in and out."""

from mien.media.encode import Subsampling
from mien.media.formats import FORMATS, READABLE
from mien.media.image import (
    MAX_MEGAPIXELS,
    check_output,
    check_quality,
    read_picture,
    write_picture,
)
from mien.media.metadata import Metadata
from mien.media.picture import Picture, PictureLike, as_list, in_srgb

__all__ = [
    "FORMATS",
    "MAX_MEGAPIXELS",
    "READABLE",
    "Metadata",
    "Picture",
    "PictureLike",
    "Subsampling",
    "as_list",
    "check_output",
    "check_quality",
    "in_srgb",
    "read_picture",
    "write_picture",
]
