"""Offloading: a hardware encoder in the place of a software one, where it does all that is asked.

What it cannot do, software does; which of them encodes, and why, is a sentence in the notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

from mien.media.clip import families
from mien.media.clip.colour import SDR
from mien.media.clip.containers import Container
from mien.media.clip.encoder import Clockwork, attributes, rate_of
from mien.media.clip.encoding import ENCODERS, LOSSLESS, Encoder, Plan
from mien.media.clip.families import HardEncoder
from mien.media.clip.fitting import Fitter, Shape
from mien.media.clip.info import ClipInfo
from mien.media.clip.layout import layout_of, planar_name
from mien.media.clip.look import Look
from mien.media.clip.orientation import Orientation
from mien.media.clip.settings import ClipSettings
from mien.media.clip.trying import in_build, what_is_wrong

INLINE = frozenset({"avi", "mpegts"})
"""Containers in which an encoder's headers lie among the frames."""


def offloaded(
    soft: Plan, look: Look, info: ClipInfo, container: Container, settings: ClipSettings
) -> Plan:
    """Return ``soft`` with an encoder that ``settings`` name, if one here does the same.

    It is tried with frames of the size and format that it is to get, which takes a second; what
    was found out is remembered. Else ``soft`` is returned. Both have a note that says so.
    """
    why = _beyond(look, info, settings)
    failures = [why] if why else []
    names = families.ORDER if settings.encoder == "auto" else (settings.encoder,)
    for name in () if why else names:
        hard = next((each for each in families.FAMILIES[name] if each.codec == soft.codec), None)
        if hard is None or not in_build(hard.name):
            if settings.encoder != "auto":
                what = f"does not make {soft.codec}" if hard is None else "not in this build"
                failures.append(f"{name}: {what}")
            continue
        plan = _with(hard, name, soft, settings)
        wrong = _unfit(hard, plan, soft, look, container, settings)
        wrong = wrong or _tried(hard, plan, soft, look, info, container, settings)
        if not wrong:
            return _noted(plan, f"Pictures are encoded by {hard.name}.")
        failures.append(f"{name}: {wrong}")
    tried = f" ({'; '.join(failures)})" if failures else ""
    return _noted(soft, f"No hardware can encode the pictures{tried}; {soft.encoder.name} does.")


def trials(name: str) -> Iterator[tuple[str, str]]:
    """Yield the codecs that the family ``name`` has encoders for here, and what is wrong with each.

    The text is empty if nothing is. They are tried with ordinary pictures, one after the other.
    """
    clock = Clockwork(Fraction(1, 25), Fraction(25), Fraction(0))
    shape = Shape(1280, 720, SDR, "left", Fraction(1), Orientation())
    for hard in families.FAMILIES[name]:
        if in_build(hard.name):
            soft = next(each for each in ENCODERS if each.codec == hard.codec)
            yield (
                hard.codec,
                what_is_wrong(
                    hard.name,
                    codec=hard.codec,
                    planar="yuv420p",
                    context=attributes(hard.formats["yuv420p"], shape, clock),
                    options=hard.told(soft, ClipSettings(), deep=False),
                    headers_apart=True,
                ),
            )


def _beyond(look: Look, info: ClipInfo, settings: ClipSettings) -> str:
    """Return what of a clip no hardware here keeps, or an empty text."""
    if info.codec in LOSSLESS and settings.quality is None:
        return "none is without loss"
    if look.colour.hdr and (look.hdr.mastering is not None or look.hdr.light is not None):
        return "PyAV cannot give them the clip's HDR metadata"
    return ""


def _with(hard: HardEncoder, family: str, soft: Plan, settings: ClipSettings) -> Plan:
    planar = planar_name(soft.pixel_format)[0]
    deep = layout_of(planar).depth > 8
    options = hard.told(soft.encoder, settings, deep=deep)
    return Plan(
        Encoder(hard.name, hard.codec, {}, even=True, family=family),
        hard.formats.get(planar, soft.pixel_format),
        MappingProxyType(options),
        soft.notes,
    )


def _unfit(
    hard: HardEncoder,
    plan: Plan,
    soft: Plan,
    look: Look,
    container: Container,
    settings: ClipSettings,
) -> str:
    """Return why ``hard`` need not be tried, or an empty text."""
    fitter = Fitter(look, plan, container, settings)
    if fitter.pixel_format not in hard.formats.values():
        return f"does not take {fitter.pixel_format}"
    if fitter.shape != Fitter(look, soft, container, settings).shape:
        return "takes even sizes only"
    return ""


def _tried(
    hard: HardEncoder,
    plan: Plan,
    soft: Plan,
    look: Look,
    info: ClipInfo,
    container: Container,
    settings: ClipSettings,
) -> str:
    """Return what is wrong with ``hard``, or an empty text.

    It is tried with its usual quality: another one makes no difference to whether it works.
    """
    fitter = Fitter(look, plan, container, settings)
    planar = planar_name(fitter.pixel_format)[0]
    usual = hard.told(
        soft.encoder, replace(settings, quality=None), deep=layout_of(planar).depth > 8
    )
    rate = rate_of(info)
    context = attributes(fitter.pixel_format, fitter.shape, Clockwork(1 / rate, rate, rate * 0))
    return what_is_wrong(
        hard.name,
        codec=hard.codec,
        planar=planar,
        context=context,
        options=usual,
        siting=fitter.shape.siting,
        headers_apart=container.name not in INLINE,
    )


def _noted(plan: Plan, sentence: str) -> Plan:
    return replace(plan, notes=(*plan.notes, sentence))
