import numpy as np
import pytest
import torch
from PIL import Image

from mien.safety.watermark import code, identifier
from mien.safety.watermark.dwtdct import SIZE, DwtDct
from mien.safety.watermark.laying import Marker, laid, read, shrunk, voted

NUMBER = identifier("m-1")


@pytest.fixture(scope="module")
def picture(portraits):
    with Image.open(portraits["eva"]) as opened:
        return torch.from_numpy(np.array(opened.convert("RGB")))


def psnr(a, b):
    return -10 * ((a.float() - b.float()) / 255).square().mean().log10()


def test_any_size_and_shape_is_shrunk_and_laid_on():
    for height, width in ((40, 90), (512, 300), (720, 1280)):
        pixels = torch.full((height, width, 3), 250, dtype=torch.uint8)
        small = shrunk(pixels, 256)
        assert small.shape == (1, 3, 256, 256)
        assert small.min() >= -1
        assert small.max() <= 1
        done = laid(pixels, torch.full((1, 1, 256, 256), 7.6))
        assert done.shape == pixels.shape
        assert (done == 255).all()
        assert (pixels == 250).all()


def test_the_reference_keeps_its_bits_and_its_floor(picture):
    reference = DwtDct(42.5)
    shown = Marker(reference.encode, NUMBER, SIZE)(picture)
    assert 41.5 < psnr(shown, picture) < 47
    found = read(reference.decode, [shown], SIZE)
    assert found is not None
    assert found.identifier == NUMBER
    assert read(reference.decode, [picture], SIZE) is None


def test_a_residual_serves_the_frames_after_it():
    asked = []

    def encode(small, bits):
        asked.append(bits)
        return torch.full((1, 1, 8, 8), float(len(asked)))

    marker = Marker(encode, NUMBER, 8, every=3)
    frame = torch.zeros(16, 24, 3, dtype=torch.uint8)
    assert [int(marker(frame)[0, 0, 0]) for _ in range(7)] == [1, 1, 1, 2, 2, 2, 3]
    assert int(marker(frame[:8])[0, 0, 0]) == 4  # another size
    assert torch.equal(asked[0], torch.from_numpy(code.write(NUMBER)).float()[None] * 2 - 1)


def test_frames_vote_by_how_sure_they_are():
    good, bad = torch.tensor([1.0, -1.0, 4.0]), torch.tensor([-3.0, 3.0, -4.0])
    assert (voted([good, bad]) * torch.tensor([1, -1]) > 0).all()


def test_no_frames_have_no_mark():
    assert read(lambda _: torch.zeros(1, 128), [], 8) is None
