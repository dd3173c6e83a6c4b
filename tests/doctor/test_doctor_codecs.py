"""What can be read and written."""

from __future__ import annotations

import sys
from types import ModuleType

from PIL import features

from mien.doctor.codecs import HardwareEncoders, look_at_codecs
from mien.media import FORMATS
from mien.media.clip import offload, trying


def test_pillow_s_kinds_are_read_and_mien_s_written(monkeypatch):
    monkeypatch.setattr(features, "check", lambda feature: feature != "webp")
    found = {codec.name: codec for codec in look_at_codecs().pictures}
    assert list(found) == ["JPEG", "PNG", "WebP", "AVIF", "TIFF", "BMP", "GIF", "HEIC"]
    assert (found["JPEG"].read, found["JPEG"].write, found["JPEG"].remedy) == (True, True, None)
    assert (found["WebP"].read, found["WebP"].write) == (False, False)
    assert found["WebP"].remedy == "pip install --upgrade pillow"
    assert found["BMP"].read
    assert found["BMP"].write == (".bmp" in FORMATS)


def test_heic_needs_its_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "pi_heif", ModuleType("pi_heif"))
    heic = look_at_codecs().pictures[-1]
    assert (heic.name, heic.read, heic.write, heic.remedy) == ("HEIC", True, False, None)
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    heic = look_at_codecs().pictures[-1]
    assert (heic.read, heic.remedy) == (False, 'pip install "mien[heic]"')


def test_video_needs_pyav(monkeypatch):
    av = ModuleType("av")
    av.ffmpeg_version_info = "8.1.2"
    monkeypatch.setitem(sys.modules, "av", av)
    assert (look_at_codecs().ffmpeg, look_at_codecs().remedy) == ("8.1.2", None)
    monkeypatch.setitem(sys.modules, "av", None)
    assert (look_at_codecs().ffmpeg, look_at_codecs().remedy) == (None, "pip install av")


def test_hardware_encoders_are_tried():
    """None is here, most probably: what is told is what the driver says, or that it works."""
    found = {each.family: each for each in look_at_codecs().encoders}
    for family in offload.families.ORDER:
        names = [hard.name for hard in offload.families.FAMILIES[family]]
        assert (family in found) == any(map(trying.in_build, names))
    assert all(each.codecs or each.why for each in found.values())


def test_what_a_family_encodes_is_told(monkeypatch):
    wrong = {"nvenc": {"av1": "Codec not supported"}, "qsv": {"h264": "no device"}, "amf": {}}

    def trials(family):
        for codec in ("h264", "hevc", "av1") if family in wrong else ():
            yield codec, wrong[family].get(codec, "")

    monkeypatch.setattr(offload, "trials", trials)
    assert look_at_codecs().encoders == (
        HardwareEncoders("nvenc", ("h264", "hevc"), "av1: Codec not supported"),
        HardwareEncoders("qsv", (), "no device"),
        HardwareEncoders("amf", ("h264", "hevc", "av1")),
    )
