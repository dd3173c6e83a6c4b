"""Steadiness in a frame of fixed capacity: what was seen before, as tensors.

Does what ``stages.track`` and ``stages.steady`` do for clips, with a fixed number of tracks and no
look at any number, so that a CUDA graph can hold it. A face that the detector misses is looked for
where it is expected, in a slot that is empty anyway; the mesh network says whether it is there. No
embedding settles who somebody is: people are told apart by place alone, so that after a cut within
a scene, which changes no colours, somebody may have the id of whoever was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from mien.replay.layout import Layout
from mien.replay.shot import Shots
from mien.replay.tracks import (
    Followed,
    State,
    Tracks,
    as_expected,
    carried,
    confirm,
    expect,
    go_on,
    look_ahead,
)

SPARE = 2
"""Tracks for each slot: those who are lost are waited for while others take their slots."""

Place = Callable[[Tensor], tuple[Tensor, Tensor, Tensor, Tensor]]
"""Takes points (K, 5, 2), and places the mesh there in the present frame; see Landmarks."""

NOWHERE = ((0.0, 0.0), (8.0, 0.0), (4.0, 4.0), (0.0, 8.0), (8.0, 8.0))
"""Where an empty slot looks: five points that lie like a face's."""


class SteadySlots(nn.Module):
    """Follows the faces of one clip, whose frames come in order.

    What is known lies in one row of bytes, in which each frame writes anew. Its tensors are looked
    up there each time: the row is another one after a module has moved to another device.
    """

    never: Tensor
    no: Tensor
    nothing: Tensor
    nowhere: Tensor
    row: Tensor

    def __init__(self, size: tuple[int, int], *, slots: int) -> None:
        """``size`` (H, W) is that of the picture in which cuts are looked for."""
        super().__init__()
        self.shots = Shots(size)
        self.register_buffer("no", torch.zeros((), dtype=torch.bool))
        self.register_buffer("nothing", torch.zeros(slots))
        self.register_buffer("nowhere", torch.tensor(NOWHERE))
        self.register_buffer("never", torch.zeros((), dtype=torch.float64))
        count = torch.zeros((), dtype=torch.int64)
        known = (Shots.none(), count, *Tracks.none(SPARE * slots))
        self._layout = Layout(known)
        self.register_buffer("row", torch.zeros(self._layout.size, dtype=torch.uint8))
        copied(self._layout.tensors(self.row), known)

    def forward(
        self, pixels: Tensor, places: Tensor, scores: Tensor, place: Place, elapsed: Tensor | None
    ) -> Followed:
        """Return the faces in a frame, whose ``pixels`` are float32 (3, H, W) in [0, 255].

        ``places`` (K, 5, 2) and ``scores`` (K,) are a detector's. ``elapsed``, float64 (), is the
        time in seconds since the frame before; 0, more than PAUSE and None begin a new shot, as
        does a cut: then nobody is known.
        """
        elapsed = self.never if elapsed is None else elapsed
        before, count, tracks = self._known()
        since, unsure, boxes, five, known = expect(elapsed, self.shots(pixels, before), *tracks)
        places = carried(places, scores, boxes, five, known, since)
        mesh, points, presence, _ = place(places)
        tracks = tracks._replace(since=since, unsure=unsure)
        return self._remembered(
            *go_on(elapsed, mesh, points, presence, scores, boxes, known, count, *tracks)
        )

    def follow(self, place: Place, elapsed: Tensor) -> Followed:
        """Return the faces in a frame that are where they are expected, before a detector looks.

        ``elapsed`` is more than 0, and not more than PAUSE. What the detector says is for
        ``confirmed``, which must be called next. Where that says that the frame was not quiet, what
        is known is wrong; ``take`` back what was known.
        """
        _, count, tracks = self._known()
        since, unsure, boxes, _, known = expect(elapsed, self.no, *tracks)
        slots = len(self.nothing)
        ahead = look_ahead(elapsed, known, self.nowhere, tracks.five[:slots], tracks.drift[:slots])
        mesh, points, presence, moving = place(ahead)
        tracks = tracks._replace(since=since, unsure=unsure)
        # as if a detector had seen nobody
        faces = self._remembered(
            *go_on(elapsed, mesh, points, presence, self.nothing, boxes, known, count, *tracks)
        )
        quiet = as_expected(faces.there, known, moving, presence)
        return faces._replace(quiet=quiet)

    def confirmed(
        self, followed: Followed, pixels: Tensor, places: Tensor, scores: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return scores (K,) of faces that were ``followed``, and whether that was right, bool ().

        The rest is as for a call: what a detector says of the same frame, and its pixels.
        """
        slots = len(scores)
        before, _, tracks = self._known()
        told, unsure, quiet = confirm(
            places,
            scores,
            followed.points,
            followed.boxes,
            followed.scores,
            followed.there,
            followed.quiet,
            tracks.unsure[:slots],
            self.shots(pixels, before),
        )
        tracks.score[:slots].copy_(told)
        tracks.unsure[:slots].copy_(unsure)
        return told, quiet

    def _remembered(
        self, followed: tuple[Tensor, ...], now: tuple[Tensor, ...], count: Tensor
    ) -> Followed:
        """Keep what is known from ``now`` on, and return what was ``followed``."""
        _, old, tracks = self._known()
        copied((old, *tracks), (count, *now))
        return Followed(*followed)

    def _known(self) -> tuple[Tensor, Tensor, Tracks]:
        """Return what is known, in its memory: the frame before, how many ids, and the faces."""
        before, count, *tracks = self._layout.tensors(self.row)
        return before, count, Tracks(*tracks)

    def reset(self) -> None:
        """Forget all."""
        _, count, tracks = self._known()
        tracks.since.fill_(torch.inf)
        count.zero_()

    def state(self) -> State:
        """Return a copy of what is known: see ``take``."""
        return State(self.row.clone(), self._layout)

    def keep(self, state: State) -> None:
        """Copy what is known over ``state``, an older copy."""
        state.row.copy_(self.row)

    def take(self, state: State) -> None:
        """Know what another knew, maybe of more or fewer slots; who does not fit is forgotten."""
        if len(state.row) == len(self.row):
            self.row.copy_(state.row)
            return
        self.reset()
        before, count, tracks = self._known()
        given_before, given_count, *given_tracks = state.layout.tensors(state.row)
        before.copy_(given_before)
        count.copy_(given_count)
        for mine, given in zip(tracks, given_tracks, strict=True):
            rows = min(len(mine), len(given))
            mine[:rows].copy_(given[:rows])


def copied(into: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy ``values`` over ``into``, those of one type at once: a GPU has few kernels to start."""
    for dtype in {value.dtype for value in values}:
        which = [i for i, value in enumerate(values) if value.dtype == dtype]
        torch._foreach_copy_([into[i] for i in which], [values[i] for i in which])
