"""Clips through a swapper: what is signed, what is beside it, and what is left of a failure."""

from __future__ import annotations

import pytest
from signing import NETWORKS, authority

from mien.errors import CertificateUnusable, SigningFailed
from mien.media.atomic import whole_file
from mien.safety.manifest import Provenance
from mien.safety.verify import own_certificates, verify


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
