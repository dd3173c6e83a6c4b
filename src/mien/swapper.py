"""The way in from Python: pictures and people in, pictures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mien.errors import ConsentMissing, InvalidOption, NoFace, PictureUnreadable
from mien.loader import MESH, Loader
from mien.media import PictureLike, read_picture
from mien.models import Catalogue, EmbedderContract, SwapperContract
from mien.pipeline import Blend, EmbeddingCache, Identifier, Pipeline, Which
from mien.result import Result
from mien.safety import Ledger
from mien.stages.embed import Embedder
from mien.stages.swap import FaceSwap
from mien.types import Faces, Identity


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
        loader = Loader(Catalogue(models), provider, allow_fallback, threads)
        finder = loader.finder(detector)
        swap = FaceSwap(*loader.load(model, SwapperContract))
        space = swap.contract.space
        embedder = Embedder(*loader.load(space, EmbedderContract))
        self.model = model
        self.ledger = Ledger(Path(ledger) if ledger else None)
        self._pipeline = Pipeline(finder, embedder, swap, blend=blend, color_match=color_match)
        self._identifier = Identifier(
            finder,
            embedder,
            EmbeddingCache(cache_size, Path(cache_folder) if cache_folder else None),
            networks=loader.digests(detector, MESH, space),
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
        if isinstance(pictures, Sequence) and not isinstance(pictures, str | bytes):
            several = list(pictures)
        else:
            several = [pictures]
        if not several:
            raise PictureUnreadable("There is no source picture.")
        if consent is not None and not isinstance(consent, str):
            raise InvalidOption("consent", consent, "a statement in words")
        read = [read_picture(picture) for picture in several]
        name = ", ".join(picture.name for picture in read)
        if consent is None and self.ledger.find([read[0].digest]) is None:
            raise ConsentMissing(name)
        if consent is not None and not consent.strip():
            raise ConsentMissing(name)

        def record(digests: list[str]) -> str:
            """Return the record that covers the pictures of the person, and no others."""
            if consent is not None:
                return self.ledger.record(consent, digests, picture=name).id
            known = self.ledger.find(digests)
            if known is None:
                raise ConsentMissing(name)
            return known.id

        return self._identifier(read, record)

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
        if not isinstance(identity, Identity):
            raise InvalidOption(
                "identity", type(identity).__name__, "what Swapper.identity returns"
            )
        target = read_picture(picture)
        done = self._pipeline(target.frame, identity, faces=faces, strength=strength)
        if not done.chosen:
            raise NoFace(target.name)
        return Result(
            done, target, consent=identity.consent, model=self.model, providers=self.providers
        )
