"""The pipeline with networks that paint a known picture: geometry, choice, faults, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import atan2, degrees

import pytest
import torch
from conftest import StandIn, scene
from test_finder import between, turned

from mien import Cast, Identity, errors
from mien.geometry import uncover
from mien.models import Catalogue
from mien.pipeline import Pipeline
from mien.stages.embed import Embedder, mix, unit
from mien.stages.swap import FaceSwap
from mien.types import Frame, Role

RED, BLUE = torch.tensor([1.0, -1.0, -1.0]), torch.tensor([-1.0, -1.0, 1.0])


@pytest.fixture
def three(load):
    """Three faces: 150, 110 and 70 pixels, in a row."""
    frame = torch.full((400, 1000, 3), 127, dtype=torch.uint8)
    for name, left, side in (("ben", 0, 380), ("ada", 400, 300), ("mei", 720, 200)):
        frame[10 : 10 + side, left : left + side] = scene([load(name)], side, 1)
    return Frame(frame)


def halves(inputs):
    """Paint the left half of every crop red and the right one blue."""
    target = inputs["target"]
    painted = RED[:, None, None].expand(target.shape[1:]).clone()
    painted[:, :, painted.shape[2] // 2 :] = BLUE[:, None, None]
    return {"output": painted.expand_as(target).clone()}


def pipeline(find, paint=halves, embed=None, **options):
    cards = Catalogue()
    embed = embed or StandIn(lambda inputs: {"fc1": torch.ones(len(inputs["data"]), 128)})
    embed.model = "sface"
    return Pipeline(
        find,
        Embedder(embed, cards.card("sface").contract),
        FaceSwap(StandIn(paint), cards.card("mien-256").contract),
        **{"color_match": False} | options,
    )


def person(seed=0, **changed):
    generator = torch.Generator().manual_seed(seed)
    fields = {"space": "sface", "digest": "d", "consent": "c-1"} | changed
    return Identity(unit(torch.randn(128, generator=generator)), **fields)


def cast(who=None, faces=None, **options):
    return Cast((Role(who or person()),), faces, **options)


def inside(faces, shape, margin=0.0):
    """Return which pixels lie in a face's box."""
    mask = torch.zeros(shape[:2], dtype=torch.bool)
    for left, top, right, bottom in faces.boxes.round().int().tolist():
        mask[max(0, top) : bottom + 1, max(0, left) : right + 1] = True
    return mask


@pytest.mark.parametrize("angle", range(0, 360, 15))
def test_what_is_pasted_turns_with_the_face(find, load, angle):
    swap = pipeline(find)

    def direction(picture):
        done = swap(Frame(picture.clone()), cast())
        changed = (done.frame.pixels != picture).any(dim=-1)
        pixels = done.frame.pixels.float()
        red = changed & (pixels[..., 0] > 230) & (pixels[..., 2] < 25)
        blue = changed & (pixels[..., 2] > 230) & (pixels[..., 0] < 25)
        (y0, x0), (y1, x1) = (part.nonzero().float().mean(dim=0).tolist() for part in (red, blue))
        return degrees(atan2(y1 - y0, x1 - x0))

    upright = torch.from_numpy(load("dev"))
    assert between(direction(turned(load("dev"), angle)[0]), direction(upright) + angle) < 2


@pytest.mark.parametrize("blend", ["alpha", "poisson"])
@pytest.mark.parametrize("color_match", [True, False])
def test_all_faces_change_and_nothing_else(find, three, blend, color_match):
    before = three.pixels.clone()
    swap = pipeline(find, blend=blend, color_match=color_match)
    done = swap(three, cast(faces="all"))
    assert done.frame is three
    assert sorted(done.chosen) == [0, 1, 2]
    assert (done.roles, done.faults) == ((0, 0, 0), ())
    changed = (done.frame.pixels != before).any(dim=-1)
    boxes = inside(done.faces, before.shape)
    assert not changed[~boxes].any()
    for i in range(3):
        assert changed[inside(done.faces[i], before.shape)].float().mean() > 0.5
    # what was there before can be had back
    uncover(three.pixels, done.layers.covered)
    assert torch.equal(three.pixels, before)
    assert list(done.timings) == ["detect", "landmark", "align", "swap", "mask", "blend"]


def test_the_largest_is_chosen(find, three):
    before = three.pixels.clone()
    done = pipeline(find)(three, cast())
    changed = (done.frame.pixels != before).any(dim=-1).nonzero()
    assert done.chosen == (0,)
    assert int(changed[:, 1].max()) < 380


def test_a_frame_without_a_face_comes_back(find):
    frame = Frame(torch.full((90, 120, 3), 80, dtype=torch.uint8))
    for who in (cast(), Cast((Role(person(), person(1)),))):
        done = pipeline(find)(frame, who)
        assert done.frame is frame
        assert (len(done.faces), done.chosen, done.layers) == (0, (), None)
        assert bool((frame.pixels == 80).all())


def test_strength_mixes_on_the_sphere(find, three):
    seen = []
    own = torch.zeros(128)
    own[0] = 1

    def paint(inputs):
        seen.append(inputs["source"][0])
        return halves(inputs)

    embed = StandIn(lambda inputs: {"fc1": own.expand(len(inputs["data"]), 128).clone()})
    swap, who = pipeline(find, paint, embed), person()
    for strength in (1.0, 0.5, 0.0):
        swap(Frame(three.pixels.clone()), cast(who), strength=strength)
    torch.testing.assert_close(seen[0], who.embedding)
    torch.testing.assert_close(seen[1], unit(who.embedding + own))
    torch.testing.assert_close(seen[2], own)
    assert embed.calls == 2  # at full strength the target is not embedded


@pytest.mark.parametrize("strength", [1.0, 0.5, 0.0])
def test_each_face_keeps_to_its_own_person_when_people_are_mixed(find, three, strength):
    seen, axes = [], torch.eye(128)

    def paint(inputs):
        seen.extend(inputs["source"])
        return halves(inputs)

    def known(number):
        return Identity(axes[number], space="sface", digest=f"{number}", consent="")

    embed = StandIn(lambda inputs: {"fc1": axes[: len(inputs["data"])].clone()})
    one, other = person(0), person(1)
    people = Cast((Role(one, known(2)), Role(other, known(0))))
    done = pipeline(find, paint, embed)(three, people, strength=strength)
    assert dict(zip(done.chosen, done.roles, strict=True)) == {0: 1, 2: 0}
    assert embed.calls == 1  # once, to know them and to mix them
    for got, source, own in zip(seen, (other, one), (axes[0], axes[2]), strict=True):
        torch.testing.assert_close(got, mix(own, source.embedding, strength), rtol=0, atol=1e-5)


def test_one_face_that_fails_leaves_the_others(find, three):
    def second_fails(inputs):
        out = halves(inputs)["output"]
        if len(out) == 3:
            out[1] = float("nan")
        else:
            out[:] = float("nan")
        return {"output": out}

    before = three.pixels.clone()
    done = pipeline(find, second_fails)(three, cast(faces="all"))
    assert sorted(done.chosen) == [0, 2]
    assert [fault.face for fault in done.faults] == [1]
    assert "finite" in done.faults[0].reason
    untouched = inside(done.faces[1], before.shape)
    assert torch.equal(three.pixels[untouched], before[untouched])


@pytest.mark.parametrize("value", [float("nan"), 0.0, 0.7])
def test_no_blank_face_is_ever_pasted(find, three, value):
    before = three.pixels.clone()
    swap = pipeline(find, lambda inputs: {"output": torch.full_like(inputs["target"], value)})
    done = swap(three, cast(faces="all"))
    assert (done.chosen, done.roles) == ((), ())
    assert [fault.face for fault in done.faults] == [0, 1, 2]
    assert torch.equal(three.pixels, before)


def test_what_does_not_fit_is_refused(find, three):
    swap = pipeline(find)
    with pytest.raises(errors.ConsentMissing):
        cast(person(consent=""))
    for role in (Role(person(space="arcface")), Role(person(), person(1, space="arcface"))):
        with pytest.raises(errors.SpaceMismatch, match="arcface"):
            swap(three, Cast((role,)))
    for strength in (1.5, -0.1, float("nan"), "much", None):
        with pytest.raises(errors.InvalidOption, match="0 to 1"):
            swap(three, cast(), strength=strength)
    with pytest.raises(errors.InvalidOption, match="largest, all"):
        cast(faces="some")
    with pytest.raises(errors.InvalidOption, match="alpha, poisson"):
        pipeline(find, blend="glue")


def test_many_threads_equal_one(find, three, load):
    def paint(inputs):
        return {
            "output": (inputs["target"] * 0.5 + inputs["source"][:, :1, None, None]).clamp(-1, 1)
        }

    swap = pipeline(find, paint, color_match=True)
    frames = [
        three,
        Frame(three.pixels.flip(1).contiguous()),
        Frame(torch.from_numpy(load("femi"))),
    ]
    work = [(frames[i % 3], person(i)) for i in range(12)]

    def swapped(pair):
        frame, who = pair
        return swap(Frame(frame.pixels.clone()), cast(who, "all")).frame.pixels

    alone = [swapped(pair) for pair in work]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(swapped, work))
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
