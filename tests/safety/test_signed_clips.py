"""Clips through a swapper: what is signed, what is beside it, and what is left of a failure."""

from __future__ import annotations

import json

import pytest
from filmed import along, film, head, metadata
from signing import NETWORKS, authority

from mien import ClipSettings, __version__
from mien.errors import CertificateUnusable, SigningFailed
from mien.media.atomic import whole_file
from mien.media.clip import Clip, copy_clip
from mien.safety import AIGC, aigc_label
from mien.safety.manifest import Provenance
from mien.safety.verify import own_certificates, verify

OWN = {"title": "A title", "artist": "Somebody", "comment": "A trip."}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_all_that_shows_swapped_faces_is_signed(tmp_path, swapper, dev, clips, painted):
    report = swapper.swap_video(
        *(clips["one"], dev),
        output=tmp_path / "out.mp4",
        compare=tmp_path / "both.mkv",
        preview=tmp_path / "p.bmp",
        end=0.2,
    )
    assert names(tmp_path) == [
        *("both.mkv", "both.mkv.c2pa", "out.mp4", "p.bmp", "p.bmp.c2pa", "p.bmp.xmp")
    ]
    own = own_certificates(None, None)
    for name in ("out.mp4", "both.mkv", "p.bmp"):
        found = verify(tmp_path / name, own=own)
        assert (found.verdict, found.manifest.consents) == ("proven", report.consents)
        assert "mien-256" in dict(found.manifest.networks)
    assert report.signed
    assert report.manifest is None
    written = report.report()["written"]
    assert (written["signed"], written["manifest_beside"]) == (True, None)
    assert written["bytes"] == (tmp_path / "out.mp4").stat().st_size


@pytest.mark.parametrize("suffix", ["mp4", "mov", "m4v", "mkv", "webm"])
def test_the_label_of_the_standard_is_in_the_metadata(
    tmp_path, swapper, dev, portraits, painted, suffix
):
    # GB 45438-2025: metadata with the name AIGC, and these fields as JSON
    source, out = tmp_path / "in.mkv", tmp_path / f"out.{suffix}"
    ben = head(portraits, "ben", along(150, 120, 0))
    plain = film(tmp_path / "a.mkv", [ben], frames=2, sound=False)
    copy_clip(source, Clip(plain), settings=ClipSettings(tags=OWN))
    swapper.swap_video(source, dev, output=out, compare=tmp_path / f"both.{suffix}")
    for path in (out, tmp_path / f"both.{suffix}"):
        said = metadata(path)
        label = json.loads(said["aigc"])
        assert list(label) == [
            *("Label", "ContentProducer", "ProduceID", "ReservedCode1"),
            *("ContentPropagator", "PropagateID", "ReservedCode2"),
        ]
        assert (label["Label"], label["ContentProducer"]) == ("1", f"mien {__version__}")
        found = verify(path, own=own_certificates(None, None))
        assert found.verdict == "proven"
        assert found.manifest.produced == found.marks.produced == label["ProduceID"]
        assert said["comment"].startswith("A trip.\nSynthetic: ")
        for key, value in OWN.items():  # what else it says is not lost
            assert said[key].startswith(value), key


def test_a_copy_keeps_the_label_that_it_has(tmp_path, swapper, dev, clips, painted):
    told = '{"Label": "1", "ContentProducer": "somebody", "ProduceID": "7"}'
    copy_clip(tmp_path / "in.mp4", Clip(clips["nobody"]), settings=ClipSettings(tags={AIGC: told}))
    assert metadata(tmp_path / "in.mp4")["aigc"] == told
    assert swapper.swap_video(tmp_path / "in.mp4", dev, output=tmp_path / "out.mov").copied
    assert metadata(tmp_path / "out.mov")["aigc"] == told
    swapper.swap_video(
        *(tmp_path / "in.mp4", dev),
        output=tmp_path / "out.mkv", settings=ClipSettings(codec="ffv1"),
    )  # fmt: skip
    assert metadata(tmp_path / "out.mkv")["aigc"] == told


def test_a_clip_that_is_swapped_again_has_the_newer_label_alone(
    tmp_path, swapper, dev, clips, painted
):
    told = {AIGC: aigc_label(version="0.1", produced="0" * 32)}
    copy_clip(tmp_path / "in.mp4", Clip(clips["one"]), settings=ClipSettings(tags=told))
    swapper.swap_video(tmp_path / "in.mp4", dev, output=tmp_path / "out.mp4", end=0.1)
    found = verify(tmp_path / "out.mp4")
    assert found.manifest.produced == found.marks.produced != "0" * 32
    assert b"0" * 32 not in (tmp_path / "out.mp4").read_bytes()


def test_a_stream_has_the_label_beside_it(tmp_path, swapper, dev, clips, painted):
    swapper.swap_video(clips["one"], dev, output=tmp_path / "out.ts", end=0.1)
    produced = verify(tmp_path / "out.ts").manifest.produced
    assert f'"ProduceID": "{produced}"' in (tmp_path / "out.ts.xmp").read_text()


def test_a_copy_is_not_signed_and_has_no_older_manifest(tmp_path, swapper, dev, clips, painted):
    out = tmp_path / "out.mkv"
    report = swapper.swap_video(clips["one"], dev, output=out, end=0.2)
    assert report.manifest == tmp_path / "out.mkv.c2pa"
    assert report.report()["written"]["manifest_beside"] == str(report.manifest)
    report = swapper.swap_video(clips["nobody"], dev, output=out)
    assert (report.signed, report.manifest) == (False, None)
    assert names(tmp_path) == ["out.mkv"]
    assert verify(out).verdict == "nothing"


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_the_manifest_of_the_clip_that_was_opened_is_kept(
    tmp_path, swapper, dev, clips, painted, suffix
):
    source = tmp_path / f"in{suffix}"
    with whole_file(source, Provenance().seal(None, consents=[])) as file:
        file.write(clips["one" if suffix == ".mp4" else "exact"].read_bytes())
    assert swapper.swap_video(source, dev, output=tmp_path / "out.mp4", end=0.2).signed
    found = verify(tmp_path / "out.mp4", own=own_certificates(None, None))
    assert (found.verdict, found.manifest.earlier) == ("proven", 1)


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
def test_what_cannot_be_signed_does_not_appear(
    tmp_path, swapper, dev, clips, painted, monkeypatch, name
):
    nobody_there = Provenance(NETWORKS, timestamp="http://127.0.0.1:9/")
    monkeypatch.setattr(swapper, "_provenance", nobody_there)
    with pytest.raises(SigningFailed):
        swapper.swap_video(clips["one"], dev, output=tmp_path / name, end=0.2)
    assert names(tmp_path) == []


def test_a_certificate_that_is_of_no_use_is_said_before_there_is_work(
    tmp_path, swapper, dev, clips, painted, monkeypatch
):
    certificate, _, _ = authority(tmp_path, "One")
    key = authority(tmp_path, "Other")[1]
    monkeypatch.setattr(swapper, "_provenance", Provenance(NETWORKS, certificate, key))
    seen = []
    with pytest.raises(CertificateUnusable):
        swapper.swap_video(clips["one"], dev, output=tmp_path / "out.mp4", progress=seen.append)
    assert seen == []
    assert not (tmp_path / "out.mp4").exists()
