"""Statistics of a few runs: arrays in, numbers out, nothing read and nothing printed.

One number per run (a seed's mean return) goes in. IQM, bootstrap intervals, probability of improvement and
performance profiles are those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (NeurIPS 2021); the sign-flip test is Fisher's exact randomisation test for pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from godot_parallel.errors import UsageError

Values = npt.NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 50_000
EXACT_PAIRS = 20
"""With more pairs than this the sign-flip test draws flips instead of trying all."""
_CHUNK = 4_000_000  # numbers that a bootstrap holds at a time
_MOST_SEEDS = 100_000


class Interval(NamedTuple):
    """Lower and upper end."""

    low: float
    high: float


def checked(values: npt.ArrayLike, least: int = 1) -> Values:
    """(n,) float64.

    Raises:
        UsageError: There are fewer than ``least`` numbers, or not all are finite.
    """
    array = np.asarray(values, np.float64).reshape(-1)
    if len(array) < least:
        raise UsageError(f"expected at least {least} values, one per seed, found {len(array)}")
    if not np.isfinite(array).all():
        raise UsageError(f"expected finite values, found {array[~np.isfinite(array)][0]}")
    return array


def std(values: npt.ArrayLike) -> float:
    """Standard deviation across seeds (divided by n - 1: the seeds are a sample); nan with one seed."""
    array = checked(values)
    return float(np.std(array, ddof=1)) if len(array) > 1 else math.nan


def iqm(values: npt.ArrayLike, axis: int | None = None) -> Any:
    """Mean of the middle half: a quarter of the values, rounded down, is cut at either end."""
    return stats.trim_mean(np.asarray(values, np.float64), 0.25, axis=axis)


def bootstrap_interval(
    values: npt.ArrayLike,
    statistic: Callable[..., Any],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """Percentile bootstrap over seeds.

    Args:
        values: (n,) one value per seed.
        statistic: Takes (k, n) and ``axis=1``, as :func:`iqm` and ``np.mean`` do.
        rng: Draws the resamples.
        resamples: How many.
        level: Share of resamples inside.

    Raises:
        UsageError: There is only one seed: nothing is known about the spread.
    """
    array = checked(values, 2)
    n, told = len(array), []
    per_chunk = max(1, _CHUNK // n)
    for start in range(0, resamples, per_chunk):
        rows = min(per_chunk, resamples - start)
        told.append(statistic(array[rng.integers(n, size=(rows, n), dtype=np.int32)], axis=1))
    low, high = np.quantile(np.concatenate(told), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def t_interval(values: npt.ArrayLike, level: float = LEVEL) -> Interval:
    """Student's interval of the mean; right for few, roughly normal values, as paired differences are.

    Raises:
        UsageError: There are fewer than two values.
    """
    array = checked(values, 2)
    half = stats.t.ppf((1 + level) / 2, len(array) - 1) * stats.sem(array)
    return Interval(float(array.mean() - half), float(array.mean() + half))


def smallest_sign_flip_p(n: int) -> float:
    """The smallest two-sided p-value that ``n`` pairs can reach: .0625 with 5, .031 with 6, .002 with 10."""
    return min(1.0, 2.0 ** (1 - n))


def sign_flip_p(differences: npt.ArrayLike, rng: np.random.Generator, draws: int = 100_000) -> float:
    """Two-sided p-value of "the sign of each difference is a coin's": exact up to 20 pairs.

    Args:
        differences: (n,) paired differences.
        rng: Draws the flips of more than 20 pairs.
        draws: How many.
    """
    array = checked(differences)
    n, observed = len(array), abs(array.sum())
    slack = 1e-12 * np.abs(array).sum()  # the same sum in another order is the same sum
    if n <= EXACT_PAIRS:
        first, rest = array[0], array[1:]  # a flip and its opposite have the same size: half will do
        sums = np.full(1, first)
        for difference in rest:
            sums = np.concatenate([sums + difference, sums - difference])
        return float(np.mean(np.abs(sums) >= observed - slack))
    extreme = 0
    for start in range(0, draws, 10_000):
        signs = rng.integers(2, size=(min(10_000, draws - start), n), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ array) >= observed - slack).sum())
    return (extreme + 1) / (draws + 1)  # the observed one counts as drawn


def wilcoxon_p(differences: npt.ArrayLike) -> float:
    """Two-sided Wilcoxon signed-rank p-value; pairs without a difference say nothing and are left out."""
    array = checked(differences)
    array = array[array != 0]
    return 1.0 if len(array) == 0 else float(stats.wilcoxon(array).pvalue)


def probability_of_improvement(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """How often a run of ``a`` beats one of ``b``; ties count half. Mann and Whitney's U over n x m."""
    left, right = checked(a)[:, None], checked(b)[None, :]
    return float(np.mean((left > right) + 0.5 * (left == right)))


def effect_size(differences: npt.ArrayLike) -> float:
    """Mean paired difference in its own standard deviations (Cohen's d_z); nan with fewer than two pairs.

    Differences that are all the same have no spread: 0 if they are zero, else infinite.
    """
    array = checked(differences)
    if len(array) < 2:
        return math.nan
    mean, spread = float(array.mean()), std(array)
    if spread > 0:
        return mean / spread
    return math.copysign(math.inf, mean) if mean else 0.0


def correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Pearson's, between pairs; nan where one side does not vary. High: pairing by seed pays."""
    left, right = checked(a, 2), checked(b, 2)
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return math.nan
    return float(np.corrcoef(left, right)[0, 1])


def seeds_needed(effect: float, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Pairs of seeds that a two-sided paired t-test needs to find an effect (d_z) with this power.

    ``None`` if there is no effect to find, or more than 100,000 would be needed.
    """
    effect = abs(effect)
    if not effect > 0:
        return None
    if math.isinf(effect) or _power(2, effect, alpha) >= power:
        return 2
    low, high = 2, 4
    while _power(high, effect, alpha) < power:
        low, high = high, high * 2
        if high > _MOST_SEEDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(middle, effect, alpha) >= power else (middle, high)
    return high


def _power(n: int, effect: float, alpha: float) -> float:
    df, shift = n - 1, effect * math.sqrt(n)
    limit = stats.t.ppf(1 - alpha / 2, df)
    return float(stats.nct.sf(limit, df, shift) + stats.nct.cdf(-limit, df, shift))


def performance_profile(values: npt.ArrayLike, thresholds: npt.ArrayLike) -> Values:
    """(T,) share of runs whose value is above each threshold."""
    above = checked(values)[None, :] > np.asarray(thresholds, np.float64)[:, None]
    shares: Values = above.mean(axis=1)
    return shares


def area_under_curve(steps: npt.ArrayLike, values: npt.ArrayLike) -> float:
    """Mean height of a learning curve over its steps (trapezoids); the value itself if it is one point."""
    x, y = checked(steps), checked(values)
    span = x[-1] - x[0]
    return float(np.trapezoid(y, x) / span) if span > 0 else float(y[-1])


def advice(n: int) -> str:
    """What this number of seeds is good for, in one line."""
    if n < 3:
        return "1 or 2 seeds show that it works; they compare nothing: take 3 to 5"
    if n < 10:
        return f"{n} seeds are enough to compare roughly; a paper needs 10"
    return f"{n} seeds are enough for a paper"
