"""What the facts mean."""

from __future__ import annotations

from dataclasses import replace

import pytest
from facts import H200, NO_CAMERA, NO_CUDA, machine, network

from mien.doctor.cameras import Camera, Cameras
from mien.doctor.findings import Finding, judge, passed_over
from mien.doctor.networks import PassedOver
from mien.doctor.speed import NetworkSpeed, Speed

WELL = Speed((NetworkSpeed("yunet", "cpu", 5.0),), 140.0, 7.1)


YUNET = network()


def found(*, on=None, networks=(YUNET,), cameras=NO_CAMERA, speed=None):
    return judge(on or machine(), networks, cameras, speed)


def only(severity, findings):
    """Return the one finding that is not ok; it is of this severity and has a remedy."""
    grave = [finding for finding in findings if finding.severity != "ok"]
    assert [finding.severity for finding in grave] == [severity]
    assert grave[0].remedy
    return grave[0]


def test_where_all_is_well_it_is_said():
    assert found(speed=WELL) == (
        Finding("ok", "The weights of 1 networks are right; each opens."),
        Finding("ok", "The face in the test picture was found and swapped."),
    )


def test_a_faulty_network_is_an_error():
    bad = network("mien-256", None, fault="mien-256.onnx is damaged.", remedy="Put it there.")
    findings = found(networks=(network(), bad))
    assert findings == (Finding("error", "mien-256.onnx is damaged.", "Put it there."),)


@pytest.mark.parametrize(("free", "little"), [(10**9 - 1, True), (10**9, False)])
def test_little_disk_is_a_warning(free, little):
    findings = found(on=machine(disk=free))
    assert any(finding.severity == "warning" for finding in findings) == little
    if little:
        assert "working folder: 1000 MB" in only("warning", findings).what


def test_a_gpu_that_cuda_does_not_use_is_a_warning():
    networks = (network("yunet"), network("mien-256"))
    warning = only("warning", found(on=machine(gpus=(H200,)), networks=networks))
    assert "CUDA does not run yunet, mien-256. It was built without it." in warning.what
    assert warning.remedy == NO_CUDA.remedy
    used = (network(provider="cuda", passed_over=()),)
    findings = found(on=machine(gpus=(H200,)), networks=used)
    assert {finding.severity for finding in findings} == {"ok"}
    assert "Add --provider cuda to 'mien swap'." in [finding.remedy for finding in findings]


def test_two_builds_of_the_runtime_are_a_warning():
    warning = only("warning", found(on=machine(builds=("onnxruntime", "onnxruntime-gpu"))))
    assert "onnxruntime onnxruntime-gpu" in warning.what
    assert warning.remedy.startswith("pip uninstall -y onnxruntime onnxruntime-gpu")


def test_a_camera_that_may_not_be_opened_is_a_warning():
    cameras = Cameras((Camera("A", "/dev/video0"), Camera("B", "/dev/video1", "No.", "Join.")))
    warning = only("warning", found(cameras=cameras))
    assert (warning.what, warning.remedy) == ("B: No.", "Join.")


def test_a_network_that_fell_back_while_it_ran_is_a_warning():
    fell = replace(WELL, networks=(NetworkSpeed("yunet", "cpu", 50.0),))
    networks = (network(provider="cuda", passed_over=()),)
    warning = only("warning", found(networks=networks, speed=fell))
    assert warning.what == "'yunet' was opened on cuda and then ran on cpu."


def test_a_network_or_picture_that_fails_is_an_error():
    broken = replace(WELL, networks=(NetworkSpeed("yunet", "cpu", None, "out of memory"),))
    assert only("error", found(speed=broken)).what == "out of memory"
    blank = Speed(WELL.networks, fault="The face was blank.")
    assert only("error", found(speed=blank)).what == "The face was blank."


def test_the_gravest_comes_first():
    bad = network("mien-256", None, fault="damaged", remedy="Put it there.")
    findings = found(on=machine(disk=0), networks=(YUNET, bad), speed=WELL)
    assert [finding.severity for finding in findings] == ["error", "warning", "ok"]


def test_reasons_that_are_the_same_are_given_once():
    other = PassedOver("cuda", "An operator is missing.", None)
    networks = (network("a"), network("b"), network("c", passed_over=(other,)))
    assert passed_over(networks) == {NO_CUDA: ["a", "b"], other: ["c"]}
