"""A network of the package with weights stored as int8, from its float original.

    python benchmarks/int8.py facemesh_468 FLOAT.onnx OUT.onnx --pictures FOLDER

NAME is that of a file in ``mien/weights`` or ``mien/evaluate/weights``. Faces in the pictures, as
they are and turned, are found and read with the networks that ship; what the named one is given
then are the examples that weights are rounded by. Prints the size of OUT and its sha256, which
belong on the card.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from PIL import Image
from torch import Tensor

from mien.engines import OnnxEngine
from mien.evaluate.cards import SHIPPED, read_judge_card
from mien.evaluate.judges import Judges
from mien.evaluate.reading import read
from mien.loader import Loader
from mien.models import Catalogue
from mien.nets.int8 import SMALL, store_as_int8

ROLLS = (0, 20, -35, 90)
LONGEST = 640
Array = npt.NDArray[Any]


def frames(folder: Path) -> Iterator[Tensor]:
    """Yield the pictures in a folder, each at several rolls."""
    for path in sorted(folder.glob("*.jpg")):
        with Image.open(path) as opened:
            image = opened.convert("RGB")
        image.thumbnail((LONGEST, LONGEST))
        for roll in ROLLS:
            yield torch.from_numpy(np.array(image.rotate(roll, Image.Resampling.BICUBIC)))


def examples(name: str, folder: Path) -> list[dict[str, Array]]:
    """Return what the network of a file's ``name`` is given, one sample each."""
    judge = SHIPPED / f"{name}.toml"
    cards = {card.file.stem: card.name for card in Catalogue()}
    model = read_judge_card(judge)[0].name if judge.is_file() else cards[name]
    loader = Loader(Catalogue(), "cpu", allow_fallback=False, threads=1)
    find = loader.finder("retinaface" if model == "retinaface" else "yunet")
    judges = Judges.load(threads=1) if judge.is_file() else None
    found: list[dict[str, Array]] = []
    call = OnnxEngine.__call__

    def noted(engine: OnnxEngine, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if engine.model == model:
            count = len(next(iter(inputs.values())))
            found.extend({k: v[i : i + 1].numpy() for k, v in inputs.items()} for i in range(count))
        return call(engine, inputs)

    OnnxEngine.__call__ = noted  # type: ignore[method-assign,assignment]
    try:
        for frame in frames(folder):
            faces = find(frame)
            if judges is not None and len(faces):
                read(judges, [frame], faces.points[:1])
    finally:
        OnnxEngine.__call__ = call  # type: ignore[method-assign]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of the file in the package, without .onnx")
    parser.add_argument("original", type=Path, help="ONNX file with float weights")
    parser.add_argument("out", type=Path, help="ONNX file to write")
    parser.add_argument("--pictures", type=Path, required=True, help="folder of portraits (.jpg)")
    parser.add_argument("--small", type=int, default=SMALL, help="smaller tensors stay float")
    parser.add_argument(
        "--most", type=int, default=500, help="examples; of more, so many are drawn"
    )
    given = parser.parse_args()
    seen = examples(given.name, given.pictures)
    if len(seen) > given.most:
        chosen = np.random.default_rng(0).choice(len(seen), given.most, replace=False)
        seen = [seen[i] for i in chosen]
    model = onnx.load(given.original)
    count = store_as_int8(model, seen, small=given.small)
    content = model.SerializeToString()
    given.out.write_bytes(content)
    print(f"{count} tensors as int8, by {len(seen)} examples")
    print(f"size = {len(content)}\nsha256 = {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
