"""How many runs at a time this machine bears: measured, with real trainings."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable
from pathlib import Path

from godot_parallel.cores import available_cores
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.layout import Layout, LayoutSearch
from godot_parallel.training.train import LogReporter

SECONDS = 2.0
_GAIN = 1.1  # one more job must bring a tenth


def measure_jobs(config: TrainConfig, game: Path, most: int, say: Callable[[str], None]) -> int:
    """Runs 1, 2, ... trainings side by side for some seconds, while more of them do more together.

    Args:
        config: One of the trainings.
        game: What they play.
        most: No more than this.
        say: Told each measurement.
    """
    best, best_rate = 1, 0.0
    for jobs in range(1, min(most, available_cores()) + 1):
        rate = sum(_together(config, game, jobs))
        say(f"{jobs} run{'s' if jobs > 1 else ''} at a time: {rate:,.0f} steps/s together")
        if rate < best_rate * _GAIN:
            break
        best, best_rate = jobs, rate
    return best


def _together(config: TrainConfig, game: Path, jobs: int) -> list[float]:
    context = multiprocessing.get_context("spawn")  # a fork of a program with threads may hang
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        return list(pool.map(_rate, [config] * jobs, [game] * jobs))


def _rate(config: TrainConfig, game: Path) -> float:
    n_parallel = config.n_parallel if isinstance(config.n_parallel, int) else 1
    instances = config.instances if isinstance(config.instances, int) else None
    search = LayoutSearch(config, game, LogReporter(), available_cores())
    return search.measure(Layout(n_parallel, instances), SECONDS)
