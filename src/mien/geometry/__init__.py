"""Where things are: boxes, templates, similarities, and the two warps (cut out, put back)."""

from mien.geometry.boxes import intersection_over_smaller, intersection_over_union
from mien.geometry.similarity import (
    apply,
    compose,
    fit_similarity,
    invert,
    scales,
    zoom_about_centre,
)
from mien.geometry.templates import TEMPLATES, Template, template
from mien.geometry.warp import cut, paste, paste_rectangle, sample, uncover

__all__ = [
    "TEMPLATES",
    "Template",
    "apply",
    "compose",
    "cut",
    "fit_similarity",
    "intersection_over_smaller",
    "intersection_over_union",
    "invert",
    "paste",
    "paste_rectangle",
    "sample",
    "scales",
    "template",
    "uncover",
    "zoom_about_centre",
]
