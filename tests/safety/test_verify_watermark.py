"""The watermark in what is verified: what a stripped, cut, swapped or forged file still tells."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from mien.cli.exits import Exit
from mien.safety import Ledger
from mien.safety.verify import own_certificates, verify
from mien.safety.watermark import Marker, identifier, marked
from mien.watermarked import WatermarkLooker, watermark_in


@pytest.fixture(scope="module")
def written(swapper, portraits, tmp_path_factory):
    """A picture that mien wrote, and the id of its watermark."""
    path = tmp_path_factory.mktemp("written") / "out.png"
    ben = swapper.identity(
        portraits["ben"], consent="Generated portraits: no real person is shown."
    )
    swapper.swap(portraits["mei"], ben).save(path)
    produced = verify(path).manifest.produced
    return path, f"{identifier(produced):012x}"


@pytest.fixture(scope="module")
def look(swapper):
    return WatermarkLooker(swapper.ledger.audit)


def stripped(path, to, change=lambda image: image):
    with Image.open(path) as image:
        change(image.convert("RGB")).save(to)
    return to


def test_a_whole_file_has_the_watermark_of_its_manifest(written, look):
    path, number = written
    found = verify(path, own=own_certificates(None, None), lookers=[look])
    assert found.verdict == "proven"
    (finding,) = found.findings
    assert finding.details["identifier"] == number
    assert not finding.proven
    assert "that of its manifest" in finding.text
    manifest = path.read_bytes()
    assert b"c2pa.soft-binding" in manifest
    assert number.encode() in manifest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda image: image, ""),
        (lambda image: image.crop((80, 60, 600, 580)).rotate(3), "turned by"),
        (lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), "mirrored"),
    ],
)
def test_of_a_stripped_copy_the_log_of_this_machine_tells(written, look, tmp_path, change, said):
    path, number = written
    copy = stripped(path, tmp_path / "copy.jpg", change)
    found = verify(copy, lookers=[look])
    assert (found.verdict, found.manifest, found.marks) == ("unproven", None, None)
    (text,) = found.probable
    assert number in text
    assert said in text
    assert "this machine's log says that it wrote" in text
    record = verify(path).manifest.consents[0]
    assert record in text


def test_another_machine_knows_the_mark_and_not_whose_it_is(written, tmp_path):
    copy = stripped(written[0], tmp_path / "copy.png")
    found = verify(copy, lookers=[WatermarkLooker(Ledger(folder=tmp_path / "other").audit)])
    assert written[1] in found.probable[0]
    assert "log" not in found.probable[0]


def test_a_swapped_watermark_shows(written, look, tmp_path):
    # the manifest of one file around the pixels of another is an edit; the ids tell which
    path = tmp_path / "swapped.png"
    with Image.open(written[0]) as image:
        pixels = torch.from_numpy(np.array(image.convert("RGB")))
    other = marked(torch.full_like(pixels, 120), Marker(identifier("another")))
    Image.fromarray(other.numpy()).save(tmp_path / "pixels.png")
    manifest = verify(written[0]).manifest
    (tmp_path / "pixels.png").rename(path)
    finding = look(path, manifest)
    assert finding is not None
    assert "not that of its manifest" in finding.text
    assert f"{identifier('another'):012x}" in finding.text


def test_a_mark_laid_on_a_real_picture_proves_nothing(portraits, look, tmp_path):
    with Image.open(portraits["eva"]) as image:
        pixels = torch.from_numpy(np.array(image.convert("RGB")))
    forged = marked(pixels, Marker(identifier("forged")))
    path = tmp_path / "forged.png"
    Image.fromarray(forged.numpy()).save(path)
    found = verify(path, lookers=[look])
    assert found.verdict == "unproven"
    assert not found.proven
    assert "log" not in found.probable[0]


def test_a_forged_line_of_the_log_is_not_believed(written, swapper, tmp_path):
    audit = Ledger(folder=tmp_path / "copy").audit
    audit.append("swap.done", watermark="0123456789ab", records=["c-1"])
    assert audit.written("0123456789ab")["records"] == ["c-1"]
    (file,) = audit.folder.glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b"c-1", b"c-2"))
    assert audit.written("0123456789ab") is None
    assert audit.written("0123456789ac") is None


def test_pictures_and_files_without_a_mark_have_none(portraits, look, tmp_path):
    assert watermark_in(portraits["mei"]) is None
    (tmp_path / "words.txt").write_text("no picture")
    assert look(tmp_path / "words.txt", None) is None


def test_the_command_tells_of_it(mien_, written, tmp_path):
    copy = stripped(written[0], tmp_path / "copy.jpg")
    code, printed, _ = mien_("verify", copy, "--json")
    assert code == Exit.UNPROVEN
    assert json.loads(printed)["findings"][0]["details"]["identifier"] == written[1]
    assert "its pixels carry a watermark" in mien_("verify", copy)[1]
