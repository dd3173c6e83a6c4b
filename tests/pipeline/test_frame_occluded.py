"""What the occlusion network takes for a thing before the face is not painted over."""

from __future__ import annotations

import pytest
import torch
from conftest import StandIn

from mien import Catalogue, Frame
from mien.geometry import apply
from mien.models import OcclusionContract, PixelFormat
from mien.pipeline import Pipeline
from mien.pipeline.casting import Cast
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
