"""The cookbook: every command and every line of Python on the page runs, and does what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "cookbook.md").read_text()
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory):
    """Follow the page from top to bottom in a folder of its own."""
    folder = tmp_path_factory.mktemp("kitchen")
    shutil.copytree(ROOT / "examples", folder / "examples")
    scripts = Path(sys.executable).parent
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MIEN_")},
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "MIEN_HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    for language, name, content in BLOCK.findall(PAGE):
        if name:
            (folder / name).write_text(content)
            continue
        if language == "python":
            commands = [[sys.executable, "-W", "error", "-c", content]]
        else:
            lines = [line for line in content.splitlines() if line.startswith("$ ")]
            assert len(lines) == len(content.splitlines()), content
            commands = [["sh", "-c", line.removeprefix("$ ")] for line in lines]
        for command in commands:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
    return folder


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
    change = np.abs(after[0] - before[0]).max(axis=-1) > 40
    assert [bool(change[:, a:b].mean() > 0.001) for a, b in parts] == faces


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
