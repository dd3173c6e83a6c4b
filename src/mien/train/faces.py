"""What the frozen networks see of crops: embeddings, the face mesh, and regions read off it.

Crops are float (N, 3, S, S) in [-1, 1], RGB, on the points of ``arcface_128`` scaled to S.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.errors import TrainingError
from mien.nets.frozen import FrozenNet, Graph
from mien.stages.mask import FEATHER, smooth_step
from mien.train.disturbance import Disturbance, disturbed
from mien.train.geometry import box, composed, distance_inside, looked, places

# rows 0..112 and columns 8..120 of an arcface_128 crop are the crop of arcface_112_v2
EMBEDDED = (8 / 128, 0.0, 120 / 128, 112 / 128)

# the age network's loose square: 2.4 distances between the eyes each way about the points' middle
LOOSE = (-0.16, -0.10, 1.16, 1.22)
AGE_OUTPUTS = ("global_pooling/Mean:0", "age_pred/Softmax:0")
"""What the age network says of a face before it is asked for anything, 1024 numbers, and how likely
each number of years is."""

ZOOM = 1.2
"""The mesh network's crop shows this many times the side of the swapper's (see its card)."""

SPACE = 128
"""Dimension of the embeddings that condition the swapper."""

AGAIN = "docs/training.md says which networks a run needs."

MESH_SIZE, EMBEDDED_SIZE, LOOK_SIZE = 192, 112, 224

# points of the MediaPipe face mesh (face_mesh_connections.py): lids, brows, lips, face oval
# eyes and the oval go round clockwise as seen
LEFT_EYE = [33, 246, 161, 160, 159, 158, 157, 173, 133, 155, 154, 153, 145, 144, 163, 7]
RIGHT_EYE = [362, 398, 384, 385, 386, 387, 388, 466, 263, 249, 390, 373, 374, 380, 381, 382]
LEFT_BROW = [46, 53, 52, 65, 55, 70, 63, 105, 66, 107]
RIGHT_BROW = [276, 283, 282, 295, 285, 300, 293, 334, 296, 336]
LIPS = [
    *(61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 185, 40, 39, 37, 0, 267, 269, 270, 409),
    *(78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308, 191, 80, 81, 82, 13, 312, 311, 310, 415),
]
OVAL = [
    *(10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377),
    *(152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109),
]
FACE_EDGE = (33, 263)
"""Outer eye corners: their distance is the unit of length."""


class Watcher(nn.Module):
    """A frozen network behind the view and the pixel format that it wants."""

    def __init__(self, net: FrozenNet, *, mean: float, gain: float) -> None:
        """``mean`` and ``gain`` take pixels in [-1, 1] to (x - mean) * gain."""
        super().__init__()
        self.net, self.mean, self.gain = net, mean, gain


class Embedder(Watcher):
    """Unit embeddings of crops."""

    part, size, nhwc = EMBEDDED, EMBEDDED_SIZE, False

    def forward(self, crops: Tensor, by: Disturbance | None = None) -> Tensor:
        """Return float32 (N, D) of crops, disturbed or as they are."""
        return functional.normalize(self.raw(crops, by), dim=1)

    def raw(self, crops: Tensor, by: Disturbance | None = None) -> Tensor:
        """Return the network's own numbers, float32 (N, D)."""
        return self.outputs(crops, by)[0].float()

    def outputs(self, crops: Tensor, by: Disturbance | None = None) -> list[Tensor]:
        """Return all that the network says."""
        if crops.shape[-1] >= 2 * self.size:  # averaging before the look-up keeps it from aliasing
            crops = functional.avg_pool2d(crops, crops.shape[-1] // 128)
        view = box(*self.part, crops).expand(len(crops), -1, -1)
        if by is not None:
            view = composed(by.view.to(view.dtype), view)
        seen = looked(crops, view, self.size, mode="bilinear", padding="border")
        if by is not None:
            seen = disturbed(seen, by)
        seen = (seen - self.mean) * self.gain
        made: list[Tensor] = self.net(seen.permute(0, 2, 3, 1) if self.nhwc else seen)
        return made


class Looker(Embedder):
    """What an age network makes of a face: sex, age, build, as the direction from the average.

    It tells people apart far worse than a network made for it, and by other things.
    """

    part, size, nhwc = LOOSE, LOOK_SIZE, True
    middle: Tensor

    def __init__(self, net: FrozenNet, *, mean: float, gain: float) -> None:
        super().__init__(net, mean=mean, gain=gain)
        self.register_buffer("middle", torch.zeros(()))

    def forward(self, crops: Tensor, by: Disturbance | None = None) -> Tensor:
        """Return float32 (N, 1024) of crops, disturbed or as they are."""
        return functional.normalize(self.raw(crops, by) - self.middle, dim=1)

    def ages(self, crops: Tensor) -> Tensor:
        """Return how old the people look, in years, float32 (N,)."""
        chances = self.outputs(crops)[1].float()
        return chances @ torch.arange(float(chances.shape[1]), device=chances.device)

    @torch.no_grad()
    def find_middle(self, pixels: Tensor) -> None:
        """Take the average of crops, uint8 (n, 3, S, S), as what directions are counted from."""
        crops = (part.float().div_(127.5).sub_(1) for part in pixels.split(64))
        self.middle = torch.cat([self.raw(part) for part in crops]).mean(dim=0)


class Mesher(Watcher):
    """The face mesh of crops."""

    def forward(self, crops: Tensor) -> Tensor:
        """Return float32 (N, 468, 2), edges of the crop at -1 and 1."""
        middle = (1 - ZOOM) / 2
        view = box(middle, middle, 1 - middle, 1 - middle, crops).expand(len(crops), -1, -1)
        seen = looked(crops, view, MESH_SIZE, mode="bilinear", padding="border")
        seen = ((seen - self.mean) * self.gain).permute(0, 2, 3, 1)
        mesh: Tensor = self.net(seen)[0].float().view(len(crops), 468, 3)[..., :2]
        # the mesh is in pixels of its own crop, whose left edge is at 0
        return (mesh * (2 / MESH_SIZE) - 1) * ZOOM


Some = TypeVar("Some", bound=Watcher)


@dataclass(frozen=True, slots=True, eq=False)
class Watchers:
    """The frozen networks of a training run."""

    sface: Embedder
    """Conditions the swapper."""

    feature: Embedder | None
    """Joins the identity loss; None leaves it out."""

    age: Looker
    """Says who is old enough to be learned from; what it sees joins the identity loss."""

    mesh: Mesher
    judge: Embedder | None
    """Scores only; it is never trained on."""

    @classmethod
    def read(cls, folder: Path, device: torch.device) -> Watchers:
        """Read ``sface``, ``age``, ``facemesh`` and, where they are, ``feature`` and ``judge``.

        Each is NAME.pt or NAME.onnx in ``folder``.
        """

        def symmetric(name: str) -> Embedder | None:
            if not _found(folder, name):
                return None
            return Embedder(frozen_net(folder, name, device), mean=0.0, gain=1.0)

        watchers = cls(
            sface=Embedder(frozen_net(folder, "sface", device), mean=-1.0, gain=127.5),
            feature=symmetric("feature"),
            age=read_looker(folder, device),
            mesh=read_mesher(folder, device),
            judge=symmetric("judge"),
        )
        for name in ("sface", "feature", "judge"):
            watcher = getattr(watchers, name)
            if watcher is not None:
                _try(watcher, _found(folder, name)[0], device)
        return watchers


def read_looker(folder: Path, device: torch.device) -> Looker:
    """Read the network ``age`` in ``folder``. Raises TrainingError."""
    looker = Looker(frozen_net(folder, "age", device, AGE_OUTPUTS), mean=-1.0, gain=127.5)
    return _try(looker.to(device), _found(folder, "age")[0], device)


def read_mesher(folder: Path, device: torch.device) -> Mesher:
    """Read the network ``facemesh`` in ``folder``. Raises TrainingError."""
    mesher = Mesher(frozen_net(folder, "facemesh", device), mean=-1.0, gain=0.5)
    return _try(mesher, _found(folder, "facemesh")[0], device)


def frozen_net(
    folder: Path, name: str, device: torch.device, outputs: tuple[str, ...] = ()
) -> FrozenNet:
    """Read NAME.pt or NAME.onnx in ``folder``; ``outputs`` are wanted instead of its own.

    Raises TrainingError if there is none, or it cannot be read.
    """
    found = _found(folder, name)
    if not found:
        advice = f"Training needs {name}.onnx or {name}.pt there: see docs/training.md."
        raise TrainingError(folder, f"it has no network {name}", advice)
    try:
        graph = Graph.read(found[0])
        frozen = FrozenNet(graph.until(*outputs) if outputs else graph)
    except ValueError as error:  # of an operator or output that is not known
        raise TrainingError(found[0], str(error), AGAIN) from error
    except Exception as error:  # readers' own errors share no base
        reason = f"no network could be read ({type(error).__name__})"
        raise TrainingError(found[0], reason, AGAIN) from error
    return frozen.eval().to(device).requires_grad_(False)


def _found(folder: Path, name: str) -> list[Path]:
    paths = [folder / f"{name}.{suffix}" for suffix in ("pt", "onnx")]
    return [path for path in paths if path.exists()]


def _try(watcher: Some, path: Path, device: torch.device) -> Some:
    """Return a network; raise TrainingError unless it takes and returns what its name says."""
    try:
        with torch.no_grad():
            made = watcher(torch.zeros(2, 3, 128, 128, device=device))
    except (RuntimeError, ValueError, IndexError) as error:
        why = str(error).splitlines()[0]
        raise TrainingError(path, f"it cannot be run on faces ({why})", AGAIN) from error
    if len(made) != 2 or (path.stem == "sface" and made.shape[1] != SPACE):
        raise TrainingError(path, f"it returns {tuple(made.shape)} for two faces", AGAIN)
    return watcher


def face_mask(mesh: Tensor, size: int, *, soft: float = 0.04) -> Tensor:
    """Return where the face is, (N, 1, size, size) in [0, 1], from its mesh (N, 468, 2).

    The face oval, taken for convex; its border is ``soft`` wide, in halves of the crop's side.
    """
    whole = box(0, 0, 1, 1, mesh)
    return (distance_inside(mesh[:, OVAL], places(whole, size, size)) / soft + 0.5).clamp(0, 1)


def shown(mesh: Tensor, size: int) -> Tensor:
    """Return how much of a swap a user gets to see, (N, 1, size, size) in [0, 1].

    It is the mask that swaps are pasted with, from the face oval of the target's mesh (N, 468, 2).
    """
    coarse = size // 4
    whole = box(0, 0, 1, 1, mesh)
    depth = distance_inside(mesh[:, OVAL], places(whole, coarse, coarse))
    mask = smooth_step(depth / (2 * FEATHER))
    return functional.interpolate(mask, (size, size), mode="bilinear")


def shapes(mesh: Tensor) -> list[Tensor]:
    """Return the shape of each eye, each brow and the lips, (N, n, 2), relative to the face.

    Each about its own middle (brows about the eye below: how high they are is expression), in
    distances between the outer corners of the eyes.
    """
    unit = (mesh[:, FACE_EDGE[0]] - mesh[:, FACE_EDGE[1]]).norm(dim=1).clamp_min(1e-3)
    parts = [
        (LEFT_EYE, LEFT_EYE),
        (RIGHT_EYE, RIGHT_EYE),
        (LEFT_BROW, LEFT_EYE),
        (RIGHT_BROW, RIGHT_EYE),
        (LIPS, LIPS),
    ]
    return [
        (mesh[:, points] - mesh[:, about].mean(dim=1, keepdim=True)) / unit[:, None, None]
        for points, about in parts
    ]
