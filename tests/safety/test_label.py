"""The visible label: who wants one, who may refuse it, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mien.errors import InvalidOption
from mien.safety.label import WORDS, Label, label_for, language
from mien.safety.policy import PROFILES, Limits, Policy

GERMAN = {"LANG": "de_AT.UTF-8"}
FILE = Path("policy.toml")
DEFAULT, EU, CN = (Policy(name, PROFILES[name], FILE) for name in ("default", "eu-deployer", "cn"))


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "ja_JP.UTF-8"}, "en"),
        ({"LANG": "en_GB"}, "en"),
        ({"LANG": "pl"}, "pl"),
        ({"LANG": "pt-BR"}, "pt"),
        ({"LANG": "zh_TW.UTF-8"}, "zh"),
        ({"LANG": "fr_CH.UTF-8@euro", "LC_MESSAGES": ""}, "fr"),
        ({"LANG": "fr_FR", "LC_MESSAGES": "it_IT"}, "it"),
        ({"LANG": "fr_FR", "LC_MESSAGES": "it_IT", "LC_ALL": "nl_NL"}, "nl"),
        ({"LANG": "fr_FR", "LC_ALL": "C"}, "en"),
    ],
)
def test_the_language_is_that_of_the_locale(environment, code):
    assert language(environment) == code
    assert label_for(EU, environment=environment) == Label(WORDS[code])


def test_by_default_there_is_none():
    assert label_for(DEFAULT) is None
    assert label_for(DEFAULT, wanted=False, text="AI", place="top-left") is None


def test_who_gives_a_text_or_a_place_wants_one():
    assert label_for(DEFAULT, wanted=True, environment=GERMAN) == Label(WORDS["de"])
    assert label_for(DEFAULT, text="  Made\n by AI ") == Label("Made by AI")
    assert label_for(DEFAULT, place="top-left", environment={}) == Label(WORDS["en"], "top-left")


@pytest.mark.parametrize("policy", [EU, CN, Policy("default", Limits(visible_label=True), FILE)])
def test_what_the_policy_wants_cannot_be_refused(policy):
    assert label_for(policy) is not None
    with pytest.raises(
        InvalidOption, match=rf"^label=False .*policy.toml \(profile '{policy.profile}'\)"
    ):
        label_for(policy, wanted=False)


def test_in_china_it_has_the_words_of_the_standard():
    assert label_for(CN, environment=GERMAN).text == WORDS["zh"] == "AI合成"
    for text in ("本视频由AI生成", "人工智能合成"):
        assert label_for(CN, text=text).text == text
    for text in ("AI", "合成", "AI-edited face", "人工"):
        with pytest.raises(InvalidOption, match=r"label_text=.*GB 45438-2025"):
            label_for(CN, text=text)


@pytest.mark.parametrize(
    ("option", "value"), [("wanted", "yes"), ("place", "middle"), ("text", 3), ("text", b"AI")]
)
def test_what_is_no_option_is_refused(option, value):
    name = {"wanted": "label", "place": "label_place", "text": "label_text"}[option]
    with pytest.raises(InvalidOption, match=f"^{name}="):
        label_for(DEFAULT, **{option: value})
