"""What is known of the faces of a clip, as tensors, and how that goes on from frame to frame.

No step looks at a number, so that a CUDA graph can hold all of them; see ``steady``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mien.geometry import intersection_over_smaller
from mien.kernels import fused
from mien.pipeline.finder import GUESS, real
from mien.pipeline.following import LARGER
from mien.pipeline.watching import PAUSE
from mien.replay.layout import Layout
from mien.replay.pairs import apart, middles, pairs, sizes
from mien.stages.association import GLIDE, GROWTH, REACH, WANDER
from mien.stages.landmark import POINTS
from mien.stages.steady import Motions, begun, chosen, moved, points_of
from mien.stages.track import GONE, INERTIA, JUMP, KEEP, SHARED, SURE, UNCONFIRMED

FIVE = 5


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """All that is known of the frames before."""

    row: Tensor
    """uint8 (N,): the frame before as Shots sees it, how many ids there are, and Tracks."""

    layout: Layout


class Tracks(NamedTuple):
    """M faces as they were last seen, those first that were seen last."""

    number: Tensor
    """int64 (M,): ids."""

    since: Tensor
    """float64 (M,): seconds since it was seen; infinite where there is no track."""

    unsure: Tensor
    """float64 (M,): seconds since a detector found it."""

    led: Tensor
    """bool (M,): whether it is the largest, or was when it was last seen."""

    score: Tensor
    """float32 (M,): what the detector last gave it."""

    speed: Tensor
    """float32 (M, 2): of its middle, pixels a second."""

    boxes: Tensor
    """float32 (M, 4), not smoothed."""

    five: Tensor
    """float32 (M, 5, 2): its points, not smoothed."""

    drift: Tensor
    """float32 (M, 5, 2): of each, pixels a second."""

    first: Tensor
    pose: Tensor
    velocity: Tensor
    age: Tensor
    shape: Tensor
    """These five are those of Motions."""

    @property
    def motions(self) -> Motions:
        """The faces as the filter knows them."""
        return Motions(*self[-5:])

    @classmethod
    def none(cls, count: int) -> Tracks:
        """Return ``count`` empty tracks."""
        whole = torch.zeros(count, POINTS + FIVE, 2, dtype=torch.float64)
        four = torch.zeros(count, 4, dtype=torch.float64)
        one = torch.zeros(count, dtype=torch.float64)
        return cls(
            number=torch.full((count,), -1),
            since=torch.full_like(one, torch.inf),
            unsure=one,
            led=torch.zeros(count, dtype=torch.bool),
            score=torch.zeros(count),
            speed=torch.zeros(count, 2),
            boxes=torch.zeros(count, 4),
            five=torch.zeros(count, FIVE, 2),
            drift=torch.zeros(count, FIVE, 2),
            first=whole,
            pose=four,
            velocity=four.clone(),
            age=one.clone(),
            shape=whole.clone(),
        )


class Followed(NamedTuple):
    """The faces in K slots, the largest first, smoothed."""

    mesh: Tensor
    """float32 (K, 468, 2)."""

    points: Tensor
    """float32 (K, 5, 2)."""

    boxes: Tensor
    """float32 (K, 4)."""

    scores: Tensor
    """float32 (K,): the detector's, or what it last was; 0 in a slot without a face."""

    there: Tensor
    """bool (K,): whether there is a face."""

    ids: Tensor
    """int64 (K,): the same for the same face over time; -1 in a slot without a face."""

    leads: Tensor
    """bool (K,): the largest face. It stays so until another has LARGER times its area; nobody
    leads while it is lost."""

    quiet: Tensor
    """bool (): whether all faces are surely there, and nobody is waited for; of a frame that was
    followed also, whether all are where they were expected."""


# What is compiled takes and returns plain tuples: PyTorch 2.11's compiler returns named ones empty


@fused
def look_ahead(
    elapsed: Tensor, known: Tensor, nowhere: Tensor, five: Tensor, drift: Tensor
) -> Tensor:
    """Return where to look for the first K tracks, (K, 5, 2), which move, turn and grow."""
    there = (five + drift * elapsed).to(five)
    return torch.where(known[: len(five), None, None], there, nowhere)


@fused
def as_expected(there: Tensor, known: Tensor, moving: Tensor, presence: Tensor) -> Tensor:
    """Return whether all who are ``known`` (M,) are ``there`` (K,), sure and where they were, ().

    ``moving`` and ``presence`` (K,) are of the first K of them.
    """
    mine = known[: len(there)]
    unclear = mine & (moving | ~(presence >= SURE))
    return (there.sum() == known.sum()) & ~unclear.any()


@fused
def confirm(
    places: Tensor,
    guesses: Tensor,
    points: Tensor,
    boxes: Tensor,
    scores: Tensor,
    there: Tensor,
    quiet: Tensor,
    unsure: Tensor,
    cut: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores (K,), seconds since a detector found each (K,), and whether all is well, ().

    ``places`` and ``guesses`` are the detector's, ``unsure`` and ``cut`` what SteadySlots has and
    is told, and the rest what Followed holds.
    """
    seen = guesses >= GUESS
    way = (places.mean(dim=1)[:, None] - points.mean(dim=1)).norm(dim=2) / sizes(boxes)
    same = pairs(torch.where((way <= JUMP) & seen[:, None] & there, way, torch.inf))
    found, told = same.any(dim=0), torch.where(same, guesses[:, None], 0).amax(dim=0)
    new = seen & ~same.any(dim=1)
    return (
        torch.where(found, told, scores),
        torch.where(found, 0, unsure),
        quiet & ~cut & ~new.any(),
    )


@fused
def expect(
    elapsed: Tensor, cut: Tensor, *values: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return what of Tracks, ``values``, is older by ``elapsed``, and where they are expected.

    That is ``since``, ``unsure``, boxes (M, 4), points (M, 5, 2), and which of them are waited
    for, bool (M,).
    """
    tracks = Tracks(*values)
    since = tracks.since + elapsed
    fresh = (elapsed <= 0) | (elapsed > PAUSE) | cut
    known = (since <= KEEP) & ~fresh
    way = (GLIDE * (1 - (-since / GLIDE).exp())).to(tracks.speed)
    shift = tracks.speed * way[:, None]
    boxes, five = tracks.boxes + shift.repeat(1, 2), tracks.five + shift[:, None]
    return since, tracks.unsure + elapsed, boxes, five, known


@fused
def carried(
    places: Tensor, scores: Tensor, boxes: Tensor, five: Tensor, known: Tensor, since: Tensor
) -> Tensor:
    """Return where to look for faces, points (K, 5, 2): where a detector saw some, ``places``.

    Its empty slots are for those of the tracks, expected at ``boxes`` (M, 4) and ``five``
    (M, 5, 2), that none of what it saw can be.
    """
    seen = scores >= GUESS
    way = (places.mean(dim=1)[:, None] - five.mean(dim=1)).norm(dim=2) / sizes(boxes)
    reach = REACH + WANDER * since
    could = (way <= reach) & seen[:, None] & known
    missed = known & ~pairs(torch.where(could, way / reach, torch.inf)).any(dim=0)
    # the first who is missed gets the first slot that is empty, and so on
    who = (~missed).int().sort(stable=True).indices
    rank = seen.int().sort(stable=True).indices.sort().indices
    who = who[rank]
    return torch.where((~seen & missed[who])[:, None, None], five[who], places)


@fused
def go_on(
    elapsed: Tensor,
    mesh: Tensor,
    points: Tensor,
    presence: Tensor,
    scores: Tensor,
    expected: Tensor,
    known: Tensor,
    count: Tensor,
    *values: Tensor,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor]:
    """Return what Followed holds, what Tracks, ``values``, hold next, and how many ids there are.

    ``count`` is how many there were.
    """
    tracks = Tracks(*values)
    measured = torch.cat([mesh, points], dim=1)
    boxes = torch.cat([mesh.amin(dim=1), mesh.amax(dim=1)], dim=1)
    there, same = _matched(measured, boxes, presence, scores, tracks, expected, known)
    old, row = same.any(dim=1), same.int().argmax(dim=1)
    mine = Tracks(*(values[row] for values in tracks))

    raw = measured.double()
    gap = elapsed.clamp_min(1e-6)
    motions = moved(mine.motions, raw, gap)
    smooth = points_of(motions)
    # who was not there in the frame before comes back as it is
    goes_on = old & (mine.since <= elapsed) & torch.isfinite(smooth).all(dim=2).all(dim=1)
    motions = chosen(goes_on, motions, begun(raw))
    smooth = torch.where(goes_on[:, None, None], smooth.to(measured), measured)
    flat = smooth[:, :POINTS]
    shown = torch.cat([flat.amin(dim=1), flat.amax(dim=1)], dim=1)

    past = mine.since.clamp_min(1e-6)[:, None]
    share = (1 - (-mine.since / INERTIA).exp())[:, None]
    ahead = (middles(boxes) - middles(mine.boxes)) / past
    speed = torch.where(old[:, None], mine.speed + share * (ahead - mine.speed), 0)
    each = (points - mine.five) / past[..., None]
    drift = mine.drift + share[..., None] * (each - mine.drift)
    drift = torch.where(old[:, None, None], drift, 0)
    found = scores >= GUESS
    area = (shown[:, 2:] - shown[:, :2]).prod(dim=1)
    rank = torch.where(there, torch.where(old & mine.led, LARGER * area, area), 0)
    order = rank.sort(descending=True, stable=True).indices
    number = torch.where(old, mine.number, -1)[order]
    lost = known & ~same.any(dim=0)
    quiet = ~lost.any() & ~(there & ~(presence >= SURE)).any() & ~(found & ~there).any()

    there, smooth, shown, old = there[order], smooth[order], shown[order], old[order]
    first = torch.arange(len(there), device=there.device) == 0
    leads = there & first & ~(lost & tracks.led).any()
    new = there & ~old
    ids = torch.where(new, count + new.cumsum(dim=0) - 1, number)
    ids = torch.where(there, ids, -1)
    score = torch.where(found, scores, mine.score)[order]
    score = torch.where(there, score, 0)
    since = torch.where(there, 0, torch.inf).to(mine.since)
    unsure = torch.where(found, 0, mine.unsure)[order]
    moved_on = [
        x[order] for x in (speed.to(mine.speed), boxes, points, drift.to(mine.drift), *motions)
    ]
    now = (ids, since, unsure, leads, score, *moved_on)
    gone = list(tracks)
    gone[1] = torch.where(lost, tracks.since, torch.inf)
    both = [torch.cat(pair) for pair in zip(now, gone, strict=True)]
    latest = both[1].sort(stable=True).indices[: len(known)]
    followed = (smooth[:, :POINTS], smooth[:, POINTS:], shown, score, there, ids, leads, quiet)
    return followed, tuple(values[latest] for values in both), count + new.sum()


def _matched(
    measured: Tensor,
    boxes: Tensor,
    presence: Tensor,
    scores: Tensor,
    tracks: Tracks,
    expected: Tensor,
    known: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return in which slots there is a face, bool (K,), and whose it is, bool (K, M)."""
    sound = torch.isfinite(measured).all(dim=2).all(dim=1)
    found = scores >= GUESS
    certain = found & real(scores, presence) & sound
    # by itself it would be no face: but there was one
    weak = (presence >= GONE) & ~certain & sound
    way, growth = apart(expected, boxes)
    reach = torch.where(certain[:, None], REACH + WANDER * tracks.since, JUMP)
    near = (way <= reach) & (growth <= torch.where(certain, 2 * GROWTH, GROWTH)[:, None])
    sure = (presence >= SURE) | found
    could = near & (certain | weak)[:, None] & (sure[:, None] | (tracks.unsure <= UNCONFIRMED))
    cost = torch.where(could & known, way / reach + growth, torch.inf)
    # two cannot both be where they seem to be: a mesh has slipped from its face to another's
    nearest = torch.where(certain, -1, cost.amin(dim=1))
    line = torch.arange(len(nearest), device=nearest.device)
    better = (nearest < nearest[:, None]) | ((nearest == nearest[:, None]) & (line < line[:, None]))
    over = intersection_over_smaller(boxes, boxes) > SHARED
    held = certain | (nearest < torch.inf)
    slipped = weak & (over & better & held).any(dim=1)
    same = pairs(torch.where(slipped[:, None], torch.inf, cost))
    return certain | same.any(dim=1), same
