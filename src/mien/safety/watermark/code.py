"""What a watermark says: 48 bits of an identifier, 16 to check them, in a code that corrects.

The 64 bits are carried by a BCH code of 127 bits that corrects any 10 (see ``field``), and then
XORed with a fixed mask, so that what a network says of pictures without a mark (all bits alike,
say) lies near no word of the code.

When a mark is believed
-----------------------
Logits give bits and how sure they are. If the bits themselves are within 10 errors of a word, that
is the candidate; in any case up to ``FLIPS`` of the least sure bits are flipped in all ways (Chase
1972, algorithm 2), each of which may give another. The candidate that agrees best with the logits
and whose checksum is right is believed if it differs from the bits in ``MOST`` places at most.

Of bits that are pure chance, each of the 2^FLIPS trials meets a word with probability

    V(127, 10) 2^64 / 2^127,    V(n, t) = sum of the binomials (n over i), i = 0 .. t,

and the checksum holds for one word in 2^16, so that a picture without a mark is believed to have
one with a probability of 2^FLIPS V(127, 10) / 2^79 at most (``false_positive_rate``): 5.9e-9.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from mien.safety.watermark import field

BITS = field.LENGTH
"""Raw bits: what networks hide and read."""

IDENTIFIER, CHECK = 48, 16

FLIPS = 4
"""Least sure bits that are flipped in all ways."""

MOST = 14
"""Raw bits that may be wrong in a mark that is believed."""

Logits = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Found:
    """A mark that is believed."""

    identifier: int
    """48 bits."""

    corrected: int
    """Raw bits that were wrong."""

    agreement: float
    """How far the logits speak for it, -1 to 1."""


def identifier(manifest: str) -> int:
    """Return the 48 bits that stand for the id of a manifest: the first of its SHA-256."""
    return int.from_bytes(hashlib.sha256(manifest.encode()).digest()[: IDENTIFIER // 8])


def checksum(number: int) -> int:
    """Return the CRC-16 (polynomial 0x1021, begun with ones) of an identifier."""
    value = 0xFFFF
    for byte in number.to_bytes(IDENTIFIER // 8):
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1) ^ (0x11021 if value & 0x8000 else 0)
    return value


MASK = int.from_bytes(hashlib.sha256(b"mien watermark 1").digest()[:16]) >> 1


def write(number: int) -> npt.NDArray[np.uint8]:
    """Return the raw bits, uint8 (127,), of an identifier of 48 bits. Raises ValueError."""
    if not 0 <= number < 1 << IDENTIFIER:
        raise ValueError(f"an identifier has {IDENTIFIER} bits, which {number} has not")
    word = field.encode(number << CHECK | checksum(number)) ^ MASK
    return np.array([word >> place & 1 for place in range(BITS)], dtype=np.uint8)


def read(logits: Logits) -> Found | None:
    """Return the mark in logits (127,), positive for ones, or None if none is to be believed.

    Raises ValueError for another shape. Logits that are not finite are no mark.
    """
    if logits.shape != (BITS,):
        raise ValueError(f"a mark has {BITS} logits, not {logits.shape}")
    if not np.isfinite(logits).all():
        return None
    sure = np.abs(logits)
    hard = _packed(logits > 0) ^ MASK
    doubted = np.argsort(sure, kind="stable")[:FLIPS].tolist()
    total = max(float(sure.sum()), 1e-12)
    found, best = field.syndromes(hard), None
    for flipped in _subsets(doubted):
        places = field.errors(field.shifted(found, flipped))
        if places is None:
            continue
        wrong = set(places) ^ set(flipped)
        message = field.carried(_flip(hard, wrong))
        number = message >> CHECK
        if len(wrong) > MOST or checksum(number) != message & 0xFFFF:
            continue
        agreement = 1 - 2 * float(sure[list(wrong)].sum()) / total
        if best is None or agreement > best.agreement:
            best = Found(number, len(wrong), agreement)
        if not flipped and len(wrong) <= field.CORRECTED - FLIPS:
            break  # no other word is nearer
    return best


def false_positive_rate(*, flips: int = FLIPS) -> float:
    """Return a bound of how often bits of pure chance are believed."""
    near = sum(math.comb(BITS, wrong) for wrong in range(field.CORRECTED + 1))
    return 2.0 ** (flips + field.CARRIED - BITS - CHECK) * near


def _packed(bits: npt.NDArray[np.bool_]) -> int:
    return sum(1 << place for place in np.flatnonzero(bits).tolist())


def _flip(word: int, places: set[int]) -> int:
    for place in places:
        word ^= 1 << place
    return word


def _subsets(places: list[int]) -> Iterator[tuple[int, ...]]:
    for count in range(len(places) + 1):
        yield from combinations(places, count)
