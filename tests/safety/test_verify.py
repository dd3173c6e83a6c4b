"""Verifying: attacks on files that were really signed, and files that are broken in every way."""

from __future__ import annotations

import json
import random
import time
from datetime import timedelta

import pytest
from PIL import Image
from signing import NETWORKS, RECORD, authority, clip, picture, signed

from mien.cli.exits import Exit
from mien.errors import Unverifiable
from mien.media.atomic import whole_file
from mien.safety import statement
from mien.safety.certificate import certificate_of
from mien.safety.manifest import Provenance, side_file
from mien.safety.verify import Finding, own_certificates, verify


@pytest.fixture
def own():
    Provenance().prepare()
    return own_certificates(None, None)


def flipped(path, at, bit=1):
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def in_words(verified):
    return " ".join((*verified.proven, *verified.probable, *verified.unknown))


# What is whole


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".tif", ".avif", ".gif", ".webp"])
def test_an_own_picture_is_proven(tmp_path, own, suffix):
    found = verify(signed(tmp_path / f"out{suffix}"), own=own)
    assert found.verdict == "proven"
    assert found.manifest.standing == "own"
    assert found.manifest.place == ("beside" if suffix == ".bmp" else "embedded")
    assert found.manifest.consents == found.marks.consents == (RECORD,)
    assert found.manifest.networks == tuple(NETWORKS.items())
    assert found.manifest.produced == found.marks.produced == "0" * 32
    assert found.manifest.synthetic
    assert found.manifest.intact
    assert found.manifest.time is None
    assert "no authority states it" in in_words(found)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_an_own_clip_is_proven(tmp_path, own, suffix):
    found = verify(clip_of(tmp_path / f"out{suffix}"), own=own)
    assert (found.verdict, found.manifest.standing) == ("proven", "own")


def clip_of(path):
    plain = clip(path.with_name(f"plain{path.suffix}"))
    with whole_file(path, Provenance(NETWORKS).seal(plain, consents=[RECORD])) as file:
        file.write(plain.read_bytes())
    return path


def test_a_certificate_is_trusted_only_by_who_knows_its_authority(tmp_path, own):
    certificate, key, root = authority(tmp_path, "Example")
    other = authority(tmp_path, "Other")[2].read_bytes()
    out = signed(tmp_path / "out.jpg", provenance=Provenance(NETWORKS, certificate, key))
    found = verify(out, own=own, trust=other + root.read_bytes())
    assert (found.verdict, found.manifest.standing) == ("proven", "trusted")
    assert "Example signer" in found.manifest.signer
    mine = [certificate_of(certificate, key)]
    # without the root in the file that signs, the certificate itself is what is known
    assert verify(out, own=mine, trust=root.read_bytes()).verdict == "proven"
    for trust in (None, other):
        found = verify(out, own=own, trust=trust)
        assert (found.verdict, found.manifest.standing) == ("unproven", "unknown")
        assert "anybody can make one" in in_words(found)
        assert not any("Example" in each for each in found.proven)


def test_an_own_chain_is_own(tmp_path):
    certificate, key, root = authority(tmp_path, "Example")
    whole = tmp_path / "whole.pem"
    whole.write_bytes(certificate.read_bytes() + root.read_bytes())
    out = signed(tmp_path / "out.jpg", provenance=Provenance(NETWORKS, whole, key))
    assert verify(out, own=own_certificates(whole, key)).manifest.standing == "own"


def test_a_certificate_that_expired_proves_nothing_and_is_no_tampering(tmp_path):
    certificate, key, root = authority(tmp_path, "Short", lasts=timedelta(seconds=2))
    out = signed(tmp_path / "out.jpg", provenance=Provenance(NETWORKS, certificate, key))
    time.sleep(3.1)
    found = verify(out, trust=root.read_bytes())
    assert (found.verdict, found.manifest.problems) == ("unproven", ())
    assert "in doubt" in in_words(found)


# Attacks


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp", ".tif"])
def test_a_pixel_that_was_edited_shows(tmp_path, own, suffix):
    out = signed(tmp_path / f"out{suffix}")
    content = out.read_bytes()
    # before what ends the file; a manifest is at the end of a WebP or TIFF
    at = {".jpg": -20, ".png": content.rindex(b"IDAT") + 30 if suffix == ".png" else 0}
    flipped(out, at.get(suffix, 300 if suffix == ".bmp" else 100))
    found = verify(out, own=own)
    assert found.verdict == "tampered"
    assert "edited since" in found.manifest.problems[0] or not found.manifest.readable
    assert not found.proven


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_a_frame_that_was_edited_shows(tmp_path, own, suffix):
    out = clip_of(tmp_path / f"out{suffix}")
    content = out.read_bytes()
    flipped(out, content.rindex(b"mdat") + 60 if suffix == ".mp4" else len(content) // 2)
    assert verify(out, own=own).verdict == "tampered"


def test_what_a_manifest_tells_cannot_be_edited(tmp_path, own):
    out = signed(tmp_path / "out.jpg")
    content = out.read_bytes()
    jumbf = content.index(b"jumb")
    record = content.index(RECORD.encode(), jumbf)
    for at in (record + 4, content.index(b"mien-256", jumbf) + 6):
        flipped(out, at)
        found = verify(out, own=own)
        assert (found.verdict, found.proven) == ("tampered", ())
        assert "what the manifest tells was edited" in found.manifest.problems[0]
        flipped(out, at)
    flipped(out, content.index(b"claim_generator_info") + 24)
    found = verify(out, own=own)
    assert found.verdict == "tampered"


def test_a_manifest_of_another_file_shows_and_is_told_from_an_edit(tmp_path, own):
    first = signed(tmp_path / "first.jpg", produced="1" * 32)
    second = signed(tmp_path / "second.jpg", produced="2" * 32, seed=5)
    one, other = first.read_bytes(), second.read_bytes()
    # both begin with JFIF, then the manifest's segments
    swapped = other.replace(manifest_in(other), manifest_in(one))
    assert swapped != other
    (tmp_path / "swapped.jpg").write_bytes(swapped)
    found = verify(tmp_path / "swapped.jpg", own=own)
    assert found.verdict == "tampered"
    assert "copied here from another file" in in_words(found)
    flipped(second, -20)
    assert "belong together" in in_words(verify(second, own=own))


def manifest_in(content):
    """Return the APP11 segments of a JPEG."""
    start = at = content.index(b"\xff\xeb")
    while content[at : at + 2] == b"\xff\xeb":
        at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return content[start:at]


def test_a_side_file_of_another_file_shows(tmp_path, own):
    first, second = signed(tmp_path / "first.bmp"), signed(tmp_path / "second.bmp", seed=4)
    side_file(second).write_bytes(side_file(first).read_bytes())
    assert verify(second, own=own).verdict == "tampered"
    side_file(second).write_bytes(side_file(first).read_bytes()[:500])
    found = verify(second, own=own)
    assert (found.verdict, found.manifest.readable) == ("tampered", False)
    side_file(second).unlink()
    assert (verify(second, own=own).verdict, verify(second).marks.model) == ("unproven", "mien-256")


def test_stripped_metadata_leave_nothing_and_a_manifest_alone_leaves_marks(tmp_path, own):
    out = signed(tmp_path / "out.jpg")
    content = out.read_bytes()
    (tmp_path / "marks.jpg").write_bytes(content.replace(manifest_in(content), b""))
    found = verify(tmp_path / "marks.jpg", own=own)
    assert (found.verdict, found.manifest) == ("unproven", None)
    assert "its marks say" in found.probable[0]
    with Image.open(out) as image:
        image.save(tmp_path / "bare.jpg")
    found = verify(tmp_path / "bare.jpg", own=own)
    assert (found.verdict, found.manifest, found.marks) == ("nothing", None, None)
    assert "stripped" in in_words(found)


def test_a_forgers_certificate_with_our_names_is_not_ours(tmp_path, own, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("MIEN_HOME", str(tmp_path / "elsewhere"))
        out = signed(tmp_path / "out.jpg")
        assert verify(out, own=own_certificates(None, None)).verdict == "proven"
    found = verify(out, own=own)
    assert (found.verdict, found.manifest.standing) == ("unproven", "unknown")
    assert found.manifest.signer == verify(signed(tmp_path / "b.jpg"), own=own).manifest.signer


def test_marks_of_clips_are_read(tmp_path):
    path = tmp_path / "clip.bin"
    said = statement(consents=["c-1", "c-2"], model="mien-lite", version="0.1.0")
    path.write_bytes(b"\0" * 100 + said.encode() + b"\0 more")
    found = verify(path)
    assert found.verdict == "unproven"
    assert (found.marks.consents, found.marks.model) == (("c-1", "c-2"), "mien-lite")


def test_other_ways_to_look_are_asked_and_count(tmp_path):
    path = picture(tmp_path / "out.jpg")
    seen = []

    def look(path, manifest):
        seen.append((path, manifest))
        return Finding("mark", proven=True, text="a watermark says so")

    found = verify(path, lookers=[look, lambda path, manifest: None])
    assert seen == [(path, None)]
    assert (found.verdict, found.proven) == ("proven", ("a watermark says so",))
    flipped(signed(path), -20)  # what a watermark says does not make an edit good
    assert verify(path, lookers=[look]).verdict == "tampered"


# Broken files


@pytest.mark.parametrize("suffix", [".jpg", ".mp4", ".bmp"])
def test_no_broken_file_is_more_than_a_verdict(tmp_path, own, suffix):
    whole = clip_of(tmp_path / "whole.mp4") if suffix == ".mp4" else signed(tmp_path / f"a{suffix}")
    content = whole.read_bytes()
    manifest = side_file(whole).read_bytes() if suffix == ".bmp" else b""
    chance = random.Random(7)
    path = tmp_path / f"broken{suffix}"
    start = content.find(b"jumb") if not manifest else 0
    for turn in range(120):
        broken, beside = bytearray(content), bytearray(manifest)
        kind = turn % 3
        part = beside if manifest and turn % 2 else broken
        if kind == 0:
            del part[chance.randrange(len(part)) :]
        else:
            for _ in range(kind):  # most of them where the manifest is
                low = start if chance.random() < 0.7 else 0
                high = min(start + 4000, len(part)) if low else len(part)
                part[chance.randrange(low, high)] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        if manifest:
            side_file(path).write_bytes(beside)
        found = verify(path, own=own)
        assert found.verdict in ("proven", "unproven", "tampered", "nothing")
        if found.verdict == "proven":  # only what is of no meaning was changed
            assert found.manifest.consents == (RECORD,)
            assert found.manifest.intact


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP", b"jumb c2pa"]
)
def test_what_is_no_picture_tells_nothing(tmp_path, content):
    path = tmp_path / "file.jpg"
    path.write_bytes(content)
    assert verify(path).verdict == "nothing"


def test_what_cannot_be_opened_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(Unverifiable):
            verify(path)


# The command


def test_each_verdict_has_an_exit_code_and_a_headline(tmp_path, mien_, own):
    out = signed(tmp_path / "out.jpg")
    code, said, _ = mien_("verify", out)
    assert (code, said.splitlines()[0]) == (Exit.SUCCESS, f"{out}: its origin is proven")
    marked = picture(tmp_path / "marked.jpg")
    assert mien_("verify", marked)[0] == Exit.UNPROVEN
    flipped(out, -20)
    code, said, _ = mien_("verify", out)
    assert code == Exit.TAMPERED
    assert "wrong     the file is not the one that was signed" in said
    (tmp_path / "text").write_text("nothing")
    assert mien_("verify", tmp_path / "text")[0] == Exit.NOTHING
    assert mien_("verify", tmp_path / "missing")[0] == Exit.FAILED
    code, said, _ = mien_("verify", out, "--json")
    report = json.loads(said)
    assert (code, report["verdict"], report["manifest"]["intact"]) == (7, "tampered", False)


def test_authorities_can_be_named(tmp_path, mien_):
    certificate, key, root = authority(tmp_path, "Example")
    out = signed(tmp_path / "out.jpg", provenance=Provenance(NETWORKS, certificate, key))
    assert mien_("verify", out)[0] == Exit.UNPROVEN
    assert mien_("verify", out, "--trust", root)[0] == Exit.SUCCESS
    assert mien_("verify", out, "--trust", key)[0] == Exit.USAGE
    assert mien_("verify", out, "--trust", tmp_path / "missing")[0] == Exit.USAGE


def test_names_in_a_file_of_others_do_not_reach_the_terminal_raw(tmp_path, mien_):
    certificate, key, _ = authority(tmp_path, "Evil\x1b[2J")
    out = signed(tmp_path / "out.jpg", provenance=Provenance(NETWORKS, certificate, key))
    code, said, _ = mien_("verify", out)
    assert (code, "\x1b" in said) == (Exit.UNPROVEN, False)


def test_to_verify_makes_no_key(tmp_path, mien_, monkeypatch):
    out = signed(tmp_path / "out.jpg")
    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "new"))
    assert mien_("verify", out)[0] == Exit.UNPROVEN
    assert not (tmp_path / "new").exists()
