"""Lettering: what can be drawn, how large it is, and that it lies inside of the picture."""

from __future__ import annotations

import numpy as np
import pytest

from mien.errors import InvalidOption
from mien.media.lettering import check_letters, lettering
from mien.safety.label import WORDS

SIZES = [(640, 480), (480, 640), (1080, 1920), (200, 1500), (1500, 200), (999, 333), (5000, 4000)]
TINY = [(1, 1), (2, 90), (8, 8), (16, 16), (24, 48), (48, 48), (64, 64), (100, 30)]


@pytest.mark.parametrize("language", WORDS)
def test_every_languages_words_are_five_percent_high_and_inside(language):
    text = WORDS[language]
    check_letters(text)
    for width, height in SIZES:
        drawn = lettering(text, "bottom-right", width, height)
        left, top, right, bottom = drawn.plate
        assert 0 < left < right < width
        assert height / 2 <= top < bottom < height
        assert drawn.ink.shape == (bottom - top, right - left)
        assert drawn.capital >= 0.05 * min(width, height)
        # letters have room on the plate
        assert drawn.ink[0].max() == drawn.ink[-1].max() == 0
        assert drawn.ink[:, 0].max() == drawn.ink[:, -1].max() == 0
        rows = np.flatnonzero(drawn.ink.max(axis=1))
        assert rows[-1] - rows[0] + 1 >= 0.05 * min(width, height)
        assert drawn.ink.max() == 255


@pytest.mark.parametrize("size", TINY, ids=str)
def test_a_tiny_picture_has_what_fits(size):
    for text in WORDS.values():
        left, top, right, bottom = lettering(text, "top-left", *size).plate
        assert 0 <= left <= right <= size[0]
        assert 0 <= top <= bottom <= size[1]
    if min(size) >= 48:
        assert lettering(WORDS["en"], "top-left", *size).capital >= 4


def test_the_corner_is_the_one_that_is_asked_for():
    beside = [
        lettering("AI", place, 300, 200).plate
        for place in ("top-left", "top-right", "bottom-left", "bottom-right")
    ]
    (a, b, c, d), height = beside, beside[0].bottom - beside[0].top
    assert (a.left, a.top) == (4, 4)
    assert (b.right, b.top) == (296, 4)
    assert (c.left, c.bottom) == (4, 196)
    assert (d.right, d.bottom) == (296, 196)
    assert all(each.bottom - each.top == height for each in beside)


def test_a_long_text_goes_over_several_lines_of_that_height():
    text = "This face was edited by a network, and the person agreed to that."
    drawn = lettering(text, "bottom-left", 300, 300)
    assert drawn.capital >= 15
    assert drawn.plate.bottom - drawn.plate.top > 3 * drawn.capital
    han = lettering("人工智能生成合成" * 4, "bottom-left", 300, 300)
    assert han.plate.bottom - han.plate.top > 3 * han.capital >= 45


@pytest.mark.parametrize("text", ["Лицо изменено ИИ", "Πρόσωπο", "AI换脸、人工智能生成", "ẞ €"])
def test_letters_that_are_there(text):
    check_letters(text)


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("中国龙", "'中国龙'"),
        ("tvář 合成", "'合成'"),
        ("顔が編集された", "'顔が集された'"),
        ("🙂 AI", "'🙂'"),
        ("AI\u202e", r"'\u202e'"),
    ],
)
def test_what_no_font_has_is_said_and_not_drawn_as_boxes(text, lacks):
    with pytest.raises(InvalidOption, match="label_text") as caught:
        check_letters(text)
    assert f"there is no letter for {lacks}" in str(caught.value)


@pytest.mark.parametrize("text", ["", "x" * 81])
def test_a_text_has_some_letters(text):
    with pytest.raises(InvalidOption, match="1 to 80 characters"):
        check_letters(text)
