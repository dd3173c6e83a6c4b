"""Whole files or none: whatever goes wrong, nothing half is left and nothing old is lost."""

from __future__ import annotations

import errno
import io
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from making import noise, picture
from PIL import Image

from mien.errors import PictureUnwritable
from mien.media import FORMATS, check_output, write_picture
from mien.media.atomic import whole_file

NOISE = noise(64, 64, 3, seed=7)
PICTURE = picture(NOISE)
DEEP = picture(NOISE.astype(np.uint16) * 257)
SUFFIXES = [".jpg", ".png", ".webp", ".avif", ".tif", ".gif", ".bmp"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def leave(path, error):
    with whole_file(path) as file:
        file.write(b"half")
        file.flush()
        raise error


def raising(error):
    def function(*args, **options):
        raise error

    return function


def test_a_whole_block_makes_the_file(tmp_path):
    with whole_file(tmp_path / "out") as file:
        file.write(b"whole")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").read_bytes() == b"whole"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_a_block_that_ends_early_leaves_nothing(tmp_path, error):
    with pytest.raises(type(error)):
        leave(tmp_path / "out", error)
    assert names(tmp_path) == []


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=repr)
def test_a_block_that_ends_early_leaves_the_old_file(tmp_path, error):
    (tmp_path / "out").write_bytes(b"old")
    with pytest.raises(type(error)):
        leave(tmp_path / "out", error)
    assert (tmp_path / "out").read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path):
    (tmp_path / "out").write_bytes(b"old")
    with whole_file(tmp_path / "out") as file:
        file.write(b"new")
        file.flush()
        assert (tmp_path / "out").read_bytes() == b"old"
    assert (tmp_path / "out").read_bytes() == b"new"


def test_a_symbolic_link_is_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(Path("real") / "file")
    with whole_file(tmp_path / "link") as file:
        file.write(b"new")
        assert names(tmp_path) == ["link", "real"]  # the neighbour is the file's, not the link's
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_bytes() == b"new"
    assert names(tmp_path / "real") == ["file"]


def test_a_link_to_nothing_yet_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to("later")
    with whole_file(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "later").read_bytes() == b"new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_permissions_follow_the_umask(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        with whole_file(tmp_path / "out") as file:
            file.write(b"whole")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode


def test_of_many_writers_at_once_one_wins_whole(tmp_path):
    contents = [bytes([i]) * 50_000 for i in range(8)]

    def write(content):
        with whole_file(tmp_path / "out") as file:
            for start in range(0, len(content), 5_000):
                file.write(content[start : start + 5_000])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, contents))
    assert (tmp_path / "out").read_bytes() in contents
    assert names(tmp_path) == ["out"]


# Pictures


class FullDisk(io.FileIO):
    """A file for which the disk has ``room`` bytes; it has no number, so writing goes by here."""

    room = 3

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)

    def fileno(self):
        raise io.UnsupportedOperation


def fill_disk(monkeypatch):
    monkeypatch.setattr(Path, "open", lambda path, mode: io.BufferedWriter(FullDisk(path, mode)))


def refuse_files(monkeypatch):  # as a folder without write permission does; root ignores modes
    monkeypatch.setattr(
        Path, "open", raising(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    )


def refuse_flush(monkeypatch):  # a disk that finds out late that it is full
    monkeypatch.setattr(os, "fsync", raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))


def refuse_rename(monkeypatch):
    monkeypatch.setattr(
        Path, "replace", raising(PermissionError(errno.EPERM, os.strerror(errno.EPERM)))
    )


@pytest.mark.parametrize("old", [None, b"old"], ids=["new file", "old file"])
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("fail", "cause"),
    [
        (fill_disk, errno.ENOSPC),
        (refuse_flush, errno.ENOSPC),
        (refuse_files, errno.EACCES),
        (refuse_rename, errno.EPERM),
    ],
)
def test_a_picture_that_cannot_be_written_leaves_nothing(
    tmp_path, monkeypatch, fail, cause, suffix, old
):
    path = tmp_path / f"out{suffix}"
    if old:
        path.write_bytes(old)
    with monkeypatch.context() as patch:
        fail(patch)
        with pytest.raises(PictureUnwritable, match=os.strerror(cause)) as caught:
            write_picture(path, PICTURE, xmp=b"<x/>")
    assert str(path) in str(caught.value)
    assert caught.value.path == path
    assert names(tmp_path) == ([path.name] if old else [])
    assert not old or path.read_bytes() == old


@pytest.mark.parametrize(
    ("suffix", "made"),
    [*((suffix, PICTURE) for suffix in SUFFIXES), (".png", DEEP), (".tif", DEEP)],
)
@pytest.mark.parametrize("missing", [1, 3000], ids=["the last byte", "much"])
def test_a_file_that_does_not_fit_leaves_nothing(tmp_path, suffix, made, missing):
    # the system takes what fits and says so only by a count, as on a disk that fills up
    resource = pytest.importorskip("resource")
    path = tmp_path / f"out{suffix}"
    write_picture(path, made, xmp=b"<x/>")
    room = path.stat().st_size - missing
    for each in tmp_path.iterdir():
        each.unlink()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(PictureUnwritable, match=os.strerror(errno.EFBIG)):
            write_picture(path, made, xmp=b"<x/>")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["out.psd", "out", "out.jpg.bak", "jpg", ".jpg", "out.heic"])
def test_a_format_that_cannot_be_written_is_refused_with_those_that_can(tmp_path, name):
    for refuse in (check_output, lambda path: write_picture(path, PICTURE, xmp=b"<x/>")):
        with pytest.raises(PictureUnwritable, match=r"\.jpg, \.jpeg, .*\.png, .*\.webp") as caught:
            refuse(tmp_path / name)
        assert caught.value.path == tmp_path / name
    assert names(tmp_path) == []


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(PictureUnwritable, match="does not exist") as caught:
        check_output(tmp_path / "nowhere" / "out.jpg")
    assert str(tmp_path / "nowhere") in str(caught.value)
    assert names(tmp_path) == []


def test_a_folder_is_no_output(tmp_path):
    (tmp_path / "out.jpg").mkdir()
    with pytest.raises(PictureUnwritable, match="is a folder"):
        check_output(tmp_path / "out.jpg")


@pytest.mark.parametrize("name", ["out.jpg", "OUT.JPEG", "o.u.t.Png", "-.webp", "a.tiff", "b.APNG"])
def test_what_can_be_written_passes_and_is_not_touched(tmp_path, name):
    check_output(tmp_path / name)
    assert names(tmp_path) == []
    (tmp_path / name).write_bytes(b"old")
    check_output(tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"old"


def test_all_formats_are_tried_here():
    assert {FORMATS[suffix].name for suffix in SUFFIXES} == {kind.name for kind in FORMATS.values()}


def test_a_picture_is_written_through_a_link(tmp_path):
    (tmp_path / "link.png").symlink_to("real.png")
    write_picture(tmp_path / "link.png", PICTURE, xmp=b"<x/>")
    assert (tmp_path / "link.png").is_symlink()
    with Image.open(tmp_path / "real.png") as image:
        assert np.array_equal(np.array(image), NOISE)
