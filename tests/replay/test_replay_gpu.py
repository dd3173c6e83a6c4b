"""Whole frames on a GPU: nothing waits, graphs do what steps do, lanes and threads keep order."""

from __future__ import annotations

from threading import Thread

import pytest
import torch
from conftest import nothing_waits, scene

from mien.engines import open_engine
from mien.kernels import fusing
from mien.models import Catalogue
from mien.replay.frame import Part, WholeFrame
from mien.replay.graph import Replay

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
        patch.setattr(fusing, "installed", lambda: False)
        yield


@pytest.fixture(scope="module")
def frames(load):
    base = scene([load(name) for name in ("ben", "mei", "ada", "femi")], 320, 2)
    return [base.roll(5 * i, dims=1).contiguous() for i in range(7)]


@pytest.fixture(scope="module")
def whole(frames):
    cards = {role: Catalogue().card(name) for role, name in NAMES.items()}
    parts = {
        role: Part.of(open_engine(card.name, card.read, provider="torch-cuda:0"), card.contract)
        for role, card in cards.items()
    }
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


def test_nothing_grows(replay, frames):
    for _ in replay.stream(frames * 2):
        pass
    before = torch.cuda.memory_allocated()
    for _ in replay.stream(frames * 40):
        pass
    assert torch.cuda.memory_allocated() <= before
