"""Whether the next frame of a clip may be made as if nothing new came into sight.

A frame that is followed looks for faces where they are expected, once, while the detector looks at
the same frame beside the swap. What it and the mesh say settles whether that was right; where it
was not, the frame is made again from the detector's places on, as every frame is that is not
followed. So nothing is missed, and a frame in which nothing happens takes half the time.
"""

from __future__ import annotations

from mien.pipeline.watching import PAUSE

REST, LONGEST = 8, 256
"""Frames that are made whole after one that was followed in vain: twice as many each time, up to
LONGEST, until REST were followed well."""


class Foresight:
    """What is known of one clip before a frame is made."""

    def __init__(self) -> None:
        self.followed, self.in_vain = 0, 0
        """Frames that were followed, and how many of them had to be made again."""

        self.restart()

    def restart(self) -> None:
        """Begin another clip."""
        self._quiet, self._left, self._rest, self._well = False, 0, REST, 0

    def follow(self, elapsed: float) -> bool:
        """Return whether to follow a frame, ``elapsed`` seconds after the one before."""
        return self._quiet and not self._left and 0 < elapsed <= PAUSE

    def told(self, quiet: bool, *, followed: bool) -> bool:
        """Learn of a frame that was made; return whether it must be made again.

        ``quiet`` is what its outcome says, and ``followed`` whether it was followed.
        """
        again = followed and not quiet
        self.followed += followed
        self.in_vain += again
        if again:
            self._left, self._rest = self._rest, min(2 * self._rest, LONGEST)
            self._well = 0
        elif followed:
            self._well += 1
            if self._well == REST:
                self._rest = REST
        else:
            self._left = max(0, self._left - 1)
        self._quiet = quiet
        return again
