"""A binary BCH code of 127 bits that carries 64 and corrects 10 (Bose & Ray-Chaudhuri 1960).

Bits are coefficients of polynomials over GF(2), packed in whole numbers: bit i is that of x^i. The
libraries there are bring a licence or a compiler that this project does not want for 100 lines.
"""

from __future__ import annotations

from collections.abc import Iterable

LENGTH, CARRIED, CORRECTED = 127, 64, 10

ORDER = 127
"""Non-zero elements of GF(2^7)."""

_PRIMITIVE = 0b10000011
"""x^7 + x + 1, whose root generates the field."""


def _tables() -> tuple[list[int], list[int]]:
    """Return the powers of the generator, twice over, and logarithms."""
    powers, logs, value = [0] * (2 * ORDER), [0] * (ORDER + 1), 1
    for exponent in range(ORDER):
        powers[exponent] = powers[exponent + ORDER] = value
        logs[value] = exponent
        value <<= 1
        if value > ORDER:
            value ^= _PRIMITIVE
    return powers, logs


_POWERS, _LOGS = _tables()


def _times(a: int, b: int) -> int:
    return _POWERS[_LOGS[a] + _LOGS[b]] if a and b else 0


def _generator() -> int:
    """Return the product of the minimal polynomials of the first 2t powers of the generator."""
    roots: set[int] = set()
    for exponent in range(1, 2 * CORRECTED + 1):
        while exponent not in roots:
            roots.add(exponent)
            exponent = exponent * 2 % ORDER  # noqa: PLW2901 (its conjugates are roots too)
    product = [1]
    for exponent in sorted(roots):
        shifted = [0, *product]
        product = [
            high ^ _times(low, _POWERS[exponent])
            for high, low in zip(shifted, [*product, 0], strict=True)
        ]
    return sum(bit << place for place, bit in enumerate(product))


GENERATOR = _generator()


def encode(message: int) -> int:
    """Return the word that carries ``message``, of 64 bits, in its upper bits."""
    word = message << (LENGTH - CARRIED)
    return word | _remainder(word)


def carried(word: int) -> int:
    """Return the message of a word."""
    return word >> (LENGTH - CARRIED)


def _remainder(word: int) -> int:
    size = GENERATOR.bit_length()
    while word.bit_length() >= size:
        word ^= GENERATOR << (word.bit_length() - size)
    return word


def syndromes(word: int) -> list[int]:
    """Return the word's values at the first 2t powers of the generator: all 0 of a whole word."""
    places = [place for place in range(LENGTH) if word >> place & 1]
    return shifted([0] * (2 * CORRECTED), places)


def shifted(found: Iterable[int], places: Iterable[int]) -> list[int]:
    """Return syndromes as they are after the bits at ``places`` are flipped."""
    result, places = list(found), list(places)
    for power in range(1, 2 * CORRECTED + 1):
        for place in places:
            result[power - 1] ^= _POWERS[place * power % ORDER]
    return result


def errors(found: list[int]) -> list[int] | None:
    """Return the places of wrong bits by their syndromes, or None if they are more than 10.

    The locator is found by Berlekamp and Massey (Massey 1969), and its roots by trying all places
    (Chien 1964).
    """
    if not any(found):
        return []
    locator, previous = [1], [1]
    size, gap, last = 0, 1, 1
    for step, value in enumerate(found):
        discrepancy = value
        if step % 2:  # of binary codes every other one is nothing
            gap += 1
            continue
        for i in range(1, min(size, len(locator) - 1) + 1):
            discrepancy ^= _times(locator[i], found[step - i])
        if not discrepancy:
            gap += 1
            continue
        factor = _times(discrepancy, _POWERS[ORDER - _LOGS[last]])
        longer = locator + [0] * max(0, len(previous) + gap - len(locator))
        for i, coefficient in enumerate(previous):
            longer[i + gap] ^= _times(factor, coefficient)
        if 2 * size <= step:
            previous, last, size, gap = locator, discrepancy, step + 1 - size, 1
        else:
            gap += 1
        locator = longer
    if size > CORRECTED:
        return None
    terms = [(_LOGS[c], i) for i, c in enumerate(locator) if c]
    places = []
    for place in range(LENGTH):
        total = 0
        for log, i in terms:
            total ^= _POWERS[(log - place * i) % ORDER]
        if not total:
            places.append(place)
    return places if len(places) == size else None
