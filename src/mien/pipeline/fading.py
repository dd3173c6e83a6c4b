"""Fading: faces of a clip are laid by degrees, and held while they cannot be made anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

import torch
from torch import Tensor

from mien.geometry import fit_similarity, template
from mien.pipeline.patch import Patches
from mien.pipeline.policy import Policy, exact
from mien.stages.align import Aligned
from mien.stages.mask import smooth_step
from mien.types import Faces

RECENT = Fraction(3, 10)
"""Seconds for which a clear face is better to carry along than a later one, half covered."""


@dataclass(slots=True, eq=False)
class _Shown:
    """One track as it was laid last."""

    role: int
    level: float = 0.0
    """0 to 1, linear in time; the opacity follows it with soft ends."""

    bad: Fraction | None = None
    """Since when the face is bad."""

    patch: Patches | None = None
    """The last good one; if it was not clear, and a clear one is recent, that one."""

    clear: Fraction | None = None
    """When ``patch`` was made, if it is of a face seen clearly."""


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """What should be laid of one track in one frame."""

    number: int
    """The track's id."""

    role: int
    good: bool
    patch: Patches | None
    """The face made anew, one patch; None if it was not, or could not be."""

    clear: bool = True
    """Whether nothing covers the face: such a patch is kept rather than a later one that is not."""

    spared: bool = False
    """Whether the face was not made anew only to save time: its last patch is then as good."""


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """What is laid over one frame, the lowest first."""

    numbers: tuple[int, ...]
    """Ids of the tracks."""

    roles: tuple[int, ...]
    patches: Patches | None
    opacities: Tensor
    """float32 (K,) in [0, 1]."""


NOTHING: Mapping[int, Tensor] = MappingProxyType({})


class Fader:
    """Decides how opaque each face of one clip is; frames must come in order.

    Opacities change by 1 in ``policy.fade`` seconds at most, but for the first frame of a shot,
    where faces are there at once, and for the action 'leave', by which they go at once.
    """

    def __init__(self, policy: Policy, contract: Aligned) -> None:
        self.policy = policy
        self._template = template(contract.template).at(contract.size)
        self._shown: dict[int, _Shown] = {}
        self._time: Fraction | None = None

    def __call__(
        self,
        wishes: list[Wish],
        places: Faces,
        time: Fraction,
        *,
        fresh: bool,
        fronts: Mapping[int, Tensor] = NOTHING,
    ) -> Laid:
        """Return what is laid in the frame of ``time``.

        ``places`` are all faces with ids where they are, or are expected if they are lost; other
        tracks are forgotten. Tracks without a wish fade away. ``fresh`` frames begin a shot.
        ``fronts`` say of faces that are carried along how far they are seen now, (1, S, S), by id;
        what is not among them is seen as it was.
        """
        gap = 0.0 if self._time is None else float(time - self._time)
        step = 1.0 if fresh or not self.policy.fade else gap / self.policy.fade
        self._time = time
        rows = {number: row for row, number in enumerate(places.ids.tolist())}
        self._shown = {n: shown for n, shown in self._shown.items() if n in rows}
        wished = {wish.number: wish for wish in wishes}
        for number, wish in wished.items():
            shown = self._shown.setdefault(number, _Shown(wish.role))
            shown.role = wish.role
            self._change(shown, wish, time, step)
        for number, shown in self._shown.items():
            if number not in wished:
                shown.level = max(0.0, shown.level - step)
        return self._collect(wished, places, rows, fronts)

    def _change(self, shown: _Shown, wish: Wish, time: Fraction, step: float) -> None:
        """Move the level of a track up or down."""
        if wish.good and wish.patch is not None:
            stale = shown.clear is None or time - shown.clear > RECENT
            if wish.clear or stale:
                shown.patch, shown.clear = wish.patch, time if wish.clear else None
            shown.bad = None
            shown.level = min(1.0, shown.level + step)
            return
        if wish.good and wish.spared and shown.patch is not None:
            shown.bad = None
            shown.level = min(1.0, shown.level + step)
            return
        shown.bad = time if shown.bad is None else shown.bad
        held = self.policy.action == "hold" and time - shown.bad <= exact(self.policy.hold)
        if self.policy.action == "leave":
            shown.level = 0.0
        elif not held:
            shown.level = max(0.0, shown.level - step)

    def _collect(
        self,
        wished: dict[int, Wish],
        places: Faces,
        rows: dict[int, int],
        fronts: Mapping[int, Tensor],
    ) -> Laid:
        laid: list[tuple[int, _Shown, Patches]] = []
        for number, shown in self._shown.items():
            fresh = wished[number].patch if number in wished else None
            patch = fresh
            if fresh is None:
                patch = self._carried(shown, places[rows[number]], fronts.get(number))
            if patch is None:
                shown.level = 0.0
            elif shown.level > 0:
                laid.append((number, shown, patch))
        # the largest is laid last, on top of the smaller ones behind it
        laid.sort(key=lambda each: float(each[2].areas))
        levels = torch.tensor([shown.level for _, shown, _ in laid])
        return Laid(
            numbers=tuple(number for number, _, _ in laid),
            roles=tuple(shown.role for _, shown, _ in laid),
            patches=Patches.joined([patch for _, _, patch in laid]) if laid else None,
            opacities=smooth_step(levels),
        )

    def _carried(self, shown: _Shown, place: Faces, front: Tensor | None) -> Patches | None:
        """Return the last good patch of a face, where the face is now, behind what is there now."""
        if shown.patch is None:
            return None
        matrices = fit_similarity(place.points, self._template.to(place.points.device))
        masks = shown.patch.masks if front is None else shown.patch.shapes * front
        return replace(shown.patch, masks=masks, matrices=matrices, areas=place.areas)
