"""The thread from end to end, with the real networks."""

from __future__ import annotations

import numpy as np
from conftest import CONSENT


def test_swap_changes_the_face_and_nothing_else(swapper, load):
    identity = swapper.identity(load("dev"), consent=CONSENT)
    target = load("ben")
    result = swapper.swap(target, identity)
    left, top, right, bottom = (round(v) for v in result.faces.boxes[0].tolist())
    assert (
        np.abs(
            result.pixels[top:bottom, left:right].astype(int) - target[top:bottom, left:right]
        ).mean()
        > 3
    )
    outside = np.ones(target.shape[:2], bool)
    outside[top - 3 : bottom + 4, left - 3 : right + 4] = False
    assert np.array_equal(result.pixels[outside], target[outside])
