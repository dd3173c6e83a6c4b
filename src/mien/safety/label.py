"""The visible label: whether there is one, what it says, and who may decide that.

Those who publish a deep fake have to disclose that it is one (Regulation (EU) 2024/1689, article
50(4)); in China a label has to be seen, in words that GB 45438-2025 names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from mien.errors import InvalidOption
from mien.safety.policy import Policy
from mien.types import Corner

WORDS: Mapping[str, str] = MappingProxyType(
    {
        "en": "AI-edited face",
        "cs": "Obličej upraven pomocí AI",
        "da": "Ansigt ændret med AI",
        "de": "Gesicht KI-bearbeitet",
        "es": "Rostro editado con IA",
        "fr": "Visage modifié par IA",
        "it": "Volto modificato con IA",
        "nl": "Gezicht bewerkt met AI",
        "pl": "Twarz zmieniona przez AI",
        "pt": "Rosto editado com IA",
        "sv": "Ansikte ändrat med AI",
        "zh": "AI合成",
    }
)
"""What a label says, by language."""

NETWORK, MADE = ("人工智能", "AI"), ("生成", "合成")
"""GB 45438-2025: one of these, and one of those, are in a label's text."""


@dataclass(frozen=True, slots=True)
class Label:
    """What is to be seen on what was made."""

    text: str
    place: Corner = "bottom-right"

    def report(self) -> dict[str, str]:
        """Return it ready for JSON."""
        return {"text": self.text, "place": self.place}


def label_for(
    policy: Policy,
    *,
    wanted: bool | None = None,
    text: str | None = None,
    place: Corner | None = None,
    environment: Mapping[str, str] | None = None,
) -> Label | None:
    """Return the label that ``policy`` and the user want; None if neither wants one.

    A user who says nothing else (``wanted`` is None) wants one by giving a ``text`` or ``place``.
    Without a text it is that of the user's language, as ``environment`` (the process's) has it, or
    Chinese in the profile 'cn'. Raises InvalidOption, also if the user wants none and the policy
    does.
    """
    if wanted not in (None, True, False):
        raise InvalidOption("label", wanted, "True, False, or None for what the policy says")
    if place is not None and place not in get_args(Corner):
        raise InvalidOption("label_place", place, get_args(Corner))
    if text is not None and not isinstance(text, str):
        raise InvalidOption("label_text", text, "a text")
    if policy.limits.visible_label and wanted is False:
        raise InvalidOption(
            "label",
            False,
            f"True, or nothing: the policy {policy.path} (profile {policy.profile!r}) wants a "
            "visible label",
        )
    if wanted is None:
        wanted = policy.limits.visible_label or text is not None or place is not None
    if not wanted:
        return None
    chinese = policy.profile == "cn"
    if text is None:
        text = WORDS["zh" if chinese else language(environment)]
    elif chinese and not all(any(word in text for word in each) for each in (NETWORK, MADE)):
        raise InvalidOption(
            "label_text",
            text,
            f"a text with {' or '.join(NETWORK)}, and with {' or '.join(MADE)}: the profile 'cn' "
            "wants the words of GB 45438-2025",
        )
    return Label(" ".join(text.split()), place or "bottom-right")


def language(environment: Mapping[str, str] | None = None) -> str:
    """Return which of WORDS' languages the user speaks; English if it is none of them."""
    known = os.environ if environment is None else environment
    locale = next(filter(None, map(known.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    code = locale.lower().replace("-", "_").partition("_")[0].partition(".")[0]
    return code if code in WORDS else "en"
