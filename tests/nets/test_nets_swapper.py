from dataclasses import replace

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch.nn import functional

from mien.nets.count import macs, parameters
from mien.nets.export import export, to_onnx
from mien.nets.restore import restored
from mien.nets.swapper import LITE, MIEN_256, Swapper, SwapperShape, start_as_nearest

TINY = SwapperShape(size=32, style=8, fine=4, widths=(8, 12, 16), middle=1, blocks=(1, 1))


@pytest.fixture
def tiny():
    torch.manual_seed(0)
    return Swapper(TINY).eval()


def inputs(count=2, size=32):
    torch.manual_seed(1)
    return torch.rand(count, 3, size, size) * 2 - 1, functional.normalize(torch.randn(count, 128))


def test_output_is_a_picture_like_the_target(tiny):
    target, source = inputs()
    out = tiny(target, source).detach()
    assert out.shape == target.shape
    assert float(out.abs().max()) <= 1


@pytest.mark.parametrize(
    ("shape", "millions", "giga"), [(MIEN_256, 16, 12), (LITE, 6, 1.5)], ids=["mien-256", "lite"]
)
def test_the_networks_keep_to_their_budgets(shape, millions, giga):
    network = Swapper(shape)
    assert parameters(network) <= millions * 1e6
    assert macs(network) <= giga * 1e9


def test_macs_of_a_convolution_by_hand(tiny):
    # the first layer: 4x4 kernels over 3 channels, 4 channels of 16x16 pixels out
    first = tiny.down[0].conv
    assert first.weight[0].numel() * 4 * 16 * 16 == 4 * 4 * 3 * 4 * 256
    assert macs(tiny) > 4 * 4 * 3 * 4 * 256


def test_both_inputs_reach_the_output(tiny):
    target, source = (x.requires_grad_() for x in inputs())
    tiny(target, source).square().sum().backward()
    assert float(target.grad.abs().sum()) > 0
    assert float(source.grad.abs().sum()) > 0


def test_a_sub_pixel_convolution_starts_as_repetition():
    conv = torch.nn.Conv2d(5, 12, 3, padding=1)
    start_as_nearest(conv, factor=2)
    big = functional.pixel_shuffle(conv(torch.randn(1, 5, 6, 6)), 2)
    repeated = functional.interpolate(big[..., ::2, ::2], scale_factor=2, mode="nearest")
    torch.testing.assert_close(big, repeated)


def test_sides_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="multiple of 16"):
        SwapperShape(size=100)


def test_export_matches_the_network_at_any_batch(tiny):
    model = to_onnx(tiny)
    assert model.opset_import[0].version >= 17
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for count in (1, 3):
        target, source = inputs(count)
        (made,) = session.run(None, {"target": target.numpy(), "source": source.numpy()})
        with torch.no_grad():
            wanted = tiny(target, source).numpy()
        assert np.abs(made - wanted).max() < 1e-3


def as_if_trained(swapper):
    """Equal tensors, such as biases that are all 0, would be stored once."""
    with torch.no_grad():
        for parameter in swapper.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.01)
    return swapper


@pytest.mark.parametrize("int8", [False, True])
def test_a_delivered_network_comes_back(tiny, int8, tmp_path):
    path = tmp_path / "net.onnx"
    export(as_if_trained(tiny), path, int8=int8)
    again = restored(path, tiny.shape)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    target, source = inputs(2)
    (made,) = session.run(None, {"target": target.numpy(), "source": source.numpy()})
    assert np.abs(again(target, source).numpy() - made).max() < 1e-4
    assert not again.training
    assert not any(p.requires_grad for p in again.parameters())


def test_a_network_of_another_shape_is_refused(tiny, tmp_path):
    export(as_if_trained(tiny), tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="another shape"):
        restored(tmp_path / "net.onnx", replace(tiny.shape, style=tiny.shape.style + 2))
    with pytest.raises(ValueError, match="lacks weights"):
        restored(tmp_path / "net.onnx", replace(tiny.shape, middle=tiny.shape.middle + 1))
