"""Learning curves of several seeds as one line with a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from godot_parallel.analysis import statistics
from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.statistics import Values
from godot_parallel.errors import UsageError

Axis = Literal["steps", "seconds"]
POINTS = 200
RESAMPLES = 2_000


@dataclass(frozen=True)
class Band:
    """What several seeds make of one axis.

    Attributes:
        x: (T,) steps or seconds: from where all seeds have a value to where the first one ends.
        values: (S, T) each seed's returns there, interpolated linearly.
        mean: (T,) across seeds.
        std: (T,) across seeds (n - 1); zeros with one seed.
        iqm: (T,) mean of the middle half.
        low: (T,) lower end of its 95 % bootstrap interval; the IQM itself with one seed.
        high: (T,) upper end.
    """

    x: Values
    values: Values
    mean: Values
    std: Values
    iqm: Values
    low: Values
    high: Values


def band(
    curves: Sequence[Curve], axis: Axis, rng: np.random.Generator | None = None, points: int = POINTS
) -> Band:
    """Brings the curves of several seeds onto one axis.

    Args:
        curves: One for each seed.
        axis: ``steps``, or wall-clock ``seconds``.
        rng: Draws the bootstrap's resamples of seeds; always the same ones if ``None``.
        points: Of the axis.

    Raises:
        UsageError: There is no curve, or the curves have no stretch in common.
    """
    if not curves:
        raise UsageError("expected at least one learning curve, found none")
    axes = [curve.steps if axis == "steps" else curve.wall_s for curve in curves]
    first, last = max(x[0] for x in axes), min(x[-1] for x in axes)
    if first > last:
        raise UsageError(f"the curves {', '.join(c.name for c in curves)} have no {axis} in common")
    x = np.linspace(first, last, points if last > first else 1)
    values = np.stack([np.interp(x, own, curve.returns) for own, curve in zip(axes, curves, strict=True)])
    n = len(curves)
    iqm: Values = statistics.iqm(values, axis=0)
    low, high = iqm, iqm
    if n > 1:
        rng = rng or np.random.default_rng(0)
        # One set of resampled seeds for the whole curve: the band is as smooth as the curves are.
        drawn = rng.integers(n, size=(RESAMPLES, n))
        resampled = np.stack([statistics.iqm(column[drawn], axis=1) for column in values.T])
        low, high = np.quantile(resampled, [0.025, 0.975], axis=1)
    return Band(
        x=x,
        values=values,
        mean=values.mean(axis=0),
        std=values.std(axis=0, ddof=1) if n > 1 else np.zeros(len(x)),
        iqm=iqm,
        low=low,
        high=high,
    )
