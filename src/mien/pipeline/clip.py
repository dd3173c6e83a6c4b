"""A clip, frame by frame: watch, follow, make anew, lay by degrees.

A frame goes through three steps. ``see`` and ``finish`` know the frames before and must be called
in their order; ``make``, where nearly all of the time goes, knows one frame, and of the few before
only what lies before their faces: any thread may do it, in any order, while others see later
frames. The result is the same, bit for bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from time import perf_counter

import torch
from torch import Tensor

from mien.choice import is_number
from mien.errors import InvalidOption
from mien.pipeline.casting import Cast
from mien.pipeline.covering import Coverer, Covers
from mien.pipeline.fading import Fader, Wish
from mien.pipeline.following import Follower, Roles
from mien.pipeline.frame import Pipeline, largest_only, wanted
from mien.pipeline.governor import Governor
from mien.pipeline.guarding import ClipGuard
from mien.pipeline.patch import Patches, lay
from mien.pipeline.policy import CLEAR, Inspector, Log, Policy, Reason, exact
from mien.pipeline.stopwatch import Stopwatch
from mien.pipeline.watching import LOOK, Sight, Watcher
from mien.types import Event, Faces, Fault, Frame, Swapped

MEMORY = Fraction(2)
"""Seconds for which a patch may be carried along, and to spare; see ClipPipeline.skip."""

FARTHEST = 2.0
"""The distance that is noted of a face that cannot be seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What is to be done to one frame."""

    frame: Frame
    time: Fraction
    sight: Sight
    roles: Roles
    wrong: dict[int, Reason | None]
    """What is wrong with each face, by its id."""

    targets: tuple[int, ...]
    """Which of the roles' pairs are made anew."""

    covers: Covers | None
    """What is before the faces that may be laid; None if nothing is kept there."""

    carried: tuple[int, ...]
    """Ids of faces that are not made anew and may be laid as they were."""

    spared: frozenset[int]
    """Ids of those among them that are not made anew to save time."""

    watch: Stopwatch


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The faces of one frame, made anew."""

    seen: Seen
    patches: Patches | None
    shown: dict[int, int]
    """For each id that has a patch its number among ``patches``."""

    reasons: dict[int, str]
    """What was wrong with what the network made of a face, by its id."""

    fronts: dict[int, Tensor]
    """How far faces are seen, float32 (1, S, S), that may be laid as they were, by their ids."""


class ClipPipeline:
    """Swaps faces in the frames of one clip, in order; a new clip needs a new one.

    ``cast`` and ``strength`` are as for Pipeline; how people keep their roles says Follower.
    ``policy`` says what is done about bad faces. ``look`` is the time in seconds after which the
    detector looks for new faces (0: in every frame); ``smooth`` tells whether faces are steadied.
    A clip of one frame comes out as the picture would, unless the policy finds its face bad.
    ``governor`` is for live streams: when a frame takes too long, the next ones are done with less
    effort. The result then depends on the machine; frames are made by one thread. Its ``scale`` is
    for the caller, who must resize frames.

    Raises InvalidOption, SpaceMismatch.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        cast: Cast,
        *,
        strength: float = 1.0,
        policy: Policy | None = None,
        look: Fraction | float = LOOK,
        smooth: bool = True,
        governor: Governor | None = None,
    ) -> None:
        pipeline.check(cast, strength)
        self.pipeline, self.cast, self.strength = pipeline, cast, strength
        self.policy = policy or Policy()
        self.look, self.smooth, self.governor = look, smooth, governor
        self._turn = 0
        self._guard = None if pipeline.guard is None else ClipGuard(pipeline.guard, cast)
        embedder = pipeline.embedder
        self._watcher = Watcher(
            pipeline.finder,
            embedder,
            look=look,
            largest_only=largest_only(cast),
            smooth=smooth,
        )
        same_person = embedder.contract.same_person
        self._follower = Follower(cast, pipeline.limit(cast), same_person)
        self._who_matters = cast.by_person or cast.faces != "all"
        self._inspector, self._log = Inspector(), Log()
        self._fader = Fader(self.policy, pipeline.swap.contract)
        self._bad: dict[int, Fraction] = {}
        occlusion, contract = pipeline.make.occlusion, pipeline.swap.contract
        self._coverer = None if occlusion is None else Coverer(occlusion, contract, smooth=smooth)
        self._unmade: dict[int, Fraction | None] = {}
        """Since when faces that were made anew are not; None while they are."""

    @property
    def events(self) -> tuple[Event, ...]:
        """What was wrong with faces that were to be swapped, in the frames finished so far."""
        return self._log.events

    def __call__(self, frame: Frame) -> Swapped:
        """Swap the faces of the next frame, in place: its pixels change."""
        start = perf_counter()
        done = self.finish(self.make(self.see(frame)))
        if self.governor is not None:
            self.governor(perf_counter() - start)
        return done

    def run(self, frames: Iterable[Frame], *, threads: int = 1) -> Iterator[Swapped]:
        """Yield what was done to each of ``frames``, in order; up to ``threads`` are made at once.

        At most ``threads`` + 1 frames are in memory beyond those that the caller keeps. An error,
        also one of ``frames``, is raised after what came before it, as with one thread.
        """
        if not is_number(threads) or threads < 1:
            raise InvalidOption("threads", threads, "1 or more")
        if threads > 1 and self.governor is not None:
            raise InvalidOption("threads", threads, "1 with a governor, which times each frame")
        if threads == 1:
            yield from map(self, frames)
            return
        pool, waiting = ThreadPoolExecutor(threads), deque[Future[Made]]()
        source, failure = iter(frames), None
        try:
            while failure is None:
                try:
                    waiting.append(pool.submit(self.make, self.see(next(source))))
                except StopIteration:
                    break
                except Exception as error:  # noqa: BLE001 - raised when what came before is done
                    failure = error
                if len(waiting) > threads:
                    yield self.finish(waiting.popleft().result())
            while waiting:
                yield self.finish(waiting.popleft().result())
            if failure is not None:
                raise failure
        finally:
            pool.shutdown(cancel_futures=True)

    def see(self, frame: Frame) -> Seen:
        """Find out who is in the next frame, and what is to be done; changes no pixel.

        Raises Refused if a face must not be swapped: what was made of the clip is then to be given
        up.
        """
        watch = Stopwatch()
        idle = self._spare()
        if self._guard is not None and frame.time is not None:
            with watch("content"):
                self._guard.sample(frame)
        sight = self._watcher(frame, watch)
        assert frame.time is not None  # the watcher refuses such frames
        time = frame.time
        with watch("track"):
            roles = self._follower(sight, time)
            doubtful = tuple(doubt and self._who_matters for doubt in sight.doubtful)
            size = frame.height, frame.width
            wrong = self._inspector(sight.faces, sight.presence, doubtful, size)
            bad = {number for number, reason in wrong.items() if reason is not None}
            self._bad = {number: self._bad.get(number, time) for number in bad}
        numbers = roles.faces.ids.tolist()
        players = [numbers[face] for face, _ in roles.pairs]
        if self._guard is not None and players:
            with watch("guard"):
                rows_of = [roles.rows[face] for face, _ in roles.pairs]
                likenesses = [sight.likenesses[row] for row in rows_of]
                self._guard(frame, sight.faces[rows_of], sight.presence[rows_of], likenesses)
        # who has no patch yet is made also in an idle frame
        spared = frozenset(n for n in players if idle and n in self._unmade)
        targets = tuple(
            i for i, n in enumerate(players) if self._worth(n, time) and n not in spared
        )
        made = [numbers[roles.pairs[i][0]] for i in targets]
        places = Faces.joined([roles.faces, sight.waiting])
        carried = self._carried(made, places, time)
        covers = None
        if self._coverer is not None:
            rows = {number: row for row, number in enumerate(places.ids.tolist())}
            shown = places[[rows[number] for number in (*made, *carried)]]
            covers = self._coverer(frame, shown, fresh=sight.fresh)
        return Seen(frame, time, sight, roles, wrong, targets, covers, carried, spared, watch)

    def _spare(self) -> bool:
        """Do what the governor says; return whether faces are carried along in this frame."""
        if self.governor is None:
            return False
        effort = self.governor.effort
        self._watcher.spare(effort.look, effort.rounds)
        idle = self._turn % effort.every != 0
        self._turn = self._turn + 1 if effort.every > 1 else 0
        return idle

    def _carried(self, made: list[int], places: Faces, time: Fraction) -> tuple[int, ...]:
        """Return which faces at ``places`` are not ``made``, but may still be laid as they were."""
        held = self.policy.hold if self.policy.action == "hold" else 0
        most, before = exact(held) + exact(self.policy.fade), self._unmade
        self._unmade = dict.fromkeys(made)
        carried = []
        for number in places.ids.tolist():
            if number in before and number not in self._unmade:
                since = before[number]
                since = time if since is None else since
                if time - since <= most:
                    self._unmade[number] = since
                    carried.append(number)
        return tuple(carried)

    def make(self, seen: Seen) -> Made:
        """Make the faces anew; may run in any thread and any order, before ``finish``."""
        pairs = [seen.roles.pairs[i] for i in seen.targets]
        covers, fronts = seen.covers, dict[int, Tensor]()
        if covers is not None:
            with seen.watch("occlusion"):
                covers.settle()
                fronts = covers.seen_at(list(seen.carried), self.pipeline.swap.contract)
        if not pairs:
            return Made(seen, None, {}, {}, fronts)
        faces, roles = [face for face, _ in pairs], [role for _, role in pairs]
        own = None
        if self.strength < 1:
            likenesses = [seen.sight.likenesses[seen.roles.rows[face]] for face in faces]
            own = torch.stack([likeness.mean for likeness in likenesses])
        numbers = seen.roles.faces.ids[faces].tolist()
        patches, good, reasons = self.pipeline.make(
            seen.frame,
            seen.roles.faces[faces],
            wanted(self.cast, roles),
            strength=self.strength,
            own=own,
            watch=seen.watch,
            crops=None if covers is None else covers.crops(numbers),
            seen=None if covers is None else covers.seen,
        )
        wrong = {numbers[i]: r for i, r in enumerate(reasons) if r is not None}
        if covers is not None and wrong:
            with seen.watch("occlusion"):
                fronts |= covers.seen_at(list(wrong), self.pipeline.swap.contract)
        shown = {numbers[i]: row for row, i in enumerate(good)}
        return Made(seen, patches, shown, wrong, fronts)

    def finish(self, made: Made) -> Swapped:
        """Lay the faces over their frame, in place, as opaque as they may be."""
        return self._finish(made, laying=True)

    def skip(self, seen: Seen | Made) -> Swapped:
        """Pass over a frame that is needed no more, as if its faces had been laid.

        Whatever depends on the frames before is then as it would be, but for patches: to carry
        them on, those of the last MEMORY seconds must be made. Changes no pixel.
        """
        made = seen if isinstance(seen, Made) else self._stand_in(seen)
        return self._finish(made, laying=False)

    def _stand_in(self, seen: Seen) -> Made:
        """Return ``seen`` with patches that only take a place."""
        faces = seen.roles.faces[[seen.roles.pairs[i][0] for i in seen.targets]]
        if not len(faces):
            return Made(seen, None, {}, {}, {})
        size, device = self.pipeline.swap.contract.size, seen.frame.pixels.device
        shape = len(faces), seen.frame.pixels.shape[2], size, size
        nothing = torch.zeros(1, device=device)
        matrices = torch.zeros(len(faces), 2, 3)
        mask = nothing.expand(len(faces), size, size)
        patches = Patches(nothing.expand(shape), mask, mask, matrices, faces.areas)
        return Made(seen, patches, {n: row for row, n in enumerate(faces.ids.tolist())}, {}, {})

    def _finish(self, made: Made, *, laying: bool) -> Swapped:
        seen, frame = made.seen, made.seen.frame
        faces, waiting = seen.roles.faces, seen.sight.waiting
        numbers = faces.ids.tolist()
        logits = seen.sight.presence.tolist()
        wishes, wrong = [], {}
        for face, role in seen.roles.pairs:
            number = numbers[face]
            reason: Reason | None = "rejected" if number in made.reasons else seen.wrong[number]
            row = made.shown.get(number)
            patch = None if row is None or made.patches is None else made.patches[[row]]
            clear = logits[seen.roles.rows[face]] >= CLEAR
            spared = number in seen.spared
            wishes.append(Wish(number, role, reason is None, patch, clear=clear, spared=spared))
            if reason is not None:
                wrong[number] = reason
        for number, role in seen.roles.keepers.items():
            wishes.append(Wish(number, role, good=False, patch=None))
            wrong[number] = "lost"
        self._log(seen.time, wrong, self.policy.action)
        places = Faces.joined([faces, waiting])
        laid = self._fader(wishes, places, seen.time, fresh=seen.sight.fresh, fronts=made.fronts)
        carried = [row for row, n in enumerate(waiting.ids.tolist()) if n in laid.numbers]
        unseen = waiting[carried]
        all_faces = Faces.joined([faces, replace(unseen, scores=torch.zeros_like(unseen.scores))])
        index = {number: row for row, number in enumerate(all_faces.ids.tolist())}
        layers = None
        if laying and laid.patches is not None:
            layers = lay(frame, laid.patches, laid.opacities, seen.watch)
        return Swapped(
            frame=frame,
            faces=all_faces,
            chosen=tuple(index[number] for number in laid.numbers),
            roles=laid.roles,
            faults=tuple(Fault(index[n], reason) for n, reason in made.reasons.items()),
            distances=_with_unseen(seen.roles.distances, len(carried)),
            layers=layers,
            opacities=tuple(laid.opacities.tolist()),
            timings=seen.watch.seconds,
        )

    def _worth(self, number: int, time: Fraction) -> bool:
        """Return whether a face is to be made anew: while it is good, or fades and may be seen."""
        since = self._bad.get(number)
        if since is None:
            return True
        return self.policy.action == "fade" and time - since <= exact(self.policy.fade)


def _with_unseen(distances: Tensor | None, count: int) -> Tensor | None:
    """Return ``distances`` (K, R) with rows for ``count`` faces that cannot be seen."""
    if distances is None or not count:
        return distances
    return torch.cat([distances, distances.new_full((count, distances.shape[1]), FARTHEST)])
