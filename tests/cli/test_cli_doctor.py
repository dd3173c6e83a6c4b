"""``mien doctor``: what it prints, the code it ends with, and that it leaves nothing behind."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import onnxruntime as ort
import pytest
import torch
from pictures import names

import mien

NAMES = [
    *("retinaface", "yunet", "facemesh", "sface", "mien-256", "mien-lite", "mien-occlusion"),
    *("faceres-age", "open-nsfw", "mien-watermark"),
]
BARE = """
import sys
sys.modules[{absent!r}] = None
from mien.cli.app import run
sys.exit(run(['doctor', '--json', '--no-speed']))
"""


@pytest.fixture
def damaged(tmp_path):
    """A folder with a card in the place of yunet's, whose weights are damaged."""
    folder = tmp_path / "cards"
    folder.mkdir()
    shipped = mien.Catalogue().card("yunet").file
    shutil.copy(shipped.with_suffix(".toml"), folder)
    (folder / shipped.name).write_bytes(shipped.read_bytes()[:-1] + b"!")
    return folder


def test_the_report_as_json(mien_, monkeypatch, tmp_path):
    monkeypatch.setattr("mien.doctor.speed.ROUNDS", 1)
    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    code, printed, errors = mien_("doctor", "--json", "--threads", "1")
    report = json.loads(printed)
    assert (code, errors) == (0, "")
    assert report["mien"] == mien.__version__
    assert report["machine"]["packages"]["torch"] == torch.__version__
    assert report["providers"] == ort.get_available_providers()
    assert [network["name"] for network in report["networks"]] == NAMES
    for network in report["networks"]:
        assert (network["weights"], network["fault"]) == ("right", None)
        assert network["provider"] is not None
        for passed in network["passed_over"]:
            assert passed["why"]
    assert [run["name"] for run in report["speed"]["networks"]] == NAMES
    assert all(run["milliseconds"] > 0 for run in report["speed"]["networks"])
    assert report["speed"]["fault"] is None
    assert report["speed"]["per_second"] > 0
    assert "error" not in {finding["severity"] for finding in report["findings"]}
    assert names(tmp_path) == []


def test_the_report_as_text_without_the_speed_test(mien_):
    code, printed, errors = mien_("doctor", "--no-speed")
    assert (code, errors) == (0, "")
    lines = printed.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("```text", f"mien {mien.__version__}", "```")
    assert not [line for line in lines if line.startswith("speed")]
    assert "weights of 10 networks are right" in printed
    if (host := platform.node()) not in ("", "localhost"):
        assert host not in printed
    assert str(Path.home()) not in printed


def test_damaged_weights_are_an_error_and_the_rest_is_still_told(mien_, damaged, monkeypatch):
    monkeypatch.setattr("mien.doctor.speed.ROUNDS", 1)
    code, printed, _ = mien_("doctor", "--models", damaged, "--json", "--threads", "1")
    report = json.loads(printed)
    assert code == 1
    weights = {network["name"]: network["weights"] for network in report["networks"]}
    assert weights == dict.fromkeys(NAMES, "right") | {"yunet": "damaged"}
    first, second = (f for f in report["findings"] if f["severity"] == "error")
    assert "yunet_2023mar.onnx is damaged" in first["what"]
    assert mien.Catalogue().card("yunet").sha256 in first["remedy"]
    assert "'yunet' could not be opened" in second["what"]
    assert str(damaged) not in printed
    assert report["speed"]["milliseconds"] is None
    assert len(report["speed"]["networks"]) == len(NAMES) - 1


def test_settings_count_too(mien_, damaged, monkeypatch):
    monkeypatch.setenv("MIEN_MODELS", str(damaged))
    code, printed, _ = mien_("doctor", "--no-speed")
    assert (code, "yunet_2023mar.onnx is damaged" in printed) == (1, True)


def test_a_faulty_card_is_an_error_of_the_report(mien_, damaged):
    (damaged / "yunet_2023mar.toml").write_text("name = 3")
    code, printed, _ = mien_("doctor", "--models", damaged, "--json")
    report = json.loads(printed)
    assert (code, report["networks"]) == (1, [])
    assert report["findings"][0]["severity"] == "error"
    assert "card yunet_2023mar.toml is not valid" in report["findings"][0]["what"]
    assert report["codecs"]["pictures"]


def test_a_folder_that_is_not_there_is_wrong_usage(mien_, tmp_path):
    code, printed, errors = mien_("doctor", "--models", tmp_path / "nowhere")
    assert (code, printed) == (2, "")
    assert "nowhere" in errors


def test_what_the_runtime_prints_is_not_in_the_report(mien_, monkeypatch):
    offered = ort.get_available_providers()
    monkeypatch.setattr(ort, "get_available_providers", lambda: print("EP Error") or offered)
    code, printed, errors = mien_("doctor", "--no-speed", "--json")
    assert code == 0
    assert json.loads(printed)["providers"] == offered
    assert "EP Error" in errors


@pytest.mark.parametrize("absent", ["onnxruntime", "torch"])
def test_a_library_that_does_not_load_is_an_error_of_the_report(absent):
    code = BARE.format(absent=absent)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    report = json.loads(done.stdout)
    assert report["machine"]["packages"]["numpy"]
    assert absent in report["findings"][0]["what"]


def test_its_help_is_cheap():
    code = """
import sys
from mien.cli.app import run
assert run(['doctor', '--help']) == 0
assert not {'torch', 'onnxruntime', 'numpy', 'PIL'} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--no-speed" in done.stdout
