import random

import numpy as np
import pytest

from mien.safety.watermark import code, false_positive_rate, field, identifier, read, write


def logits(bits, rng, wrong=0, *, unsure=False):
    """Logits of bits of which some are wrong; the wrong ones are less sure if so asked."""
    values = (bits * 2.0 - 1) * rng.uniform(2, 4, len(bits))
    places = rng.choice(len(bits), wrong, replace=False)
    values[places] *= -0.1 if unsure else -1
    return values


def test_the_code_is_the_one_it_says():
    assert field.GENERATOR.bit_length() - 1 == field.LENGTH - field.CARRIED
    assert not any(field.syndromes(field.GENERATOR))


@pytest.mark.parametrize("wrong", range(field.CORRECTED + 1))
def test_any_errors_up_to_the_bound_are_corrected(wrong):
    dice = random.Random(wrong)
    for _ in range(20):
        message = dice.getrandbits(64)
        word = field.encode(message)
        assert field.carried(word) == message
        places = sorted(dice.sample(range(field.LENGTH), wrong))
        damaged = word
        for place in places:
            damaged ^= 1 << place
        assert field.errors(field.syndromes(damaged)) == places


def test_every_single_and_every_pair_of_neighbours_is_found():
    for place in range(field.LENGTH):
        for places in ([place], sorted({place, (place + 1) % field.LENGTH})):
            assert field.errors(field.shifted([0] * 20, places)) == places


def test_more_errors_are_rarely_taken_for_fewer():
    dice, taken = random.Random(0), 0
    for _ in range(200):
        places = dice.sample(range(field.LENGTH), 16)
        taken += field.errors(field.shifted([0] * 20, places)) is not None
    assert taken <= 1  # one in 10! or so


def test_an_identifier_comes_back():
    rng = np.random.default_rng(0)
    for number in (0, 1, (1 << 48) - 1, identifier("m-12ab")):
        for wrong in (0, 5, 10):
            found = read(logits(write(number), rng, wrong))
            assert found is not None
            assert (found.identifier, found.corrected) == (number, wrong)


def test_unsure_bits_help():
    rng = np.random.default_rng(1)
    bits = write(identifier("m-12ab"))
    assert read(logits(bits, rng, 13)) is None
    found = read(logits(bits, rng, 13, unsure=True))
    assert found is not None
    assert found.corrected == 13
    assert read(logits(bits, rng, 17, unsure=True)) is None


def test_chance_and_uniform_answers_are_no_marks():
    rng = np.random.default_rng(2)
    for _ in range(60):
        assert read(rng.normal(size=code.BITS)) is None
    for value in (-1.0, 1.0):
        assert read(np.full(code.BITS, value)) is None
    assert read(np.full(code.BITS, np.nan)) is None


def test_the_rate_is_the_one_that_trials_show():
    assert false_positive_rate() == pytest.approx(5.9e-9, rel=0.05)
    near = false_positive_rate(flips=0) * 2**16  # of one trial, before the checksum
    dice, trials = random.Random(3), 1500
    hits = sum(
        field.errors(field.syndromes(dice.getrandbits(127))) is not None for _ in range(trials)
    )
    assert hits <= max(1, 20 * near * trials)


def test_what_is_no_identifier_is_refused():
    for number in (-1, 1 << 48):
        with pytest.raises(ValueError, match="48 bits"):
            write(number)
    with pytest.raises(ValueError, match="127 logits"):
        read(np.zeros(128))
