"""What is before a face is taken out of its mask, and nothing else is."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from conftest import StandIn

from mien.errors import TemplateMismatch
from mien.models import OcclusionContract, PixelFormat
from mien.stages.occlude import SOFT, Occlusion
from mien.types import Crops

SIDE = 16
CONTRACT = OcclusionContract(
    input="crop",
    pixels=PixelFormat(low=-1.0, high=1.0),
    output="logit",
    size=SIDE,
    template="arcface_128",
)


def crops(number=3, size=SIDE, template="arcface_128"):
    pixels = torch.from_numpy(np.random.default_rng(0).random((number, 3, size, size), np.float32))
    return Crops(pixels, torch.eye(3)[:2].expand(number, 2, 3), template)


def masks(number=3, size=SIDE):
    return torch.from_numpy(np.random.default_rng(1).random((number, size, size), np.float32))


def stage(function):
    return Occlusion(StandIn(lambda inputs: {"logit": function(inputs["crop"])}), CONTRACT)


def all_seen(crop):
    return torch.full_like(crop[:, :1], 9.0)


def left_half_hidden(crop):
    logit = all_seen(crop)
    logit[..., : SIDE // 2] = -9.0
    return logit


def hide(occlusion, faces, before):
    """Take what is before the faces out of their masks."""
    return before * occlusion.seen(faces, before.shape[-1])


@pytest.mark.parametrize("size", [SIDE, 2 * SIDE, 24])
def test_a_bare_face_is_left_alone_bit_for_bit(size):
    before = masks(size=size)
    assert torch.equal(hide(stage(all_seen), crops(size=size), before), before)


def test_what_is_before_the_face_is_taken_out_of_the_mask():
    before = masks()
    after = hide(stage(left_half_hidden), crops(), before)
    reach = SOFT // 2
    assert not after[..., : SIDE // 2 - reach].any()
    assert torch.equal(after[..., SIDE // 2 + reach :], before[..., SIDE // 2 + reach :])
    share = (after / before)[..., SIDE // 2 - reach : SIDE // 2 + reach]
    torch.testing.assert_close(share, torch.tensor([1 / 3, 2 / 3]).expand_as(share))


def test_larger_crops_get_the_same_edge_at_their_own_size():
    seen = stage(left_half_hidden).seen(crops(size=2 * SIDE), 2 * SIDE)
    assert seen.shape == (3, 2 * SIDE, 2 * SIDE)
    torch.testing.assert_close(seen, seen.flip(1))
    assert bool((seen[..., 1:] >= seen[..., :-1] - 1e-6).all())
    torch.testing.assert_close(seen + seen.flip(2), torch.ones_like(seen))


def test_the_network_sees_the_crops_in_its_own_size_and_range():
    shown = []

    def look(crop):
        shown.append(crop)
        return all_seen(crop)

    large = crops(size=2 * SIDE)
    hide(stage(look), large, masks(size=2 * SIDE))
    small = large.pixels.unflatten(2, (SIDE, 2)).unflatten(4, (SIDE, 2)).mean(dim=(3, 5))
    torch.testing.assert_close(shown[0], small * 2 - 1)


def test_all_faces_go_in_one_batch_and_none_need_no_run():
    network = StandIn(lambda inputs: {"logit": all_seen(inputs["crop"])})
    occlusion = Occlusion(network, CONTRACT)
    hide(occlusion, crops(5), masks(5))
    assert network.calls == 1
    assert hide(occlusion, crops(0), masks(0)).shape == (0, SIDE, SIDE)
    assert network.calls == 1


def test_what_a_broken_network_says_changes_nothing(caplog):
    def broken(crop):
        logit = left_half_hidden(crop)
        logit[1 if len(crop) > 1 else 0, 0, 3, 3] = float("nan")  # and when asked again
        return logit

    before = masks()
    with caplog.at_level(logging.WARNING):
        after = hide(stage(broken), crops(), before)
    assert torch.equal(after[1], before[1])
    assert not torch.equal(after[0], before[0])
    assert "nothing is kept before the face" in caplog.text


def test_crops_for_another_network_are_refused():
    with pytest.raises(TemplateMismatch):
        hide(stage(all_seen), crops(template="ffhq_512"), masks())
