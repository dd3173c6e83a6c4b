import onnxruntime as ort
import pytest
import torch

from mien.nets.count import parameters
from mien.nets.export import export
from mien.nets.frozen import FrozenNet
from mien.nets.watermark import (
    BOUND,
    FLAT,
    Decoder,
    Encoder,
    Noticeable,
    WatermarkShape,
    root_mean_square,
)

TINY = WatermarkShape(size=64, bits=16, width=24, depth=2, widths=(8, 12, 16, 16, 24))


def networks(shape=TINY):
    torch.manual_seed(0)
    encoder, decoder = Encoder(shape), Decoder(shape)
    for _ in range(3):  # batch norms have seen something
        decoder(torch.rand(4, 3, shape.size, shape.size) * 2 - 1)
    return encoder.eval().requires_grad_(False), decoder.eval().requires_grad_(False)


def chance(count, bits=16, size=64):
    return torch.rand(count, 3, size, size) * 2 - 1, torch.randn(count, bits).sign()


def test_networks_keep_to_their_budget():
    shape = WatermarkShape()
    assert parameters(Encoder(shape)) <= 1.5e6
    assert parameters(Decoder(shape)) <= 6e6


def test_a_residual_of_the_picture_and_a_logit_of_each_bit():
    encoder, decoder = networks()
    pictures, bits = chance(3)
    assert encoder(pictures, bits).shape == (3, 1, 64, 64)
    assert decoder(pictures).shape == (3, 17)
    assert not torch.equal(encoder(pictures, bits), encoder(pictures, -bits))


def test_whatever_the_weights_the_bounds_hold():
    encoder, _ = networks()
    for weight in encoder.parameters():
        weight.mul_(30)
    pictures, bits = chance(4)
    pictures[0] = 0.2  # flat
    residual = encoder(pictures, bits)
    most = root_mean_square(TINY.floor)
    assert residual.square().mean(dim=(1, 2, 3)).sqrt().max() <= most * 1.001
    assert residual[0].abs().max() <= FLAT * TINY.gain * 1.1
    loud = encoder(pictures, bits, torch.tensor(6.0), torch.tensor(100.0))
    assert FLAT * TINY.gain * 1.1 < loud[0].abs().max() <= FLAT * 6.6


def test_marks_are_read_before_anything_is_learnt():
    shape = WatermarkShape(size=128, bits=16)
    torch.manual_seed(0)
    encoder, decoder = Encoder(shape), Decoder(shape).eval()
    decoder.match(encoder)
    for layer in (encoder.out, decoder.whole, decoder.places):
        for weight in layer.parameters():
            weight.data.zero_()
    smooth = torch.nn.functional.interpolate(torch.rand(8, 3, 9, 9), (128, 128), mode="bicubic")
    pictures, bits = smooth.clamp(0, 1) * 2 - 1, torch.randn(8, 16).sign()
    with torch.no_grad():
        marked = pictures + encoder(pictures, bits) / 127.5
        said, bare = decoder(marked), decoder(pictures)
    assert ((said[:, :-1] > 0) == (bits > 0)).float().mean() > 0.95
    assert (said[:, -1] > bare[:, -1]).all()


def test_texture_may_change_more_than_flat_parts_and_than_edges_next_to_them():
    y = torch.zeros(1, 1, 64, 64)
    y[..., :24] = torch.randn(64, 24) * 0.2
    y[..., 44:] = 0.8
    bound = Noticeable(64)(y)[0, 0]
    assert bound[:, 6:18].mean() > 4 * FLAT
    assert bound[:, 30:40].max() < FLAT * 1.05
    assert bound[:, 43].max() < 2 * FLAT
    assert bound.max() <= BOUND
    assert torch.isfinite(Noticeable(64)(torch.ones(1, 1, 64, 64))).all()


@pytest.mark.parametrize("size", [48, 250])
def test_a_side_that_cannot_be_folded_is_refused(size):
    with pytest.raises(ValueError, match="multiple of 32"):
        WatermarkShape(size=size)


def test_files_say_what_networks_say(tmp_path):
    for name, network in zip(("encoder", "decoder"), networks(), strict=True):
        export(network, tmp_path / name, int8=False)
        session = ort.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"])
        frozen = FrozenNet.read((tmp_path / name).read_bytes())
        for count in (1, 3):
            given = chance(count)[: 2 if name == "encoder" else 1]
            names = ("picture", "bits")[: len(given)]
            feed = {k: v.numpy() for k, v in zip(names, given, strict=True)}
            (said,) = session.run(None, feed)
            true = network(*given)
            assert (torch.from_numpy(said) - true).abs().max() < 1e-3
            assert (frozen(*given)[0] - true).abs().max() < 1e-3
