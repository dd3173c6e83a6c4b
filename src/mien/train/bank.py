"""All training pictures on the device, with their embeddings, and the batches drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mien.train.disturbance import Disturbance, drawn
from mien.train.faces import Embedder, Watchers
from mien.train.geometry import looked, real, views
from mien.train.packs import Pack
from mien.train.recipe import Recipe
from mien.train.traits import DARK, GLASSES, LIGHT, glasses, tone

FULL = 0.9
"""A crop is whole if real picture covers this share of it."""

EMBEDDED = 256
"""Pictures embedded at a time."""

AVERAGED = 2048
"""Pictures of which an average is made."""


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

    look: Tensor
    """float32 (N, 1024): the same by the age network."""

    other: Tensor
    """float32 (T, 128): somebody else, for the T triplets."""

    detail: Tensor
    """float32 (N,): 1 where the picture is as fine as the network's, else 0."""

    same: int
    triplets: int

    wanted: Tensor | None = None
    """float32 like ``truth``: what a teacher makes of the same, if there is one."""

    @property
    def labelled(self) -> int:
        """How many rows, the first ones, have ``truth`` as their right answer."""
        return self.same + self.triplets


class Pool:
    """Rows of the bank to draw from, some oftener than others."""

    def __init__(self, rows: Tensor, chances: Tensor | None = None) -> None:
        """``rows`` int64 (k,); ``chances`` (n,) of all the bank's rows, None: all alike."""
        self.rows = rows
        # float64: the sum of many small chances has to tell each from the next
        self._upto = None if chances is None else chances.double()[rows].cumsum(0)

    def __len__(self) -> int:
        return len(self.rows)

    def pick(self, count: int, random: torch.Generator) -> Tensor:
        """Draw ``count`` rows, with replacement."""
        if not count:
            return self.rows[:0]
        device = self.rows.device
        if self._upto is None:
            at = torch.randint(len(self.rows), (count,), generator=random, device=device)
        else:
            draws = torch.rand(count, generator=random, device=device, dtype=torch.float64)
            at = torch.searchsorted(self._upto, draws * self._upto[-1], right=True)
            at = at.clamp(max=len(self.rows) - 1)
        return self.rows[at]


class Bank:
    """Draws batches. What step number n draws depends on the seed, n and the rank alone."""

    def __init__(
        self,
        pack: Pack,
        recipe: Recipe,
        watchers: Watchers,
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
        whole, cut = (fine & (covered >= FULL)), (fine & (covered < FULL))
        chances = source_chances(pack.pixels, recipe)
        self._whole, self._cut = (Pool(_where(which)) for which in (whole, cut))
        self._small, self._pairs_of = Pool(_where(~fine)), Pool(_where(counts[self._person] > 1))
        self._people = Pool(self._order, chances)
        self._models = [Pool(_where(which), chances) for which in (whole, cut)]
        self.sface = embedded(pack.pixels, watchers.sface)
        feature = watchers.feature
        self.feature = None if feature is None else embedded(pack.pixels, feature)
        # every so many pictures: the packs lie one after another
        watchers.age.find_middle(pack.pixels[:: max(1, len(pack) // AVERAGED)])
        self.look = embedded(pack.pixels, watchers.age)

    @property
    def device(self) -> torch.device:
        """Where everything lies."""
        return self.pixels.device

    def summary(self) -> str:
        """Say how many pictures and people there are."""
        pools = f"{len(self._whole)} whole, {len(self._cut)} cut, {len(self._small)} small"
        pairs = f"{len(self._pairs_of)} of people with several"
        return f"{len(self.pixels)} pictures of {len(self._counts)} people: {pools}, {pairs}"

    def draw(self, step: int, *, triplets: bool) -> Batch:
        """Return the batch of step number ``step``."""
        recipe, shares = self.recipe, self.recipe.shares
        random = torch.Generator(self.device)
        random.manual_seed((recipe.seed * 1_000_003 + step) * 64 + self.rank)
        n = recipe.batch
        same = round(n * (shares.same_late if triplets else shares.same))
        several = round(same * shares.pairs) if len(self._pairs_of) else 0
        turned = round(n * shares.triplet) if triplets else 0

        paired, partner = self._pairs(several, random)
        alone = self._fine(same - several, random, self._whole, self._cut)
        originals = self._fine(turned, random, *self._models)
        swapped = self._targets(n - same - turned, random)
        strangers = self._people.pick(len(swapped), random)
        rows = torch.cat([paired, alone, originals, swapped])
        sources = torch.cat([partner, alone, originals, strangers])
        side = torch.randint(2, (n,), generator=random, device=self.device)
        truth, valid = self._pictures(rows, random)
        return Batch(
            truth=truth,
            valid=valid,
            source=self.sface[side, sources],
            feature=None if self.feature is None else self.feature[side, sources],
            look=self.look[side, sources],
            other=self.sface[0, self._people.pick(turned, random)],
            detail=self._detail[rows],
            same=same,
            triplets=turned,
        )

    def disturbances(self, step: int, rows: int, count: int) -> list[Disturbance]:
        """Return ``count`` disturbances of what embedders are shown of the outputs of ``step``."""
        random = torch.Generator(self.device)
        random.manual_seed((self.recipe.seed * 1_000_003 + step) * 64 + 32 + self.rank)
        most, share = self.recipe.view_jitter, self.recipe.disturbed
        views = [self._views(rows, most, _signs(rows, random), random) for _ in range(count)]
        return [drawn(view, share, random) for view in views]

    def _targets(self, count: int, random: torch.Generator) -> Tensor:
        few = round(count * self.recipe.shares.small) if len(self._small) else 0
        fine = self._fine(count - few, random, self._whole, self._cut)
        return torch.cat([fine, self._small.pick(few, random)])

    def _fine(self, count: int, random: torch.Generator, whole: Pool, cut: Pool) -> Tensor:
        """Pick pictures as fine as the network's, whole and cut ones by their shares."""
        if not len(whole) or not len(cut):
            rest = whole if len(whole) else cut
            return (rest if len(rest) else self._people).pick(count, random)
        shares = self.recipe.shares
        many = round(count * shares.whole / (1 - shares.small))
        return torch.cat([whole.pick(many, random), cut.pick(count - many, random)])

    def _pairs(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Pick pictures and, for each, another one of the same person."""
        if not count:
            return self._order[:0], self._order[:0]
        at = self._pairs_of.pick(count, random)
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


def _where(which: Tensor) -> Tensor:
    return which.nonzero().flatten()


def source_chances(pixels: Tensor, recipe: Recipe) -> Tensor:
    """Return how often each of the pictures uint8 (n, 3, S, S) is to be a source, float32 (n,).

    Skin tones that are rare come oftener than they are, and people with spectacles seldom: what
    comes with spectacles, such as age, would bring faint ones to faces that wear none.
    """
    parts = pixels.split(EMBEDDED)
    tones = torch.cat([tone(part) for part in parts])
    worn = torch.cat([glasses(part) for part in parts]) > GLASSES
    chances = torch.ones_like(tones)
    groups = torch.bucketize(tones.nan_to_num(), torch.tensor([DARK, LIGHT], device=tones.device))
    for group in range(3):
        members = (groups == group) & ~tones.isnan()
        share = members.float().mean().clamp_min(1e-3)
        chances[members] = (1 / share) ** recipe.balance
    chances[tones.isnan()] = chances[~tones.isnan()].mean() if (~tones.isnan()).any() else 1.0
    return chances * torch.where(worn, recipe.spectacles, 1.0)


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
