"""``--n_parallel auto --instances auto``: short trainings in a few layouts, and the best of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from godot_parallel.cores import available_cores
from godot_parallel.envs.batch import Batch
from godot_parallel.envs.sb3_env import GodotSb3VecEnv
from godot_parallel.errors import UsageError
from godot_parallel.fused.ppo import FusedPPO
from godot_parallel.training.callbacks import Reporter
from godot_parallel.training.config import MIN_N_STEPS, ROLLOUT_STEPS, TrainConfig
from godot_parallel.training.models import make_model

MOST_AGENTS = ROLLOUT_STEPS // MIN_N_STEPS
"""More agents than this would make PPO learn later: its rollouts would become longer."""
SECONDS = 1.0
FINAL_SECONDS = 2.0
_FINALISTS = 2
_HALVINGS = 3  # per number of processes: as many instances as may be, half of that, a quarter
_HOPELESS = 0.8  # more processes are not tried once they reach only this share of the best


@dataclass(frozen=True)
class Layout:
    """Processes, and instances in each; ``None`` where the game itself decides."""

    n_parallel: int
    instances: int | None

    def __str__(self) -> str:
        processes = f"{self.n_parallel} process{'es' if self.n_parallel > 1 else ''}"
        if self.instances is None:
            return processes
        return f"{processes} x {self.instances} instance{'s' if self.instances > 1 else ''}"


@dataclass(frozen=True)
class Choice:
    """What was measured, and what was taken.

    Attributes:
        layout: The best.
        cores: Cores that were to be had.
        measured: Steps/s of a training in each layout, update included and evaluation not.
    """

    layout: Layout
    cores: int
    measured: dict[Layout, float]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "n_parallel": self.layout.n_parallel,
            "instances": self.layout.instances,
            "cores": self.cores,
            "measured": [
                {
                    "n_parallel": layout.n_parallel,
                    "instances": layout.instances,
                    "steps_per_s": round(rate, 1),
                }
                for layout, rate in self.measured.items()
            ],
        }


def choose_layout(config: TrainConfig, game: Path | None, reporter: Reporter) -> Choice | None:
    """Measures what ``auto`` may stand for.

    Args:
        config: All options; what is not ``auto`` in it stays.
        game: The game; ``None`` for one in the editor, which is one process.
        reporter: Told each measurement.

    Returns:
        The choice; ``None`` if there is nothing to choose.
    """
    if "auto" not in (config.n_parallel, config.instances):
        return None
    cores = available_cores()
    if game is None:
        reporter.say("auto layout: a game in the editor is one process, with the copies that its scene says")
        return Choice(Layout(1, config.instances if isinstance(config.instances, int) else None), cores, {})
    search = LayoutSearch(config, game, reporter, cores)
    best = search.run()
    reporter.say(f"auto layout: {best} ({search.measured[best]:,.0f} steps/s)")
    return Choice(best, cores, search.measured)


class LayoutSearch:
    """More and more processes, each with fewer and fewer instances; the best once more, for longer.

    Args:
        config: All options; what is not ``auto`` in it stays.
        game: The game.
        reporter: Told each measurement.
        cores: As many processes at most.
    """

    def __init__(self, config: TrainConfig, game: Path, reporter: Reporter, cores: int) -> None:
        self._config, self._game, self._reporter, self._cores = config, game, reporter, cores
        self._agents_each = self._ask_agents_each()
        self.measured: dict[Layout, float] = {}

    def _ask_agents_each(self) -> int | None:
        """Agents in one instance; ``None`` if the number of instances is not ours to choose."""
        if self._config.instances != "auto":
            return None
        try:
            with Batch(self._with(Layout(1, 2)).engine_settings(self._game, None)) as batch:
                return max(1, batch.n_rows // 2)
        except UsageError:  # a scene without Replicator, or a game with another plugin
            self._reporter.say("auto layout: this game decides itself how many instances it holds")
            return None

    def _with(self, layout: Layout) -> TrainConfig:
        return dataclasses.replace(
            self._config, n_parallel=layout.n_parallel, instances=layout.instances, viz=False
        )

    def _processes(self) -> Iterator[int]:
        if isinstance(self._config.n_parallel, int):
            yield self._config.n_parallel
            return
        n = 1
        while n < self._cores:
            yield n
            n *= 2
        yield self._cores

    def _layouts(self, n_parallel: int) -> list[Layout]:
        if self._agents_each is None:
            given = self._config.instances
            return [Layout(n_parallel, given if isinstance(given, int) else None)]
        most = max(1, MOST_AGENTS // n_parallel // self._agents_each)
        counts = dict.fromkeys(max(1, most >> halvings) for halvings in range(_HALVINGS))
        return [Layout(n_parallel, count) for count in counts]

    def run(self) -> Layout:
        """Measures; returns the best."""
        for n_parallel in self._processes():
            rates = [self.measure(layout, SECONDS) for layout in self._layouts(n_parallel)]
            if max(rates) < _HOPELESS * max(self.measured.values()):
                break
        finalists = sorted(self.measured, key=lambda layout: -self.measured[layout])[:_FINALISTS]
        if len(finalists) > 1:
            for layout in finalists:
                self.measure(layout, FINAL_SECONDS)
        return max(finalists, key=lambda layout: self.measured[layout])

    def measure(self, layout: Layout, seconds: float) -> float:
        """Steps/s of a training in this layout, over that many seconds behind its first update."""
        config = self._with(layout)
        with Batch(config.engine_settings(self._game, None)) as batch:
            env = GodotSb3VecEnv(batch)
            # Random actions are no training, and an empty buffer of a million rows costs its zeros.
            few = dataclasses.replace(config, learning_starts=0, buffer_size=min(config.buffer_size, 20_000))
            watch = _Stopwatch(seconds)
            model = make_model(few, env)
            if isinstance(model, FusedPPO):
                model.pipeline = config.pipeline
            model.learn(2**62, callback=watch)
        self.measured[layout] = watch.steps_per_s
        self._reporter.say(f"auto layout: {layout}: {watch.steps_per_s:,.0f} steps/s")
        return watch.steps_per_s


class _Stopwatch(BaseCallback):
    """Lets a training go on for some seconds behind its first update, and measures whole updates."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._rollouts = self._first_step = 0
        self._started = 0.0
        self._ended = False
        self.steps_per_s = 0.0

    def _on_rollout_start(self) -> None:
        self._rollouts += 1
        now = time.perf_counter()
        if self._rollouts <= 2:  # the first rollout and update compile
            self._started, self._first_step = now, self.num_timesteps
        elif now - self._started >= self._seconds:
            self.steps_per_s = (self.num_timesteps - self._first_step) / (now - self._started)
            self._ended = True

    def _on_step(self) -> bool:
        return not self._ended
