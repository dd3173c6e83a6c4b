"""Tones: HDR and wide colours, seen in sRGB, and the way back.

PQ and HLG are SMPTE ST 2084 and ARIB STD-B67 as given in ITU-R BT.2100-2. They are brought into
the range of an ordinary screen with the EETF of ITU-R BT.2390-11, 5.4.1, on each of red, green
and blue of BT.2020, from the brightest light of the mastering screen (1,000 cd/m2 if not said) to
203 cd/m2, the white of BT.2408-7. So it has an inverse, but for colours that sRGB lacks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mien.media.clip.colour import HLG, PQ, Colour

WHITE = 203.0
"""Candelas per square metre of diffuse white (BT.2408-7)."""

HLG_PEAK = 1000.0
"""The nominal peak of an HLG screen, for which its system gamma is 1.2 (BT.2100-2)."""

GAMMA = 2.4
"""Of an ordinary screen (ITU-R BT.1886)."""

STEPS = 33
"""Steps of a table per axis."""

BAND = 1 << 18
"""Pixels converted at a time."""

TO_709: dict[int, list[list[float]]] = {
    9: [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
    12: [[1.2249, -0.2247, 0.0], [-0.0420, 1.0419, 0.0], [-0.0197, -0.0786, 1.0979]],
    11: [[1.2249, -0.2247, 0.0], [-0.0420, 1.0419, 0.0], [-0.0197, -0.0786, 1.0979]],
}
"""Linear RGB of BT.2020 (BT.2087-0) and of P3 to that of BT.709, by the code of the primaries."""

Floats = npt.NDArray[np.floating[Any]]


def pq_to_light(code: Floats) -> Floats:
    """Return candelas per square metre for PQ values in [0, 1] (BT.2100-2, table 4)."""
    power = np.power(np.clip(code, 0, 1), 32 / 2523)
    base = np.maximum(power - 3424 / 4096, 0) / (2413 / 128 - 2392 / 128 * power)
    return np.asarray(10000 * np.power(base, 16384 / 2610))


def light_to_pq(light: Floats) -> Floats:
    """Return PQ values in [0, 1] for candelas per square metre."""
    power = np.power(np.clip(light, 0, 10000) / 10000, 2610 / 16384)
    ratio = (3424 / 4096 + 2413 / 128 * power) / (1 + 2392 / 128 * power)
    return np.asarray(np.power(ratio, 2523 / 32))


def hlg_to_scene(code: Floats) -> Floats:
    """Return scene light in [0, 1] for HLG values in [0, 1] (BT.2100-2, table 5)."""
    high = (np.exp((code - 0.55991073) / 0.17883277) + 0.28466892) / 12
    return np.asarray(np.where(code <= 0.5, code * code / 3, high))


def scene_to_hlg(scene: Floats) -> Floats:
    """Return HLG values in [0, 1] for scene light in [0, 1]."""
    bright = 0.17883277 * np.log(np.maximum(12 * scene - 0.28466892, 1e-9)) + 0.55991073
    return np.asarray(np.where(scene <= 1 / 12, np.sqrt(3 * np.maximum(scene, 0)), bright))


def compressed(light: Floats, peak: float) -> Floats:
    """Return ``light`` in candelas per square metre, of up to ``peak``, within 0 to WHITE."""
    top = float(light_to_pq(np.array(peak)))
    most = float(light_to_pq(np.array(WHITE))) / top
    if most >= 1:
        return np.minimum(light, WHITE)
    value = np.clip(light_to_pq(light) / top, 0, 1)
    knee = 1.5 * most - 0.5
    t = np.maximum(value - knee, 0) / (1 - knee)
    bent = (
        (2 * t**3 - 3 * t**2 + 1) * knee
        + (t**3 - 2 * t**2 + t) * (1 - knee)
        + (3 * t**2 - 2 * t**3) * most
    )
    return pq_to_light(np.where(value < knee, value, bent) * top)


def to_srgb(linear: Floats) -> Floats:
    """Return sRGB values in [0, 1] for linear ones (IEC 61966-2-1)."""
    linear = np.clip(linear, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def from_srgb(value: Floats) -> Floats:
    """Return linear values in [0, 1] for sRGB ones."""
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


class Tones:
    """How pixels with ``colour`` look in sRGB. ``peak`` is in candelas per square metre."""

    def __init__(self, colour: Colour, peak: float) -> None:
        self.colour = colour
        self.peak = HLG_PEAK if colour.transfer == HLG else peak
        primaries = colour.primaries if colour.wide else 9
        self._matrix = np.array(TO_709[primaries])

    @property
    def plain(self) -> bool:
        """Whether the pixels are taken for sRGB as they are."""
        return not (self.colour.hdr or self.colour.wide)

    def sight(self, pixels: npt.NDArray[Any], *, screen: bool = False) -> npt.NDArray[np.uint8]:
        """Return ``pixels`` (H, W, 3), uint8 or uint16, as uint8 (H, W, 3) in sRGB.

        ``screen`` asks for values of BT.709 on a BT.1886 screen in place of sRGB's.
        """
        height, width = pixels.shape[:2]
        seen = np.empty((height, width, 3), np.uint8)
        # a gamma that is taken off is put on again: between those two, only the primaries differ
        own = self.colour.hdr and not screen
        code = _codes(own)
        into = np.asarray(self._matrix.T, np.float32)
        lookup = self._linear(np.iinfo(pixels.dtype).max)
        rows = max(1, BAND // width)
        for top in range(0, height, rows):
            linear = lookup.take(pixels[top : top + rows].reshape(-1, 3))
            if self.colour.transfer == HLG:
                linear = self._displayed(linear)
            linear = np.clip(linear @ into, 0, 1)
            np.sqrt(linear, out=linear)
            linear *= len(code) - 1
            linear += 0.5
            seen[top : top + rows] = code.take(linear.astype(np.uint16)).reshape(-1, width, 3)
        return seen

    def table(self) -> Tensor | None:
        """Return the table from sRGB into the pixels' values; see Frame.table."""
        if self.plain:
            return None
        line = np.linspace(0, 1, STEPS)
        grid = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1)
        back = np.linalg.inv(self._matrix).T
        if not self.colour.hdr:
            values = np.clip(np.power(grid, GAMMA) @ back, 0, 1) ** (1 / GAMMA)
        else:
            values = self._encoded(np.clip(from_srgb(grid) @ back, 0, 1) * WHITE)
        return torch.from_numpy(values).permute(3, 0, 1, 2).float().contiguous()

    def _encoded(self, shown: Floats) -> Floats:
        """Return the clip's values for light ``shown`` after compression, in cd/m2."""
        light: Floats = pq_to_light(light_to_pq(np.array(self.peak)) * np.linspace(0, 1, 4096))
        light = np.interp(shown, compressed(light, self.peak), light)
        if self.colour.transfer == PQ:
            return light_to_pq(light)
        relative = light / HLG_PEAK
        luma = relative @ np.array([0.2627, 0.6780, 0.0593])
        gain = np.power(np.maximum(luma, 1e-6), (1 - 1.2) / 1.2)
        return np.clip(scene_to_hlg(relative * gain[..., None]), 0, 1)

    def _linear(self, top: int) -> npt.NDArray[np.float32]:
        """Return, for every code up to ``top``, light of which 1 is white; for HLG, the scene's."""
        code: Floats = np.arange(top + 1) / top
        linear: Floats
        if self.colour.transfer == PQ:
            linear = compressed(pq_to_light(code), self.peak) / WHITE
        elif self.colour.transfer == HLG:
            linear = hlg_to_scene(code)
        else:
            linear = np.power(code, GAMMA)
        return linear.astype(np.float32)

    def _displayed(self, scene: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return what a screen shows of HLG's scene light (BT.2100-2, table 5), compressed."""
        luma = scene @ np.array([0.2627, 0.6780, 0.0593], np.float32)
        light = scene * np.power(luma, np.float32(0.2))[..., None]
        curve = _hlg_curve()
        return curve[(np.sqrt(np.clip(light, 0, 1)) * (len(curve) - 1) + 0.5).astype(np.uint16)]


@lru_cache(maxsize=2)
def _codes(srgb: bool) -> npt.NDArray[np.uint8]:
    """Return 8-bit values for square roots of linear light, at 8192 steps of 0 to 1."""
    linear = np.linspace(0, 1, 8192) ** 2
    value = to_srgb(linear) if srgb else np.power(linear, 1 / GAMMA)
    return (value * 255 + 0.5).astype(np.uint8)


@lru_cache(maxsize=1)
def _hlg_curve() -> npt.NDArray[np.float32]:
    """Return compressed light, 1 being white, for square roots of an HLG screen's light."""
    light = np.linspace(0, 1, 16384) ** 2 * HLG_PEAK
    return (compressed(light, HLG_PEAK) / WHITE).astype(np.float32)
