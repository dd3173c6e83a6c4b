"""The measured paths are the ones users get, and the command prints what they take."""

from __future__ import annotations

import json

import pytest
import torch

import mien
from mien.bench import Plan, Scene, Size, bench
from mien.bench.fixed import ReplayPath
from mien.bench.paths import SwapperPath
from mien.engines import OnnxEngine
from mien.errors import EngineError, InvalidOption, MeasurementFailed

SIZE = Size(480, 270)
QUICK = {"model": "mien-lite", "threads": 1, "sizes": (SIZE,), "frames": 1, "workers": (1,)}
STAGES = {"guard", "detect", "landmark", "align", "swap", "mask", "occlusion", "blend"}


def test_a_plan_is_carried_out(home):
    told = []
    ledger = home / "consent.sqlite3"
    before = ledger.read_bytes() if ledger.exists() else None
    report = bench(Plan(**QUICK, device="cpu", faces=(1, 2), by_person=True), progress=told.append)
    assert [row.key for row in report.rows] == [
        (path, "270p", faces) for path in ("swapper", "replay") for faces in (1, 2)
    ]
    for row in report.rows:
        assert row.swapped == row.faces
        assert row.per_second > 0
    swapped, *_, replayed = report.rows
    assert set(swapped.stages) == STAGES | {"embed", "other"}
    assert sum(swapped.means.values()) == pytest.approx(swapped.samples[0], abs=0.05)
    assert replayed.stages == {}
    assert set(report.networks["swapper"]) == set(report.networks["replay"])
    assert report.networks["swapper"]["mien-lite"] == (
        mien.Catalogue().card("mien-lite").sha256,
        "cpu",
    )
    assert set(report.cold["swapper"]) == {"load", "source"}
    assert told[0] == "Loading"
    assert told[-1] == "Measuring replay, 270p with 2 faces"
    # nothing is recorded of the portrait that stands in for a person
    assert (ledger.read_bytes() if ledger.exists() else None) == before
    json.dumps(report.as_dict())


def test_the_frames_are_swapped_as_users_have_it():
    path = SwapperPath(Plan(**QUICK))
    frame = Scene(SIZE, 2)(0)
    kept = frame.clone()
    runner = path.runner(Scene(SIZE, 2))
    runner.run(frame)
    assert torch.equal(frame, kept)
    wanted = path._swapper.swap(frame, path.identity, faces="all")
    assert runner.swapped == len(wanted.swapped.chosen) == 2
    for provider in ("cpu", "torch-cpu", "torch-cuda"):  # tensors stay where the frame is
        plan = Plan(**QUICK, provider=provider)
        fixed = ReplayPath(plan, torch.device("cpu"), path.identity).runner(Scene(SIZE, 2))
        fixed.run(frame)
        fixed.synchronise()
        assert (fixed.swapped, fixed.stages) == (2, None)


def test_without_a_gpu_the_swapper_alone_is_measured(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    report = bench(Plan(**QUICK, faces=(1,)))
    assert [row.path for row in report.rows] == ["swapper"]
    assert report.notes == ()
    with pytest.raises(InvalidOption, match="device='cuda'"):
        bench(Plan(**QUICK, faces=(1,), device="cuda"))


def test_a_gpu_that_does_not_do_is_a_note_unless_it_was_asked_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)

    def refuse(*given):
        raise EngineError("It is too old.", model="yunet")

    monkeypatch.setattr("mien.bench.run.ReplayPath", refuse)
    report = bench(Plan(**QUICK, faces=(1,)))
    assert report.notes == ("Frames of fixed capacity were not measured on cuda:0: It is too old.",)
    with pytest.raises(EngineError, match="too old"):
        bench(Plan(**QUICK, faces=(1,), device="cuda:0"))


def test_a_network_that_fails_ends_in_a_clear_error(monkeypatch):
    call = OnnxEngine.__call__

    def spoiled(engine, inputs):
        if engine.model == "mien-lite":
            raise EngineError("The network ran out of memory.", model=engine.model)
        return call(engine, inputs)

    monkeypatch.setattr(OnnxEngine, "__call__", spoiled)
    with pytest.raises(MeasurementFailed, match=r"'swapper' on 270p with 1 face failed.*memory"):
        bench(Plan(**QUICK, faces=(1,)))


# The command

OPTIONS = ["bench", "--size", "480x270", "--faces", "1", "--frames", "1", "--model", "mien-lite"]


def test_the_command_prints_a_table_and_compares(mien_, tmp_path):
    code, printed, errors = mien_(*OPTIONS, "--threads", "1", "--json")
    assert (code, errors) == (0, "")
    facts = json.loads(printed)
    assert (facts["rows"][0]["n"], facts["setting"]["model"]) == (1, "mien-lite")
    (tmp_path / "old.json").write_text(printed)
    code, printed, _ = mien_(*OPTIONS, "--threads", "1", "--against", tmp_path / "old.json")
    assert code == 0
    assert "time of a frame, ms" in printed
    assert "now by before" in printed
    assert "what else is not as it was" not in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--size", "large"], "size='large'"),
        (["--device", "tpu"], "device='tpu'"),
        (["--against", "nowhere.json"], "nowhere.json"),
        (["--seconds", "0"], "seconds=0"),
        (["--model", "nobody"], "nobody"),
    ],
)
def test_wrong_options_are_named(mien_, options, said):
    code, printed, errors = mien_("bench", *options)
    assert (code, printed) == (2, "")
    assert said in errors


def test_its_failure_is_an_exit_code(mien_, monkeypatch):
    def fail(plan, progress):
        raise MeasurementFailed("swapper", "720p with 1 face", RuntimeError("odd"))

    monkeypatch.setattr("mien.bench.bench", fail)
    code, printed, errors = mien_("bench", "--quick", "--json")
    assert code == 1
    assert json.loads(printed)["error"]["kind"] == "MeasurementFailed"
    assert "RuntimeError: odd" in errors
