"""Packs from folders of pictures: find, align, filter, leave out doubles, write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from mien.errors import InvalidOption, MienError, NoFace
from mien.evaluate.ages import AgeJudge
from mien.geometry import apply, cut, fit_similarity, scales, template
from mien.loader import Loader
from mien.media import read_picture
from mien.media.files import expand
from mien.models import Catalogue, EmbedderContract
from mien.pipeline import FaceFinder
from mien.stages.embed import Embedder
from mien.train.packs import write_pack
from mien.types import Crops

TEMPLATE = "arcface_128"
ADULT = 24.0
"""Faces estimated younger are left out: of children under 16 the network puts 92 % below this."""

FILES = (".off.npy", ".pid.npy", ".quad.npy", ".bin")
"""What a pack consists of. Whoever looks for packs looks for the last one, which comes last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a face must be to enter a pack."""

    size: int = 256
    """Side of the crops."""

    enlarged: float = 2.0
    """The face is enlarged by this at most: blown up pictures teach a network to be soft."""

    sharpness: float = 0.0
    """Least mean absolute Laplacian of the crop's brightness, 0 to 255."""

    alike: float = 0.97
    """Two pictures of one person with embeddings of a greater cosine are one picture."""

    one_person: bool = True
    """Whether a picture with several faces is left out: it is not known whose folder it is in."""


@dataclass(slots=True)
class Tally:
    """How many pictures there were, and why some are not in the pack."""

    pictures: int = 0
    packed: int = 0
    unreadable: int = 0
    no_face: int = 0
    several: int = 0
    small: int = 0
    soft: int = 0
    young: int = 0
    double: int = 0

    def __str__(self) -> str:
        counts = asdict(self).items()
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts if count)


@dataclass(frozen=True, slots=True, eq=False)
class _Face:
    pixels: npt.NDArray[np.uint8]
    person: int
    quad: npt.NDArray[np.float32]


class Builder:
    """Makes packs. ``age`` is an age network's ONNX file; without it nobody's age is checked."""

    def __init__(self, demands: Demands, age: Path | None = None) -> None:
        """Load the networks. Raises InvalidOption if ``age`` is not an age network."""
        self.demands, self.tally = demands, Tally()
        self._age = None if age is None else AgeJudge.read(age)
        loader = Loader(Catalogue(), provider="cpu", allow_fallback=False, threads=None)
        self._find: FaceFinder = loader.finder("yunet")
        self._embed = Embedder(*loader.load("sface", EmbedderContract))
        self._seen: set[str] = set()

    def build(
        self, folder: Path, out: Path, *, first_person: int = 0, by_folder: bool = True
    ) -> Tally:
        """Write the faces of the pictures below ``folder`` as the pack ``out``.

        People are numbered from ``first_person``: one for each sub-folder, or for each picture.
        The pack appears whole or not at all, and takes the place of one of its name. Pictures of
        packs that were built before are doubles. Raises InvalidOption for a folder without
        pictures or a place where no pack can be written, NoFace if all pictures are left out.
        """
        if not folder.is_dir():
            raise InvalidOption("folder", str(folder), "a folder of pictures")
        if out.is_dir() or out.suffix == ".bin":
            raise InvalidOption("out", str(out), "a name for the pack: no folder, and without .bin")
        self.tally = Tally()
        people: list[int] = []
        quads: list[npt.NDArray[np.float32]] = []

        def pictures() -> Iterator[npt.NDArray[np.uint8]]:
            # one by one: all faces of a large folder would not fit into the memory
            for face in self._faces(folder, first_person, by_folder):
                people.append(face.person)
                quads.append(face.quad)
                yield face.pixels

        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".mien-", dir=out.parent) as place:
                part = Path(place, "pack")
                # all pictures are taken before people and quads are looked at
                self.tally.packed = write_pack(part, pictures(), people, quads)
                if not self.tally.packed:
                    raise NoFace(
                        str(folder),
                        f"No picture in {folder} can be packed, and no pack was written: "
                        f"{self.tally}. See 'mien train pack --help' for what is left out.",
                    )
                _put(part, out)
        except OSError as error:
            why = f"a name in a folder to write in ({error.strerror})"
            raise InvalidOption("out", str(out), why) from None
        return self.tally

    def _faces(self, folder: Path, first: int, by_folder: bool) -> Iterator[_Face]:
        people: dict[str, int] = {}
        known: dict[int, Tensor] = {}
        for found in expand(str(folder), option="folder"):
            self.tally.pictures += 1
            name = str(found.below.parent if by_folder else found.below)
            person = first + people.setdefault(name, len(people))
            face = self._face(found.path, person, known)
            if face is not None:
                yield face

    def _face(self, path: Path, person: int, known: dict[int, Tensor]) -> _Face | None:
        """Return the face in a picture, or None after counting why it is left out."""
        try:
            picture = read_picture(path)
        except MienError:
            self._left_out("unreadable")
            return None
        if picture.digest in self._seen:
            self._left_out("double")
            return None
        self._seen.add(picture.digest)
        pixels = picture.frame.view
        faces = self._find(pixels)
        if len(faces) == 0 or (len(faces) > 1 and self.demands.one_person):
            self._left_out("several" if len(faces) else "no_face")
            return None
        points = faces.points[0]
        matrix = fit_similarity(points, template(TEMPLATE).at(self.demands.size))
        crop = cut(pixels, matrix[None], self.demands.size)
        if fault := self._fault(pixels, points, crop, float(scales(matrix))):
            self._left_out(fault)
            return None
        own = self._embedding(pixels, points)
        before = known.get(person, own[:0])
        if len(before) and float((before @ own[0]).max()) > self.demands.alike:
            self._left_out("double")
            return None
        known[person] = torch.cat([before, own])
        height, width = pixels.shape[:2]
        corners = torch.tensor([[0, 0], [width, 0], [width, height], [0, height]]) - 0.5
        quad = apply(matrix, corners) + 0.5
        picture_bytes = crop[0].mul(255).round_().byte().permute(1, 2, 0).contiguous().numpy()
        return _Face(picture_bytes, person, quad.numpy().astype(np.float32))

    def _fault(self, pixels: Tensor, points: Tensor, crop: Tensor, scale: float) -> str | None:
        """Say which demand a face does not meet, or None."""
        if scale > self.demands.enlarged:
            return "small"
        if self.demands.sharpness and sharpness(crop) < self.demands.sharpness:
            return "soft"
        # what is not a number is not an adult's age
        adult = self._age is None or self.age(pixels, points) >= ADULT
        return None if adult else "young"

    def _left_out(self, why: str) -> None:
        setattr(self.tally, why, getattr(self.tally, why) + 1)

    def age(self, pixels: Tensor, points: Tensor) -> float:
        """Return the estimated age in years of the face with these five points."""
        assert self._age is not None
        return float(self._age([pixels], points[None])[0])

    def _embedding(self, pixels: Tensor, points: Tensor) -> Tensor:
        contract = self._embed.contract
        matrix = fit_similarity(points, template(contract.template).at(contract.size))[None]
        return self._embed(Crops(cut(pixels, matrix, contract.size), matrix, contract.template))


def _put(part: Path, out: Path) -> None:
    """Move the finished pack ``part`` to ``out``."""
    # an old pack ends first: better none, should we be stopped here, than one mixed of two
    Path(f"{out}.bin").unlink(missing_ok=True)
    for suffix in FILES:
        Path(f"{part}{suffix}").replace(f"{out}{suffix}")


def sharpness(crop: Tensor) -> float:
    """Return the mean absolute Laplacian of a crop (1, 3, S, S) in [0, 1], in levels of 255."""
    kernel = crop.new_tensor([[[[0, 1, 0], [1, -4, 1], [0, 1, 0]]]])
    grey = crop.mean(dim=1, keepdim=True)
    return float(functional.conv2d(grey, kernel).abs().mean()) * 255
