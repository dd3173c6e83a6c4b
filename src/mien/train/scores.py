"""Quick scores on held-out people, and pictures to look at, at every checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from mien.nets.swapper import Swapper
from mien.train import losses
from mien.train.faces import Watchers, face_mask
from mien.train.packs import Pack

ROWS = 32
"""Pictures at a time."""

FARTHEST = 7
"""Each person is put on the picture of the one so many places further on."""


class HeldOut:
    """People whom the network never learns from: each is put on somebody else's picture."""

    def __init__(self, pack: Pack, watchers: Watchers) -> None:
        self.watchers = watchers
        self.pictures = pack.pixels.float().div(127.5).sub(1)
        with torch.no_grad():
            self.source = _in_parts(watchers.sface, self.pictures)
            self.known = _in_parts(watchers.judge or watchers.sface, self.pictures)

    @torch.no_grad()
    def scores(self, swapper: Swapper) -> dict[str, float]:
        """Return means over all people; see ``docs/training.md`` for what they mean."""
        targets = self.pictures.roll(FARTHEST, dims=0)
        out = torch.cat(
            [
                swapper(t.contiguous(memory_format=torch.channels_last), s).float()
                for t, s in zip(targets.split(ROWS), self.source.split(ROWS), strict=True)
            ]
        )
        judge = self.watchers.judge or self.watchers.sface
        seen = _in_parts(judge, out)
        alike = seen @ self.known.T
        own = torch.arange(len(out), device=out.device)
        mesh, wanted = (_in_parts(self.watchers.mesh, p) for p in (out, targets))
        whole = torch.ones_like(out[:, :1])
        sface = _in_parts(self.watchers.sface, out)
        scores = {
            "cosine": alike[own, own],
            "top1": (alike.argmax(dim=1) == own).float(),
            "leak": alike[own, own.roll(FARTHEST)],
            "strangers": (self.known * self.known.roll(FARTHEST, dims=0)).sum(dim=1),
            "sface": (sface * self.source).sum(dim=1),
            "colour": losses.colour(out, targets, whole),
            "mesh": losses.mesh_shape(mesh, wanted),
            "gaze": losses.gaze(out, targets, wanted),
            "sharpness": sharpness(out, targets, wanted),
        }
        return {name: float(value.mean()) for name, value in scores.items()}

    @torch.no_grad()
    def grid(self, swapper: Swapper, path: Path, side: int = 7) -> None:
        """Write a JPEG: sources in the first row, targets in the first column, swaps between."""
        chosen = torch.linspace(
            0, len(self.pictures) - 1, 2 * side, device=self.source.device
        ).long()
        sources, targets = chosen[::2], chosen[1::2]
        rows = [torch.cat([torch.ones_like(self.pictures[:1]), self.pictures[sources]])]
        for target in targets.tolist():
            picture = self.pictures[target : target + 1].expand(side, -1, -1, -1)
            out = swapper(picture.contiguous(), self.source[sources]).float()
            rows.append(torch.cat([picture[:1], out]))
        sheet = torch.cat([torch.cat(list(row), dim=2) for row in rows], dim=1)
        pixels = ((sheet.clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 0).cpu().numpy()
        Image.fromarray(np.ascontiguousarray(pixels)).save(path, quality=88)


def sharpness(out: Tensor, targets: Tensor, mesh: Tensor) -> Tensor:
    """Return the median ratio of fine detail in the face, of outputs and their targets.

    Detail is the mean absolute Laplacian of the brightness within the face oval of ``mesh``.
    """
    kernel = out.new_tensor([[[[0, 1, 0], [1, -4, 1], [0, 1, 0]]]])
    face = face_mask(mesh, out.shape[-1])
    detail = [
        losses.mean_where(
            functional.conv2d(p.mean(dim=1, keepdim=True), kernel, padding=1).abs(), face
        )
        for p in (out, targets)
    ]
    return (detail[0] / detail[1].clamp_min(1e-6)).median()


def _in_parts(network: torch.nn.Module, pictures: Tensor) -> Tensor:
    return torch.cat([network(part) for part in pictures.split(ROWS)])
