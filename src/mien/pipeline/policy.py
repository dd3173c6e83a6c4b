"""Policy: which faces of a clip are too bad to be swapped, and what is done instead."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from torch import Tensor

from mien.choice import is_number
from mien.errors import InvalidOption
from mien.stages.track import KEEP
from mien.stages.visible import inside, yaws
from mien.types import Event, Faces

Action = Literal["hold", "fade", "leave"]

Reason = Literal["lost", "covered", "profile", "outside", "unsure", "rejected"]
"""Lost: the face was there and is waited for. Covered: its presence is low, as behind a hand or in
a blur. Profile: turned too far. Outside: too little of it is in the frame. Unsure: the detector
does not see it, or it is not clear yet whose it is. Rejected: the network's output is of no use."""

COVERED, UNCOVERED = 10.0, 14.0
"""Presence logits below which a face is covered, and from which it no longer is.

Of a portrait: 33; half covered 11 to 16, covered by 60 % 9 to 10, by 70 % -4 to 2."""

PROFILE, TURNED_BACK = 50.0, 43.0
"""Yaws of the mesh, in degrees, beyond which a face is a profile, and within which it is none.

The mesh shows 0.8 of a head's turn: these are 60 and 52 degrees of it."""

OUTSIDE, BACK_INSIDE = 0.55, 0.65
"""Shares of the face's points in the frame below which it is outside, and from which it is not."""

CLEAR = 20.0
"""Presence logit below which a face may be so much covered that it may be anybody's."""

UNSURE, SURE = 0.2, 0.3
"""Scores below which a detector does not see a face, and from which it does again."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is done about bad faces. Raises InvalidOption.

    hold
        The last good face is carried along where the face is, for at most ``hold`` seconds, and
        then fades.
    fade
        The face fades over ``fade`` seconds, made anew as long as there is something to make it of,
        else carried along.
    leave
        The face is left as it came, at once.

    Whatever is done, the face comes back over ``fade`` seconds. A face that is lost for KEEP
    seconds is given up, so ``hold`` and ``fade`` together are at most that.
    """

    action: Action = "fade"

    hold: float = 0.3
    """Seconds, from 0 up, for which a face is carried along at most."""

    fade: float = 0.2
    """Seconds, from 0 up, from all to nothing and back; 0 is at once."""

    def __post_init__(self) -> None:
        if self.action not in get_args(Action):
            raise InvalidOption("action", self.action, get_args(Action))
        for name, value in (("hold", self.hold), ("fade", self.fade)):
            if not is_number(value) or not 0 <= value <= KEEP:
                raise InvalidOption(name, value, f"0 to {KEEP} seconds")
        if self.hold + self.fade > KEEP:
            raise InvalidOption(
                "hold and fade", (self.hold, self.fade), f"at most {KEEP} seconds together"
            )


def exact(seconds: float | Fraction) -> Fraction:
    """Return what was meant by ``seconds``: 0.2 is a fifth, so that the frame then is not late."""
    return Fraction(seconds).limit_denominator(1_000_000)


class Inspector:
    """Says of each face of one clip whether it is bad; what was bad must become clearly good."""

    def __init__(self) -> None:
        self._bad: dict[int, Reason] = {}

    def __call__(
        self,
        faces: Faces,
        presence: Tensor,
        doubtful: tuple[bool, ...],
        size: tuple[int, int],
    ) -> dict[int, Reason | None]:
        """Return for each face's id what is wrong with it.

        ``presence`` (K,) are the faces' logits; ``doubtful`` are those of which it matters, and is
        not yet clear, whose they are; the frame's ``size`` is (H, W).
        """
        if not len(faces):
            self._bad = {}
            return {}
        assert faces.mesh is not None
        turns, shares = yaws(faces.mesh).abs(), inside(faces.mesh, *size)
        found: dict[int, Reason | None] = {}
        columns = [c.tolist() for c in (faces.ids, presence, turns, shares, faces.scores)]
        for number, logit, turn, share, score, doubt in zip(*columns, doubtful, strict=True):
            was = self._bad.get(number)
            checks: tuple[tuple[Reason, bool], ...] = (
                ("outside", share < (BACK_INSIDE if was == "outside" else OUTSIDE)),
                ("profile", turn > (TURNED_BACK if was == "profile" else PROFILE)),
                ("covered", logit < (UNCOVERED if was == "covered" else COVERED)),
                ("unsure", score < (SURE if was == "unsure" else UNSURE)),
                ("unsure", doubt and logit < CLEAR),
            )
            found[number] = next((reason for reason, bad in checks if bad), None)
        self._bad = {number: reason for number, reason in found.items() if reason is not None}
        return found


class Log:
    """Gathers what was wrong into events: one for each time that it is."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str], Event] = {}
        self._closed: list[Event] = []

    def __call__(self, time: Fraction, wrong: dict[int, Reason], action: Action) -> None:
        """Note what is ``wrong`` with the faces of these ids in the frame of ``time``."""
        now = {(number, str(reason)) for number, reason in wrong.items()}
        for key in [key for key in self._open if key not in now]:
            self._closed.append(self._open.pop(key))
        for number, reason in sorted(now):
            old = self._open.get((number, reason))
            start, frames = (old.start, old.frames) if old else (time, 0)
            self._open[number, reason] = Event(number, reason, action, start, time, frames + 1)

    @property
    def events(self) -> tuple[Event, ...]:
        """All events so far, by start."""
        events = [*self._closed, *self._open.values()]
        return tuple(sorted(events, key=lambda e: (e.start, e.track, e.reason)))
