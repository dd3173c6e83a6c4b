"""One step of training: networks, optimisers and what is done with a batch."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from mien.nets.discriminator import Discriminator
from mien.nets.swapper import Swapper
from mien.train import losses, schedule
from mien.train.bank import Bank, Batch
from mien.train.faces import Watchers, face_mask, shown
from mien.train.recipe import Recipe

RUN = ("_swap", "_judge", "_sface", "_feature", "_look", "_mesh", "_steady", "_teach")
"""Attributes of a trainer that run as they are, or compiled."""


class Critics(nn.Module):
    """The discriminators: of the picture, of it at half its size, and of eyes and mouth."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.whole = Discriminator(width)
        self.halved = Discriminator(width)
        self.parts = Discriminator(width, strides=3, most=4)

    def forward(self, x: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        """Return logits and activations of each for pictures (N, 3, S, S); windows come last."""
        return [
            self.whole(x),
            self.halved(functional.avg_pool2d(x, 2)),
            self.parts(losses.cut_windows(x)),
        ]


class Trainer:
    """Holds what learns, and teaches it."""

    def __init__(
        self,
        recipe: Recipe,
        watchers: Watchers,
        device: torch.device,
        *,
        begin: Swapper | None = None,
        teacher: Swapper | None = None,
    ) -> None:
        """``begin`` is a network to go on from; ``teacher`` one whose pictures are to be matched.

        A teacher may be larger: batches are drawn at its size and then made smaller.
        """
        self.recipe, self.watchers, self.device = recipe, watchers, device
        torch.manual_seed(recipe.seed)
        self.swapper = _laid_out(Swapper(recipe.swapper), device)
        if begin is not None:
            self.swapper.load_state_dict(begin.state_dict())
        self.teacher = None if teacher is None else _laid_out(teacher, device)
        self.critics = _laid_out(Critics(recipe.width), device)
        self.average = copy.deepcopy(self.swapper).eval().requires_grad_(False)
        self.optimiser = _adam(self.swapper, recipe.rate, recipe)
        self.optimiser_critics = _adam(self.critics, recipe.rate_discriminator, recipe)
        self.step = 0
        self.since_start = 0
        """Steps since the optimisers' state was new."""

        self.emphasis = losses.emphasis(recipe.swapper.size, 3.0, device)
        # what a step runs: these networks, or their compiled forms
        self._swap: Any = self.swapper
        self._judge: Any = self.critics
        self._sface: Any = watchers.sface
        self._feature: Any = watchers.feature
        self._look: Any = watchers.age
        self._mesh: Any = watchers.mesh
        self._steady: Any = self.average
        self._teach: Any = self.teacher

    def compile(self, bank: Bank) -> None:
        """Compile the networks for this run's shapes, if the recipe says so.

        That takes minutes, during one step from which nothing is learned.
        """
        mode = self.recipe.compile
        if not mode:
            return
        for name in RUN:
            module = getattr(self, name)
            if module is not None:
                setattr(self, name, torch.compile(module, dynamic=False, mode=mode))
        self.learn(bank, 1.0, rate=0.0)
        self.step, self.since_start = self.step - 1, self.since_start - 1

    def learn(self, bank: Bank, progress: float, *, rate: float = 1.0) -> dict[str, Tensor]:
        """Take one step at ``progress`` of the run and return its losses, as tensors.

        ``rate`` multiplies the learning rates.
        """
        phases = self.recipe.phases
        batch, given = self.lesson(bank, triplets=progress >= phases.triplets)
        self._set_rates(rate * schedule.rate(self.recipe, progress, self.since_start))
        with self._mixed():
            out = self._swap(_channels_last(given), batch.source)
        out = out.float() * batch.valid + batch.truth * (1 - batch.valid)
        parts: dict[str, Tensor] = {}
        if progress >= phases.discriminator:
            parts["critics"] = self._learn_critics(batch, out.detach())
        terms = self.terms(batch, out, bank, schedule.adversarial(self.recipe, progress))
        self.optimiser.zero_grad(set_to_none=True)
        torch.stack(list(terms.values())).sum().backward()
        parts |= {name: term.detach() for name, term in terms.items()}
        parts["norm"], parts["skipped"] = _stepped(
            self.optimiser, self.swapper.parameters(), self.recipe.clip
        )
        self.step += 1
        self.since_start += 1
        self._update_average()
        return parts

    @torch.no_grad()
    def lesson(self, bank: Bank, *, triplets: bool) -> tuple[Batch, Tensor]:
        """Return the batch of this step and the targets, both of the network's size.

        Targets are the real pictures, but for triplets swaps of them.
        """
        batch = bank.draw(self.step, triplets=triplets)
        given, rows = batch.truth, slice(batch.same, batch.labelled)
        if batch.triplets:
            model = self._steady if self._teach is None else self._teach
            swap = self._made(model, given[rows], batch.other)
            swap = swap * batch.valid[rows] + given[rows] * (1 - batch.valid[rows])
            given = torch.cat([given[: batch.same], swap, given[batch.labelled :]])
        if self.teacher is None:
            return batch, given
        size = self.recipe.swapper.size
        wanted = _shrunk(self._made(self._teach, given, batch.source), size)
        valid = (_shrunk(batch.valid, size) > 1 - 1e-3).float()
        batch = replace(batch, truth=_shrunk(batch.truth, size), valid=valid, wanted=wanted)
        return batch, _shrunk(given, size)

    def _made(self, swapper: Any, targets: Tensor, sources: Tensor) -> Tensor:
        with self._mixed():
            made: Tensor = swapper(_channels_last(targets), sources)
        return made.float()

    def terms(self, batch: Batch, out: Tensor, bank: Bank, adversarial: float) -> dict[str, Tensor]:
        """Return the network's losses by name, weighted.

        Who it is and what it does with its face is judged as it will be seen, pasted softly into
        the target: else likeness goes to where nobody will see it.
        """
        weights, truth, valid = self.recipe.weights, batch.truth, batch.valid
        terms: dict[str, Tensor] = {}
        by = bank.disturbances(self.step, len(out), 3)
        # never in bfloat16: its numbers are a pixel apart where a mesh of 192 pixels ends
        with torch.no_grad():
            wanted = self._mesh(truth)
            mask = shown(wanted, out.shape[-1])
        pasted = truth + (out - truth) * mask
        with self._mixed(self.recipe.frozen_bfloat16):
            made = self._sface(pasted, by[0])
            terms["sface"] = weights.sface * losses.identity(made, batch.source)
            if batch.feature is not None:
                made = self._feature(pasted, by[1])
                terms["feature"] = weights.feature * losses.identity(made, batch.feature)
            made = self._look(pasted, by[2])
            terms["look"] = weights.look * losses.identity(made, batch.look)
        terms["mesh"] = weights.mesh * losses.mesh_shape(self._mesh(pasted), wanted)
        terms["gaze"] = weights.gaze * losses.gaze(out, truth, wanted)
        terms["irises"] = weights.irises * losses.irises(out, truth, wanted)
        terms["rims"] = weights.rims * losses.rims(out, truth)
        rows = slice(0, batch.labelled)
        terms["reconstruction"] = weights.reconstruction * losses.reconstruction(
            out[rows], truth[rows], valid[rows], batch.detail[rows], self.emphasis
        )
        if batch.wanted is not None:
            everywhere = torch.ones_like(batch.detail)
            terms["teacher"] = weights.teacher * losses.reconstruction(
                out, batch.wanted, valid, everywhere, self.emphasis
            )
        face = face_mask(wanted, out.shape[-1] // 4)
        face = functional.interpolate(face, scale_factor=4.0, mode="bilinear")
        terms["colour"] = weights.colour * losses.colour(out, truth, valid)
        terms["context"] = weights.context * losses.context(out, truth, valid, face)
        if adversarial > 0:
            terms |= self._adversarial(batch, out, adversarial)
        return terms

    def _adversarial(self, batch: Batch, out: Tensor, factor: float) -> dict[str, Tensor]:
        weights = self.recipe.weights
        self.critics.requires_grad_(False)
        with self._mixed():
            fake = self._judge(_channels_last(out))
            with torch.no_grad():
                real = self._judge(_channels_last(batch.truth))
        self.critics.requires_grad_(True)
        labelled = torch.zeros_like(batch.detail)
        labelled[: batch.labelled] = 1
        hinge, alike = [], []
        for (logits, made), (_, wanted), valid in zip(fake, real, _seen(batch.valid), strict=True):
            repeat = len(logits) // len(out)
            deep, shallow = batch.detail.repeat(repeat), (batch.detail * labelled).repeat(repeat)
            hinge.append(losses.hinge_generator(logits, _at(logits, valid, deep)))
            alike.append(losses.features(made, wanted, valid, deep, shallow))
        return {
            "adversarial": weights.adversarial * factor * torch.stack(hinge).sum(),
            "features": weights.features * factor * torch.stack(alike).mean(),
        }

    def _learn_critics(self, batch: Batch, out: Tensor) -> Tensor:
        with self._mixed():
            both = self._judge(_channels_last(torch.cat([batch.truth, out])))
        loss = out.new_zeros(())
        for (logits, _), valid in zip(both, _seen(batch.valid), strict=True):
            # windows lie one after another, each with real pictures first
            halves = logits.view(-1, 2, len(out), *logits.shape[1:])
            real, fake = (halves[:, i].flatten(0, 1) for i in (0, 1))
            detail = batch.detail.repeat(len(halves))
            loss = loss + losses.hinge_discriminator(real, fake, _at(real, valid, detail))
        self.optimiser_critics.zero_grad(set_to_none=True)
        loss.backward()
        _stepped(self.optimiser_critics, self.critics.parameters(), self.recipe.clip)
        return loss.detach()

    def _set_rates(self, factor: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate * factor
        for group in self.optimiser_critics.param_groups:
            group["lr"] = self.recipe.rate_discriminator * factor

    @torch.no_grad()
    def _update_average(self) -> None:
        keep = min(self.recipe.average, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(
            list(self.average.parameters()), list(self.swapper.parameters()), 1 - keep
        )

    def _mixed(self, wanted: bool = True) -> Any:
        on = wanted and self.recipe.bfloat16
        return torch.autocast(self.device.type, torch.bfloat16, enabled=on)


def _seen(valid: Tensor) -> list[Tensor]:
    """Return where each discriminator's input is real picture."""
    return [valid, functional.avg_pool2d(valid, 2), losses.cut_windows(valid)]


def _at(logits: Tensor, valid: Tensor, rows: Tensor) -> Tensor:
    """Return the weights of logits: their share of real picture, and their rows' weights."""
    where = functional.adaptive_avg_pool2d(valid, (logits.shape[-2], logits.shape[-1]))
    return where * rows[:, None, None, None]


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _shrunk(x: Tensor, size: int) -> Tensor:
    return functional.interpolate(x, (size, size), mode="bilinear", antialias=True)


def _laid_out(module: Any, device: torch.device) -> Any:
    return module.to(device).to(memory_format=torch.channels_last)


def _adam(module: nn.Module, rate: float, recipe: Recipe) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), lr=rate, betas=recipe.betas, fused=True)


@torch.no_grad()
def _stepped(
    optimiser: torch.optim.Adam, parameters: Iterable[nn.Parameter], clip: float
) -> tuple[Tensor, Tensor]:
    """Clip the gradients, step, and return their norm and whether the step was left out.

    A step whose gradients are not finite is left out. Both are done by the fused kernel, which
    divides by ``grad_scale`` and does nothing if ``found_inf``: the processor waits for nothing.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    average_over_ranks(gradients)
    norm = torch.stack(torch._foreach_norm(gradients)).norm()
    bad = (~norm.isfinite()).float()
    optimiser.grad_scale = (norm / clip).clamp_min(1)  # type: ignore[attr-defined]
    optimiser.found_inf = bad  # type: ignore[attr-defined]
    optimiser.step()
    return norm, bad


def average_over_ranks(tensors: list[Tensor]) -> None:
    """Replace tensors, in place, by their means over all processes, if there are several."""
    if not dist.is_initialized():
        return
    flat = torch.cat([t.flatten() for t in tensors])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(part.view_as(tensor))
