"""Machine-readable marks: every output says that it is synthetic, and by whose consent."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence
from xml.dom import minidom
from xml.parsers.expat import ExpatError
from xml.sax.saxutils import escape, quoteattr

log = logging.getLogger(__name__)

DIGITAL_SOURCE_TYPE = (
    "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
)
"""IPTC's term for a real picture of which a part was made by a trained network."""

SYNTHETIC = "Synthetic:"
"""With what a statement begins."""

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
ANEW = (
    ("http://ns.adobe.com/xap/1.0/", "CreatorTool"),
    ("http://iptc.org/std/Iptc4xmpExt/2008-02-29/", "DigitalSourceType"),
    ("urn:mien:1.0:", ""),
    ("http://www.tc260.org.cn/ns/AIGC/1.0/", ""),
)
"""What is said anew: namespace, and the name or nothing for all of it."""

UNTRUE = (
    ("http://ns.adobe.com/tiff/1.0/", "Orientation"),
    ("http://ns.adobe.com/hdr-gain-map/1.0/", ""),
    ("http://ns.google.com/photos/1.0/container/", ""),
    ("http://ns.google.com/photos/1.0/camera/", ""),
    ("http://ns.adobe.com/xap/1.0/", "Thumbnails"),
    ("http://ns.adobe.com/xmp/note/", "HasExtendedXMP"),
)
"""What does not hold of the new picture: it is upright, and has no second picture or clip in it;
and thumbnails, which show the face that was replaced."""

AIGC = "AIGC"
"""The name of the label of GB 45438-2025 in the metadata of a clip."""

PRODUCED = r'(?:&quot;|")ProduceID(?:&quot;|"): ?(?:&quot;|")([0-9a-f]{32})'
"""How the id stands in the label of GB 45438-2025, plain or escaped: a pattern."""

LONGEST = 65_000
"""Bytes of a packet; a JPEG holds at most 65,502."""


def xmp_packet(
    *,
    consents: Sequence[str],
    model: str,
    version: str,
    existing: bytes = b"",
    produced: str | None = None,
) -> bytes:
    """Return an XMP packet with the digital source type, the consent records and the software.

    ``consents`` are records' ids; nothing about the people is written. What the ``existing``
    packet says of the picture is kept, if it is well formed and not too long. ``produced`` is the
    picture's id in the label of GB 45438-2025, AIGC; a new one, unless it is given.
    """
    label = aigc_label(version=version, produced=produced)
    ours = (
        f'<rdf:Description xmlns:rdf="{RDF}" rdf:about=""\n'
        '    xmlns:xmp="http://ns.adobe.com/xap/1.0/"\n'
        '    xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"\n'
        '    xmlns:mien="urn:mien:1.0:"\n'
        '    xmlns:TC260="http://www.tc260.org.cn/ns/AIGC/1.0/"\n'
        f"    xmp:CreatorTool={quoteattr(f'mien {version}')}\n"
        f"    Iptc4xmpExt:DigitalSourceType={quoteattr(DIGITAL_SOURCE_TYPE)}\n"
        f"    mien:consent={quoteattr(', '.join(consents))}\n"
        f"    mien:model={quoteattr(model)}>\n"
        f"<TC260:AIGC>{escape(label)}</TC260:AIGC></rdf:Description>"
    )
    rdf = f'<rdf:RDF xmlns:rdf="{RDF}">{ours}</rdf:RDF>'
    alone = f'<x:xmpmeta xmlns:x="adobe:ns:meta/">{rdf}</x:xmpmeta>'
    if len(existing) <= LONGEST:
        packet = _packet(_joined(existing, ours) or alone)
        if len(packet) <= LONGEST:
            return packet
    log.warning("The picture's own XMP data are too long to keep and are left out.")
    return _packet(alone)


def aigc_label(*, version: str, produced: str | None = None) -> str:
    """Return the label of GB 45438-2025 as JSON; clips have it as the metadata AIGC.

    ``produced`` is the id of what was made; a new one, unless it is given.
    """
    label = {
        "Label": "1",  # it is of a network, for certain
        "ContentProducer": f"mien {version}",
        "ProduceID": produced or uuid.uuid4().hex,
        "ReservedCode1": "",
        "ContentPropagator": "",
        "PropagateID": "",
        "ReservedCode2": "",
    }
    return json.dumps(label)


def statement(*, consents: Sequence[str], model: str, version: str) -> str:
    """Return in one line what ``xmp_packet`` says, for files that hold words: clips."""
    return (
        f"{SYNTHETIC} parts of it were made by a trained network. "
        f"DigitalSourceType={DIGITAL_SOURCE_TYPE}; CreatorTool=mien {version}; "
        f"urn:mien:1.0:consent={', '.join(consents)}; urn:mien:1.0:model={model}"
    )


def _packet(content: str) -> bytes:
    begin = '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
    return f'{begin}\n{content}\n<?xpacket end="w"?>'.encode()


def _joined(existing: bytes, ours: str) -> str | None:
    """Return the ``existing`` packet's content with ours, or None if there is none to join."""
    existing = existing.strip(b"\x00 \r\n\t")
    if not existing:
        return None
    try:
        if b"<!DOCTYPE" in existing:
            raise ValueError("it defines a document type")
        document, addition = minidom.parseString(existing), minidom.parseString(ours)
        (rdf,) = document.getElementsByTagNameNS(RDF, "RDF")
        assert document.documentElement is not None  # parsing makes one
        assert addition.documentElement is not None
        for description in rdf.childNodes:
            if isinstance(description, minidom.Element):
                _forget(description)
        rdf.appendChild(document.importNode(addition.documentElement, True))
        return document.documentElement.toxml()
    except (ExpatError, ValueError, LookupError, RecursionError) as error:
        log.warning("The picture's own XMP data are malformed and left out (%s).", error)
        return None


def _forget(description: minidom.Element) -> None:
    """Take out of a description what is said anew, and what is no longer true."""
    for attribute in list(description.attributes.values()):
        if _named(attribute):
            description.removeAttributeNode(attribute)
    for child in list(description.childNodes):
        if isinstance(child, minidom.Element) and _named(child):
            description.removeChild(child)


def _named(node: minidom.Attr | minidom.Element) -> bool:
    return any(
        node.namespaceURI == space and name in ("", node.localName)
        for space, name in (*ANEW, *UNTRUE)
    )
