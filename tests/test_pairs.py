"""Who replaces whom, as people write it down."""

from __future__ import annotations

from pathlib import Path

import pytest

from mien.errors import InvalidOption
from mien.pairs import Pair, read_pairs


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder, where commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pair(source, target, consent=None):
    several = (source, target)
    source, target = ((each,) if isinstance(each, str) else each for each in several)
    return Pair(tuple(map(Path, source)), tuple(map(Path, target)), consent)


def refusal(text):
    with pytest.raises(InvalidOption) as caught:
        read_pairs(text)
    assert caught.value.option == "map"
    return str(caught.value)


# Two names


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        ("alice.jpg=bob.jpg", "alice.jpg", "bob.jpg"),
        ("in/al ice.jpg=../b'o\"b.png", "in/al ice.jpg", "../b'o\"b.png"),
        ("-a.jpg=-b.jpg", "-a.jpg", "-b.jpg"),
        ("100%.jpg={target}.jpg", "100%.jpg", "{target}.jpg"),
        ("顔.jpg=фото 🎉.jpg", "顔.jpg", "фото 🎉.jpg"),
        ("a.jpg=b=c.jpg", "a.jpg", "b=c.jpg"),
        ("a.jpg=b.toml", "a.jpg", "b.toml"),
    ],
)
def test_a_pair_is_two_names(text, source, target):
    assert read_pairs(text) == [pair(source, target)]


@pytest.mark.parametrize(
    "files", [("a=b.jpg", "c.jpg"), ("a", "b.jpg=c.jpg"), ("a=b.jpg=", "c.jpg"), ("=a", "=b")]
)
def test_where_names_have_an_equals_sign_the_files_that_exist_decide(here, files):
    for name in files:
        (here / name).touch()
    assert read_pairs("=".join(files)) == [pair(*files)]


@pytest.mark.parametrize("text", ["", "=", "a.jpg", "a.jpg=", "=b.jpg", "a.json", "list.txt"])
def test_half_a_pair_is_none(text):
    assert "SOURCE=TARGET" in refusal(text)


# Files

TOML = """
[[map]]
source = "alice.jpg"
target = "people/bob 顔.jpg"

[[map]]
source = ["/c1.jpg", "c2.jpg"]
target = ["d1.jpg", "../d2.jpg"]
consent = "This is Carol, who agrees."
"""
YAML = """
map:
  - source: alice.jpg
    target: people/bob 顔.jpg
  - source: [/c1.jpg, c2.jpg]
    target:
      - d1.jpg
      - ../d2.jpg
    consent: This is Carol, who agrees.
"""


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "with a mark"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("m.toml", TOML), ("m.TOML", TOML), ("m.yaml", YAML), ("m.yml", YAML), ("m=n.toml", TOML)],
)
def test_a_file_has_many_pairs_with_paths_from_its_folder(here, name, text, start):
    (here / "maps").mkdir()
    (here / "maps" / name).write_text(start + text, encoding="utf-8")
    assert read_pairs(f"maps/{name}") == [
        pair("maps/alice.jpg", "maps/people/bob 顔.jpg"),
        pair(
            ("/c1.jpg", "maps/c2.jpg"),
            ("maps/d1.jpg", "maps/../d2.jpg"),
            "This is Carol, who agrees.",
        ),
    ]


def test_the_home_folder_may_be_named(here, monkeypatch):
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("USERPROFILE", "/home/alice")
    (here / "m.yaml").write_text("map: [{source: ~/a.jpg, target: b.jpg}]")
    assert read_pairs("m.yaml") == [pair("/home/alice/a.jpg", "b.jpg")]


def test_a_home_that_nobody_has_is_a_name(here):
    (here / "m.yaml").write_text("map: [{source: ~nobody-here/a.jpg, target: ~.jpg}]")
    assert read_pairs("m.yaml") == [pair("~nobody-here/a.jpg", "~.jpg")]


ROW = '[[map]]\nsource = "a.jpg"\n'


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("m.toml", "", "map"),
        ("m.toml", "map = []", "at least one picture"),
        ("m.toml", 'map = "a.jpg=b.jpg"', "map"),
        ("m.toml", ROW, "map.0.target"),
        ("m.toml", ROW + "target = 3", "map.0.target"),
        ("m.toml", ROW + "target = []", "at least one picture"),
        ("m.toml", ROW + 'target = ""', "at least one picture"),
        ("m.toml", ROW + 'target = ["b.jpg", ""]', "at least one picture"),
        ("m.toml", ROW + "target = [3]", "map.0.target"),
        ("m.toml", ROW + 'target = "b.jpg"\nconsent = true', "map.0.consent"),
        ("m.toml", ROW + 'target = "b.jpg"\nconcent = "yes"', "map.0.concent"),
        ("m.toml", ROW + 'target = "b.jpg"\n[other]', "other"),
        ("m.toml", "map = [", "can be read"),
        ("m.yaml", "", "the file"),
        ("m.yaml", "map:", "map"),
        ("m.yaml", "- source: a.jpg\n  target: b.jpg", "the file"),
        ("m.yaml", "map: [{source: a.jpg, target: no}]", "map.0.target"),
        ("m.yaml", "map: [", "can be read"),
        ("m.yaml", "map: !!python/object/apply:os.system ['echo hacked']", "can be read"),
        ("m.yaml", "\x00", "can be read"),
        ("m.yaml", "[" * 5000, "can be read"),
        ("m.toml", "a = " + "[" * 5000, "can be read"),
    ],
    ids=str,
)
def test_a_file_that_is_no_map_is_named_with_the_place(here, name, text, fault):
    (here / name).write_text(text)
    said = refusal(name)
    assert name in said
    assert fault in said
    assert "\n" not in said


def test_a_file_that_cannot_be_read_is_named(here):
    assert "No such file" in refusal("nowhere.toml")
    (here / "folder.yaml").mkdir()
    assert "directory" in refusal("folder.yaml")
    (here / "m.toml").write_bytes(b'x = "\xff"')
    assert "m.toml" in refusal("m.toml")


def test_a_yaml_bomb_does_no_harm(here):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    (here / "m.yaml").write_text("\n".join([*lines, "map: *a8"]))
    assert "m.yaml" in refusal("m.yaml")
