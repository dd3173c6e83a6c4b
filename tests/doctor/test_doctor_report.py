"""The report: one content in two forms, and nobody's name in either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from facts import H200, NO_CUDA, machine, network

from mien.doctor import Report
from mien.doctor.cameras import Camera, Cameras
from mien.doctor.codecs import Codec, Codecs, HardwareEncoders
from mien.doctor.findings import Finding
from mien.doctor.networks import PassedOver
from mien.doctor.privacy import without_names
from mien.doctor.speed import NetworkSpeed, Speed

FULL = Report(
    mien="9.8.7",
    machine=machine(gpus=(H200,)),
    cameras=Cameras((Camera("Webcam", "/dev/video3", "It is locked.", "Unlock it."),)),
    findings=(Finding("error", "A is wrong.", "Do B."), Finding("ok", "C is well.")),
    providers=("XExecutionProvider", "YExecutionProvider"),
    networks=(
        network("yunet", "cuda", (PassedOver("tensorrt", "It is slow.", "Try it."),)),
        network("mien-256", None, (NO_CUDA,), fault="damaged", remedy="replace"),
    ),
    codecs=Codecs(
        (Codec("JPEG", True, True), Codec("HEIC", False, False, "pip heic")),
        "8.1",
        encoders=(
            HardwareEncoders("nvenc", ("h264", "hevc"), "av1: too old"),
            HardwareEncoders("qsv", (), "no device"),
            HardwareEncoders("amf", ("h264",)),
        ),
    ),
    speed=Speed((NetworkSpeed("yunet", "cuda", 4.5), NetworkSpeed("s", "cpu", None)), 143.2, 7.0),
)
IN_OTHER_WORDS = {143_771 << 20: "150.8 GB", 34 * 10**9: "34.0 GB", 50 * 10**9: "50.0 GB"}
IN_FINDINGS = {"damaged", "replace"}
"""A fault of a network; the text has it as a finding."""


def leaves(tree):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from [key] if key in ("torch", "av", "onnxruntime", "working folder") else []
            yield from leaves(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves(value)
    elif tree is not None and not isinstance(tree, bool):
        yield tree


def test_every_fact_of_the_data_is_in_the_text():
    facts = json.loads(json.dumps(FULL.as_dict()))
    text = FULL.text()
    found = set(leaves(facts)) - IN_FINDINGS
    assert len(found) > 40
    assert [fact for fact in found if str(IN_OTHER_WORDS.get(fact, fact)) not in text] == []
    for line in (
        "  av           not installed",
        "  yunet     detector, weights right, runs on cuda",
        "  mien-256  detector, weights right, cannot be run",
        "  cuda      mien-256: It was built without it.",
        "  s             not timed on cpu",
        "  JPEG   read, write",
        "  HEIC   cannot be read",
        "         pip heic",
        "  nvenc  encodes h264, hevc (av1: too old)",
        "  qsv    does not encode (no device)",
        "  amf    encodes h264",
        "  error  A is wrong.",
        "         Do B.",
    ):
        assert line in text.splitlines()


def test_the_text_is_a_block_that_a_tracker_shows_as_it_is():
    lines = FULL.text().splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("```text", "mien 9.8.7", "```")
    assert [line for line in lines if line.endswith(" ")] == []
    titles = [line for line in lines[2:-1] if line and not line.startswith("  ")]
    assert titles == [
        *("machine", "packages", "networks", "why nothing faster"),
        *("speed (median of a run)", "files", "cameras", "findings"),
    ]


def test_a_report_may_lack_what_could_not_be_found_out():
    nameless = Cameras((Camera("", "/dev/video0"),), "No camera.")
    little = Report("1", machine(processor=""), nameless, (Finding("error", "Broken.", "?"),))
    text = little.text()
    assert "  processor  unknown" in text.splitlines()
    assert "  /dev/video0  unknown" in text.splitlines()
    assert ("networks" in text, "speed" in text, "No camera." in text) == (False, False, True)
    assert little.as_dict()["codecs"] is None
    assert little.failed


@pytest.mark.parametrize(("severity", "failed"), [("ok", False), ("warning", False)])
def test_only_errors_fail(severity, failed):
    report = Report("1", machine(), Cameras(()), (Finding(severity, "Something.", "?"),))
    assert report.failed == failed


# Nobody's name


@pytest.fixture
def alice(monkeypatch):
    """Let the user be alice, with a home folder of hers."""
    monkeypatch.setattr(Path, "home", lambda: Path("/home/alice"))
    monkeypatch.setattr("getpass.getuser", lambda: "alice")


def test_no_name_gets_into_either_form(alice):
    report = Report(
        "1",
        machine(processor="CPU"),
        Cameras((Camera("/home/alice/loop"),)),
        (
            Finding("error", "No file at /home/alice/models/a.onnx.", "See /media/alice/b."),
            Finding("error", "CUDA failure 100 ; GPU=0 ; hostname=alices-box ; file=/x.cc"),
        ),
    )
    for shown in (report.text(), json.dumps(report.as_dict())):
        assert "alice" not in shown
        assert "~/models/a.onnx" in shown
        assert "GPU=0" in shown


def test_what_only_resembles_a_name_stays(alice):
    for text in ("/home/alice2/x", "/home/alice-b", "malice", "alice", "/srv/alice.txt"):
        assert without_names(text) == text
    assert without_names("'/home/alice': no") == "'~': no"
    assert without_names(r"C:\Users\alice\x") == "C:\\Users\\…\\x"
    assert without_names(["/home/alice", {"a": ("/home/alice", 3, None)}]) == [
        "~",
        {"a": ["~", 3, None]},
    ]


def test_a_user_without_name_or_home_is_no_fault(monkeypatch):
    def nobody():
        raise KeyError("uid 1234")

    def nowhere():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.setattr("getpass.getuser", nobody)
    assert without_names("/home/alice") == "/home/alice"
    monkeypatch.setattr(Path, "home", lambda: Path("/"))
    assert without_names("/usr/lib") == "/usr/lib"
