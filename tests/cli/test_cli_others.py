"""``mien faces``, ``mien models``, and the process around every command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import landscape, names, pair

import mien
from mien.cli.app import app
from mien.cli.exits import Exit
from mien.media import read_picture

ROOT = Path(__file__).parents[2]
MAIN = "import sys; from mien.cli.app import run; sys.exit(run(sys.argv[1:]))"
NAMES = [
    *("retinaface", "yunet", "facemesh", "sface", "mien-256", "mien-lite", "mien-occlusion"),
    *("faceres-age", "open-nsfw", "mien-watermark"),
]


# mien faces


def test_faces_are_listed_largest_first(mien_, tmp_path, load):
    target = pair(load, tmp_path / "two.png")
    code, printed, errors = mien_("faces", target)
    assert (code, errors) == (0, "")
    head, *rows = printed.splitlines()
    assert head.split() == ["face", "score", "roll", "size", "left,", "top"]
    numbers = [re.findall(r"-?\d+(?:\.\d+)?", row) for row in rows]
    assert [row[0] for row in numbers] == ["0", "1"]
    left = [float(row[5]) for row in numbers]
    assert left[0] < 240 < left[1]
    assert float(numbers[0][3]) > float(numbers[1][3])
    code, printed, _ = mien_("faces", target, "--json", "--detector", "retinaface")
    report = json.loads(printed)
    assert (code, report["picture"]) == (0, str(target))
    assert [face["index"] for face in report["faces"]] == [0, 1]


def test_faces_are_drawn_on_a_copy(mien_, tmp_path, people):
    out = tmp_path / "drawn.png"
    source = shutil.copy(people["ben"], tmp_path / "ben.png")
    code, printed, _ = mien_("faces", source, "-o", out, "--json")
    assert code == 0
    left, top, right, bottom = (round(v) for v in json.loads(printed)["faces"][0]["box"])
    drawn = read_picture(out).frame.pixels.numpy()
    changed = (drawn != read_picture(people["ben"]).frame.pixels.numpy()).any(axis=2)
    assert changed[top - 1 : top + 2, left:right].any(axis=0).mean() > 0.9
    assert changed[top:bottom, left - 1 : left + 2].any(axis=1).mean() > 0.9
    assert not changed[bottom + 9 :].any()
    assert Path(source).read_bytes() == people["ben"].read_bytes()


def test_faces_are_not_drawn_over_the_picture(mien_, tmp_path, people):
    source = shutil.copy(people["ben"], tmp_path / "ben.png")
    code, printed, _ = mien_("faces", source, "-o", source)
    assert (code, printed) == (2, "")
    assert Path(source).read_bytes() == people["ben"].read_bytes()


def test_a_picture_without_faces_is_three_and_nothing_is_drawn(mien_, tmp_path):
    hills = landscape(tmp_path / "hills.png")
    code, printed, errors = mien_("faces", hills, "-o", tmp_path / "drawn.png")
    assert (code, printed) == (3, "")
    assert "hills.png" in errors
    assert names(tmp_path) == ["hills.png"]


# mien models


def test_models_are_listed_with_their_terms(mien_):
    code, printed, errors = mien_("models")
    assert (code, errors) == (0, "")
    head, *rows = printed.splitlines()
    assert head.split() == ["name", "role", "size", "licence", "commercial", "present"]
    cells = {row.split()[0]: re.split(r" {2,}", row.strip()) for row in rows}
    assert list(cells) == NAMES
    assert cells["yunet"] == ["yunet", "detector", "0.2 MB", "MIT", "yes", "yes"]
    assert cells["mien-256"][1:] == ["swapper", "15.3 MB", "research, non-commercial", "no", "yes"]
    code, printed, _ = mien_("models", "--json")
    listed = {model["name"]: model for model in json.loads(printed)}
    assert (code, list(listed)) == (0, NAMES)
    assert listed["mien-256"]["commercial"] is False
    assert listed["yunet"] == {
        "name": "yunet",
        "role": "detector",
        "size": 229735,
        "licence": "MIT",
        "commercial": True,
        "present": True,
    }


def test_the_card_of_a_model_is_shown(mien_):
    card = mien.Catalogue().card("yunet")
    code, printed, errors = mien_("models", "show", "yunet")
    assert (code, errors) == (0, "")
    for part in (card.summary, card.sha256, card.origin, "strides: [8, 16, 32]", "49 of 50"):
        assert part in printed
    code, printed, _ = mien_("models", "show", "yunet", "--json")
    shown = json.loads(printed)
    assert (code, shown["sha256"], shown["commercial"]) == (0, card.sha256, True)
    assert shown["contract"]["pixels"]["order"] == "BGR"
    assert hashlib.sha256(Path(shown["file"]).read_bytes()).hexdigest() == shown["sha256"]


@pytest.fixture
def cards(tmp_path):
    """A folder with the cards of two networks: one file is damaged, one is missing."""
    folder = tmp_path / "cards"
    folder.mkdir()
    shipped = mien.Catalogue().card("yunet").file.parent
    text = (shipped / "yunet_2023mar.toml").read_text(encoding="utf-8")
    for name in ("damaged", "absent"):
        own = text.replace('"yunet"', f'"{name}"').replace("yunet_2023mar.onnx", f"{name}.onnx")
        (folder / f"{name}.toml").write_text(own, encoding="utf-8")
    (folder / "damaged.onnx").write_bytes((shipped / "yunet_2023mar.onnx").read_bytes()[:-1])
    return folder


def test_a_damaged_or_missing_file_is_shown(mien_, cards, people):
    code, printed, errors = mien_("models", "show", "damaged", "--models", cards)
    assert (code, printed) == (1, "")
    assert str(cards / "damaged.onnx") in errors
    assert "not run" in errors
    code, printed, errors = mien_("models", "show", "absent", "--models", cards)
    assert (code, printed) == (1, "")
    assert str(cards / "absent.onnx") in errors
    _, printed, _ = mien_("models", "--models", cards, "--json")
    present = {model["name"]: model["present"] for model in json.loads(printed)}
    assert (present["absent"], present["damaged"], len(present)) == (False, True, len(NAMES) + 2)
    code, printed, errors = mien_(
        "faces", people["ben"], "--models", cards, "--detector", "damaged"
    )
    assert (code, printed) == (1, "")
    assert "not run" in errors


def test_options_before_show_count_too(mien_, cards):
    code, _, errors = mien_("models", "--models", cards, "show", "damaged")
    assert code == 1
    assert "not run" in errors
    code, printed, _ = mien_("models", "--json", "show", "yunet")
    assert code == 0
    assert json.loads(printed)["name"] == "yunet"


# The process


def test_the_version_is_printed(mien_):
    assert mien_("--version") == (0, f"mien {mien.__version__}\n", "")


@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["models"], 0),
        (["--help"], 0),
        (["models", "show", "yunet", "--json"], 0),
        (["models", "show", "nobody", "--json"], 2),
    ],
    ids=["models", "help", "show", "error"],
)
def test_a_reader_that_leaves_is_no_error(arguments, code, buffered):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    if not buffered:
        environment["PYTHONUNBUFFERED"] = "1"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        check=False,
    )
    os.close(write)
    assert "Broken" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code


def test_the_command_is_installed_and_ends_with_the_code_of_the_table():
    code = "import sys; sys.argv = ['mien', 'swop']; from mien.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mien: ")


def test_the_tables_of_exit_codes_agree():
    codes = {int(code): code.name.lower().replace("_", " ") for code in Exit}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|\s*`?(\d+)`?\s*\|\s*([a-z ]+?)\s*\|", readme, re.MULTILINE)
    assert {int(number): name for number, name in rows} == codes
    assert {int(n): name for n, name in re.findall(r"(\d+) ([a-z ]+)", app.info.epilog)} == codes
