"""Pictures of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt  # after the choice of a backend without a screen

from godot_parallel.analysis.curves import Curve


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
    axes.set_xlabel("wall-clock time (s)")
    axes.set_ylabel("mean return of the last 100 episodes")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
