"""KID: whether the faces, as a crowd, look like real ones to a named network.

The kernel inception distance (Bińkowski et al., "Demystifying MMD GANs", ICLR 2018) is the squared
maximum mean discrepancy with a polynomial kernel, without bias. Here the features are not those of
Inception, so the number compares with nothing but itself on the same people by the same network.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mien.evaluate.intervals import Interval, interval, resamples

DEGREE = 3


def kid(
    features: Tensor,
    reference: Tensor,
    *,
    who: Tensor | None = None,
    reference_who: Tensor | None = None,
    clusters: Tensor | None = None,
    seed: int = 0,
) -> Interval:
    """Return the distance of ``features`` (N, D) from ``reference`` (M, D), with its interval.

    Features are scaled to the length √D, so that the kernel is (cosine + 1)³. ``who`` (N, P) and
    ``reference_who`` (M, Q) are the numbers of the people who have a part in each picture: the
    estimate is unbiased for independent pictures, so two pictures that share a person are left out,
    as a picture's pair with itself is. Without them all pictures are independent. Only ``features``
    are resampled, by ``clusters`` (N,). Small values below zero are possible, as for any unbiased
    estimate.
    """
    count = len(features)
    if who is None or reference_who is None:
        numbers = torch.arange(count + len(reference))[:, None]
        who, reference_who = numbers[:count], numbers[count:]
    x = torch.nn.functional.normalize(features.double(), dim=1)
    y = torch.nn.functional.normalize(reference.double(), dim=1)
    xx, yy, xy = kernel(x, x), kernel(y, y), kernel(x, y)
    apart_xx, apart_xy = _apart(who, who), _apart(who, reference_who)
    apart_yy = _apart(reference_who, reference_who)
    among_reference = (yy * apart_yy).sum() / apart_yy.sum()

    def distance(weights: Tensor) -> Tensor:
        """Return the distance (B,) when each face counts ``weights`` (B, N) times."""
        among = _mean(weights, xx, apart_xx)
        between = (weights @ (xy * apart_xy)).sum(dim=1) / (weights @ apart_xy).sum(dim=1)
        return among + among_reference - 2 * between

    once = distance(torch.ones(1, count, dtype=torch.float64))
    return interval(float(once), distance(resamples(count, clusters=clusters, seed=seed)), count)


def kernel(x: Tensor, y: Tensor) -> Tensor:
    """Return (x·y + 1)³ for all pairs of unit vectors (N, D) and (M, D), as (N, M)."""
    return (x @ y.T + 1) ** DEGREE


def _apart(a: Tensor, b: Tensor) -> Tensor:
    """Return 1 where pictures, by the numbers of their people (N, P) and (M, Q), share nobody."""
    return (a[:, None, :, None] != b[None, :, None, :]).all(dim=3).all(dim=2).double()


def _mean(weights: Tensor, values: Tensor, counted: Tensor) -> Tensor:
    total = ((weights @ (values * counted)) * weights).sum(dim=1)
    return total / ((weights @ counted) * weights).sum(dim=1)
