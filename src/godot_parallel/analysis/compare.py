"""Variants beside each other: what each reached across its seeds, and each pair seed by seed."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from godot_parallel.analysis import statistics
from godot_parallel.analysis.statistics import Interval
from godot_parallel.errors import UsageError

BySeed = Mapping[int, float]
SEED = 0


@dataclass(frozen=True)
class Summary:
    """One variant across its seeds.

    Attributes:
        name: The variant.
        seeds: Its seeds.
        values: (n,) one value per seed, in their order.
        mean: Their mean.
        std: Their standard deviation (n - 1); nan with one seed.
        iqm: Mean of the middle half.
        iqm_interval: Its 95 % bootstrap interval; ``None`` with one seed, which tells nothing of the spread.
        median: Their median.
    """

    name: str
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    mean: float
    std: float
    iqm: float
    iqm_interval: Interval | None
    median: float


@dataclass(frozen=True)
class Pair:
    """``a`` minus ``b``.

    Attributes:
        a: A variant.
        b: Another.
        paired: Both have the same seeds. If not, the fields that need pairs are ``None``.
        difference: Of the means.
        differences: (n,) by seed.
        interval: Student's 95 % interval of the mean difference.
        sign_flip_p: Exact two-sided p-value.
        smallest_p: The smallest that this number of seeds can reach.
        wilcoxon_p: Signed-rank test.
        probability_of_improvement: How often a run of ``a`` beats one of ``b``.
        effect_size: Cohen's d_z.
        correlation: Between pairs.
        seeds_needed: Pairs for a power of 80 % at an effect of this size; ``None`` if there is none.
    """

    a: str
    b: str
    paired: bool
    difference: float
    probability_of_improvement: float
    differences: tuple[float, ...] | None = None
    interval: Interval | None = None
    sign_flip_p: float | None = None
    smallest_p: float | None = None
    wilcoxon_p: float | None = None
    effect_size: float | None = None
    correlation: float | None = None
    seeds_needed: int | None = None


@dataclass(frozen=True)
class Comparison:
    """Everything that was computed.

    Attributes:
        summaries: By variant.
        pairs: All pairs of variants.
        notes: What a reader has to know.
    """

    summaries: tuple[Summary, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is no number is null."""
        told: dict[str, Any] = _finite(dataclasses.asdict(self))
        return told


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def compare(
    variants: Mapping[str, BySeed],
    rng: np.random.Generator | None = None,
    *,
    allow_unpaired: bool = False,
    resamples: int = statistics.RESAMPLES,
) -> Comparison:
    """Compares variants that were trained with the same seeds.

    Args:
        variants: For each variant's name, a value (a mean return) for each seed.
        rng: Draws the bootstrap's resamples; always the same ones if ``None``.
        allow_unpaired: Compares variants of different seeds all the same; the notes then say so.
        resamples: Of each bootstrap.

    Raises:
        UsageError: Nothing is given, a value is not finite, or the seeds differ and may not.
    """
    rng = rng or np.random.default_rng(SEED)
    if not variants:
        raise UsageError("compare: expected at least one variant with finished runs, found none")
    for name, values in variants.items():
        for seed, value in values.items():
            if not math.isfinite(value):
                raise UsageError(f"{name}: the value of seed {seed} is {value}; expected a finite number")
    summaries = tuple(_summary(name, values, rng, resamples) for name, values in variants.items())
    pairs, notes = [], []
    for a, b in itertools.combinations(variants, 2):
        if set(variants[a]) != set(variants[b]):
            note = (
                f"{a} has the seeds {_listed(variants[a])} and {b} the seeds {_listed(variants[b])}: "
                "a difference may be the seeds'"
            )
            if not allow_unpaired:
                raise UsageError(f"{note}; train both with the same, or pass --allow_unpaired")
            notes.append(f"NOT PAIRED: {note}")
        pairs.append(_pair(a, b, variants[a], variants[b], rng))
    fewest = min(len(summary.seeds) for summary in summaries)
    notes.append(statistics.advice(fewest))
    return Comparison(summaries, tuple(pairs), tuple(notes))


def _listed(values: BySeed) -> str:
    return ", ".join(map(str, sorted(values)))


def _summary(name: str, by_seed: BySeed, rng: np.random.Generator, resamples: int) -> Summary:
    seeds = tuple(sorted(by_seed))
    values = statistics.checked([by_seed[seed] for seed in seeds])
    interval = (
        statistics.bootstrap_interval(values, statistics.iqm, rng, resamples) if len(values) > 1 else None
    )
    return Summary(
        name=name,
        seeds=seeds,
        values=tuple(values.tolist()),
        mean=float(values.mean()),
        std=statistics.std(values),
        iqm=float(statistics.iqm(values)),
        iqm_interval=interval,
        median=float(np.median(values)),
    )


def _pair(a: str, b: str, left: BySeed, right: BySeed, rng: np.random.Generator) -> Pair:
    x, y = list(left.values()), list(right.values())
    difference = float(np.mean(x) - np.mean(y))
    improvement = statistics.probability_of_improvement(x, y)
    if set(left) != set(right):
        return Pair(a, b, False, difference, improvement)
    seeds = sorted(left)
    x, y = [left[seed] for seed in seeds], [right[seed] for seed in seeds]
    differences = np.subtract(x, y)
    n = len(seeds)
    effect = statistics.effect_size(differences)
    return Pair(
        a=a,
        b=b,
        paired=True,
        difference=difference,
        probability_of_improvement=improvement,
        differences=tuple(differences.tolist()),
        interval=statistics.t_interval(differences) if n > 1 else None,
        sign_flip_p=statistics.sign_flip_p(differences, rng),
        smallest_p=statistics.smallest_sign_flip_p(n),
        wilcoxon_p=statistics.wilcoxon_p(differences),
        effect_size=effect,
        correlation=statistics.correlation(x, y) if n > 1 else math.nan,
        seeds_needed=statistics.seeds_needed(effect) if math.isfinite(effect) else None,
    )


def table(comparison: Comparison) -> str:
    """The comparison as text, to be read in a terminal."""
    width = max(len(s.name) for s in comparison.summaries) + 2
    lines = [
        f"{'variant':<{width}}{'seeds':>6}{'mean ± std':>18}{'IQM':>9}{'95 % interval':>19}{'median':>9}"
    ]
    for s in comparison.summaries:
        spread = "" if math.isnan(s.std) else f" ± {s.std:.1f}"
        told = "one seed: none" if s.iqm_interval is None else _told(s.iqm_interval)
        lines.append(
            f"{s.name:<{width}}{len(s.seeds):>6}{f'{s.mean:.1f}{spread}':>18}{s.iqm:>9.1f}{told:>19}{s.median:>9.1f}"
        )
    for pair in comparison.pairs:
        lines += ["", *_pair_lines(pair)]
    return "\n".join([*lines, "", *comparison.notes])


def _told(interval: Interval) -> str:
    return f"{interval.low:.1f} to {interval.high:.1f}"


def _pair_lines(pair: Pair) -> Sequence[str]:
    lines = [f"{pair.a} - {pair.b}: {pair.difference:+.1f}"]
    if pair.interval:
        lines[0] += f", 95 % interval {pair.interval.low:+.1f} to {pair.interval.high:+.1f}"
    if not pair.paired:
        lines[0] += " (NOT PAIRED)"
    lines.append(
        f"  a run of {pair.a} beats one of {pair.b} in {pair.probability_of_improvement:.0%} of the pairings"
    )
    if pair.differences is not None:
        told = " ".join(f"{d:+.1f}" for d in pair.differences)
        lines.append(f"  by seed: {told}")
        lines.append(
            f"  sign-flip p {pair.sign_flip_p:.3g} (it can't be below {pair.smallest_p:.3g} with "
            f"{len(pair.differences)}), Wilcoxon p {pair.wilcoxon_p:.3g}"
        )
        if pair.effect_size is not None and math.isfinite(pair.effect_size):
            needed = "no number of" if pair.seeds_needed is None else str(pair.seeds_needed)
            lines.append(
                f"  effect size d_z {pair.effect_size:+.2f}: {needed} seeds would find it with 80 % power"
            )
    return lines
