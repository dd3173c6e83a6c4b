"""The ruler: what held-out pictures' marks say after fixed damage, and what unmarked ones say."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mien.nets.watermark import Decoder, Encoder
from mien.safety.watermark import code
from mien.train.watermark.chains import fixed
from mien.train.watermark.damage import stored
from mien.train.watermark.learn import looked_at, marked

ROWS = 16


@dataclass(frozen=True, slots=True)
class Score:
    """What came back after one kind of damage."""

    right: float
    """Share of right raw bits."""

    whole: float | None
    """Share of pictures of which the whole payload came back; None if bits are not the code's."""

    presence: float
    """Share that is said to have a mark."""


@torch.no_grad()
def scores(
    encoder: Encoder, decoder: Decoder, pictures: Tensor, *, seed: int = 7
) -> dict[str, Score | float]:
    """Return a score by kind of damage, PSNR in dB, and what is said of pictures without a mark.

    ``pictures`` are float (n, 3, S, S) in [0, 1], S a multiple of 32. "false" is the share of
    unmarked pictures, damaged or not, that are believed to have a mark; "false presence" that of
    the network's own guess.
    """
    shape, device = encoder.shape, pictures.device
    random = torch.Generator().manual_seed(seed)
    coded = shape.bits == code.BITS
    numbers = torch.randint(1 << code.IDENTIFIER, (len(pictures),), generator=random).tolist()
    if coded:
        bits = torch.stack([torch.from_numpy(code.write(number)) for number in numbers]).float()
    else:
        bits = torch.randint(2, (len(pictures), shape.bits), generator=random).float()
    plain, shown, noise = [], [], []
    for rows, row_bits in zip(pictures.split(ROWS), bits.to(device).split(ROWS), strict=True):
        plain.append(stored(rows))
        shown.append(marked(rows, encoder(looked_at(rows, shape.size), row_bits * 2 - 1)))
        noise.append((shown[-1] - plain[-1]).square().mean(dim=(1, 2, 3)))
    psnr = -10 * torch.cat(noise).clamp_min(1e-9).log10()
    found: dict[str, Score | float] = {
        "psnr": float(psnr.mean()),
        "psnr, least": float(psnr.min()),
    }
    false, guessed, asked = 0, 0, 0
    for name, damage in fixed(device).items():
        said = [_said(decoder, [damage(rows) for rows in part]) for part in (shown, plain)]
        right = (said[0][:, :-1] > 0).float() == bits
        whole = None
        if coded:
            read = [code.read(row) for row in said[0][:, :-1].numpy()]
            whole = sum(
                mark is not None and mark.identifier == number
                for mark, number in zip(read, numbers, strict=True)
            ) / len(numbers)
            false += sum(code.read(row) is not None for row in said[1][:, :-1].numpy())
        guessed += int((said[1][:, -1] > 0).sum())
        asked += len(bits)
        found[name] = Score(
            float(right.float().mean()), whole, float((said[0][:, -1] > 0).float().mean())
        )
    found["false"], found["false presence"] = false / asked, guessed / asked
    return found


def _said(decoder: Decoder, parts: list[Tensor]) -> Tensor:
    """Return logits on the CPU."""
    size = decoder.shape.size
    return torch.cat([decoder(looked_at(stored(rows), size)) for rows in parts]).float().cpu()
