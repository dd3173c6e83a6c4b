"""Consent and marks: what the engine asks before it works, and leaves on what it made."""

from mien.safety.consent import Consent, Ledger
from mien.safety.marks import DIGITAL_SOURCE_TYPE, SYNTHETIC, statement, xmp_packet

__all__ = [
    "DIGITAL_SOURCE_TYPE",
    "SYNTHETIC",
    "Consent",
    "Ledger",
    "statement",
    "xmp_packet",
]
