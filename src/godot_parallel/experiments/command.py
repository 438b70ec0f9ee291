"""``gdrl experiment``: from its options to a plan, its runs, and their comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from godot_parallel.analysis.bands import Axis
from godot_parallel.analysis.compare import Comparison, compare
from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.runs import RunRecord, by_variant, load_runs
from godot_parallel.errors import UsageError
from godot_parallel.experiments.jobs import measure_jobs
from godot_parallel.experiments.plan import OWN, Plan, parse_seeds, parse_vary, read_plan, vary
from godot_parallel.experiments.runner import Job, Reporter, Runner
from godot_parallel.run_folder import REPORT
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.interrupt import Interrupt
from godot_parallel.training.train import resolve_game

_AXES: tuple[Axis, ...] = ("steps", "seconds")


@dataclass(frozen=True)
class ExperimentOptions:
    """Train variants with several seeds each, evaluate every run, and compare the variants in pairs.

    All options of gdrl train are taken too, for all runs. The same command again goes on where it was.
    """

    name: tyro.conf.Positional[str | None] = None
    """Name of the experiment. Its folder is EXPERIMENT_DIR/NAME; run folders in it are VARIANT/seed_N."""
    seeds: str = "0-4"
    """Seeds of every variant: 0-4, or 0,1,7."""
    vary: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """OPTION=VALUE,VALUE,...: makes a variant of each value, of each combination where given several times.
    For example --vary algo=ppo,sac"""
    plan: Path | None = None
    """TOML file with name, seeds, and the tables base and vary (or variants, by name)."""
    jobs: int | Literal["auto"] = "auto"
    """Runs at a time; auto: measured at the start."""
    json: Path | None = None
    """Writes the comparison to this file."""
    train: Annotated[TrainConfig, tyro.conf.arg(name="")] = dataclasses.field(default_factory=TrainConfig)


@dataclass(frozen=True)
class Outcome:
    """How an experiment ended.

    Attributes:
        folder: Of the experiment.
        jobs: All its runs.
        comparison: Of the finished ones; ``None`` if there are none.
        notes: Runs that are not in it, and why.
    """

    folder: Path
    jobs: list[Job]
    comparison: Comparison | None
    notes: tuple[str, ...]


def plan_of(options: ExperimentOptions, value_of: Callable[[str, str], Any]) -> Plan:
    """The plan that the options mean.

    Args:
        options: Of the command line.
        value_of: Reads an option's value (name, text) as the command line does.

    Raises:
        UsageError: They mean none.
    """
    defaults = TrainConfig().as_dict()
    given = {key: value for key, value in options.train.as_dict().items() if value != defaults[key]}
    parent = given.pop("experiment_dir", options.train.experiment_dir)
    for name in OWN:
        if name in given:
            raise UsageError(f"{name}: an experiment sets this itself")
    if "env_path" in given:
        given["env_path"] = given["env_path"].absolute()
    if options.plan:
        plan = read_plan(options.plan, parent)
        if options.vary:
            raise UsageError("give the variants in the plan or by --vary, not both")
        return dataclasses.replace(plan, name=options.name or plan.name, base={**plan.base, **given})
    if not options.name:
        raise UsageError("give the experiment a name: gdrl experiment NAME ..., or a plan by --plan")
    varied = parse_vary(options.vary, value_of)
    return Plan(options.name, given, vary(varied), parse_seeds(options.seeds), parent)


def run(options: ExperimentOptions, reporter: Reporter, value_of: Callable[[str, str], Any]) -> Outcome:
    """Runs what is not done yet, and compares.

    Raises:
        GodotParallelError: A told failure before anything runs; a run that fails is listed in the outcome.
    """
    plan = plan_of(options, value_of)
    runs = plan.runs()
    with Interrupt() as interrupt:
        games = {
            (r.config.env, r.config.env_path): resolve_game(r.config, _Quiet(reporter)) for r in runs
        }  # exported once, before several want it
        if None in games.values():
            raise UsageError("an experiment needs --env_path or --env: a game in the editor is only one")
        jobs = options.jobs
        if jobs == "auto":
            first = runs[0].config
            game = games[first.env, first.env_path]
            waiting = sum(not (r.folder / REPORT).exists() for r in runs)
            jobs = measure_jobs(first, game, waiting, reporter.say) if game and waiting > 1 else 1
        reporter.say(
            f"{len(plan.variants)} variants x {len(plan.seeds)} seeds: {len(runs)} runs, {jobs} at a time, "
            f"in {plan.folder}"
        )
        done = Runner(plan, jobs, reporter).run(interrupt)
    return _outcome(plan, done)


def _outcome(plan: Plan, jobs: Sequence[Job]) -> Outcome:
    failed = tuple(f"FAILED: {job.run}: {job.reason}" for job in jobs if job.status == "failed")
    finished = [job.run.folder for job in jobs if job.status == "done"]
    if not finished:
        return Outcome(plan.folder, list(jobs), None, failed)
    runs = [record for folder in finished for record in load_runs(folder)]
    values, notes = by_variant(runs)
    complete = {name: own for name, own in values.items() if len(own) == len(plan.seeds)}
    left_out = (
        f"{name} has {len(own)} of {len(plan.seeds)} runs so far, and is not compared"
        for name, own in values.items()
        if name not in complete
    )
    comparison = compare(complete) if complete else None
    notes = [*failed, *notes, *left_out]
    if comparison:
        notes += _draw(plan, [run for run in runs if run.variant in complete], comparison)
    return Outcome(plan.folder, list(jobs), comparison, tuple(notes))


def _draw(plan: Plan, runs: Sequence[RunRecord], comparison: Comparison) -> list[str]:
    """Pictures in the experiment's folder, and bands for TensorBoard; tells what can't be drawn."""
    from godot_parallel.analysis import plots
    from godot_parallel.analysis.tensorboard import write_bands

    name, folder, notes = plan.name, plan.folder, []
    curves: dict[str, list[Curve]] = {}
    for run in runs:
        curves.setdefault(run.variant, []).append(Curve.read(run.path))
    works: list[Callable[[], Any]] = [lambda: write_bands(curves, folder)]
    for ending in ("png", "svg"):
        works += [
            partial(plots.bands, curves, folder / f"curves_by_{axis}.{ending}", name, axis) for axis in _AXES
        ]
        works.append(partial(plots.performance_profiles, comparison, folder / f"profiles.{ending}", name))
        if comparison.pairs:
            works.append(
                partial(plots.paired_differences, comparison, folder / f"differences.{ending}", name)
            )
    for work in works:
        try:
            work()
        except UsageError as error:  # curves so short that they have nothing in common
            notes.append(f"not drawn: {error}")
    return list(dict.fromkeys(notes))


class _Quiet:
    """A training's reporter on top of an experiment's."""

    def __init__(self, reporter: Reporter) -> None:
        self.say = reporter.say

    def progress(self, steps: int, total: int, steps_per_s: float, mean_return: float | None) -> None:
        """Nothing."""
