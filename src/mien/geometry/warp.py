"""The two warps of the engine: cut faces out of a frame, and put them back.

Both work in two steps, so that size is changed by a filter that suits it and turning costs one
bilinear look-up: first the source is resized along its axes to the scale of the result (with a
low-pass when it shrinks, bicubic when it grows), then it is sampled along the turned grid. A face
of 900 pixels therefore reaches a 112 pixel crop without aliasing, and a 128 pixel crop reaches a
900 pixel face without blocks.

On an NVIDIA GPU kernels do both in one pass, with the same filters; numbers of where faces are stay
on the processor, which would have to wait for them otherwise.
"""

from __future__ import annotations

from math import ceil, floor, hypot

import torch
from torch import Tensor
from torch.nn import functional

from mien.geometry.plain import CutRow, Map, Similarity, cut_row, reach
from mien.geometry.similarity import compose, scales
from mien.geometry.spans import FAINT, UP, enlarged, finer
from mien.kernels import usable
from mien.types import Covered, Rectangle

MARGIN = 2
"""Pixels of a patch kept around what is not empty: the reach of the filters."""

FINE = 2.5
"""A patch is turned at this many times its own size or more; the rest is mere enlarging."""

BAND = 256
"""Rows pasted at a time: what is worked on stays in the cache, and memory small."""


def cut(pixels: Tensor, matrices: Tensor, size: int) -> Tensor:
    """Return crops, float32 (K, 3, size, size) in [0, 1], of uint8 ``pixels`` (H, W, 3).

    ``matrices`` (K, 2, 3), on any device, are similarities from frame pixels to crop pixels. Beyond
    the frame its edge pixels are repeated. Crops lie where the pixels do.
    """
    if not len(matrices):
        return pixels.new_zeros((0, 3, size, size), dtype=torch.float32)
    height, width = pixels.shape[:2]
    rows = [cut_row(matrix, size, height, width) for matrix in matrices.tolist()]
    if usable(pixels):
        from mien.kernels.cut import cut as in_one_pass

        table = torch.tensor([row.numbers for row in rows], device=pixels.device)
        return in_one_pass(pixels[None], table, size, size)
    return torch.cat([_cut_one(pixels, row, size) for row in rows])


def _cut_one(pixels: Tensor, row: CutRow, size: int) -> Tensor:
    (a, b, x), (c, d, y) = row.back
    (left, right, wide), (top, bottom, high) = row.across, row.down
    source = pixels[top:bottom, left:right].permute(2, 0, 1)[None]
    if not row.shrinks or not source.is_cpu:  # the CPU shrinks bytes four times faster than floats
        source = source.float()
    if source.shape[-2:] != (high, wide):
        mode = "bilinear" if row.shrinks else "bicubic"
        source = functional.interpolate(source, (high, wide), mode=mode, antialias=True)
    source = source.float().div_(255)
    # crop pixel -> frame -> piece -> piece, resized
    sx, sy = wide / (right - left), high / (bottom - top)
    grid = (
        (sx * a, sx * b, sx * (x - left) + (sx - 1) / 2),
        (sy * c, sy * d, sy * (y - top) + (sy - 1) / 2),
    )
    return sample(source, grid, size, size).clamp_(0, 1)


def paste(pixels: Tensor, patches: Tensor, matrices: Tensor) -> tuple[Covered, ...]:
    """Lay ``patches`` over ``pixels``, in place, and return what each covers.

    ``pixels`` is uint8 or uint16 (H, W, C). ``patches`` is float (K, C + 1, S, S): C channels in
    [0, 1], already multiplied by the last one, the opacity in [0, 1]. ``matrices`` (K, 2, 3), on
    any device, take frame pixels to patch pixels. Later faces lie on top. Pixels outside of
    ``paste_rectangle`` of every patch keep their value bit for bit.
    """
    matrices = matrices.cpu()
    plain = pixels.dtype == torch.uint8 and pixels.shape[2] == 3 and pixels.is_contiguous()
    if plain and usable(pixels):
        return _in_one_pass(pixels, patches, matrices)
    covered = []
    for patch, matrix in zip(patches, matrices, strict=True):
        support = _support(patch[-1])
        touched = paste_rectangle(matrix, support, (pixels.shape[0], pixels.shape[1]))
        if support.empty or touched.empty:
            continue
        left, top, right, bottom = touched
        covered.append(Covered(touched, pixels[top:bottom, left:right].clone()))
        _lay(pixels, patch, matrix, support, touched)
    return tuple(covered)


def _in_one_pass(pixels: Tensor, patches: Tensor, matrices: Tensor) -> tuple[Covered, ...]:
    """Do what ``paste`` does, of uint8 (H, W, 3) on a GPU, without a look at what lies there."""
    from mien.kernels.lay import lay

    count, side = len(patches), patches.shape[-1]
    if not count:
        return ()
    size = pixels.shape[0], pixels.shape[1]
    covered = []
    for place in (paste_rectangle(matrix, side, size) for matrix in matrices):
        left, top, right, bottom = place
        if not place.empty:
            covered.append(Covered(place, pixels[top:bottom, left:right].clone()))
    device = pixels.device
    weights = finer(side, device)
    maps = matrices.tolist()
    if any(round(side / max(hypot(a, c), 1e-9)) < side for (a, _, _), (c, _, _) in maps):
        fine, grids = enlarged(patches, matrices.to(device), weights)
    else:  # then all are enlarged alike
        fine = weights @ patches @ weights.T
        half = (UP - 1) / 2
        rows = [[(UP * a, UP * b, UP * x + half) for a, b, x in each] for each in maps]
        grids = torch.tensor(rows, device=device)
    lay(pixels[None], fine, grids, torch.arange(count, device=device), FAINT)
    return tuple(covered)


def uncover(pixels: Tensor, covered: tuple[Covered, ...]) -> None:
    """Undo ``paste``, in place."""
    for part in reversed(covered):
        left, top, right, bottom = part.rectangle
        pixels[top:bottom, left:right] = part.before


def _lay(
    pixels: Tensor, patch: Tensor, matrix: Tensor, support: Rectangle, touched: Rectangle
) -> None:
    """Lay the part ``support`` of ``patch`` (C + 1, S, S) over the part ``touched`` of pixels."""
    left, top, right, bottom = touched
    peak = torch.iinfo(pixels.dtype).max
    inside = patch[:, support.top : support.bottom, support.left : support.right]
    shifted = matrix - matrix.new_tensor([[0, 0, support.left], [0, 0, support.top]])
    scale = 1.0 / float(scales(matrix))
    # a patch much enlarged has no detail as fine as the frame: turn it at a coarser step
    step = max(1, int(scale / FINE))
    source, to_source = _resize(inside[None], scale / step)
    band = step * max(1, BAND // step)
    # coarse steps hang on the frame, not on what is touched: a face that moves is to shimmer less
    edge = left - left % step
    for start in range(top - top % step, bottom, band):
        first, last = max(start, top), min(start + band, bottom)
        # coarse pixel -> frame -> patch -> its part that is not empty, resized
        to_frame = matrix.new_tensor(
            [[step, 0, edge - (step + 1) / 2], [0, step, start - (step + 1) / 2]]
        )
        rows, columns = -(-(last - start) // step) + 2, -(-(right - edge) // step) + 2
        grid = compose(compose(to_source, shifted), to_frame)
        laid = sample(source, grid, rows, columns, outside="zeros")
        if step > 1:
            laid = functional.interpolate(laid, scale_factor=step, mode="bilinear")
        down, across = step - start, step - edge
        laid = laid[0, :, first + down : last + down, left + across : right + across]
        under = pixels[first:last, left:right].permute(2, 0, 1)
        over = torch.addcmul(laid[:-1] * peak, 1 - laid[-1:], under.float())
        under.copy_(over.round_().clamp_(0, peak))


def paste_rectangle(matrix: Tensor, support: Rectangle | int, size: tuple[int, int]) -> Rectangle:
    """Return the part of a frame of ``size`` (H, W) that pasting may touch.

    ``support`` is the part of the patch that is not empty, or the patch's side.
    """
    if isinstance(support, int):
        support = Rectangle(0, 0, support, support)
    height, width = size
    # the resize filter, then the bilinear one, each reach less than a pixel of the coarser grid
    place = Similarity.of(matrix.tolist())
    box = _bounds(place.inverse().rows, support, margin=1.0 + 1.0 / max(place.scale, 1e-9))
    return Rectangle(
        max(0, box.left), max(0, box.top), min(width, box.right), min(height, box.bottom)
    )


def sample(
    image: Tensor, grid: Tensor | Map, height: int, width: int, outside: str = "border"
) -> Tensor:
    """Return ``image`` (1, C, h, w) looked up bilinearly at ``height`` x ``width`` points.

    ``grid`` (2, 3) takes a destination pixel to an image pixel. ``outside`` is 'border'
    (repeat the edge) or 'zeros'.
    """
    h, w = image.shape[-2:]
    (a, b, c), (d, e, f) = grid.tolist() if isinstance(grid, Tensor) else grid
    device = image.device
    x = torch.arange(width, dtype=torch.float32, device=device)
    y = torch.arange(height, dtype=torch.float32, device=device)[:, None]
    # grid_sample wants the image's edges at -1 and 1
    points = torch.empty(1, height, width, 2, device=device)
    torch.add(x * (2 * a / w), y * (2 * b / w) + ((2 * c + 1) / w - 1), out=points[0, :, :, 0])
    torch.add(x * (2 * d / h), y * (2 * e / h) + ((2 * f + 1) / h - 1), out=points[0, :, :, 1])
    return functional.grid_sample(
        image, points, mode="bilinear", padding_mode=outside, align_corners=False
    )


def _resize(image: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Resize (1, C, h, w) by about ``scale``; also return the map (2, 3) from old to new pixels."""
    h, w = image.shape[-2:]
    new_h, new_w = max(1, round(h * scale)), max(1, round(w * scale))
    sx, sy = new_w / w, new_h / h
    to_new = torch.tensor([[sx, 0, (sx - 1) / 2], [0, sy, (sy - 1) / 2]])
    if (new_h, new_w) != (h, w):
        mode = "bilinear" if scale < 1 else "bicubic"
        image = functional.interpolate(image, (new_h, new_w), mode=mode, antialias=True)
    return image, to_new


def _bounds(matrix: Map, box: Rectangle, margin: float) -> Rectangle:
    """Return the whole pixels around the image of ``box``'s pixel area, and ``margin`` more."""
    left, top, right, bottom = (value - 0.5 for value in box)
    (x0, x1), (y0, y1) = (reach(line, (left, right), (top, bottom)) for line in matrix)
    return Rectangle(
        floor(x0 - margin), floor(y0 - margin), ceil(x1 + margin) + 1, ceil(y1 + margin) + 1
    )


def _support(opacity: Tensor) -> Rectangle:
    """Return the bounds of the pixels of ``opacity`` (S, S) that are not zero."""
    rows = opacity.any(dim=1).nonzero().flatten().tolist()
    columns = opacity.any(dim=0).nonzero().flatten().tolist()
    if not rows:
        return Rectangle(0, 0, 0, 0)
    size = opacity.shape[0]
    return Rectangle(
        max(0, columns[0] - MARGIN),
        max(0, rows[0] - MARGIN),
        min(size, columns[-1] + 1 + MARGIN),
        min(size, rows[-1] + 1 + MARGIN),
    )
