"""Clips from pixels to pixels, with a swap network that paints: pictures, threads, bad frames."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from conftest import StandIn, scene
from test_frame import cast, halves, person, pipeline

from mien.errors import InvalidOption, SpaceMismatch
from mien.evaluate.moving import Actor, Place, actor, play, times
from mien.loader import Loader
from mien.models import Catalogue, EmbedderContract
from mien.pipeline import Cast, ClipPipeline, Pipeline, Policy
from mien.stages.embed import Embedder
from mien.stages.swap import FaceSwap
from mien.types import Frame, Role

SIZE = (240, 400)


def copies(frames):
    return [replace(frame, pixels=frame.pixels.clone()) for frame in frames]


def darker(inputs):
    """Return the target, darker and with some of the source in it: all inputs count."""
    return {"output": (inputs["target"] * 0.6 - 0.2 + inputs["source"][:, :1, None, None] * 0.1)}


@pytest.fixture(scope="module")
def real(find):
    """A pipeline with the embedder that ships, and a swap that paints with ``paint``."""
    loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=None)
    embedder = Embedder(*loader.load("sface", EmbedderContract))

    def make(paint=darker, **options):
        swap = FaceSwap(StandIn(paint), Catalogue().card("mien-256").contract)
        return Pipeline(find, embedder, swap, **options)

    return make


@pytest.fixture
def head(load):
    def make(name, path, side=180):
        return actor(torch.from_numpy(load(name)), side, path)

    return make


@pytest.fixture
def three(load):
    pixels = torch.full((300, 800, 3), 127, dtype=torch.uint8)
    for name, left, side in (("ben", 0, 290), ("ada", 300, 250), ("mei", 570, 200)):
        pixels[10 : 10 + side, left : left + side] = scene([load(name)], side, 1)
    return Frame(pixels, time=Fraction(5, 3))


@pytest.mark.parametrize("blend", ["alpha", "poisson"])
@pytest.mark.parametrize("strength", [1.0, 0.6])
@pytest.mark.parametrize("faces", ["largest", "all", (2, 0)])
def test_a_clip_of_one_frame_is_the_picture(real, three, faces, strength, blend):
    one, other = copies([three, three])
    swap, who = real(blend=blend), cast(person(3), faces)
    picture = swap(one, who, strength=strength)
    clip = ClipPipeline(swap, who, strength=strength)(other)
    assert torch.equal(one.pixels, other.pixels)
    assert not torch.equal(one.pixels, three.pixels)
    assert (clip.chosen, clip.roles, clip.faults) == (picture.chosen, picture.roles, ())
    assert set(clip.opacities) == {1.0}
    assert torch.equal(clip.faces.mesh, picture.faces.mesh)


def test_a_clip_of_one_frame_is_the_picture_also_by_person(real, three, load):
    swap = real()
    ben, mei = (
        replace(person(consent=""), embedding=swap.embedder(_aligned(swap, load(name)))[0])
        for name in ("ben", "mei")
    )
    who = Cast((Role(person(1), mei), Role(person(2), ben)))
    one, other = copies([three, three])
    picture, clip = swap(one, who), ClipPipeline(swap, who)(other)
    assert torch.equal(one.pixels, other.pixels)
    assert (clip.chosen, clip.roles) == (picture.chosen, picture.roles) == ((2, 0), (0, 1))
    assert torch.equal(clip.distances, picture.distances)


def _aligned(swap, pixels):
    from mien.stages.align import align

    frame = Frame(torch.from_numpy(pixels))
    return align(frame, swap.finder(frame.view), swap.embedder.contract)


@pytest.fixture
def moving(head):
    """Two who cross, and one is gone at the end; 14 frames."""
    return list(
        play(
            [
                head("ben", lambda t: Place(90 + 250 * t, 125) if t < 0.8 else Place(150, 130)),
                head("mei", lambda t: Place(310 - 250 * t, 120) if t < 0.8 else None),
            ],
            times(1, 14),
            size=SIZE,
            noise=2,
        )
    )


@pytest.mark.parametrize("faces", ["all", "largest"])
def test_many_threads_equal_one(real, moving, faces):
    swap, results = real(), []
    for threads in (1, 2, 5):
        frames = copies(moving)
        pipeline = ClipPipeline(swap, cast(person(3), faces), policy=Policy("hold"))
        done = list(pipeline.run(frames, threads=threads))
        assert [each.frame for each in done] == frames
        results.append((frames, [(d.chosen, d.opacities) for d in done], pipeline.events))
    for frames, laid, events in results[1:]:
        assert laid == results[0][1]
        assert events == results[0][2]
        for a, b in zip(frames, results[0][0], strict=True):
            assert torch.equal(a.pixels, b.pixels)


def test_what_is_made_in_any_order_is_the_same(real, moving):
    swap, who = real(), cast(person(3), "all")
    straight, turned = copies(moving), copies(moving)
    for _ in ClipPipeline(swap, who).run(straight):
        pass
    pipeline = ClipPipeline(swap, who)
    seen = [pipeline.see(frame) for frame in turned]
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(turned, moving, strict=True))
    made = [pipeline.make(one) for one in reversed(seen)]
    for one in reversed(made):
        pipeline.finish(one)
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(straight, turned, strict=True))


def test_frames_without_faces_come_back(find):
    frames = [Frame(torch.full((60, 80, 3), 90, dtype=torch.uint8), time=Fraction(i, 10))
              for i in range(5)]  # fmt: skip
    for who in (cast(), cast(faces="all"), cast(faces=[1]), Cast((Role(person(), person(1)),))):
        for done in ClipPipeline(pipeline(find), who).run(frames):
            assert (len(done.faces), done.chosen, done.layers) == (0, (), None)
            assert bool((done.frame.pixels == 90).all())


def levels(done):
    return [sum(each.opacities) for each in done]


def test_a_face_that_is_covered_fades_and_comes_back(real, head):
    face = head("ada", lambda t: Place(200, 120))
    block = Actor(torch.full((200, 110, 3), 120, dtype=torch.uint8),
                  lambda t: Place(200, 120) if 0.2 <= t < 0.6 else None, head=False)  # fmt: skip
    frames = list(play([face, block], times(1, 20), size=SIZE, noise=2))
    before = [frame.pixels.clone() for frame in frames]
    clip = ClipPipeline(real(), cast(person(3)), policy=Policy(fade=0.2))
    done = list(clip.run(frames))
    shown = levels(done)
    assert shown[:4] == [1, 1, 1, 1]
    down, up = shown[3:8], shown[11:17]
    assert down == sorted(down, reverse=True)
    assert len(set(down)) == 5
    assert down[-1] == 0
    assert up == sorted(up)
    assert len({*up}) >= 5
    assert up[-1] == 1
    assert torch.equal(frames[9].pixels, before[9])
    (event,) = clip.events
    assert (event.track, event.reason, event.action) == (0, "lost", "fade")
    assert (event.start, event.end, event.frames) == (Fraction(4, 20), Fraction(11, 20), 8)


@pytest.mark.parametrize("action", ["hold", "fade", "leave"])
def test_a_frame_that_the_network_spoils(real, head, action):
    frames = list(
        play([head("ada", lambda t: Place(160 + 100 * t, 120))], times(0.5, 20), size=SIZE)
    )
    before = [frame.pixels.clone() for frame in frames]
    calls = []

    def paint(inputs):
        calls.append(1)
        spoiled = len(calls) in (5, 6)  # the fifth frame, and once more in the safe mode
        return {"output": darker(inputs)["output"] * (float("nan") if spoiled else 1)}

    clip = ClipPipeline(real(paint), cast(person(3)), policy=Policy(action, hold=0.1, fade=0.2))
    done = list(clip.run(frames))
    assert [fault.face for fault in done[4].faults] == [0]
    assert [(e.reason, e.action, e.start, e.end) for e in clip.events] == [
        ("rejected", action, Fraction(1, 5), Fraction(1, 5))
    ]
    level = {"hold": 1.0, "fade": pytest.approx(0.84375), "leave": 0}[action]
    assert levels(done)[3:5] == [1, level]
    changed = (frames[4].pixels != before[4]).any(dim=2)
    if action == "leave":
        assert not changed.any()
    else:
        # the face of the frame before lies where the face is now
        columns = changed.nonzero()[:, 1].float()
        box = done[4].faces.boxes[0]
        assert abs(float(columns.mean()) - float(box[0] + box[2]) / 2) < 2


def test_the_largest_is_one_person_though_sizes_change(real, head):
    one = head("ben", lambda t: Place(110, 120, 1 + (0.12 if int(t * 20) % 2 else -0.12)))
    other = head("mei", lambda t: Place(290, 120, 1.35))
    done = list(
        ClipPipeline(real(), cast(person(3)), look=0).run(
            play([one, other], times(0.6, 20), size=SIZE, noise=1)
        )
    )
    playing = {int(each.faces.ids[face]) for each in done for face in each.chosen}
    largest = {int(each.faces.ids[int(each.faces.areas.argmax())]) for each in done}
    assert len(largest) == 2
    assert len(playing) == 1


def test_a_number_means_the_same_person_after_leaving_and_coming_back(real, head):
    one = head("ben", lambda t: Place(110, 120))
    other = head("mei", lambda t: Place(290, 120) if not 0.4 <= t < 1.7 else None)
    moments = times(2.2, 10)
    clip = ClipPipeline(real(), cast(person(3), [1], order="left-right"), look=0)
    done = list(clip.run(play([one, other], moments, size=SIZE, noise=1)))
    for each, t in zip(done, moments, strict=True):
        for face in each.chosen:
            assert float(each.faces.points[face, :, 0].mean()) > 200
        if Fraction(4, 10) + Fraction(1, 5) <= t < Fraction(17, 10):
            assert each.chosen == ()
    assert levels(done)[0] == levels(done)[-1] == 1
    # another track, the same person
    first, last = (int(done[i].faces.ids[done[i].chosen[0]]) for i in (0, -1))
    assert first != last


def test_roles_of_a_map_stay_with_who_cross(real, head, load):
    swap, speed = real(), 250
    ben, mei = (
        replace(person(consent=""), embedding=swap.embedder(_aligned(swap, load(name)))[0])
        for name in ("ben", "mei")
    )
    who = Cast((Role(person(1), mei), Role(person(2), ben)))
    paths = [lambda t: Place(310 - speed * t, 120), lambda t: Place(80 + speed * t, 125)]
    actors = [head("ben", paths[1]), head("mei", paths[0])]
    moments, played = times(0.92, 25), [0, 0]
    for done, t in zip(
        ClipPipeline(swap, who).run(play(actors, moments, size=SIZE, noise=2)), moments, strict=True
    ):
        for face, role in zip(done.chosen, done.roles, strict=True):
            assert abs(float(done.faces.points[face, 2, 0]) - paths[role](float(t)).x) < 30
            played[role] += 1
    assert played[0] == len(moments)
    assert played[1] > len(moments) / 2


def test_what_does_not_fit_is_refused(find):
    with pytest.raises(SpaceMismatch):
        ClipPipeline(pipeline(find), cast(person(space="arcface")))
    with pytest.raises(InvalidOption, match="strength"):
        ClipPipeline(pipeline(find), cast(), strength=2)
    clip = ClipPipeline(pipeline(find, halves), cast())
    with pytest.raises(InvalidOption, match="threads"):
        list(clip.run([], threads=0))
    with pytest.raises(InvalidOption, match="time"):
        clip(Frame(torch.zeros(60, 80, 3, dtype=torch.uint8)))


def test_an_error_in_a_thread_is_raised_in_its_turn(real, moving):
    def broken(inputs):
        raise MemoryError

    clip = ClipPipeline(real(broken), cast(person(3)))
    with pytest.raises(MemoryError):
        list(clip.run(copies(moving), threads=3))


@pytest.mark.parametrize("threads", [1, 3])
def test_what_came_before_an_error_is_done(real, moving, threads):
    def cut_short():
        yield from copies(moving[:6])
        raise OSError("the file ends here")

    done = []
    with pytest.raises(OSError, match="ends here"):
        done.extend(ClipPipeline(real(), cast(person(3))).run(cut_short(), threads=threads))
    # list.extend keeps what it was given before the error
    assert len(done) == 6
    assert all(each.chosen for each in done)
