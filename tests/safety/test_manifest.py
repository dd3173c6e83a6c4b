"""Manifests: every format is signed and read again, keys are kept, nothing is left half done."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import c2pa
import pytest
from cryptography import x509
from signing import NETWORKS, RECORD, authority, clip, picture, shown, signed, state

from mien.errors import (
    CertificateUnusable,
    InvalidOption,
    PictureUnwritable,
    SigningFailed,
)
from mien.media.atomic import whole_file
from mien.safety import DIGITAL_SOURCE_TYPE
from mien.safety.certificate import own_certificate, own_path
from mien.safety.manifest import (
    Provenance,
    Seal,
    SoftBinding,
    beside,
    kind_of,
    side_file,
    take_away,
)
from mien.version import __version__

PICTURES = (".jpg", ".png", ".webp", ".avif", ".tif", ".gif", ".bmp")
CLIPS = (".mp4", ".mov", ".m4v", ".mkv", ".avi", ".ts")
ALONE = (".bmp", ".mkv", ".avi", ".ts")
"""What holds no manifest."""


def told(path, manifest=None):
    """Return the manifests of a file, by C2PA's own reader, the active one first."""
    with c2pa.Reader(kind_of(path), io.BytesIO(path.read_bytes()), manifest) as reader:
        found = json.loads(reader.json())
    active = found["manifests"].pop(found["active_manifest"])
    return [active, *found["manifests"].values()]


def assertion(manifest, label):
    return next(each["data"] for each in manifest["assertions"] if each["label"] == label)


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("suffix", PICTURES)
def test_a_picture_is_valid_and_its_pixels_are_as_without(tmp_path, suffix, frames):
    if frames > 1 and suffix in (".jpg", ".tif", ".bmp"):
        pytest.skip("it holds one frame")
    plain = picture(tmp_path / f"plain{suffix}", frames=frames)
    path = signed(tmp_path / f"out{suffix}", target=plain, frames=frames)
    alone = suffix in ALONE
    assert (beside(path) is not None) == side_file(path).exists() == alone
    manifest = side_file(path).read_bytes() if alone else None
    assert state(path, own_certificate().anchors, manifest) == "Trusted"
    assert state(path, None, manifest) == "Valid"  # the certificate is nobody's
    assert shown(path) == shown(plain)


@pytest.mark.parametrize("suffix", CLIPS)
def test_a_clip_is_valid_and_its_frames_are_as_without(tmp_path, suffix):
    plain = clip(tmp_path / f"plain{suffix}")
    path = tmp_path / f"out{suffix}"
    seal = Provenance(NETWORKS).seal(plain, consents=[RECORD])
    with whole_file(path, seal) as file:
        file.write(plain.read_bytes())
    manifest = side_file(path).read_bytes() if suffix in ALONE else None
    assert state(path, own_certificate().anchors, manifest) == "Trusted"
    assert shown(path) == shown(plain)


def test_the_manifest_says_what_was_done_and_by_what(tmp_path):
    target = picture(tmp_path / "holiday-with-alice.jpg")
    binding = SoftBinding("com.example.mark", "0123")
    seal = Provenance(NETWORKS).seal(
        target, consents=[RECORD], produced="9" * 32, watermark=binding
    )
    (active,) = told(picture(tmp_path / "out.jpg", seal=seal))
    opened, edited, bound = assertion(active, "c2pa.actions.v2")["actions"]
    assert opened["action"] == "c2pa.opened"
    (ingredient,) = active["ingredients"]
    assert ingredient["relationship"] == "parentOf"
    assert edited["action"] == "c2pa.edited"
    assert edited["digitalSourceType"] == DIGITAL_SOURCE_TYPE
    assert bound == {"action": "c2pa.watermarked.bound"}
    assert active["claim_generator_info"][0]["name"] == "mien"
    assert active["claim_generator_info"][0]["version"] == __version__
    assert assertion(active, "mien.swap") == {
        "consents": [RECORD],
        "networks": [{"name": "mien-256", "sha256": "ab" * 32}],
        "produced": "9" * 32,
    }
    assert assertion(active, "c2pa.soft-binding")["alg"] == "com.example.mark"
    content = (tmp_path / "out.jpg").read_bytes()
    for word in (b"alice", b"thumbnail", str(tmp_path).encode()):
        assert word not in content


def test_there_is_no_soft_binding_without_a_watermark(tmp_path):
    (active,) = told(signed(tmp_path / "out.jpg"))
    assert {each["label"] for each in active["assertions"]} == {"c2pa.actions.v2", "mien.swap"}


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp"])
def test_the_targets_own_manifests_are_kept(tmp_path, suffix):
    first = signed(tmp_path / f"first{suffix}")
    second = signed(tmp_path / "second.png", target=first)
    third = signed(tmp_path / "third.webp", target=second)
    assert state(third, own_certificate().anchors) == "Trusted"
    assert len(told(second)) == 2
    assert len(told(third)) == 3


@pytest.mark.parametrize(
    "what", ["gone", "array", "text", "empty", "broken", "broken beside", "half"]
)
def test_a_target_of_which_nothing_can_be_kept_is_no_obstacle(tmp_path, what, caplog):
    target = tmp_path / "target.jpg"
    if what == "text":
        target.write_text("no picture")
    elif what == "empty":
        target.write_bytes(b"")
    elif what == "half":
        target.write_bytes(picture(tmp_path / "whole.jpg").read_bytes()[:300])
    elif what == "broken":
        content = bytearray(signed(target).read_bytes())
        at = content.index(b"jumd")  # its own length becomes too large
        content[at - 4] = 0x7F
        target.write_bytes(content)
    elif what == "broken beside":
        target = signed(tmp_path / "target.bmp")
        side_file(target).write_bytes(b"rubbish")
    out = signed(tmp_path / "out.jpg", target=None if what == "array" else target)
    assert state(out, own_certificate().anchors) == "Trusted"
    (active,) = told(out)
    assert active["ingredients"][0]["relationship"] == "parentOf"
    assert bool(caplog.records) == (what in ("gone", "broken", "broken beside"))


def test_a_target_whose_manifest_was_tampered_with_is_kept_as_that(tmp_path):
    content = bytearray(signed(tmp_path / "first.jpg").read_bytes())
    content[-50] ^= 1
    (tmp_path / "first.jpg").write_bytes(content)
    out = signed(tmp_path / "out.jpg", target=tmp_path / "first.jpg")
    active, _ = told(out)
    (ingredient,) = active["ingredients"]
    failures = ingredient["validation_results"]["activeManifest"]["failure"]
    assert "assertion.dataHash.mismatch" in {each["code"] for each in failures}


# The key


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("MIEN_HOME", str(tmp_path / "own"))
    return tmp_path / "own"


def test_the_certificate_is_made_once_and_for_its_owner_alone(own_home):
    with ThreadPoolExecutor(4) as pool:
        barrier = threading.Barrier(4)
        made = list(pool.map(lambda _: (barrier.wait(), own_certificate())[1], range(4)))
    assert len({each.serial for each in made}) == 1
    assert own_path().parent == own_home
    assert stat.S_IMODE(own_path().stat().st_mode) == 0o600
    leaf, above = x509.load_pem_x509_certificates(own_path().read_bytes())
    leaf.verify_directly_issued_by(above)
    assert own_path().read_bytes().count(b"PRIVATE KEY") == 2  # one key: the authority's is gone
    assert own_certificate().algorithm == "es256"
    for each in (leaf, above):  # nothing about the user or the machine
        assert {a.value for a in each.subject} <= {
            "mien (made on the user's own machine)", "mien signer", "mien authority"
        }  # fmt: skip


def test_a_certificate_of_the_users_signs(tmp_path):
    certificate, key, root = authority(tmp_path, "Example")
    provenance = Provenance(NETWORKS, certificate, key)
    out = signed(tmp_path / "out.jpg", provenance=provenance)
    assert state(out, root.read_bytes()) == "Trusted"
    assert state(out, own_certificate().anchors) == "Valid"


def test_what_is_wrong_with_a_certificate_is_said_before_there_is_work(tmp_path):
    certificate, key, _ = authority(tmp_path, "One")
    other = authority(tmp_path, "Other")[1]
    expired = authority(tmp_path, "Old", lasts=timedelta(hours=-1))
    itself = authority(tmp_path, "Self", leaf=False)
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    for pair, said in (
        ((certificate, other), "another certificate's"),
        ((text, key), "no certificate in it"),
        ((certificate, text), "no private key"),
        ((tmp_path / "missing", key), "No such file"),
        (expired[:2], "has expired"),
        (itself[:2], "self-signed"),
    ):
        with pytest.raises(CertificateUnusable, match=said):
            Provenance(NETWORKS, *pair).prepare()
    with pytest.raises(InvalidOption, match="private_key"):
        Provenance(NETWORKS, certificate).prepare()
    with pytest.raises(InvalidOption, match="certificate"):
        Provenance(NETWORKS, None, key).prepare()


@pytest.mark.parametrize("content", [b"", b"rubbish", None])
def test_a_damaged_certificate_of_mien_is_not_replaced_in_silence(own_home, content):
    own_certificate()
    whole = own_path().read_bytes()
    own_path().write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(CertificateUnusable):
        own_certificate()


# All or nothing


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("suffix", [".jpg", ".bmp"])
def test_a_full_disk_while_signing_leaves_nothing(tmp_path, suffix, monkeypatch):
    count = 0
    sync = os.fsync

    def full(number):
        nonlocal count
        count += 1
        if count == 3 - (suffix == ".jpg"):  # the file, the XMP of a BMP, then what is signed
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(number)

    Provenance().prepare()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PictureUnwritable, match="No space left"):
        signed(tmp_path / f"out{suffix}")
    assert leftovers(tmp_path) == []


def test_a_disk_that_is_full_amid_the_signing_is_said_to_be(tmp_path, monkeypatch):
    def full(self, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    Provenance().prepare()
    monkeypatch.setattr("io.FileIO", type("Full", (io.FileIO,), {"write": full}))
    (tmp_path / "out.jpg").write_bytes(b"old")
    with pytest.raises(PictureUnwritable, match="No space left"):
        signed(tmp_path / "out.jpg")
    assert leftovers(tmp_path) == ["out.jpg"]
    assert (tmp_path / "out.jpg").read_bytes() == b"old"


@pytest.mark.parametrize("suffix", [".jpg", ".bmp"])
def test_an_interrupt_while_signing_is_not_lost_and_leaves_nothing(tmp_path, suffix, monkeypatch):
    sign = Seal._sign

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)  # reaches the main thread, which waits
        return sign(*arguments)

    monkeypatch.setattr(Seal, "_sign", interrupted)
    with pytest.raises(KeyboardInterrupt):
        signed(tmp_path / f"out{suffix}")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("suffix", [".jpg", ".bmp"])
def test_an_authority_for_time_that_is_not_there_is_an_error(tmp_path, suffix):
    provenance = Provenance(NETWORKS, timestamp="http://127.0.0.1:9/")
    with pytest.raises(SigningFailed, match="could not be signed"):
        signed(tmp_path / f"out{suffix}", provenance=provenance)
    assert leftovers(tmp_path) == []


def test_a_file_of_others_beside_is_not_written_over(tmp_path):
    side_file(tmp_path / "out.bmp").write_bytes(b"somebody's")
    with pytest.raises(SigningFailed, match="not from mien"):
        signed(tmp_path / "out.bmp")
    take_away(tmp_path / "out.bmp")
    assert leftovers(tmp_path) == ["out.bmp.c2pa"]
    side_file(tmp_path / "out.bmp").unlink()
    signed(signed(tmp_path / "out.bmp"))  # one of ours is
    take_away(tmp_path / "out.bmp")
    assert leftovers(tmp_path) == ["out.bmp", "out.bmp.xmp"]


def test_a_name_that_cannot_be_given_takes_the_manifest_along(tmp_path):
    folder = tmp_path / "out.bin"
    folder.mkdir()
    with pytest.raises(OSError), whole_file(folder, Provenance().seal(None, consents=[])) as file:  # noqa: PT011
        file.write(b"content")
    assert leftovers(tmp_path) == ["out.bin"]


def test_many_threads_sign_at_once(tmp_path):
    provenance = Provenance(NETWORKS)
    with ThreadPoolExecutor(8) as pool:
        paths = list(
            pool.map(
                lambda n: signed(tmp_path / f"{n}.jpg", provenance=provenance, seed=n), range(16)
            )
        )
    assert {state(path) for path in paths} == {"Valid"}


# Through a swapper


def test_a_swapper_signs_what_it_saves(tmp_path, swapper, portraits, loaded):
    identity = swapper.identity(portraits["dev"], consent="Generated: no real person is shown.")
    result = swapper.swap(portraits["ben"], identity)
    result.save(tmp_path / "out.jpg")
    result.save_compare(tmp_path / "both.png")
    result.save_debug_view(tmp_path / "drawn.png")  # nothing in it is synthetic
    for name in ("out.jpg", "both.png"):
        assert state(tmp_path / name, own_certificate().anchors) == "Trusted"
        active = told(tmp_path / name)[0]
        facts = assertion(active, "mien.swap")
        assert facts["consents"] == list(result.consents)
        assert {each["name"] for each in facts["networks"]} >= {"mien-256", "yunet", "sface"}
    with pytest.raises(c2pa.C2paError, match="ManifestNotFound"):
        state(tmp_path / "drawn.png")
