"""Progress on the terminal: a bar where there is one, else a line every few seconds."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

_LINE_INTERVAL_S = 10.0


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
