import shutil
import sys

import pytest
import torch

import mien.train.deliver

RECIPE = """\
batch = 6
bfloat16 = false
width = 4
[shape]
size = 64
style = 8
fine = 4
widths = [8, 12, 16]
middle = 1
blocks = [1, 1]
"""


@pytest.fixture
def here(tmp_path, monkeypatch, data, nets):
    """A folder with packs, networks and a recipe, and things that are none of these."""
    shutil.copytree(data, tmp_path / "packs")
    shutil.copytree(nets, tmp_path / "nets")
    (tmp_path / "tiny.toml").write_text(RECIPE)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def swap(mien_, here):
    """Run a step of training, with some options in the place of those that work."""

    def command(*more, **options):
        usual = {"data": "packs", "nets": "nets", "out": "out", "config": "tiny.toml"}
        usual |= {"device": "cpu", "steps": "1"}
        given = {name: value for name, value in (usual | options).items() if value is not None}
        return mien_("train", "swap", *(f"--{n}={v}" for n, v in given.items()), *more)

    return command


@pytest.fixture
def state(swap):
    assert swap()[0] == 0
    return "out"


def one_line(code, wanted, errors, *parts):
    """Check a refusal: the code, one line that has all ``parts``, and no talk of a bug."""
    assert code == wanted, errors
    assert errors.count("\n") == 1
    assert errors.startswith("mien: ")
    assert "not foresee" not in errors
    assert "report could not be printed" not in errors
    for part in parts:
        assert part in errors


def test_a_visit_and_the_next_from_its_state(swap, here):
    code, printed, errors = swap(keep="kept")
    assert (code, errors) == (0, "")
    assert "scores step 1" in printed
    assert {"grid.jpg", "log.jsonl", "state.0", "state.json"} == {
        path.name for path in (here / "out").iterdir()
    }
    code, printed, _ = swap("--from=0.2", "--to=0.4", state="out", out="next")
    assert code == 0
    assert "begins at step 1, progress 0.200 to 0.400" in printed


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"data": "missing"}, "data='missing'"),
        ({"data": "empty"}, "NAME.bin"),
        ({"data": "file"}, "data='file'"),
        ({"nets": "missing"}, "nets='missing'"),
        ({"nets": "file"}, "nets='file'"),
        ({"out": "file"}, "File exists"),
        ({"out": "file/out"}, "Not a directory"),
        ({"keep": "file"}, "keep='file'"),
        ({"state": "missing"}, "state.json"),
        ({"state": "empty"}, "state='empty'"),
        ({"config": "missing.toml"}, "No such file"),
        ({"config": "packs"}, "config='packs'"),
        ({"steps": "0"}, "'--steps'"),
        ({"steps": None}, "--steps"),
        ({"minutes": "3"}, "contradict"),
        ({"steps": None, "minutes": "nan"}, "'--minutes'"),
        ({"device": "tpu"}, "'--device'"),
        ({"from": "0.8", "to": "0.2"}, "from=0.8"),
        ({"from": "2"}, "'--from'"),
    ],
    ids=str,
)
def test_options_that_cannot_be(swap, options, part):
    code, _, errors = swap(**options)
    one_line(code, 2, errors, part)


def test_packs_for_scores_only_are_no_data(swap, here):
    for path in (here / "packs").glob("[!h]*"):
        path.unlink()
    code, _, errors = swap()
    one_line(code, 2, errors, "data='packs'", "heldout")
    assert not (here / "out").exists()


def test_a_gpu_that_is_not_there(swap, here, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, errors = swap(device="cuda")
    one_line(code, 2, errors, "device='cuda'", "cpu", torch.__version__)
    assert not (here / "out").exists()


@pytest.mark.parametrize(
    "text",
    [b"batch = = 3", b"batch = 3\n\xff", b"bach = 3", b"[weights]\nmash = 3", b"weights = 3"],
    ids=repr,
)
def test_a_recipe_that_is_none(swap, here, text):
    (here / "tiny.toml").write_bytes(text)
    code, _, errors = swap()
    one_line(code, 2, errors, "config='tiny.toml'", "a recipe in TOML")


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("batch", "NAME=VALUE"),
        ("=3", "set='=3'"),
        ("bach=3", "bach"),
        ("weigths.mesh=3", "weigths"),
        ("weights.mash=3", "mash"),
        ("weights=3", "set='weights=3'"),
        ("seed.x=3", "set='seed.x=3'"),
        ("network=mien-9000", "known: mien-256, mien-lite"),
        ("betas=3", "set='betas=3'"),
        ("shape.size=63", "multiple of 16"),
        ("shape.sighs=64", "sighs"),
    ],
)
def test_a_setting_that_the_recipe_does_not_have(swap, here, setting, part):
    code, _, errors = swap("--set", "batch=4", "--set", setting)
    one_line(code, 2, errors, part)
    assert not (here / "out").exists()


def test_a_file_of_a_pack_is_missing(swap, here):
    (here / "packs" / "fine.quad.npy").unlink()
    code, _, errors = swap()
    one_line(code, 1, errors, "packs/fine.quad.npy", "No such file")


def test_a_disk_that_fills_up(swap, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mien.train.state.save_compact", full)
    code, _, errors = swap()
    one_line(code, 1, errors, "a file in out", "No space left on device")


# Exports


def test_a_network_is_exported(mien_, here, state):
    code, printed, errors = mien_("train", "export", state, "made/net.onnx")
    assert (code, errors) == (0, "")
    assert printed.startswith("made/net.onnx: 0.1 MB")
    assert [path.name for path in (here / "made").iterdir()] == ["net.onnx"]


@pytest.mark.parametrize("folder", ["missing", "empty", "file"])
def test_nothing_to_export(mien_, here, folder):
    code, _, errors = mien_("train", "export", folder, "net.onnx")
    one_line(code, 2, errors, f"state='{folder}'", "state.json")


@pytest.mark.parametrize("out", ["packs", "file/net.onnx"])
def test_a_place_for_no_network(mien_, state, out):
    code, _, errors = mien_("train", "export", state, out)
    one_line(code, 2, errors, "out=")


def test_an_export_that_fails_leaves_what_was_there(mien_, here, state, monkeypatch):
    (here / "net.onnx").write_text("old")
    before = sorted(here.iterdir())

    def half(swapper, path, *, int8):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mien.train.deliver, "export", half)
    code, _, errors = mien_("train", "export", state, "net.onnx")
    one_line(code, 1, errors, "net.onnx", "No space left on device")
    assert sorted(here.iterdir()) == before
    assert (here / "net.onnx").read_text() == "old"


def test_an_export_without_onnx(mien_, state, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, errors = mien_("train", "export", state, "net.onnx")
    one_line(code, 1, errors, "pip install --upgrade mien")


# Packs: what can be wrong with each is in test_build.py


def test_a_pack_is_made(mien_, here, portraits):
    folder = portraits["ada"].parent
    code, printed, errors = mien_("train", "pack", folder, "made/pack", "--size=64")
    assert (code, printed, errors) == (0, "6 pictures, 6 packed\n", "")
    assert len(list((here / "made").iterdir())) == 4


@pytest.mark.parametrize(
    ("arguments", "wanted", "part"),
    [
        (("missing", "pack"), 2, "folder='missing'"),
        (("file", "pack"), 2, "folder='file'"),
        (("empty", "pack"), 2, "a folder with pictures"),
        (("people", "packs"), 2, "out='packs'"),
        (("people", "file/pack"), 2, "out='file/pack'"),
        (("people", "pack", "--age=missing.onnx"), 2, "No such file"),
        (("people", "pack", "--age=file"), 2, "age='file'"),
        (("people", "pack", "--size=8"), 2, "'--size'"),
        (("nobody", "pack"), 3, "1 pictures, 1 unreadable"),
    ],
    ids=str,
)
def test_a_pack_that_cannot_be(mien_, here, portraits, arguments, wanted, part):
    (here / "people").mkdir()
    shutil.copy(portraits["ada"], here / "people")
    (here / "nobody").mkdir()
    (here / "nobody" / "broken.jpg").write_text("x")
    before = sorted(here.iterdir())
    code, _, errors = mien_("train", "pack", *arguments)
    one_line(code, wanted, errors, part)
    assert sorted(here.iterdir()) == before
