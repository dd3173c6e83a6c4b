"""What is before faces in clips: steadied, the same in any thread, and that of the frame shown."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from conftest import StandIn
from test_clip import SIZE, copies, darker, levels
from test_frame import cast, person

from mien.evaluate.moving import Actor, Place, actor, play, times
from mien.loader import Loader
from mien.models import Catalogue, EmbedderContract, OcclusionContract, PixelFormat
from mien.pipeline import ClipPipeline, Pipeline, Policy, patch
from mien.pipeline.covering import Coverer
from mien.pipeline.patch import fitted, seen_now, shown
from mien.stages.align import align
from mien.stages.calm import DEPTH
from mien.stages.embed import Embedder
from mien.stages.occlude import Occlusion
from mien.stages.swap import FaceSwap
from mien.types import Frame

GREEN = (20, 200, 20)


def contract(template="arcface_128"):
    return OcclusionContract(
        input="crop",
        pixels=PixelFormat(low=0.0, high=1.0),
        output="logit",
        size=128,
        template=template,
    )


def green_hides(inputs):
    """Return logits by how green pixels are: what is very green is before the face."""
    red, green, blue = inputs["crop"].unbind(dim=1)
    return {"logit": ((green - torch.maximum(red, blue)) * -30 + 5)[:, None]}


def occlusion(paint=green_hides, template="arcface_128"):
    return Occlusion(StandIn(paint), contract(template))


@pytest.fixture(scope="module")
def real(find):
    loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=None)
    embedder = Embedder(*loader.load("sface", EmbedderContract))

    def make(paint=darker, before=None, **options):
        swap = FaceSwap(StandIn(paint), Catalogue().card("mien-256").contract)
        before = before or occlusion()
        options = {"color_match": False, **options}
        return Pipeline(find, embedder, swap, occlusion=before, **options)

    return make


@pytest.fixture
def passing(load):
    """A face, and a green bar that goes across it; 12 frames of 20 a second."""
    face = actor(torch.from_numpy(load("ada")), 180, lambda t: Place(190 + 30 * t, 120))
    bar = Actor(
        torch.tensor(GREEN, dtype=torch.uint8).expand(240, 30, 3).clone(),
        lambda t: Place(90 + 300 * t, 120),
        head=False,
    )
    return list(play([face, bar], times(0.6, 20), size=SIZE, noise=3))


def green(pixels):
    red, middle, blue = pixels.float().unbind(dim=2)
    return middle - torch.maximum(red, blue) > 100


@pytest.mark.parametrize("template", ["arcface_128", "ffhq_512"])
def test_a_clip_of_one_frame_is_the_picture(real, passing, template):
    swap = real(before=occlusion(template=template))
    one, other = copies([passing[6], passing[6]])
    swap(one, cast(person(3)))
    ClipPipeline(swap, cast(person(3)))(other)
    assert torch.equal(one.pixels, other.pixels)


def test_many_threads_and_any_order_equal_one(real, passing):
    swap, who, results = real(), cast(person(3)), []
    for threads in (1, 2, 5):
        frames = copies(passing)
        list(ClipPipeline(swap, who, policy=Policy("hold")).run(frames, threads=threads))
        results.append(frames)
    pipeline, turned = ClipPipeline(swap, who, policy=Policy("hold")), copies(passing)
    seen = [pipeline.see(frame) for frame in turned]
    for one in reversed([pipeline.make(one) for one in reversed(seen)]):
        pipeline.finish(one)
    for frames in (*results[1:], turned):
        assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(results[0], frames, strict=True))


@pytest.mark.parametrize(("template", "cuts"), [("arcface_128", 1), ("ffhq_512", 2)])
def test_crops_that_suit_both_networks_are_cut_once(real, passing, monkeypatch, template, cuts):
    cut = []

    def counting(frame, faces, contract):
        cut.append(contract.template)
        return align(frame, faces, contract)

    clip = ClipPipeline(real(before=occlusion(template=template)), cast(person()))
    monkeypatch.setattr("mien.pipeline.covering.align", counting)
    monkeypatch.setattr("mien.pipeline.patch.align", counting)
    for frame in copies(passing)[:3]:
        cut.clear()
        assert clip(frame).chosen
        assert len(cut) == cuts


def test_what_is_one_graph_on_a_gpu_is_what_is_done_step_by_step(real, passing, monkeypatch):
    calls, graphed = [], []

    def whole(*given):
        calls.append([len(each) for each in given])
        return fitted(*given)

    def network(name, function, device, **rest):
        graphed.append(function)
        return whole

    results = []
    for there in (False, True):
        monkeypatch.setattr(patch, "graphable", lambda like, there=there: there)
        monkeypatch.setattr(patch, "Graphed", network)
        clip = ClipPipeline(real(color_match=True), cast(person()))
        frames = copies(passing)[:6]
        assert sum(bool(clip(frame).chosen) for frame in frames) > DEPTH
        results.append(frames)
    assert graphed == [fitted]
    assert [each[4] for each in calls][: DEPTH + 2] == [*range(DEPTH + 1), DEPTH]  # frames before
    for one, other in zip(*results, strict=True):
        assert int((one.pixels.int() - other.pixels.int()).abs().max()) <= 1


def test_frames_that_were_only_watched_are_asked_for_as_many_as_count(real, passing):
    swap, who, whole = real(), cast(person(3)), copies(passing)
    list(ClipPipeline(swap, who).run(whole))
    network = StandIn(green_hides)
    resumed = ClipPipeline(real(before=Occlusion(network, contract())), who)
    frames = copies(passing)
    for frame in frames[:8]:
        resumed.skip(resumed.see(frame))
    assert network.calls == 0
    for frame in frames[8:]:
        resumed(frame)
    assert network.calls == len(frames) - 8 + DEPTH
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(frames[8:], whole[8:], strict=True))


def test_a_moving_bar_is_not_painted_over_and_leaves_no_trail(real, passing):
    done = copies(passing)
    laid, beyond = list(ClipPipeline(real(), cast(person(3))).run(done)), 0
    for before, after, each in zip(passing, done, laid, strict=True):
        bar = green(before.pixels)
        inner = bar & bar.roll(4, dims=1) & bar.roll(-4, dims=1)
        assert torch.equal(after.pixels[inner], before.pixels[inner])
        # and beside it the face is swapped, also where the bar was a frame ago
        box = each.faces.boxes[0].round().int().tolist()
        middle = (box[1] + box[3]) // 2
        row = slice(box[0] + 12, box[2] - 12)
        near = bar | bar.roll(6, dims=1) | bar.roll(-6, dims=1)
        changed = (after.pixels != before.pixels).any(dim=2)
        beside = changed[middle, row][~near[middle, row]]
        assert not len(beside) or float(beside.float().mean()) > 0.9
        beyond += len(beside)
    assert beyond > 200


def faces_of(find, frame):
    return replace(found := find(frame.pixels), ids=torch.arange(len(found)) + 7)


def test_masks_are_steadied_unless_told_otherwise_and_begin_anew_after_cuts(find, load):
    frame = Frame(torch.from_numpy(load("ben")))
    faces, turn = faces_of(find, frame), [0]

    def restless(inputs):
        turn[0] += 1
        return {"logit": torch.full_like(inputs["crop"][:, :1], 0.08 if turn[0] % 2 else -0.08)}

    size = SimpleNamespace(template="arcface_128", size=128)

    def unrest(*, smooth, fresh=False):
        turn[0], found = 0, []
        coverer = Coverer(occlusion(restless), size, smooth=smooth)
        for i in range(8):
            covers = coverer(frame, faces, fresh=fresh or i == 0)
            found.append(float(covers.seen_at([7], size)[7].mean()))
        return max(abs(a - b) for a, b in zip(found[DEPTH:], found[DEPTH + 1 :], strict=False))

    alone = unrest(smooth=False)
    assert unrest(smooth=True) < alone / 3
    assert unrest(smooth=True, fresh=True) == alone


def test_a_track_that_was_not_there_begins_anew(find, load):
    frame, size = Frame(torch.from_numpy(load("ben"))), contract()
    faces, network = faces_of(find, frame), occlusion()
    other = replace(faces, ids=faces.ids + 1)
    coverer = Coverer(network, size, smooth=True)
    coverer(frame, faces, fresh=True)
    covers = coverer(frame, other, fresh=False)
    crops = align(frame, other, size)
    assert torch.equal(
        shown(covers.seen(other, crops), crops.size), seen_now(network, frame, other, crops)
    )
    calls = network.engine.calls
    coverer(frame, faces, fresh=False).seen(faces, crops)
    assert network.engine.calls == calls + 1  # of the gap, nobody was asked about this track


def test_a_held_face_lies_behind_what_is_there_now(real, load):
    face = actor(torch.from_numpy(load("ada")), 180, lambda _: Place(200, 120))
    gray = Actor(torch.full((60, 400, 3), 120, dtype=torch.uint8), lambda t: Place(200, 170)
                 if t >= 0.2 else None, head=False)  # fmt: skip
    bar = Actor(
        torch.tensor(GREEN, dtype=torch.uint8).expand(240, 24, 3).clone(),
        lambda t: Place(110 + 200 * t, 120),
        head=False,
    )
    frames = list(play([face, gray, bar], times(0.7, 20), size=SIZE))
    before = copies(frames)
    clip = ClipPipeline(real(), cast(person(3)), policy=Policy("hold", hold=0.4))
    done = list(clip.run(frames))
    held = [
        i for i, frame in enumerate(frames) for e in clip.events if e.start <= frame.time <= e.end
    ]
    assert len(held) >= 3
    assert max(levels(done)[i] for i in held) == 1
    crossed = 0
    for i in held:
        bar_now = green(before[i].pixels)
        inner = bar_now & bar_now.roll(5, dims=1) & bar_now.roll(-5, dims=1)
        assert torch.equal(frames[i].pixels[inner], before[i].pixels[inner])
        crossed += bool((frames[i].pixels != before[i].pixels).any())
    assert crossed


def test_a_rejected_face_lies_behind_what_is_there_now(real, passing):
    calls = []

    def paint(inputs):
        calls.append(1)
        return {"output": darker(inputs)["output"] * (float("nan") if len(calls) in (7, 8) else 1)}

    frames = copies(passing)
    done = list(ClipPipeline(real(paint), cast(person(3)), policy=Policy("hold")).run(frames))
    (spoiled,) = [i for i, each in enumerate(done) if each.faults]
    bar = green(passing[spoiled].pixels)
    inner = bar & bar.roll(5, dims=1) & bar.roll(-5, dims=1)
    assert levels(done)[spoiled] == 1
    assert (frames[spoiled].pixels != passing[spoiled].pixels).any()
    assert torch.equal(frames[spoiled].pixels[inner], passing[spoiled].pixels[inner])
