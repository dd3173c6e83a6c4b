import numpy as np
import torch

from mien.train.packs import names, read_pack, read_packs

CPU = torch.device("cpu")


def test_a_pack_comes_back(data, picture):
    pack = read_pack(data / "fine", 64, CPU)
    assert pack.pixels.shape == (4, 3, 64, 64)
    assert pack.people.tolist() == [0, 1, 2, 3]
    assert pack.quads[2].tolist() == [[10, 20], [60, 20], [60, 60], [10, 60]]
    wanted = picture(100 * 64, 64).astype(int)
    made = pack.pixels[0].permute(1, 2, 0).numpy().astype(int)
    assert np.abs(made - wanted).mean() < 3  # WebP at quality 90


def test_packs_of_several_sizes_are_brought_to_one(data):
    pack = read_packs([path for path in names(data) if path.name != "heldout"], 64, CPU)
    assert len(pack) == 8
    assert pack.native.tolist() == [64] * 4 + [32] * 4
    assert pack.quads[-1].tolist() == [[0, 0], [64, 0], [64, 64], [0, 64]]


def test_a_limit_takes_the_first(data):
    assert read_packs(names(data), 32, CPU, limit=2).people.tolist() == [0, 1, 20, 21, 10, 10]
