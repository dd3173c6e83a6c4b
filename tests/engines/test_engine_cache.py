"""Compiled networks on disk: keys, locks, half-made and damaged ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from threading import Event, Thread

import pytest
from filelock import Timeout
from test_onnx import network

from mien.engines import OnnxEngine
from mien.engines.cache import MADE, EngineCache, Ingredients, cache_home
from mien.engines.tensorrt import compiled, ingredients
from mien.errors import EngineError

MADE_OF = Ingredients(
    network="ab" * 32,
    shapes="rows",
    precision="fp32",
    effort="3",
    gpu="NVIDIA H200",
    capability="9.0",
    driver="570.86",
    runtime="1.30.0",
    compiler="10.9",
)


@pytest.fixture
def files(tmp_path):
    return EngineCache(tmp_path / "engines")


def make(files, content=b"engine", name="net_sm90.engine"):
    """Return what opens a network, which it compiles if its file is not there, and its calls."""
    calls = []

    def opened():
        path = files.folder(MADE_OF.key) / name
        calls.append("loaded" if path.exists() else "compiled")
        path.write_bytes(content)
        return OnnxEngine("net", network)

    return opened, calls


# Keys


@pytest.mark.parametrize("name", [field.name for field in fields(Ingredients)])
def test_the_key_changes_with_every_ingredient(name):
    other = replace(MADE_OF, **{name: "other"})
    assert other.key != MADE_OF.key
    of_the_machine = {"gpu", "capability", "driver", "runtime", "compiler"}
    assert (other.timings != MADE_OF.timings) is (name in of_the_machine)


def test_the_key_does_not_change_by_itself():
    assert replace(MADE_OF).key == MADE_OF.key
    assert len(MADE_OF.key) == 32


def test_the_ingredients_are_of_this_machine():
    found = ingredients("ab" * 32, 0)
    assert found == ingredients("ab" * 32, 0)
    assert ingredients("ab" * 32, 0, half=True).key != found.key
    assert ingredients("cd" * 32, 0).key != found.key
    assert all(getattr(found, field.name) for field in fields(found))


def test_the_folder_is_mien_s_own_or_the_user_s_for_what_can_be_made_again(monkeypatch, tmp_path):
    monkeypatch.setenv("MIEN_HOME", str(tmp_path))
    assert cache_home() == tmp_path / "cache"
    assert EngineCache().root == tmp_path / "cache" / "engines"
    monkeypatch.setenv("MIEN_HOME", "")
    monkeypatch.setattr(
        "mien.engines.cache.user_cache_path", lambda name, appauthor: Path("c") / name
    )
    assert cache_home() == Path("c/mien")


# Once, and again where it must be


def test_it_is_compiled_once(files):
    opened, calls = make(files)
    compiled(files, MADE_OF, opened)
    assert files.ready(MADE_OF.key)
    compiled(files, MADE_OF, opened)
    assert calls == ["compiled", "loaded"]
    told = json.loads((files.folder(MADE_OF.key) / MADE).read_text())
    assert told["for"]["gpu"] == "NVIDIA H200"
    assert list(told["files"]) == ["net_sm90.engine"]


def spoil(how, folder):
    if how == "half made":
        (folder / MADE).unlink()
    elif how == "a byte is another":
        (folder / "net_sm90.engine").write_bytes(b"enginE")
    elif how == "a file is missing":
        (folder / "net_sm90.engine").unlink()
    elif how == "what was made is not said":
        (folder / MADE).write_text('{"files"')
    elif how == "nothing was made":
        (folder / MADE).write_text('{"files": {}}')
    else:
        (folder / MADE).write_text("[1]")


@pytest.mark.parametrize(
    "how",
    [
        *("half made", "a byte is another", "a file is missing", "what was made is not said"),
        *("nothing was made", "something else is said"),
    ],
)
def test_what_is_not_whole_is_made_again(files, how):
    opened, calls = make(files)
    compiled(files, MADE_OF, opened)
    folder = files.folder(MADE_OF.key)
    (folder / "left.over").touch()
    spoil(how, folder)
    assert not files.ready(MADE_OF.key)
    compiled(files, MADE_OF, opened)
    assert calls == ["compiled", "compiled"]
    assert files.ready(MADE_OF.key)
    assert not (folder / "left.over").exists()


def test_what_is_whole_and_cannot_be_opened_is_made_again(files):
    opened, calls = make(files)
    compiled(files, MADE_OF, opened)
    (files.root / MADE_OF.timings / "odd.timing").touch()

    def fussy():
        if (files.folder(MADE_OF.key) / "net_sm90.engine").exists():
            raise EngineError("It could not be deserialised.", model="net")
        return opened()

    compiled(files, MADE_OF, fussy)
    assert calls == ["compiled", "compiled"]
    assert not (files.root / MADE_OF.timings / "odd.timing").exists()


def test_a_failure_leaves_nothing_that_counts_and_no_lock(files):
    def fails():
        (files.folder(MADE_OF.key) / "part.engine").touch()
        raise EngineError("Out of memory.", model="net")

    with pytest.raises(EngineError, match="memory"):
        compiled(files, MADE_OF, fails)
    assert not files.ready(MADE_OF.key)
    opened, calls = make(files)
    compiled(files, MADE_OF, opened)
    assert calls == ["compiled"]


def test_nothing_to_keep_is_no_failure(files):
    engine = OnnxEngine("net", network)
    assert compiled(files, MADE_OF, lambda: engine) is engine
    assert not files.ready(MADE_OF.key)


# Two at once


def test_the_second_waits_and_takes_what_the_first_made(files):
    opened, calls = make(files)
    begun, go_on = Event(), Event()

    def slow():
        begun.set()
        assert go_on.wait(20)
        return opened()

    first = Thread(target=compiled, args=(files, MADE_OF, slow))
    first.start()
    assert begun.wait(20)
    with pytest.raises(Timeout):
        files.lock().acquire(timeout=0)
    second = Thread(target=compiled, args=(EngineCache(files.root), MADE_OF, opened))
    second.start()
    go_on.set()
    first.join(20)
    second.join(20)
    assert calls == ["compiled", "loaded"]


def test_a_process_that_is_killed_leaves_no_lock(files):
    code = (
        "import sys; from pathlib import Path; from mien.engines.cache import EngineCache\n"
        "files = EngineCache(Path(sys.argv[1])); lock = files.lock(); lock.acquire()\n"
        "files.begin(sys.argv[2])\n"
        "print('held', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(files.root), MADE_OF.key]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=os.environ) as process:
        assert process.stdout.readline().strip() == b"held"
        with pytest.raises(Timeout):
            files.lock().acquire(timeout=0)
        process.kill()
    opened, calls = make(files)
    compiled(files, MADE_OF, opened)
    assert calls == ["compiled"]
