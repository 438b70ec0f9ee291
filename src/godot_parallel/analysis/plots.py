"""Pictures of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt  # after the choice of a backend without a screen

from godot_parallel.analysis.bands import Axis, band
from godot_parallel.analysis.compare import Comparison
from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.statistics import performance_profile

_RETURN = "mean return of the last 100 episodes"
_LABELS = {"steps": "steps", "seconds": "wall-clock time (s)"}


def learning_curves(curves: Sequence[Curve], path: Path, title: str, threshold: float | None = None) -> None:
    """Draws mean training return over wall-clock time, one line per run.

    Args:
        curves: The runs.
        path: Picture to write; its ending chooses the format (.png, .svg).
        title: What is compared.
        threshold: Drawn as a dashed line.
    """
    figure, axes = plt.subplots(figsize=(8, 4.5), constrained_layout=True)
    for curve in curves:
        (line,) = axes.plot(curve.wall_s, curve.returns, label=curve.name, linewidth=2)
        axes.annotate(
            f" {curve.returns[-1]:.0f}",
            (curve.wall_s[-1], curve.returns[-1]),
            color=line.get_color(),
            va="center",
        )
    if threshold is not None:
        axes.axhline(threshold, color="0.5", linestyle="--", linewidth=1, zorder=0)
    axes.set_xlabel(_LABELS["seconds"])
    axes.set_ylabel(_RETURN)
    _finish(figure, axes, title, path)


def _finish(figure: Any, axes: Any, title: str, path: Path) -> None:
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_curves(
    variants: Mapping[str, Sequence[Curve]],
    path: Path,
    title: str,
    axis: Axis = "steps",
    threshold: float | None = None,
) -> None:
    """Draws each variant's IQM across seeds with its 95 % bootstrap band, and every seed as a thin line.

    Args:
        variants: Curves by variant, one for each seed.
        path: Picture to write; its ending chooses the format (.png, .svg).
        title: What is compared.
        axis: Over ``steps``, or over wall-clock ``seconds``.
        threshold: Drawn as a dashed line.
    """
    figure, axes = plt.subplots(figsize=(8, 4.5), constrained_layout=True)
    for name, curves in variants.items():
        told = band(curves, axis)
        seeds = f"{len(curves)} seed{'s' if len(curves) > 1 else ''}"
        (line,) = axes.plot(told.x, told.iqm, label=f"{name} ({seeds})", linewidth=2)
        axes.fill_between(told.x, told.low, told.high, color=line.get_color(), alpha=0.2, linewidth=0)
        for values in told.values:
            axes.plot(told.x, values, color=line.get_color(), linewidth=0.6, alpha=0.5)
    if threshold is not None:
        axes.axhline(threshold, color="0.5", linestyle="--", linewidth=1, zorder=0)
    axes.set_xlabel(_LABELS[axis])
    axes.set_ylabel(_RETURN)
    if axis == "steps":
        axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda x, _: f"{x:,.0f}"))
    _finish(figure, axes, title, path)


def paired_differences(comparison: Comparison, path: Path, title: str) -> None:
    """Draws each pair's differences by seed as dots, and their mean with its 95 % interval."""
    pairs = [pair for pair in comparison.pairs if pair.differences is not None]
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.7 * max(1, len(pairs))), constrained_layout=True)
    for row, pair in enumerate(reversed(pairs)):
        differences = np.asarray(pair.differences)
        (line,) = axes.plot(differences, np.full(len(differences), row), "o", alpha=0.45)
        axes.plot(pair.difference, row, "D", color=line.get_color(), markersize=8)
        if pair.interval:
            axes.hlines(row, *pair.interval, color=line.get_color(), linewidth=2)
    axes.set_yticks(range(len(pairs)), [f"{pair.a}\n- {pair.b}" for pair in reversed(pairs)])
    axes.set_ylim(-0.6, max(1, len(pairs)) - 0.4)
    axes.axvline(0, color="0.5", linestyle="--", linewidth=1, zorder=0)
    axes.set_xlabel("difference of the mean returns, by seed (diamond: mean with 95 % interval)")
    _finish(figure, axes, title, path)


def performance_profiles(comparison: Comparison, path: Path, title: str) -> None:
    """Draws for each variant the share of its runs above every return."""
    figure, axes = plt.subplots(figsize=(8, 4.5), constrained_layout=True)
    everything = np.concatenate([summary.values for summary in comparison.summaries])
    margin = 0.05 * (np.ptp(everything) or 1.0)
    thresholds = np.linspace(everything.min() - margin, everything.max() + margin, 400)
    for summary in comparison.summaries:
        axes.step(
            thresholds, performance_profile(summary.values, thresholds), label=summary.name, linewidth=2
        )
    axes.set_xlabel("mean return")
    axes.set_ylabel("share of runs above it")
    axes.set_ylim(-0.02, 1.02)
    _finish(figure, axes, title, path)
