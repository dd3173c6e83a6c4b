"""How often the protected gallery takes one person for another, or fails to know its own.

    python benchmarks/protected.py FOLDER [--name NAME] [--limit N]

FOLDER holds packs of aligned faces of many people (mien.train.packs has the format), of which each
is embedded as the gallery does; --name chooses among packs by the beginning of their names. All
pairs of pictures of two people give the false match rate, all pairs of pictures of one person the
false non-match rate.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from mien.loader import Loader
from mien.models import Catalogue, EmbedderContract
from mien.safety.protected import SPACE
from mien.stages.embed import Embedder
from mien.train.packs import names, read_packs
from mien.types import Crops

SIDE = 128
"""Side of the crops on the points of arcface_128, in which the embedder's own lie whole."""

AT_A_TIME = 64
ROWS = 1024
STEPS = 4000
"""Steps of a cosine, -1 to 1, in which pairs are counted."""


def embedded(pixels: Tensor) -> Tensor:
    """Return unit embeddings (n, D) of crops uint8 (n, 3, 128, 128) on arcface_128."""
    loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=None)
    embedder = Embedder(*loader.load(SPACE, EmbedderContract))
    size = embedder.contract.size
    left = (SIDE - size) // 2
    found = []
    for part in pixels[:, :, :size, left : left + size].split(AT_A_TIME):
        matrices = torch.zeros(len(part), 2, 3)
        found.append(embedder(Crops(part / 255, matrices, embedder.contract.template)))
    return torch.cat(found)


def counted(embeddings: Tensor, people: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many pairs there are by cosine, int64 (STEPS,): of two people, and of one."""
    two, one = torch.zeros(STEPS, dtype=torch.int64), torch.zeros(STEPS, dtype=torch.int64)
    for first in range(0, len(embeddings), ROWS):
        rows = torch.arange(first, min(first + ROWS, len(embeddings)))
        cosine = embeddings[rows] @ embeddings[first:].T
        later = torch.arange(first, len(embeddings))[None] > rows[:, None]
        same = people[rows][:, None] == people[first:][None]
        steps = ((cosine + 1) / 2 * STEPS).long().clamp(0, STEPS - 1)
        two += torch.bincount(steps[later & ~same], minlength=STEPS)
        one += torch.bincount(steps[later & same], minlength=STEPS)
    return two, one


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of packs")
    parser.add_argument("--name", default="", help="beginning of the names of packs")
    parser.add_argument("--limit", type=int, help="pictures of each pack")
    given = parser.parse_args()
    paths = [path for path in names(given.folder) if path.name.startswith(given.name)]
    pack = read_packs(paths, SIDE, torch.device("cpu"), limit=given.limit)
    two, one = counted(embedded(pack.pixels), pack.people)
    print(f"{len(pack)} pictures of {len(pack.people.unique())} people")
    print(f"{int(two.sum()):,} pairs of two people, {int(one.sum()):,} of one\n")
    print("| cosine | false match rate | false non-match rate |\n|---|---|---|")
    for hundredth in range(30, 72, 2):
        at = round((hundredth / 100 + 1) / 2 * STEPS)
        false, missed = float(two[at:].sum() / two.sum()), float(one[:at].sum() / one.sum())
        print(f"| {hundredth / 100:.2f} | {false:.1e} | {missed:.1%} |")
    for wanted in (1e-3, 1e-4, 1e-5):
        share = two.flip(0).cumsum(0).flip(0) / two.sum()
        least = int((share <= wanted).nonzero()[0])
        print(f"false match rate {wanted:.0e} from a cosine of {least / STEPS * 2 - 1:.3f}")


if __name__ == "__main__":
    main()
