"""Claims: two runs never make one file at the same time, and a run that dies holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from mien.errors import PictureUnwritable
from mien.media.claim import claim


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files of our own, so that what lies there can be looked at."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def free(path):
    """Return whether ``path`` can be claimed."""
    try:
        with claim(path):
            return True
    except PictureUnwritable:
        return False


def test_what_is_claimed_is_not_claimed_again(tmp_path):
    out = tmp_path / "out.jpg"
    with claim(out):
        with pytest.raises(PictureUnwritable, match="another run of mien") as caught, claim(out):
            pass
        assert caught.value.path == out
        assert str(out) in str(caught.value)
        assert free(tmp_path / "other.jpg")
    assert free(out)


def test_a_name_is_claimed_however_it_is_spelt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with claim(Path("out.jpg")):
        for spelling in (tmp_path / "out.jpg", Path("folder/../out.jpg"), Path("link/../out.jpg")):
            assert not free(spelling)


@pytest.mark.parametrize(
    "name",
    ["with space.jpg", "100%.jpg", "{x}'\".jpg", "顔 🎉.jpg", "x" * 255, "-o.jpg", "\udcff.jpg"],
)
def test_any_name_can_be_claimed(tmp_path, name):
    with claim(tmp_path / name):
        assert not free(tmp_path / name)
    assert free(tmp_path / name)


def test_nothing_is_left_beside_the_output(tmp_path, temporary):
    with claim(tmp_path / "out.jpg"):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=repr)
def test_a_block_that_ends_early_gives_the_claim_back(tmp_path, error):
    with suppress(type(error)), claim(tmp_path / "out.jpg"):
        raise error
    assert free(tmp_path / "out.jpg")


def test_a_claim_holds_against_other_threads_and_can_be_given_back_in_one(tmp_path):
    held = claim(tmp_path / "out.jpg")
    held.__enter__()
    seen = []
    threads = [
        Thread(target=lambda: seen.append(free(tmp_path / "out.jpg"))),
        Thread(target=lambda: held.__exit__(None, None, None)),
        Thread(target=lambda: seen.append(free(tmp_path / "out.jpg"))),
    ]
    for thread in threads:
        thread.start()
        thread.join()
    assert seen == [False, True]


OTHER = """
import sys
from pathlib import Path
from mien.media.claim import claim
with claim(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_that_is_killed_holds_nothing(tmp_path):
    out = tmp_path / "out.jpg"
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"held\n"
    assert not free(out)
    other.kill()
    other.wait()
    other.stdin.close()
    other.stdout.close()
    assert free(out)


@pytest.mark.parametrize("trouble", ["a file", "gone"])
def test_without_a_place_for_locks_work_goes_on(tmp_path, temporary, trouble):
    if trouble == "a file":
        user = os.getuid() if hasattr(os, "getuid") else "all"
        (temporary / f"mien-locks-{user}").touch()
    else:
        temporary.rmdir()
    with claim(tmp_path / "out.jpg"):
        (tmp_path / "out.jpg").touch()
    assert (tmp_path / "out.jpg").exists()


def test_an_error_of_the_block_is_not_taken_for_one_of_the_lock(tmp_path):
    def block():
        with claim(tmp_path / "out.jpg"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        block()


def test_locks_do_not_pile_up(tmp_path, temporary):
    for number in range(20):
        assert free(tmp_path / f"{number}.jpg")
    assert [path for path in temporary.rglob("*") if path.is_file()] == []
