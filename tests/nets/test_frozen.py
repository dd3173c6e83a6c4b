import numpy as np
import onnxruntime as ort
import pytest
import torch

from mien.models import Catalogue
from mien.nets.frozen import FrozenNet, Graph, Operator

NETS = {
    "sface": (((3, 112, 112),), 255.0),
    "facemesh": (((192, 192, 3),), 1.0),
    "mien-256": (((3, 256, 256), (128,)), 1.0),
    "mien-lite": (((3, 160, 160), (128,)), 1.0),
    "mien-watermark": (((1, 64, 96),), 60.0),
    "mien-occlusion": (((3, 128, 128),), 1.0),
    "retinaface": (((3, 200, 264),), 100.0),
    "yunet": (((3, 160, 224),), 255.0),
}


@pytest.mark.parametrize("name", NETS)
def test_a_network_returns_what_onnx_runtime_returns(name, tmp_path):
    shapes, peak = NETS[name]
    content = Catalogue().card(name).read()
    Graph.read(content).save(tmp_path / "net.pt")
    net = FrozenNet.read(tmp_path / "net.pt")
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    draw = torch.Generator().manual_seed(0)
    inputs = [torch.rand(1, *shape, generator=draw) * peak for shape in shapes]
    inputs[0].requires_grad_()
    made = net(*inputs)
    feeds = {p.name: x.detach().numpy() for p, x in zip(session.get_inputs(), inputs, strict=True)}
    for a, b in zip(made, session.run(None, feeds), strict=True):
        assert a.shape == b.shape
        # a single number has no range, and scores of noise have next to none
        scale = max(1.0, float(b.max() - b.min()))
        assert float(np.abs(a.detach().numpy() - b).max()) < 2e-4 * scale
    made[0].sum().backward()
    assert float(inputs[0].grad.abs().sum()) > 0
    assert not list(net.parameters())


def test_a_graph_is_read_from_bytes_and_says_its_shapes(tmp_path):
    content = Catalogue().card("mien-lite").read()
    graph = Graph.read(content)
    assert (graph.inputs, graph.outputs) == (["target", "source"], ["output"])
    assert graph.shapes["source"] == (None, 128)
    graph.save(tmp_path / "net.pt")
    assert Graph.read((tmp_path / "net.pt").read_bytes()).shapes == graph.shapes


def test_a_file_from_when_a_graph_had_one_input_still_opens(tmp_path):
    step = {"kind": "Relu", "inputs": ["x"], "outputs": ["y"], "attributes": {}}
    old = {"operators": [step], "tensors": {}, "input": "x", "outputs": ["y"]}
    torch.save(old, tmp_path / "old.pt")
    (y,) = FrozenNet.read(tmp_path / "old.pt")(torch.tensor([-1.0, 2.0]))
    assert y.tolist() == [0.0, 2.0]


def norm(name_in, name_out):
    return Operator("BatchNormalization", [name_in, "g", "b", "m", "v"], [name_out], {})


def test_a_batch_norm_is_merged_into_its_convolution_unless_that_is_read_twice():
    random = torch.Generator().manual_seed(0)
    tensors = {"w": torch.randn(4, 3, 1, 1, generator=random)}
    tensors |= {n: torch.rand(4, generator=random) + 0.5 for n in "gbmv"}
    conv = Operator("Conv", ["x", "w"], ["c"], {})
    once = Graph([conv, norm("c", "n")], tensors, ["x"], ["n"])
    twice = Graph(
        [conv, norm("c", "n"), Operator("Add", ["c", "n"], ["s"], {})], tensors, ["x"], ["s"]
    )
    x = torch.randn(2, 3, 5, 5, generator=random)
    c = torch.nn.functional.conv2d(x, tensors["w"])
    n = torch.nn.functional.batch_norm(c, *(tensors[k] for k in "mvgb"))
    assert [step.kind for step in FrozenNet(once)._steps] == ["Conv"]
    torch.testing.assert_close(FrozenNet(once)(x)[0], n)
    torch.testing.assert_close(FrozenNet(twice)(x)[0], c + n)


def modulation(*, outputs):
    steps = [
        Operator("InstanceNormalization", ["x", "ones", "zeros"], ["n"], {"epsilon": 1e-5}),
        Operator("Mul", ["gain", "n"], ["m"], {}),
        Operator("Add", ["m", "bias"], ["y"], {}),
    ]
    tensors = {"ones": torch.ones(3), "zeros": torch.zeros(3)}
    return FrozenNet(Graph(steps, tensors, ["x", "gain", "bias"], outputs))


def test_a_modulated_norm_is_one_operator_unless_its_parts_are_wanted():
    draw = torch.Generator().manual_seed(0)
    x, gain, bias = (torch.randn(2, 3, *side, generator=draw) for side in ((8, 8), (1, 1), (1, 1)))
    plain = torch.nn.functional.instance_norm(x)
    net = modulation(outputs=["y"])
    assert [step.kind for step in net._steps] == ["Modulation"]
    torch.testing.assert_close(net(x, gain, bias)[0], plain * gain + bias)
    net = modulation(outputs=["y", "n"])
    assert [step.kind for step in net._steps] == ["InstanceNormalization", "Mul", "Add"]
    torch.testing.assert_close(net(x, gain, bias), [plain * gain + bias, plain])


def test_a_flat_channel_does_not_overflow_float16():
    x = torch.full((1, 3, 8, 8), 300.0, dtype=torch.float16)
    one = torch.ones(1, 3, 1, 1, dtype=torch.float16)
    for value in modulation(outputs=["y", "n"]).lower(torch.float16, exact_ends=False)(x, one, one):
        assert bool(torch.isfinite(value).all())


def test_an_unknown_operator_is_an_error_at_once():
    with pytest.raises(ValueError, match="Sinh"):
        FrozenNet(Graph([Operator("Sinh", ["x"], ["y"], {})], {}, ["x"], ["y"]))


def test_one_sided_padding_and_pooling():
    conv = Operator("Conv", ["x", "w"], ["y"], {"strides": [2, 2], "pads": [0, 0, 1, 1]})
    net = FrozenNet(Graph([conv], {"w": torch.ones(1, 1, 3, 3)}, ["x"], ["y"]))
    x = torch.ones(1, 1, 4, 4)
    # the last window reaches over the right and lower edge: 2 of 3 rows and columns are inside
    assert net(x)[0].tolist() == [[[[9.0, 6.0], [6.0, 4.0]]]]


def test_an_attribute_that_is_not_known_is_an_error_at_once():
    resize = Operator("Resize", ["x", "", "s"], ["y"], {"mode": "cubic"})
    with pytest.raises(ValueError, match="Resize with mode 'cubic'"):
        FrozenNet(Graph([resize], {"s": torch.ones(4)}, ["x"], ["y"]))


def test_sizes_stay_plain_numbers_and_a_batch_is_kept():
    steps = [
        Operator("Shape", ["x"], ["all"], {}),
        Operator("Gather", ["all", "first"], ["count"], {}),
        Operator("Add", ["count", "none"], ["same"], {}),
        Operator("Concat", ["same", "rest"], ["sizes"], {"axis": 0}),
        Operator("Reshape", ["x", "sizes"], ["y"], {}),
        Operator("Reshape", ["x", "written"], ["z"], {}),
    ]
    numbers = {"first": [0], "none": [0], "rest": [-1, 2], "written": [1, 2, 3]}
    tensors = {name: torch.tensor(value) for name, value in numbers.items()}
    y, z = FrozenNet(Graph(steps, tensors, ["x"], ["y", "z"]))(torch.arange(24.0).view(4, 6))
    assert (y.shape, z.shape) == ((4, 3, 2), (4, 2, 3))


def test_in_half_precision_the_ends_stay_exact_where_asked_for():
    tensors = {"w": torch.full((1, 1, 1, 1), 1 / 3), "v": torch.full((1, 1, 1, 1), 3.0)}
    steps = [Operator("Conv", ["x", "w"], ["c"], {}), Operator("Conv", ["c", "v"], ["y"], {})]
    x = torch.full((1, 1, 1, 1), 3001.0)
    for exact, kind in ((True, torch.float32), (False, torch.bfloat16)):
        net = FrozenNet(Graph(steps, tensors, ["x"], ["y"])).lower(torch.bfloat16, exact_ends=exact)
        (y,) = net(x)
        assert y.dtype == kind
        assert abs(float(y) - 3001) < 30
