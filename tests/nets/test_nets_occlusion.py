import onnxruntime as ort
import pytest
import torch

from mien.nets.count import macs, parameters
from mien.nets.export import export
from mien.nets.occlusion import OCCLUSION_128, OcclusionNet, OcclusionShape

TINY = OcclusionShape(size=32, widths=(8, 12, 16, 24))


def network(shape=TINY):
    """A network whose batch norms have seen something."""
    torch.manual_seed(0)
    made = OcclusionNet(shape)
    for _ in range(5):
        made(torch.rand(4, 3, shape.size, shape.size) * 2 - 1)
    return made.eval().requires_grad_(False)


def test_one_logit_a_pixel():
    assert network()(torch.zeros(3, 3, 32, 32)).shape == (3, 1, 32, 32)


def test_the_network_keeps_to_its_budget():
    made = OcclusionNet(OCCLUSION_128)
    assert parameters(made) <= 1e6
    assert macs(made) <= 0.25e9


@pytest.mark.parametrize("size", [16, 40])
def test_a_side_that_cannot_be_halved_four_times_is_refused(size):
    with pytest.raises(ValueError, match="multiple of 16"):
        OcclusionShape(size=size)


@pytest.mark.parametrize(("int8", "apart"), [(False, 1e-4), (True, 0.3)])
def test_the_file_says_what_the_network_says(tmp_path, int8, apart):
    made = network()
    export(made, tmp_path / "net.onnx", int8=int8)
    session = ort.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    for count in (1, 3):
        crops = torch.rand(count, 3, 32, 32) * 2 - 1
        (said,) = session.run(["logit"], {"crop": crops.numpy()})
        assert abs(torch.from_numpy(said) - made(crops)).max() < apart


def test_the_file_is_small(tmp_path):
    assert export(network(OCCLUSION_128), tmp_path / "net.onnx") < 1.2e6
