"""The threat model names tests; they are there."""

from __future__ import annotations

import re

from conftest import ROOT


def test_what_the_page_names_is_there():
    page = (ROOT / "docs" / "threat-model.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)\(", sources))
    assert len(named) > 40
    assert named <= there, sorted(named - there)
