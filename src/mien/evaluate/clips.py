"""Flicker: what moves in the swapped face of a clip and not in the clip itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from mien.errors import InvalidOption, NoFace
from mien.evaluate.judges import Judges
from mien.evaluate.people import Portrait
from mien.evaluate.pixels import BROAD, SIZE, blur, cut_each, scenes
from mien.evaluate.reading import read
from mien.evaluate.variants import Model, paste_source
from mien.media import READABLE, read_picture
from mien.stages.color import to_oklab

SHORTEST = 3
"""Frames of a clip, at least: a flicker is there and gone again."""


def flicker(after: Tensor, before: Tensor, weights: Tensor) -> float:
    """Return how unsteady what a swap changed is over time, in Oklab times 100.

    ``after`` and ``before`` are the face in T frames, RGB (T, 3, S, S) in [0, 1], held still by the
    same transforms; ``weights`` (T, S, S) say how much a pixel counts. What the swap changed is
    their difference: the same in each frame if the swap is steady, however the clip moves. The
    result is the root mean square, over pixels and channels, of its second difference over time,
    x(t - 1) - 2 x(t) + x(t + 1), in which steady change vanishes too. Motion that a swap loses
    counts as what it adds. Clips are blurred by BROAD first: the camera's noise, which a network
    does not redraw, is no flicker.
    """
    changed = blur(to_oklab(after) - to_oklab(before), BROAD)
    jump = changed[:-2] - 2 * changed[1:-1] + changed[2:]
    middle = weights[1:-1, None]
    return 100 * math.sqrt(float((jump.square() * middle).sum() / (3 * middle.sum())))


def clip_scores(
    subject: Model, source: Portrait, frames: Sequence[Tensor], judges: Judges, name: str
) -> dict[str, float]:
    """Return how steady a clip, T frames, uint8 (H, W, 3), is with the face of ``source`` in it.

    'flicker' is that of the swap; 'flicker.pasted' is its control, the source pasted by landmarks
    in every frame. 'steadiness' is, by judge, the standard deviation over time of the cosine to the
    clip's mean: 0 if the face is always equally much itself. Raises NoFace, InvalidOption.
    """
    if len(frames) < SHORTEST:
        raise InvalidOption("clip", name, f"at least {SHORTEST} frames")
    identity, still = subject.identity(source), source.pixels()
    faces, after, pasted = [], [], []
    for frame in frames:
        result = subject.swapper.swap(frame.numpy(), identity)
        face = result.faces[list(result.swapped.chosen[:1])]
        if not len(face):
            raise NoFace(name)
        faces.append(face)
        after.append(torch.from_numpy(result.pixels))
        pasted.append(paste_source(still, source.faces, frame, face))
    points = torch.cat([face.points for face in faces])
    scene = scenes(frames, points, torch.cat([f.mesh for f in faces if f.mesh is not None]))
    inside = (scene.depth >= scene.soft).float()
    scores = {
        key: flicker(cut_each(clip, scene.matrices, SIZE), scene.crops, inside)
        for key, clip in (("flicker", after), ("flicker.pasted", pasted))
    }
    now = read(judges, after, points, before=read(judges, frames, points))
    for judge, embeddings in now.embeddings.items():
        to_mean = torch.cosine_similarity(embeddings, embeddings.mean(dim=0, keepdim=True))
        scores[f"steadiness.{judge}"] = float(to_mean.std())
    return scores | {"frames": float(len(frames))}


def read_clip(path: Path) -> list[Tensor]:
    """Return the frames, uint8 (H, W, 3), of a folder of pictures, by name, or of an animation.

    Raises InvalidOption, PictureUnreadable.
    """
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix.lower() in READABLE)
        if not files:
            raise InvalidOption("clip", str(path), "a folder of frames, or an animation")
        return [read_picture(each).frame.view for each in files]
    return [frame.view for frame in read_picture(path).frames]
