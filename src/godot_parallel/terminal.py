"""Progress on the terminal: a bar where there is one, else a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from godot_parallel.experiments.runner import Job

_LINE_INTERVAL_S = 10.0


class ExperimentTable:
    """Shows all runs of an experiment in one table that lives. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> ExperimentTable:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """Prints a line above the table."""
        (self._live.console if self._live else self._console).print(text)

    def show(self, jobs: Sequence[Job]) -> None:
        """Draws the table; without a terminal prints a line every few seconds."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False)
                self._live.start()
            self._live.update(_table(jobs), refresh=True)
        elif time.monotonic() - self._last_line > _LINE_INTERVAL_S:
            self._last_line = time.monotonic()
            done = sum(job.is_over for job in jobs)
            running = ", ".join(
                f"{job.run} {job.steps / job.run.config.timesteps:.0%}"
                for job in jobs
                if job.status == "running"
            )
            self._console.print(f"{done} of {len(jobs)} runs are over; running: {running}")


def _table(jobs: Sequence[Job]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("variant", "seed", "", "steps", "steps/s", "return"):
        table.add_column(name, justify="left" if name in ("variant", "") else "right")
    for job in jobs:
        told = job.mean_return if job.result is None else job.result
        rate = f"{job.steps_per_s:,.0f}" if job.status == "running" else ""
        steps = f"{job.steps:,}" if job.steps else ""
        table.add_row(
            job.run.variant, str(job.run.seed), job.status, steps, rate, "" if told is None else f"{told:.1f}"
        )
    return table


class TerminalReporter:
    """Shows how a training goes. Use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> TerminalReporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress:
            self._progress.stop()

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        (self._progress.console if self._progress else self._console).print(text)

    def progress(self, steps: int, total: int, steps_per_s: float, mean_return: float | None) -> None:
        """Moves the bar."""
        told = "-" if mean_return is None else f"{mean_return:.1f}"
        text = f"{steps_per_s:,.0f} steps/s  ep_rew_mean {told}"
        if self._console.is_terminal:
            self._move(steps, total, text)
        elif time.monotonic() - self._last_line > _LINE_INTERVAL_S:
            self._last_line = time.monotonic()
            left = (total - steps) / max(steps_per_s, 1e-9)
            self._console.print(f"{steps:,} of {total:,} steps  {text}  {left:.0f} s left")

    def _move(self, steps: int, total: int, text: str) -> None:
        if self._progress is None:
            columns = (BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f}"))
            told = TextColumn("{task.description}")
            self._progress = Progress(*columns, told, TimeRemainingColumn(), console=self._console)
            self._progress.start()
            self._task = self._progress.add_task(text, total=total)
        if self._task is not None:
            self._progress.update(self._task, completed=steps, description=text)
