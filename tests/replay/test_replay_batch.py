"""A batch of frames gives what its frames give one after another."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from itertools import cycle
from types import SimpleNamespace

import pytest
import torch
from conftest import scene

from mien.errors import InvalidOption
from mien.geometry import fit_similarity, template
from mien.replay import detect, graph, landmark, streaming, warp
from mien.replay import frame as frame_module
from mien.replay.foresight import REST, Foresight
from mien.replay.frame import Outcome, Part, WholeFrame
from mien.replay.graph import Replay
from mien.replay.lane import Graph
from mien.replay.packing import Packing
from mien.replay.warp import cut, lay

pytestmark = pytest.mark.usefixtures("without_gradients")

NAMES = {
    "detector": "yunet",
    "mesh": "facemesh",
    "embedder": "sface",
    "swapper": "mien-lite",
    "occlusion": "mien-occlusion",
}


@pytest.fixture(scope="module")
def frames(load):
    """Return frames with four faces, with one, and with none."""
    many = scene([load(name) for name in ("ben", "mei", "ada", "femi")], 160, 2)
    one = many.roll(11, dims=1)
    one[:, 160:] = one[160:] = 96
    return torch.stack([many, one, many // 8])


def people(seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(2, 128, generator=draw), dim=1)


def whole(parts, **options):
    return WholeFrame(parts, height=320, width=320, slots=4, side=320, **options)


def same(made: Outcome, wanted: Outcome) -> None:
    """Check that outcomes agree, but for what networks round otherwise in larger batches."""
    for name in ("ids", "roles", "faulty", "guesses"):
        assert torch.equal(getattr(made, name), getattr(wanted, name)), name
    for name in ("scores", "boxes", "points"):
        given = getattr(made, name), getattr(wanted, name)
        torch.testing.assert_close(*given, atol=0.01, rtol=0, msg=name)
    apart = (made.pixels.int() - wanted.pixels.int()).abs()
    assert int(apart.max()) <= 1
    assert float((apart > 0).float().mean()) < 1e-3


@pytest.mark.parametrize("who", ["largest", "all", "person"])
def test_a_batch_gives_what_its_frames_give(parts, frames, who):
    swap = whole(parts, who=who)
    replaced = None
    if who == "person":  # one whom nobody resembles, and the first face of the first frame
        contract = parts["embedder"].contract
        points = swap(frames[0], people(), people()).points
        crops = cut(frames[0], fit_similarity(points, swap.embedding_points), contract.size)
        outputs = parts["embedder"].network({contract.input: swap.embedder_codec.encode(crops)})
        own = torch.nn.functional.normalize(outputs[contract.output], dim=1)
        replaced = torch.stack([-own.mean(dim=0), own[0]])
    batch = swap(frames, people(), replaced)
    assert batch.pixels.shape == frames.shape
    assert batch.boxes.shape == (3, 4, 4)
    for number, frame in enumerate(frames):
        same(batch.frame(number), swap(frame, people(), replaced))
    swapped = (batch.roles >= 0).sum(dim=1).tolist()
    assert swapped[0] == (4 if who == "all" else 1)
    assert not torch.equal(batch.pixels[0], frames[0])


def test_networks_run_once_for_a_batch(parts, frames):
    runs = dict.fromkeys(parts, 0)

    def counted(role):
        def run(inputs):
            runs[role] += 1
            return parts[role].network(inputs)

        return Part(run, parts[role].contract)

    whole({role: counted(role) for role in parts}, who="all")(frames, people())
    assert runs == {"detector": 1, "mesh": 3, "embedder": 0, "swapper": 1, "occlusion": 1}


def over_the_edges() -> torch.Tensor:
    """Return maps of two faces, one over the lower right edge, one over the upper left."""
    points = template("arcface_128").at(32)
    return fit_similarity(torch.stack([points + 46, points - 14]), points)


def test_crops_do_not_reach_into_other_frames():
    frames = torch.zeros(3, 64, 64, 3, dtype=torch.uint8)
    frames[1] = 255
    crops = cut(frames, over_the_edges().repeat(3, 1, 1), 32).view(3, -1)
    assert crops.amax(dim=1).tolist() == [0, 1, 0]
    assert crops.amin(dim=1).tolist() == [0, 1, 0]


def test_patches_are_not_laid_over_other_frames():
    frames = torch.zeros(3, 64, 64, 3, dtype=torch.uint8)
    patches = torch.ones(6, 4, 32, 32)
    patches[[0, 1, 4, 5]] = 0
    made = lay(frames, patches, over_the_edges().repeat(3, 1, 1), torch.tensor([1, 0]))
    assert not made[[0, 2]].any()
    alone = lay(frames[1], patches[2:4], over_the_edges(), torch.tensor([1, 0]))
    assert torch.equal(made[1], alone)
    assert alone[0, 0].tolist() == alone[-1, -1].tolist() == [255] * 3


def test_suppression_is_frame_by_frame():
    draw = torch.Generator().manual_seed(0)
    corner = torch.rand(3, 40, 2, generator=draw) * 60
    boxes = torch.cat([corner, corner + 20], dim=2)
    scores = torch.rand(3, 40, generator=draw).sort(descending=True).values
    kept = detect.survivors(boxes, scores, 0.4)
    for i in range(3):
        assert torch.equal(kept[i], detect.survivors(boxes[i], scores[i], 0.4))


def test_what_is_compiled_has_no_breaks(parts, monkeypatch):
    compiled = set()

    def whole_graph(name, function):
        made = torch.compile(function, fullgraph=True, dynamic=False, backend="eager")

        def run(*args):
            compiled.add(name)
            return made(*args)

        return run

    for module in (frame_module, detect, landmark, warp):
        for name, value in list(vars(module).items()):
            own = getattr(value, "__module__", "") == module.__name__
            if own and hasattr(value, "__wrapped__") and not hasattr(value, "cache_info"):
                monkeypatch.setattr(module, name, whole_graph(name, value.__wrapped__))
    small = torch.zeros(2, 64, 64, 3, dtype=torch.uint8)
    swap = WholeFrame(parts, height=64, width=64, slots=2, side=64, who="person")
    swap(small, people(), people())
    frame_module._received(torch.ones(4, dtype=torch.bool), people())
    warp._table(over_the_edges(), 32, 64, 64)
    assert {"_begun", "_enlarged", "_patches", "_received", "_resembling", "_settled"} <= compiled
    assert {"_sorted", "_table", "_told"} <= compiled


def test_streams_of_batches_keep_the_order():
    def negative(pixels, people, replaced, elapsed, follow):
        return replace(found(len(pixels)), pixels=255 - pixels, guesses=pixels[:, 0, 0, 0].long())

    swap = torch.nn.Module()
    swap.forward, swap.steady = negative, None
    replay = Replay(swap, people(), None, frame=torch.zeros(4, 6, 3, dtype=torch.uint8), batch=3)
    given = [torch.full((4, 6, 3), i, dtype=torch.uint8) for i in range(7)]
    outcomes = list(replay.stream(iter(given)))
    assert [int(outcome.guesses) for outcome in outcomes] == list(range(7))
    assert all(
        torch.equal(outcome.pixels, 255 - frame)
        for outcome, frame in zip(outcomes, given, strict=True)
    )


def test_another_number_of_frames_is_refused(parts, frames):
    with pytest.raises(InvalidOption, match="batch=0"):
        Replay(whole(parts), people(), None, frame=frames[0], batch=0)
    two = Replay(whole(parts), people(), None, frame=frames[0], batch=2)
    for given in (frames[0], frames):
        with pytest.raises(InvalidOption, match="Allowed: 2"):
            two(given)


def found(batch, slots=2):
    """Return an outcome whose numbers all differ."""
    count = batch * slots
    return Outcome(
        pixels=torch.zeros(batch, 4, 6, 3, dtype=torch.uint8),
        boxes=torch.rand(batch, slots, 4),
        points=torch.rand(batch, slots, 5, 2),
        scores=torch.rand(batch, slots),
        ids=torch.arange(count).view(batch, slots) + 90,
        roles=torch.arange(count).view(batch, slots) - 1,
        faulty=torch.arange(count).view(batch, slots) % 2 == 0,
        guesses=torch.arange(batch) - 7,
        quiet=torch.arange(batch) % 2 == 0,
    )


@pytest.mark.parametrize(("batch", "slots"), [(1, 1), (3, 1), (2, 5)])
def test_what_is_packed_is_unpacked(batch, slots):
    outcome = found(batch, slots)
    packing = Packing(outcome)
    packed = torch.empty(packing.size, dtype=torch.uint8)
    packing.pack(packed)
    made = packing.unpacked(outcome.pixels, packed)
    for field in fields(Outcome):
        assert torch.equal(getattr(made, field.name), getattr(outcome, field.name))


class Lane:
    """A lane whose graph makes a negative, and says how bright each frame was."""

    steady = foresight = None

    def __init__(self, batch):
        self.device = torch.device("cpu")
        self.frames, self.outcome = torch.zeros(batch, 4, 6, 3, dtype=torch.uint8), found(batch)
        packing, alone = Packing(self.outcome), self.outcome.frame(0)
        self.whole = Graph(None, self.outcome, alone, packing)
        self.up, self.down = SimpleNamespace(), SimpleNamespace()
        for stream in (self.up, self.down):
            for name in ("wait_stream", "wait_event", "synchronize"):
                setattr(stream, name, lambda *args: None)
        self.seen, self.elapsed = [], []

    @contextmanager
    def used_on(self, stream):
        yield

    def __call__(self, frames, elapsed, *, follow):
        self.frames.copy_(frames)
        self.elapsed.append(elapsed)
        self.seen.append(self.frames[:, 0, 0, 0].tolist())
        self.outcome.pixels.copy_(255 - self.frames)
        self.outcome.guesses.copy_(self.frames[:, 0, 0, 0])
        return self.whole


@pytest.fixture
def at_once(monkeypatch):
    """Let what streams do happen at once, on the CPU."""
    event = SimpleNamespace(record=lambda stream: None, synchronize=lambda: None)
    work = SimpleNamespace(wait_event=lambda event: None)
    monkeypatch.setattr(torch.cuda, "Event", lambda: event)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    monkeypatch.setattr(streaming, "pinned", torch.empty_like)
    monkeypatch.setattr(
        streaming, "streams_of", lambda device: SimpleNamespace(next_work=lambda: work)
    )


def test_a_call_takes_its_turn_on_a_work_stream(at_once, monkeypatch):
    said = []
    work = SimpleNamespace(wait_stream=lambda other: said.append("work waits"))
    current = SimpleNamespace(wait_stream=lambda other: said.append("the caller waits"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    monkeypatch.setattr(graph, "streams_of", lambda device: SimpleNamespace(next_work=lambda: work))
    frame = torch.full((4, 6, 3), 7, dtype=torch.uint8)
    swap = torch.nn.Module()
    swap.steady = None
    replay = Replay(swap, people(), None, frame=frame)
    replay._lanes = [Lane(1)]
    assert replay(frame[None]).pixels.shape == (1, 4, 6, 3)
    assert torch.equal(replay(frame).pixels, 255 - frame)
    assert said == ["work waits", "the caller waits"] * 2


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 5, 24])
def test_frames_go_through_lanes_in_batches(at_once, batch, lanes, count):
    made = [Lane(batch) for _ in range(lanes)]
    frames = ((torch.full((4, 6, 3), i, dtype=torch.uint8), i / 8) for i in range(count))
    through = streaming.through([streaming.Stream(lane) for lane in made], frames)
    for number, outcome in zip(range(count), through, strict=True):
        assert outcome.pixels.unique().tolist() == [255 - number]
        assert int(outcome.guesses) == number
        assert outcome.boxes.shape == (2, 4)
    batches = [
        [min(i, count - 1) for i in range(start, start + batch)] for start in range(0, count, batch)
    ]
    seen: list[list[list[int]]] = [[] for _ in range(lanes)]
    for lane, one in zip(cycle(seen), batches, strict=False):
        lane.append(one)
    assert [lane.seen for lane in made] == seen
    assert [lane.elapsed for lane in made] == [[one[-1] / 8 for one in each] for each in seen]


# Frames that are followed


class Sum:
    """What stands for the faces that are known: the sum of all frames so far."""

    def __init__(self):
        self.total = torch.zeros((), dtype=torch.int64)

    def state(self):
        return (self.total.clone(),)

    def keep(self, state):
        state[0].copy_(self.total)

    def take(self, state):
        self.total.copy_(state[0])


class Following(Lane):
    """A lane that says the sum of its frames, but for followed ones that are ``loud``."""

    def __init__(self, loud):
        super().__init__(1)
        self.loud, self.steady, self.foresight = loud, Sum(), Foresight()

    def __call__(self, frames, elapsed, *, follow):
        used = super().__call__(frames, elapsed, follow=follow)
        number = int(frames[0, 0, 0, 0])
        wrong = follow and number in self.loud
        self.steady.total += 1000 if wrong else number
        self.outcome.guesses.copy_(self.steady.total)
        self.outcome.quiet.fill_(not wrong)
        return used


@pytest.mark.parametrize("loud", [set(), {5}, {4, 5}, {3, 14, 25, 39}, set(range(40))])
def test_of_a_stream_what_was_followed_in_vain_is_made_again_and_all_after_it(at_once, loud):
    lane, count = Following(loud), 40
    frames = ((torch.full((4, 6, 3), i, dtype=torch.uint8), 0.04) for i in range(count))
    for number, outcome in enumerate(streaming.through([streaming.Stream(lane)], frames)):
        assert outcome.pixels.unique().tolist() == [255 - number]
        assert int(outcome.guesses) == sum(range(number + 1))
    assert number == count - 1
    foresight = lane.foresight
    assert (foresight.in_vain > 0) == bool(loud)
    assert foresight.in_vain <= count / REST + 1
    if not loud:
        # three are on their way before it is known that the first is quiet
        assert foresight.followed == count - streaming.RING
        assert len(lane.seen) == count
