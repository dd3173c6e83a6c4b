"""Marks: what every written picture says about how it was made, and on whose consent."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import CONSENT
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mien import __version__
from mien.safety import DIGITAL_SOURCE_TYPE, xmp_packet

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
IPTC = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}"
XMP = "{http://ns.adobe.com/xap/1.0/}"
MIEN = "{urn:mien:1.0:}"
# https://cv.iptc.org/newscodes/digitalsourcetype
TERM = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"


@pytest.fixture(scope="module")
def result(swapper, load):
    return swapper.swap(load("ben"), swapper.identity(load("dev"), consent=CONSENT))


def description(packet):
    """Return the attributes of the one description in an XMP packet."""
    root = ElementTree.fromstring(packet.decode().strip())
    assert root.tag == "{adobe:ns:meta/}xmpmeta"
    (found,) = root.iter(f"{RDF}Description")
    return found.attrib


def packet_in(path):
    """Return the XMP packet where the standard of the file's format wants it."""
    content = path.read_bytes()
    if path.suffix == ".jpg":  # XMP part 3, 1.1.3: an APP1 segment with this header
        header = b"http://ns.adobe.com/xap/1.0/\0"
        at = content.index(header)
        marker, size = struct.unpack(">HH", content[at - 4 : at])
        assert marker == 0xFFE1
        return content[at + len(header) : at - 2 + size]
    if path.suffix == ".png":  # 1.1.5: an iTXt chunk, neither compressed nor translated
        at = content.index(b"iTXt")
        (size,) = struct.unpack(">I", content[at - 4 : at])
        keyword = b"XML:com.adobe.xmp\0\0\0\0\0"
        assert content[at + 4 :].startswith(keyword)
        return content[at + 4 + len(keyword) : at + 4 + size]
    at = content.index(b"XMP ")  # RIFF: a chunk of this name
    (size,) = struct.unpack("<I", content[at + 4 : at + 8])
    return content[at + 8 : at + 8 + size]


def test_the_term_is_iptcs_own():
    assert DIGITAL_SOURCE_TYPE == TERM


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_every_saved_picture_is_marked(tmp_path, result, suffix):
    path = tmp_path / f"out{suffix}"
    result.save(path)
    marks = description(packet_in(path))
    assert marks[f"{IPTC}DigitalSourceType"] == TERM
    assert marks[f"{MIEN}consent"] == result.consent
    assert marks[f"{MIEN}model"] == "starter"
    assert marks[f"{XMP}CreatorTool"] == f"mien {__version__}"
    assert CONSENT.encode() not in path.read_bytes()


def test_the_consent_of_the_mark_is_in_the_ledger(tmp_path, swapper, load):
    identity = swapper.identity(load("dev"), consent=CONSENT)
    path = tmp_path / "out.png"
    swapper.swap(load("ben"), identity).save(path)
    record = swapper.ledger.find([identity.digest])
    assert record.statement == CONSENT
    assert description(packet_in(path))[f"{MIEN}consent"] == record.id


def test_a_picture_that_was_marked_is_marked_anew(tmp_path, result, swapper, load):
    result.save(tmp_path / "first.png")
    identity = swapper.identity(load("mei"), consent="Another generated portrait.")
    assert identity.consent != result.consent
    swapper.swap(tmp_path / "first.png", identity).save(tmp_path / "second.png")
    content = (tmp_path / "second.png").read_bytes()
    assert len(re.findall(rb"<x:xmpmeta", content)) == 1
    assert description(packet_in(tmp_path / "second.png"))[f"{MIEN}consent"] == identity.consent


def test_marks_change_no_pixel(tmp_path, result):
    result.save(tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as image:
        assert np.array_equal(np.array(image), result.pixels)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(*[st.text(st.characters(exclude_categories=["C"], include_characters="\n\t\r\"'<>&]"))] * 3)
def test_any_characters_come_through(consent, model, version):
    marks = description(xmp_packet(consent=consent, model=model, version=version))
    assert marks[f"{MIEN}consent"] == consent
    assert marks[f"{MIEN}model"] == model
    assert marks[f"{XMP}CreatorTool"] == f"mien {version}"
    assert marks[f"{IPTC}DigitalSourceType"] == TERM


def test_a_packet_has_the_wrapper_of_the_standard():
    # XMP part 1, 7.3.2: this id, a byte order mark, and an end
    packet = xmp_packet(consent="c", model="m", version="1").decode()
    assert packet.startswith('<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>')
    assert packet.endswith('<?xpacket end="w"?>')
