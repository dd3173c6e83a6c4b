"""Steadied replays with the networks that ship, and what frames that are followed have to be."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch
from waiting import Watch, unwatched

from mien.errors import InvalidOption
from mien.evaluate.moving import Place, actor, play, times
from mien.replay.capacity import AnyFrame
from mien.replay.detect import Look
from mien.replay.foresight import LONGEST, REST, Foresight
from mien.replay.frame import Part, WholeFrame
from mien.replay.graph import Replay
from mien.replay.landmark import Landmarks
from mien.replay.steady import SteadySlots
from mien.types import Frame

pytestmark = pytest.mark.usefixtures("without_gradients")

NAMES = {"detector": "yunet", "mesh": "facemesh", "swapper": "mien-lite"}
RATE = 30


@pytest.fixture(scope="module")
def clip(load):
    """Return frames of a still head before a camera with noise."""
    head = actor(torch.from_numpy(load("ben")), 180, lambda t: Place(160, 120))
    return list(play([head], times(0.5, RATE), size=(240, 320), noise=4))


def test_a_still_head_trembles_less_and_is_found_where_the_detector_is_blind(parts, clip):
    detector, mesh = parts["detector"], parts["mesh"]
    look = Look(detector.network, detector.contract, height=240, width=320, side=320, slots=2)
    place, steady = Landmarks(mesh.network, mesh.contract), SteadySlots(look.size, slots=2)
    raw, kept = [], []
    for before, frame in pairwise([None, *clip]):
        pixels = frame.pixels
        elapsed = float(frame.time - before.time) if before else 0.0
        (places,), (scores,) = look(pixels[None])
        raw.append(place(pixels, places)[0][0])
        if len(raw) % 5 == 0:
            scores = torch.zeros_like(scores)
        gap = torch.tensor(elapsed, dtype=torch.float64)
        places = places * (scores > 0)[:, None, None]
        (small,), _ = look.resized(pixels[None])
        made = steady(small, places, scores, partial(place, pixels), gap)
        assert made.ids.tolist() == [0, -1]
        kept.append(made.mesh[0])
    jitter = [float(torch.stack(x)[5:].std(dim=0).mean()) for x in (raw, kept)]
    assert jitter[1] < 0.5 * jitter[0]


def test_replays_take_frames_with_their_times(parts, clip, people):
    def replay(steady):
        whole = WholeFrame(parts, height=240, width=320, slots=1, steady=steady)
        return Replay(whole, people, None, frame=clip[0].pixels)

    steady, plain = replay(True), replay(False)
    made = [(each.ids.tolist(), each.pixels) for each in steady.stream(clip[:3])]
    assert [ids for ids, _ in made] == [[0]] * 3
    alone = [plain(frame) for frame in clip[:3]]
    assert [each.ids.tolist() for each in alone] == [[-1]] * 3
    assert torch.equal(made[0][1], alone[0].pixels)
    assert not torch.equal(made[2][1], alone[2].pixels)
    steady.restart()
    assert torch.equal(steady(clip[0]).pixels, made[0][1])
    assert torch.equal(steady(clip[1]).pixels, made[1][1])
    with pytest.raises(ValueError, match=r"time.*mien\.types\.Frame"):
        steady(clip[0].pixels)
    with pytest.raises(ValueError, match=r"lanes.*steadied"):
        next(steady.stream(clip, lanes=2))
    whole = steady._whole
    with pytest.raises(ValueError, match=r"batch.*steadied"):
        Replay(whole, people, None, frame=clip[0].pixels, batch=2)
    with pytest.raises(ValueError, match=r"frames.*steadied"):
        whole(torch.stack([frame.pixels for frame in clip[:2]]), people)


def test_any_number_of_faces_is_followed(parts, clip, people):
    frames = AnyFrame(parts, people, device="cpu", steady=True)
    two = [replace(f, pixels=torch.cat([f.pixels, f.pixels.flip(1)])) for f in clip[:5]]
    assert frames(two[0]).ids.tolist()[:2] == [0, 1]
    assert frames.slots == 4
    points = frames(two[1]).points.clone()
    frames._step = 0  # as after a long rest: the frame is made again with more slots
    again = frames(Frame(two[2].pixels, time=two[2].time))
    assert frames.slots == 4
    assert again.ids.tolist()[:2] == [0, 1]
    alone = WholeFrame(parts, height=480, width=320, slots=4)(two[2].pixels, people)
    assert not torch.equal(again.points[0], alone.points[0])  # it is smoothed
    assert float((again.points[:2] - points[:2]).norm(dim=-1).max()) < 2
    assert frames(clip[3]).ids.tolist()[0] == 2  # another size is another shot


# Frames that are followed


@pytest.fixture
def quick(parts):
    """The parts, with a swap that is a mere negative."""
    contract = parts["swapper"].contract
    return parts | {"swapper": Part(lambda inputs: {"output": -inputs["target"]}, contract)}


def both(parts, clip, people, slots=2):
    """Return what becomes of a clip looked for and followed, ids and points, and the Foresight."""
    height, width, _ = clip[0].pixels.shape
    made = []
    for follow in (False, True):
        options = {"height": height, "width": width, "slots": slots, "who": "all"}
        whole = WholeFrame(parts, **options, steady=True)
        replay = Replay(whole, people, None, frame=clip[0].pixels, follow=follow)
        made.append([(each.ids.tolist(), each.points, each) for each in replay.stream(clip)])
    return made, replay.foresight


def test_what_moves_as_expected_is_followed_where_it_is_found(quick, load, people):
    ben, ada = (torch.from_numpy(load(name)) for name in ("ben", "ada"))
    heads = [
        actor(ben, 160, lambda t: Place(85 + 30 * t, 120)),
        actor(ada, 150, lambda t: Place(240, 120) if t >= 0.4 else None),
    ]
    clip = list(play(heads, times(0.8, RATE), size=(240, 320), noise=3))
    (wanted, made), foresight = both(quick, clip, people)
    assert [ids for ids, *_ in made] == [ids for ids, *_ in wanted]
    assert [ids for ids, *_ in made] == [[0, -1]] * 12 + [[0, 1]] * 12
    for (ids, points, one), (_, there, other) in zip(made, wanted, strict=True):
        faces = sum(number >= 0 for number in ids)
        assert float((points - there)[:faces].norm(dim=-1).max()) < 0.6
        torch.testing.assert_close(one.scores[:faces], other.scores[:faces], atol=0.1, rtol=0)
        assert one.roles.tolist() == other.roles.tolist()
        assert int(one.guesses) == int(other.guesses)
    # all but the first, and those that are whole after the one in which somebody comes
    assert foresight.in_vain == 1
    assert foresight.followed == 24 - 1 - (REST - 1)


def test_after_a_cut_nobody_is_followed_for_a_single_frame(quick, load, people):
    heads = [actor(torch.from_numpy(load(name)), 160, lambda t: Place(160, 120)) for name in
             ("ben", "mei")]  # fmt: skip
    one, other = (list(play([head], times(0.5, RATE), size=(240, 320))) for head in heads)
    cut = [Frame(255 - each.pixels.flip(1), time=each.time) for each in other]
    clip = [*one[:6], *cut[6:12]]
    (wanted, made), foresight = both(quick, clip, people)
    assert [ids for ids, *_ in made] == [ids for ids, *_ in wanted]
    assert foresight.in_vain == 1
    # what comes after it is made of what was known before it, as if none had been followed
    assert torch.equal(made[6][1], wanted[6][1])
    assert torch.equal(made[6][2].pixels, wanted[6][2].pixels)


def test_what_nobody_expects_is_told_in_the_frame_in_which_it_is(quick, clip, people):
    """Each frame that is not as the ones before said is made as if it had not been followed."""
    width = clip[0].pixels.shape[1]
    empty = torch.full_like(clip[0].pixels, 90)
    changes = {
        "gone": empty,
        "jumped": clip[3].pixels.roll(25, dims=1),
        "turned": clip[3].pixels.flip(0),
        "two": torch.cat([clip[3].pixels[:, 40:280]] * 2, dim=1)[:, :width].contiguous(),
    }
    for name, changed in changes.items():
        frames = [*clip[:3], Frame(changed, time=clip[3].time)]
        (wanted, made), foresight = both(quick, frames, people)
        assert foresight.in_vain == 1, name
        assert made[-1][0] == wanted[-1][0], name
        assert torch.equal(made[-1][2].pixels, wanted[-1][2].pixels) or made[-1][0][0] == 0, name


def test_a_clip_of_nobody_is_followed(quick, people):
    empty = torch.full((240, 320, 3), 90, dtype=torch.uint8)
    clip = [Frame(empty, time=time) for time in times(0.2, RATE)]
    (_, made), foresight = both(quick, clip, people)
    assert all(ids == [-1, -1] for ids, *_ in made)
    assert (foresight.followed, foresight.in_vain) == (5, 0)


def test_nothing_waits_in_a_frame_that_is_followed(quick, clip, people):
    parts = {role: unwatched(part) for role, part in quick.items()}
    whole = WholeFrame(parts, height=240, width=320, slots=2, who="all", steady=True)
    gap = torch.tensor(1 / RATE, dtype=torch.float64)
    whole(clip[0].pixels, people, None, gap)
    with Watch() as watch:
        made = whole(clip[1].pixels, people, None, gap, follow=True)
    assert watch.seen == set()
    assert bool(made.quiet)
    assert made.ids.tolist() == [0, -1]


def test_only_who_is_known_can_be_followed(quick, clip, people):
    whole = WholeFrame(quick, height=240, width=320, slots=1)
    with pytest.raises(InvalidOption, match="follow"):
        whole(clip[0].pixels, people, None, torch.tensor(0.04), follow=True)
    steady = WholeFrame(quick, height=240, width=320, slots=1, steady=True)
    with pytest.raises(InvalidOption, match="follow"):
        steady(clip[0].pixels, people, follow=True)


def test_any_number_of_faces_is_followed_in_half_the_looks(quick, clip, people):
    looks = []

    def counted(inputs):
        looks.append(len(next(iter(inputs.values()))))
        return quick["mesh"].network(inputs)

    parts = quick | {"mesh": replace(quick["mesh"], network=counted)}
    frames = AnyFrame(parts, people, device="cpu", steady=True)
    seen = []
    for frame in clip[:4]:
        looks.clear()
        assert frames(frame).ids.tolist()[0] == 0
        seen.append(len(looks))
    # the first has too few slots, and so is made twice
    assert seen == [6, 1, 1, 1]


def test_where_following_is_in_vain_again_and_again_it_is_hardly_tried_any_more():
    foresight = Foresight()
    assert not foresight.follow(0.04)  # nothing is known yet
    waits, since = [], 0
    for _ in range(4 * LONGEST):
        follow = foresight.follow(0.04)
        if follow:
            waits.append(since)
        again = foresight.told(not follow, followed=follow)
        assert again == follow
        since = 0 if follow else since + 1
        if again:
            assert not foresight.told(True, followed=False)
    assert waits[:6] == [1, 7, 15, 31, 63, 127]
    assert max(waits) == LONGEST - 1
    while not foresight.follow(0.04):
        foresight.told(True, followed=False)
    for _ in range(REST):  # what goes well is trusted again
        assert foresight.follow(0.04)
        assert not foresight.told(True, followed=True)
    assert foresight.told(False, followed=True)
    count = 0
    while not foresight.follow(0.04):
        foresight.told(True, followed=False)
        count += 1
    assert count == REST
    for elapsed in (0.0, -0.1, 1.5):
        assert not foresight.follow(elapsed)
