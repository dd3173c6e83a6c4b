"""How large a network is: its parameters and its multiply-accumulates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mien.nets.occlusion import OcclusionNet
from mien.nets.swapper import Swapper


def parameters(network: nn.Module) -> int:
    """Return how many parameters ``network`` has."""
    return sum(p.numel() for p in network.parameters())


def macs(network: Swapper | OcclusionNet) -> int:
    """Return the multiply-accumulates of one picture: convolutions and linear layers."""
    total = 0

    def add(module: nn.Module, inputs: Any, output: Tensor) -> None:
        del inputs
        nonlocal total
        if isinstance(module, nn.Conv2d | nn.Linear):
            total += module.weight[0].numel() * output[0].numel()

    hooks = [module.register_forward_hook(add) for module in network.modules()]
    device = next(network.parameters()).device
    size = network.shape.size
    inputs = [torch.zeros(1, 3, size, size, device=device)]
    if isinstance(network, Swapper):
        inputs.append(torch.zeros(1, network.shape.space, device=device))
    with torch.no_grad():
        network(*inputs)
    for hook in hooks:
        hook.remove()
    return total
