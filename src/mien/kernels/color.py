"""Colour matching of faces in three kernels; the twin is ``mien.replay.color.ColorMatch``.

One sums up the colours of both pictures, one finds the map between them, one applies it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from mien.kernels.placing import placed

CELLS = 16
"""Means of squares of pixels that one program sums up."""

PIXELS = 512
"""Pixels that one program maps."""

SUMS = 19
"""Numbers that are summed up: the weight, and of each picture three means and six products."""

LIGHT = tl.constexpr(0.5)
"""Lightness that sums are taken about, so that squares lose nothing."""


@placed
def match(
    pixels: Tensor,
    target: Tensor,
    weights: Tensor,
    matrices: Tensor,
    *,
    grain: int,
    floor: float,
    stretch: float,
    sweeps: int,
) -> Tensor:
    """Return RGB ``pixels`` (K, 3, S, S) in [0, 1] with the colours of ``target``.

    ``weights`` (K, S, S) >= 0. ``matrices`` float32 (4, 3, 3) take linear light to cones, cones to
    Oklab, and back. ``grain``, ``floor`` and ``stretch`` are those of ``stages.color``, ``sweeps``
    are rounds of Jacobi's method.
    """
    count, _, size, _ = pixels.shape
    pixels, target, weights = pixels.contiguous(), target.contiguous(), weights.contiguous()
    across = size // grain
    blocks = triton.cdiv(across * across, CELLS)
    sums = torch.empty(count, SUMS, blocks, dtype=torch.float64, device=pixels.device)
    _sum_up[(blocks, count)](
        pixels, target, weights, matrices, sums, size, across, blocks, grain, CELLS, SUMS
    )
    maps = torch.empty(count, 13, device=pixels.device)
    _find[(count,)](
        sums, maps, blocks, floor, stretch, sweeps,
        triton.next_power_of_2(blocks), SUMS, num_warps=1,
    )  # fmt: skip
    made = torch.empty_like(pixels)
    area = size * size
    _apply[(triton.cdiv(area, PIXELS), count)](pixels, matrices, maps, made, area, PIXELS)
    return made


@triton.jit
def _power(x, exponent):
    """Return x to a positive power, 0 for all x <= 0."""
    return tl.where(x > 0, tl.exp2(tl.log2(tl.maximum(x, 1e-30)) * exponent), 0.0)


@triton.jit
def _product(matrix, x, y, z):
    """Return a stored matrix (3, 3) times a vector."""
    return (
        tl.load(matrix) * x + tl.load(matrix + 1) * y + tl.load(matrix + 2) * z,
        tl.load(matrix + 3) * x + tl.load(matrix + 4) * y + tl.load(matrix + 5) * z,
        tl.load(matrix + 6) * x + tl.load(matrix + 7) * y + tl.load(matrix + 8) * z,
    )


@triton.jit
def _linear(code):
    return tl.where(code <= 0.04045, code / 12.92, _power((code + 0.055) / 1.055, 2.4))


@triton.jit
def _code(linear):
    return tl.where(
        linear <= 0.0031308,
        tl.maximum(linear, 0.0) * 12.92,
        1.055 * _power(linear, 1 / 2.4) - 0.055,
    )


@triton.jit
def _lab(red, green, blue, matrices):
    x, y, z = _product(matrices, _linear(red), _linear(green), _linear(blue))
    return _product(matrices + 9, _power(x, 1 / 3), _power(y, 1 / 3), _power(z, 1 / 3))


@triton.jit
def _mean(picture, at, area, there, weights, weight, matrices):
    """Return the weighted mean colours of cells, about LIGHT."""
    red = tl.load(picture + at, mask=there, other=0.0)
    green = tl.load(picture + area + at, mask=there, other=0.0)
    blue = tl.load(picture + 2 * area + at, mask=there, other=0.0)
    light, a, b = _lab(red, green, blue, matrices)
    scale = 1 / tl.maximum(weight, 1e-12)
    return (
        tl.sum((light - LIGHT) * weights, axis=1) * scale,
        tl.sum(a * weights, axis=1) * scale,
        tl.sum(b * weights, axis=1) * scale,
    )


@triton.jit
def _store(row, step, weight, light, a, b):
    """Store what a picture's cells sum up to: three means, six products."""
    light, a, b = light.to(tl.float64), a.to(tl.float64), b.to(tl.float64)
    tl.store(row, tl.sum(weight * light, axis=0))
    tl.store(row + step, tl.sum(weight * a, axis=0))
    tl.store(row + 2 * step, tl.sum(weight * b, axis=0))
    tl.store(row + 3 * step, tl.sum(weight * light * light, axis=0))
    tl.store(row + 4 * step, tl.sum(weight * light * a, axis=0))
    tl.store(row + 5 * step, tl.sum(weight * light * b, axis=0))
    tl.store(row + 6 * step, tl.sum(weight * a * a, axis=0))
    tl.store(row + 7 * step, tl.sum(weight * a * b, axis=0))
    tl.store(row + 8 * step, tl.sum(weight * b * b, axis=0))


@triton.jit
def _sum_up(
    pixels, target, weights, matrices, sums, size, across, blocks,
    GRAIN: tl.constexpr, CELLS: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    face, block = tl.program_id(1), tl.program_id(0)
    cell = block * CELLS + tl.arange(0, CELLS)
    inside = tl.arange(0, GRAIN * GRAIN)
    top, left = (cell // across) * GRAIN, (cell % across) * GRAIN
    at = (top[:, None] + inside[None, :] // GRAIN) * size
    at += left[:, None] + inside[None, :] % GRAIN
    there = (cell < across * across)[:, None] & (inside >= 0)[None, :]
    area = size * size
    each = tl.load(weights + face * area + at, mask=there, other=0.0) / (GRAIN * GRAIN)
    weight = tl.sum(each, axis=1)
    light, a, b = _mean(
        pixels + face * 3 * area, at, area, there, each, weight, matrices
    )  # fmt: skip
    wanted_light, wanted_a, wanted_b = _mean(
        target + face * 3 * area, at, area, there, each, weight, matrices
    )
    row = sums + face * SUMS * blocks + block
    much = weight.to(tl.float64)
    tl.store(row, tl.sum(much, axis=0))
    _store(row + blocks, blocks, much, light, a, b)
    _store(row + 10 * blocks, blocks, much, wanted_light, wanted_a, wanted_b)


@triton.jit
def _total(row, step, index, there, n):
    return tl.sum(tl.load(row + n * step + index, mask=there, other=0.0), axis=0)


@triton.jit
def _moments(row, step, index, there, total, floor):
    """Return the mean and the covariance (its upper triangle) of what was summed up."""
    x = _total(row, step, index, there, 0) / total
    y = _total(row, step, index, there, 1) / total
    z = _total(row, step, index, there, 2) / total
    return (
        x,
        y,
        z,
        _total(row, step, index, there, 3) / total - x * x + floor,
        _total(row, step, index, there, 4) / total - x * y,
        _total(row, step, index, there, 5) / total - x * z,
        _total(row, step, index, there, 6) / total - y * y + floor,
        _total(row, step, index, there, 7) / total - y * z,
        _total(row, step, index, there, 8) / total - z * z + floor,
    )


@triton.jit
def _rotation(app, aqq, apq):
    """Return tangent, cosine and sine of the turn that makes ``apq`` vanish."""
    still = tl.abs(apq) < 1e-60  # its square would not be a number
    ratio = (aqq - app) / tl.where(still, 1.0, 2 * apq)
    tangent = tl.where(ratio < 0, -1.0, 1.0) / (tl.abs(ratio) + tl.sqrt(ratio * ratio + 1))
    tangent = tl.where(still, 0.0, tangent)
    cosine = 1 / tl.sqrt(tangent * tangent + 1)
    return tangent, cosine, tangent * cosine


@triton.jit
def _eigen(a, b, c, d, e, f, sweeps):
    """Return eigenvalues, and eigenvectors in columns, of [[a, b, c], [b, d, e], [c, e, f]]."""
    nought = a * 0
    u0, u1, u2 = nought + 1, nought, nought
    v0, v1, v2 = nought, nought + 1, nought
    w0, w1, w2 = nought, nought, nought + 1
    for _ in range(sweeps):
        t, k, s = _rotation(a, d, b)
        a, d, b = a - t * b, d + t * b, nought
        c, e = k * c - s * e, s * c + k * e
        u0, v0 = k * u0 - s * v0, s * u0 + k * v0
        u1, v1 = k * u1 - s * v1, s * u1 + k * v1
        u2, v2 = k * u2 - s * v2, s * u2 + k * v2
        t, k, s = _rotation(a, f, c)
        a, f, c = a - t * c, f + t * c, nought
        b, e = k * b - s * e, s * b + k * e
        u0, w0 = k * u0 - s * w0, s * u0 + k * w0
        u1, w1 = k * u1 - s * w1, s * u1 + k * w1
        u2, w2 = k * u2 - s * w2, s * u2 + k * w2
        t, k, s = _rotation(d, f, e)
        d, f, e = d - t * e, f + t * e, nought
        b, c = k * b - s * c, s * b + k * c
        v0, w0 = k * v0 - s * w0, s * v0 + k * w0
        v1, w1 = k * v1 - s * w1, s * v1 + k * w1
        v2, w2 = k * v2 - s * w2, s * v2 + k * w2
    return a, d, f, u0, u1, u2, v0, v1, v2, w0, w1, w2


@triton.jit
def _spread(p, q, r, u0, u1, u2, v0, v1, v2, w0, w1, w2):
    """Return the matrix (its upper triangle) with these eigenvalues and eigenvectors."""
    return (
        p * u0 * u0 + q * v0 * v0 + r * w0 * w0,
        p * u0 * u1 + q * v0 * v1 + r * w0 * w1,
        p * u0 * u2 + q * v0 * v2 + r * w0 * w2,
        p * u1 * u1 + q * v1 * v1 + r * w1 * w1,
        p * u1 * u2 + q * v1 * v2 + r * w1 * w2,
        p * u2 * u2 + q * v2 * v2 + r * w2 * w2,
    )


@triton.jit
def _between(a, b, c, d, e, f, g, h, i, j, k, m):
    """Return A G A for symmetric A = (a .. f) and G = (g .. m), by their upper triangles."""
    x0, x1, x2 = a * g + b * h + c * i, a * h + b * j + c * k, a * i + b * k + c * m
    y0, y1, y2 = b * g + d * h + e * i, b * h + d * j + e * k, b * i + d * k + e * m
    z0, z1, z2 = c * g + e * h + f * i, c * h + e * j + f * k, c * i + e * k + f * m
    return (
        x0 * a + x1 * b + x2 * c,
        x0 * b + x1 * d + x2 * e,
        x0 * c + x1 * e + x2 * f,
        y0 * b + y1 * d + y2 * e,
        y0 * c + y1 * e + y2 * f,
        z0 * c + z1 * e + z2 * f,
    )


@triton.jit
def _find(
    sums, maps, blocks, floor, stretch, sweeps, BLOCKS: tl.constexpr, SUMS: tl.constexpr
):  # fmt: skip
    face = tl.program_id(0)
    index = tl.arange(0, BLOCKS)
    there = index < blocks
    row = sums + face * SUMS * blocks
    weight = _total(row, blocks, index, there, 0)
    total = tl.maximum(weight, 1e-12)
    x, y, z, a, b, c, d, e, f = _moments(row + blocks, blocks, index, there, total, floor)
    wx, wy, wz, wa, wb, wc, wd, we, wf = _moments(
        row + 10 * blocks, blocks, index, there, total, floor
    )
    p, q, r, u0, u1, u2, v0, v1, v2, w0, w1, w2 = _eigen(a, b, c, d, e, f, sweeps)
    p = tl.sqrt(tl.maximum(p, 1e-12))
    q = tl.sqrt(tl.maximum(q, 1e-12))
    r = tl.sqrt(tl.maximum(r, 1e-12))
    a, b, c, d, e, f = _spread(p, q, r, u0, u1, u2, v0, v1, v2, w0, w1, w2)
    ia, ib, ic, id_, ie, if_ = _spread(
        1 / p, 1 / q, 1 / r, u0, u1, u2, v0, v1, v2, w0, w1, w2
    )  # fmt: skip
    a, b, c, d, e, f = _between(a, b, c, d, e, f, wa, wb, wc, wd, we, wf)
    p, q, r, u0, u1, u2, v0, v1, v2, w0, w1, w2 = _eigen(a, b, c, d, e, f, sweeps)
    p = tl.sqrt(tl.maximum(p, 1e-12))
    q = tl.sqrt(tl.maximum(q, 1e-12))
    r = tl.sqrt(tl.maximum(r, 1e-12))
    a, b, c, d, e, f = _spread(p, q, r, u0, u1, u2, v0, v1, v2, w0, w1, w2)
    a, b, c, d, e, f = _between(ia, ib, ic, id_, ie, if_, a, b, c, d, e, f)
    p, q, r, u0, u1, u2, v0, v1, v2, w0, w1, w2 = _eigen(a, b, c, d, e, f, sweeps)
    p, q, r = tl.minimum(p, stretch), tl.minimum(q, stretch), tl.minimum(r, stretch)
    a, b, c, d, e, f = _spread(p, q, r, u0, u1, u2, v0, v1, v2, w0, w1, w2)
    out = maps + face * 13
    x, wx = x + LIGHT, wx + LIGHT
    tl.store(out, a.to(tl.float32))
    tl.store(out + 1, b.to(tl.float32))
    tl.store(out + 2, c.to(tl.float32))
    tl.store(out + 3, b.to(tl.float32))
    tl.store(out + 4, d.to(tl.float32))
    tl.store(out + 5, e.to(tl.float32))
    tl.store(out + 6, c.to(tl.float32))
    tl.store(out + 7, e.to(tl.float32))
    tl.store(out + 8, f.to(tl.float32))
    tl.store(out + 9, (wx - a * x - b * y - c * z).to(tl.float32))
    tl.store(out + 10, (wy - b * x - d * y - e * z).to(tl.float32))
    tl.store(out + 11, (wz - c * x - e * y - f * z).to(tl.float32))
    tl.store(out + 12, (weight > 0).to(tl.float32))


@triton.jit
def _apply(pixels, matrices, maps, made, area, PIXELS: tl.constexpr):
    face = tl.program_id(1)
    at = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    there = at < area
    at += face * 3 * area
    red = tl.load(pixels + at, mask=there, other=0.0)
    green = tl.load(pixels + area + at, mask=there, other=0.0)
    blue = tl.load(pixels + 2 * area + at, mask=there, other=0.0)
    table = maps + face * 13
    x, y, z = _lab(red, green, blue, matrices)
    x, y, z = _product(table, x, y, z)
    x, y, z = _product(
        matrices + 18,
        x + tl.load(table + 9),
        y + tl.load(table + 10),
        z + tl.load(table + 11),
    )
    x, y, z = _product(matrices + 27, x * x * x, y * y * y, z * z * z)
    counted = tl.load(table + 12) > 0
    for_red, for_green, for_blue = _code(x), _code(y), _code(z)
    for_red = tl.minimum(tl.maximum(for_red, 0.0), 1.0)
    for_green = tl.minimum(tl.maximum(for_green, 0.0), 1.0)
    for_blue = tl.minimum(tl.maximum(for_blue, 0.0), 1.0)
    tl.store(made + at, tl.where(counted, for_red, red), mask=there)
    tl.store(made + area + at, tl.where(counted, for_green, green), mask=there)
    tl.store(made + 2 * area + at, tl.where(counted, for_blue, blue), mask=there)
