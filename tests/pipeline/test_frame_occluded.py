"""What the occlusion network takes for a thing before the face is not painted over."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from conftest import StandIn

from mien import Catalogue, Frame
from mien.geometry import apply, invert
from mien.models import OcclusionContract, PixelFormat
from mien.pipeline import Pipeline
from mien.pipeline.casting import Cast
from mien.pipeline.patch import seen_now
from mien.stages.align import align
from mien.stages.embed import Embedder
from mien.stages.occlude import Occlusion
from mien.stages.swap import FaceSwap
from mien.types import Identity, Role

CONTRACT = OcclusionContract(
    input="crop",
    pixels=PixelFormat(low=-1.0, high=1.0),
    output="logit",
    size=128,
    template="arcface_128",
)


def right_half_hidden(inputs):
    logit = torch.full_like(inputs["crop"][:, :1], 9.0)
    logit[..., 64:] = -9.0
    return {"logit": logit}


def test_a_network_on_another_template_sees_the_same_places(find, load):
    frame = Frame(torch.from_numpy(load("ben")))
    faces = find(frame.pixels)
    occlusion = Occlusion(StandIn(right_half_hidden), CONTRACT)
    # in the frame, the network's crop ends in the middle
    middle = align(frame, faces, CONTRACT).matrices
    wide = align(frame, faces, SimpleNamespace(template="ffhq_512", size=256))
    found = seen_now(occlusion, frame, faces, wide)[0]
    rows, columns = torch.meshgrid(torch.arange(256.0), torch.arange(256.0), indexing="ij")
    places = apply(invert(wide.matrices), torch.stack([columns, rows], dim=2).view(1, -1, 2))
    x, y = apply(middle, places)[0].view(256, 256, 2).unbind(dim=2)
    inside = (x > 2) & (x < 125) & (y > 2) & (y < 125)
    assert bool((found[inside & (x < 60)] > 0.99).all())
    assert bool((found[inside & (x > 68)] < 0.01).all())
    outside = (x < -2) | (x > 130) | (y < -2) | (y > 130)
    assert outside.any()
    assert bool((found[outside] == 1).all())


@pytest.mark.parametrize("blend", ["alpha", "poisson"])
def test_what_is_before_the_face_stays(find, load, blend):
    cards = Catalogue()
    embed = StandIn(lambda inputs: {"fc1": torch.ones(len(inputs["data"]), 128)})
    embed.model = "sface"
    swap = Pipeline(
        find,
        Embedder(embed, cards.card("sface").contract),
        FaceSwap(
            StandIn(lambda inputs: {"output": -inputs["target"]}), cards.card("mien-256").contract
        ),
        blend=blend,
        color_match=False,
        occlusion=Occlusion(StandIn(right_half_hidden), CONTRACT),
    )
    before = torch.from_numpy(load("ben"))
    who = Identity(torch.nn.functional.normalize(torch.ones(128), dim=0), "sface", "d", "c-1")
    done = swap(Frame(before.clone()), Cast((Role(who),), None))
    changed = (done.frame.pixels != before).any(dim=-1).nonzero().flip(1).float()
    at = apply(done.layers.matrices[0], changed)
    assert len(at) > 1000
    # edges are soft over the network's pixels, and the paste's filters reach a little farther
    assert float(at[:, 0].max()) < 128 + 6
    assert not done.layers.masks[0, :, 132:].any()
