"""Reports: what is in them, how they are shown, and what two of them say beside each other."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mien.bench import Report, Row, Size, compare, read_report
from mien.bench.table import comparison_text, report_text
from mien.errors import InvalidOption

SETTING = {
    "mien": "1", "processor": "A processor", "cores": 4, "gpus": ["A GPU"], "driver": "570",
    "torch": "2.13.0", "onnxruntime": "1.30", "threads": None,
}  # fmt: skip


def row(faces=1, factor=1.0, n=30, **fields):
    samples = tuple(factor * (10 + i) for i in range(n))
    stages = {"swap": tuple(t * 0.75 for t in samples), "other": tuple(t / 4 for t in samples)}
    given = {
        "path": "swapper", "size": Size(1280, 720), "faces": faces, "swapped": float(faces),
        "prepare": 1.0, "first": 99.0, "samples": samples, "stages": stages,
        "per_second": 50 / factor, "workers": 2,
    }  # fmt: skip
    return Row(**given | fields)


def report(*rows, **setting):
    networks = {"swapper": {"yunet": ("f479eb06" * 8, "cpu")}}
    return Report(SETTING | setting, networks, {"swapper": {"load": 500.0}}, rows, ("A note.",))


def test_what_is_written_is_read_again(tmp_path):
    made = report(row(), row(4, n=3))
    path = tmp_path / "report.json"
    path.write_text(json.dumps(made.as_dict()))
    assert read_report(path) == made


def test_the_json_has_what_its_readers_need():
    facts = report(row(n=30), row(4, n=3)).as_dict()
    assert set(facts) == {"format", "setting", "networks", "cold", "rows", "notes"}
    assert facts["networks"] == [
        {"path": "swapper", "name": "yunet", "sha256": "f479eb06" * 8, "provider": "cpu"}
    ]
    first, second = facts["rows"]
    assert (first["n"], first["p50"], first["p95"], first["p99"]) == (30, 24.5, 37.55, None)
    assert (second["n"], second["p95"]) == (3, None)
    assert first["stages"]["swap"]["mean"] == pytest.approx(0.75 * first["mean"], abs=1e-3)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda facts: "{",
        lambda facts: "[]",
        lambda facts: json.dumps(facts | {"format": 2}),
        lambda facts: json.dumps(facts | {"rows": [facts["rows"][0] | {"samples": []}]}),
        lambda facts: json.dumps({k: v for k, v in facts.items() if k != "rows"}),
    ],
    ids=["broken", "a list", "newer", "no samples", "no rows"],
)
def test_another_file_is_refused_by_name(tmp_path, spoil):
    path = tmp_path / "report.json"
    path.write_text(spoil(report(row()).as_dict()))
    with pytest.raises(InvalidOption, match=r"report\.json.*mien bench --json"):
        read_report(path)
    with pytest.raises(InvalidOption, match="No such file"):
        read_report(tmp_path / "nothing.json")


def test_the_table_has_a_line_for_each_row():
    lines = report_text(report(row(n=120), row(4, n=3))).splitlines()
    assert lines[0] == "mien 1 on A processor, 4 cores; A GPU, driver 570"
    assert "torch 2.13.0, onnxruntime 1.30" in lines
    assert "swapper: yunet (f479eb06) on cpu" in lines
    assert "cold, swapper: load 500 ms, first frame 100 ms, together 600 ms" in lines
    assert [" ".join(line.split()) for line in lines if line.startswith("swapper ")] == [
        "swapper 720p 1 1 120 99.0 69.5 123 128 50.0 2 threads",
        "swapper 720p 4 4 3 99.0 11.0 - - 50.0 2 threads",
        "swapper 720p 1 52.1 17.4 69.5",
        "swapper 720p 4 8.25 2.75 11.0",
    ]
    assert lines[-1] == "A note."


def test_a_path_without_stages_has_no_line_of_them():
    assert "where it goes" not in report_text(report(row(stages={}, workers=None)))


def test_two_reports_are_compared_row_by_row():
    old = report(row(), row(4), row(8), torch="2.12.0")
    new = report(row(factor=0.5), row(4, factor=2, n=7), row(1, path="replay", stages={}))
    found = compare(new, old)
    assert [(each.faces, each.n, each.whole, each.per_second) for each in found.rows] == [
        (1, 30, 0.5, 2.0),
        (4, 7, 2.0, 0.5),
    ]
    assert found.rows[0].stages == {"swap": 0.5, "other": 0.5}
    assert found.only == (
        "replay, 720p, faces 1: only in the new report",
        "swapper, 720p, faces 8: only in the old report",
    )
    assert found.changed == ("torch: 2.12.0 before, 2.13.0 now",)
    lines = comparison_text(found).splitlines()
    assert " ".join(lines[2].split()) == "swapper 720p 1 30 0.50 0.50 0.50 2.00"
    assert "  torch: 2.12.0 before, 2.13.0 now" in lines
    json.dumps(found.as_dict())


def test_other_networks_are_told():
    one = report(row())
    other = replace(one, networks={"swapper": {"yunet": ("0" * 64, "cuda")}})
    assert compare(other, one).changed == (
        "yunet (swapper): f479eb06f479 on cpu before, 000000000000 on cuda now",
    )
    assert compare(one, one).changed == ()


def test_nothing_in_common_is_no_error():
    assert compare(report(row()), report(row(4))).rows == ()
    assert "not compared" in comparison_text(compare(report(row()), report(row(4))))
