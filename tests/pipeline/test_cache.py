"""Remembered embeddings: by content, bounded, for many threads, and on disk without harm (T11)."""

from __future__ import annotations

import hashlib
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
import torch
from conftest import CONSENT, StandIn
from PIL import Image

from mien import Catalogue, Faces, Swapper
from mien.engines import OnnxEngine
from mien.errors import InvalidOption
from mien.media import read_picture
from mien.pipeline import EmbeddingCache, Identifier
from mien.pipeline.cache import CHECKSUM, SUFFIX
from mien.stages.embed import Embedder

NETWORKS = "detector mesh embedder"
PICTURES = [
    read_picture(np.random.default_rng(seed).integers(0, 256, (96, 96, 3), np.uint8))
    for seed in range(8)
]


def unit(*values):
    return torch.nn.functional.normalize(torch.tensor(values, dtype=torch.float32), dim=0)


def one_face(pixels, *, largest_only):
    """Find one face in the middle of any picture."""
    points = torch.tensor([[[38.0, 40], [58, 40], [48, 52], [40, 62], [56, 62]]])
    box = torch.tensor([[30.0, 25, 66, 72]])
    return Faces(boxes=box, points=points, scores=torch.ones(1), ids=torch.full((1,), -1))


def identifier(cache, networks=NETWORKS):
    """Return an identifier whose embedding is the first 128 values of the crop, and its engine."""
    contract = Catalogue().card("sface", "embedder").contract

    def embed(inputs):
        return {contract.output: inputs[contract.input].flatten(1)[:, 5000:5128] - 127}

    engine = StandIn(embed, model="sface")
    return Identifier(one_face, Embedder(engine, contract), cache, networks), engine


def identify(identifier, picture):
    return identifier.person([picture])[0].embedding


# In memory


def test_an_embedding_is_kept_for_its_picture_and_networks():
    cache = EmbeddingCache()
    cache.put("a", NETWORKS, unit(1, 2))
    assert torch.equal(cache.get("a", NETWORKS), unit(1, 2))
    assert cache.get("b", NETWORKS) is None
    assert cache.get("a", "other networks") is None
    assert len(cache) == 1


def test_a_hundred_are_kept_unless_told_otherwise():
    cache = EmbeddingCache()
    for number in range(130):
        cache.put(f"{number}", NETWORKS, unit(1, number))
    assert len(cache) == 100
    assert cache.get("29", NETWORKS) is None
    assert torch.equal(cache.get("30", NETWORKS), unit(1, 30))


def test_the_one_used_least_recently_goes_first():
    cache = EmbeddingCache(2)
    cache.put("a", NETWORKS, unit(1, 0))
    cache.put("b", NETWORKS, unit(0, 1))
    cache.get("a", NETWORKS)
    cache.put("c", NETWORKS, unit(1, 1))
    assert cache.get("b", NETWORKS) is None
    assert torch.equal(cache.get("a", NETWORKS), unit(1, 0))
    assert torch.equal(cache.get("c", NETWORKS), unit(1, 1))


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_cache_of_size_none_keeps_nothing_and_works(tmp_path, on_disk):
    cache = EmbeddingCache(0, tmp_path / "cache" if on_disk else None)
    identify_, engine = identifier(cache)
    first, second = (identify(identify_, PICTURES[0]) for _ in range(2))
    assert torch.equal(first, second)
    assert engine.calls == 2
    assert len(cache) == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_negative_size_is_refused():
    with pytest.raises(InvalidOption, match="size=-1"):
        EmbeddingCache(-1)


# By content


def test_the_network_runs_once_for_a_picture():
    identify_, engine = identifier(EmbeddingCache())
    first, again = identify(identify_, PICTURES[0]), identify(identify_, PICTURES[0])
    assert engine.calls == 1
    assert torch.equal(first, again)
    other = identify(identify_, PICTURES[1])
    assert engine.calls == 2
    assert not torch.allclose(first, other, atol=0.1)


def test_other_networks_do_not_share_embeddings():
    cache = EmbeddingCache()
    identify(identifier(cache)[0], PICTURES[0])
    identify_, engine = identifier(cache, "detector mesh another")
    identify(identify_, PICTURES[0])
    assert engine.calls == 1


def test_eight_threads_get_the_identities_of_their_own_sources():
    wanted = [identify(identifier(EmbeddingCache(0))[0], picture) for picture in PICTURES]
    identify_, _ = identifier(EmbeddingCache(3))  # too small: it keeps forgetting
    start = Barrier(8)

    def work(number):
        start.wait(timeout=60)
        return [identify(identify_, PICTURES[number]) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    for found, right in zip(results, wanted, strict=True):
        assert all(torch.equal(one, right) for one in found)
    assert len(identify_.cache) == 3


@pytest.fixture
def runs(monkeypatch):
    """Record the names of the networks that run."""
    names, call = [], OnnxEngine.__call__

    def counted(engine, inputs):
        names.append(engine.model)
        return call(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", counted)
    return names


def test_identities_follow_content_not_names(tmp_path, swapper, load, runs):
    def person(path):
        return swapper.identity(path, consent=CONSENT)

    def save(name, pixels):
        Image.fromarray(pixels).save(tmp_path / name)
        return tmp_path / name

    ada, mei = load("ada")[1:], load("mei")[1:]  # a row less: pictures that no other test has used
    first = person(save("source.png", ada))
    assert "sface" in runs
    runs.clear()
    renamed = person(save("renamed.png", ada))
    repacked = person(save("repacked.bmp", ada))
    assert runs == []
    for same in (renamed, repacked):
        assert torch.equal(same.embedding, first.embedding)
        assert (same.digest, same.consent) == (first.digest, first.consent)
    replaced = person(save("source.png", mei))
    assert "sface" in runs
    assert replaced.digest != first.digest
    assert float(replaced.embedding @ first.embedding) < 0.363  # SFace's threshold of one person
    runs.clear()
    assert torch.equal(person(mei).embedding, replaced.embedding)
    assert runs == []


def test_parallel_requests_do_not_leak(portraits, load):
    swapper = Swapper(cache_size=2, threads=1)
    sources = [load(name) for name in portraits]
    sources += [np.ascontiguousarray(sources[i][:, ::-1]) for i in range(2)]
    alone = [swapper.identity(source, consent=CONSENT) for source in sources]
    start = Barrier(8)

    def work(source):
        start.wait(timeout=60)
        return swapper.identity(source, consent=CONSENT)

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(work, sources))
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.embedding, other.embedding, rtol=0, atol=1e-5)
        assert (one.digest, one.consent) == (other.digest, other.consent)
    assert len({identity.digest for identity in alone}) == 8


# On disk


def test_an_embedding_outlives_the_process_on_disk(tmp_path):
    first = identify(identifier(EmbeddingCache(5, tmp_path / "a" / "b"))[0], PICTURES[0])
    identify_, engine = identifier(EmbeddingCache(5, tmp_path / "a" / "b"))
    assert torch.equal(identify(identify_, PICTURES[0]), first)
    assert engine.calls == 0
    assert torch.equal(identify(identify_, PICTURES[0]), first)
    assert len(identify_.cache) == 1


def test_nothing_is_written_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIEN_HOME", str(tmp_path))
    identify(identifier(EmbeddingCache())[0], PICTURES[0])
    assert list(tmp_path.iterdir()) == []


def test_no_file_name_tells_the_picture(tmp_path):
    identify(identifier(EmbeddingCache(5, tmp_path))[0], PICTURES[0])
    (file,) = tmp_path.iterdir()
    assert PICTURES[0].digest not in file.name


GOOD = np.eye(128, dtype="<f4")[3].tobytes()


def packed(numbers):
    """Return what a file holds: the numbers' sha256, then they."""
    return hashlib.sha256(numbers).digest() + numbers


@pytest.mark.parametrize(
    "content",
    [
        b"",
        packed(GOOD)[:-1],
        packed(GOOD)[:20],
        packed(GOOD)[:CHECKSUM],
        packed(GOOD) + b"\0",
        packed(GOOD)[:-4] + b"\0\0\x80?",
        b"\0" + packed(GOOD)[1:],
        GOOD,
        b"These are words.",
    ],
    ids=[
        *("empty", "a byte short", "cut in the checksum", "cut behind it", "a byte more"),
        *("another number", "another checksum", "no checksum", "words"),
    ],
)
def test_a_damaged_file_is_a_miss_and_is_made_anew(tmp_path, caplog, content):
    first = identify(identifier(EmbeddingCache(5, tmp_path))[0], PICTURES[0])
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(content)
    identify_, engine = identifier(EmbeddingCache(5, tmp_path))
    with caplog.at_level(logging.WARNING):
        again = identify(identify_, PICTURES[0])
    assert torch.equal(again, first)
    assert engine.calls == 1
    assert str(file) in caplog.text
    assert file.read_bytes() == whole


def test_the_disk_is_bounded_too(tmp_path):
    cache = EmbeddingCache(3, tmp_path)
    for number in range(6):
        cache.put(f"{number}", NETWORKS, unit(1, number))
        assert len(list(tmp_path.iterdir())) == min(number + 1, 3)
    assert sum(EmbeddingCache(3, tmp_path).get(f"{n}", NETWORKS) is not None for n in range(6)) == 3


def test_the_file_used_least_recently_goes_first(tmp_path):
    EmbeddingCache(2, tmp_path).put("a", NETWORKS, unit(1, 0))
    (first,) = tmp_path.iterdir()
    EmbeddingCache(2, tmp_path).put("b", NETWORKS, unit(0, 1))
    (second,) = set(tmp_path.iterdir()) - {first}
    os.utime(first, (1, 1))
    os.utime(second, (2, 2))
    assert EmbeddingCache(2, tmp_path).get("a", NETWORKS) is not None
    EmbeddingCache(2, tmp_path).put("c", NETWORKS, unit(1, 1))
    assert first.exists()
    assert not second.exists()


def test_a_folder_that_cannot_be_used_costs_a_warning_only(tmp_path, caplog):
    (tmp_path / "file").touch()
    identify_, engine = identifier(EmbeddingCache(5, tmp_path / "file" / "cache"))
    with caplog.at_level(logging.WARNING):
        first, again = (identify(identify_, PICTURES[0]) for _ in range(2))
    assert torch.equal(first, again)
    assert engine.calls == 1
    assert str(tmp_path / "file") in caplog.text
    assert (tmp_path / "file").read_bytes() == b""


def refuse(*args, **options):
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_is_read_only_is_still_read(tmp_path, monkeypatch):
    cache = EmbeddingCache(5, tmp_path)
    cache.put("a", NETWORKS, unit(1, 2))
    monkeypatch.setattr("os.utime", refuse)
    assert torch.equal(EmbeddingCache(5, tmp_path).get("a", NETWORKS), unit(1, 2))


def test_another_process_that_clears_the_folder_is_no_trouble(tmp_path, monkeypatch, caplog):
    glob = Path.glob

    def with_one_that_has_gone(folder, pattern):
        yield from glob(folder, pattern)
        yield folder / f"gone{SUFFIX}"

    monkeypatch.setattr(Path, "glob", with_one_that_has_gone)
    cache = EmbeddingCache(5, tmp_path)
    with caplog.at_level(logging.WARNING):
        cache.put("a", NETWORKS, unit(1, 2))
    assert caplog.text == ""
    assert torch.equal(EmbeddingCache(5, tmp_path).get("a", NETWORKS), unit(1, 2))
