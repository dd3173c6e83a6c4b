"""Watching: the faces of a clip, frame by frame, with ids that last.

A detector looks at the whole frame now and then; in between the mesh network finds each face where
it is expected, at a tenth of the cost, and notices when it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from mien.errors import InvalidOption
from mien.pipeline.finder import FaceFinder
from mien.pipeline.policy import exact
from mien.pipeline.stopwatch import Stopwatch
from mien.stages.align import align
from mien.stages.association import Track
from mien.stages.cut import CutFinder
from mien.stages.embed import Embedder
from mien.stages.glimpse import glimpses
from mien.stages.landmark import ROUNDS
from mien.stages.likeness import Likeness
from mien.stages.steady import Steady
from mien.stages.track import SURE, Tracker
from mien.stages.visible import yaws
from mien.types import Faces, Frame

LOOK = Fraction(1, 5)
"""Seconds after which the detector looks for new faces."""

LOOK_AGAIN = Fraction(1, 10)
"""Seconds after which it looks again for a face that is lost."""

PAUSE = 1
"""Seconds without a frame that are as good as a cut."""

FIRST, OFTEN, SELDOM = 5, Fraction(1, 5), Fraction(1)
"""A face is embedded FIRST times, every OFTEN seconds, and then every SELDOM seconds."""

MOVING = 0.05
"""Share of its size by which a face is expected to move on, from which it is also looked for where
it was, should it not be seen clearly."""

TURNED = 35.0
"""Yaw in degrees from which an embedding says little."""


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """The faces in one frame of a clip."""

    faces: Faces
    """Smoothed, with a mesh and ids, the largest of those first that came together."""

    presence: Tensor
    """float32 (K,): logits that there is a face."""

    likenesses: tuple[Likeness, ...]
    """What each face looked like on average."""

    doubtful: tuple[bool, ...]
    """Whether it is yet to be settled that a face is still the person of its id."""

    waiting: Faces
    """Lost faces where they are expected, with ids."""

    fresh: bool
    """Whether the clip, or after a cut the shot, begins with this frame."""

    looked: bool
    """Whether the detector has looked at this frame."""


class Watcher:
    """Watches one clip. Frames must come in order.

    ``look`` is the time in seconds after which the detector looks for new faces, 0 for every frame.
    With ``largest_only`` smaller faces may be missing, as in a FaceFinder. ``smooth`` tells whether
    faces are steadied. Raises InvalidOption.
    """

    def __init__(
        self,
        finder: FaceFinder,
        embedder: Embedder,
        *,
        look: Fraction | float = LOOK,
        largest_only: bool = False,
        smooth: bool = True,
    ) -> None:
        if not 0 <= look <= PAUSE:
            raise InvalidOption("look", look, f"0 to {PAUSE} seconds")
        self.finder, self.embedder = finder, embedder
        self.look, self.largest_only = exact(look), largest_only
        self._cuts, self._tracker = CutFinder(), Tracker()
        self._steady = Steady() if smooth else None
        self._looked = Fraction(0)
        self._learnt: dict[int, Fraction] = {}
        self._seldom, self._rounds = Fraction(0), ROUNDS

    def spare(self, seldom: Fraction, rounds: int | None) -> None:
        """Do less from the next frame on; 0 and None do all again.

        The detector rests for ``seldom`` seconds at least, half of that while a face is lost, and
        followed faces have their mesh placed at most ``rounds`` times.
        """
        self._seldom, self._rounds = seldom, ROUNDS if rounds is None else rounds

    def __call__(self, frame: Frame, watch: Stopwatch | None = None) -> Sight:
        """Return the faces in the next frame; its ``time`` must not be None.

        A frame that is not later than the one before, or much later, begins a new shot.
        """
        watch = watch or Stopwatch()
        time, tracker = frame.time, self._tracker
        if time is None:
            raise InvalidOption("time", None, "the time of the frame, as a Fraction of seconds")
        with watch("track"):
            change = self._cuts(frame.view)
            before = tracker.time
            fresh = change == "cut" or before is None or not 0 < time - before <= PAUSE
            if fresh:
                tracker.reset()
            expected = tracker.expected(time)
        all_stand = self._follow(frame, expected, watch)
        if change == "doubt":
            tracker.doubt()
        since = time - self._looked
        look, again = max(self.look, self._seldom), max(LOOK_AGAIN, self._seldom / 2)
        due = since >= look or (bool(tracker.lost) and since >= again)
        looked = fresh or due or not all_stand or change == "doubt"
        if looked:
            self._look(frame, watch)
        with watch("track"):
            tracker.glance(glimpses(frame.view, tracker.faces))
        self._learn(frame, watch)
        with watch("track"):
            seen, faces = tracker.seen, tracker.faces
            if self._steady is not None:
                faces = self._steady(faces, time)
            return Sight(
                faces=faces,
                presence=torch.tensor([track.presence for track in seen]),
                likenesses=tuple(track.person for track in seen),
                doubtful=tuple(track.doubtful for track in seen),
                waiting=Faces.joined([track.at(time) for track in tracker.lost]),
                fresh=fresh,
                looked=looked,
            )

    def _follow(self, frame: Frame, expected: Faces, watch: Stopwatch) -> bool:
        """Find the faces that were seen before; return whether all are found."""
        if not len(expected):
            return True
        with watch("landmark"):
            place, rounds = self.finder.landmarker, self._rounds
            located, presence = place(frame.view, expected, rounds=rounds)
            before = self._tracker.before
            weak = [row for row, logit in enumerate(presence.tolist()) if logit < SURE]
            if weak:  # who moved may have stopped
                way = (expected.boxes - before.boxes)[:, :2].norm(dim=1) / expected.areas.sqrt()
                moving = (way > MOVING).tolist()
                weak = [row for row in weak if moving[row]]
            if weak:
                stopped, logits = place(frame.view, before[weak], rounds=rounds)
                rows = [located[i] for i in range(len(located))]
                for i, row in enumerate(weak):
                    if logits[i] > presence[row]:
                        rows[row], presence[row] = stopped[i], logits[i]
                located = Faces.joined(rows)
        with watch("track"):
            return self._tracker.accept(located, presence)

    def _look(self, frame: Frame, watch: Stopwatch) -> None:
        assert frame.time is not None
        self._looked = frame.time
        found = self.finder(frame.view, largest_only=self.largest_only, watch=watch)

        def presence(faces: Faces) -> Tensor:
            with watch("landmark"):
                return self.finder.landmarker(frame.view, faces)[1]

        self._tracker.match(found, presence)

    def _learn(self, frame: Frame, watch: Stopwatch) -> None:
        """Embed those faces about which there is something to learn, and settle who they are."""
        assert frame.time is not None
        due = [track for track in self._tracker.seen if self._due(track, frame.time)]
        if not due:
            return
        with watch("embed"):
            faces = Faces.joined([track.face for track in due])
            embeddings = self.embedder(align(frame, faces, self.embedder.contract))
            good = [_clear(track) for track in due]
            self._tracker.settle(due, embeddings, good, self.embedder.contract.same_person)
            self._learnt |= {track.id: frame.time for track in due}
            alive = {track.id for track in self._tracker.tracks}
            self._learnt = {k: v for k, v in self._learnt.items() if k in alive}

    def _due(self, track: Track, time: Fraction) -> bool:
        if not track.person.count:
            return True
        pause = OFTEN if track.person.count < FIRST else SELDOM
        rested = time - self._learnt.get(track.id, time - SELDOM) >= pause
        return (rested or track.doubtful or not track.person.good) and _clear(track)


def _clear(track: Track) -> bool:
    """Return whether a face is seen so clearly that its embedding tells who it is."""
    if track.presence < SURE or track.face.mesh is None:
        return False
    return abs(float(yaws(track.face.mesh)[0])) <= TURNED
