"""The age network of the package: stored small, and how often it refuses adults.

    python benchmarks/age.py pack ORIGINAL.onnx OUT.onnx.xz --packs FOLDER [--step 0.6]
    python benchmarks/age.py compare ORIGINAL.onnx --pictures FOLDER
    python benchmarks/age.py adults [--packs FOLDER] [--pictures FOLDER]

'pack' rounds the weights of wide layers to steps of STEP standard deviations of their channel, by
examples from packs of faces as mien.nets.int8 does, and leaves out what is not asked for; prints
what belongs on the card. 'compare' tells how far the packed network's estimates are from those of
the original one; 'adults' what share of adults is estimated below each limit: packs named 'adults'
are of labelled adults, and the pictures must be of adults, too.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import ModelProto, numpy_helper
from torch import Tensor

from mien.engines import OnnxEngine
from mien.geometry import cut, fit_similarity, template
from mien.loader import AGE, Loader
from mien.media import read_picture
from mien.models import AgeContract, Catalogue
from mien.nets import int8
from mien.stages.age import Ages
from mien.stages.align import align
from mien.train.packs import names, read_packs
from mien.types import Crops

SIDE = 256
LIMITS = (18, 20, 21, 22, 23, 24, 25, 26, 28, 30)
AT_A_TIME = 32
Array = npt.NDArray[np.float32]


def loader() -> Loader:
    return Loader(Catalogue(), "cpu", allow_fallback=False, threads=None)


def contract() -> AgeContract:
    found = Catalogue().card(AGE).contract
    assert isinstance(found, AgeContract)
    return found


def of_packs(folder: Path, most: int) -> Iterator[Crops]:
    """Yield crops of packs, as the age network wants them; beyond the picture, its edge."""
    wanted = contract()
    paths = [path for path in names(folder) if "adults" in path.name]
    pack = read_packs(paths, SIDE, torch.device("cpu"), limit=most)
    points = template("arcface_128").at(SIDE)
    matrix = fit_similarity(points[None], template(wanted.template).at(wanted.size))
    for pixels in pack.pixels:
        frame = pixels.permute(1, 2, 0).contiguous()
        yield Crops(cut(frame, matrix, wanted.size), matrix, wanted.template)


def of_pictures(folder: Path) -> Iterator[Crops]:
    """Yield a crop of the largest face in each picture."""
    find = loader().finder("yunet")
    for path in sorted(folder.glob("*.jpg")):
        frame = read_picture(path).frame
        yield align(frame, find(frame.view, largest_only=True)[:1], contract())


def estimates(ages: Ages, crops: Iterator[Crops]) -> Tensor:
    return torch.cat([ages(crop) for crop in crops])


def restored(model: ModelProto) -> None:
    """Make float what is stored as int8, and take away what only other outputs than age need."""
    graph = model.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    cast = {node.output[0]: node for node in graph.node if node.op_type == "Cast"}
    for node in list(graph.node):
        if node.op_type != "Mul" or node.input[0] not in cast:
            continue
        before = cast[node.input[0]]
        whole, scale = (numpy_helper.to_array(stored[n]) for n in (before.input[0], node.input[1]))
        value = (whole.astype(np.float32) * scale).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
        graph.node.remove(before)
        graph.node.remove(node)
    kept = [port for port in graph.output if port.name == contract().output]
    del graph.output[:]
    graph.output.extend(kept)
    needed = {port.name for port in kept}
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            needed.update(node.input)
    for tensor in list(graph.initializer):
        if tensor.name not in needed:
            graph.initializer.remove(tensor)


def coarse(step: float) -> Any:
    """Return what takes the place of int8.quantise: steps of a channel's standard deviation."""
    fine = int8.quantise

    def quantise(weight: Array, *across: int) -> tuple[npt.NDArray[np.int8], Array]:
        if weight.size < 1 << 15 or 1 in weight.shape[:2]:
            return fine(weight, *across)
        others = tuple(axis for axis in range(weight.ndim) if axis not in across)
        scale = (weight.std(axis=others, keepdims=True) * step + 1e-12).astype(np.float32)
        return np.rint(weight / scale).clip(-127, 127).astype(np.int8), scale

    return quantise


def pack(original: Path, out: Path, folder: Path, step: float, most: int) -> None:
    model = onnx.load(original)
    restored(model)
    wanted = contract()
    examples: list[Mapping[str, Array]] = [
        {wanted.input: wanted.pixels.encode(crops.pixels).numpy()}
        for crops in of_packs(folder, most)
    ]
    int8.quantise = coarse(step)
    count = int8.store_as_int8(model, examples)
    content = model.SerializeToString()
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    out.write_bytes(packed)
    print(f"{count} tensors by {len(examples)} examples; {len(packed)} bytes packed")
    print(f"size = {len(content)}\nsha256 = {hashlib.sha256(content).hexdigest()}")


def compare(original: Path, folder: Path) -> None:
    crops = list(of_pictures(folder))
    shipped = Ages(*loader().load(AGE, AgeContract))
    before = Ages(OnnxEngine("original", original.read_bytes), contract())
    a, b = estimates(before, iter(crops)), estimates(shipped, iter(crops))
    apart = b - a
    print(f"{len(a)} pictures: mean difference {apart.mean():+.2f} years, mean absolute "
          f"{apart.abs().mean():.2f}, greatest {apart.abs().max():.2f}")  # fmt: skip


def adults(packs: Path | None, pictures: Path | None, most: int) -> None:
    ages = Ages(*loader().load(AGE, AgeContract))
    for name, crops in (
        ("packs", of_packs(packs, most) if packs else None),
        ("pictures", of_pictures(pictures) if pictures else None),
    ):
        if crops is None:
            continue
        found = estimates(ages, crops)
        print(f"{name}: {len(found)} adults, median {found.median():.1f} years, least "
              f"{found.min():.1f}")  # fmt: skip
        for limit in LIMITS:
            print(f"  below {limit}: {(found < limit).float().mean():.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["pack", "compare", "adults"])
    parser.add_argument("original", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--packs", type=Path, help="folder of packs")
    parser.add_argument("--pictures", type=Path, help="folder of portraits (.jpg)")
    parser.add_argument("--most", type=int, default=200, help="pictures of each pack")
    parser.add_argument("--step", type=float, default=0.6, help="in standard deviations")
    given = parser.parse_args()
    if given.what == "pack":
        pack(given.original, given.out, given.packs, given.step, given.most)
    elif given.what == "compare":
        compare(given.original, given.pictures)
    else:
        adults(given.packs, given.pictures, given.most)


if __name__ == "__main__":
    main()
