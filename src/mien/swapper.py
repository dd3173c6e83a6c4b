"""The way in from Python: pictures and people in, pictures out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from PIL import Image

from mien.engines import Engine, OnnxEngine
from mien.errors import ConsentMissing, NoFace, PictureUnreadable
from mien.media import Picture, PictureLike, check_output, read_picture, write_picture
from mien.models import (
    Catalogue,
    DetectorContract,
    EmbedderContract,
    MeshContract,
    Role,
    SwapperContract,
)
from mien.pipeline import Blend, EmbeddingCache, FaceFinder, Identifier, Pipeline, Which
from mien.safety import Ledger, xmp_packet
from mien.stages.detect import Detector
from mien.stages.embed import Embedder
from mien.stages.landmark import Landmarker
from mien.stages.swap import FaceSwap
from mien.types import Faces, Identity, Swapped
from mien.version import __version__

log = logging.getLogger(__name__)


class Swapper:
    """Finds faces, remembers people, and swaps.

    All settings are fixed at construction; two swappers with different settings live side by side,
    and one may be used from several threads.

    model
        Name of the swap network in the catalogue; it decides which embedder is used.
    detector
        'yunet' or 'retinaface', or any detector of the catalogue.
    blend
        'alpha' lays the face over the target with a soft edge; 'poisson' also makes its colours
        meet the target's at the edge.
    color_match
        Give the swapped face the target's light: mean and covariance of its colours.
    provider, allow_fallback, threads
        Where and how wide networks run; see OnnxEngine.
    models
        Folder with further model cards and weights.
    cache_size, cache_folder
        How many embeddings are remembered, and where on disk, if anywhere.
    ledger
        File of the consent records; default: in the user's data folder.
    """

    def __init__(
        self,
        *,
        model: str = "starter",
        detector: str = "yunet",
        blend: Blend = "alpha",
        color_match: bool = True,
        provider: str = "cpu",
        allow_fallback: bool = False,
        threads: int | None = None,
        models: str | Path | None = None,
        cache_size: int = 100,
        cache_folder: str | Path | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        loader = _Loader(Catalogue(_path(models)), provider, allow_fallback, threads)
        finder = loader.finder(detector)
        contract = cast("SwapperContract", loader.catalogue.card(model, "swapper").contract)
        space = contract.space
        embedder = Embedder(*loader.load(space, "embedder", EmbedderContract))
        swap = FaceSwap(*loader.load(model, "swapper", SwapperContract))
        self.model = model
        self.ledger = Ledger(_path(ledger))
        self._pipeline = Pipeline(finder, embedder, swap, blend=blend, color_match=color_match)
        self._identifier = Identifier(
            finder,
            embedder,
            EmbeddingCache(cache_size, _path(cache_folder)),
            networks=loader.digests(detector, "facemesh", space),
        )
        self._engines = (
            finder.detector.engine,
            finder.landmarker.engine,
            embedder.engine,
            swap.engine,
        )

    @property
    def providers(self) -> Mapping[str, str]:
        """What each network really runs on, by the network's name."""
        return {engine.model: engine.provider for engine in self._engines}

    def identity(
        self, pictures: PictureLike | Sequence[PictureLike], *, consent: str | None = None
    ) -> Identity:
        """Return the identity of the largest face in a picture, or in several of one person.

        ``consent`` states whose face it is and that its use is agreed to. It is recorded in the
        ledger; without it, a statement recorded earlier for the same pictures is used. Raises
        ConsentMissing, NoFace, DifferentPeople, PictureUnreadable.
        """
        if isinstance(pictures, Sequence) and not isinstance(pictures, str):
            several = list(pictures)
        else:
            several = [pictures]
        if not several:
            raise PictureUnreadable("There is no source picture.")
        read = [read_picture(picture) for picture in several]
        digests = [picture.digest for picture in read]
        name = ", ".join(picture.name for picture in read)
        if consent is not None:
            record = self.ledger.record(consent, digests, picture=name)
        elif (known := self.ledger.find(digests)) is not None:
            record = known
        else:
            raise ConsentMissing(name)
        return self._identifier(read, digests, record.id)

    def faces(self, picture: PictureLike) -> Faces:
        """Return all faces in a picture, largest first."""
        return self._pipeline.finder(read_picture(picture).frame.pixels)

    def swap(
        self,
        picture: PictureLike,
        identity: Identity,
        *,
        faces: Which = "largest",
        strength: float = 1.0,
    ) -> Result:
        """Return ``picture`` with ``identity`` on its largest face, or on 'all' of them.

        ``strength`` goes from the target's own identity (0) to the source's (1). Raises NoFace,
        PictureUnreadable, InvalidOption, BadOutput.
        """
        target = read_picture(picture)
        done = self._pipeline(target.frame, identity, faces=faces, strength=strength)
        if not done.chosen:
            raise NoFace(target.name)
        return Result(
            done, target, consent=identity.consent, model=self.model, providers=self.providers
        )


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A swapped picture and how it came about."""

    swapped: Swapped
    target: Picture
    consent: str
    """Id of the consent record."""

    model: str
    providers: Mapping[str, str]

    @property
    def faces(self) -> Faces:
        """Every face that was found, largest first."""
        return self.swapped.faces

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by stage."""
        return self.swapped.timings

    @property
    def partial(self) -> bool:
        """Whether some chosen face could not be swapped."""
        return bool(self.swapped.faults)

    @property
    def pixels(self) -> npt.NDArray[np.uint8]:
        """The new picture, uint8 (H, W, 3), RGB."""
        return cast("npt.NDArray[np.uint8]", self.swapped.frame.pixels.cpu().numpy())

    @property
    def image(self) -> Image.Image:
        """The new picture for PIL."""
        return Image.fromarray(self.pixels)

    def save(self, path: str | Path) -> None:
        """Write a JPEG, PNG or WebP file by the suffix, marked as synthetic.

        The metadata carries the IPTC digital source type and the consent record's id. Raises
        PictureUnwritable; nothing is left behind then.
        """
        xmp = xmp_packet(consent=self.consent, model=self.model, version=__version__)
        new = Picture(
            self.swapped.frame,
            name=Path(path).name,
            alpha=self.target.alpha,
            profile=self.target.profile,
        )
        check_output(Path(path))
        write_picture(Path(path), new, xmp=xmp)

    def report(self) -> dict[str, Any]:
        """Return what happened, ready for JSON."""
        return {
            "consent": self.consent,
            "model": self.model,
            "providers": dict(self.providers),
            "faces": describe(self.faces),
            "swapped": list(self.swapped.chosen),
            "faults": [{"face": f.face, "reason": f.reason} for f in self.swapped.faults],
            "milliseconds": {k: round(v * 1e3, 2) for k, v in self.timings.items()},
        }

    def __repr__(self) -> str:
        return f"Result({self.target.name}: {len(self.swapped.chosen)} of {len(self.faces)} faces)"


def describe(faces: Faces) -> list[dict[str, Any]]:
    """Return boxes, scores, points and rolls of faces, ready for JSON."""
    return [
        {
            "index": i,
            "box": [round(v, 1) for v in faces.boxes[i].tolist()],
            "score": round(float(faces.scores[i]), 3),
            "roll": round(float(faces.rolls[i]), 1),
            "points": [[round(v, 1) for v in point] for point in faces.points[i].tolist()],
        }
        for i in range(len(faces))
    ]


def face_finder(
    *,
    detector: str = "yunet",
    provider: str = "cpu",
    allow_fallback: bool = False,
    threads: int | None = None,
    models: str | Path | None = None,
) -> FaceFinder:
    """Return what finds faces, without the networks that only swapping needs."""
    return _Loader(Catalogue(_path(models)), provider, allow_fallback, threads).finder(detector)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


@dataclass(frozen=True, slots=True)
class _Loader:
    """Turns names of the catalogue into engines."""

    catalogue: Catalogue
    provider: str
    allow_fallback: bool
    threads: int | None

    def load(self, name: str, role: Role, kind: type[Any]) -> tuple[Engine, Any]:
        card = self.catalogue.card(name, role)
        assert isinstance(card.contract, kind)
        engine = OnnxEngine(
            name,
            card.read,
            provider=self.provider,
            allow_fallback=self.allow_fallback,
            threads=self.threads,
        )
        log.info("%s runs on %s", name, engine.provider)
        return engine, card.contract

    def finder(self, detector: str) -> FaceFinder:
        return FaceFinder(
            Detector(*self.load(detector, "detector", DetectorContract)),
            Landmarker(*self.load("facemesh", "mesh", MeshContract)),
        )

    def digests(self, *names: str) -> str:
        return " ".join(self.catalogue.card(name).sha256 for name in names)
