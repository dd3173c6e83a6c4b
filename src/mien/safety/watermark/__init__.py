"""The invisible watermark: what is written, how it is laid on pictures, and when it is believed."""

from mien.safety.watermark.code import Found, false_positive_rate, identifier, read, write

__all__ = ["Found", "false_positive_rate", "identifier", "read", "write"]
