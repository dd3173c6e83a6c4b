"""The way in from Python: pictures and people in, pictures out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias
from uuid import uuid4

import torch

from mien.choice import Order, Which, check_choice
from mien.engines import Peak, home_of
from mien.errors import (
    BadOutput,
    ConsentMissing,
    ConsentUnconfirmed,
    InvalidOption,
    NoFace,
    NoSuchFace,
    OptionsConflict,
    PersonAbsent,
    PictureUnreadable,
)
from mien.loader import AGE, CONTENT, OCCLUSION, Loader
from mien.media import MAX_MEGAPIXELS, Picture, PictureLike, as_list, read_picture
from mien.media.clip import ClipSettings, Fields, Hardware
from mien.models import AgeContract, Catalogue, ContentContract, OcclusionContract, SwapperContract
from mien.pipeline import (
    LOOK,
    Blend,
    Cast,
    ClipPipeline,
    EmbeddingCache,
    Governor,
    Guard,
    Imprint,
    Inquiry,
    Pipeline,
    Policy,
    rounded,
)
from mien.result import Result
from mien.safety import Consent, Declares, Gallery, Ledger
from mien.safety.label import label_for
from mien.safety.manifest import Provenance
from mien.safety.policy import note_policy, read_policy
from mien.stages.age import Ages
from mien.stages.content import Content
from mien.stages.occlude import Occlusion
from mien.stages.swap import FaceSwap
from mien.token_uri import TokenUri
from mien.types import Corner, Faces, Frame, Identity, Role
from mien.video import Time, VideoProgress, VideoReport, resumed_id, swap_clip, video_job

Person: TypeAlias = PictureLike | Sequence[PictureLike] | Identity
"""Somebody to recognise: by a picture, several pictures, or what Swapper.reference returned."""

Map: TypeAlias = Mapping[Identity, Person] | Sequence[tuple[Identity, Person]]
"""Whose face replaces whom: identities, each with the person who is replaced."""


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
    occlusion
        Keep before the swapped face what is before the target's: hands, microphones, hair, rims of
        spectacles.
    provider, allow_fallback, threads
        Where and how wide networks run; 'auto' is the fastest provider; see engines.choose.
    gpu_memory
        What the process may take of the GPU's memory: '4GB', '800MB', '50%'. PyTorch has one limit
        for the process, so the swapper made last sets it; see engines.limit_memory.
    models
        Folder with further model cards and weights.
    max_megapixels
        Pictures that are larger, all frames together, are refused.
    cache_size, cache_folder
        How many embeddings are remembered, and where on disk, if anywhere.
    ledger
        File of the consent records; default: in the user's data folder, where the key that signs
        them and the audit log always are.
    certificate, private_key
        PEM files of the certificate that signs what is written, with those above it, and of its
        key; default: one that mien makes for this machine at first use.
    signing_pkcs11
        PKCS #11 URI of the certificate's key in a token or HSM, instead of ``private_key``; see
        docs/provenance.md.
    timestamp
        URL of the authority that signs the time; default: nobody is asked.
    label, label_text, label_place
        Whether a label is to be seen on every picture and clip that is written, what it says, and
        in which corner it is: 'bottom-right' (the default), 'bottom-left', 'top-right' or
        'top-left'. None, the default, leaves it to the policy, and means yes if a text or place is
        given; the text is in the user's language by default. Pixels in memory have no label.
    """

    def __init__(
        self,
        *,
        model: str = "mien-256",
        detector: str = "yunet",
        blend: Blend = "alpha",
        color_match: bool = True,
        occlusion: bool = True,
        provider: str = "cpu",
        allow_fallback: bool = False,
        threads: int | None = None,
        gpu_memory: str | None = None,
        models: str | Path | None = None,
        max_megapixels: float = MAX_MEGAPIXELS,
        cache_size: int = 100,
        cache_folder: str | Path | None = None,
        ledger: str | Path | None = None,
        certificate: str | Path | None = None,
        private_key: str | Path | None = None,
        signing_pkcs11: str | None = None,
        timestamp: str | None = None,
        label: bool | None = None,
        label_text: str | None = None,
        label_place: Corner | None = None,
    ) -> None:
        policy = read_policy()
        wanted = label_for(policy, wanted=label, text=label_text, place=label_place)
        self._imprint = Imprint(wanted)
        loader = Loader(Catalogue(models), provider, allow_fallback, threads, gpu_memory)
        finder = loader.finder(detector)
        swap = FaceSwap(*loader.load(model, SwapperContract))
        cache = EmbeddingCache(cache_size, Path(cache_folder) if cache_folder else None)
        self._identifier = loader.identifier(finder, swap.contract.space, cache)
        self.model, self.max_megapixels = model, max_megapixels
        self.ledger = Ledger(Path(ledger) if ledger else None)
        self._begun: set[tuple[Path, tuple[str, ...]]] = set()
        embedder = self._identifier.embedder
        note_policy(policy, self.ledger.audit)
        self._guard = Guard(
            embedder,
            Gallery(),
            self.ledger.audit,
            policy.limits,
            content=functools.cache(lambda: Content(*loader.refusing(CONTENT, ContentContract))),
            ages=functools.cache(lambda: Ages(*loader.refusing(AGE, AgeContract))),
        )
        before = Occlusion(*loader.load(OCCLUSION, OcclusionContract)) if occlusion else None
        self._pipeline = Pipeline(
            finder,
            embedder,
            swap,
            blend=blend,
            color_match=color_match,
            occlusion=before,
            guard=self._guard,
        )
        self._engines = (
            finder.detector.engine,
            finder.landmarker.engine,
            embedder.engine,
            *([before.engine] if before else []),
            swap.engine,
        )
        names = [engine.model for engine in self._engines]
        self._provenance = Provenance(
            {name: loader.digests(name) for name in names},
            Path(certificate) if certificate else None,
            Path(private_key) if private_key else None,
            timestamp,
            TokenUri.read(signing_pkcs11) if signing_pkcs11 else None,
        )

    @property
    def providers(self) -> Mapping[str, str]:
        """What each network really runs on, by the network's name."""
        return {engine.model: engine.provider for engine in self._engines}

    @property
    def home(self) -> torch.device:
        """Where the pictures of clips are worked on: the GPU of all networks, or the CPU."""
        return home_of(self._engines)

    def identity(
        self,
        pictures: PictureLike | Sequence[PictureLike],
        *,
        consent: str | None = None,
        consent_record: str | None = None,
    ) -> Identity:
        """Return the identity of the largest face in a picture, or in several of one person.

        ``consent`` states whose face it is and that its use is agreed to. It is recorded in the
        ledger; without it, a statement recorded earlier for the same pictures is used, or the one
        record whose id is ``consent_record``. Raises LooksYoung, ConsentMissing, ConsentRevoked,
        ConsentExpired, ConsentForged, ClockSetBack, NoFace, DifferentPeople, PictureUnreadable,
        LedgerUnusable, AuditUnwritable.
        """
        if consent is not None and not isinstance(consent, str):
            raise InvalidOption("consent", consent, "a statement in words")
        if consent is not None and consent_record is not None:
            raise OptionsConflict("consent", "consent_record", "a record has its statement")
        read = self._read(pictures)
        name = ", ".join(picture.name for picture in read)
        missing = name if consent_record is None else f"{name} in the record {consent_record}"
        with self.ledger.audit.refusals():
            if consent is None and not self.ledger.find([read[0].digest], record=consent_record):
                raise ConsentMissing(missing)
            if consent is not None and not consent.strip():
                raise ConsentMissing(name)
            person, used = self._identifier.person(read)
            self._guard.source(
                {
                    one.digest: functools.partial(self._shown, one)
                    for one in read
                    if one.digest in used
                },
                adult=self.ledger.adult(used),
            )
            if consent is not None:
                face, space = rounded(person), person.space
                known = self.ledger.record(consent, used, picture=name, face=face, space=space)
                return replace(person, consent=known.id)
            # the record covers the pictures of the person, and need not cover others
            found = self.ledger.find(used, record=consent_record)
            if found is None:
                raise ConsentMissing(missing)
            return replace(person, consent=found.id)

    def _shown(self, picture: Picture) -> tuple[Frame, Faces]:
        """Return a source's picture with its face."""
        return picture.frame, self._identifier.face(picture)

    def grant(
        self,
        pictures: PictureLike | Sequence[PictureLike],
        statement: str,
        *,
        declares: Declares,
        they_agreed: bool = False,
        adult: bool = False,
        purpose: str = "",
        expires: datetime | date | str | None = None,
    ) -> Consent:
        """Record consent to the use of the face in a picture, or in several of one person.

        ``declares`` says who states it: 'self', the person in the picture; 'other', somebody else,
        and ``they_agreed`` says that the person was asked; 'licensed', for a picture whose licence
        allows it; 'no-real-person'. ``adult`` states that the person is one: docs/safety.md says
        what that allows. ``purpose`` is for what the face may be used. ``expires`` is
        the last day, in UTC, on which it holds, or a time with its zone. Consent that was revoked
        or has expired is granted anew. Raises ConsentMissing, ConsentUnconfirmed, InvalidOption,
        and what ``identity`` raises.
        """
        read = self._read(pictures)
        name = ", ".join(picture.name for picture in read)
        with self.ledger.audit.refusals():
            if declares == "other" and not they_agreed:
                raise ConsentUnconfirmed(name)
            person, used = self._identifier.person(read)
            return self.ledger.record(
                statement,
                used,
                picture=name,
                declares=declares,
                agreed=they_agreed,
                adult=adult,
                purpose=purpose,
                expires=expires,
                face=rounded(person),
                space=person.space,
                anew=True,
            )

    def shows(self, record: str, pictures: PictureLike | Sequence[PictureLike]) -> bool:
        """Return whether the face in ``pictures`` is the one to which a record is committed.

        It is if these are the pictures that were embedded for it, by the same network. Raises
        InvalidOption if there is no such record, or it has no commitment or one by another network.
        """
        known, (person, _) = self.ledger.get(record), self._identifier.person(self._read(pictures))
        if known.space != person.space:
            by = f"of a face that {known.space} embedded" if known.space else "without commitment"
            raise InvalidOption("record", record, f"one of a face that {person.space} embedded; "
                                f"this one is {by}")  # fmt: skip
        return known.shows(rounded(person))

    def reference(self, pictures: PictureLike | Sequence[PictureLike]) -> Identity:
        """Return the person in a picture, or in several, to be recognised and replaced.

        No consent is needed, and none recorded: the face cannot be put on another. Raises NoFace,
        DifferentPeople, PictureUnreadable.
        """
        return self._identifier.reference(self._read(pictures))

    def cast(
        self,
        identity: Identity | None = None,
        *,
        faces: Which | Sequence[int] | None = None,
        order: Order | None = None,
        only: Person | None = None,
        map: Map | None = None,  # noqa: A002 - the option's name, everywhere
        max_distance: float | None = None,
    ) -> Cast:
        """Return who is put on which faces, for use with many pictures.

        ``identity`` goes on the faces that ``faces`` names: 'largest' (the default), 'all', or
        numbers counted from 0 in ``order`` ('large-small', the default, 'left-right',
        'top-bottom', and their reverses). With ``only`` it goes on that person's face and no other.
        ``map`` instead pairs several identities with the people they replace; faces and people are
        matched for the best fit on the whole, and nobody else's face is touched.

        At most one face is taken for that of a person, unless ``faces`` is 'all'. ``max_distance``
        is the greatest cosine distance (0 to 2) at which a face is somebody's; None leaves it to
        the embedder's card. Raises InvalidOption, OptionsConflict, and what ``reference`` raises.
        """
        if map is None:
            if not isinstance(identity, Identity):
                found = None if identity is None else type(identity).__name__
                raise InvalidOption("identity", found, "what Swapper.identity returns")
            replaced = None if only is None else self._known(only)
            return Cast((Role(identity, replaced),), faces, order, max_distance)
        for name, value in (("identity", identity), ("only", only)):
            if value is not None:
                raise OptionsConflict(name, "map", "a map says it all")
        check_choice(faces, order, max_distance, person="map")
        pairs = _pairs(map)
        roles = tuple(Role(one, self._known(other)) for one, other in pairs)
        digests = [role.instead_of.digest for role in roles if role.instead_of]
        if len(set(digests)) < len(digests):
            raise InvalidOption("map", "the same person twice", "each person replaced once")
        return Cast(roles, faces, order, max_distance)

    def faces(self, picture: PictureLike) -> Faces:
        """Return all faces in a picture, largest first."""
        return self._pipeline.finder(self._read(picture)[0].frame.view)

    def swap(
        self,
        picture: PictureLike | Picture,
        who: Identity | Cast | None = None,
        *,
        faces: Which | Sequence[int] | None = None,
        order: Order | None = None,
        only: Person | None = None,
        map: Map | None = None,  # noqa: A002 - the option's name, everywhere
        max_distance: float | None = None,
        strength: float = 1.0,
    ) -> Result:
        """Return ``picture`` with the faces in it swapped; see ``cast`` for whose goes where.

        ``who`` is the identity to put on, or a whole cast, which leaves out the other options;
        with ``map`` there is none. ``strength`` goes from the target's own identity (0) to the
        source's (1). All frames of an animation are swapped. Raises NoFace, NoSuchFace,
        PersonAbsent, PictureUnreadable, InvalidOption, OptionsConflict, BadOutput;
        UnsuitableContent; ProtectedPerson and LooksYoung if the source, or a face that would be
        swapped, must not be;
        ConsentRevoked or ConsentExpired if it was, also since the identity was made; and what else
        ``identity`` raises of consent and the audit log.
        """
        cast = self._cast(who, {
            "faces": faces, "order": order, "only": only, "map": map, "max_distance": max_distance
        })  # fmt: skip
        self._begin(cast)
        target = picture if isinstance(picture, Picture) else self._read(picture)[0]
        with Inquiry(self._guard, target.frames, cast) as inquiry:
            adult = self.ledger.adult([target.digest])
            moments = tuple(
                self._pipeline(frame, cast, strength=strength, adult=adult, inquiry=inquiry)
                for frame in target.frames
            )
        gpu = Peak.of(self._engines)
        result = Result(
            moments,
            target,
            cast,
            self.model,
            self.providers,
            gpu,
            self.ledger.audit,
            self._provenance,
            self._imprint,
        )
        if not any(moment.chosen for moment in moments):
            self._explain(result)
        return result

    def swap_video(
        self,
        clip: str | PathLike[str],
        who: Identity | Cast | None = None,
        *,
        output: str | PathLike[str],
        faces: Which | Sequence[int] | None = None,
        order: Order | None = None,
        only: Person | None = None,
        map: Map | None = None,  # noqa: A002 - the option's name, everywhere
        max_distance: float | None = None,
        strength: float = 1.0,
        policy: Policy | None = None,
        smooth: bool = True,
        look: Fraction | float = LOOK,
        start: Time | None = None,
        end: Time | None = None,
        settings: ClipSettings | None = None,
        quality: int | None = None,
        sdr: bool = False,
        fields: Fields = "deinterlace",
        hardware: Hardware = "none",
        resume: bool = False,
        preview: str | PathLike[str] | None = None,
        compare: str | PathLike[str] | None = None,
        threads: int = 2,
        progress: Callable[[VideoProgress], object] | None = None,
    ) -> VideoReport:
        """Write ``clip`` to ``output`` with the faces in it swapped, and return what was done.

        ``who`` and the options after ``output`` are as for ``swap``; faces keep their roles by who
        they are. ``policy`` says what is done about bad faces, ``smooth`` and ``look`` how they are
        followed: see ClipPipeline. ``start`` and ``end`` are seconds from the beginning, or texts
        such as '1:15.5'; sound is cut at the same instants.

        What is written is like the input unless ``settings`` say otherwise. ``quality`` is 1 to 100
        as of pictures, and sets that of ``settings``. ``sdr`` brings HDR to BT.709. ``fields`` says
        what becomes of interlaced frames, and ``hardware`` what decodes. With ``resume`` finished
        pieces are kept in a hidden folder beside the output while it is made, and those of a run
        that was interrupted are taken up. ``preview`` is a picture to write: some frames before
        and after; ``compare`` a clip to write: all frames before and after, beside each other.
        ``threads`` is how many frames are made at once: the result does not depend on
        it. ``progress`` is called after each frame.

        If nobody of the cast is found the clip is copied without encoding it, and the report says
        so; it is no error. Damage is none either: what decodes is swapped, and the report lists
        what was lost. Raises ClipUnreadable, ClipUnwritable, DiskFull, InvalidOption,
        OptionsConflict, PictureUnwritable, and what ``swap`` raises of consent, also when it ends
        while the clip is made; nothing is left behind then.
        """
        cast = self._cast(who, {
            "faces": faces, "order": order, "only": only, "map": map, "max_distance": max_distance
        })  # fmt: skip
        pipeline = self.clip(cast, strength=strength, policy=policy, look=look, smooth=smooth)
        records = tuple(dict.fromkeys(role.identity.consent for role in cast.roles))
        produced = uuid4().hex
        if resume:  # what is there already has the watermark of the run before
            produced = resumed_id(clip, output, pipeline, self._imprint, sdr=sdr, fields=fields)
        imprint = self._imprint.of(produced)
        job = video_job(
            clip,
            output,
            pipeline,
            model=self.model,
            produced=produced,
            start=start,
            end=end,
            settings=settings,
            quality=quality,
            sdr=sdr,
            fields=fields,
            hardware=hardware,
            resume=resume,
            preview=preview,
            compare=compare,
            threads=threads,
            seal=self._provenance.seal(
                Path(clip), consents=records, produced=produced, watermark=imprint.binding
            ),
            imprint=imprint,
        )
        report = swap_clip(
            job,
            pipeline,
            model=self.model,
            engines=self._engines,
            progress=self._watched(cast, progress),
        )
        self.ledger.audit.done(
            job.output,
            beside=report.beside,
            records=list(report.consents),
            model=self.model,
            watermark=None if report.untouched else imprint.watermark,
            frames=report.frames,
            swapped=report.swapped,
        )
        return report

    def clip(
        self,
        cast: Cast,
        *,
        strength: float = 1.0,
        policy: Policy | None = None,
        look: Fraction | float = LOOK,
        smooth: bool = True,
        governor: Governor | None = None,
    ) -> ClipPipeline:
        """Return what swaps the faces of one clip, frame by frame; see ClipPipeline.

        Consent is checked now, and not again. Raises as ``swap`` does.
        """
        self._begin(cast)
        return ClipPipeline(
            self._pipeline,
            cast,
            strength=strength,
            policy=policy,
            look=look,
            smooth=smooth,
            governor=governor,
        )

    def _begin(self, cast: Cast) -> None:
        """Make sure that a cast may be played, and that the audit log tells of its use."""
        records = tuple(dict.fromkeys(role.identity.consent for role in cast.roles))
        ledger = self.ledger
        with ledger.audit.refusals(records):
            ledger.check(records)
        self._guard.cast(cast)
        self._provenance.prepare()
        if (ledger.path, records) not in self._begun:  # a line for each frame would tell no more
            ledger.audit.append("swap.begun", records=list(records), model=self.model)
            self._begun.add((ledger.path, records))

    def _watched(
        self, cast: Cast, progress: Callable[[VideoProgress], object] | None
    ) -> Callable[[VideoProgress], object]:
        """Return ``progress`` such that every second it raises if the consent has ended."""
        looked = monotonic()

        def tell(state: VideoProgress) -> None:
            nonlocal looked
            if monotonic() - looked > 1:
                looked = monotonic()
                self._begin(cast)
            if progress is not None:
                progress(state)

        return tell

    def _explain(self, result: Result) -> None:
        """Raise why nothing was swapped."""
        name, moments, cast = result.target.name, result.moments, result.cast
        fault = next((fault for moment in moments for fault in moment.faults), None)
        if fault is not None:
            engine = self._pipeline.swap.engine
            raise BadOutput(model=engine.model, provider=engine.provider, reason=fault.reason)
        most = max(len(moment.faces) for moment in moments)
        if most == 0:
            raise NoFace(name)
        if cast.by_person:
            far = [moment.distances for moment in moments if moment.distances is not None]
            nearest = min(float(each.min()) for each in far if len(each))
            raise PersonAbsent(name, nearest=nearest, limit=self._pipeline.limit(cast))
        raise NoSuchFace(name, numbers=result.missing, found=most)

    def _cast(self, who: Identity | Cast | None, options: dict[str, Any]) -> Cast:
        """Return the cast that ``who`` is, or that it and ``options`` describe."""
        if not isinstance(who, Cast):
            return self.cast(who, **options)
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise OptionsConflict("who", given[0], "a cast says it all")
        return who

    def _known(self, person: Person) -> Identity:
        return person if isinstance(person, Identity) else self.reference(person)

    def _read(self, pictures: PictureLike | Sequence[PictureLike]) -> list[Picture]:
        several = as_list(pictures)
        if not several:
            raise PictureUnreadable("There is no picture.")
        return [read_picture(one, max_megapixels=self.max_megapixels) for one in several]


def _pairs(given: object) -> list[tuple[Identity, Person]]:
    """Return the pairs of a map. Raises InvalidOption for everything else."""
    wanted = "identities, each with the person who is replaced"
    pairs: list[Any] = []
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        pairs = [tuple(pair) if isinstance(pair, tuple | list) else () for pair in given]
    if not pairs or not all(len(pair) == 2 and isinstance(pair[0], Identity) for pair in pairs):
        raise InvalidOption("map", type(given).__name__, wanted)
    return pairs
