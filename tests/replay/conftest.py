"""Fixtures of replays: networks by role, somebody to receive."""

from __future__ import annotations

import pytest
import torch

from mien.engines import OnnxEngine
from mien.models import Catalogue
from mien.replay.frame import Part


@pytest.fixture
def without_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def parts(request):
    """Return the networks that the module's NAMES have by role."""
    cards = {role: Catalogue().card(name) for role, name in request.module.NAMES.items()}
    return {
        role: Part(OnnxEngine(card.name, card.read, threads=1), card.contract)
        for role, card in cards.items()
    }


@pytest.fixture
def people():
    """Return the embedding of somebody who is nobody."""
    draw = torch.Generator().manual_seed(0)
    return torch.nn.functional.normalize(torch.randn(1, 128, generator=draw), dim=1)
