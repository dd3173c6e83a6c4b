"""Whole frames on a GPU: nothing waits, graphs do what steps do, lanes and threads keep order."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from threading import Thread

import pytest
import torch
from conftest import nothing_waits, scene

from mien.engines import open_engine
from mien.errors import InvalidOption
from mien.kernels import fusing
from mien.models import Catalogue
from mien.replay.capacity import AnyFrame
from mien.replay.frame import Part, WholeFrame
from mien.replay.graph import Replay
from mien.types import Frame

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]

NAMES = {
    "detector": "yunet",
    "mesh": "facemesh",
    "swapper": "mien-lite",
    "occlusion": "mien-occlusion",
}


@pytest.fixture(scope="module", autouse=True)
def step_by_step():
    """Leave out the compiler, which takes a minute: benchmarks/gpu.py compares what it makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusing, "usable", lambda like: False)
        yield


@pytest.fixture(scope="module")
def frames(load):
    base = scene([load(name) for name in ("ben", "mei", "ada", "femi")], 320, 2)
    return [base.roll(5 * i, dims=1).contiguous() for i in range(7)]


@pytest.fixture(scope="module")
def parts():
    cards = {role: Catalogue().card(name) for role, name in NAMES.items()}
    return {
        role: Part.of(open_engine(card.name, card.read, provider="torch-cuda:0"), card.contract)
        for role, card in cards.items()
    }


@pytest.fixture(scope="module")
def whole(parts, frames):
    height, width = frames[0].shape[:2]
    return WholeFrame(parts, height=height, width=width, slots=4, who="all").cuda()


@pytest.fixture(scope="module")
def people():
    draw = torch.Generator().manual_seed(0)
    return torch.nn.functional.normalize(torch.randn(1, 128, generator=draw), dim=1).cuda()


@pytest.fixture(scope="module")
def replay(whole, people, frames):
    return Replay(whole, people, None, frame=frames[0].cuda())


@pytest.fixture(scope="module")
def batches(whole, people, frames):
    """Return a replay of three frames at once: seven leave one for the last batch."""
    return Replay(whole, people, None, frame=frames[0].cuda(), batch=3)


@pytest.fixture(scope="module")
def wanted(replay, frames):
    with torch.inference_mode():
        return [replay.run(frame.cuda()).pixels.cpu() for frame in frames]


def same(made, wanted):
    """Return whether pictures are the same but for what other kernels make of them: 50 dB."""
    return float((made.float() - wanted.float()).square().mean()) < 0.65


@torch.inference_mode()
def test_nothing_waits_for_the_processor(whole, people, frames):
    for given in (frames[0].cuda(), torch.stack(frames[:2]).cuda()):
        whole(given, people)  # libraries set themselves up
        with nothing_waits():
            outcome = whole(given, people)
        assert int((outcome.roles >= 0).sum()) == 4 * given[..., 0, 0, 0].numel()


def test_a_graph_does_what_the_steps_do(replay, frames, wanted):
    for frame, picture in zip(frames, wanted, strict=True):
        assert same(replay(frame.cuda()).pixels.cpu(), picture)
    assert not same(wanted[0], wanted[1])


@torch.inference_mode()
def test_a_batch_does_what_its_frames_do(batches, whole, people, frames):
    given = torch.stack(frames[:3]).cuda()
    made, steps = batches(given), whole(given, people)
    for number in range(3):
        alone = whole(given[number], people)
        for outcome in (made.frame(number), steps.frame(number)):
            assert same(outcome.pixels, alone.pixels)
            assert torch.equal(outcome.roles, alone.roles)
            assert torch.equal(outcome.guesses, alone.guesses)
            torch.testing.assert_close(outcome.boxes, alone.boxes, atol=1, rtol=0)


@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("where", ["cpu", "pinned", "cuda"])
@pytest.mark.parametrize("size", [1, 3])
def test_streams_keep_the_order(replay, batches, frames, wanted, lanes, where, size):
    place = {"cpu": torch.clone, "pinned": torch.Tensor.pin_memory, "cuda": torch.Tensor.cuda}
    given = (place[where](frame) for frame in frames * 4)  # those on the GPU are let go at once
    stream = (replay if size == 1 else batches).stream(given, lanes=lanes)
    made = [(outcome.pixels.clone(), int((outcome.roles >= 0).sum())) for outcome in stream]
    assert [count for _, count in made] == [4] * 28
    pictures = [pixels for pixels, _ in made]
    assert all(same(*pair) for pair in zip(pictures, wanted * 4, strict=True))


def test_a_stream_may_be_left_and_begun_again(batches, replay, frames, wanted):
    for _ in range(3):
        for outcome in batches.stream(frames * 4, lanes=2):
            assert same(outcome.pixels, wanted[0])
            break
    assert same(replay(frames[1].cuda()).pixels.cpu(), wanted[1])
    last = [outcome.pixels.clone() for outcome in batches.stream(frames[:1])]
    assert len(last) == 1
    assert same(last[0], wanted[0])


@pytest.mark.parametrize("batch", [1, 3])
def test_threads_share_a_gpu(whole, people, frames, wanted, batch):
    made: dict[int, list[torch.Tensor]] = {}

    def clip(number):
        replay = Replay(whole, people, None, frame=frames[0].cuda(), batch=batch)
        order = frames[number:] + frames[:number]
        made[number] = [outcome.pixels.clone() for outcome in replay.stream(order)]

    threads = [Thread(target=clip, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3
    for number in range(3):
        order = wanted[number:] + wanted[:number]
        assert all(same(*pair) for pair in zip(made[number], order, strict=True))


def test_networks_are_captured_beside_replays(whole, people, frames, wanted):
    card = Catalogue().card("mien-256")
    engine = open_engine(card.name, card.read, provider="torch-cuda:0")
    draw = torch.Generator().manual_seed(0)
    target, source = torch.rand(4, 3, 256, 256, generator=draw), people.cpu().expand(4, -1)
    given = [{"target": target[:n].cuda(), "source": source[:n].cuda()} for n in (1, 2, 3, 4)]
    with torch.no_grad():
        one_by_one = [engine.module(*(each[p.name] for p in engine.inputs))[0] for each in given]
    torch.cuda.synchronize()
    right = []

    def clip():
        for _ in range(2):
            replay = Replay(whole, people, None, frame=frames[0].cuda())
            made = [outcome.pixels.clone() for outcome in replay.stream(frames)]
            right.append(all(same(*pair) for pair in zip(made, wanted, strict=True)))

    def swaps():
        for turn in range(80):
            each, there = given[turn // 5 % 4], one_by_one[turn // 5 % 4]
            right.append(torch.allclose(engine(each)["output"], there, atol=2e-2, rtol=2e-2))

    threads = [Thread(target=work) for work in (clip, clip, swaps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * (2 + 2 + 80)


def test_nothing_grows(replay, frames):
    for _ in replay.stream(frames * 2):
        pass
    before = torch.cuda.memory_allocated()
    for _ in replay.stream(frames * 40):
        pass
    assert torch.cuda.memory_allocated() <= before


# Faces that are steadied


@pytest.fixture(scope="module")
def clip(frames):
    """Return frames of a slow pan, with a cut to a darker, other picture, and back."""
    moving = [frames[0].roll(i, dims=1).contiguous() for i in range(8)]
    moving[5] = 80 - (moving[5] * 0.3).byte().flip(0).contiguous()
    return [Frame(pixels, time=Fraction(i, 25)) for i, pixels in enumerate(moving)]


@pytest.fixture(scope="module")
def follower(parts, people, frames):
    """Return what makes a replay that follows, or one that only steadies."""
    height, width = frames[0].shape[:2]

    def make(*, follow):
        whole = WholeFrame(parts, height=height, width=width, slots=4, who="all", steady=True)
        return Replay(whole.cuda(), people, None, frame=frames[0].cuda(), follow=follow)

    return make


@pytest.fixture(scope="module")
def steady(follower):
    return follower(follow=False)


@pytest.fixture(scope="module")
def steadied(steady, clip):
    """Return what becomes of the clip step by step: ids, points and pixels."""
    steady.restart()
    made = []
    with torch.inference_mode():
        for i, frame in enumerate(clip):
            elapsed = torch.tensor(0.04 if i else 0.0, dtype=torch.float64, device="cuda")
            made.append(steady.run(frame.pixels.cuda(), elapsed))
    return [(each.ids.cpu(), each.points.cpu(), each.pixels.cpu()) for each in made]


def as_wanted(made, steadied):
    for outcome, (ids, points, pixels) in zip(made, steadied, strict=True):
        assert outcome.ids.tolist() == ids.tolist()
        # other kernels place the mesh a little differently, and the filter goes on from there
        assert float((outcome.points.cpu() - points).norm(dim=-1).max()) < 0.3
        assert same(outcome.pixels.cpu(), pixels)


def test_steadied_faces_keep_their_ids_until_a_cut(steadied):
    ids = [each.tolist() for each, _, _ in steadied]
    assert ids[:5] == [[0, 1, 2, 3]] * 5
    assert all(number > 3 for number in ids[6])


@torch.inference_mode()
def test_nothing_waits_where_faces_are_steadied(steady, clip):
    frame = clip[0].pixels.cuda()
    elapsed = torch.full((), 0.04, dtype=torch.float64, device="cuda")
    steady.run(frame, elapsed)  # libraries set themselves up
    with nothing_waits():
        steady.run(frame, elapsed)


def test_a_graph_steadies_as_the_steps_do(steady, clip, steadied):
    for _ in range(2):
        steady.restart()
        on_gpu = (Frame(each.pixels.cuda(), time=each.time) for each in clip)
        for frame, wanted in zip(on_gpu, steadied, strict=True):
            as_wanted([steady(frame)], [wanted])


def test_a_stream_steadies_as_the_steps_do(steady, clip, steadied):
    steady.restart()
    as_wanted(steady.stream(clip), steadied)
    with pytest.raises(InvalidOption, match="lanes"):
        next(steady.stream(clip, lanes=2))


def test_more_slots_know_who_was_there(parts, people, clip):
    frames = AnyFrame(parts, people, device="cuda", who="all", steady=True)
    on_gpu = [Frame(each.pixels.cuda(), time=each.time) for each in clip[:4]]
    assert frames(on_gpu[0]).ids[:4].tolist() == [0, 1, 2, 3]
    assert frames(on_gpu[1]).ids[:4].tolist() == [0, 1, 2, 3]
    frames._step = 1
    assert sorted(frames(on_gpu[2]).ids[:4].tolist()) == [0, 1, 2, 3]
    assert frames.slots == 8
    assert sorted(frames(on_gpu[3]).ids[:4].tolist()) == [0, 1, 2, 3]


# Faces that are followed


@pytest.fixture(scope="module")
def long(frames):
    """Return frames of a slow pan with a cut to a darker, other picture amid it."""
    moving = [frames[0].roll(i, dims=1).contiguous() for i in range(24)]
    moving[14:] = [80 - (each * 0.3).byte().flip(0).contiguous() for each in moving[14:]]
    return [Frame(pixels, time=Fraction(i, 25)) for i, pixels in enumerate(moving)]


@pytest.fixture(scope="module")
def following(follower):
    return follower(follow=True)


@pytest.fixture(scope="module")
def looked_for(steady, long):
    """Return ids, points and pixels of frames none of which is followed."""
    steady.restart()
    found = steady.stream(long)
    return [(each.ids.clone(), each.points.clone(), each.pixels.clone()) for each in found]


def as_looked_for(outcomes, looked_for):
    # after the cut there may be no face at all
    assert all(bool((ids >= 0).any()) for ids, _, _ in looked_for[:14])
    for number, (made, (ids, points, _)) in enumerate(zip(outcomes, looked_for, strict=True)):
        assert made.ids.tolist() == ids.tolist(), number
        off = (made.points.cpu() - points)[ids >= 0].norm(dim=-1)
        assert bool((off < 1.5).all()), number


@pytest.mark.parametrize("place", ["cuda", "cpu"])
def test_faces_are_followed_where_they_are_found(following, long, looked_for, place):
    following.restart()
    before = following.foresight.followed
    given = (Frame(each.pixels.to(place), time=each.time) for each in long)
    as_looked_for((following(frame) for frame in given), looked_for)
    assert following.foresight.followed - before >= 13


def test_a_stream_follows_and_makes_again_what_nobody_expected(following, long, looked_for):
    for _ in range(2):
        following.restart()
        before = following.foresight.followed, following.foresight.in_vain
        kept = ("pixels", "ids", "points")
        made = [
            replace(each, **{name: getattr(each, name).clone() for name in kept})
            for each in following.stream(long)
        ]
        as_looked_for(made, looked_for)
        assert following.foresight.followed - before[0] >= 8
        assert following.foresight.in_vain - before[1] == 1
        # the frame after the cut is as if none before had been followed
        assert same(made[14].pixels, looked_for[14][2])


def test_a_followed_graph_does_what_its_steps_do(following, follower, long):
    steps = follower(follow=True)
    steps._lanes = []
    following.restart()
    for frame in long[:14]:
        on_gpu = Frame(frame.pixels.cuda(), time=frame.time)
        made, wanted = following(on_gpu), steps(on_gpu)
        assert made.ids.tolist() == wanted.ids.tolist()
        assert float((made.points - wanted.points).norm(dim=-1).max()) < 0.3
        assert same(made.pixels.cpu(), wanted.pixels.cpu())
    assert steps.foresight.followed == 13


@torch.inference_mode()
def test_nothing_waits_where_faces_are_followed(following, long):
    frame = long[0].pixels.cuda()
    elapsed = torch.full((), 0.04, dtype=torch.float64, device="cuda")
    for _ in range(2):
        following.run(frame, elapsed, follow=True)  # libraries set themselves up
    with nothing_waits():
        following.run(frame, elapsed, follow=True)
