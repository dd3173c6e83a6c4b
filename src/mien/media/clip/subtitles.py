"""Subtitles of text: the same words in another container's form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

TAGS = re.compile(r"<[^>\n]{1,40}>|\{\\[^}\n]{1,200}\}")
"""Marks of style in SubRip and Advanced SubStation texts."""


def _plain(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip("\0\r\n")


def _from_ass(data: bytes) -> str:
    """Return the words of one event: what comes behind its eight commas, in Matroska's form."""
    words = _plain(data).split(",", 8)[-1]
    return words.replace(r"\N", "\n").replace(r"\n", "\n").replace(r"\h", " ")


def _from_mov(data: bytes) -> str:
    """Return the words of a timed text sample (3GPP TS 26.245, 5.17)."""
    size = int.from_bytes(data[:2], "big")
    return data[2 : 2 + size].decode("utf-8", "replace")


def _to_mov(words: str) -> bytes:
    text = words.encode()[:65535]
    return len(text).to_bytes(2, "big") + text


READ: Mapping[str, Callable[[bytes], str]] = MappingProxyType(
    {
        "subrip": _plain,
        "text": _plain,
        "webvtt": _plain,
        "ass": _from_ass,
        "ssa": _from_ass,
        "mov_text": _from_mov,
    }
)
WRITE: Mapping[str, Callable[[str], bytes]] = MappingProxyType(
    {"subrip": str.encode, "webvtt": str.encode, "mov_text": _to_mov}
)


def rewritten(data: bytes, *, codec: str, into: str) -> bytes:
    """Return the packet ``data`` of a subtitle, of ``codec``, as one of codec ``into``.

    The words stay; fonts, colours and places are left out. Empty if there are no words.
    """
    words = TAGS.sub("", READ[codec](data)).strip()
    return WRITE[into](words) if words else b""
