"""Machine-readable marks: every output says that it is synthetic, and by whose consent."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

DIGITAL_SOURCE_TYPE = (
    "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
)
"""IPTC's term for a real picture of which a part was made by a trained network."""


def xmp_packet(*, consent: str, model: str, version: str) -> bytes:
    """Return an XMP packet with the digital source type, the consent record and the software.

    ``consent`` is a record's id; nothing about the people is written.
    """
    return (
        '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
        '<x:xmpmeta xmlns:x="adobe:ns:meta/">\n'
        ' <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n'
        '  <rdf:Description rdf:about=""\n'
        '    xmlns:xmp="http://ns.adobe.com/xap/1.0/"\n'
        '    xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"\n'
        '    xmlns:mien="urn:mien:1.0:"\n'
        f"    xmp:CreatorTool={quoteattr(f'mien {version}')}\n"
        f"    Iptc4xmpExt:DigitalSourceType={quoteattr(DIGITAL_SOURCE_TYPE)}\n"
        f"    mien:consent={quoteattr(consent)}\n"
        f"    mien:model={quoteattr(model)}/>\n"
        " </rdf:RDF>\n"
        "</x:xmpmeta>\n"
        '<?xpacket end="w"?>'
    ).encode()
