"""The report: facts and findings, as a block of text for a bug report and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mien.doctor.cameras import Cameras
from mien.doctor.findings import Finding, passed_over
from mien.doctor.machine import Gpu, Machine
from mien.doctor.privacy import without_names

if TYPE_CHECKING:
    from mien.doctor.codecs import Codecs
    from mien.doctor.networks import Network
    from mien.doctor.speed import Speed

Rows = list[tuple[str, str]]
"""Keys and values; a value may have several lines."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found out."""

    mien: str
    """Its version."""

    machine: Machine
    cameras: Cameras
    findings: tuple[Finding, ...]
    providers: tuple[str, ...] = ()
    """What ONNX Runtime was built with, in its own words."""

    networks: tuple[Network, ...] = ()
    codecs: Codecs | None = None
    speed: Speed | None = None

    @property
    def failed(self) -> bool:
        """Whether mien cannot do its work here."""
        return any(finding.severity == "error" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON: bytes, milliseconds, and no names of people."""
        facts: dict[str, Any] = without_names(asdict(self))
        return facts

    def text(self) -> str:
        """Return all of it as text that a tracker shows as it is, with no names of people."""
        lines = ["```text", f"mien {self.mien}"]
        for title, rows in self._sections():
            if rows:
                lines += ["", title, *_aligned(rows)]
        shown: str = without_names("\n".join([*lines, "```"]))
        return shown

    def _sections(self) -> Iterator[tuple[str, Rows]]:
        yield "machine", _machine_rows(self.machine)
        versions = [(name, version or "not installed") for name, version in self._versions()]
        yield "packages", versions
        yield "networks", [(network.name, _network(network)) for network in self.networks]
        yield "why nothing faster", _why_rows(self.networks)
        if self.speed:
            yield "speed (median of a run)", _speed_rows(self.speed)
        if self.codecs:
            yield "files", _codec_rows(self.codecs)
        yield "cameras", _camera_rows(self.cameras)
        yield "findings", [(f.severity, _lines(f.what, f.remedy)) for f in self.findings]

    def _versions(self) -> Iterator[tuple[str, str | None]]:
        yield from self.machine.packages.items()
        if self.providers:
            yield "providers", ", ".join(self.providers)


def _machine_rows(machine: Machine) -> Rows:
    return [
        ("system", machine.system),
        ("python", machine.python),
        ("processor", machine.processor),
        ("cores", str(machine.cores or "unknown")),
        ("memory", _gigabytes(machine.memory)),
        *(("GPU", _gpu(gpu)) for gpu in machine.gpus),
        *([] if machine.gpus else [("GPU", "none is seen")]),
        *(("disk free", f"{_gigabytes(free)}, {what}") for what, free in machine.disk.items()),
    ]


def _gpu(gpu: Gpu) -> str:
    driver = f", driver {gpu.driver}" if gpu.driver else ""
    memory = f", {_gigabytes(gpu.memory)}" if gpu.memory else ""
    return f"{gpu.name} ({gpu.maker}{memory}{driver})"


def _network(network: Network) -> str:
    runs = f"runs on {network.provider}" if network.provider else "cannot be run"
    return f"{network.role}, weights {network.weights}, {runs}"


def _why_rows(networks: Sequence[Network]) -> Rows:
    rows = []
    for passed, names in passed_over(networks).items():
        only = "" if len(names) == len(networks) else f"{', '.join(names)}: "
        rows.append((passed.provider, _lines(only + passed.why, passed.remedy)))
    return rows


def _speed_rows(speed: Speed) -> Rows:
    rows = []
    for run in speed.networks:
        time = "not timed" if run.milliseconds is None else f"{run.milliseconds} ms"
        rows.append((run.name, f"{time} on {run.provider}"))
    whole = f"{speed.milliseconds} ms, {speed.per_second} pictures per second"
    return [*rows, ("720p, 1 face", "failed" if speed.fault else whole)]


def _codec_rows(codecs: Codecs) -> Rows:
    rows = []
    for codec in codecs.pictures:
        uses = [use for use, can in (("read", codec.read), ("write", codec.write)) if can]
        rows.append((codec.name, _lines(", ".join(uses) or "cannot be read", codec.remedy)))
    video = f"FFmpeg {codecs.ffmpeg}" if codecs.ffmpeg else "PyAV is not installed"
    rows.append(("video", _lines(video, codecs.remedy)))
    for each in codecs.encoders:
        does = f"encodes {', '.join(each.codecs)}" if each.codecs else "does not encode"
        rows.append((each.family, f"{does} ({each.why})" if each.why else does))
    return rows


def _camera_rows(cameras: Cameras) -> Rows:
    rows = [
        (camera.device or f"camera {i}", _lines(camera.name, camera.fault, camera.remedy))
        for i, camera in enumerate(cameras.listed)
    ]
    return [*rows, *([("none", cameras.note)] if cameras.note else [])]


def _lines(*parts: str | None) -> str:
    return "\n".join(filter(None, parts))


def _gigabytes(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e9:.1f} GB"


def _aligned(rows: Rows) -> Iterator[str]:
    wide = max(len(key) for key, _ in rows)
    for key, value in rows:
        first, *others = (value or "unknown").splitlines()
        yield f"  {key:<{wide}}  {first}"
        yield from (f"  {'':<{wide}}  {line}" for line in others)
