import numpy as np
import pytest
import torch

from mien.nets.frozen import Graph, Operator
from mien.train.faces import OVAL
from mien.train.packs import write_pack
from mien.train.recipe import from_table

TINY = {
    "batch": 6,
    "bfloat16": False,
    "width": 4,
    "warm_up": 2,
    "shape": {
        "size": 64,
        "style": 8,
        "fine": 4,
        "widths": [8, 12, 16],
        "middle": 1,
        "blocks": [1, 1],
    },
}


@pytest.fixture
def recipe():
    return from_table(TINY)


def small_net(outputs, side, *, nhwc=False):
    """A graph that takes pictures of ``side`` pixels and returns ``outputs`` numbers."""
    random = torch.Generator().manual_seed(outputs)
    cells = (side // 16) ** 2
    tensors = {
        "kernel": torch.randn(4, 3, 16, 16, generator=random) / 30,
        "weight": torch.randn(outputs, 4 * cells, generator=random) / (4 * cells) ** 0.5,
        "bias": torch.randn(outputs, generator=random) * 0.1 * side + (side / 2) * nhwc,
    }
    steps = [
        Operator("Conv", ["planes" if nhwc else "x", "kernel"], ["seen"], {"strides": [16, 16]}),
        Operator("Relu", ["seen"], ["kept"], {}),
        Operator("Flatten", ["kept"], ["flat"], {}),
        Operator("Gemm", ["flat", "weight", "bias"], ["y"], {"transB": 1}),
    ]
    if nhwc:
        steps.insert(0, Operator("Transpose", ["x"], ["planes"], {"perm": [0, 3, 1, 2]}))
    return Graph(steps, tensors, ["x"], ["y"])


def put_oval(bias, side):
    """Give a face mesh an outline, clockwise as seen: nothing else of a swap is looked at."""
    angle = torch.arange(len(OVAL)) * (2 * torch.pi / len(OVAL)) - torch.pi / 2
    ring = torch.stack([angle.cos() * 0.4, angle.sin() * 0.4], dim=1) * side + side / 2
    bias.view(468, 3)[OVAL, :2] = ring


def age_net():
    """A graph that sees the mean colour, and takes the bright for 80 and the dark for 2 or so."""
    kernel = torch.zeros(3, 100)
    kernel[:, 80], kernel[:, 2] = 1 / 30, -1 / 30
    tensors = {"kernel": kernel, "bias": torch.zeros(100)}
    tensors["bias"][2] = 12.0
    steps = [
        Operator("Transpose", ["x"], ["planes"], {"perm": [0, 3, 1, 2]}),
        Operator("GlobalAveragePool", ["planes"], ["mean"], {}),
        Operator("Squeeze", ["mean"], ["global_pooling/Mean:0"], {}),
        Operator("MatMul", ["global_pooling/Mean:0", "kernel"], ["scores"], {}),
        Operator("Add", ["scores", "bias"], ["logits"], {}),
        Operator("Softmax", ["logits"], ["age_pred/Softmax:0"], {}),
    ]
    return Graph(steps, tensors, ["x"], ["global_pooling/Mean:0", "age_pred/Softmax:0"])


@pytest.fixture(scope="session")
def nets(tmp_path_factory):
    """Folder with networks of the right inputs and outputs, and of no skill: they are fast."""
    folder = tmp_path_factory.mktemp("nets")
    small_net(128, 112).save(folder / "sface.pt")
    small_net(32, 112).save(folder / "feature.pt")
    small_net(16, 112).save(folder / "judge.pt")
    mesh = small_net(1404, 192, nhwc=True)
    put_oval(mesh.tensors["bias"], 192)
    mesh.save(folder / "facemesh.pt")
    age_net().save(folder / "age.pt")
    return folder


def picture(seed, size):
    """Smooth noise: it has to be coded, embedded and told apart, not to look like a face."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (4, 4, 3)).astype(np.float32)
    rows = np.linspace(0, 3, size)
    low = np.floor(rows).astype(int).clip(0, 2)
    share = (rows - low)[:, None, None]
    tall = coarse[low] * (1 - share) + coarse[low + 1] * share
    share = (rows - low)[None, :, None]
    return (tall[:, low] * (1 - share) + tall[:, low + 1] * share).astype(np.uint8)


@pytest.fixture(name="picture")
def picture_fixture():
    return picture


def quad(left, top, right, bottom):
    corners = [[left, top], [right, top], [right, bottom], [left, bottom]]
    return np.array(corners, dtype=np.float32)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Packs: whole ones, cut ones, small ones of people with two pictures, and held-out ones."""
    folder = tmp_path_factory.mktemp("packs")
    whole, cut, small = quad(-9, -9, 73, 73), quad(10, 20, 60, 60), quad(0, 0, 32, 32)
    packs = {
        "fine": (64, [0, 1, 2, 3], [whole, whole, cut, cut]),
        "small": (32, [10, 10, 11, 11], [small] * 4),
        "heldout": (64, [20, 21, 22, 23, 24, 25, 26, 27], [whole] * 8),
    }
    for name, (size, people, quads) in packs.items():
        pictures = [picture(100 * size + 10 * p + i, size) for i, p in enumerate(people)]
        write_pack(folder / name, pictures, people, quads)
    return folder
