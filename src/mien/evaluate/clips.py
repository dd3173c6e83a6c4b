"""Flicker: what moves in the swapped face of a clip and not in the clip itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
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
from mien.pipeline import Cast
from mien.stages.color import to_oklab
from mien.swapper import Swapper
from mien.types import Faces, Frame

RATE = 25
"""Frames a second that clips are taken to have: folders of frames do not say."""

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
    subject: Model,
    source: Portrait,
    frames: Sequence[Tensor],
    judges: Judges,
    name: str,
    *,
    as_clip: bool = True,
) -> dict[str, float]:
    """Return how steady a clip, T frames, uint8 (H, W, 3), is with the face of ``source`` in it.

    It is swapped as clips are: the largest face is followed, steadied, and laid by degrees (see
    ClipPipeline). Without ``as_clip`` each frame is swapped as a picture of its own: what the
    network does, and not what is made of it. Either way the face is held still by landmarks that
    are followed and not steadied, so neither of the two decides by what it is measured.

    'flicker' is that of the swap; 'flicker.pasted' is its control, the source pasted by landmarks
    in every frame. 'steadiness' is, by judge, the standard deviation over time of the cosine to the
    clip's mean: 0 if the face is always equally much itself. Raises NoFace, InvalidOption.
    """
    if len(frames) < SHORTEST:
        raise InvalidOption("clip", name, f"at least {SHORTEST} frames")
    swapper = subject.swapper
    cast = swapper.cast(subject.identity(source))
    faces = _followed(swapper, cast, frames, name)
    if as_clip:
        after = [done.frame.pixels for done in swapper.clip(cast).run(_timed(frames))]
    else:
        after = [torch.from_numpy(swapper.swap(f.numpy(), cast).pixels) for f in frames]
    still = source.pixels()
    pasted = [
        paste_source(still, source.faces, frame, face)
        for frame, face in zip(frames, faces, strict=True)
    ]
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


def _followed(swapper: Swapper, cast: Cast, frames: Sequence[Tensor], name: str) -> list[Faces]:
    """Return the face that plays the role in each frame, not steadied. Raises NoFace."""
    clip, faces = swapper.clip(cast, smooth=False), []
    for frame in _timed(frames):
        roles = clip.see(frame).roles
        if not roles.pairs:
            raise NoFace(name)
        faces.append(roles.faces[[roles.pairs[0][0]]])
    return faces


def _timed(frames: Sequence[Tensor]) -> Iterator[Frame]:
    return (Frame(frame.clone(), time=Fraction(i, RATE)) for i, frame in enumerate(frames))


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
