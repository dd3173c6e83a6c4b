"""Faces to draw on, and what is known of them: mesh, skin, and where something real hides them.

Pictures of faces come with hair over the brow, hats, spectacles and hands that nobody has marked.
Dark or strangely coloured places on the brow are taken for hair and hats; what is less clear counts
for nothing. Later the network itself is asked: what it takes for hidden on the bare pictures
counts for nothing from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from mien.train.adults import adults
from mien.train.faces import LEFT_BROW, OVAL, RIGHT_BROW, read_looker, read_mesher
from mien.train.geometry import box, distance_inside, looked, places
from mien.train.occlusion.canvas import eye_corners
from mien.train.packs import Pack, joined, read_pack

STORED = 160
"""Side at which pictures are kept: views of the crop's 128 pixels enlarge them little."""

MAP = 64
"""Side of the maps of what is hidden."""

SKIN = (50, 280, 101, 330, 205, 425, 36, 266, 117, 346)
"""Points of the mesh on the cheeks."""

LIPS_INSIDE = (13, 14)
"""The middles of the upper and the lower lip's inner rims."""

OFTEN = 4.0
"""How much more often than others faces with open mouths are drawn on."""

HIDDEN, DOUBTED = 0.48, 0.75
"""Brightness, by the skin's, below which the brow is taken for hidden, and for doubtful."""

STRANGE = 0.13
"""Distance of colour (red and blue less brightness, by the brightness) that is doubtful."""

ALIEN, LENS = 0.35, 0.35
"""The same distance, and a brightness by the skin's, that are doubtful anywhere if large."""

ROWS = 64


@dataclass(slots=True, eq=False)
class Bases:
    """n faces; coordinates have the crop's edges at -1 and 1."""

    pixels: Tensor
    """uint8 (n, 3, B, B)."""

    quads: Tensor
    """float32 (n, 4, 2): corners of the real picture."""

    mesh: Tensor
    """float32 (n, 468, 2)."""

    skin: Tensor
    """float32 (n, 3) in [0, 1]."""

    seen: Tensor
    """float32 (n, 3, M, M): 1 where something real hides the face; 1 where that is not known, by
    the picture's colours; and 1 where it is not, by what the network said when it was asked."""

    share: Tensor
    """float32 (n,): how often each is drawn on; open mouths are rare, and holes to a network."""

    def __len__(self) -> int:
        return len(self.pixels)

    @classmethod
    def read(
        cls, paths: Iterable[Path], nets: Path, device: torch.device, *, limit: int | None = None
    ) -> Bases:
        """Read packs without the young; ``nets`` holds ``facemesh`` and ``age``.

        Raises TrainingError.
        """
        mesher, looker = read_mesher(nets, device), read_looker(nets, device)
        parts = [
            adults(read_pack(path, STORED, device, limit=limit), path, looker) for path in paths
        ]
        return cls.of(joined(parts), mesher)

    @classmethod
    @torch.no_grad()
    def of(cls, pack: Pack, mesher: Callable[[Tensor], Tensor]) -> Bases:
        """Return what is known of a pack's faces."""
        mesh, skin, seen = [], [], []
        for part in pack.pixels.split(ROWS):
            pictures = part.float().div_(255)
            mesh.append(mesher(pictures * 2 - 1))
            skin.append(skin_tone(pictures, mesh[-1]))
            found = hidden(pictures, mesh[-1], skin[-1])
            seen.append(torch.cat([found, torch.zeros_like(found[:, :1])], dim=1))
        quads = pack.quads * (2 / pack.pixels.shape[-1]) - 1
        meshes = torch.cat(mesh)
        return cls(
            pack.pixels, quads, meshes, torch.cat(skin), torch.cat(seen), 1 + OFTEN * opened(meshes)
        )

    @torch.no_grad()
    def ask(self, network: Callable[[Tensor], Tensor], size: int) -> float:
        """Count for nothing what ``network`` takes for hidden; return its share of the faces."""
        total = inside = 0.0
        for first in range(0, len(self), ROWS):
            rows = slice(first, first + ROWS)
            pictures = self.pixels[rows].float().div_(127.5).sub_(1)
            pictures = functional.interpolate(pictures, (size, size), mode="area")
            covered = (network(pictures) < 0).float()
            covered = functional.interpolate(covered, (MAP, MAP), mode="area")
            face = (oval_depth(self.mesh[rows], MAP) > 0).float()
            doubt = (functional.max_pool2d(covered, 3, 1, 1) > 0.5).float() * face
            self.seen[rows, 2:] = doubt
            total, inside = total + float((covered * face).sum()), inside + float(face.sum())
        return total / max(1.0, inside)


def oval_depth(mesh: Tensor, size: int) -> Tensor:
    """Return how deep places lie within the oval of faces, (n, 1, size, size)."""
    return distance_inside(mesh[:, OVAL], places(box(0, 0, 1, 1, mesh), size, size))


def opened(mesh: Tensor) -> Tensor:
    """Return how far mouths are open, (n,): 1 is a quarter of the distance between the eyes."""
    lips = mesh[:, list(LIPS_INSIDE)]
    gap = (lips[:, 0] - lips[:, 1]).square().sum(dim=1).sqrt()
    return (gap / face_frame(mesh)[2] / 0.25).clamp(0, 1)


def skin_tone(pictures: Tensor, mesh: Tensor) -> Tensor:
    """Return the colour of the cheeks (n, 3) of pictures in [0, 1]."""
    small = functional.interpolate(pictures, (32, 32), mode="area")
    at = mesh[:, list(SKIN)][:, :, None]
    found = functional.grid_sample(small, at, padding_mode="border", align_corners=False)
    return found[..., 0].median(dim=2).values


def face_frame(mesh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the middle (n, 2) between the eyes, the way (n, 2) along them, and their distance."""
    left, right = (corners.mean(dim=1) for corners in eye_corners(mesh))
    across = right - left
    apart = across.norm(dim=1).clamp_min(0.05)
    return (left + right) / 2, across / apart[:, None], apart


def hidden(pictures: Tensor, mesh: Tensor, skin: Tensor) -> Tensor:
    """Return maps (n, 2, M, M): what of the face is hidden, and where that is not known."""
    small = functional.interpolate(pictures, (MAP, MAP), mode="area")
    middle, along, apart = face_frame(mesh)
    at = places(box(0, 0, 1, 1, mesh), MAP, MAP) - middle[:, None, None]
    along, apart = along[:, None, None], apart[:, None, None]
    u = (at * along).sum(dim=3) / apart
    v = (at[..., 1] * along[..., 0] - at[..., 0] * along[..., 1]) / apart
    brows = mesh[:, LEFT_BROW + RIGHT_BROW] - middle[:, None]
    top = (brows[..., 1] * along[:, 0, :, 0] - brows[..., 0] * along[:, 0, :, 1]).amin(dim=1)
    light, tone = small.mean(dim=1), skin.mean(dim=1)[:, None, None]
    ratio = light / tone.clamp_min(0.03)
    colour = (small[:, ::2] - light[:, None]) / light[:, None].clamp_min(0.05)
    own = (skin[:, ::2] - skin.mean(dim=1, keepdim=True)) / skin.mean(1, True).clamp_min(0.05)
    apart_ = (colour - own[:, :, None, None]).abs().amax(dim=1)
    strange = apart_ > STRANGE
    inside = oval_depth(mesh, MAP)[:, 0] > 0
    brow = inside & (v < top[:, None, None] / apart - 0.10)
    side = inside & (u.abs() > 0.7) & (v < 1.0) & (ratio < 0.55)
    covered = brow & (ratio < HIDDEN)
    # large strange or dark places elsewhere: masks, sunglasses
    odd = functional.avg_pool2d((apart_[:, None] > ALIEN).float(), 7, 1, 3)[:, 0] > 0.7
    odd |= functional.avg_pool2d((ratio[:, None] < LENS).float(), 7, 1, 3)[:, 0] > 0.8
    doubt = (brow & ((ratio < DOUBTED) | strange)) | side | (odd & inside)
    doubt &= ~covered
    spread = functional.max_pool2d(doubt[:, None].float(), 3, 1, 1)[:, 0] * ~covered
    return torch.stack([covered.float(), spread], dim=1)


def looked_up(bases: Bases, rows: Tensor, view: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return pictures (k, 3, size, size) in [0, 1] and maps (k, 3, size, size) seen by ``view``."""
    pictures = bases.pixels[rows].float().div_(255)
    pictures = looked(pictures, view, size, mode="bilinear", padding="border")
    seen = looked(bases.seen[rows], view, size, mode="bilinear", padding="border")
    return pictures, seen
