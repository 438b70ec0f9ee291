"""The runs of an experiment, read from their folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from godot_parallel.analysis.curves import Curve
from godot_parallel.errors import RunFolderError, UsageError
from godot_parallel.run_folder import CONFIG, REPORT, RunFolder

SEED_FOLDER = re.compile(r"seed_(\d+)")
_MUST_AGREE = ("env", "env_path", "action_repeat", "timesteps")
"""Options that runs must share to be compared, unless they are what is compared."""

Model = Literal["final", "best"]


@dataclass(frozen=True)
class RunRecord:
    """One run.

    Attributes:
        path: Its folder.
        variant: The variant it belongs to.
        seed: Its seed.
        config: Its options.
        report: Its evaluation; ``None`` if the run is not finished.
        spaces: What its game looked like.
    """

    path: Path
    variant: str
    seed: int
    config: dict[str, Any]
    report: dict[str, Any] | None
    spaces: dict[str, Any]

    def value(self, model: Model = "final") -> float:
        """Mean return of the report's episodes."""
        if self.report is None:
            raise RunFolderError(f"{self.path} is not finished: it has no {REPORT}")
        return float(self.report[model]["mean"])


def load_runs(path: Path) -> list[RunRecord]:
    """All runs in an experiment's folder, in a variant's, or the run that a run folder is.

    Raises:
        RunFolderError: There is none.
    """
    if (path / CONFIG).exists():
        return [_read(path, path.parent.name if SEED_FOLDER.fullmatch(path.name) else path.name)]
    found = sorted(path.glob(f"*/{CONFIG}")) + sorted(path.glob(f"*/seed_*/{CONFIG}"))
    runs = []
    for file in found:
        folder = file.parent
        runs.append(_read(folder, folder.parent.name if SEED_FOLDER.fullmatch(folder.name) else folder.name))
    if not runs:
        raise RunFolderError(f"no runs found in {path}: expected an experiment, a variant of one, or a run")
    return runs


def _read(path: Path, variant: str) -> RunRecord:
    folder = RunFolder.open(path)
    config = folder.config()
    report = folder.read_json(REPORT)
    if report is not None and not {"final", "best"} <= set(report):
        raise RunFolderError(f"{path / REPORT} is no report of this version: expected final and best")
    return RunRecord(
        path, variant, int(config.get("seed", 0)), config, report, folder.read_json("spaces.json") or {}
    )


def by_variant(
    runs: list[RunRecord], model: Model = "final"
) -> tuple[dict[str, dict[int, float]], list[str]]:
    """For each variant the value of each seed; and a note for each run that is not finished.

    Raises:
        UsageError: The runs can't be compared, or a seed is there twice.
    """
    check_comparable(runs)
    values: dict[str, dict[int, float]] = {}
    notes = []
    for run in runs:
        own = values.setdefault(run.variant, {})
        if run.report is None:
            notes.append(f"NOT FINISHED, left out: {run.path}")
            continue
        if run.seed in own:
            raise UsageError(f"{run.variant} has the seed {run.seed} twice: once in {run.path}")
        own[run.seed] = run.value(model)
    return {name: own for name, own in values.items() if own}, notes


def check_comparable(runs: list[RunRecord]) -> None:
    """Refuses runs of different games, budgets or ways of playing.

    Raises:
        UsageError: What differs is named, with two runs that differ in it.
    """
    first = runs[0]
    for run in runs[1:]:
        for key in _MUST_AGREE:
            if run.config.get(key) != first.config.get(key):
                one, other = first.config.get(key, "not given"), run.config.get(key, "not given")
                raise UsageError(
                    f"these runs can't be compared: {key} is {one} in {first.path} and {other} in {run.path}"
                )
        for key in ("observations", "actions", "action_repeat"):
            if run.spaces.get(key) != first.spaces.get(key):
                raise UsageError(
                    f"these runs can't be compared: {first.path} and {run.path} differ in the game's {key}"
                )


Reached = dict[str, dict[int, dict[str, float] | None]]


def reached(runs: list[RunRecord], threshold: float) -> Reached:
    """Steps and seconds until each run's training return first reached a threshold; ``None`` if never."""
    told: Reached = {}
    for run in runs:
        curve = Curve.read(run.path)
        seconds, steps = curve.seconds_to(threshold), curve.steps_to(threshold)
        there = None if seconds is None or steps is None else {"steps": steps, "seconds": seconds}
        told.setdefault(run.variant, {})[run.seed] = there
    return told


def reached_lines(told: Reached, threshold: float) -> list[str]:
    """The same as text. Runs that never got there have no time: they are counted, not averaged."""
    lines = []
    for name, seeds in told.items():
        there = [at for at in seeds.values() if at]
        line = f"{name}: return {threshold:g} reached by {len(there)} of {len(seeds)}"
        if there:
            steps, seconds = (sum(at[unit] for at in there) / len(there) for unit in ("steps", "seconds"))
            line += f", those after {steps:,.0f} steps and {seconds:,.1f} s on average"
        lines.append(line)
    return lines
