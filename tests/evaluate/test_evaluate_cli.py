"""``mien evaluate``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import shutil

import pytest
from conftest import CONSENT
from PIL import Image

from mien.cli.evaluate import evaluate
from mien.cli.exits import Exit


def folder_of(people, place, *names):
    for name in names:
        shutil.copy(people[name], place / f"{name}.png")
    return place


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    return folder_of(people, tmp_path_factory.mktemp("folk"), "ada", "ben")


def test_a_report_is_printed_and_written(mien_, loaded, folder, tmp_path):
    out = tmp_path / "new" / "report"
    code, printed, errors = mien_(
        "evaluate", "--people", folder, "-o", out, "--consent", CONSENT, "--pairs", 2, "--json"
    )
    assert (code, errors) == (Exit.SUCCESS, "")
    report = json.loads(printed)
    assert report == json.loads((out / "report.json").read_text())
    assert [pair["source"] for pair in report["pairs"]] != []
    assert report["subject"]["model"] == "mien-256"
    assert report["measures"]["outside"]["subject"]["mean"] == 0
    assert set(report["measures"]["pose"]) >= {"subject", "untouched", "pasted", "itself"}
    assert (out / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_table_is_printed(mien_, loaded, folder, tmp_path):
    code, printed, errors = mien_(
        "evaluate", "--people", folder, "-o", tmp_path, "--consent", CONSENT, "--quick"
    )
    assert (code, errors) == (Exit.SUCCESS, "")
    assert "target untouched" in printed
    assert "2 pairs of 2 pictures" in printed


def test_a_folder_of_results_is_judged(mien_, people, folder, tmp_path):
    """Of two results one is its own target, and one cannot be judged for its size."""
    results = tmp_path / "made"
    results.mkdir()
    shutil.copy(people["ben"], results / "ada__ben.png")
    with Image.open(people["ada"]) as image:
        image.resize((100, 100)).save(results / "ben__ada.png")
    code, printed, errors = mien_(
        "evaluate", "--people", folder, "--results", results, "-o", tmp_path / "out", "--json"
    )
    report = json.loads(printed)
    assert (code, errors) == (Exit.PARTIAL, "")
    assert [(pair["source"], pair["target"]) for pair in report["pairs"]] == [("ada", "ben")]
    assert report["measures"]["dlib.target"]["subject"]["mean"] == pytest.approx(1, abs=1e-5)
    assert [failure["target"] for failure in report["failures"]] == ["ada"]
    assert report["subject"] == {"results": "made"}
    assert "itself" not in report["measures"]["pose"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--people", "nowhere"], Exit.USAGE, "people"),
        (["--results", "x", "--model", "mien-256"], Exit.USAGE, "results"),
        (["--results", "x", "--clip", "y"], Exit.USAGE, "clip"),
        (["--judge", "missing.onnx"], Exit.USAGE, "judge"),
        (["--labels", "missing.csv"], Exit.USAGE, "labels"),
        (["--protocol", "same"], Exit.USAGE, "protocol"),
    ],
)
def test_refusals(mien_, loaded, folder, tmp_path, options, code, said):
    found, _, errors = mien_("evaluate", "--people", folder, "-o", tmp_path / "out", *options)
    assert found == code
    assert said in errors


def test_faces_without_consent_are_refused(mien_, loaded, unheard, folder, tmp_path):
    code, _, errors = mien_("evaluate", "--people", folder, "-o", tmp_path / "out")
    assert code == Exit.REFUSED
    assert "consent" in errors
    assert not (tmp_path / "out" / "report.html").exists()


def test_an_output_that_cannot_be_a_folder_is_refused(mien_, folder, tmp_path):
    file = tmp_path / "file"
    file.touch()
    code, _, errors = mien_("evaluate", "--people", folder, "-o", file)
    assert code == Exit.USAGE
    assert "output" in errors


def test_every_option_explains_itself():
    for option in evaluate.__annotations__:
        assert option.islower()
    assert evaluate.__doc__
