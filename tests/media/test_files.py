"""Which files are meant: names, folders, patterns and lists (T6)."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from mien.errors import InvalidOption
from mien.media.files import Found, distinct, expand

ODD = [
    "with space.jpg",
    'it\'s "quoted".jpg',
    "100% sure.jpg",
    "顔写真.jpg",
    "фото.jpg",
    "🎉🙂.jpg",
    f"{'x' * 196}.jpg",
    "-dash.jpg",
    "@at.jpg",
    "{target}.jpg",
    "a=b.jpg",
    "~tilde.jpg",
    "$HOME.jpg",
    "line\nbreak.jpg",
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, where commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def paths(name, **options):
    return [str(found.path) for found in expand(name, option="TARGET", **options)]


def below(name, **options):
    return [str(found.below) for found in expand(name, option="TARGET", **options)]


def refusal(name):
    with pytest.raises(InvalidOption) as caught:
        expand(name, option="TARGET")
    assert caught.value.option == "TARGET"
    return str(caught.value)


@pytest.mark.parametrize("name", ODD)
def test_a_file_is_itself_whatever_its_name(here, name):
    make(here, name, "other.jpg")
    for spelling in (name, str(here / name), f"./{name}"):
        assert expand(spelling, option="TARGET") == [Found(Path(spelling), Path(name))]


@pytest.mark.parametrize("name", ["a*.jpg", "?.jpg", "[ab].jpg", "**", "a[.jpg"])
def test_a_file_with_a_pattern_for_a_name_is_itself(here, name):
    make(here, name, "a.jpg", "b.jpg")
    assert paths(name) == [name]


@pytest.mark.parametrize("name", ["nowhere.jpg", "no/nowhere.jpg"])
def test_a_name_of_nothing_is_itself(here, name):
    assert expand(name, option="TARGET") == [Found(Path(name), Path("nowhere.jpg"))]


def test_a_dead_link_is_itself(here):
    (here / "dead*.jpg").symlink_to("gone")
    make(here, "dead1.jpg")
    assert paths("dead*.jpg") == ["dead*.jpg"]


def test_an_empty_name_is_not_the_folder_one_is_in(here):
    make(here, "a.jpg")
    assert paths(".") == ["a.jpg"]
    assert "TARGET=''" in refusal("")


# Folders


def test_a_folder_is_the_pictures_in_it_and_below(here):
    make(here, "in/b.PNG", "in/a.jpg", "in/notes.txt", "in/jpg", "in/z/c.webp", "in/z/y/d.heic")
    make(here, "out/e.jpg")
    for name in ("in", "in/", "./in", str(here / "in")):
        assert below(name) == ["a.jpg", "b.PNG", "z/c.webp", "z/y/d.heic"]
        assert [Path(path).is_file() for path in paths(name)] == [True] * 4


@pytest.mark.parametrize("folder", ["with space", "100%", "[a]", "*", "{target}", "@list", "-in"])
def test_a_folder_may_have_any_name(here, folder):
    make(here, f"{folder}/a.jpg", f"{folder}/sub {folder}/b.jpg")
    assert paths(folder) == [f"{folder}/a.jpg", f"{folder}/sub {folder}/b.jpg"]


def test_what_is_hidden_is_left_out(here):
    make(here, "in/a.jpg", "in/.b.jpg", "in/.mien-0123.part", "in/.hidden/c.jpg")
    assert below("in") == ["a.jpg"]
    assert paths("in/.b.jpg") == ["in/.b.jpg"]
    assert below("in/.hidden") == ["c.jpg"]


@pytest.mark.parametrize("spelling", ["in/out", "in/out/", "./in/../in/out", "link"])
def test_the_folder_of_the_outputs_is_left_out(here, spelling):
    make(here, "in/a.jpg", "in/out/a.jpg", "in/out/more/b.jpg", "in/other/out/c.jpg")
    (here / "link").symlink_to("in/out")
    assert below("in", leave_out=Path(spelling)) == ["a.jpg", "other/out/c.jpg"]


def test_the_folder_of_the_outputs_is_left_out_of_a_list_too(here):
    make(here, "in/a.jpg", "in/out/a.jpg")
    (here / "list.txt").write_text("in\n")
    assert below("@list.txt", leave_out=Path("in/out")) == ["a.jpg"]


def test_a_folder_of_outputs_that_is_the_folder_itself_is_searched(here):
    make(here, "in/a.jpg")
    assert below("in", leave_out=Path("in")) == ["a.jpg"]


def test_linked_folders_are_not_followed_and_linked_files_are_taken(here):
    make(here, "in/a.jpg", "elsewhere/b.jpg")
    (here / "in" / "round").symlink_to("..")
    (here / "in" / "b.jpg").symlink_to("../elsewhere/b.jpg")
    assert below("in") == ["a.jpg", "b.jpg"]


def test_a_folder_without_pictures_is_an_error(here):
    make(here, "in/notes.txt")
    assert "a folder with pictures (.jpg" in refusal("in")


# Patterns


def test_a_pattern_is_what_it_matches_in_order(here):
    make(here, "b.jpg", "a.jpg", "c.png", ".hidden.jpg", "sub/d.jpg", "sub/deep/e.jpg")
    (here / "folder.jpg").mkdir()
    assert paths("*.jpg") == ["a.jpg", "b.jpg"]
    assert paths("?.*") == ["a.jpg", "b.jpg", "c.png"]
    assert paths("[!b].jpg") == ["a.jpg"]
    assert paths("**/*.jpg") == ["a.jpg", "b.jpg", "sub/d.jpg", "sub/deep/e.jpg"]
    assert below("sub/**/*.jpg") == ["d.jpg", "e.jpg"]
    assert paths(str(here / "*.png")) == [str(here / "c.png")]


def test_a_pattern_that_matches_nothing_is_an_error(here):
    make(here, "a.png")
    (here / "folder.jpg").mkdir()
    assert "some file matches" in refusal("*.jpg")


# Lists


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "with a mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_a_list_has_a_name_in_each_line(here, start, end):
    odd = [name for name in ODD if "\n" not in name and not name.startswith("@")]
    make(here, *odd, "in/a.jpg", "in/b.jpg")
    lines = [*odd, "", "  ", "in", "in/*.jpg", "nowhere.jpg"]
    text = start + end.join(lines)
    (here / "list.txt").write_bytes(text.encode())
    assert paths("@list.txt") == [*odd, "in/a.jpg", "in/b.jpg", "nowhere.jpg"]


def test_a_list_may_come_in(here, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a.jpg\nb c.jpg\n"))
    assert paths("@-") == ["a.jpg", "b c.jpg"]


def test_a_list_may_name_another_but_not_itself(here):
    (here / "one.txt").write_text("a.jpg\n@two.txt\n")
    (here / "two.txt").write_text("b.jpg\na.jpg\n")
    assert paths("@one.txt") == ["a.jpg", "b.jpg"]
    (here / "two.txt").write_text("b.jpg\n@one.txt\n")
    refusal("@one.txt")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "a name in each line"),
        (b"\n \n", "a name in each line"),
        (b"\xff\xd8", "UTF-8"),
        (b"a.jpg\n\0\n", "list"),
    ],
)
def test_a_list_that_is_none_is_an_error(here, content, why):
    (here / "list.txt").write_bytes(content)
    assert why in refusal("@list.txt")


def test_a_list_that_is_not_there_is_an_error(here):
    (here / "folder").mkdir()
    assert "No such file" in refusal("@nowhere.txt")
    assert "directory" in refusal("@folder")
    refusal("@")


def test_a_name_that_no_file_can_have_is_itself(here):
    # whoever opens it says what is wrong
    assert paths("x" * 300) == ["x" * 300]
    assert paths(f"{'x' * 300}/y.jpg") == [f"{'x' * 300}/y.jpg"]


def test_a_name_in_a_folder_that_is_locked_is_itself(here, lock):
    make(here, "locked/a.jpg")
    lock(here / "locked")
    assert paths("locked/a.jpg") == ["locked/a.jpg"]


def test_a_folder_that_is_locked_is_named(here, lock, caplog):
    make(here, "in/a.jpg", "in/locked/b.jpg")
    lock(here / "in" / "locked")
    assert "Permission denied" in refusal("in/locked")
    # its neighbours are found, and it is not passed over in silence
    assert below("in") == ["a.jpg"]
    assert "in/locked" in caplog.text
    assert "Permission denied" in caplog.text


# Twice


def test_a_file_that_is_named_twice_is_meant_once_and_as_it_was_named_first(here):
    make(here, "in/sub/a.jpg", "in/b.jpg")
    (here / "link.jpg").symlink_to("in/b.jpg")
    named = [*expand("in", option="TARGET"), *expand("in/sub/a.jpg", option="TARGET")]
    named += expand("link.jpg", option="TARGET")
    found = distinct(named)
    assert [str(each.path) for each in found] == ["in/b.jpg", "in/sub/a.jpg"]
    assert [str(each.below) for each in found] == ["b.jpg", "sub/a.jpg"]


def test_order_of_a_folder_does_not_hang_on_the_disk(here, monkeypatch):
    make(here, *(f"in/{name}/{name}.jpg" for name in "cab"))
    walk = os.walk

    def backwards(folder, **options):
        for place, folders, names in walk(folder, **options):
            folders.reverse()
            yield place, folders, names

    monkeypatch.setattr("os.walk", backwards)
    assert below("in") == ["a/a.jpg", "b/b.jpg", "c/c.jpg"]
