import random

import numpy as np
import pytest

from mien.safety.watermark import code, field, identifier, read, write


def logits(bits, rng, noise=0.0):
    """Logits of bits, as something that reads them with noise would give them."""
    return bits * 2.0 - 1 + rng.normal(size=len(bits)) * noise


def test_the_code_is_the_one_it_says():
    assert field.GENERATOR.bit_length() - 1 == field.LENGTH - field.CARRIED
    dice = random.Random(0)
    words = [field.encode(dice.getrandbits(64)) for _ in range(60)]
    assert all(field.encode(field.carried(word)) == word for word in words)
    apart = [(a ^ b).bit_count() for i, a in enumerate(words) for b in words[:i]]
    assert min(apart) >= field.DISTANCE
    assert field.encode(1).bit_count() >= field.DISTANCE  # linear: its distance to nothing


@pytest.mark.parametrize("number", [0, 1, (1 << 48) - 1, identifier("m-12ab")])
def test_an_identifier_comes_back(number):
    rng = np.random.default_rng(number & 0xFF)
    for wrong in (0, 5, 10):
        values = logits(write(number), rng)
        values[rng.choice(code.BITS, wrong, replace=False)] *= -0.5
        found = read(values)
        assert found is not None
        assert (found.identifier, found.corrected) == (number, wrong)
        assert found.agreement == pytest.approx(1 - wrong / (code.BITS - wrong / 2), abs=0.01)


def test_noise_that_makes_a_tenth_of_the_bits_wrong_is_read_through():
    rng, read_, wrong = np.random.default_rng(1), 0, 0
    for number in range(60):
        values = logits(write(number), rng, noise=0.78)
        wrong += int(((values > 0) != write(number)).sum())
        found = read(values)
        read_ += found is not None and found.identifier == number
    assert wrong / 60 > 11  # more than the algebraic way corrects, on average
    assert read_ >= 55


def test_chance_and_uniform_answers_are_no_words():
    rng = np.random.default_rng(2)
    for _ in range(200):
        assert read(rng.normal(size=code.BITS)) is None
    for value in (-1.0, 1.0):
        assert read(np.full(code.BITS, value)) is None
    assert read(np.full(code.BITS, np.nan)) is None


def test_what_is_no_identifier_is_refused():
    for number in (-1, 1 << 48):
        with pytest.raises(ValueError, match="48 bits"):
            write(number)
    with pytest.raises(ValueError, match="127 logits"):
        read(np.zeros(128))
