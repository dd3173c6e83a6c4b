"""``mien swap`` refused, failed or done in part: what is said, and that nothing is left."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import CONSENT
from pictures import landscape, names, pair, stranger

from mien.engines import OnnxEngine
from mien.media import read_picture

# Refused


@pytest.mark.parametrize("options", [[], ["--consent", ""], ["--consent", "  "]])
def test_without_consent_and_a_terminal_it_is_four(mien_, loaded, tmp_path, people, options):
    source = stranger(people, tmp_path / "unknown.png")
    out = tmp_path / "out.jpg"
    code, printed, errors = mien_("swap", source, people["ben"], "-o", out, *options)
    assert (code, printed) == (4, "")
    assert "no statement of consent for the face in unknown.png" in errors
    assert "--consent" in errors
    assert names(tmp_path) == ["unknown.png"]


@pytest.mark.parametrize("statement", ["", "  "])
def test_an_empty_option_is_refused_on_a_terminal_too(
    mien_, loaded, tmp_path, people, monkeypatch, statement
):
    asked = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: asked.append(1) or CONSENT)
    source = stranger(people, tmp_path / "unknown.png")
    code, _, errors = mien_(
        *("swap", source, people["ben"], "-o", tmp_path / "out.jpg"),
        *("--consent", statement, "--quiet"),
    )
    assert (code, asked) == (4, [])
    assert "unknown.png" in errors
    assert names(tmp_path) == ["unknown.png"]


def test_consent_is_remembered_by_content(mien_, loaded, tmp_path, people):
    source = stranger(people, tmp_path / "femi.png", "femi")
    command = ("-o", tmp_path / "out.jpg", "--json")
    assert mien_("swap", source, people["ben"], *command)[0] == 4
    code, first, _ = mien_("swap", source, people["ben"], *command, "--consent", CONSENT)
    assert code == 0
    source.rename(tmp_path / "renamed.png")
    code, second, _ = mien_("swap", tmp_path / "renamed.png", people["ben"], *command)
    assert code == 0
    assert json.loads(second)["consents"] == json.loads(first)["consents"]
    assert len(json.loads(first)["consents"]) == 1


QUESTION = "Whose face is in"
TERMINAL = """
import functools, json, sys
import mien.swapper
from mien.cli.app import run
mien.swapper.Swapper = functools.cache(mien.swapper.Swapper)  # load the networks once
codes = [int(run(arguments)) for arguments in json.loads(sys.argv[1])]
print(json.dumps(codes))
"""


def at_a_terminal(folder, commands, typed):
    """Run commands at a terminal where this is typed; return their codes, lines and the screen."""
    pty = pytest.importorskip("pty")
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL, json.dumps([list(map(str, each)) for each in commands])],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "MIEN_HOME": str(folder / "home"), "TERM": "xterm"},
    )
    os.close(terminal)
    os.write(keyboard, typed)
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    shown = b""
    try:
        while part := os.read(keyboard, 4096):
            shown += part
    except OSError:  # Linux says so when the last user of the terminal has gone
        pass
    *lines, codes = process.communicate()[0].decode().splitlines()
    watchdog.cancel()
    os.close(keyboard)
    assert process.returncode == 0
    return json.loads(codes), lines, shown.decode()


def test_on_a_terminal_consent_is_asked_for_once(tmp_path, people):
    me = shutil.copy(people["dev"], tmp_path / "me.png")
    renamed = shutil.copy(people["dev"], tmp_path / "renamed.png")
    other = shutil.copy(people["mei"], tmp_path / "other.png")
    outputs = [tmp_path / f"out{number}.png" for number in range(3)]
    commands = [
        ["swap", source, people["ben"], "-o", out, *quiet]
        for source, out, quiet in zip(
            (me, renamed, other), outputs, ([], ["-q"], ["-q"]), strict=True
        )
    ]
    # the answer, an empty answer, and the end of input, so that more questions do not hang
    typed = b"This is my own face.\n\n\x04"
    codes, lines, shown = at_a_terminal(tmp_path, commands, typed)
    assert codes == [0, 0, 4]
    assert [out.exists() for out in outputs] == [True, True, False]
    assert shown.count(QUESTION) == 2
    assert f"{QUESTION} me.png" in shown
    assert f"{QUESTION} other.png" in shown
    assert "no statement of consent for the face in other.png" in shown
    # nothing of the questions goes to the standard output
    (line,) = lines
    assert line.startswith(f"{outputs[0]}: 1 face swapped")


def test_on_a_terminal_each_person_of_many_is_asked_for_once(tmp_path, people):
    who, what = tmp_path / "who", tmp_path / "what"
    for folder, members in ((who, ("dev", "eva", "mei")), (what, ("ada", "ben"))):
        folder.mkdir()
        for name in members:
            shutil.copy(people[name], folder)
    several = ["swap", who, what, "-o", f"{tmp_path / 'out'}/"]
    row = "[[map]]\nsource = '{}'\ntarget = '{}'\n"
    (tmp_path / "map.toml").write_text(
        row.format(people["dev"], people["ben"])
        + row.format(people["femi"], people["ada"])
        + "consent = 'A statement in the file.'\n"
        + row.format(people["ada"], people["mei"])
    )
    mapped = ["swap", what, "-o", f"{tmp_path / 'mapped'}/", "--map", tmp_path / "map.toml", "-q"]
    typed = b"I am Dev.\n\nI am Mei.\nI am Ada.\n\x04"
    codes, lines, shown = at_a_terminal(tmp_path, [several, mapped], typed)
    assert codes == [5, 0]
    # Dev is known by the second command, Femi by the file; Eva was asked for once, and refused
    asked = ["dev.png", "eva.png", "mei.png", "ada.png"]
    assert [part.split(",")[0] for part in shown.split(f"{QUESTION} ")[1:]] == asked
    assert lines[-1] == "4 written, 0 skipped, 2 failed"
    assert names(tmp_path / "out") == ["ada-dev.png", "ada-mei.png", "ben-dev.png", "ben-mei.png"]
    assert names(tmp_path / "mapped") == ["ada.png", "ben.png"]


# Failed


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_file_that_is_missing_is_one(mien_, loaded, tmp_path, people, which):
    paths = {"source": people["dev"], "target": people["ben"]}
    paths[which] = tmp_path / "nowhere.jpg"
    out = tmp_path / "out.jpg"
    code, printed, errors = mien_(
        "swap", paths["source"], paths["target"], "-o", out, "--consent", CONSENT
    )
    assert (code, printed) == (1, "")
    assert f"There is no file {tmp_path / 'nowhere.jpg'}" in errors
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("out", "fault"),
    [
        ("out.psd", ".jpg, .jpeg"),
        ("out", "(none)"),
        ("nowhere/out.jpg", "nowhere does not exist"),
    ],
)
def test_an_output_that_cannot_be_is_one_before_any_work(
    mien_, built, tmp_path, people, out, fault
):
    code, printed, errors = mien_(
        "swap", people["dev"], people["ben"], "-o", tmp_path / out, "--consent", CONSENT
    )
    assert (code, printed, built) == (1, "", [])
    assert fault in errors
    assert names(tmp_path) == []


def test_a_provider_that_cannot_run_is_one_unless_allowed(mien_, people, tmp_path, monkeypatch):
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    command = ("faces", people["ben"], "--provider", "cuda", "--json")
    code, printed, errors = mien_(*command)
    assert code == 1
    assert "onnxruntime-gpu" in errors
    assert json.loads(printed)["error"]["kind"] == "EngineUnavailable"
    code, printed, _ = mien_(*command, "--allow-fallback")
    assert code == 0
    assert len(json.loads(printed)["faces"]) == 1


def test_a_gpu_that_is_not_there_is_said_unless_the_cpu_may_step_in(mien_, people, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    command = ("faces", people["ben"], "--provider", "torch-cuda:1", "--json")
    code, printed, errors = mien_(*command)
    assert code == 1
    assert "'torch-cuda:1' cannot run 'yunet'" in errors
    assert json.loads(printed)["error"]["kind"] == "EngineUnavailable"
    code, printed, _ = mien_(*command, "--allow-fallback")
    assert code == 0
    assert len(json.loads(printed)["faces"]) == 1


def spoil(monkeypatch, rows):
    """Make the swap network return NaN in these rows of a batch, in its safe mode too."""
    call = OnnxEngine.__call__

    def spoiled(engine, inputs):
        outputs = call(engine, inputs)
        if engine.model == "mien-256":
            outputs["output"][rows] = float("nan")
        return outputs

    monkeypatch.setattr(OnnxEngine, "__call__", spoiled)


def test_a_network_that_fails_on_every_face_is_one(mien_, loaded, tmp_path, people, monkeypatch):
    spoil(monkeypatch, slice(None))
    out = tmp_path / "out.jpg"
    code, printed, errors = mien_(
        "swap", people["dev"], people["ben"], "-o", out, "--consent", CONSENT
    )
    assert (code, printed) == (1, "")
    assert "'mien-256'" in errors
    assert "not finite" in errors
    assert names(tmp_path) == []


def test_an_error_nobody_foresaw_is_one_and_no_traceback(mien_, monkeypatch, caplog):
    def fail(*arguments):
        raise RuntimeError("the moon is full")

    monkeypatch.setattr("mien.models.Catalogue", fail)
    code, printed, errors = mien_("models")
    assert (code, printed) == (1, "")
    assert "RuntimeError: the moon is full" in errors
    assert "report" in errors
    assert "Traceback" not in errors
    assert caplog.records == []
    with caplog.at_level(logging.INFO):
        assert mien_("-v", "models")[0] == 1
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [RuntimeError]


def test_an_interrupt_is_130_and_leaves_nothing(mien_, monkeypatch, tmp_path, people):
    def interrupt(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mien.swapper.Swapper", interrupt)
    code, printed, errors = mien_("swap", people["dev"], people["ben"], "-o", tmp_path / "out.jpg")
    assert (code, printed) == (130, "")
    assert "interrupted; no half-written file was left" in errors
    assert names(tmp_path) == []


def test_so_is_one_while_a_library_is_loaded(mien_, monkeypatch, tmp_path, people):
    def interrupt(**options):
        # as pybind11 says it
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr("mien.swapper.Swapper", interrupt)
    code, printed, errors = mien_("swap", people["dev"], people["ben"], "-o", tmp_path / "out.jpg")
    assert (code, printed) == (130, "")
    assert "interrupted; no half-written file was left" in errors
    assert names(tmp_path) == []


# Partial


def test_one_face_of_two_that_fails_is_five(
    mien_, loaded, tmp_path, people, load, monkeypatch, no_watermark
):
    target, out = pair(load, tmp_path / "two.png"), tmp_path / "out.png"
    spoil(monkeypatch, -1)
    code, printed, errors = mien_(
        *("swap", people["dev"], target, "-o", out, "--consent", CONSENT, "--json"),
        *("--faces", "all"),
    )
    assert code == 5
    report = json.loads(printed)
    assert report["swapped"] == [{"face": 0, "role": 0}]
    assert [fault["face"] for fault in report["faults"]] == [1]
    assert "not finite" in report["faults"][0]["reason"]
    assert errors == ""
    before, after = (read_picture(path).frame.pixels.numpy() for path in (target, out))
    assert (after[:, :240] != before[:, :240]).any()
    assert np.array_equal(after[:, 240:], before[:, 240:])


# Errors as JSON


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (["swap", "--json"], 2, None),
        (["faces", "nowhere.jpg", "--json"], 1, "PictureUnreadable"),
        (["faces", "hills.png", "--json"], 3, "NoFace"),
        (["swap", "hills.png", "hills.png", "-o", "out.psd", "--json"], 1, "PictureUnwritable"),
        (["swap", "hills.png", "hills.png", "-o", "out.jpg", "--json"], 4, "ConsentMissing"),
        (["models", "show", "nobody", "--json"], 2, "UnknownModel"),
    ],
)
def test_errors_are_json_too(mien_, loaded, tmp_path, monkeypatch, arguments, code, kind):
    monkeypatch.chdir(tmp_path)
    landscape(tmp_path / "hills.png", width=319)  # for which no test has stated consent
    found, printed, errors = mien_(*arguments)
    assert found == code
    error = json.loads(printed)["error"]
    assert error["exit"] == code
    assert kind is None or error["kind"] == kind
    assert errors == f"mien: {error['message']}\n"
