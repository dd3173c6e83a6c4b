"""``mien config``: what is in force, and why."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from mien.settings import Settings, load


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A project with a file, in which commands run, and a user without one."""
    user, project = tmp_path / "user" / "mien.toml", tmp_path / "project" / "mien.toml"
    project.parent.mkdir()
    project.write_text('blend = "poisson"\nledger = "l.db"\n', encoding="utf-8")
    monkeypatch.setattr("mien.settings.user_config_path", lambda name, appauthor: user.parent)
    monkeypatch.setenv("MIEN_COLOR_MATCH", "no")
    monkeypatch.chdir(project.parent)
    return user, project


@pytest.mark.parametrize("command", [["config", "show"], ["config"]])
def test_each_setting_is_shown_with_its_origin(mien_, files, command):
    user, project = files
    code, printed, errors = mien_(*command)
    assert (code, errors) == (0, "")
    table, below = printed.split("\n\n")
    head, *rows = (re.split(r" {2,}", line) for line in table.splitlines())
    assert head == ["key", "value", "origin", "allowed"]
    assert [row[0] for row in rows] == list(Settings.model_fields)
    assert [row[3] for row in rows] == [f.description for f in Settings.model_fields.values()]
    cells = {key: (value, origin) for key, value, origin, _ in rows}
    assert cells["model"] == ("mien-256", "default")
    assert cells["threads"] == ("unset", "default")
    assert cells["blend"] == ("poisson", str(project))
    assert cells["color_match"] == ("false", "MIEN_COLOR_MATCH")
    assert cells["ledger"] == (str(project.parent / "l.db"), str(project))
    assert below.splitlines()[1:] == [f"absent   {user}", f"present  {project}"]


def test_columns_are_aligned(mien_, files):
    head, *rows = mien_("config", "show")[1].split("\n\n")[0].splitlines()
    for title in ("value", "origin", "allowed"):
        start = head.index(title)
        assert {row[start - 2 : start] for row in rows} == {"  "}
        assert all(row[start] != " " for row in rows)


def test_the_report_has_the_types_of_the_values(mien_, files):
    user, project = files
    code, printed, errors = mien_("config", "show", "--json")
    assert (code, errors) == (0, "")
    report = json.loads(printed)
    shown = report["settings"]
    assert {key: row["origin"] for key, row in shown.items()} == load().origins
    assert shown["threads"] == {"value": None, "origin": "default"}
    assert shown["color_match"] == {"value": False, "origin": "MIEN_COLOR_MATCH"}
    assert shown["strength"] == {"value": 1.0, "origin": "default"}
    assert shown["ledger"] == {"value": str(project.parent / "l.db"), "origin": str(project)}
    assert report["files"] == [
        {"path": str(user), "present": False},
        {"path": str(project), "present": True},
    ]


def test_a_fault_is_a_usage_error_that_names_the_key(mien_, files):
    _, project = files
    project.write_text("provdier = 'cuda'", encoding="utf-8")
    code, printed, errors = mien_("config", "show")
    assert (code, printed) == (2, "")
    assert errors.startswith(f"mien: {project}: provdier='cuda' is not possible. Allowed: provider")
    code, printed, _ = mien_("config", "show", "--json")
    error = json.loads(printed)["error"]
    assert (code, error["kind"], error["exit"]) == (2, "InvalidOption", 2)


def test_showing_the_settings_needs_no_network():
    code = (
        "import sys; from mien.cli.app import run; assert run(['config', '--help']) == 0; "
        "assert 'mien.settings' not in sys.modules; assert run(['config', 'show']) == 0; "
        "assert not {'torch', 'numpy', 'PIL', 'onnxruntime'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
