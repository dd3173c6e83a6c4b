"""The fastest provider, chosen on the command line and in the settings."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_auto_runs_and_only_the_log_says_on_what(mien_, people, monkeypatch, how, caplog):
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    caplog.set_level("INFO", logger="mien.engines")
    if how == "variable":
        monkeypatch.setenv("MIEN_PROVIDER", "auto")
    options = ["--provider", "auto"] if how == "flag" else []
    code, printed, _ = mien_("faces", people["ben"], "--json", *options)
    assert code == 0
    assert len(json.loads(printed)["faces"]) == 1
    said = [r.getMessage() for r in caplog.records if r.name == "mien.engines.choose"]
    assert [line.split(";")[0] for line in said] == ["yunet runs on cpu", "facemesh runs on cpu"]
    assert all("cuda: not in this build of ONNX Runtime" in line for line in said)


def test_a_device_that_cannot_be_named_is_refused(mien_, people):
    code, printed, errors = mien_("faces", people["ben"], "--provider", "cpu:1")
    assert (code, printed) == (2, "")
    assert "cuda:1" in errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gpu-memory", "lots"], "--gpu-memory='lots' is not possible. Allowed: "),
        (["--gpu-memory", "4GB"], "take the provider torch-cuda, cuda or auto"),
        (["--gpu-memory", "4GB", "--provider", "torch-cpu"], "with the provider 'torch-cpu'"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(mien_, people, options, said):
    code, printed, errors = mien_("faces", people["ben"], *options)
    assert (code, printed) == (2, "")
    assert said in errors


def test_a_budget_of_the_settings_is_for_every_command(mien_, people, tmp_path, monkeypatch):
    monkeypatch.setenv("MIEN_GPU_MEMORY", "50%")
    picture, said = people["ben"], "torch-cuda, cuda or auto"
    for command in (
        ["faces", picture],
        ["swap", people["dev"], picture, "-o", tmp_path / "out.jpg", "--consent", "Generated."],
        ["bench", "--quick"],
    ):
        code, _, errors = mien_(*command)
        assert (code, said in errors) == (2, True)
