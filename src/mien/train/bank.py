"""All training pictures on the device, with their embeddings, and the batches drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mien.train.faces import Embedder
from mien.train.geometry import looked, real, views
from mien.train.packs import Pack
from mien.train.recipe import Recipe

FULL = 0.9
"""A crop is whole if real picture covers this share of it."""

EMBEDDED = 256
"""Pictures embedded at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of one step: first those of the same person, then triplets, then swaps."""

    truth: Tensor
    """float32 (N, 3, S, S) in [-1, 1]: real pictures."""

    valid: Tensor
    """float32 (N, 1, S, S): 1 where ``truth`` is real picture, 0 where it is padding."""

    source: Tensor
    """float32 (N, 128): who the output shall show; unit SFace embeddings."""

    feature: Tensor | None
    """float32 (N, D): the same person by the second embedder."""

    other: Tensor
    """float32 (T, 128): somebody else, for the T triplets."""

    detail: Tensor
    """float32 (N,): 1 where the picture is as fine as the network's, else 0."""

    same: int
    triplets: int

    @property
    def labelled(self) -> int:
        """How many rows, the first ones, have ``truth`` as their right answer."""
        return self.same + self.triplets


class Bank:
    """Draws batches. What step number n draws depends on the seed, n and the rank alone."""

    def __init__(
        self,
        pack: Pack,
        recipe: Recipe,
        sface: Embedder,
        feature: Embedder | None,
        *,
        rank: int = 0,
    ) -> None:
        self.recipe, self.rank = recipe, rank
        order = torch.argsort(pack.people, stable=True)
        self.pixels, self.size = pack.pixels, pack.pixels.shape[-1]
        self.quads = pack.quads * (2 / self.size) - 1
        self._order = order
        _, self._person, counts = torch.unique_consecutive(
            pack.people[order], return_inverse=True, return_counts=True
        )
        self._counts = counts
        self._first = counts.cumsum(0) - counts
        self._detail = (pack.native >= self.size).float()
        covered = _covered(self.quads)
        fine = self._detail > 0
        self._pools = {
            "whole": (fine & (covered >= FULL)).nonzero().flatten(),
            "cut": (fine & (covered < FULL)).nonzero().flatten(),
            "small": (~fine).nonzero().flatten(),
            "pairs": (counts[self._person] > 1).nonzero().flatten(),
        }
        self.sface = embedded(pack.pixels, sface)
        self.feature = None if feature is None else embedded(pack.pixels, feature)

    @property
    def device(self) -> torch.device:
        """Where everything lies."""
        return self.pixels.device

    def summary(self) -> str:
        """Say how many pictures and people there are."""
        pools = ", ".join(f"{len(rows)} {name}" for name, rows in self._pools.items())
        return f"{len(self.pixels)} pictures of {len(self._counts)} people: {pools}"

    def draw(self, step: int, *, triplets: bool) -> Batch:
        """Return the batch of step number ``step``."""
        recipe, shares = self.recipe, self.recipe.shares
        random = torch.Generator(self.device)
        random.manual_seed((recipe.seed * 1_000_003 + step) * 64 + self.rank)
        n = recipe.batch
        same = round(n * (shares.same_late if triplets else shares.same))
        several = round(same * shares.pairs) if len(self._pools["pairs"]) else 0
        turned = round(n * shares.triplet) if triplets else 0

        paired, partner = self._pairs(several, random)
        alone = self._fine(same - several, random)
        originals = self._fine(turned, random)
        swapped = self._targets(n - same - turned, random)
        strangers = self._any(len(swapped), random)
        rows = torch.cat([paired, alone, originals, swapped])
        sources = torch.cat([partner, alone, originals, strangers])
        side = torch.randint(2, (n,), generator=random, device=self.device)
        truth, valid = self._pictures(rows, random)
        return Batch(
            truth=truth,
            valid=valid,
            source=self.sface[side, sources],
            feature=None if self.feature is None else self.feature[side, sources].float(),
            other=self.sface[0, self._any(turned, random)],
            detail=self._detail[rows],
            same=same,
            triplets=turned,
        )

    def view_jitter(self, step: int, rows: int) -> Tensor:
        """Return views (rows, 2, 3) through which embedders look at the outputs of ``step``."""
        random = torch.Generator(self.device)
        random.manual_seed((self.recipe.seed * 1_000_003 + step) * 64 + 32 + self.rank)
        mirror = _signs(rows, random)
        return self._views(rows, self.recipe.view_jitter, mirror, random)

    def _targets(self, count: int, random: torch.Generator) -> Tensor:
        few = round(count * self.recipe.shares.small) if len(self._pools["small"]) else 0
        fine = self._fine(count - few, random)
        return torch.cat([fine, self._pick(self._pools["small"], few, random)])

    def _fine(self, count: int, random: torch.Generator) -> Tensor:
        """Pick pictures as fine as the network's, whole and cut ones by their shares."""
        whole, cut = self._pools["whole"], self._pools["cut"]
        if not len(whole) or not len(cut):
            rest = whole if len(whole) else cut
            return self._pick(rest if len(rest) else self._order, count, random)
        shares = self.recipe.shares
        many = round(count * shares.whole / (1 - shares.small))
        picked = [self._pick(whole, many, random), self._pick(cut, count - many, random)]
        return torch.cat(picked)

    def _any(self, count: int, random: torch.Generator) -> Tensor:
        return self._pick(self._order, count, random)

    def _pick(self, pool: Tensor, count: int, random: torch.Generator) -> Tensor:
        if not count:
            return pool[:0]
        return pool[torch.randint(len(pool), (count,), generator=random, device=self.device)]

    def _pairs(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Pick pictures and, for each, another one of the same person."""
        if not count:
            return self._order[:0], self._order[:0]
        at = self._pick(self._pools["pairs"], count, random)
        person = self._person[at]
        first, many = self._first[person], self._counts[person]
        ahead = torch.rand(count, generator=random, device=self.device) * (many - 1)
        other = first + (at - first + 1 + ahead.long()) % many
        return self._order[at], self._order[other]

    def _pictures(self, rows: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
        recipe, n = self.recipe, len(rows)
        view = self._views(n, recipe.jitter_size, _signs(n, random), random, share=recipe.jitter)
        pixels = self.pixels[rows].float().div_(127.5).sub_(1)
        # bicubic: bilinear look-ups would make the real pictures soft, and so the network's
        truth = looked(pixels, view, self.size, mode="bicubic", padding="border").clamp_(-1, 1)
        valid = real(self.quads[rows], view, self.size)
        return coloured(truth, recipe.colour_jitter, random), valid

    def _views(
        self,
        count: int,
        most: float,
        mirror: Tensor,
        random: torch.Generator,
        share: float = 1.0,
    ) -> Tensor:
        noise = torch.rand(5, count, generator=random, device=self.device) * 2 - 1
        moved = (noise[4] < 2 * share - 1).float() * most
        shift = (noise[2:4] * moved * 2).T
        return views(noise[0] * moved * torch.pi, 1 + noise[1] * moved, shift, mirror)


def _signs(count: int, random: torch.Generator) -> Tensor:
    bits = torch.randint(2, (count,), generator=random, device=random.device)
    return (bits * 2 - 1).float()


def coloured(pictures: Tensor, most: float, random: torch.Generator) -> Tensor:
    """Change light, contrast and saturation of pictures in [-1, 1], each by ``most`` at most."""
    noise = torch.rand(3, len(pictures), 1, 1, 1, generator=random, device=pictures.device)
    light, contrast, saturation = (noise * 2 - 1) * most
    grey = pictures.mean(dim=1, keepdim=True)
    pictures = grey + (pictures - grey) * (1 + saturation)
    middle = pictures.mean(dim=(1, 2, 3), keepdim=True)
    pictures = (pictures - middle) * (1 + contrast) + middle + light
    return pictures.clamp(-1, 1)


@torch.no_grad()
def embedded(pixels: Tensor, embedder: Embedder) -> Tensor:
    """Return embeddings (2, n, D) of pictures uint8 (n, 3, S, S), and of their mirror images."""
    sides = []
    for mirrored in (False, True):
        parts = []
        for part in pixels.split(EMBEDDED):
            pictures = part.float().div_(127.5).sub_(1)
            parts.append(embedder(pictures.flip(3) if mirrored else pictures))
        sides.append(torch.cat(parts))
    return torch.stack(sides)


def _covered(quads: Tensor, size: int = 32) -> Tensor:
    """Return which share of each crop, (n,), is real picture."""
    straight = quads.new_tensor([[[1, 0, 0], [0, 1, 0]]])
    parts = [
        real(part, straight.expand(len(part), -1, -1), size, margin=0).mean(dim=(1, 2, 3))
        for part in quads.split(EMBEDDED)
    ]
    return torch.cat(parts)
