"""What comes out: a swapped picture, and what there is to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from mien.engines import Peak
from mien.geometry import uncover
from mien.media import Picture, Subsampling, in_srgb, write_picture
from mien.media.draw import draw_faces, side_by_side
from mien.pipeline import NONE, Cast, Imprint
from mien.safety import AuditLog, xmp_packet
from mien.safety.manifest import Provenance, Seal, beside
from mien.types import Faces, Frame, Swapped
from mien.version import __version__


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A swapped picture and how it came about."""

    moments: tuple[Swapped, ...]
    """What was done to each frame: one, unless the picture moves."""

    target: Picture
    """The picture, its pixels changed."""

    cast: Cast
    model: str
    providers: Mapping[str, str]
    gpu: Peak | None = None
    """The GPU on which PyTorch ran networks, and the most that it took there; None without one."""

    audit: AuditLog | None = None
    """Where it is written down that the picture was saved; None: nowhere."""

    provenance: Provenance | None = None
    """What signs what is written, and how it was made; None: nothing does."""

    imprint: Imprint = NONE
    """What goes into the pixels of what is written: a watermark, and a label if there is one."""

    @property
    def swapped(self) -> Swapped:
        """What was done to the picture, or to the first frame of an animation that was changed."""
        return next((moment for moment in self.moments if moment.chosen), self.moments[0])

    @property
    def faces(self) -> Faces:
        """Every face that was found, in the order that was asked for: by default largest first."""
        return self.swapped.faces

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by stage, of all frames together."""
        total: dict[str, float] = {}
        for moment in self.moments:
            for stage, seconds in moment.timings.items():
                total[stage] = total.get(stage, 0.0) + seconds
        return total

    @property
    def consents(self) -> tuple[str, ...]:
        """Ids of the consent records of the people whose faces were used."""
        played = sorted({role for moment in self.moments for role in moment.roles})
        return tuple(dict.fromkeys(self.cast.roles[role].identity.consent for role in played))

    @property
    def missing(self) -> tuple[int, ...]:
        """What was asked for and is not in the picture: numbers of faces, or of the cast's roles.

        Roles, counted from 0, if faces were chosen by person.
        """
        if self.cast.by_person:
            played = {role for moment in self.moments for role in moment.roles}
            return tuple(r for r in range(len(self.cast.roles)) if r not in played)
        if isinstance(self.cast.faces, tuple):
            most = max(len(moment.faces) for moment in self.moments)
            return tuple(number for number in self.cast.faces if number >= most)
        return ()

    @property
    def partial(self) -> bool:
        """Whether a face could not be swapped, or the picture has none of a number asked for."""
        faults = any(moment.faults for moment in self.moments)
        return faults or (not self.cast.by_person and bool(self.missing))

    @property
    def pixels(self) -> npt.NDArray[np.uint8]:
        """The new picture in sRGB, uint8 (H, W, 3), a copy; of an animation, ``swapped``'s.

        It has neither watermark nor label, which ``save`` lays on: outside of the swapped faces
        nothing differs from the target.
        """
        return in_srgb(self.target, self.swapped.frame)

    @property
    def before(self) -> npt.NDArray[np.uint8]:
        """The picture as it was, like ``pixels``."""
        frame = self.swapped.frame
        pixels = frame.pixels.clone()
        if self.swapped.layers is not None:
            uncover(pixels, self.swapped.layers.covered)
        return in_srgb(self.target, replace(frame, pixels=pixels))

    @property
    def image(self) -> Image.Image:
        """The new picture for PIL."""
        return Image.fromarray(self.pixels)

    def save(
        self,
        path: str | Path,
        *,
        quality: int | None = None,
        subsampling: Subsampling | None = None,
    ) -> None:
        """Write the picture in the format of the suffix, marked as synthetic.

        Depth, colours, alpha, metadata and compression are those of the input, as far as the
        format allows; ``quality`` (1 to 100) and ``subsampling`` ('4:4:4', '4:2:2', '4:2:0')
        change the last. Every frame gets an invisible watermark, and a label if the swapper wants
        one. The metadata say how the picture was made, and by whose consent, and so does a signed
        manifest: in the file, or in NAME.c2pa beside a BMP. Raises PictureUnwritable,
        InvalidOption, SigningFailed, CertificateUnusable, AuditUnwritable; nothing is left behind
        then.
        """
        produced = uuid4().hex
        imprint = self.imprint.of(produced)
        write_picture(
            Path(path),
            imprint.picture(self.target),
            xmp=self._mark(produced, self.target.metadata.xmp),
            quality=quality,
            subsampling=subsampling,
            seal=self._seal(produced, imprint),
        )
        if self.audit is not None:
            manifest = None if self.provenance is None else beside(Path(path))
            self.audit.done(
                Path(path),
                beside=[] if manifest is None else [manifest],
                records=list(self.consents),
                model=self.model,
                watermark=imprint.watermark,
                frames=len(self.moments),
                swapped=sum(len(moment.chosen) for moment in self.moments),
            )

    def save_compare(self, path: str | Path) -> None:
        """Write the picture before and after, side by side, marked and labelled as by ``save``."""
        both, produced = side_by_side(self.before, self.pixels), uuid4().hex
        imprint = self.imprint.of(produced)
        write_picture(
            Path(path),
            imprint.picture(picture_of(both, Path(path).name)),
            xmp=self._mark(produced),
            seal=self._seal(produced, imprint),
        )

    def save_debug_view(self, path: str | Path) -> None:
        """Write the picture as it was, with boxes, points, meshes and masks drawn on it.

        Nothing in it is synthetic, so it has no marks and no label.
        """
        drawn = draw_faces(self.before, self.faces, self.swapped.layers)
        write_picture(Path(path), picture_of(drawn, Path(path).name), xmp=None)

    def report(self) -> dict[str, Any]:
        """Return what happened, ready for JSON."""
        report = {
            "consents": list(self.consents),
            "model": self.model,
            "providers": dict(self.providers),
            **({} if self.gpu is None else {"gpu": self.gpu.report()}),
            **_account(self.swapped),
            "missing": list(self.missing),
            "label": self.imprint.report(),
            "milliseconds": {k: round(v * 1e3, 2) for k, v in self.timings.items()},
        }
        if len(self.moments) > 1:
            report["frames"] = [
                {"seconds": float(moment.frame.time or 0), **_account(moment)}
                for moment in self.moments
            ]
        return report

    def _mark(self, produced: str, existing: bytes = b"") -> bytes:
        return xmp_packet(
            consents=self.consents,
            model=self.model,
            version=__version__,
            existing=existing,
            produced=produced,
        )

    def _seal(self, produced: str, imprint: Imprint) -> Seal | None:
        if self.provenance is None:
            return None
        return self.provenance.seal(
            self.target.path,
            consents=self.consents,
            produced=produced,
            watermark=imprint.binding,
        )

    def __repr__(self) -> str:
        done = f"{len(self.swapped.chosen)} of {len(self.faces)} faces"
        frames = f" in {len(self.moments)} frames" if len(self.moments) > 1 else ""
        return f"Result({self.target.name}: {done}{frames})"


def picture_of(pixels: npt.NDArray[np.uint8], name: str) -> Picture:
    """Return RGB ``pixels`` (H, W, 3) as a picture."""
    return Picture((Frame(torch.from_numpy(pixels)),), name=name)


def describe(faces: Faces, distances: Tensor | None = None) -> list[dict[str, Any]]:
    """Return boxes, scores, points, rolls and ``distances`` (K, R) of faces, ready for JSON."""
    return [
        {
            "index": i,
            "box": [round(v, 1) for v in faces.boxes[i].tolist()],
            "size": [round(v, 1) for v in (faces.boxes[i, 2:] - faces.boxes[i, :2]).tolist()],
            "score": round(float(faces.scores[i]), 3),
            "roll": round(float(faces.rolls[i]), 1),
            "points": [[round(v, 1) for v in point] for point in faces.points[i].tolist()],
            **({} if distances is None else {"distances": _rounded(distances[i])}),
        }
        for i in range(len(faces))
    ]


def _rounded(row: Tensor) -> list[float]:
    return [round(v, 3) for v in row.tolist()]


def _account(moment: Swapped) -> dict[str, Any]:
    """Return what was done to one frame."""
    return {
        "faces": describe(moment.faces, moment.distances),
        "swapped": [
            {"face": face, "role": role}
            for face, role in sorted(zip(moment.chosen, moment.roles, strict=True))
        ],
        "faults": [{"face": f.face, "reason": f.reason} for f in moment.faults],
    }
