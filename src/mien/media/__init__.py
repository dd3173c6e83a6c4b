"""Pictures in and out."""

from mien.media.image import (
    FORMATS,
    Picture,
    PictureLike,
    check_output,
    read_picture,
    write_picture,
)

__all__ = [
    "FORMATS",
    "Picture",
    "PictureLike",
    "check_output",
    "read_picture",
    "write_picture",
]
