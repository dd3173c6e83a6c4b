"""Which point of the face mesh is what.

The numbers are MediaPipe's: the coarse mesh has 468 points; the mesh with attention replaces those
of the lips and around the eyes by finer ones, in the order of its outputs given here, and adds five
points for each iris, the centre first (tensors_to_face_landmarks_with_attention.pbtxt). Left and
right are as seen in the picture.
"""

from __future__ import annotations

from types import MappingProxyType

COARSE, POINTS = 468, 478

FIVE = ((33, 133), (362, 263), (4,), (61,), (291,))
"""Groups whose means stand for the eyes, the tip of the nose and the corners of the mouth."""

LIPS_OUTER = (
    *(61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),
    *(185, 40, 39, 37, 0, 267, 269, 270, 409),
)
LIPS_INNER = (
    *(78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308),
    *(191, 80, 81, 82, 13, 312, 311, 310, 415),
)
LIPS_OUTPUT = (
    *LIPS_OUTER,
    *LIPS_INNER,
    *(76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306),
    *(184, 74, 73, 72, 11, 302, 303, 304, 408),
    *(62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292),
    *(183, 42, 41, 38, 12, 268, 271, 272, 407),
)
LEFT_LIDS = (33, 7, 163, 144, 145, 153, 154, 155, 133, 246, 161, 160, 159, 158, 157, 173)
RIGHT_LIDS = (263, 249, 390, 373, 374, 380, 381, 382, 362, 466, 388, 387, 386, 385, 384, 398)
LEFT_EYE_OUTPUT = (
    *LEFT_LIDS,
    *(130, 25, 110, 24, 23, 22, 26, 112, 243, 247, 30, 29, 27, 28, 56, 190),
    *(226, 31, 228, 229, 230, 231, 232, 233, 244, 113, 225, 224, 223, 222, 221, 189),
    *(35, 124, 46, 53, 52, 65),
    *(143, 111, 117, 118, 119, 120, 121, 128, 245, 156, 70, 63, 105, 66, 107, 55, 193),
)
RIGHT_EYE_OUTPUT = (
    *RIGHT_LIDS,
    *(359, 255, 339, 254, 253, 252, 256, 341, 463, 467, 260, 259, 257, 258, 286, 414),
    *(446, 261, 448, 449, 450, 451, 452, 453, 464, 342, 445, 444, 443, 442, 441, 413),
    *(265, 353, 276, 283, 282, 295),
    *(372, 340, 346, 347, 348, 349, 350, 357, 465, 383, 300, 293, 334, 296, 336, 285, 417),
)
LEFT_IRIS, RIGHT_IRIS = tuple(range(468, 473)), tuple(range(473, 478))

LEFT_BROW = (46, 53, 52, 65, 55, 70, 63, 105, 66, 107)
RIGHT_BROW = (276, 283, 282, 295, 285, 300, 293, 334, 296, 336)

EXPRESSION = MappingProxyType(
    {
        "eyes": (*LEFT_LIDS, *RIGHT_LIDS),
        "brows": (*LEFT_BROW, *RIGHT_BROW),
        "lips": (*LIPS_OUTER, *LIPS_INNER),
    }
)
"""The parts of a face that move with its expression."""

RIGID = MappingProxyType(
    {
        **{4: 0.0709, 6: 0.0321, 10: 0.0084, 33: 0.0587, 54: 0.0077, 67: 0.0091, 117: 0.0098},
        **{119: 0.0146, 121: 0.0186, 127: 0.0052, 129: 0.1206, 132: 0.0056, 133: 0.0533},
        **{136: 0.0669, 143: 0.0148, 147: 0.0143, 198: 0.0255, 205: 0.0473, 263: 0.0587},
        **{284: 0.0077, 297: 0.0091, 346: 0.0098, 348: 0.0146, 350: 0.0186, 356: 0.0052},
        **{358: 0.1206, 361: 0.0056, 362: 0.0533, 365: 0.0669, 372: 0.0148, 376: 0.0143},
        **{420: 0.0255, 425: 0.0473},
    }
)
"""Points that hardly move with the expression, and how much each counts when a head's pose is
found: MediaPipe's Procrustes basis (geometry_pipeline_metadata_landmarks.pbtxt)."""

OUTER_CORNERS = (33, 263)
"""Outer corners of the eyes: their distance is the unit of lengths in a face, as in the 300-W
benchmark (Sagonas et al., 2013)."""

EYES = ((33, 133, 159, 145, 468), (362, 263, 386, 374, 473))
"""For each eye its left and right corner, middle of the upper and lower lid, centre of the iris."""

CHEEKS = (50, 280)
"""Middle of either cheek."""
