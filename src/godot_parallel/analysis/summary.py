"""An experiment's folder as a whole: what is finished, how it compares, its pictures, and what is missing."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from godot_parallel.analysis import plots
from godot_parallel.analysis.bands import Axis
from godot_parallel.analysis.compare import Comparison, compare
from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.runs import Model, RunRecord, by_variant, load_runs
from godot_parallel.analysis.tensorboard import write_bands
from godot_parallel.errors import RunFolderError, UsageError
from godot_parallel.run_folder import PLAN, STATUS, RunFolder

AXES: tuple[Axis, ...] = ("steps", "seconds")


@dataclass(frozen=True)
class ExperimentSummary:
    """An experiment as it stands.

    Attributes:
        folder: Where it is.
        runs: The finished runs of the variants that are compared.
        curves: Their learning curves, by variant.
        comparison: Of the variants whose seeds are all finished; ``None`` if there is none.
        notes: Which runs are missing, and why.
    """

    folder: Path
    runs: tuple[RunRecord, ...]
    curves: dict[str, list[Curve]]
    comparison: Comparison | None
    notes: tuple[str, ...]


def summarise(folder: Path, model: Model = "final") -> ExperimentSummary:
    """Reads and compares an experiment.

    Args:
        folder: Made by ``gdrl experiment``.
        model: Whose episodes count.

    Raises:
        RunFolderError: It is no experiment's folder.
        UsageError: Its runs can't be compared.
    """
    wanted = _wanted(folder)
    found = {(run.variant, run.seed): run for run in _load(folder)}
    reasons = {(told["variant"], told["seed"]): told for told in RunFolder(folder).read_json(STATUS) or []}
    notes, finished = [], []
    for variant, seed in wanted:
        run = found.get((variant, seed))
        if run and run.report:
            finished.append(run)
        else:
            told = reasons.get((variant, seed), {"status": "waiting", "reason": ""})
            why = f": {told['reason']}" if told["reason"] else ""
            notes.append(f"{told['status'].upper()}: {variant} seed {seed}{why}")
    lacking = {
        variant for variant, seed in wanted if (variant, seed) not in {(r.variant, r.seed) for r in finished}
    }
    notes += [f"{variant} is not compared before all its seeds are finished" for variant in sorted(lacking)]
    runs = [run for run in finished if run.variant not in lacking]
    if not runs:
        return ExperimentSummary(folder, (), {}, None, tuple(notes))
    values, _ = by_variant(runs, model)
    curves: dict[str, list[Curve]] = {}
    for run in runs:
        curves.setdefault(run.variant, []).append(Curve.read(run.path))
    return ExperimentSummary(folder, tuple(runs), curves, compare(values), tuple(notes))


def _wanted(folder: Path) -> list[tuple[str, int]]:
    try:
        plan = tomllib.loads((folder / PLAN).read_text())
        return [(variant, int(seed)) for variant in plan["variants"] for seed in plan["seeds"]]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{folder} is no experiment: its {PLAN} can't be read ({error})") from error


def _load(folder: Path) -> list[RunRecord]:
    try:
        return load_runs(folder)
    except RunFolderError:
        return []


def draw(summary: ExperimentSummary, folder: Path, endings: tuple[str, ...] = ("png", "svg")) -> list[str]:
    """Draws everything into a folder, and the lines with bands for TensorBoard into the experiment's.

    Returns:
        What can't be drawn, and why.
    """
    if summary.comparison is None:
        return []
    name, curves, comparison = summary.folder.name, summary.curves, summary.comparison
    works: list[Callable[[], Any]] = [partial(write_bands, curves, summary.folder)]
    for ending in endings:
        works += [
            partial(plots.plot_curves, curves, folder / f"curves_by_{axis}.{ending}", name, axis)
            for axis in AXES
        ]
        works.append(partial(plots.performance_profiles, comparison, folder / f"profiles.{ending}", name))
        if comparison.pairs:
            works.append(
                partial(plots.paired_differences, comparison, folder / f"differences.{ending}", name)
            )
    notes = []
    for work in works:
        try:
            work()
        except UsageError as error:  # curves so short that they have nothing in common
            notes.append(f"not drawn: {error}")
    return list(dict.fromkeys(notes))
