"""Whole frames, from bytes to bytes: find, cast, make anew, lay over.

What ``pipeline.Pipeline`` does to a picture, for frames of one size with a fixed number of slots
for faces. Several frames are done at once, each as if it were alone: on a GPU they take hardly
longer than one, which keeps it waiting for the next small kernel. No step looks at what another
found: slots without a face are carried along, and laid over nothing. So the processor never waits,
and a CUDA graph can hold all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from mien.engines import Engine, TorchEngine
from mien.errors import InvalidOption
from mien.geometry import apply, fit_similarity, template
from mien.kernels import fused
from mien.models import (
    DetectorContract,
    EmbedderContract,
    MeshContract,
    OcclusionContract,
    SwapperContract,
)
from mien.pipeline import Blend
from mien.pipeline.finder import GUESS, real
from mien.replay.branch import Branch
from mien.replay.codec import Codec
from mien.replay.color import ColorMatch
from mien.replay.detect import Look, Network
from mien.replay.landmark import Landmarks
from mien.replay.steady import SteadySlots
from mien.replay.tracks import Followed
from mien.replay.warp import cut, lay
from mien.stages.mask import face_mask
from mien.stages.occlude import resized, shares
from mien.stages.poisson import poisson_blend
from mien.stages.swap import FLAT

Who = Literal["largest", "all", "person"]

SIDE = 640
"""What a frame's longer side is looked at as: faces from a thirtieth of it up are found."""

Confirmed = Callable[[], tuple[Tensor, Tensor, Tensor]]
"""Returns scores of the faces that were found, (B K,), and the detector's, (B, K), and whether all
is as it was expected, (). Called where what is done aside goes on."""

NEARLY = 0.03
"""A face is where it was expected if one look moves its crop by less than this share of its side.

With the pipeline's 0.02, of eight faces that move by jerks one is often not. See
benchmarks/followed.py."""

IN_ORDER = "1 where faces are steadied: each frame needs to know the one before"
"""How many frames, or lanes, at once."""


@dataclass(frozen=True, slots=True)
class Part:
    """A network and what it expects."""

    network: Network
    contract: Any

    @classmethod
    def of(cls, engine: Engine, contract: Any) -> Part:
        """Return the network that ``engine`` runs, without the engine's own checks if it has any.

        Only networks in PyTorch work on a GPU without waiting for it.
        """
        if not isinstance(engine, TorchEngine):
            return cls(engine, contract)
        module, takes, gives = fused(engine.module), engine.inputs, engine.outputs

        def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
            values = module(*(inputs[port.name] for port in takes))
            return {port.name: value for port, value in zip(gives, values, strict=True)}

        return cls(run, contract)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A frame after the swap, and what was found in it; K slots, the largest face first.

    That of a batch of frames has one dimension more in front.
    """

    pixels: Tensor
    """uint8 (H, W, 3), RGB."""

    boxes: Tensor
    """float32 (K, 4), in pixels of the frame, as the mesh has them."""

    points: Tensor
    """float32 (K, 5, 2)."""

    scores: Tensor
    """float32 (K,): the detector's; 0 in a slot without a face. A face that it missed, and that was
    found where it was expected, has what it had before."""

    ids: Tensor
    """int64 (K,): the same for the same face from frame to frame where faces are steadied; -1 in a
    slot without a face, and for all where they are not."""

    roles: Tensor
    """int64 (K,): number of the person that a face received, -1 for none."""

    faulty: Tensor
    """bool (K,): the network made nothing usable of this face, which stays as it is."""

    guesses: Tensor
    """int64 (): places that the detector took for faces; as many as slots may hide more."""

    quiet: Tensor
    """bool (): where faces are steadied, whether the next frame may be followed. One that was
    followed, and was not quiet, is not what it should be."""

    def frame(self, number: int) -> Outcome:
        """Return that of one frame of a batch, in the same memory."""
        return Outcome(**{field.name: getattr(self, field.name)[number] for field in fields(self)})


class WholeFrame(nn.Module):
    """Swaps the faces of frames, uint8 ([B,] height, width, 3), all on one device.

    With ``steady`` it remembers the faces of the frame before: frames must come in order, one by
    one, and those of each clip need a WholeFrame of their own.
    """

    largest_last: Tensor
    template_points: Tensor
    embedding_points: Tensor
    straight: Tensor

    def __init__(
        self,
        parts: Mapping[str, Part],
        *,
        height: int,
        width: int,
        slots: int,
        who: Who = "largest",
        side: int = SIDE,
        color_match: bool = True,
        blend: Blend = "alpha",
        steady: bool = False,
    ) -> None:
        """``parts`` are networks by role; without an ``occlusion`` nothing stays before a face.

        ``who`` is swapped: the largest face, all faces (both by the first person), or those that
        resemble the people who are replaced. With ``steady`` faces are smoothed over time, and
        looked for where they are expected if the detector misses them; see SteadySlots.
        """
        super().__init__()
        detector, mesh = parts["detector"], parts["mesh"]
        assert isinstance(detector.contract, DetectorContract)
        assert isinstance(mesh.contract, MeshContract)
        self.look = Look(
            detector.network, detector.contract, height=height, width=width, side=side, slots=slots
        )
        self.place = Landmarks(mesh.network, mesh.contract)
        self._swap, self._occlusion, self._embedder = (
            parts.get(role) for role in ("swapper", "occlusion", "embedder")
        )
        assert self._swap is not None
        contract = self._swap.contract
        assert isinstance(contract, SwapperContract)
        self._size, self._who, self._blend = contract.size, who, blend
        self._limit = 0.0
        self.codec = Codec(contract.pixels)
        self.register_buffer("template_points", template(contract.template).at(contract.size))
        self.register_buffer("straight", torch.eye(3)[:2])
        self.register_buffer("largest_last", torch.arange(slots - 1, -1, -1))
        if self._occlusion is not None:
            seen = self._occlusion.contract
            assert isinstance(seen, OcclusionContract)
            assert seen.template == contract.template
            self.occlusion_codec = Codec(seen.pixels)
        if who == "person":
            assert self._embedder is not None
            known = self._embedder.contract
            assert isinstance(known, EmbedderContract)
            self._limit = known.max_distance
            self.embedder_codec = Codec(known.pixels)
            self.register_buffer("embedding_points", template(known.template).at(known.size))
        self.color = ColorMatch() if color_match else None
        self.steady = SteadySlots(self.look.size, slots=slots) if steady else None

    def forward(
        self,
        pixels: Tensor,
        people: Tensor,
        replaced: Tensor | None = None,
        elapsed: Tensor | None = None,
        *,
        follow: bool = False,
    ) -> Outcome:
        """Return frames with their faces swapped; ``pixels``, uint8 ([B,] H, W, 3), stays as it is.

        ``people`` (R, D) are the embeddings that faces receive, ``replaced`` (R, D) of those whose
        faces receive them, for "person". ``elapsed`` is for ``steady``: seconds since the frame
        before, float64 (); None begins a new clip. With ``follow``, too, faces are looked for once,
        where they are expected, and the detector's look is only for the outcome's ``quiet`` and for
        the next frame; see Foresight. One frame's outcome has no leading dimension. Raises
        InvalidOption for several frames at once with ``steady``, and for ``follow`` without it.
        """
        if pixels.dim() == 3:
            outcome: Outcome = self(pixels[None], people, replaced, elapsed, follow=follow)
            return outcome.frame(0)
        if self.steady is not None and len(pixels) > 1:
            raise InvalidOption("frames", len(pixels), IN_ORDER)
        # from here on all faces of all frames are one batch, (B K, ...), frame after frame
        find = self._followed if follow else self._found
        faces, confirmed = find(pixels, elapsed)
        mesh, points = faces.mesh, faces.points
        roles, wanted = self._cast(pixels, faces, people, replaced)
        matrices = _fitted(points, self.template_points)
        crops = cut(pixels, matrices, self._size)
        branch = Branch(crops)
        with branch.aside():  # the swap network leaves most of a GPU idle
            mask = self._mask(mesh, matrices, crops)
            scores, guessed, quiet = confirmed()
        made, faulty = self._made(crops, wanted)
        branch.join()
        if self.color is not None:
            made = self.color(made, crops, mask)
        if self._blend == "poisson":
            made = poisson_blend(made, crops, mask).clamp(0, 1)
        patches, matrices = _patches(made, mask, roles, faulty, matrices, self.straight)
        slots = guessed.shape
        roles, faulty, guesses, quiet = _told(roles, faulty, guessed, quiet)
        return Outcome(
            pixels=lay(pixels, patches, matrices, self.largest_last),
            boxes=faces.boxes.unflatten(0, slots),
            points=points.unflatten(0, slots),
            scores=scores.unflatten(0, slots),
            ids=faces.ids.unflatten(0, slots),
            roles=roles,
            faulty=faulty,
            guesses=guesses,
            quiet=quiet,
        )

    def _found(self, pixels: Tensor, elapsed: Tensor | None) -> tuple[Followed, Confirmed]:
        """Return the faces where the detector says that there are some."""
        small, peak = self.look.resized(pixels)
        places, guessed = self.look.found(small, peak)
        if self.steady is None:
            mesh, points, presence, _ = self.place(pixels, places.flatten(0, 1))
            faces = _sorted(mesh, points, presence, guessed)
        else:
            codes, place = small[0] * (255 / peak), partial(self.place, pixels)
            faces = self.steady(codes, places[0], guessed[0], place, elapsed)
        return faces, lambda: (faces.scores, guessed, faces.quiet)

    def _followed(self, pixels: Tensor, elapsed: Tensor | None) -> tuple[Followed, Confirmed]:
        """Return the faces where they are expected; the detector looks meanwhile."""
        steady = self.steady
        if steady is None or elapsed is None:
            raise InvalidOption("follow", True, [False])
        branch = Branch(pixels)
        faces = steady.follow(partial(self.place, pixels, rounds=1, still=NEARLY), elapsed)
        with branch.aside():  # a GPU starts it after what is waited for
            small, peak = self.look.resized(pixels)
            places, guessed = self.look.found(small, peak)

        def confirmed() -> tuple[Tensor, Tensor, Tensor]:  # aside, too
            codes = small[0] * (255 / peak)
            scores, quiet = steady.confirmed(faces, codes, places[0], guessed[0])
            return scores, guessed, quiet

        return faces, confirmed

    def _cast(
        self, pixels: Tensor, faces: Followed, people: Tensor, replaced: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return which person each face receives (K,), -1 for none, and their embeddings (K, D)."""
        if self._who != "person":
            return _received(faces.leads if self._who == "largest" else faces.there, people)
        assert self._embedder is not None
        assert replaced is not None
        contract = self._embedder.contract
        crops = cut(pixels, _fitted(faces.points, self.embedding_points), contract.size)
        outputs = self._embedder.network({contract.input: self.embedder_codec.encode(crops)})
        return _resembling(outputs[contract.output], faces.there, people, replaced, self._limit)

    def _made(self, crops: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Return swapped crops (K, 3, S, S) in [0, 1], and which are not usable, bool (K,)."""
        assert self._swap is not None
        contract = self._swap.contract
        inputs = {contract.target: self.codec.encode(crops), contract.source: wanted}
        return _checked(self._swap.network(inputs)[contract.output], self.codec)

    def _mask(self, mesh: Tensor, matrices: Tensor, crops: Tensor) -> Tensor:
        """Return how far faces are shown anew in their crops, float32 (K, S, S) in [0, 1]."""
        if self._occlusion is None:
            return _hull(mesh, matrices, self._size)
        contract = self._occlusion.contract
        small = resized(crops, contract.size)
        logits = self._occlusion.network({contract.input: self.occlusion_codec.encode(small)})
        return _hull(mesh, matrices, self._size) * _seen(logits[contract.output], self._size)


@fused
def _sorted(mesh: Tensor, points: Tensor, presence: Tensor, scores: Tensor) -> Followed:
    """Return the (B K) faces of frames by themselves, a frame's largest first.

    ``scores`` are (B, K).
    """
    batch, slots = scores.shape
    scores = scores.flatten()
    low, high = mesh.amin(dim=1), mesh.amax(dim=1)
    there = (scores >= GUESS) & real(scores, presence)
    areas = torch.where(there, (high - low).prod(dim=1), 0).view(batch, slots)
    order = areas.sort(dim=1, descending=True, stable=True).indices
    order = (order + torch.arange(batch, device=order.device)[:, None] * slots).flatten()
    first = torch.arange(batch * slots, device=order.device) % slots == 0
    there = there[order]
    return Followed(
        mesh=mesh[order],
        points=points[order],
        boxes=torch.cat([low, high], dim=1)[order],
        scores=torch.where(there, scores[order], 0),
        there=there,
        ids=torch.full_like(order, -1),
        leads=there & first,
        quiet=there.new_zeros(()),
    )


@fused
def _received(chosen: Tensor, people: Tensor) -> tuple[Tensor, Tensor]:
    """Return who faces receive, (N,), the first person where ``chosen``, and what, (N, D)."""
    wanted = people[:1].expand(len(chosen), -1).contiguous()
    return chosen.to(torch.int64) - 1, wanted


@fused
def _resembling(
    embeddings: Tensor, there: Tensor, people: Tensor, replaced: Tensor, limit: float
) -> tuple[Tensor, Tensor]:
    """Return who faces receive, (N,), those who replace whom they resemble, and what, (N, D)."""
    own = functional.normalize(embeddings, dim=1)
    far, role = (1 - own @ replaced.T).min(dim=1)
    return torch.where(there & (far <= limit), role, -1), people[role]


@fused
def _fitted(points: Tensor, template_points: Tensor) -> Tensor:
    return fit_similarity(points, template_points)


@fused
def _checked(raw: Tensor, codec: Codec) -> tuple[Tensor, Tensor]:
    """Return pictures (K, 3, S, S) in [0, 1] and which are not usable, bool (K,)."""
    finite = torch.isfinite(raw).flatten(1).all(dim=1)
    made = codec.decode(torch.where(finite[:, None, None, None], raw, 0)).clamp(0, 1)
    flat = made.flatten(2).std(dim=2).amax(dim=1) < FLAT
    return made, flat | ~finite


@fused
def _hull(mesh: Tensor, matrices: Tensor, size: int) -> Tensor:
    return face_mask(apply(matrices, mesh), size)


@fused
def _seen(logits: Tensor, size: int) -> Tensor:
    found = torch.sigmoid(logits[:, 0])
    return shares(torch.where(torch.isfinite(found), found, 1), size)


@fused
def _patches(
    made: Tensor, mask: Tensor, roles: Tensor, faulty: Tensor, matrices: Tensor, straight: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what is laid over the frames (N, 4, S, S), and where (N, 2, 3)."""
    used = (roles >= 0) & ~faulty
    opacity = torch.where(used[:, None, None], mask, 0)[:, None]
    patches = torch.cat([made * opacity, opacity], dim=1)
    # slots without a face have no place: whatever lies there must not become one
    return patches, torch.where(used[:, None, None], matrices, straight)


@fused
def _told(
    roles: Tensor, faulty: Tensor, guessed: Tensor, quiet: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return roles and which are faulty, (B, K), numbers of guesses and what is quiet, (B,)."""
    swapped = roles >= 0
    return (
        torch.where(swapped & ~faulty, roles, -1).view(guessed.shape),
        (faulty & swapped).view(guessed.shape),
        (guessed >= GUESS).sum(dim=1),
        quiet.repeat(len(guessed)),
    )
