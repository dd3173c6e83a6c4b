"""What is to be done: names of outputs, and that nothing is written over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mien.errors import InvalidOption
from mien.media.files import Found
from mien.plan import Job, output_folder, plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder, where commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*names):
    """Return files; what stands before a colon is the folder that was named."""
    files = []
    for name in names:
        top, _, rest = name.rpartition(":")
        files.append(Found(Path(top, rest), Path(rest if top else Path(rest).name)))
    return files


def outputs(output, targets, sources=("alice.jpg",), **options):
    sources = None if sources is None else found(*sources)
    return [str(job.output) for job in plan(sources, found(*targets), output, inputs={}, **options)]


def refusal(output, targets, sources=("alice.jpg",), inputs=None, **options):
    with pytest.raises(InvalidOption) as caught:
        plan(found(*sources), found(*targets), output, inputs=inputs or {}, **options)
    assert caught.value.option == "output"
    return str(caught.value)


# Names


@pytest.mark.parametrize(
    "output", ["out.jpg", "new/out.png", "with space.jpg", "100%.jpg", "%s.jpg", "-o.jpg", "~.jpg"]
)
def test_one_output_is_the_file_that_is_named(output):
    assert outputs(output, ["b.jpg"]) == [output]


def test_every_target_gets_its_source():
    assert plan(found("alice.jpg"), found("in/b.jpg", "c.png"), "out/", inputs={}) == [
        Job(Path("in/b.jpg"), Path("alice.jpg"), Path("out/b.jpg")),
        Job(Path("c.png"), Path("alice.jpg"), Path("out/c.png")),
    ]


def test_with_a_map_there_is_no_source():
    (job,) = plan(None, found("b.jpg"), "out.jpg", inputs={})
    assert (job.target, job.source, job.output) == (Path("b.jpg"), None, Path("out.jpg"))


def test_folders_are_made_for_a_pattern_and_not_for_a_file(here):
    (here / "there").mkdir()
    for output, makes in {
        "new/": True,
        "there": True,
        "new/{target}.jpg": True,
        "new/out.jpg": False,
        "new/{{x}}.jpg": False,
    }.items():
        (job,) = plan(found("alice.jpg"), found("b.jpg"), output, inputs={})
        assert job.makes_folder is makes


def test_every_source_meets_every_target():
    jobs = plan(found("alice.jpg", "carl.png"), found("b.jpg", "c.jpg"), "out/", inputs={})
    assert [(str(job.source), str(job.target), str(job.output)) for job in jobs] == [
        ("alice.jpg", "b.jpg", "out/b-alice.jpg"),
        ("alice.jpg", "c.jpg", "out/c-alice.jpg"),
        ("carl.png", "b.jpg", "out/b-carl.jpg"),
        ("carl.png", "c.jpg", "out/c-carl.jpg"),
    ]


def test_a_folder_keeps_names_and_folders_below(here):
    targets = ["in:b.jpg", "in:sub/b.jpg", "in:sub/deep/100% {x}.PNG"]
    kept = ["out/b.jpg", "out/sub/b.jpg", "out/sub/deep/100% {x}.PNG"]
    assert outputs("out/", targets) == kept
    (here / "out").mkdir()
    assert outputs("out", targets) == kept
    assert outputs("out", ["b.jpg"]) == ["out/b.jpg"]


@pytest.mark.parametrize("folder", ["{target}", "{", "100%", "{{x}}", "{0}", "a b"])
def test_a_folder_may_have_any_name(here, folder):
    assert outputs(f"{folder}/", ["b.jpg", "c.jpg"]) == [f"{folder}/b.jpg", f"{folder}/c.jpg"]
    (here / folder).mkdir()
    assert outputs(folder, ["b.jpg"]) == [f"{folder}/b.jpg"]


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("out/{target}.webp", ["out/b.webp", "out/sub/c.d.webp"]),
        ("{index}{suffix}", ["1.jpg", "2.PNG"]),
        ("o/{index:03}-{source}.jpg", ["o/001-al ice.jpg", "o/002-al ice.jpg"]),
        ("{source}/{target}{suffix}", ["al ice/b.jpg", "al ice/sub/c.d.PNG"]),
        ("{target:_>4}.jpg", ["___b.jpg", "sub/c.d.jpg"]),
        ("100%{index}{{x}}.jpg", ["100%1{x}.jpg", "100%2{x}.jpg"]),
        ("%s%({target})d.jpg", ["%s%(b)d.jpg", "%s%(sub/c.d)d.jpg"]),
    ],
)
def test_fields_are_filled_in(output, names):
    assert outputs(output, ["b.jpg", "in:sub/c.d.PNG"], ["al ice.jpg"]) == names


def test_what_is_filled_in_is_not_read_again():
    odd = ["{index}.jpg", "{.jpg", "%d {target!r}.jpg", "{source.path}.jpg"]
    assert outputs("out/", odd) == [f"out/{name}" for name in odd]
    assert outputs("o/{source}-{target}.jpg", odd, ["{index}.jpg"]) == [
        f"o/{{index}}-{name}" for name in odd
    ]


def test_braces_that_are_meant_are_doubled():
    assert outputs("{{x}}-{target}.jpg", ["b.jpg"]) == ["{x}-b.jpg"]
    assert outputs("{{x}}.jpg", ["b.jpg"]) == ["{x}.jpg"]


@pytest.mark.parametrize(
    "field",
    [
        *("{name}", "{}", "{0}", "{Target}", "{ target }", "{target.__class__}", "{target[0]}"),
        *("{index.real}", "{target:{index.real}}", "{target:{index.nothing}}", "{target:{name}}"),
        *("{target:{}}", "{target:{0}}"),
    ],
)
def test_other_fields_and_parts_of_fields_are_refused(field):
    said = refusal(f"out/{field}.jpg", ["b.jpg", "c.jpg"])
    assert "{target}, {source}, {suffix}, {index}" in said


@pytest.mark.parametrize(
    "pattern", ["{", "}", "{target", "target}", "{target}}", "{target:{index}"]
)
def test_braces_come_in_pairs(pattern):
    assert "braces in pairs" in refusal(f"{pattern}.jpg", ["b.jpg"])


@pytest.mark.parametrize("field", ["{target:d}", "{index:s}", "{index!z}", "{index:%%}"])
def test_a_format_that_cannot_be_is_refused(field):
    assert "formats that Python knows" in refusal(f"{field}-{{index}}.jpg", ["b.jpg"])


def test_several_pictures_need_several_names():
    assert "for 2 pictures: a folder, or a name like 'out/{target}.jpg'" in refusal(
        "out.jpg", ["b.jpg", "c.jpg"]
    )
    refusal("out.jpg", ["b.jpg"], ["alice.jpg", "carl.jpg"])


# Beside


def test_pictures_to_look_at_lie_beside_the_output():
    def beside(output):
        (job,) = plan(
            found("alice.jpg"), found("b.jpg"), output, inputs={}, compare=True, debug_view=True
        )
        assert job.writes == (job.output, job.compare, job.debug_view)
        return str(job.compare), str(job.debug_view)

    assert beside("o/x.jpg") == ("o/x.compare.jpg", "o/x.debug.jpg")
    assert beside("o/x.y.PNG") == ("o/x.y.compare.PNG", "o/x.y.debug.PNG")
    assert [Path(name).suffix for name in beside("o/x.gif")] == [".png", ".png"]
    (job,) = plan(found("alice.jpg"), found("b.jpg"), "x.jpg", inputs={})
    assert job.writes == (Path("x.jpg"),)


# Nothing is written over


@pytest.mark.parametrize(
    "targets",
    [["one/b.jpg", "two/b.jpg"], ["b.jpg", "b.JPG"], ["b.png", "b.jpg"]],
    ids=["folders", "case", "suffixes"],
)
def test_names_that_collide_are_refused_with_both(targets):
    pattern = "out/" if targets[0] != "b.png" else "out/{target}.jpg"
    if targets[1] == "b.JPG":
        pattern = "out/{target}.jpg"
    said = refusal(pattern, targets)
    assert targets[0] in said
    assert targets[1] in said
    assert "{index}" in said


def test_sources_of_one_name_collide_too():
    said = refusal("out/", ["b.jpg"], ["one/alice.jpg", "two/alice.jpg"])
    assert "{source}" in said


def test_names_that_are_spelt_differently_collide(here):
    (here / "link").symlink_to("out")
    (here / "out").mkdir()
    refusal("{source}/b.jpg", ["b.jpg"], ["out.jpg", "link.jpg"])
    refusal("out/../{source}.jpg", ["b.jpg"], ["out.jpg", "out.png"])


def test_an_output_does_not_collide_with_what_lies_beside_another():
    targets = ["b.jpg", "b.compare.jpg"]
    assert outputs("out/", targets) == ["out/b.jpg", "out/b.compare.jpg"]
    refusal("out/", targets, compare=True)


@pytest.mark.parametrize("which", ["source", "target", "other"])
@pytest.mark.parametrize("spelling", ["same", "relative", "absolute", "symlink", "hardlink"])
@pytest.mark.parametrize("beside", [False, True])
def test_no_input_is_an_output(here, which, spelling, beside):
    names = {"source": "s.jpg", "target": "t.jpg", "other": "o.jpg"}
    if beside:
        names[which] = names[which].replace(".", ".compare.")
    for name in names.values():
        (here / name).write_text(name)
    path = names[which]
    output = {
        "same": path,
        "relative": f"../{here.name}/{path}",
        "absolute": str(here / path),
        "symlink": "symlink.compare.jpg" if beside else "symlink.jpg",
        "hardlink": "hardlink.compare.jpg" if beside else "hardlink.jpg",
    }[spelling]
    if spelling == "symlink":
        (here / output).symlink_to(path)
    if spelling == "hardlink":
        os.link(here / path, here / output)
    said = refusal(
        output.replace(".compare.", "."),
        [names["target"]],
        [names["source"]],
        {"--also o.jpg": Path(names["other"])},
        compare=beside,
    )
    known = {"source": f"SOURCE {path}", "target": f"TARGET {path}", "other": "--also o.jpg"}
    assert f"a file other than {known[which]}" in said


def test_an_input_that_is_not_there_is_not_an_output_either():
    refusal("b.jpg", ["b.jpg"])


def test_a_folder_of_targets_is_not_the_folder_of_outputs(here):
    (here / "in").mkdir()
    (here / "in" / "b.jpg").touch()
    refusal("in", ["in:b.jpg"])
    refusal("in/{target}.jpg", ["in:b.jpg"])
    assert outputs("in/{target}-{source}.jpg", ["in:b.jpg"]) == ["in/b-alice.jpg"]


def test_the_folder_of_an_output_is_known(here):
    (here / "there").mkdir()
    for name, folder in {
        "there": "there",
        "there/": "there",
        "new/": "new",
        "new": None,
        "out.jpg": None,
    }.items():
        assert output_folder(name) == (None if folder is None else Path(folder))


def test_a_name_that_no_file_can_have_is_a_name(here):
    # whoever writes it says what is wrong
    assert outputs(f"{'x' * 300}.jpg", ["b.jpg"]) == [f"{'x' * 300}.jpg"]


def test_no_name_is_not_the_folder_one_is_in():
    refusal("", ["in:b.jpg"])
