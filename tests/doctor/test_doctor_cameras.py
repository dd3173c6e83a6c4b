"""Cameras, as a made-up /sys and system_profiler list them."""

from __future__ import annotations

import json
import sys

import pytest

from mien.doctor import cameras
from mien.doctor.cameras import Camera, Cameras, linux_cameras, macos_cameras


@pytest.fixture
def root(tmp_path):
    """Two cameras, one of them without its device, and a tuner's sub-device."""
    for number, name in {"video10": "Dock", "video2": "Built-in\n", "v4l-subdev0": "no"}.items():
        folder = tmp_path / "sys/class/video4linux" / number
        folder.mkdir(parents=True)
        (folder / "name").write_text(name)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/video2").touch()
    return tmp_path


def test_linux_lists_by_number_and_says_what_is_absent(root):
    first, second = linux_cameras(root)
    assert first == Camera("Built-in", "/dev/video2")
    assert (second.name, second.device) == ("Dock", "/dev/video10")
    assert second.fault == "There is no /dev/video10."
    assert "--device /dev/video10" in second.remedy


@pytest.mark.skipif(sys.platform == "win32", reason="files have no group there")
def test_linux_names_the_group_to_join(root, monkeypatch):
    group = (root / "dev/video2").group()
    asked = []
    monkeypatch.setattr(cameras.os, "access", lambda *given: asked.append(given) and False)
    camera = linux_cameras(root)[0]
    assert camera.fault == "This user may not open /dev/video2."
    assert camera.remedy == f"sudo usermod -aG {group} $USER, then log out and in."
    assert asked == [(root / "dev/video2", cameras.os.R_OK | cameras.os.W_OK)]


def test_a_camera_whose_name_cannot_be_read_has_none(root):
    (root / "sys/class/video4linux/video2/name").unlink()
    assert linux_cameras(root)[0].name == "unnamed"


def test_a_machine_without_cameras_says_so(tmp_path, monkeypatch):
    assert linux_cameras(tmp_path) == ()
    monkeypatch.setattr(cameras.sys, "platform", "linux")
    monkeypatch.setattr(cameras, "linux_cameras", lambda: ())
    assert cameras.look_at_cameras() == Cameras((), "No camera is seen.")
    monkeypatch.setattr(cameras.sys, "platform", "win32")
    assert cameras.look_at_cameras() == Cameras((), "Cameras cannot be listed on this system.")


def test_macos_lists_names_but_not_those_of_phones():
    listed = {
        "SPCameraDataType": [
            {"_name": "FaceTime HD Camera", "spcamera_unique-id": "0x14100000", "x": 1},
            {"_name": "Alice's phone", "spcamera_model-id": "iPhone15,2"},
        ]
    }
    assert macos_cameras(json.dumps(listed)) == (
        Camera("FaceTime HD Camera"),
        Camera("iPhone15,2"),
    )


@pytest.mark.parametrize("listed", ["", "{", "[]", "{}", '{"SPCameraDataType": [{}, 3]}', "null"])
def test_macos_may_answer_nonsense(listed):
    assert macos_cameras(listed) == ()
