"""The catalogue: shipped cards are true, damaged files are not run, and a contract is data."""

from __future__ import annotations

import hashlib
import json
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from conftest import CONSENT
from onnx import TensorProto, helper

from mien import Catalogue, Frame, Swapper
from mien.engines import OnnxEngine
from mien.errors import (
    CardInvalid,
    MienError,
    UnknownModel,
    WeightsCorrupt,
    WeightsMissing,
)
from mien.geometry import template
from mien.models import ROLES, read_weights
from mien.stages.align import align

ROOT = Path(__file__).parents[2]
NAMES = [
    *("retinaface", "yunet", "facemesh", "sface", "mien-256", "mien-lite", "mien-occlusion"),
    *("faceres-age", "open-nsfw", "mien-watermark"),
]
WEIGHTS = b"not a network, and nobody should find out"


def write_card(
    folder, *, weights=WEIGHTS, stem="tiny", top=None, contract=None, pixels=None, drop=()
):
    """Write a valid swapper card and its weights; change or drop keys of its tables."""
    tables = {
        "": {
            "name": stem,
            "role": "swapper",
            "summary": "a network for a test",
            "file": f"{stem}.onnx",
            "size": len(weights),
            "sha256": hashlib.sha256(weights).hexdigest(),
            "licence": "CC0-1.0",
            "commercial": True,
            "origin": "generated here",
            **(top or {}),
        },
        "contract": {
            "target": "target",
            "source": "source",
            "output": "output",
            "size": 64,
            "template": "ffhq_512",
            "space": "sface",
            **(contract or {}),
        },
        "contract.pixels": pixels or {},
    }
    lines = []
    for title, table in tables.items():
        lines += [f"[{title}]"] * bool(title)
        lines += [
            f"{key} = {json.dumps(value)}"
            for key, value in table.items()
            if f"{title}.{key}".lstrip(".") not in drop
        ]
    (folder / f"{stem}.onnx").write_bytes(weights)
    path = folder / f"{stem}.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def sessions(monkeypatch):
    """Count the sessions that ONNX Runtime is asked to open; none is opened."""
    opened = []
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *a, **k: opened.append(a))
    return opened


# The shipped cards


def test_the_package_ships_these_networks_by_role_and_name():
    assert [card.name for card in Catalogue()] == NAMES
    assert [card.role for card in Catalogue()] == sorted(
        (card.role for card in Catalogue()), key=ROLES.index
    )
    assert len(Catalogue()) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_file_is_the_one_its_card_describes(name):
    card = Catalogue().card(name)
    content = card.read()
    assert card.present
    assert len(content) == card.size
    assert hashlib.sha256(content).hexdigest() == card.sha256
    stored = card.file.read_bytes()
    assert (lzma.decompress(stored) if card.file.suffix == ".xz" else stored) == content


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_network_travels_with_its_licence(name):
    card = Catalogue().card(name)
    assert card.licence
    assert card.origin
    assert card.notice is not None
    assert card.notice.read_text(encoding="utf-8").strip()
    assert card.file.name.removesuffix(".xz") in (ROOT / "NOTICE").read_text(encoding="utf-8")


def test_every_shipped_weights_file_has_a_card():
    cards = {card.file for card in Catalogue() if not card.package}
    (folder,) = {file.parent for file in cards}
    assert {*folder.glob("*.onnx"), *folder.glob("*.xz")} == cards


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_contract_speaks_of_its_own_network(name):
    card = Catalogue().card(name)
    graph = onnx.load_from_string(card.read()).graph
    ports = {port.name for port in (*graph.input, *graph.output)}
    keys = ("input", "output", "target", "source", "mesh", "presence")
    named = {getattr(card.contract, key) for key in keys if hasattr(card.contract, key)}
    assert named
    assert named <= ports
    if hasattr(card.contract, "template"):
        assert template(card.contract.template).name == card.contract.template
    if hasattr(card.contract, "space"):
        assert Catalogue().card(card.contract.space, "embedder")


def test_reading_the_catalogue_needs_no_torch():
    code = (
        "import sys; from mien.models import Catalogue; list(Catalogue());"
        "sys.exit(' '.join({'torch', 'onnxruntime', 'numpy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")


# Damaged weights


@pytest.mark.parametrize(
    "damaged",
    [WEIGHTS[:-1], b"", WEIGHTS + b"\0", WEIGHTS[:9] + bytes([WEIGHTS[9] ^ 1]) + WEIGHTS[10:]],
    ids=["truncated", "empty", "longer", "flipped bit"],
)
def test_damaged_weights_are_not_run(tmp_path, sessions, damaged):
    write_card(tmp_path)
    (tmp_path / "tiny.onnx").write_bytes(damaged)
    card = Catalogue(tmp_path).card("tiny")
    with pytest.raises(WeightsCorrupt) as caught:
        OnnxEngine("tiny", card.read)
    assert str(card.file) in str(caught.value)
    assert f"{len(damaged)} bytes" in str(caught.value)
    assert caught.value.model == "tiny"
    assert sessions == []


def test_missing_weights_are_named(tmp_path, sessions):
    write_card(tmp_path)
    (tmp_path / "tiny.onnx").unlink()
    card = Catalogue(tmp_path).card("tiny")
    assert not card.present
    with pytest.raises(WeightsMissing) as caught:
        OnnxEngine("tiny", card.read)
    assert str(card.file) in str(caught.value)
    assert caught.value.model == "tiny"
    assert sessions == []


def test_weights_that_cannot_be_read_are_named_with_the_cause(tmp_path, sessions):
    write_card(tmp_path)
    (tmp_path / "tiny.onnx").unlink()
    (tmp_path / "tiny.onnx").mkdir()
    card = Catalogue(tmp_path).card("tiny")
    with pytest.raises(WeightsMissing, match="directory") as caught:
        OnnxEngine("tiny", card.read)
    assert str(card.file) in str(caught.value)
    assert sessions == []


def test_a_card_with_another_size_than_the_file_is_refused(tmp_path):
    write_card(tmp_path, top={"size": len(WEIGHTS) + 1})
    with pytest.raises(WeightsCorrupt):
        Catalogue(tmp_path).card("tiny").read()


def test_a_swapper_is_not_built_on_damaged_weights(tmp_path, sessions):
    shipped = Catalogue().card("yunet")
    text = (shipped.file.parent / "yunet_2023mar.toml").read_text(encoding="utf-8")
    (tmp_path / "yunet.toml").write_text(text, encoding="utf-8")
    (tmp_path / shipped.file.name).write_bytes(shipped.file.read_bytes()[:-1])
    with pytest.raises(WeightsCorrupt, match="not run"):
        Swapper(models=tmp_path)
    assert sessions == []


def test_packed_weights_are_unpacked_and_checked(tmp_path):
    shipped = Catalogue().card("yunet")
    content = shipped.file.read_bytes()
    packed = tmp_path / "net.onnx.xz"
    packed.write_bytes(lzma.compress(content))
    assert read_weights("net", packed, shipped.size, shipped.sha256) == content
    whole = packed.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", b"no archive", content):
        packed.write_bytes(damaged)
        if damaged == content:  # the right bytes under the wrong name do no harm
            assert read_weights("net", packed, shipped.size, shipped.sha256) == content
            continue
        with pytest.raises(WeightsCorrupt, match="not run"):
            read_weights("net", packed, shipped.size, shipped.sha256)


# Cards that are not valid


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"top": {"colour": "blue"}}, "colour"),
        ({"contract": {"colour": "blue"}}, "colour"),
        ({"contract": {"size": 5427815}}, "size"),
        ({"contract": {"size": 0}}, "size"),
        ({"pixels": {"colour": "blue"}}, "colour"),
        ({"drop": ["sha256"]}, "sha256"),
        ({"drop": ["file"]}, "file"),
        ({"drop": ["role"]}, "role"),
        ({"drop": ["contract.space"]}, "space"),
        ({"top": {"role": "painter"}}, "painter"),
        ({"pixels": {"order": "GBR"}}, "GBR"),
        ({"pixels": {"layout": "CHWN"}}, "CHWN"),
        ({"pixels": {"low": 1.0, "high": 1.0}}, "low"),
        ({"pixels": {"mean": [0.5, 0.5]}}, "mean"),
        ({"pixels": {"std": [0.5, 0.5]}}, "std"),
        ({"pixels": {"std": [0.5, 0.5, 0.0]}}, "std"),
        ({"pixels": {"mean": ["a", "b", "c"]}}, "mean"),
        ({"top": {"size": "large"}}, "size"),
        ({"top": {"commercial": "no"}}, "commercial"),
        ({"top": {"name": ["tiny"]}}, "name"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else value,
)
def test_an_invalid_card_is_refused_and_the_fault_named(tmp_path, changes, fault):
    path = write_card(tmp_path, **changes)
    with pytest.raises(CardInvalid) as caught:
        Catalogue(tmp_path)
    assert str(path) in str(caught.value)
    assert fault in str(caught.value).replace(str(path), "")
    assert caught.value.model == "tiny"


@pytest.mark.parametrize(
    "text",
    [
        b"name = ",
        b"\xff\xfe",
        b"",
        b'role = "swapper"\nfile = "x"',
        b'role = "swapper"\nfile = "x"\ncontract = 3',
        b'role = "swapper"\nfile = "x"\n[contract]\npixels = 3',
    ],
    ids=["not TOML", "not UTF-8", "empty", "no contract", "number for contract", "for pixels"],
)
def test_a_file_that_is_no_card_is_refused(tmp_path, text):
    (tmp_path / "odd.toml").write_bytes(text)
    with pytest.raises(CardInvalid, match=r"odd\.toml") as caught:
        Catalogue(tmp_path)
    assert caught.value.model == "odd"


def test_a_folder_in_the_place_of_a_card_is_refused(tmp_path):
    (tmp_path / "odd.toml").mkdir()
    with pytest.raises(CardInvalid, match=r"odd\.toml"):
        Catalogue(tmp_path)


def test_a_folder_of_models_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(MienError, match="nowhere"):
        Catalogue(tmp_path / "nowhere")


# Names


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownModel) as caught:
        Catalogue().card("nobody")
    assert all(name in str(caught.value) for name in ["'nobody'", *NAMES])
    assert (caught.value.model, caught.value.role) == ("nobody", None)


@pytest.mark.parametrize("name", ["nobody", "sface"])
def test_a_name_of_another_role_is_unknown_and_only_that_role_is_listed(name):
    with pytest.raises(UnknownModel, match="detector named") as caught:
        Catalogue().card(name, "detector")
    assert "Known: retinaface, yunet." in str(caught.value)
    assert caught.value.role == "detector"


def test_a_users_folder_adds(tmp_path):
    write_card(tmp_path, top={"measured": {}})
    catalogue = Catalogue(tmp_path)
    assert sorted(card.name for card in catalogue) == sorted([*NAMES, "tiny"])
    assert catalogue.card("tiny", "swapper").read() == WEIGHTS
    assert catalogue.card("tiny").notice is None


def test_a_users_folder_overrides(tmp_path):
    write_card(tmp_path, top={"name": "mien-256"})
    catalogue = Catalogue(tmp_path)
    assert len(catalogue) == len(NAMES)
    assert catalogue.card("mien-256").file == tmp_path / "tiny.onnx"


# A contract is data


def painter(*, layout, order, gain, shift):
    """Return a swap network of 64 px and the (128, 3) matrix its colours come from.

    The upper 36 rows get a colour in the network's own channel order, sigmoid(source @ matrix),
    scaled by ``gain`` and ``shift``; the rows below get the mean of the target it was given.
    """
    last = layout == "NHWC"
    shape, axes = ("N", 64, 64, 3) if last else ("N", 3, 64, 64), [1, 2] if last else [2, 3]
    pixel = (-1, 1, 1, 3) if last else (-1, 3, 1, 1)
    matrix = np.random.default_rng(5).normal(0, 4, (128, 3)).astype(np.float32)
    upper = np.zeros((64, 64), np.float32)
    upper[:36] = 1
    upper = upper[None, :, :, None] if last else upper[None, None]
    channels = np.asarray(shift, np.float32)[:: -1 if order == "BGR" else 1]
    constants = {
        "matrix": matrix,
        "gain": np.float32(gain),
        "shift": channels.reshape(pixel[1:]),
        "upper": upper,
        "lower": 1 - upper,
        "pixel": np.array(pixel, np.int64),
    }
    nodes = [
        helper.make_node("MatMul", ["source", "matrix"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["flat"]),
        helper.make_node("Reshape", ["flat", "pixel"], ["unit"]),
        helper.make_node("Mul", ["unit", "gain"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift"], ["colour"]),
        helper.make_node("ReduceMean", ["target"], ["mean"], axes=axes, keepdims=1),
        helper.make_node("Mul", ["colour", "upper"], ["above"]),
        helper.make_node("Mul", ["mean", "lower"], ["below"]),
        helper.make_node("Add", ["above", "below"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "painter",
        [
            helper.make_tensor_value_info("target", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("source", TensorProto.FLOAT, ("N", 128)),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString(), matrix


@pytest.mark.parametrize(
    ("pixels", "gain", "shift"),
    [
        ({"layout": "NHWC", "order": "BGR"}, 1, (0, 0, 0)),
        ({"order": "BGR", "high": 255.0, "mean": [123.0, 117.0, 104.0]}, 255, (-123, -117, -104)),
    ],
    ids=["NHWC BGR 0..1", "NCHW BGR 0..255 less mean"],
)
def test_another_familys_swapper_needs_only_a_card(tmp_path, load, pixels, gain, shift):
    layout = pixels.get("layout", "NCHW")
    network, matrix = painter(layout=layout, order=pixels["order"], gain=gain, shift=shift)
    write_card(tmp_path, weights=network, pixels=pixels)
    swapper = Swapper(model="tiny", models=tmp_path, color_match=False, threads=1)
    frame = Frame(torch.from_numpy(load("ben")))
    painted = []
    for source in ("dev", "mei"):
        identity = swapper.identity(load(source), consent=CONSENT)
        result = swapper.swap(frame.pixels, identity)
        points = result.faces.points[0].numpy()
        brow, mouth = points[:2].mean(axis=0).round(), points[3:].mean(axis=0).round()
        above, below = (result.pixels[int(y), int(x)].astype(float) for x, y in (brow, mouth))
        blue_green_red = 1 / (1 + np.exp(-(identity.embedding.numpy() @ matrix)))
        assert np.abs(above - 255 * blue_green_red[::-1]).max() <= 1
        crop = align(frame, result.faces[0], Catalogue(tmp_path).card("tiny").contract).pixels
        assert np.abs(below - 255 * crop.mean(dim=(0, 2, 3)).numpy()).max() <= 1
        painted.append(above)
    assert np.abs(painted[0] - painted[1]).max() > 20


@pytest.mark.parametrize(
    ("contract", "fault", "help_"),
    [
        ({"template": "profile_99"}, "profile_99", "ffhq_512"),
        ({"space": "yunet"}, "yunet", "sface"),
        ({"target": "no_such_input"}, "no_such_input", "tiny"),
        ({"output": "no_such_output"}, "no_such_output", "tiny"),
    ],
    ids=["template", "space", "input", "output"],
)
def test_a_contract_that_does_not_fit_is_a_mien_error_with_a_way_out(
    tmp_path, load, contract, fault, help_
):
    network, _ = painter(layout="NHWC", order="BGR", gain=1, shift=(0, 0, 0))
    write_card(tmp_path, weights=network, pixels={"layout": "NHWC"}, contract=contract)

    def swap():
        swapper = Swapper(model="tiny", models=tmp_path, threads=1)
        return swapper.swap(load("ben"), swapper.identity(load("dev"), consent=CONSENT))

    with pytest.raises(MienError, match=fault) as caught:
        swap()
    assert help_ in str(caught.value)
