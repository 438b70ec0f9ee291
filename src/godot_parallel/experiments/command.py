"""``gdrl experiment``: from its options to a plan, its runs, and their comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from godot_parallel.analysis.compare import Comparison
from godot_parallel.analysis.summary import draw, summarise
from godot_parallel.errors import UsageError
from godot_parallel.experiments.jobs import measure_jobs
from godot_parallel.experiments.plan import OWN, Plan, parse_seeds, parse_vary, read_plan, vary
from godot_parallel.experiments.runner import Job, Reporter, Runner
from godot_parallel.run_folder import REPORT
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.interrupt import Interrupt
from godot_parallel.training.train import resolve_game


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
    summary = summarise(plan.folder)
    notes = [*summary.notes, *draw(summary, plan.folder)]
    return Outcome(plan.folder, done, summary.comparison, tuple(notes))


class _Quiet:
    """A training's reporter on top of an experiment's."""

    def __init__(self, reporter: Reporter) -> None:
        self.say = reporter.say

    def progress(self, steps: int, total: int, steps_per_s: float, mean_return: float | None) -> None:
        """Nothing."""
