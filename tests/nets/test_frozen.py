import numpy as np
import onnxruntime as ort
import pytest
import torch

from mien.models.catalogue import SHIPPED
from mien.nets.frozen import FrozenNet, Graph, Operator

NETS = {
    "sface_2021dec": ((1, 3, 112, 112), 255.0),
    "facemesh_468": ((1, 192, 192, 3), 1.0),
}


@pytest.mark.parametrize("name", NETS)
def test_a_network_returns_what_onnx_runtime_returns(name, tmp_path):
    shape, peak = NETS[name]
    path = SHIPPED / f"{name}.onnx"
    Graph.read(path).save(tmp_path / "net.pt")
    net = FrozenNet.read(tmp_path / "net.pt")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = (torch.rand(*shape, generator=torch.Generator().manual_seed(0)) * peak).requires_grad_()
    made = net(x)
    wanted = session.run(None, {session.get_inputs()[0].name: x.detach().numpy()})
    for a, b in zip(made, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy().ravel(), b.ravel(), rtol=1e-4, atol=1e-3)
    made[0].sum().backward()
    assert float(x.grad.abs().sum()) > 0
    assert not list(net.parameters())


def norm(name_in, name_out):
    return Operator("BatchNormalization", [name_in, "g", "b", "m", "v"], [name_out], {})


def test_a_batch_norm_is_merged_into_its_convolution_unless_that_is_read_twice():
    random = torch.Generator().manual_seed(0)
    tensors = {"w": torch.randn(4, 3, 1, 1, generator=random)}
    tensors |= {n: torch.rand(4, generator=random) + 0.5 for n in "gbmv"}
    conv = Operator("Conv", ["x", "w"], ["c"], {})
    once = Graph([conv, norm("c", "n")], tensors, "x", ["n"])
    twice = Graph(
        [conv, norm("c", "n"), Operator("Add", ["c", "n"], ["s"], {})], tensors, "x", ["s"]
    )
    x = torch.randn(2, 3, 5, 5, generator=random)
    c = torch.nn.functional.conv2d(x, tensors["w"])
    n = torch.nn.functional.batch_norm(c, *(tensors[k] for k in "mvgb"))
    assert [step.kind for step in FrozenNet(once)._steps] == ["Conv"]
    torch.testing.assert_close(FrozenNet(once)(x)[0], n)
    torch.testing.assert_close(FrozenNet(twice)(x)[0], c + n)


def test_an_unknown_operator_is_an_error_at_once():
    with pytest.raises(ValueError, match="Sinh"):
        FrozenNet(Graph([Operator("Sinh", ["x"], ["y"], {})], {}, "x", ["y"]))


def test_one_sided_padding_and_pooling():
    conv = Operator("Conv", ["x", "w"], ["y"], {"strides": [2, 2], "pads": [0, 0, 1, 1]})
    net = FrozenNet(Graph([conv], {"w": torch.ones(1, 1, 3, 3)}, "x", ["y"]))
    x = torch.ones(1, 1, 4, 4)
    # the last window reaches over the right and lower edge: 2 of 3 rows and columns are inside
    assert net(x)[0].tolist() == [[[[9.0, 6.0], [6.0, 4.0]]]]
