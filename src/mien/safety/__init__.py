"""Consent and marks: what the engine asks before it works, and leaves on what it made."""

from mien.safety.audit import AuditLog
from mien.safety.consent import Consent, Declares
from mien.safety.ledger import Ledger
from mien.safety.marks import DIGITAL_SOURCE_TYPE, SYNTHETIC, statement, xmp_packet

__all__ = [
    "DIGITAL_SOURCE_TYPE",
    "SYNTHETIC",
    "AuditLog",
    "Consent",
    "Declares",
    "Ledger",
    "statement",
    "xmp_packet",
]
