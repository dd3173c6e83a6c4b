"""Pictures to learn from: faces with occluders drawn before them, and what is seen of the face."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from mien.train.faces import OVAL
from mien.train.geometry import box, distance_inside, looked, places, real, views
from mien.train.occlusion.bases import Bases, face_frame, looked_up
from mien.train.occlusion.camera import motion, moved, soft, taken
from mien.train.occlusion.canvas import Dice, Layer, Site
from mien.train.occlusion.hair import hair, strands
from mien.train.occlusion.hands import arm, hand
from mien.train.occlusion.scraps import leaves, patch, writing
from mien.train.occlusion.things import cup, microphone, phone, sheet, stick
from mien.train.occlusion.worn import cloth, mask, spectacles, sunglasses, veil

KINDS: Mapping[str, tuple[Callable[[Site], Layer], float]] = MappingProxyType(
    {
        "hair": (hair, 1.6),
        "strands": (strands, 0.5),
        "spectacles": (spectacles, 2.2),
        "sunglasses": (sunglasses, 0.8),
        "mask": (mask, 0.7),
        "cloth": (cloth, 0.8),
        "veil": (veil, 0.4),
        "leaves": (leaves, 0.4),
        "cup": (cup, 0.7),
        "microphone": (microphone, 1.0),
        "phone": (phone, 0.7),
        "stick": (stick, 0.7),
        "sheet": (sheet, 0.5),
        "arm": (arm, 0.8),
        "hand": (hand, 3.2),
        "patch": (patch, 0.9),
        "writing": (writing, 0.4),
    }
)
"""How each kind is drawn, and how often, the lowest layer first."""

NAMES = tuple(KINDS)
COUNTS = (0.25, 0.50, 0.19, 0.06)
"""Shares of pictures with none, one, two and three occluders."""

BAND = 0.14
"""So far beyond the oval it is left open, in halves of the crop's side, what is seen.

The blend has soft edges of its own there; a second edge would only make the face smaller."""

OUTSIDE, REAL = 0.2, 0.5
"""Weights of what lies farther out, and of what real things seem to hide."""

USUAL = (1.27, 0.93, 0.80)
"""Red, green and blue of skin by its brightness, in usual light: means of the packs."""

NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Pictures and right answers."""

    pictures: Tensor
    """float32 (N, 3, S, S) in [-1, 1]."""

    visible: Tensor
    """float32 (N, 1, S, S) in [0, 1]: 1 where the face is seen."""

    weight: Tensor
    """float32 (N, 1, S, S): how much that is worth; 0 where it is not known."""

    hides: Tensor
    """float32 (N, 1, S, S): 1 where something drawn is before whatever is there."""

    face: Tensor
    """float32 (N, 1, S, S): 1 within the oval of the face, be it seen or not."""


def chosen_kinds(rows: int, generator: torch.Generator) -> Tensor:
    """Return numbers (rows, 3) of kinds to draw, the lowest layer first; NONE is nothing."""
    weights = torch.tensor([weight for _, weight in KINDS.values()])
    slots = len(COUNTS) - 1
    kinds = torch.multinomial(weights, rows * slots, True, generator=generator).view(rows, slots)
    kinds = kinds.sort(dim=1).values
    count = torch.multinomial(torch.tensor(COUNTS), rows, True, generator=generator)
    return kinds.where(torch.arange(slots) < count[:, None], torch.tensor(NONE))


def scene(bases: Bases, rows: Tensor, kinds: Tensor, size: int, dice: Dice) -> Batch:
    """Return pictures of faces ``rows`` (N,) with ``kinds`` (N, L), on the CPU, before them."""
    n = len(rows)
    mirror = (2 * dice.picks(2, n) - 1).float()
    turn, zoom = dice.normal(0.12, n), 1 + dice.normal(0.07, n).clamp(-0.2, 0.2)
    view = views(turn, zoom, dice.normal(0.05, n, 2), mirror)
    pictures, seen = looked_up(bases, rows, view, size)
    # half the side does: the depth is smooth, and its many edges are what takes the time
    depth = distance_inside(bases.mesh[rows][:, OVAL], places(view, size // 2, size // 2))
    depth = functional.interpolate(depth, scale_factor=2.0, mode="bilinear", align_corners=False)
    valid = real(bases.quads[rows], view, size)
    site = site_of(bases, rows, view, size, dice)
    pictures, hides = covered(pictures, site, kinds)
    pictures = taken(pictures, dice)
    face = (depth > 0).float()
    covers, unknown = (seen[:, :1] > 0.5).float(), (seen[:, 1:].amax(1, True) > 0.3).float()
    visible = face * (1 - hides) * (1 - covers)
    weight = torch.where(depth > 0, 1.0, torch.where(depth > -BAND, 0.0, OUTSIDE))
    weight = torch.where(covers * face > 0, REAL, weight) * (1 - unknown * face) * valid
    weight = torch.maximum(weight, (hides > 0.5).float()) * (1 + about_features(site))
    return Batch(pictures * 2 - 1, visible, weight, hides, face)


def about_features(site: Site) -> Tensor:
    """Return 1 about eyes and mouth, 0 elsewhere, (n, 1, S, S): mistakes there are seen first."""
    eyes = ((site.u.abs() - 0.5) / 0.38).square() + (site.v / 0.28).square() < 1
    mouth = (site.u / 0.55).square() + ((site.v - 1.1) / 0.45).square() < 1
    return (eyes | mouth)[:, None].float()


def site_of(bases: Bases, rows: Tensor, view: Tensor, size: int, dice: Dice) -> Site:
    """Return the faces ``rows`` as places to draw on, seen by ``view``."""
    n, total = len(rows), len(bases)
    mesh = _through(view, bases.mesh[rows])
    middle, along, apart = face_frame(mesh)

    def local(at: Tensor) -> Tensor:
        """Take places (n, k, 2) to those of the face."""
        at = at - middle[:, None]
        u = at[..., 0] * along[:, :1] + at[..., 1] * along[:, 1:]
        v = at[..., 1] * along[:, :1] - at[..., 0] * along[:, 1:]
        return torch.stack([u, v], dim=2) / apart[:, None, None]

    straight = box(0, 0, 1, 1, mesh)
    grid = local(places(straight, size, size).view(1, -1, 2).expand(n, -1, -1))
    u, v = grid.view(n, size, size, 2).unbind(dim=3)
    scraps = bases.pixels[dice.picks(total, n)].float().div_(255)
    return Site(
        u=u,
        v=v,
        mesh=local(mesh),
        pixel=(2 / size / apart)[:, None, None],
        skin=bases.skin[rows],
        other=bases.skin[dice.picks(total, n)],
        scraps=looked(scraps, straight.expand(n, -1, -1), size, mode="bilinear", padding="border"),
        dice=dice,
    )


def covered(pictures: Tensor, site: Site, kinds: Tensor) -> tuple[Tensor, Tensor]:
    """Return pictures (N, 3, S, S) in [0, 1] with layers over them, and what these hide.

    Each kind is drawn once, for all the pictures that want it, and what can be done to all kinds
    alike is done once: on a GPU it is the number of steps that takes the time.
    """
    hides = torch.zeros_like(pictures[:, :1])
    wanted = [(kinds == kind).nonzero() for kind in range(len(NAMES))]
    rows, slots = torch.cat(wanted).unbind(dim=1)
    if not len(rows):
        return pictures, hides
    drawn = [
        KINDS[NAMES[kind]][0](site.rows(at[:, 0].to(pictures.device)))
        for kind, at in enumerate(wanted)
        if len(at)
    ]
    layers = finished(drawn, site.skin[rows.to(pictures.device)], site.dice)
    for slot in range(kinds.shape[1]):
        at = (slots == slot).nonzero()[:, 0]
        if not len(at):
            continue
        here, at = rows[at].to(pictures.device), at.to(pictures.device)
        alpha = layers.alpha[at]
        under = shadowed(pictures[here], alpha, site.dice)
        over = under + alpha * (layers.colour[at] - under)
        pictures = pictures.index_copy(0, here, over)
        hides = hides.index_copy(0, here, torch.maximum(hides[here], layers.hides[at]))
    return pictures, hides


def finished(layers: list[Layer], skin: Tensor, dice: Dice) -> Layer:
    """Return layers as one, in the light of the faces, as soft as a lens and motion make them.

    ``skin`` (n, 3) is that of the face below each.
    """
    n, bright = len(skin), skin.mean(dim=1, keepdim=True)
    gain = (bright / 0.5) ** dice.between(0, 0.8, n, 1) * dice.between(0.8, 1.2, n, 1)
    cast = (skin / bright.clamp_min(0.02) / skin.new_tensor(USUAL)).clamp(0.6, 1.6)
    gain = (gain * cast ** dice.between(0, 0.5, n, 1))[:, :, None, None]
    alpha = torch.cat([layer.alpha for layer in layers])
    colour = (torch.cat([layer.colour for layer in layers]) * gain).clamp(0, 1)
    whole = torch.cat([colour * alpha, alpha, torch.cat([layer.hides for layer in layers])], dim=1)
    whole = soft(whole, dice.between(-1, 2.2, n).clamp_min(0))
    whole = moved(whole, motion(dice, n, 0.2, 0.25))
    alpha = whole[:, 3:4]
    return Layer(whole[:, :3] / alpha.clamp_min(1e-3), alpha, whole[:, 4:])


def shadowed(pictures: Tensor, alpha: Tensor, dice: Dice) -> Tensor:
    """Return pictures with the soft shadow of a layer: it hides nothing."""
    n, size = len(pictures), pictures.shape[-1]
    small = soft(functional.avg_pool2d(alpha, size // 32), dice.between(0.5, 3, n))
    view = pictures.new_zeros(n, 2, 3)
    view[:, 0, 0] = view[:, 1, 1] = 1
    view[:, :, 2] = dice.normal(0.07, n, 2) - pictures.new_tensor([0, 0.05])
    shadow = looked(small, view, size, mode="bilinear", padding="border")
    strength = (dice.between(0, 0.55, n) * dice.chance(0.75, n))[:, None, None, None]
    return pictures * (1 - strength * shadow)


def _through(view: Tensor, points: Tensor) -> Tensor:
    """Return where ``points`` (n, k, 2) of pictures are in what ``view`` (n, 2, 3) shows."""
    a, b, c, d = view[:, 0, 0], view[:, 0, 1], view[:, 1, 0], view[:, 1, 1]
    inverse = torch.stack([torch.stack([d, -b], 1), torch.stack([-c, a], 1)], 1)
    inverse = inverse / (a * d - b * c)[:, None, None]
    moved_ = points - view[:, None, :, 2]
    return (moved_[:, :, None] * inverse[:, None]).sum(dim=3)
