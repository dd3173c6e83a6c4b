"""``mien swap`` with many pictures: folders, patterns, lists, names, faults and early ends (T6)."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import CONSENT
from pictures import landscape, names
from PIL import Image

from mien.engines import OnnxEngine
from mien.media import read_picture
from mien.media.claim import claim


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, where commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def party(here, people):
    """A folder with five pictures, one of which is none, and one in a folder below."""
    folder = here / "party"
    (folder / "late").mkdir(parents=True)
    for name, place in (("ada", ""), ("ben", ""), ("eva", "late/"), ("mei", "")):
        (folder / f"{place}{name}.png").write_bytes(people[name].read_bytes())
    (folder / "bad.png").write_bytes(b"no picture")
    return folder


@pytest.fixture
def swap(mien_, loaded, people):
    """Run ``mien swap`` with dev's face."""

    def command(*arguments):
        return mien_("swap", people["dev"], *arguments, "--consent", CONSENT)

    return command


def found(folder):
    """Return all files below ``folder``, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def whole(path):
    with Image.open(path) as image:
        image.load()
    return True


# Many


GOOD = ["ada.png", "ben.png", "late/eva.png", "mei.png"]


def test_one_bad_file_of_five_is_five_and_is_named(swap, party, here, no_watermark):
    code, printed, errors = swap("party", "-o", "out/")
    assert code == 5
    assert found(here / "out") == GOOD
    *lines, summary = printed.splitlines()
    assert summary == "4 written, 0 skipped, 1 failed"
    done = [line.split(":")[0] for line in lines]
    assert done == ["out/ada.png", "out/ben.png", "out/mei.png", "out/late/eva.png"]
    said = errors.splitlines()
    assert said[-1].startswith("mien: failed: party/bad.png: ")
    assert said[0].startswith("mien: out/bad.png was not written: ")
    assert all("bad.png cannot be read" in line for line in said)
    for name in GOOD:
        assert not np.array_equal(pixels(party / name), pixels(here / "out" / name))


def pixels(path):
    return read_picture(path).frame.pixels.numpy()


def test_the_report_has_a_row_for_each_picture(swap, party, here):
    code, printed, errors = swap("party", "-o", "out/", "--json")
    assert (code, errors) == (5, "")
    report = json.loads(printed)
    assert report["exit"] == 5
    rows = {row["target"]: row for row in report["pictures"]}
    assert list(rows) == [
        *("party/ada.png", "party/bad.png", "party/ben.png", "party/mei.png", "party/late/eva.png")
    ]
    bad = rows.pop("party/bad.png")
    assert (bad["error"]["kind"], bad["error"]["exit"]) == ("PictureUnreadable", 1)
    assert "bad.png cannot be read" in bad["error"]["message"]
    for target, row in rows.items():
        assert row["output"] == target.replace("party", "out")
        assert row["swapped"] == [{"face": 0, "role": 0}]


def test_quiet_prints_only_what_went_wrong(swap, party):
    code, printed, errors = swap("party", "-o", "out/", "-q")
    assert (code, printed) == (5, "")
    assert "bad.png" in errors
    assert "ada.png" not in errors


@pytest.mark.parametrize(("content", "code"), [("no picture", 1), ("no face", 3)])
def test_if_all_fail_for_one_reason_the_code_is_that_one(swap, here, content, code):
    for name in ("a.png", "b.png"):
        if content == "no face":
            landscape(here / name)
        else:
            (here / name).write_text(content)
    found_code, printed, errors = swap("a.png", "b.png", "-o", "out/")
    assert found_code == code
    assert printed == "0 written, 0 skipped, 2 failed\n"
    assert errors.count("a.png") >= 2
    landscape(here / "a.png")
    (here / "b.png").write_text("no picture")
    assert swap("a.png", "b.png", "-o", "out/")[0] == 1


def test_a_single_picture_says_no_more_than_it_must(swap, here, people):
    for name in ("nowhere.png", "hills.png"):
        if name == "hills.png":
            landscape(here / name)
        code, printed, errors = swap(name, "-o", "out.png")
        assert code in (1, 3)
        assert printed == ""
        assert errors.count("\n") == 1
        error = json.loads(swap(name, "-o", "out.png", "--json")[1])["error"]
        assert error["exit"] == code


def test_patterns_lists_and_names_together(swap, party, here, people, monkeypatch):
    (here / "list.txt").write_text(f"{people['femi']}\n\nparty/mei.png\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO("party/late/eva.png\n"))
    code, printed, _ = swap("party/[ab]*a.png", "@list.txt", "@-", "-o", "{index:02}{suffix}")
    assert code == 0
    assert [line.split(":")[0] for line in printed.splitlines()[:-1]] == [
        *("01.png", "02.png", "03.png", "04.png")
    ]
    assert np.array_equal(
        pixels(here / "04.png") == pixels(party / "late" / "eva.png"),
        pixels(here / "04.png") == pixels(people["eva"]),
    )


def test_several_sources_each_meet_every_target(mien_, loaded, party, here, people):
    (here / "who").mkdir()
    for name in ("dev", "femi"):
        (here / "who" / f"{name}.png").write_bytes(people[name].read_bytes())
    command = ("swap", "who", "party/ada.png", "party/ben.png")
    code, printed, _ = mien_(*command, "-o", "out/", "--consent", CONSENT, "--json")
    assert code == 0
    rows = json.loads(printed)["pictures"]
    assert [(row["source"], row["target"], row["output"]) for row in rows] == [
        ("who/dev.png", "party/ada.png", "out/ada-dev.png"),
        ("who/dev.png", "party/ben.png", "out/ben-dev.png"),
        ("who/femi.png", "party/ada.png", "out/ada-femi.png"),
        ("who/femi.png", "party/ben.png", "out/ben-femi.png"),
    ]
    consents = [row["consents"] for row in rows]
    assert consents[0] == consents[1] != consents[2] == consents[3]


def test_one_source_that_is_refused_does_not_stop_the_others(mien_, loaded, party, here, people):
    (here / "who").mkdir()
    (here / "who" / "a.png").write_bytes(people["dev"].read_bytes())
    with Image.open(people["femi"]) as image:  # a picture that nobody has stated anything for
        image.crop((2, 5, 250, 251)).save(here / "who" / "b.png")
    (here / "who" / "c.png").write_bytes(people["eva"].read_bytes())
    assert mien_("swap", people["eva"], people["ben"], "-o", "x.png", "--consent", CONSENT)[0] == 0
    assert mien_("swap", people["dev"], people["ben"], "-o", "x.png", "--consent", CONSENT)[0] == 0
    command = ("swap", "who", "party/ada.png", "party/ben.png", "-o", "out/")
    code, printed, errors = mien_(*command)
    assert code == 5
    assert printed.endswith("4 written, 0 skipped, 2 failed\n")
    assert names(here / "out") == ["ada-a.png", "ada-c.png", "ben-a.png", "ben-c.png"]
    assert errors.count("no statement of consent for the face in b.png") == 4  # said and summed up
    # if all are refused, that is the code
    command = ("swap", "who/b.png", "party/ada.png", "party/ben.png", "-o", "out/")
    assert mien_(*command)[0] == 4


def test_a_source_is_read_once_for_all_its_targets(swap, party, monkeypatch):
    runs, call = [], OnnxEngine.__call__

    def counted(engine, inputs):
        runs.append(engine.model)
        return call(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", counted)
    swap("party", "-o", "out/")
    assert runs.count("sface") <= 1
    assert runs.count("mien-256") == 4


# What is there already


def test_existing_outputs_are_skipped_and_counted(swap, party, here):
    assert swap("party", "-o", "out/")[0] == 5
    (here / "out" / "mei.png").unlink()
    kept = {name: (here / "out" / name).read_bytes() for name in found(here / "out")}
    (here / "out" / "ada.png").write_text("mine")
    code, printed, errors = swap("party", "-o", "out/", "--skip-existing")
    assert code == 5
    assert "out/ada.png: skipped; it is there already" in printed
    assert printed.endswith("1 written, 3 skipped, 1 failed\n")
    assert (here / "out" / "ada.png").read_text() == "mine"
    assert (here / "out" / "ben.png").read_bytes() == kept["ben.png"]
    (party / "bad.png").unlink()
    code, printed, errors = swap("party", "-o", "out/", "--skip-existing", "--json")
    assert (code, errors) == (0, "")
    rows = json.loads(printed)["pictures"]
    assert [row.get("skipped", False) for row in rows] == [True] * 4


def test_if_everything_is_there_nothing_is_asked_and_nothing_read(mien_, loaded, here, people):
    (here / "out").mkdir()
    for name in ("a.png", "b.png"):
        (here / "out" / name).write_text("mine")
    for targets, output in ((["a.png", "b.png"], "out/"), (["b.png"], "out/b.png")):
        for name in targets:
            (here / name).write_bytes(people["ben"].read_bytes())
        command = ("swap", "nobody.png", *targets, "-o", output, "--skip-existing", "--json")
        code, printed, errors = mien_(*command)
        assert (code, errors) == (0, "")
        report = json.loads(printed)
        assert all(row["skipped"] for row in report.get("pictures", [report]))


def test_a_second_run_does_not_take_outputs_for_targets(swap, party, here):
    (party / "bad.png").unlink()
    for output in ("party/out", "party/out/{target}{suffix}"):
        assert swap("party", "-o", output if "{" in output else f"{output}/")[0] == 0
        assert found(party / "out") == GOOD
        code, printed, _ = swap("party", "-o", output, "--skip-existing")
        assert (code, printed.splitlines()[-1]) == (0, "0 written, 4 skipped, 0 failed")
        for name in found(party / "out"):
            (party / "out" / name).unlink()


# Dry runs


def test_a_dry_run_says_what_would_be_done_and_does_nothing(mien_, built, party, here, people):
    (here / "out").mkdir()
    (here / "out" / "ben.png").write_text("mine")
    before = found(here)
    command = ("swap", people["dev"], "party", "-o", "out/", "--dry-run")
    for more, word in (([], "replace"), (["--skip-existing"], "skip")):
        code, printed, errors = mien_(*command, *more)
        assert (code, errors, built) == (0, "", [])
        lines = [line.split() for line in printed.splitlines()]
        assert [(line[0], line[1], line[3]) for line in lines] == [
            ("write", "out/ada.png", "party/ada.png"),
            ("write", "out/bad.png", "party/bad.png"),
            (word, "out/ben.png", "party/ben.png"),
            ("write", "out/mei.png", "party/mei.png"),
            ("write", "out/late/eva.png", "party/late/eva.png"),
        ]
        report = json.loads(mien_(*command, *more, "--json")[1])
        assert report["dry_run"] is True
        assert [row["action"] for row in report["pictures"]] == [line[0] for line in lines]
        first = report["pictures"][0]
        assert (first["target"], first["output"]) == ("party/ada.png", "out/ada.png")
        assert first["source"] == str(people["dev"])
    assert found(here) == before
    assert not (here / "out" / "late").exists()


def test_a_dry_run_finds_what_is_wrong_with_the_names(mien_, built, party, people):
    command = ("swap", people["dev"], "party", "--dry-run", "-o")
    assert mien_(*command, "party")[0] == 2
    assert mien_(*command, "out/{source}.png")[0] == 2
    assert mien_(*command, "out.png")[0] == 2


def test_a_dry_run_names_what_is_written_beside(mien_, built, here, people):
    command = ("swap", people["dev"], people["ben"], "-o", "o.png", "--dry-run")
    code, printed, _ = mien_(*command, "--compare", "--debug-view")
    assert code == 0
    assert "o.compare.png" in printed
    assert "o.debug.png" in printed


# Names (T6)

ODD = [
    "with space.png",
    'it\'s "quoted".png',
    "100%s sure %d.png",
    "顔写真.png",
    "фото.png",
    "🎉🙂.png",
    f"{'x' * 196}.png",
    "-dash.png",
    "{target} {0}.png",
    "[ab]*?.png",
    "@at.png",
    "$HOME `ls` ;&|<>.png",
    "a=b.png",
    "line\nbreak.png",
    "not \udcff text.png",
]


def test_pictures_of_any_name_in_a_folder(swap, here, people):
    (here / "in").mkdir()
    for name in ODD:
        (here / "in" / name).write_bytes(people["ben"].read_bytes())
    code, printed, errors = swap("in", "-o", "out/", "--json")
    assert (code, errors) == (0, "")
    assert names(here / "out") == sorted(ODD)
    assert {row["target"] for row in json.loads(printed)["pictures"]} == {f"in/{n}" for n in ODD}
    assert all(whole(here / "out" / name) for name in ODD)


@pytest.mark.parametrize("name", ODD)
def test_any_name_may_be_a_source_a_target_a_person_and_an_output(
    mien_, loaded, here, people, name
):
    for folder, who in (("s", "dev"), ("t", "ben"), ("p", "ben")):
        (here / folder).mkdir()
        (here / folder / name).write_bytes(people[who].read_bytes())
    (here / "o").mkdir()
    out = f"o/{name}".replace("{", "{{").replace("}", "}}")
    # in their folders, so that a dash comes first
    for place, words in (
        (here, ["-o", out, "--only", f"p/{name}", "--", f"s/{name}", f"t/{name}"]),
        (here / "s", ["-o", f"../{out}", "--compare", "--", name, f"../t/{name}"]),
    ):
        os.chdir(place)
        code, _, errors = mien_("swap", "-q", "--consent", CONSENT, *words)
        assert (code, errors) == (0, "")
        assert whole(here / "o" / name)
    stem = name.removesuffix(".png")
    if len(name) < 200:
        assert names(here / "o") == sorted([name, f"{stem}.compare.png"])


def test_names_from_a_list_may_begin_with_a_dash(swap, here, people):
    odd = [name for name in ODD if "\n" not in name and "\udcff" not in name]
    for name in odd:
        (here / name).write_bytes(people["ben"].read_bytes())
    (here / "list.txt").write_text("\n".join(odd), encoding="utf-8")
    assert swap("@list.txt", "-o", "out/")[0] == 0
    assert names(here / "out") == sorted(odd)


def test_a_name_that_grows_too_long_is_that_pictures_error(swap, here, people):
    long = f"{'x' * 240}.png"
    for name in (long, "b.png"):
        (here / name).write_bytes(people["ben"].read_bytes())
    code, printed, errors = swap(long, "b.png", "-o", "{target}-and-a-bit-more{suffix}")
    assert code == 5
    assert printed.endswith("1 written, 0 skipped, 1 failed\n")
    assert "name too long" in errors


# Early ends and other runs

RUN = """
import json, signal, sys
from mien.cli.app import run
from mien.engines import OnnxEngine

# whoever started the tests in the background may have interrupts ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
call = OnnxEngine.__call__
waits = int(sys.argv[1])


def slow(engine, inputs):
    global waits
    if engine.model != "mien-256":
        return call(engine, inputs)
    waits -= 1
    if waits == 0:
        print("waiting", file=sys.stderr, flush=True)
        sys.stdin.buffer.raw.read(1)
    return {"output": -inputs["target"]}


OnnxEngine.__call__ = slow
sys.exit(run(sys.argv[2:]))
"""


def start(waits, *arguments):
    """Run a command in another process, until the ``waits``-th swap, which waits for its stdin."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(waits), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    line = process.stderr.readline()
    watchdog.cancel()
    assert line == "waiting\n", line + process.stderr.read()
    return process


def free(path):
    with claim(path):
        return True


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_an_interrupt_leaves_whole_pictures_and_nothing_else(party, here, people):
    (party / "bad.png").unlink()
    process = start(3, "swap", people["dev"], "party", "-o", "out/", "--consent", CONSENT)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors == "mien: interrupted; no half-written file was left.\n"
    assert found(here / "out") == ["ada.png", "ben.png"]  # the third was not done
    assert all(whole(here / "out" / name) for name in found(here / "out"))
    assert printed.startswith("out/ada.png: 1 face swapped")
    assert all(free(here / "out" / name) for name in GOOD)


def test_of_two_runs_at_one_output_the_second_is_told(mien_, loaded, here, people):
    arguments = ("swap", people["dev"], people["ben"], "-o", here / "out.png", "--consent", CONSENT)
    process = start(1, *arguments)
    (here / "link").symlink_to(".")
    for out in (here / "out.png", here / "link" / "out.png"):
        code, printed, errors = mien_(*arguments[:4], out, *arguments[5:])
        assert (code, printed) == (1, "")
        assert errors.startswith(f"mien: {out} is being written by another run of mien. ")
    assert not (here / "out.png").exists()
    _, errors = process.communicate("\n", timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert whole(here / "out.png")
    assert mien_(*arguments)[0] == 0


def test_the_reader_of_the_lines_may_leave(party, here, people):
    # as in: mien swap … | head -1
    (party / "bad.png").unlink()
    process = start(1, "swap", people["dev"], "party", "-o", "out/", "--consent", CONSENT)
    process.stdout.close()
    _, errors = process.communicate("\n", timeout=120)
    assert "Traceback" not in errors
    assert "Broken" not in errors
    assert all(whole(here / "out" / name) for name in found(here / "out"))
    assert process.returncode != 0 or found(here / "out") == GOOD


# Places that cannot be


def test_output_folders_are_made_for_one_as_for_many(swap, here, people):
    for output, made in (
        ("new/", "new/ben.png"),
        ("deep/er/", "deep/er/ben.png"),
        ("p/{target}.png", "p/ben.png"),
    ):
        assert swap(people["ben"], "-o", output)[0] == 0
        assert (here / made).is_file()


def test_a_folder_that_is_there_gets_the_pictures_name(swap, here, people):
    (here / "out.png").mkdir()
    code, printed, _ = swap(people["ben"], "-o", "out.png")
    assert (code, printed.split(":")[0]) == (0, "out.png/ben.png")


@pytest.mark.parametrize(
    "arguments",
    [
        ["", "b.png", "-o", "out.png"],
        ["a.png", "", "-o", "out/"],
        ["a.png", "b.png", "-o", ""],
        ["a.png", "b.png", "-o", "out.png", "--also", ""],
        ["b.png", "-o", "out.png", "--map", ""],
        ["a.png", "empty", "-o", "out/"],
        ["empty", "b.png", "-o", "out/"],
        ["a.png", "*.jpg", "-o", "out/"],
        ["a.png", "@empty.txt", "-o", "out/"],
        ["a.png", "@nowhere.txt", "-o", "out/"],
        ["a.png", "b.png", "a.png", "-o", "out.png"],
        ["a.png", "b.png", "-o", "out/{name}.png"],
        ["a.png", "b.png", "-o", "a.png"],
        ["a.png", "b.png", "-o", "./b.png"],
        ["a.png", "b.png", "-o", "hard.png"],
        ["a.png", "b.png", "-o", "."],
        ["a.png", "b.png", "c.png", "-o", "b.{index}.png", "--also", "b.2.png"],
    ],
    ids=" ".join,
)
def test_names_that_cannot_be_are_two_before_any_work(mien_, built, here, arguments):
    (here / "empty").mkdir()
    (here / "empty.txt").touch()
    for name in ("a.png", "b.png"):
        (here / name).touch()
    os.link(here / "b.png", here / "hard.png")
    code, printed, errors = mien_("swap", *arguments)
    assert (code, printed, built) == (2, "", [])
    assert "is not possible" in errors
    assert found(here) == ["a.png", "b.png", "empty.txt", "hard.png"]


def test_one_target_in_a_locked_folder_does_not_stop_the_rest(swap, here, people, lock):
    (here / "locked").mkdir()
    for name in ("locked/a.png", "b.png", "c.png"):
        (here / name).write_bytes(people["ben"].read_bytes())
    lock(here / "locked")
    code, printed, errors = swap("locked/a.png", "b.png", "c.png", "-o", "out/")
    assert code == 5
    assert printed.endswith("2 written, 0 skipped, 1 failed\n")
    assert "mien: failed: locked/a.png: " in errors
    assert "Permission denied" in errors
    assert found(here / "out") == ["b.png", "c.png"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["swap", "a.png", "b.png", "-o", "locked/o.png"], 1),
        (["swap", "a.png", "b.png", "-o", "locked/o.png", "--skip-existing"], 1),
        (["swap", "a.png", "locked/b.png", "-o", "o.png"], 1),
        (["swap", "locked/a.png", "b.png", "-o", "o.png"], 1),
        (["swap", "a.png", "b.png", "-o", "o.png", "--also", "locked/a.png"], 1),
        (["swap", "a.png", "b.png", "-o", "o.png", "--only", "locked/b.png"], 1),
        (["swap", "b.png", "-o", "o.png", "--map", "a.png=locked/b.png"], 1),
        (["swap", "b.png", "-o", "o.png", "--map", "locked/m.toml"], 2),
        (["swap", "a.png", "@locked/l.txt", "-o", "out/"], 2),
        (["faces", "locked/b.png"], 1),
        (["faces", "b.png", "-o", "locked/o.png"], 1),
        (["faces", "b.png", "--against", "locked/b.png"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_what_is_locked_is_named(mien_, loaded, here, people, lock, command, code):
    (here / "locked").mkdir()
    for name, who in (("a.png", "dev"), ("b.png", "ben"), ("locked/b.png", "ben")):
        (here / name).write_bytes(people[who].read_bytes())
    for name in ("m.toml", "l.txt"):
        (here / "locked" / name).touch()
    lock(here / "locked")
    consent = ["--consent", CONSENT] if command[0] == "swap" else []
    found_code, printed, errors = mien_(*command, *consent)
    assert (found_code, printed) == (code, "")
    assert "Permission denied" in errors
    assert "locked/" in errors
    assert "report" not in errors


LONG = "x" * 300


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["swap", "a.png", "b.png", "-o", f"{LONG}.png"], 1),
        (["swap", "a.png", f"{LONG}.png", "-o", "out.png"], 1),
        (["swap", f"{LONG}.png", "b.png", "-o", "out.png"], 1),
        (["swap", "a.png", "b.png", "-o", "out.png", "--only", f"{LONG}.png"], 1),
        (["swap", "b.png", "-o", "out.png", "--map", f"a.png={LONG}.png"], 1),
        (["swap", "b.png", "-o", "out.png", "--map", f"{LONG}.toml"], 2),
        (["swap", "a.png", f"@{LONG}", "-o", "out/"], 2),
        (["swap", "a.png", "b.png", "-o", f"{LONG}.png", "--dry-run"], 0),
        (["faces", f"{LONG}.png"], 1),
        (["faces", "b.png", "-o", f"{LONG}.png"], 1),
    ],
    ids=lambda value: " ".join(value).replace(LONG, "…") if isinstance(value, list) else str(value),
)
def test_a_name_that_no_file_can_have_is_named(mien_, loaded, here, people, command, code):
    for name, who in (("a.png", "dev"), ("b.png", "ben")):
        (here / name).write_bytes(people[who].read_bytes())
    consent = ["--consent", CONSENT] if command[0] == "swap" else []
    found_code, _, errors = mien_(*command, *consent)
    assert found_code == code
    if code:
        assert "too long" in errors
        assert LONG in errors
        assert "report" not in errors
