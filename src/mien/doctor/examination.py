"""The examination, from the machine to the whole of mien."""

from __future__ import annotations

import os
from pathlib import Path

from mien.doctor.cameras import look_at_cameras
from mien.doctor.findings import Finding, judge
from mien.doctor.machine import look_at_machine
from mien.doctor.report import Report
from mien.errors import CardInvalid
from mien.version import __version__


def examine(
    *, models: str | Path | None = None, threads: int | None = None, speed: bool = True
) -> Report:
    """Return what is to say about this machine and mien on it; takes some ten seconds.

    ``models`` is a folder with further cards and weights, ``threads`` the CPU threads of a network.
    With ``speed`` False nothing is timed and no face is swapped. What is broken is in the report;
    only InvalidOption is raised, for a folder that is not there or an impossible number.
    """
    machine, cameras = look_at_machine(), look_at_cameras()
    try:
        import onnxruntime as ort

        from mien.doctor.codecs import look_at_codecs
        from mien.doctor.networks import look_at_networks
        from mien.doctor.speed import measure
        from mien.models import Catalogue
    except (ImportError, OSError) as error:  # OSError: a library of the system is not there
        what = f"A library that mien needs cannot be loaded. {type(error).__name__}: {error}"
        broken = Finding("error", what, "Install mien anew, in a fresh virtual environment.")
        return Report(__version__, machine, cameras, (broken, *judge(machine, (), cameras, None)))
    try:
        catalogue = Catalogue(models)
    except CardInvalid as error:
        what = str(error).replace(f"{Path(models or '')}{os.sep}", "")  # it may name a person
        broken = Finding("error", what, "Mend the card, or install mien anew.")
        findings = (broken, *judge(machine, (), cameras, None))
        return Report(__version__, machine, cameras, findings, codecs=look_at_codecs())
    networks, engines = look_at_networks(catalogue, machine, threads=threads)
    timed = measure(catalogue, engines) if speed else None
    return Report(
        __version__,
        machine,
        cameras,
        judge(machine, networks, cameras, timed),
        providers=tuple(ort.get_available_providers()),
        networks=networks,
        codecs=look_at_codecs(),
        speed=timed,
    )
