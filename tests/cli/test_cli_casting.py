"""``mien swap``: whose face goes where (T10), and options that contradict each other."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import CONSENT, scene
from pictures import landscape, names
from PIL import Image

from mien.engines import OnnxEngine
from mien.media import read_picture

SIDE = 256
WHO = ("ben", "ada", "mei")

pytestmark = pytest.mark.usefixtures("no_watermark")


@pytest.fixture(scope="module")
def three(load, tmp_path_factory):
    """A picture of three people in a row, from left to right: ben, ada, mei."""
    path = tmp_path_factory.mktemp("scene") / "three.png"
    Image.fromarray(scene([load(name) for name in WHO], SIDE, 3).numpy()).save(path)
    return path


def pixels(path):
    return read_picture(path).frame.pixels.numpy()


def changed(before, after):
    """Say which people look different now; nothing of the others has changed, to the bit."""
    differs = (pixels(before) != pixels(after)).any(axis=(0, 2))
    return [name for i, name in enumerate(WHO) if differs[i * SIDE : (i + 1) * SIDE].any()]


# Who got whose face (T10)


def test_two_people_swapped_crosswise_get_each_others_face(mien_, tmp_path, people, three, swapper):
    out = tmp_path / "out.png"
    code, printed, errors = mien_(
        *("swap", three, "-o", out, "--consent", CONSENT, "--json"),
        *("--map", f"{people['ben']}={people['ada']}", "--map", f"{people['ada']}={people['ben']}"),
    )
    assert (code, errors) == (0, "")
    report = json.loads(printed)
    # by role
    where = {face["index"]: WHO[int(face["box"][0] // SIDE)] for face in report["faces"]}
    assert {where[row["face"]]: row["role"] for row in report["swapped"]} == {"ada": 0, "ben": 1}
    assert len(report["consents"]) == 2
    assert report["missing"] == []
    for row in report["swapped"]:
        assert report["faces"][row["face"]]["distances"][row["role"]] < 0.3
    # by what is in the picture now
    assert changed(three, out) == ["ben", "ada"]
    ben, ada = (swapper.reference(people[name]).embedding for name in ("ben", "ada"))
    left, middle = (
        swapper.reference(np.ascontiguousarray(pixels(out)[:, i * SIDE : (i + 1) * SIDE])).embedding
        for i in range(2)
    )
    assert float(left @ ada) > float(left @ ben)
    assert float(middle @ ben) > float(middle @ ada)


@pytest.fixture
def sources(monkeypatch):
    """Let the swap network record the identities it is given; it makes a negative."""
    call, seen = OnnxEngine.__call__, []

    def quick(engine, inputs):
        if engine.model != "mien-256":
            return call(engine, inputs)
        seen.extend(inputs["source"].clone())
        return {"output": -inputs["target"]}

    monkeypatch.setattr(OnnxEngine, "__call__", quick)
    return seen


@pytest.mark.parametrize("suffix", [".toml", ".yaml"])
def test_a_file_maps_many(mien_, loaded, sources, tmp_path, people, three, swapper, suffix):
    rows = [("dev", "mei"), ("femi", "ben"), ("eva", "ada")]
    if suffix == ".toml":
        text = "".join(
            f"[[map]]\nsource = '{people[a]}'\ntarget = ['{people[b]}']\n" for a, b in rows
        )
    else:
        text = json.dumps(
            {"map": [{"source": [str(people[a])], "target": str(people[b])} for a, b in rows]}
        )
    (tmp_path / f"map{suffix}").write_text(text)
    out = tmp_path / "out.png"
    code, printed, _ = mien_(
        *("swap", three, "-o", out, "--map", tmp_path / f"map{suffix}"),
        *("--consent", CONSENT, "--json"),
    )
    assert code == 0
    assert changed(three, out) == list(WHO)
    report = json.loads(printed)
    where = {face["index"]: WHO[int(face["box"][0] // SIDE)] for face in report["faces"]}
    roles = {where[row["face"]]: row["role"] for row in report["swapped"]}
    assert roles == {"mei": 0, "ben": 1, "ada": 2}
    wanted = {name: swapper.reference(people[name]).embedding for name, _ in rows}
    got = {name for name, who in wanted.items() for each in sources if float(each @ who) > 0.9999}
    assert got == {"dev", "femi", "eva"}


def test_the_file_may_state_consent(mien_, loaded, tmp_path, people, three):
    for name in ("eva", "femi"):
        with Image.open(people[name]) as image:
            image.crop((3, 3, 253, 250)).save(tmp_path / f"{name}.png")
    row = "[[map]]\nsource = '{}.png'\ntarget = '{}'\n"
    both = row.format("eva", people["ben"]) + "consent = 'I am Eva.'\n"
    both += row.format("femi", people["ada"])
    (tmp_path / "map.toml").write_text(both)
    command = ("swap", three, "-o", tmp_path / "out.png", "--map", tmp_path / "map.toml", "--json")
    code, _, errors = mien_(*command)
    assert code == 4
    assert "femi.png" in errors
    code, printed, _ = mien_(*command, "--consent", "I am Femi.")
    assert code == 0
    assert len(set(json.loads(printed)["consents"])) == 2


@pytest.mark.parametrize("name", WHO)
def test_only_the_person_on_a_picture_is_replaced(mien_, loaded, tmp_path, people, three, name):
    out = tmp_path / "out.png"
    code, printed, errors = mien_(
        *("swap", people["dev"], three, "-o", out, "--only", people[name], "--consent", CONSENT)
    )
    assert (code, errors) == (0, "")
    assert "1 of 3 faces swapped" in printed
    assert changed(three, out) == [name]


def test_a_person_who_is_absent_is_three_with_the_distance(mien_, loaded, tmp_path, people, three):
    command = ("swap", people["dev"], three, "-o", tmp_path / "o.png", "--consent", CONSENT)
    code, printed, errors = mien_(*command, "--only", people["femi"])
    assert (code, printed) == (3, "")
    seen = json.loads(mien_("faces", three, "--against", people["femi"], "--json")[1])["faces"]
    nearest = min(face["distances"][0] for face in seen)
    assert f"{nearest:.2f}" in errors
    assert "0.64" in errors  # the limit
    assert "three.png" in errors
    assert names(tmp_path) == []
    # within a looser limit whoever looks most alike is taken for her
    limits = (nearest - 0.002, nearest + 0.002)
    codes = [mien_(*command, "--only", people["femi"], "--max-distance", x)[0] for x in limits]
    assert codes == [3, 0]
    assert len(changed(three, tmp_path / "o.png")) == 1


def test_the_limit_may_be_a_setting(mien_, loaded, tmp_path, people, three, monkeypatch):
    command = ("swap", people["dev"], three, "-o", tmp_path / "o.png", "--consent", CONSENT)
    femi = ("--only", people["femi"])  # who is not in the picture
    assert mien_(*command, *femi)[0] == 3
    monkeypatch.setenv("MIEN_MAX_DISTANCE", "0.95")
    assert mien_(*command, *femi)[0] == 0
    assert mien_(*command, *femi, "--max-distance", "0.6")[0] == 3
    # it is no option that was given, so it contradicts none
    assert mien_(*command, "--faces", "all")[0] == 0


def test_a_person_seen_twice_is_replaced_once_or_everywhere(mien_, loaded, tmp_path, people, load):
    twins, out = tmp_path / "twins.png", tmp_path / "out.png"
    Image.fromarray(scene([load(n) for n in ("ben", "ada", "ben")], SIDE, 3).numpy()).save(twins)
    command = ("swap", people["dev"], twins, "-o", out, "--only", people["ben"])
    assert mien_(*command, "--consent", CONSENT)[0] == 0
    assert len(changed(twins, out)) == 1
    code, printed, _ = mien_(*command, "--faces", "all")
    assert (code, "2 of 3 faces" in printed) == (0, True)
    assert changed(twins, out) == ["ben", "mei"]  # by their places
    pairs = (f"{people['dev']}={people['ben']}", f"{people['eva']}={people['ada']}")
    crosswise = ("--map", pairs[0], "--map", pairs[1])
    for more, places in (([], 2), (["--faces", "all"], 3)):
        code, printed, _ = mien_("swap", twins, "-o", out, *crosswise, *more, "--consent", CONSENT)
        assert (code, len(changed(twins, out))) == (0, places)
        assert f"{places} of 3 faces" in printed


@pytest.mark.parametrize(
    ("options", "who"),
    [
        (["--faces", "all"], WHO),
        (["--faces", "0", "--order", "left-right"], ["ben"]),
        (["--faces", "2,0", "--order", "left-right"], ["ben", "mei"]),
        (["--faces", "0", "--order", "right-left"], ["mei"]),
        (["--faces", " 1 , 0", "--order", "right-left"], ["ada", "mei"]),
    ],
)
def test_faces_are_chosen_by_number(mien_, loaded, tmp_path, people, three, options, who):
    out = tmp_path / "out.png"
    command = ("swap", people["dev"], three, "-o", out, "--consent", CONSENT)
    assert mien_(*command, *options)[0] == 0
    assert changed(three, out) == list(who)


def test_numbers_of_size_are_those_that_faces_are_listed_with(
    mien_, loaded, tmp_path, people, three
):
    listed = json.loads(mien_("faces", three, "--json")[1])["faces"]
    for face in listed:
        out = tmp_path / "out.png"
        command = ("swap", people["dev"], three, "-o", out, "--consent", CONSENT)
        assert mien_(*command, "--faces", face["index"])[0] == 0
        assert changed(three, out) == [WHO[int(face["box"][0] // SIDE)]]


def test_a_number_that_is_not_there_is_three_and_next_to_others_it_is_five(
    mien_, loaded, tmp_path, people, three
):
    out = tmp_path / "out.png"
    command = ("swap", people["dev"], three, "-o", out, "--consent", CONSENT)
    code, printed, errors = mien_(*command, "--faces", "3,7")
    assert (code, printed) == (3, "")
    assert "three.png has 3 faces, 0 to 2; there is no face 3, 7" in errors
    assert names(tmp_path) == []
    code, printed, errors = mien_(*command, "--faces", "3,1", "--order", "left-right")
    assert (code, "1 of 3 faces swapped" in printed) == (5, True)
    assert f"face 3 is not in {three}" in errors
    assert changed(three, out) == ["ada"]
    code, printed, _ = mien_(*command, "--faces", "3,1", "--order", "left-right", "--json")
    assert (code, json.loads(printed)["missing"]) == (5, [3])


def test_who_of_a_map_is_not_there_is_said(mien_, loaded, tmp_path, people, three):
    code, printed, errors = mien_(
        *("swap", three, "-o", tmp_path / "out.png", "--consent", CONSENT),
        *(
            "--map",
            f"{people['dev']}={people['femi']}",
            "--map",
            f"{people['dev']}={people['ben']}",
        ),
    )
    assert (code, "1 of 3 faces" in printed) == (0, True)
    assert f"femi.png is not in {three}" in errors
    assert "ben.png" not in errors


def test_the_same_in_python_gives_the_same_pixels(mien_, loaded, tmp_path, people, three, swapper):
    def source(name):
        return swapper.identity(people[name], consent=CONSENT)

    dev, eva = source("dev"), source("eva")
    ways = [
        ([], {"who": dev}),
        (["--faces", "all"], {"who": dev, "faces": "all"}),
        (
            ["--faces", "0,2", "--order", "left-right"],
            {"who": dev, "faces": [0, 2], "order": "left-right"},
        ),
        (["--only", people["ada"]], {"who": dev, "only": people["ada"]}),
        (
            ["--only", people["femi"], "--max-distance", "0.9"],
            {"who": dev, "only": people["femi"], "max_distance": 0.9},
        ),
        (
            [
                "--map",
                f"{people['dev']}={people['mei']}",
                "--map",
                f"{people['eva']}={people['ben']}",
            ],
            {"map": {dev: people["mei"], eva: people["ben"]}},
        ),
        (["--faces", "all", "--strength", "0.4"], {"who": dev, "faces": "all", "strength": 0.4}),
    ]
    for options, named in ways:
        out = tmp_path / "out.png"
        start = [] if "map" in named else [people["dev"]]
        assert mien_("swap", *start, three, "-o", out, "--consent", CONSENT, *options)[0] == 0
        assert np.array_equal(pixels(out), swapper.swap(three, **named).pixels), options


# Options that contradict each other

MAP = ["--map", "a.png=b.png"]
ONLY = ["--only", "b.png"]
ORDER = ["--order", "left-right"]
FAR = ["--max-distance", "0.5"]


@pytest.mark.parametrize(
    ("options", "both"),
    [
        (["--faces", "largest", *ONLY], ("faces", "only")),
        (["--faces", "0,1", *ONLY], ("faces", "only")),
        (["--faces", "largest", *MAP], ("faces", "map")),
        (["--faces", "0", *MAP], ("faces", "map")),
        ([*ORDER, *ONLY], ("order", "only")),
        ([*ORDER, *ONLY, "--faces", "all"], ("order", "only")),
        ([*ORDER, *MAP], ("order", "map")),
        ([*ORDER], ("order", "faces")),
        ([*ORDER, "--faces", "all"], ("order", "faces")),
        ([*ORDER, "--faces", "largest"], ("order", "faces")),
        (FAR, ("max_distance", "faces")),
        ([*FAR, "--faces", "all"], ("max_distance", "faces")),
        ([*FAR, "--faces", "1", *ORDER], ("max_distance", "faces")),
        ([*ONLY, *MAP], ("only", "map")),
        (["--also", "b.png", *MAP], ("also", "map")),
        (["--also", "b.png", *ONLY, *MAP], ("also", "map")),
    ],
    ids=lambda value: " ".join(value).replace(".png", ""),
)
@pytest.mark.parametrize("there", [True, False], ids=["files", "no files"])
def test_options_that_contradict_are_two_and_named(
    mien_, built, tmp_path, monkeypatch, options, both, there
):
    monkeypatch.chdir(tmp_path)
    if there:
        for name in ("a.png", "b.png"):
            landscape(tmp_path / name)
    before = names(tmp_path)
    start = ["t.png"] if "--map" in options else ["a.png", "t.png"]
    for json_too in ([], ["--json"]):
        code, printed, errors = mien_("swap", *start, "-o", "out.png", *options, *json_too)
        assert (code, built) == (2, [])
        assert all(f"'{name}'" in errors for name in both)
        if json_too:
            error = json.loads(printed)["error"]
            assert (error["kind"], error["exit"]) == ("OptionsConflict", 2)
            assert errors == f"mien: {error['message']}\n"
        else:
            assert printed == ""
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    "options",
    [
        ["--faces", "most"],
        ["--faces", ""],
        ["--faces", "0,0"],
        ["--faces", "0,-1"],
        ["--faces=-1"],
        ["--faces", "0-2"],
        ["--faces", "0.5"],
        ["--faces", "0,"],
        ["--faces", "all,0"],
        ["--faces", "0", "--order", "up"],
        ["--only", "b.png", "--max-distance", "2.1"],
        ["--map", "b.png"],
        ["--map", "m.toml"],
    ],
    ids=" ".join,
)
def test_values_that_cannot_be_are_two(mien_, built, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    code, printed, errors = mien_("swap", "a.png", "t.png", "-o", "out.png", *options)
    assert (code, printed, built) == (2, "", [])
    name = options[-2] if not options[-1].startswith("--") else options[-1].split("=")[0]
    assert name.strip("-").replace("-", "_") in errors.replace("-", "_")


def test_a_person_without_a_face_is_three(mien_, loaded, tmp_path, people, three):
    hills = landscape(tmp_path / "hills.png")
    command = ("swap", people["dev"], three, "-o", tmp_path / "out.png", "--consent", CONSENT)
    code, printed, errors = mien_(*command, "--only", hills)
    assert (code, printed) == (3, "")
    assert "No face was found in hills.png" in errors
    code, _, errors = mien_("swap", three, *command[3:], "--map", f"{people['dev']}={hills}")
    assert (code, "hills.png" in errors) == (3, True)
    assert names(tmp_path) == ["hills.png"]


def test_nobody_is_replaced_by_two(mien_, loaded, tmp_path, people, three):
    code, printed, errors = mien_(
        *("swap", three, "-o", tmp_path / "out.png", "--consent", CONSENT),
        *("--map", f"{people['dev']}={people['ben']}", "--map", f"{people['eva']}={people['ben']}"),
    )
    assert (code, printed) == (2, "")
    assert "same person twice" in errors
