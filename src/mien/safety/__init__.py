"""Consent, refusals and marks: what is asked before work, declined, and left on what was made."""

from mien.safety.audit import AuditLog
from mien.safety.consent import Consent, Declares
from mien.safety.ledger import Ledger
from mien.safety.marks import (
    AIGC,
    DIGITAL_SOURCE_TYPE,
    SYNTHETIC,
    aigc_label,
    statement,
    xmp_packet,
)
from mien.safety.policy import Limits
from mien.safety.protected import Gallery, Protected

__all__ = [
    "AIGC",
    "DIGITAL_SOURCE_TYPE",
    "SYNTHETIC",
    "AuditLog",
    "Consent",
    "Declares",
    "Gallery",
    "Ledger",
    "Limits",
    "Protected",
    "aigc_label",
    "statement",
    "xmp_packet",
]
