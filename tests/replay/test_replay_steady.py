"""Faces in a frame of fixed capacity are followed and smoothed as those of a clip are."""

from __future__ import annotations

from copy import deepcopy
from math import sin

import pytest
import torch
from moving import CLOUD, FIVE, at
from torch.utils._python_dispatch import TorchDispatchMode
from waiting import Watch

from mien.pipeline.following import LARGER
from mien.replay.foresight import Foresight
from mien.replay.pairs import pairs
from mien.replay.shot import Shots
from mien.replay.steady import SteadySlots
from mien.stages.cut import CutFinder
from mien.stages.steady import Steady
from mien.stages.track import KEEP, UNCONFIRMED
from mien.types import Faces

pytestmark = pytest.mark.usefixtures("without_gradients")

FRAME = torch.zeros(3, 48, 64)
RATE = 30


class World:
    """Faces by hand before a detector and a mesh network by hand.

    Both see those of ``faces``, whose places are (x, y, size), that are not in ``hidden``; the
    detector misses those in ``missed``, too. With ``foresight`` frames are followed as in a Replay.
    """

    foresight = None

    def __init__(self, slots, noise=0.0):
        self.steady = SteadySlots((48, 64), slots=slots)
        if World.foresight is not None:
            self.foresight = World.foresight()
        self.slots, self.noise = slots, noise
        self.draw = torch.Generator().manual_seed(0)
        self.faces, self.hidden, self.missed = {}, set(), set()
        self.presence, self.measured = 30.0, {}

    def place(self, points):
        """Return the mesh of the nearest face that can be seen; elsewhere anything at all."""
        meshes, fives, presences, moving = [], [], [], []
        for at_ in points.mean(dim=1):
            near = [
                (float((at_ - torch.tensor([x, y])).norm()) / size, name)
                for name, (x, y, size) in self.faces.items()
                if name not in self.hidden
            ]
            way, name = min(near, default=(9, None))
            if way < 0.6:
                mesh, five = self.measured[name]
            else:
                mesh, five = CLOUD[:, :2] * 30 + at_, FIVE * 30 + at_
            meshes.append(mesh)
            fives.append(five)
            presences.append(self.presence if way < 0.6 else -5.0)
            off = float((five.mean(dim=0) - at_).norm() / (five[0] - five[1]).norm())
            moving.append(off > 0.05)
        tensors = torch.tensor(presences), torch.tensor(moving)
        return torch.stack(meshes), torch.stack(fives), *tensors

    def see(self, elapsed=1 / RATE, **faces):
        """Return the faces by id, and what was followed."""
        self.faces = faces
        for name, (x, y, size) in faces.items():
            middle = torch.tensor([x, y])
            mesh, five = (
                cloud * size + middle + self.noise * torch.randn(cloud.shape, generator=self.draw)
                for cloud in (CLOUD[:, :2], FIVE)
            )
            self.measured[name] = mesh, five
        seen = [n for n in faces if n not in self.hidden | self.missed][: self.slots]
        places = [FIVE * faces[n][2] + torch.tensor(faces[n][:2]) + 1.5 for n in seen]
        places += [FIVE * 10] * (self.slots - len(seen))
        scores = torch.tensor([0.9] * len(seen) + [0.0] * (self.slots - len(seen)))
        gap = torch.tensor(elapsed, dtype=torch.float64)
        made = self.made(elapsed, gap, torch.stack(places), scores)
        found = {}
        for row, number in enumerate(made.ids.tolist()):
            assert (number >= 0) == bool(made.there[row])
            if number >= 0:
                middle = made.points[row].mean(dim=0)
                near = {n: float((middle - torch.tensor(p[:2])).norm()) for n, p in faces.items()}
                found[min(near, key=near.get)] = number
        return found, made

    def made(self, elapsed, gap, places, scores):
        """Return the faces, followed where that is right."""
        steady, ahead = self.steady, self.foresight
        if ahead is None or not ahead.follow(elapsed):
            made = steady(FRAME, places, scores, self.place, gap)
            if ahead is not None:
                assert not ahead.told(bool(made.quiet), followed=False)
            return made
        known = steady.state()
        made = steady.follow(self.place, gap)
        told, quiet = steady.confirmed(made, FRAME, places, scores)
        if not ahead.told(bool(quiet), followed=True):
            return made._replace(scores=told)
        steady.take(known)
        return self.made(elapsed, gap, places, scores)


@pytest.fixture(autouse=True, params=[None, Foresight], ids=["looked for", "followed"])
def way(request, monkeypatch):
    """Faces are looked for in every frame, or followed where that will do."""
    monkeypatch.setattr(World, "foresight", request.param)


# The filter


def test_it_is_the_filter_of_clips():
    world, steady, worst = World(4, noise=0.3), Steady(), 0.0
    gaps = torch.rand(60, generator=torch.Generator().manual_seed(1)) * 0.05 + 0.01
    time = 0.0
    for i, gap in enumerate(gaps.tolist()):
        time += gap if i else 0
        size = 90 + 20 * sin(i / 5)
        faces = {"a": (200 + 4 * i, 150 + 30 * sin(i / 4), size), "b": (600.0, 300 - 0.1 * i, 80)}
        found, made = world.see(gap if i else 0.0, **faces)
        assert found == {"a": 0, "b": 1}
        rows = [made.ids.tolist().index(number) for number in (0, 1)]
        mesh, points = (
            torch.stack(each) for each in zip(*map(world.measured.get, "ab"), strict=True)
        )
        mesh = torch.nn.functional.pad(mesh, (0, 1))
        boxes = torch.cat([mesh[..., :2].amin(dim=1), mesh[..., :2].amax(dim=1)], dim=1)
        wanted = steady(Faces(boxes, points, torch.ones(2), torch.tensor([0, 1]), mesh), at(time))
        for ours, theirs in (
            (made.mesh, wanted.mesh[..., :2]),
            (made.points, wanted.points),
            (made.boxes, wanted.boxes),
        ):
            worst = max(worst, float((ours[rows] - theirs).abs().max()))
    assert worst < 1e-3


def test_a_still_face_trembles_less():
    world, raw, kept = World(1, noise=0.1), [], []
    for i in range(40):
        _, made = world.see(i and 1 / RATE, a=(200.0, 150.0, 100.0))
        raw.append(world.measured["a"][1])
        kept.append(made.points[0])
    before, after = (torch.stack(x)[10:].std(dim=0).mean() for x in (raw, kept))
    assert float(after) < 0.5 * float(before)


# Who is who


def test_pairs_are_the_greedy_ones():
    draw = torch.Generator().manual_seed(0)
    for rows, columns in ((4, 8), (5, 3), (1, 2)):
        for _ in range(20):
            cost = torch.rand(rows, columns, generator=draw)
            cost = torch.where(cost > 0.7, torch.inf, cost)
            wanted = torch.zeros(rows, columns, dtype=torch.bool)
            left = cost.clone()
            while bool((left < torch.inf).any()):
                row, column = divmod(int(left.argmin()), columns)
                wanted[row, column] = True
                left[row], left[:, column] = torch.inf, torch.inf
            assert torch.equal(pairs(cost), wanted)


def test_two_that_cross_keep_their_ids():
    world = World(4)
    for i in range(40):
        x = 100 + 10 * i
        # in the middle of it one hides the other
        world.hidden = {"b"} if abs(x - (500 - 10 * i)) < 60 else set()
        found, _ = world.see(i and 1 / RATE, a=(x, 150.0, 100.0), b=(500 - 10 * i, 150.0, 90.0))
        assert found == ({"a": 0} if world.hidden else {"a": 0, "b": 1})


def test_a_face_that_the_detector_misses_is_carried():
    world = World(2)
    world.see(0.0, a=(100.0, 150.0, 80.0))
    for i in range(1, 30):
        world.missed = {"a"} if i > 5 else set()
        found, made = world.see(a=(100 + 9.0 * i, 150.0, 80.0))
        assert found == {"a": 0}
        assert float(made.scores[0]) == pytest.approx(0.9)
        off = made.points[0].mean(dim=0) - (
            FIVE.mean(dim=0) * 80 + torch.tensor([100 + 9.0 * i, 150])
        )
        assert float(off.norm()) < 0.5  # the filter goes on, too


def test_a_doubtful_one_is_carried_for_a_while_only():
    world = World(2)
    world.presence = 12.0
    for i in range(5):
        world.see(i and 1 / RATE, a=(100.0, 150.0, 80.0))
    world.missed, count = {"a"}, 0
    while world.see(a=(100.0, 150.0, 80.0))[0]:
        count += 1
    assert count == pytest.approx(UNCONFIRMED * RATE, abs=1)


def test_who_vanishes_comes_back_as_the_same_but_not_after_long():
    world = World(2)
    face = (100.0, 150.0, 80.0)
    world.see(0.0, a=face)
    assert world.see(a=face, b=(400.0, 150.0, 90.0))[0] == {"a": 0, "b": 1}
    world.hidden = {"a"}
    for _ in range(int(KEEP * RATE) - 2):
        assert world.see(a=face, b=(400.0, 150.0, 90.0))[0] == {"b": 1}
    world.hidden = set()
    found, made = world.see(a=face, b=(400.0, 150.0, 90.0))
    assert found == {"a": 0, "b": 1}
    row = made.ids.tolist().index(0)
    assert torch.equal(made.points[row], world.measured["a"][1])  # smoothing begins anew
    world.hidden = {"a"}
    for _ in range(int(KEEP * RATE) + 2):
        world.see(a=face, b=(400.0, 150.0, 90.0))
    world.hidden = set()
    assert world.see(a=face, b=(400.0, 150.0, 90.0))[0] == {"a": 2, "b": 1}


def test_a_mesh_that_slips_onto_another_face_is_no_second_face():
    world = World(3)
    world.see(0.0, a=(100.0, 150.0, 80.0), b=(150.0, 150.0, 90.0))
    world.hidden = {"a"}
    found, made = world.see(a=(100.0, 150.0, 80.0), b=(140.0, 150.0, 90.0))
    assert found == {"b": 0}
    assert int(made.there.sum()) == 1


def test_more_faces_than_slots():
    world = World(2)
    faces = {name: (100.0 + 150 * i, 150.0, 60.0 + i) for i, name in enumerate("abcd")}
    first, _ = world.see(0.0, **faces)
    assert len(first) == 2
    for _ in range(5):
        assert world.see(**faces)[0] == first
    faces = dict(reversed(faces.items()))  # the detector now prefers the others
    second, _ = world.see(**faces)
    assert set(second) == {"c", "d"}
    assert set(second.values()) == {2, 3}
    back, _ = world.see(**dict(reversed(faces.items())))
    assert back == first


def test_the_largest_remains_it():
    world = World(2)

    def leader(**faces):
        found, made = world.see(**faces)
        names = {number: name for name, number in found.items()}
        led = made.ids[made.leads].tolist()
        return names[led[0]] if led else None

    a, b = (100.0, 150.0, 80.0), (400.0, 150.0, 78.0)
    assert leader(a=a, b=b) == "a"
    assert leader(a=a, b=(400.0, 150.0, 82.0)) == "a"
    world.hidden = {"a"}
    assert leader(a=a, b=b) is None  # waited for
    world.hidden = set()
    assert leader(a=a, b=b) == "a"
    larger = 80 * (LARGER * 1.1) ** 0.5
    assert leader(a=a, b=(400.0, 150.0, larger)) == "b"
    assert leader(a=a, b=b) == "b"


@pytest.mark.parametrize("elapsed", [0.0, -0.1, 1.5, None])
def test_another_shot_knows_nobody(elapsed):
    world = World(1)
    for i in range(3):
        assert world.see(i and 1 / RATE, a=(100.0, 150.0, 80.0))[0] == {"a": 0}
    if elapsed is None:
        world.steady.shots.forward = lambda pixels, before: torch.tensor(True)
    found, made = world.see(1 / RATE if elapsed is None else elapsed, a=(101.0, 150.0, 80.0))
    assert found == {"a": 1}
    assert torch.equal(made.points[0], world.measured["a"][1])


def test_what_is_not_finite_is_forgotten():
    world = World(1)
    world.see(0.0, a=(100.0, 150.0, 80.0))
    world.noise = float("nan")
    assert not world.see(a=(100.0, 150.0, 80.0))[1].there.any()
    world.noise = 0.0
    found, made = world.see(a=(100.0, 150.0, 80.0))
    assert found == {"a": 0}
    assert torch.isfinite(made.mesh).all()


# Cuts


def test_cuts_are_those_of_clips(load):
    pictures = [torch.from_numpy(load(name)) for name in ("ada", "ben", "mei")]
    ada = pictures[0]
    pictures += [ada, ada.roll(40, dims=1), (ada * 0.6).byte(), ada]
    boxed = [picture.clone() for picture in pictures[:3]]
    for picture in boxed:
        picture[:100], picture[-90:], picture[:, :60] = 0, 0, 30
    pictures += boxed
    height, width, _ = ada.shape
    shots, before, finder = Shots((height, width)), Shots.none(), CutFinder()
    told = [
        (bool(shots(each.permute(2, 0, 1).float(), before)), finder(each) == "cut")
        for each in pictures
    ][1:]
    assert [ours for ours, _ in told] == [theirs for _, theirs in told]
    assert {ours for ours, _ in told} == {True, False}


# Nothing waits


def test_nothing_depends_on_what_is_seen():
    world = World(2)
    world.see(0.0, a=(100.0, 150.0, 80.0))
    steady = world.steady
    mesh, five = (x.expand(2, -1, -1) for x in world.measured["a"])
    presence = torch.tensor([30.0, 3.0])
    places, scores = five + 1.0, torch.tensor([0.9, 0.1])
    gap = torch.tensor(0.03, dtype=torch.float64)

    def place(points):
        return mesh + 0 * points.sum(), five, presence, presence < 0

    with Watch() as watch:
        wanted = steady(FRAME, places, scores, place, gap)
    assert watch.seen == set()
    assert wanted.ids.tolist()[0] == 0
    # one graph holds all of it: the compiler would refuse what looks at a number
    whole = torch.compile(
        lambda *given: steady(*given[:3], place, given[3]), backend="eager", fullgraph=True
    )
    assert whole(FRAME, places, scores, gap).ids.tolist()[0] == 0


def test_what_is_known_is_handed_on_to_more_slots_and_fewer():
    small, large = World(1), World(2)
    for i in range(4):
        small.see(i and 1 / RATE, a=(100.0, 150.0, 80.0))
    large.steady.take(small.steady.state())
    assert large.see(a=(100.0, 150.0, 80.0), b=(300.0, 150.0, 70.0))[0] == {"a": 0, "b": 1}
    small.steady.take(large.steady.state())
    assert small.see(a=(100.0, 150.0, 80.0))[0] == {"a": 0}
    small.steady.reset()
    assert small.see(a=(100.0, 150.0, 80.0))[0] == {"a": 0}


class Steps(TorchDispatchMode):
    """Notes what PyTorch does."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_what_is_known_is_kept_and_taken_back_by_one_copy():
    world = World(2)
    world.see(0.0, a=(100.0, 150.0, 80.0))
    steady = world.steady
    known = steady.state()
    before = known.row.clone()
    world.see(a=(104.0, 150.0, 80.0), b=(300.0, 150.0, 70.0))
    with Steps() as steps:
        steady.take(known)
    assert torch.equal(steady.row, before)
    world.see(a=(104.0, 150.0, 80.0))
    with Steps() as more:
        steady.keep(known)
    assert torch.equal(known.row, steady.row)
    assert not torch.equal(known.row, before)
    assert steps.seen == more.seen == [torch.ops.aten.copy_.default]


def test_another_module_knows_for_itself():
    world = World(1)
    world.see(0.0, a=(100.0, 150.0, 80.0))
    other, before = World(1), world.steady.row.clone()
    other.steady = deepcopy(world.steady)
    assert other.see(a=(104.0, 150.0, 80.0))[0] == {"a": 0}
    assert torch.equal(world.steady.row, before)
    assert not torch.equal(other.steady.row, before)
    other.steady.load_state_dict(world.steady.state_dict())
    assert torch.equal(other.steady.row, before)
    assert other.see(a=(104.0, 150.0, 80.0))[0] == {"a": 0}
