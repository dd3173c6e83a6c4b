"""Report: what was done to a clip, by stretches of frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from mien.engines import Peak
from mien.media.clip import Lost, Written
from mien.pipeline import Cast
from mien.types import Event

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the upright picture."""

GROUPS: Mapping[str, str] = {
    "decode": "decode",
    "convert": "decode",
    "detect": "find",
    "landmark": "find",
    "track": "find",
    "embed": "find",
    "return": "encode",
    "encode": "encode",
}
"""What each stage counts as in a short account; all others make faces anew."""


@dataclass(frozen=True, slots=True)
class FaceStretch:
    """One face during a stretch of a clip."""

    track: int
    """The face's id, which it keeps through the clip."""

    role: int | None
    """Which role of the cast it plays, counted from 0; None if it was left as it is."""

    score: float
    """The detector's, 0 to 1; the mean."""

    distance: float | None
    """Cosine distance to who is replaced in its role, or in the nearest; the mean. None if faces
    were chosen by place, or were not seen."""

    opacity: float
    """How opaque the new face was laid, 0 to 1; the mean. 0 if it was left as it is."""

    first: Box
    """Where it was in the first frame."""

    last: Box
    around: Box
    """The smallest box around all its places."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Frames in a row in which the same faces are there and play the same roles."""

    start: Fraction
    """When its first frame is shown, in seconds from the clip's beginning."""

    end: Fraction
    """When its last frame is shown."""

    frames: int
    faces: tuple[FaceStretch, ...]


@dataclass(frozen=True, slots=True)
class TrackSummary:
    """One face through the whole clip."""

    track: int
    roles: tuple[int, ...]
    """Those that it played."""

    start: Fraction
    end: Fraction
    frames: int
    """In how many it was there, or waited for while its face was carried along."""

    swapped: int
    """In how many it was swapped."""

    score: float
    """The detector's; the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class VideoReport:
    """What was done to a clip, and what was written. Times are seconds from its beginning."""

    written: Written
    """The file, and what became of all tracks."""

    copied: bool
    """Whether nobody of the cast was found, and the pictures were copied without encoding."""

    cast: Cast
    model: str
    providers: Mapping[str, str]
    frames: int
    """Frames that decoded, between the start and the end that were asked for."""

    swapped: int
    """Frames in which a face was swapped."""

    kept: int
    """Frames that an earlier run had finished; see ``resume``."""

    most: int
    """Faces in the frame that has the most of them."""

    nearest: float | None
    """The least distance of a face to somebody who is to be replaced; None if faces were chosen by
    place, or there was none."""

    limit: float
    """The greatest distance at which a face is somebody's."""

    stretches: tuple[Stretch, ...]
    tracks: tuple[TrackSummary, ...]
    events: tuple[Event, ...]
    """What was wrong with faces that were to be swapped, when, and what was done about it."""

    lost: tuple[Lost, ...]
    """What could not be read of the clip."""

    timings: Mapping[str, float]
    """Seconds by stage, of all threads together."""

    seconds: float
    """How long it took."""

    gpu: Peak | None = None
    """The GPU on which PyTorch ran networks, and the most that it took there; None without one."""

    beside: tuple[Path, ...] = ()
    """All files that were written beside the output."""

    manifest: Path | None = None
    """The one of them with the output's manifest, if that is in none itself."""

    label: Mapping[str, str] | None = None
    """Text and place of the label on every frame; None if there is none."""

    signed: bool = False
    """Whether there is a manifest: there is none if no frame was changed."""

    @property
    def consents(self) -> tuple[str, ...]:
        """Ids of the consent records of the people whose faces were used."""
        played = sorted({role for track in self.tracks for role in track.roles})
        return tuple(dict.fromkeys(self.cast.roles[role].identity.consent for role in played))

    @property
    def missing(self) -> tuple[int, ...]:
        """What was asked for and never seen: numbers of faces, or roles; see Result.missing."""
        if self.cast.by_person:
            played = {role for track in self.tracks for role in track.roles}
            return tuple(role for role in range(len(self.cast.roles)) if role not in played)
        if isinstance(self.cast.faces, tuple):
            return tuple(number for number in self.cast.faces if number >= self.most)
        return ()

    @property
    def untouched(self) -> bool:
        """Whether no frame was changed, as nobody of the cast was found."""
        return self.swapped == 0

    @property
    def partial(self) -> bool:
        """Whether something was lost, a face could not be swapped, or a number never appeared."""
        rejected = any(event.reason == "rejected" for event in self.events)
        numbers = not self.cast.by_person and bool(self.missing)
        return bool(self.lost) or rejected or (numbers and not self.untouched)

    @property
    def speed(self) -> float:
        """Frames per second, from file to file."""
        return self.frames / self.seconds if self.seconds else 0.0

    @property
    def shares(self) -> Mapping[str, float]:
        """What part of the work went into 'decode', 'find', 'make' and 'encode'; sums to 1."""
        return shares_of(self.timings)

    def report(self) -> dict[str, Any]:
        """Return all of it, ready for JSON; times are seconds."""
        return {
            "kind": "clip",
            "copied": self.copied,
            "consents": list(self.consents),
            "model": self.model,
            "providers": dict(self.providers),
            **({} if self.gpu is None else {"gpu": self.gpu.report()}),
            "frames": self.frames,
            "swapped_frames": self.swapped,
            "frames_of_an_earlier_run": self.kept,
            "missing": list(self.missing),
            "nearest": None
            if self.nearest is None
            else {"distance": round(self.nearest, 3), "limit": self.limit},
            "ranges": [_stretch(each) for each in self.stretches],
            "tracks": [
                {
                    "track": each.track,
                    "roles": list(each.roles),
                    **_span(each.start, each.end),
                    "frames": each.frames,
                    "swapped_frames": each.swapped,
                    "score": round(each.score, 3),
                }
                for each in self.tracks
            ],
            "events": [
                {
                    "track": event.track,
                    "reason": event.reason,
                    "action": event.action,
                    **_span(event.start, event.end),
                    "frames": event.frames,
                }
                for event in self.events
            ],
            "lost": [
                {
                    "kind": lost.kind,
                    "start": None if lost.start is None else _seconds(lost.start),
                    "end": None if lost.end is None else _seconds(lost.end),
                    "frames": lost.frames,
                    "why": lost.why,
                }
                for lost in self.lost
            ],
            "written": {
                "codec": self.written.codec,
                "frames": self.written.frames,
                "seconds": _seconds(self.written.duration),
                "bytes": self.written.size,
                "label": None if self.label is None else dict(self.label),
                "signed": self.signed,
                "manifest_beside": None if self.manifest is None else str(self.manifest),
                "tracks": [
                    {
                        "index": track.index,
                        "kind": track.kind,
                        "codec": track.codec,
                        "language": track.language,
                        "fate": track.fate,
                        "into": track.into,
                        "why": track.why,
                    }
                    for track in self.written.tracks
                ],
                "notes": list(self.written.notes),
            },
            "milliseconds": {k: round(v * 1e3, 2) for k, v in self.timings.items()},
            "shares": {k: round(v, 3) for k, v in self.shares.items()},
            "seconds": round(self.seconds, 3),
            "frames_per_second": round(self.speed, 2),
        }

    def __repr__(self) -> str:
        what = "copied" if self.copied else f"{self.swapped} of {self.frames} frames swapped"
        return f"VideoReport({self.written.path.name}: {what})"


def shares_of(timings: Mapping[str, float]) -> dict[str, float]:
    """Return what part of the seconds in ``timings`` each of the four groups of stages took."""
    groups = dict.fromkeys(("decode", "find", "make", "encode"), 0.0)
    for stage, seconds in timings.items():
        groups[GROUPS.get(stage, "make")] += seconds
    total = sum(groups.values()) or 1.0
    return {group: seconds / total for group, seconds in groups.items()}


def _stretch(each: Stretch) -> dict[str, Any]:
    return {
        **_span(each.start, each.end),
        "frames": each.frames,
        "faces": [
            {
                "track": face.track,
                "role": face.role,
                "score": round(face.score, 3),
                "distance": None if face.distance is None else round(face.distance, 3),
                "opacity": round(face.opacity, 3),
                "first": list(face.first),
                "last": list(face.last),
                "around": list(face.around),
            }
            for face in each.faces
        ],
    }


def _span(start: Fraction, end: Fraction) -> dict[str, float]:
    return {"start": _seconds(start), "end": _seconds(end)}


def _seconds(time: Fraction) -> float:
    return round(float(time), 6)
