"""Embeddings: geometry of the identity sphere, and a network that returns no direction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from conftest import StandIn
from hypothesis import given, settings
from hypothesis import strategies as st

from mien.errors import BadOutput, TemplateMismatch
from mien.models import EmbedderContract
from mien.models.contracts import PixelFormat
from mien.stages.embed import Embedder, mean_identity, mix, strangers, unit
from mien.types import Crops

steady = settings(derandomize=True, deadline=None, max_examples=60)

CONTRACT = EmbedderContract(
    input="data",
    pixels=PixelFormat(high=255.0, order="BGR"),
    output="fc1",
    size=8,
    template="arcface_112_v2",
    dimension=4,
    same_person=0.363,
)


def directions(number, dimension=128, seed=0):
    values = np.random.default_rng(seed).normal(size=(number, dimension))
    return torch.from_numpy(values / np.linalg.norm(values, axis=1, keepdims=True)).float()


def angle(a, b):
    """Return the angle in degrees between vectors, exact for small and large ones."""
    a, b = a.double(), b.double()
    return math.degrees(2 * math.atan2(float((a - b).norm()), float((a + b).norm())))


def near(centre, cosine, number, seed):
    """Return unit vectors at a given cosine to ``centre``, in random directions from it."""
    aside = directions(number, len(centre), seed)
    aside = unit(aside - (aside @ centre)[:, None] * centre)
    return cosine * centre + math.sqrt(1 - cosine**2) * aside


def frechet_mean(embeddings):
    """Return the point with the least sum of squared angles, by gradient steps on the sphere."""
    points = embeddings.double().numpy()
    mean = points.mean(axis=0) / np.linalg.norm(points.mean(axis=0))
    for _ in range(100):
        cosine = points @ mean
        theta = np.arccos(np.clip(cosine, -1, 1))
        scale = np.where(theta > 1e-9, theta / np.sin(np.maximum(theta, 1e-9)), 1.0)
        step = ((points - cosine[:, None] * mean) * scale[:, None]).mean(axis=0)
        length = np.linalg.norm(step)
        if length < 1e-12:
            break
        mean = np.cos(length) * mean + np.sin(length) * step / length
    return torch.from_numpy(mean)


# ---------------------------------------------------------------- unit and mean


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1.0, 1e6, 1e20])
def test_unit_vectors_have_length_one(scale):
    vectors = directions(5) * scale
    scaled = unit(vectors)
    torch.testing.assert_close(scaled, directions(5), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(scaled.norm(dim=1), torch.ones(5))


def test_mean_of_one_is_itself():
    torch.testing.assert_close(mean_identity(directions(1)), directions(1)[0])


def test_mean_of_two_lies_halfway():
    a, b = directions(2)
    middle = mean_identity(torch.stack([a, b]))
    assert float(middle.norm()) == pytest.approx(1, abs=1e-6)
    assert angle(a, middle) == pytest.approx(angle(a, b) / 2, abs=1e-3)
    assert angle(b, middle) == pytest.approx(angle(a, b) / 2, abs=1e-3)


@pytest.mark.parametrize("number", [2, 3, 7, 20])
@pytest.mark.parametrize("cosine", [0.95, 0.85, 0.75])
def test_mean_lies_within_a_degree_of_the_frechet_mean(cosine, number):
    # pictures of one person, each this similar to the person and cosine**2 to one another
    centre = directions(1, seed=1)[0]
    for seed in range(5):
        cluster = near(centre, cosine, number, seed)
        mean = mean_identity(cluster)
        assert float(mean.norm()) == pytest.approx(1, abs=1e-6)
        assert angle(mean, frechet_mean(cluster)) < 1


def test_mean_within_two_degrees_when_pictures_repeat():
    # three frames of one moment and one other picture, as alike as the threshold asks
    same, other = directions(2, seed=3)
    other = 0.363 * same + math.sqrt(1 - 0.363**2) * unit(other - (other @ same) * same)
    cluster = torch.stack([same, same, same, other])
    assert angle(mean_identity(cluster), frechet_mean(cluster)) < 2


# ---------------------------------------------------------------- strangers


def test_the_odd_one_is_found_wherever_it_is():
    person, other = directions(2, seed=5)
    for place in range(4):
        pictures = near(person, 0.9, 4, seed=6)
        pictures[place] = other
        assert strangers(pictures, 0.363) == [place]


def test_two_against_one():
    person, other = directions(2, seed=5)
    two = near(person, 0.9, 2, seed=7)
    assert strangers(torch.stack([two[0], other, two[1]]), 0.363) == [1]
    assert strangers(torch.stack([other, two[0], two[1]]), 0.363) == [0]


def test_the_majority_wins_over_another_group():
    person, other = directions(2, seed=5)
    pictures = torch.cat([near(other, 0.95, 2, seed=8), near(person, 0.95, 3, seed=9)])
    assert strangers(pictures, 0.363) == [0, 1]


def test_nobody_is_a_stranger_among_pictures_of_one_person():
    assert strangers(near(directions(1)[0], 0.9, 6, seed=2), 0.363) == []
    assert strangers(directions(1), 0.363) == []
    assert strangers(directions(1).expand(3, -1), 0.363) == []


def test_all_but_one_are_strangers_when_no_two_agree():
    axes = torch.eye(8)[:4]
    assert len(strangers(axes, 0.363)) == 3


def test_the_threshold_itself_counts_as_alike():
    pair = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(0.75)]])
    assert strangers(pair, 0.5) == []
    assert strangers(pair, 0.51) == [1]


# ---------------------------------------------------------------- mix


def test_mix_ends_at_either_identity():
    target, source = directions(6).split(3)
    torch.testing.assert_close(mix(target, source, 0.0), target, atol=1e-6, rtol=0)
    torch.testing.assert_close(mix(target, source, 1.0), source, atol=1e-6, rtol=0)


def test_halfway_is_half_the_angle_to_both():
    target, source = directions(2)
    middle = mix(target, source, 0.5)
    assert angle(target, middle) == pytest.approx(angle(target, source) / 2, abs=1e-3)
    assert angle(source, middle) == pytest.approx(angle(target, source) / 2, abs=1e-3)


@steady
@given(st.integers(0, 10_000), st.floats(0.01, 175), st.floats(0, 1))
def test_strength_is_the_share_of_the_angle(seed, degrees, strength):
    target, other = directions(2, dimension=16, seed=seed)
    aside = unit(other - (other @ target) * target)
    radians = math.radians(degrees)
    source = unit(math.cos(radians) * target + math.sin(radians) * aside)
    mixed = mix(target, source, strength)
    assert float(mixed.norm()) == pytest.approx(1, abs=1e-5)
    whole = angle(target, source)
    assert angle(target, mixed) == pytest.approx(strength * whole, abs=0.02)
    assert angle(mixed, source) == pytest.approx((1 - strength) * whole, abs=0.02)


def test_mixing_an_identity_with_itself_changes_nothing():
    target = directions(3)
    for strength in (0.0, 0.3, 0.5, 1.0):
        torch.testing.assert_close(mix(target, target, strength), target, atol=1e-6, rtol=0)


def test_mix_goes_row_by_row():
    target, source = directions(4), directions(4, seed=1)
    mixed = mix(target, source, 0.3)
    for i in range(4):
        torch.testing.assert_close(mixed[i], mix(target[i], source[i], 0.3))
    torch.testing.assert_close(mix(target, source[:1].expand(4, -1), 0.3)[0], mixed[0])


# ---------------------------------------------------------------- the network


def crops(number=2, template="arcface_112_v2"):
    pixels = torch.from_numpy(np.random.default_rng(0).random((number, 3, 8, 8), np.float32))
    return Crops(pixels, torch.eye(3)[:2].expand(number, 2, 3), template)


def returning(values, safe=None):
    engine = StandIn(
        lambda inputs: {"fc1": values(inputs["data"])},
        None if safe is None else lambda inputs: {"fc1": safe(inputs["data"])},
        model="stand-in",
    )
    return Embedder(engine, CONTRACT)


def means(data):
    """An embedding that can be checked by hand: the channels' means and a constant."""
    return torch.cat([data.mean(dim=(2, 3)), torch.full((len(data), 1), 100.0)], dim=1)


def test_embeddings_are_unit_and_from_pixels_as_the_contract_says():
    embedder = returning(means)
    found = embedder(crops())
    blue_first = crops().pixels.flip(1).mean(dim=(2, 3)) * 255
    expected = torch.cat([blue_first, torch.full((2, 1), 100.0)], dim=1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected / expected.norm(dim=1, keepdim=True))
    assert embedder.space == "stand-in"


def test_no_crops_no_run():
    embedder = returning(means)
    assert embedder(crops(0)).shape == (0, 4)
    assert embedder.engine.calls == 0


def test_crops_for_another_network_are_refused():
    embedder = returning(means)
    with pytest.raises(TemplateMismatch) as caught:
        embedder(crops(template="arcface_128"))
    assert (caught.value.expected, caught.value.found) == ("arcface_112_v2", "arcface_128")
    assert embedder.engine.calls == 0


def one_row(value):
    """Return what ``means`` does, with the second of the batch spoilt."""

    def values(data):
        result = means(data)
        if len(data) > 1:
            result[1] = value
        else:
            result[:] = value
        return result

    return values


BAD = {
    "NaN": (lambda data: torch.full((len(data), 4), torch.nan), "not finite"),
    "infinity": (lambda data: torch.full((len(data), 4), torch.inf), "not finite"),
    "zeros": (lambda data: torch.zeros(len(data), 4), "zeros"),
    "another dimension": (lambda data: torch.ones(len(data), 5), "shape"),
    "another batch": (lambda data: torch.ones(len(data) + 1, 4), "shape"),
    "one NaN of two": (one_row(torch.nan), "not finite"),
    "one zero of two": (one_row(0.0), "zeros"),
}


@pytest.mark.parametrize("name", BAD)
def test_no_direction_is_a_bad_output(name):
    values, reason = BAD[name]
    with pytest.raises(BadOutput, match=reason) as caught:
        returning(values)(crops())
    assert caught.value.model == "stand-in"
    assert caught.value.provider == "cpu"


@pytest.mark.parametrize("name", BAD)
def test_the_safe_mode_saves_a_bad_run(name):
    values, _ = BAD[name]
    embedder = returning(values, safe=means)
    torch.testing.assert_close(embedder(crops()), returning(means)(crops()))
    assert embedder.engine.calls == 1
