"""A whole experiment, as the command line and a notebook call it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from godot_parallel.analysis.compare import Comparison
from godot_parallel.analysis.summary import draw, summarise
from godot_parallel.errors import UsageError
from godot_parallel.experiments.jobs import measure_jobs
from godot_parallel.experiments.plan import Plan, Run
from godot_parallel.experiments.runner import Job, Reporter, Runner
from godot_parallel.run_folder import REPORT
from godot_parallel.training.interrupt import Interrupt
from godot_parallel.training.train import resolve_game

logger = logging.getLogger(__name__)


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


class LogReporter:
    """Tells by ``logging``; for callers without a terminal."""

    def say(self, text: str) -> None:
        """Logs the line."""
        logger.info("%s", text)

    def show(self, jobs: list[Job]) -> None:
        """Says nothing."""


def run_experiment(
    plan: Plan, jobs: int | Literal["auto"] = "auto", reporter: Reporter | None = None
) -> Outcome:
    """Runs what is not done yet, compares, and draws into the experiment's folder.

    Args:
        plan: What to run.
        jobs: Runs at a time; ``auto``: measured.
        reporter: Who is told how it goes.

    Raises:
        GodotParallelError: A told failure before anything runs; a run that fails is listed in the outcome.
    """
    reporter = reporter or LogReporter()
    runs = plan.runs()
    with Interrupt() as interrupt:
        games = _games(runs, reporter)
        if jobs == "auto":
            waiting = [run for run in runs if not (run.folder / REPORT).exists()]
            jobs = 1
            if len(waiting) > 1:
                first = waiting[0].config
                jobs = measure_jobs(first, games[first.env, first.env_path], len(waiting), reporter.say)
        reporter.say(
            f"{len(plan.variants)} variants x {len(plan.seeds)} seeds: {len(runs)} runs, {jobs} at a time, "
            f"in {plan.folder}"
        )
        done = Runner(plan, jobs, reporter).run(interrupt)
    summary = summarise(plan.folder)
    notes = (*summary.notes, *draw(summary, plan.folder))
    return Outcome(plan.folder, done, summary.comparison, notes)


def _games(runs: list[Run], reporter: Reporter) -> dict[tuple[str | None, Path | None], Path]:
    """The games of all runs: a bundled one is exported once, before several runs want it."""
    games = {}
    for config in (run.config for run in runs):
        key = (config.env, config.env_path)
        if key not in games:
            game = resolve_game(config, _Quiet(reporter))
            if game is None:
                raise UsageError("an experiment needs --env_path or --env: a game in the editor is only one")
            games[key] = game
    return games


class _Quiet:
    """A training's reporter on top of an experiment's."""

    def __init__(self, reporter: Reporter) -> None:
        self.say = reporter.say

    def progress(self, steps: int, total: int, steps_per_s: float, mean_return: float | None) -> None:
        """Nothing."""
