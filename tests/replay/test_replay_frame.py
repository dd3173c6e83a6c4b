"""A whole frame of fixed capacity is what the pipeline makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import CONSENT, scene
from waiting import Watch, unwatched

import mien
from mien.engines import open_engine
from mien.models import Catalogue
from mien.pipeline.finder import COARSE
from mien.replay.frame import Part, WholeFrame
from mien.replay.graph import Replay

CATALOGUE = Catalogue()
NAMES = {
    "detector": "yunet",
    "mesh": "facemesh",
    "embedder": "sface",
    "swapper": "mien-lite",
    "occlusion": "mien-occlusion",
}


@pytest.fixture(scope="module", params=["cpu", "torch-cpu"])
def any_parts(request):
    cards = {role: CATALOGUE.card(name) for role, name in NAMES.items()}
    return {
        role: Part.of(
            open_engine(card.name, card.read, provider=request.param, threads=1), card.contract
        )
        for role, card in cards.items()
    }


@pytest.fixture(scope="module")
def lite():
    return mien.Swapper(model="mien-lite", threads=1)


@pytest.fixture(scope="module")
def frame(load):
    return scene([load(name) for name in ("ben", "mei", "ada", "femi")], 320, 2)


def whole(parts, frame, **options):
    height, width = frame.shape[:2]
    return WholeFrame(parts, height=height, width=width, **{"slots": 8, "side": 640} | options)


def psnr(a, b):
    return float(-10 * torch.log10(((a.float() - b.float()) / 255).square().mean()))


@pytest.mark.parametrize(("who", "least"), [("largest", 43), ("all", 45)])
def test_a_frame_is_that_of_the_pipeline(any_parts, lite, frame, load, who, least):
    dev = lite.identity(load("dev"), consent=CONSENT)
    wanted = lite.swap(frame.numpy(), dev, faces=who)
    with torch.inference_mode():
        # where the finder looks first: elsewhere guesses and all that follow are half a pixel off
        made = whole(any_parts, frame, who=who, side=COARSE)(frame, dev.embedding[None])
    count = 4 if who == "all" else 1
    assert (made.roles >= 0).sum() == len(wanted.report()["swapped"]) == count
    theirs = torch.from_numpy(wanted.pixels)
    changed = (theirs != frame).any(dim=2)
    assert psnr(made.pixels[changed], theirs[changed]) > least
    stray = (made.pixels != frame).any(dim=2) & ~changed
    assert stray.float().mean() < 1e-3
    assert not made.faulty.any()


def test_the_watch_sees_what_waits():
    with Watch() as watch:
        values = torch.arange(3.0)
        float(values[1])
        values[values > 1]
        values.new_tensor([1.0])
        torch.linalg.eigh(torch.eye(3))
    assert watch.seen >= {"_local_scalar_dense", "lift_fresh", "_linalg_eigh"}


@pytest.mark.parametrize(
    "options",
    [{"who": "all", "blend": "poisson"}, {"who": "person"}, {"who": "largest", "steady": 1}],
)
def test_nothing_waits_for_the_processor(parts, frame, options):
    parts = {role: unwatched(part) for role, part in parts.items()}
    made = whole(parts, frame, slots=2, **options)
    people = torch.ones(2, 128) / 128**0.5
    replaced = people if options["who"] == "person" else None
    made(frame, people, replaced)  # tables are made once
    with Watch() as watch:
        made(frame, people, replaced)
    assert watch.seen == set()


def test_poisson_blending_is_the_pipelines(parts, frame, load):
    swapper = mien.Swapper(model="mien-lite", threads=1, blend="poisson")
    dev = swapper.identity(load("dev"), consent=CONSENT)
    theirs = torch.from_numpy(swapper.swap(frame.numpy(), dev, faces="all").pixels)
    made = whole(parts, frame, who="all", blend="poisson", side=COARSE)(frame, dev.embedding[None])
    changed = (theirs != frame).any(dim=2)
    assert psnr(made.pixels[changed], theirs[changed]) > 43


def test_people_are_known_by_their_faces(parts, lite, frame, load):
    dev, ada, mei = (lite.identity(load(name), consent=CONSENT) for name in ("dev", "ada", "mei"))
    people = torch.stack([dev.embedding, ada.embedding])
    replaced = torch.stack([ada.embedding, mei.embedding])
    made = whole(parts, frame, who="person")(frame, people, replaced)
    who = {int(role): box for role, box in zip(made.roles, made.boxes, strict=True) if role >= 0}
    assert set(who) == {0, 1}
    assert float(who[0][1]) > 300 > float(who[0][0])  # ada is below on the left
    assert float(who[1][0]) > 300 > float(who[1][1])  # mei is above on the right
    assert torch.equal(made.pixels[:320, :320], frame[:320, :320])


def test_a_frame_without_a_face_stays(parts):
    frame = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8))
    made = whole(parts, frame, side=128)(frame, torch.ones(1, 128))
    assert torch.equal(made.pixels, frame)
    assert (made.roles == -1).all()
    assert (made.scores == 0).all()


@pytest.mark.parametrize("value", [float("nan"), 0.5])
def test_what_the_network_spoils_is_not_laid(parts, frame, value):
    def spoiled(inputs):
        return {"output": torch.full_like(inputs["target"], value)}

    bad = parts | {"swapper": replace(parts["swapper"], network=spoiled)}
    made = whole(bad, frame, who="all")(frame, torch.ones(1, 128) / 128**0.5)
    assert torch.equal(made.pixels, frame)
    assert int(made.faulty.sum()) == 4


def test_frames_stream_through_in_their_order(parts, frame, load, lite):
    dev = lite.identity(load("dev"), consent=CONSENT)
    other = frame.flip(1).contiguous()
    replay = Replay(whole(parts, frame, slots=1), dev.embedding[None], None, frame=frame)
    alone = [replay(each).pixels.clone() for each in (frame, other)]
    streamed = [outcome.pixels.clone() for outcome in replay.stream([frame, other, frame])]
    assert [torch.equal(a, b) for a, b in zip(streamed, [*alone, alone[0]], strict=True)] == [
        True
    ] * 3
    assert not torch.equal(alone[0], frame)
    replay.cast(lite.identity(load("ada"), consent=CONSENT).embedding[None])
    assert not torch.equal(replay(frame).pixels, alone[0])
