"""Marks: what every written picture says about how it was made, and on whose consent."""

from __future__ import annotations

import re
import struct
import time
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
    """Return the attributes of the last description in an XMP packet: mien's."""
    root = ElementTree.fromstring(packet.decode().strip())
    assert root.tag == "{adobe:ns:meta/}xmpmeta"
    (rdf,) = root.iter(f"{RDF}RDF")
    return list(rdf)[-1].attrib


def packet_in(path):
    """Return the XMP packet where the standard of the file's format wants it."""
    content = path.read_bytes()
    if path.suffix == ".bmp":  # a BMP has no place: it lies beside it
        return path.with_name(f"{path.name}.xmp").read_bytes()
    return PLACES[path.suffix](content)


def in_jpeg(content):  # XMP part 3, 1.1.3: an APP1 segment with this header
    header = b"http://ns.adobe.com/xap/1.0/\0"
    at = content.index(header)
    marker, size = struct.unpack(">HH", content[at - 4 : at])
    assert marker == 0xFFE1
    return content[at + len(header) : at - 2 + size]


def in_png(content):  # 1.1.5: an iTXt chunk, neither compressed nor translated
    at = content.index(b"iTXt")
    (size,) = struct.unpack(">I", content[at - 4 : at])
    keyword = b"XML:com.adobe.xmp\0\0\0\0\0"
    assert content[at + 4 :].startswith(keyword)
    return content[at + 4 + len(keyword) : at + 4 + size]


def in_webp(content):  # RIFF: a chunk of this name
    at = content.index(b"XMP ")
    (size,) = struct.unpack("<I", content[at + 4 : at + 8])
    return content[at + 8 : at + 8 + size]


def in_avif(content):  # an item of this type
    assert b"application/rdf+xml\0" in content
    start, end = content.index(b"<?xpacket begin"), b'<?xpacket end="w"?>'
    return content[start : content.index(end) + len(end)]


def in_tiff(content):  # 1.1.9: tag 700 of the first directory, bytes
    order = {b"II": "<", b"MM": ">"}[content[:2]]
    (at,) = struct.unpack_from(f"{order}I", content, 4)
    (count,) = struct.unpack_from(f"{order}H", content, at)
    for i in range(count):
        tag, kind, size, place = struct.unpack_from(f"{order}HHII", content, at + 2 + 12 * i)
        if tag == 700:
            assert kind in (1, 7)
            return content[place : place + size]
    raise AssertionError("there is no tag 700")


def in_gif(content):  # 1.1.2: an application extension, then a trailer that ends it for all readers
    assert content[:6] == b"GIF89a"  # GIF87a has no extensions
    at = 13 + (3 << (content[10] & 7) + 1 if content[10] & 0x80 else 0)
    while content[at] == 0x21:
        if content[at + 1 : at + 14] == b"\xff\x0bXMP DataXMP":
            end = content.index(b"\x01\xff\xfe\xfd", at)
            assert content[end : end + 258] == b"\x01" + bytes(range(255, -1, -1)) + b"\0"
            return content[at + 14 : end]
        at += 2
        while content[at]:
            at += content[at] + 1
        at += 1
    raise AssertionError("there is no XMP before the first frame")


PLACES = {
    ".jpg": in_jpeg,
    ".png": in_png,
    ".webp": in_webp,
    ".avif": in_avif,
    ".tif": in_tiff,
    ".gif": in_gif,
}


def test_the_term_is_iptcs_own():
    assert DIGITAL_SOURCE_TYPE == TERM


@pytest.mark.parametrize("suffix", [*PLACES, ".bmp"])
def test_every_saved_picture_is_marked(tmp_path, result, suffix):
    path = tmp_path / f"out{suffix}"
    result.save(path)
    marks = description(packet_in(path))
    assert marks[f"{IPTC}DigitalSourceType"] == TERM
    assert marks[f"{MIEN}consent"] == ", ".join(result.consents)
    assert marks[f"{MIEN}model"] == "mien-256"
    assert marks[f"{XMP}CreatorTool"] == f"mien {__version__}"
    for file in tmp_path.iterdir():
        assert CONSENT.encode() not in file.read_bytes()


def test_the_consent_of_the_mark_is_in_the_ledger(tmp_path, swapper, load):
    identity = swapper.identity(load("dev"), consent=CONSENT)
    path = tmp_path / "out.png"
    swapper.swap(load("ben"), identity).save(path)
    record = swapper.ledger.get(identity.consent)
    assert (record.statement, record.digests) == (CONSENT, (identity.digest,))
    assert description(packet_in(path))[f"{MIEN}consent"] == record.id


def test_a_picture_that_was_marked_is_marked_anew(tmp_path, result, swapper, load):
    result.save(tmp_path / "first.png")
    identity = swapper.identity(load("mei"), consent="Another generated portrait.")
    assert identity.consent not in result.consents
    swapper.swap(tmp_path / "first.png", identity).save(tmp_path / "second.png")
    content = (tmp_path / "second.png").read_bytes()
    assert len(re.findall(rb"<x:xmpmeta", content)) == 1
    assert description(packet_in(tmp_path / "second.png"))[f"{MIEN}consent"] == identity.consent


def test_marks_change_no_pixel(tmp_path, result, no_watermark):
    result.save(tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as image:
        assert np.array_equal(np.array(image), result.pixels)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(*[st.text(st.characters(exclude_categories=["C"], include_characters="\n\t\r\"'<>&]"))] * 3)
def test_any_characters_come_through(consent, model, version):
    marks = description(xmp_packet(consents=[consent], model=model, version=version))
    assert marks[f"{MIEN}consent"] == consent
    assert marks[f"{MIEN}model"] == model
    assert marks[f"{XMP}CreatorTool"] == f"mien {version}"
    assert marks[f"{IPTC}DigitalSourceType"] == TERM


def test_every_consent_is_named():
    marks = description(xmp_packet(consents=["c-1", "c-2"], model="m", version="1"))
    assert marks[f"{MIEN}consent"] == "c-1, c-2"


def test_a_packet_has_the_wrapper_of_the_standard():
    # XMP part 1, 7.3.2: this id, a byte order mark, and an end
    for existing in (b"", own('dc:format="image/jpeg"')):
        packet = marked(existing).decode()
        assert packet.startswith('<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>')
        assert packet.endswith('<?xpacket end="w"?>')


# What the picture said of itself before


SPACES = {
    "dc": "http://purl.org/dc/elements/1.1/",
    "xmp": "http://ns.adobe.com/xap/1.0/",
    "tiff": "http://ns.adobe.com/tiff/1.0/",
    "exif": "http://ns.adobe.com/exif/1.0/",
    "hdrgm": "http://ns.adobe.com/hdr-gain-map/1.0/",
    "Container": "http://ns.google.com/photos/1.0/container/",
    "GCamera": "http://ns.google.com/photos/1.0/camera/",
    "xmpNote": "http://ns.adobe.com/xmp/note/",
    "xmpGImg": "http://ns.adobe.com/xap/1.0/g/img/",
    "Iptc4xmpExt": "http://iptc.org/std/Iptc4xmpExt/2008-02-29/",
    "mien": "urn:mien:1.0:",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
}
CAPTION = (
    '<dc:description><rdf:Alt><rdf:li xml:lang="x-default">Żółw &amp; 亀</rdf:li></rdf:Alt>'
    "</dc:description>"
)


def own(attributes="", elements="", more=""):
    """Return a packet as cameras and editors write them."""
    spaces = " ".join(f'xmlns:{name}="{space}"' for name, space in SPACES.items())
    return (
        '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 6.0"><rdf:RDF {spaces}>'
        f'<rdf:Description rdf:about="" {attributes}>{elements}</rdf:Description>{more}'
        f"</rdf:RDF></x:xmpmeta>\n{' ' * 200}\n<?xpacket end='w'?>"
    ).encode()


def marked(existing):
    said = {"consents": ["c-1"], "model": "m", "version": "1", "produced": "0" * 32}
    return xmp_packet(**said, existing=existing)


def everything(packet):
    """Return the names of all attributes and elements in a packet's descriptions."""
    root = ElementTree.fromstring(packet.decode().strip())
    names = [node.tag for node in root.iter()]
    return names + [name for node in root.iter() for name in node.attrib]


@pytest.mark.parametrize("pad", [b"", b"\0\0", b"\n  \n"])
def test_what_the_picture_says_of_itself_is_kept(pad):
    packet = marked(own('xmp:Rating="5" exif:FNumber="28/10"', CAPTION) + pad)
    root = ElementTree.fromstring(packet.decode().strip())
    (caption,) = root.iter(f"{{{SPACES['dc']}}}description")
    assert "".join(caption.itertext()) == "Żółw & 亀"
    first = next(root.iter(f"{RDF}Description"))
    assert first.attrib[f"{XMP}Rating"] == "5"
    assert first.attrib[f"{{{SPACES['exif']}}}FNumber"] == "28/10"
    assert description(packet)[f"{IPTC}DigitalSourceType"] == TERM
    assert len(re.findall(rb"<\?xpacket", packet)) == 2


def test_what_was_said_before_of_how_it_was_made_is_said_anew():
    packet = marked(
        own(
            'xmp:CreatorTool="Kamera 1.0" mien:consent="c-0" mien:model="old"',
            "<Iptc4xmpExt:DigitalSourceType>digitalCapture</Iptc4xmpExt:DigitalSourceType>"
            "<xmp:CreatorTool>Kamera</xmp:CreatorTool>" + CAPTION,
        )
    )
    assert b"Kamera" not in packet
    assert b"digitalCapture" not in packet
    assert b"c-0" not in packet
    assert everything(packet).count(f"{XMP}CreatorTool") == 1
    assert description(packet)[f"{MIEN}consent"] == "c-1"
    assert "Żółw".encode() in packet


def test_marking_twice_says_it_once():
    once = marked(own("", CAPTION))
    twice = marked(once)
    assert [everything(twice).count(name) for name in (f"{MIEN}consent", f"{XMP}CreatorTool")] == [
        1,
        1,
    ]
    assert "Żółw".encode() in twice


DIRECTORY = (
    "<Container:Directory><rdf:Seq><rdf:li rdf:parseType='Resource'>"
    "<Container:Item/></rdf:li></rdf:Seq></Container:Directory>"
)
THUMBNAIL = (
    "<xmp:Thumbnails><rdf:Alt><rdf:li rdf:parseType='Resource'><xmpGImg:width>8</xmpGImg:width>"
    "<xmpGImg:image>/9j/4AAQSkZJRg==</xmpGImg:image></rdf:li></rdf:Alt></xmp:Thumbnails>"
)


@pytest.mark.parametrize(
    ("attributes", "elements", "gone"),
    [
        ('tiff:Orientation="6"', "", b"Orientation"),
        ("", "<tiff:Orientation>6</tiff:Orientation>", b"Orientation"),
        ('hdrgm:Version="1.0" hdrgm:GainMapMax="2"', "", b"hdrgm:"),
        ("", DIRECTORY, b"Directory"),
        ("", THUMBNAIL, b"/9j/4AAQSkZJRg=="),
        ('xmpNote:HasExtendedXMP="0123456789ABCDEF0123456789ABCDEF"', "", b"HasExtendedXMP"),
        ('GCamera:MotionPhoto="1" GCamera:MotionPhotoVersion="1"', "", b"MotionPhoto"),
        ('GCamera:MicroVideo="1" GCamera:MicroVideoOffset="9"', "", b"MicroVideo"),
    ],
    ids=[
        *("orientation", "orientation, long", "gain map", "parts that are gone"),
        *("thumbnail of the old face", "rest that is gone", "motion photo", "micro video"),
    ],
)
def test_what_is_no_longer_true_is_left_out(attributes, elements, gone):
    packet = marked(own(attributes, elements + CAPTION))
    assert gone not in re.sub(rb'xmlns:\w+="[^"]*"', b"", packet)
    assert "Żółw".encode() in packet


def test_what_is_not_true_is_looked_for_in_every_description():
    more = '<rdf:Description rdf:about="" tiff:Orientation="6" dc:format="image/jpeg"/>'
    packet = marked(own("", CAPTION, more))
    assert b"Orientation" not in packet
    assert b"image/jpeg" in packet


def bomb(encoding="utf-8"):
    levels = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(9))
    head = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE a [<!ENTITY l0 "ha">{levels}]>'
    body = own("", "<dc:title>&l9;</dc:title>").decode()
    return (head + body[body.index("<x:") : body.rindex("<?")]).encode(encoding)


@pytest.mark.parametrize(
    "existing",
    [
        b"no XML",
        b"<x:xmpmeta",
        own("", "<dc:description>")[:-30],
        own('nobody:knows="1"'),
        b"<x/>",
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"/>',
        b"\xff\xfe\xfd",
        own() + own(),
        bomb(),
        bomb("utf-16"),
        own("", "<dc:title>&#0;</dc:title>"),
        own("", "<a>" * 20_000 + "</a>" * 20_000),
        own("", "<dc:title>" * 3000 + "</dc:title>" * 3000),
    ],
    ids=[
        *("words", "cut", "cut inside", "unbound prefix", "other XML", "empty", "no text"),
        *("two packets", "entities", "entities in UTF-16", "no character", "deep", "less deep"),
    ],
)
def test_what_is_malformed_is_left_out_with_a_warning(existing, caplog):
    packet = marked(existing)
    assert packet == marked(b"")
    assert "XMP" in caplog.text
    assert "left out" in caplog.text


@pytest.mark.parametrize("padding", [b"", b" \n" * 500, b"\0" * 10], ids=["none", "blank", "zero"])
def test_no_packet_is_no_reason_to_warn(padding, caplog):
    assert marked(padding) == marked(b"")
    assert caplog.text == ""


def test_a_packet_that_is_too_long_for_a_jpeg_is_left_out_with_a_warning(caplog):
    packet = marked(own("", f"<dc:title>{'x' * 70_000}</dc:title>"))
    assert packet == marked(b"")
    assert "too long" in caplog.text
    assert b"xxx" in marked(own("", f"<dc:title>{'x' * 60_000}</dc:title>"))


def test_a_packet_of_many_megabytes_takes_no_time(caplog):
    start = time.perf_counter()
    assert marked(own("", "<dc:title/>" * 500_000)) == marked(b"")
    assert time.perf_counter() - start < 1
    assert "left out" in caplog.text


def test_what_a_target_says_of_itself_is_kept_in_the_output(tmp_path, swapper, load):
    source, path = tmp_path / "in.jpg", tmp_path / "out.jpg"
    Image.fromarray(load("ben")).save(source, xmp=own('tiff:Orientation="1"', CAPTION))
    identity = swapper.identity(load("dev"), consent=CONSENT)
    swapper.swap(source, identity).save(path)
    packet = packet_in(path)
    assert "Żółw".encode() in packet
    assert description(packet)[f"{MIEN}consent"] == identity.consent
