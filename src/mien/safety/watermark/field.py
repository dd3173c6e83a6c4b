"""A binary BCH code of 127 bits that carries 64 (Bose & Ray-Chaudhuri 1960); words are 21 apart.

Bits are coefficients of polynomials over GF(2), packed in whole numbers: bit i is that of x^i. The
libraries there are bring a licence or a compiler that this project does not want for 100 lines.
"""

from __future__ import annotations

LENGTH, CARRIED, DISTANCE = 127, 64, 21

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
    """Return the product of the minimal polynomials of the generator's first powers."""
    roots: set[int] = set()
    for exponent in range(1, DISTANCE):
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
