"""The cookbook: every command and every line of Python on the page runs, and does what it says."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

import av
import numpy as np
import pytest
from filmed import negative
from PIL import Image

from mien import Swapper
from mien.bench import QUICK
from mien.cli.app import run
from mien.engines import OnnxEngine

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "cookbook.md").read_text()
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory):
    """Follow the page from top to bottom in a folder of its own.

    Python and plain commands of mien run in this process, which has its libraries loaded already.
    How long speed is measured is not for the page to say: here, not long.
    """
    folder = tmp_path_factory.mktemp("kitchen")
    shutil.copytree(ROOT / "examples", folder / "examples")
    scripts = Path(sys.executable).parent
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith("MIEN_")]:
        patch.delenv(name)
    patch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    patch.setenv("MIEN_HOME", str(folder / "home"))
    patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    patch.setattr("mien.settings.user_config_path", lambda name, appauthor: folder / "config")
    patch.setattr(sys, "stdin", io.StringIO())
    patch.setattr("mien.doctor.speed.SECONDS", 1.0)
    patch.setitem(QUICK, "seconds", 0.2)
    patch.chdir(folder)
    try:
        for language, name, content in BLOCK.findall(PAGE):
            if name:
                (folder / name).write_text(content)
            elif language == "python":
                exec(compile(content, "cookbook.md", "exec"), {"__name__": "__main__"})
            else:
                lines = [line for line in content.splitlines() if line.startswith("$ ")]
                assert len(lines) == len(content.splitlines()), content
                for line in lines:
                    follow(line.removeprefix("$ "))
    finally:
        load.cache_clear()
        patch.undo()
    return folder


load = functools.cache(Swapper)

LINE = re.compile(
    r"(?P<words>mien [^|&;<>$`]*?)(?: > (?P<file>\S+))?(?: \|\| test \$\? = (?P<code>\d+))?"
)
"""What is followed in this process; all else needs a shell, and the command that is installed."""


def follow(line):
    """Do what a line of the page says.

    Swaps load the networks once. In clips, of which the first is swapped as users have it, a
    negative takes the place of the network: where faces go is for the page, and not how they look.
    """
    found = LINE.fullmatch(line)
    if found is None:
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return
    call = OnnxEngine.__call__

    def quick(engine, inputs):
        return negative(inputs) if engine.model == "mien-256" else call(engine, inputs)

    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        if line.startswith("mien swap "):
            patch.setattr("mien.swapper.Swapper", load)
            if re.search(r"-o out/(femi|part|long)\.mp4|\.mkv|both/", line):
                patch.setattr(OnnxEngine, "__call__", quick)
        if found["file"]:
            file = stack.enter_context(Path(found["file"]).open("w"))
            stack.enter_context(redirect_stdout(file))
        assert run(shlex.split(found["words"])[1:]) == int(found["code"] or 0), line


def changed(kitchen, name):
    """Return in which thirds of the group picture, Ada's, Ben's and Femi's, something changed."""
    with Image.open(kitchen / "photos" / "group.jpg") as image:
        before = np.asarray(image).astype(int)
    with Image.open(kitchen / "out" / name) as image:
        after = np.asarray(image).astype(int)
    parts = ((0, 420), (420, 980), (980, 1460))
    # a JPEG's rounding moves a pixel by a few codes; a new face moves many by more
    return [bool((np.abs(after - before)[:, a:b] > 40).mean() > 0.001) for a, b in parts]


@pytest.mark.parametrize(
    ("name", "faces"),
    [
        ("largest.jpg", [False, True, False]),
        ("all.jpg", [True, True, True]),
        ("ends.jpg", [True, False, True]),
        ("only.jpg", [False, False, True]),
        ("strict.jpg", [False, False, True]),
        ("map.jpg", [True, False, True]),
        ("map2.jpg", [True, False, True]),
    ],
)
def test_faces_go_where_the_page_says(kitchen, name, faces):
    assert changed(kitchen, name) == faces


@pytest.mark.parametrize(
    ("python", "command"),
    [("p-all.jpg", "all.jpg"), ("p-ends.jpg", "ends.jpg"), ("p-only.jpg", "only.jpg"),
     ("p-map.jpg", "map.jpg")],
)  # fmt: skip
def test_python_and_the_command_line_give_the_same_picture(kitchen, python, command):
    first, second = (Image.open(kitchen / "out" / name) for name in (python, command))
    with first, second:
        far = np.abs(np.asarray(first).astype(int) - np.asarray(second))
    # each file has a watermark of its own, of 12 codes at most where it is strongest
    assert far.max() <= 2 * 12
    assert far.mean() < 2.5


def test_every_output_of_the_page_is_there(kitchen):
    for name in (
        *("batch/group.jpg", "batch/ben.jpg", "batch/mei.jpg", "named/001-ben.png"),
        *("named/003-mei.png", "pairs/mei-dev.jpg", "pairs/mei-eva.jpg", "small.webp", "mei.jpg"),
        *("found.jpg", "look.jpg", "look.compare.jpg", "look.debug.jpg", "settings.jpg"),
    ):
        with Image.open(kitchen / "out" / name) as image:
            image.load()


def test_the_label_of_the_page_is_seen(kitchen):
    with Image.open(kitchen / "photos" / "mei.jpg") as image:
        before = np.asarray(image.convert("RGB")).astype(int)
    with Image.open(kitchen / "out" / "labelled.png") as image:
        after = np.asarray(image.convert("RGB")).astype(int)
    corner = np.s_[: len(before) // 10, : before.shape[1] // 3]
    # the watermark moves all of it by a few codes
    assert (after[corner] >= 243).all(axis=-1).mean() > 0.05
    assert (np.abs(after - before)[corner] > 12).any(axis=-1).mean() > 0.3


def frames_of(path):
    with av.open(str(path)) as clip:
        return [frame.to_ndarray(format="rgb24").astype(int) for frame in clip.decode(video=0)]


@pytest.mark.parametrize(
    ("name", "faces"),
    [
        ("clip.mp4", [False, True, False]),
        ("femi.mp4", [False, False, True]),
        ("mapped.mkv", [True, False, True]),
        ("copy.mp4", [False, False, False]),
        ("both/clip.mp4", [False, True, False]),
    ],
)
def test_faces_of_the_clip_go_where_the_page_says(kitchen, name, faces):
    before = frames_of(kitchen / "photos" / "clip.mp4")
    after = frames_of(kitchen / "out" / name)
    assert len(after) == len(before) == 24
    # the camera moves by up to 73 pixels; in the first frame it is at the left end
    parts = ((0, 160), (165, 350), (370, 480))
    # the means of blocks: watermark and codec change single pixels, and a face all of its own
    change = after[0] - before[0]
    rows, columns = (side // 8 for side in change.shape[:2])
    blocks = change[: rows * 8, : columns * 8].reshape(rows, 8, columns, 8, 3).mean(axis=(1, 3))
    moved = np.abs(blocks).max(axis=-1)
    assert [int((moved[:, a // 8 : b // 8] > 20).sum()) >= 4 for a, b in parts] == faces


def test_parts_of_the_clip_have_the_frames_that_the_page_says(kitchen):
    assert len(frames_of(kitchen / "out" / "part.mp4")) == 12
    assert len(frames_of(kitchen / "out" / "p-clip.mp4")) == 12
    report = json.loads((kitchen / "out" / "clip.json").read_text())
    assert (report["frames"], report["swapped_frames"]) == (24, 24)
    with Image.open(kitchen / "out" / "strip.png") as image:
        assert image.width > 6 * 300


def test_the_measurement_that_the_page_keeps_has_its_rows(kitchen):
    report = json.loads((kitchen / "out" / "before.json").read_text())
    rows = [(row["path"], row["faces"], row["n"]) for row in report["rows"]]
    assert [row for row in rows if row[0] == "swapper"] == [("swapper", 1, 3), ("swapper", 2, 3)]
