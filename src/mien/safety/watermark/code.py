"""What a watermark says: 48 bits of an identifier, 16 to check them, in a code that corrects.

The 64 bits are carried by a BCH code of 127 bits (see ``field``), and then XORed with a fixed mask,
so that bits that are all alike are near no word of the code. Whoever reads has a logit for each raw
bit, and looks for the word that agrees best with all of them, among the 2,081 that agree with the
surest 64 bits but for two at most (ordered statistics decoding, Fossorier & Lin 1995, order 2).
Where a tenth of the bits is wrong it still finds nearly all words, of which the algebraic way,
which corrects any 10, loses most.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from mien.safety.watermark import field

BITS = field.LENGTH
"""Raw bits: what is hidden and read."""

IDENTIFIER, CHECK = 48, 16

Logits = npt.NDArray[np.floating]
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Word:
    """The word that agrees best with logits; its checksum is right, which one in 65,536 is."""

    identifier: int
    """48 bits."""

    corrected: int
    """Raw bits that were wrong."""

    agreement: float
    """How far the logits speak for it, -1 to 1; 0.86 on average and 0.92 rarely of pure chance."""


def identifier(produced: str) -> int:
    """Return the 48 bits that stand for the id of what was produced: the first of its SHA-256."""
    return int.from_bytes(hashlib.sha256(produced.encode()).digest()[: IDENTIFIER // 8])


def checksum(number: int) -> int:
    """Return the CRC-16 (polynomial 0x1021, begun with ones) of an identifier."""
    value = 0xFFFF
    for byte in number.to_bytes(IDENTIFIER // 8):
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1) ^ (0x11021 if value & 0x8000 else 0)
    return value


MASK = int.from_bytes(hashlib.sha256(b"mien watermark 1").digest()[:16]) >> 1


def write(number: int) -> Bits:
    """Return the raw bits, uint8 (127,), of an identifier of 48 bits. Raises ValueError."""
    if not 0 <= number < 1 << IDENTIFIER:
        raise ValueError(f"an identifier has {IDENTIFIER} bits, which {number} has not")
    return _spread(field.encode(number << CHECK | checksum(number)) ^ MASK)


def read(logits: Logits) -> Word | None:
    """Return the word in logits (127,), positive for ones; None if the checksum is wrong.

    Raises ValueError for another shape. Logits that are not finite are no word.
    """
    if logits.shape != (BITS,):
        raise ValueError(f"a mark has {BITS} logits, not {logits.shape}")
    if not np.isfinite(logits).all():
        return None
    sure = np.abs(logits).astype(np.float64)
    hard = (logits > 0).astype(np.uint8) ^ _spread(MASK)
    wrong = _errors(hard, sure)
    message = field.carried(_packed(hard ^ wrong))
    number = message >> CHECK
    if checksum(number) != message & 0xFFFF:
        return None
    agreement = 1 - 2 * float(sure @ wrong) / max(float(sure.sum()), 1e-12)
    return Word(number, int(wrong.sum()), agreement)


def _errors(hard: Bits, sure: Logits) -> Bits:
    """Return where the word that agrees best differs from bits, uint8 (127,)."""
    order = np.argsort(-sure, kind="stable")
    rows, places = _reduced(_generator()[:, order])
    hard, sure = hard[order], sure[order]
    plain = hard[places] @ rows % 2 ^ hard
    tried = np.concatenate([plain[None], plain ^ rows, plain ^ _pairs(rows)])
    wrong = np.empty(BITS, dtype=np.uint8)
    wrong[order] = tried[int((tried @ sure).argmin())]
    return wrong


def _reduced(rows: Bits) -> tuple[Bits, list[int]]:
    """Return rows of a generator such that each place of a basis is in one of them, and the places.

    The basis is of the first columns that are independent.
    """
    rows, places = rows.copy(), list[int]()
    for column in range(BITS):
        done = len(places)
        if done == field.CARRIED:
            break
        found = np.flatnonzero(rows[done:, column])
        if len(found):
            rows[[done, done + found[0]]] = rows[[done + found[0], done]]
            others = np.flatnonzero(rows[:, column])
            rows[others[others != done]] ^= rows[done]
            places.append(column)
    return rows, places


def _pairs(rows: Bits) -> Bits:
    first, second = np.array(list(combinations(range(len(rows)), 2))).T
    both: Bits = rows[first] ^ rows[second]
    return both


@cache
def _generator() -> Bits:
    """Return words (64, 127) that all others are sums of."""
    return np.stack([_spread(field.encode(1 << bit)) for bit in range(field.CARRIED)])


def _spread(word: int) -> Bits:
    return np.array([word >> place & 1 for place in range(BITS)], dtype=np.uint8)


def _packed(bits: Bits) -> int:
    return sum(1 << place for place in np.flatnonzero(bits).tolist())
