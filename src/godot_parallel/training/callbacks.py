"""What happens during learning besides learning: measuring, evaluating, saving, telling."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from godot_parallel.envs.batch import Array, Batch
from godot_parallel.run_folder import RunFolder, Table
from godot_parallel.timers import Timer
from godot_parallel.training.evaluate import Evaluation
from godot_parallel.training.models import BEST, save_model

EVALUATION_SHARE = 0.1
_FIRST_GUESS_S = 0.5  # what an evaluation may take, before one was seen


class Reporter(Protocol):
    """Who shows a person how it goes."""

    def progress(self, steps: int, total: int, steps_per_s: float, mean_return: float | None) -> None:
        """Called often; decides itself how often to show."""

    def say(self, text: str) -> None:
        """A line worth reading."""


class CsvWriter(KVWriter):
    """Stable-Baselines3's log as a table; its clock goes on when a run is resumed."""

    def __init__(self, table: Table, started: float) -> None:
        self._table = table
        rows = table.read()
        self._started = started - (float(rows[-1]["wall_s"]) if rows else 0.0)

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        """Adds a row of the plain numbers."""
        row = {k: v for k, v in sorted(key_values.items()) if isinstance(v, int | float | np.number)}
        wall_s = time.perf_counter() - self._started
        self._table.append({"step": step, "wall_s": round(wall_s, 3), **row})

    def close(self) -> None:
        """Nothing is kept open."""


class _WaitParts:
    """Splits the time spent waiting for games into what the games say they did, and the wire.

    Games that simulate while the policy acts for others are not waited for: of such time only the part
    that was waited for is told.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._before = self._now()

    def _now(self) -> Array:
        t, processes = self._batch.engine_times, max(1, len(self._batch.pids))
        busy = np.array([t.physics_s, t.observe_s, t.encode_s]) / processes
        return np.append(busy, self._batch.blocked_s)

    def tell(self, rollout: Timer) -> None:
        """Adds what was waited since the last time."""
        now = self._now()
        *busy, blocked = now - self._before
        self._before = now
        told = sum(busy)
        scale = min(1.0, blocked / told) if told > 0 else 0.0
        for name, seconds in zip(("engine physics", "observe", "encode"), busy, strict=True):
            rollout.child(name).add(seconds * scale)
        rest = "wire" if self._batch.spec.native else "engine and wire"  # other games do not tell
        rollout.child(rest).add(max(0.0, blocked - told * scale))


class Watch(BaseCallback):
    """Times rollouts and updates, logs the throughput, tells how it goes, and ends when asked to."""

    def __init__(
        self,
        batch: Batch,
        folder: RunFolder,
        root: Timer,
        reporter: Reporter,
        total: int,
        should_stop: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._batch, self._root, self._reporter, self._total = batch, root, reporter, total
        self._should_stop = should_stop
        self._table = folder.table("throughput.csv")
        self._started = self._mark = time.perf_counter()
        self._first_step: int | None = None
        self._mark_steps = 0
        self._mark_ticks = 0
        self._rollout_started = 0.0
        self._rollout_ended: float | None = None
        self._last_told = 0.0
        self._parts = _WaitParts(batch)
        self.episodes = np.zeros(batch.n_environments, np.int64)
        self.aside_s = 0.0  # spent in evaluation and saving since the rollout ended

    def _on_training_start(self) -> None:
        self._parts = _WaitParts(self._batch)

    def _on_rollout_start(self) -> None:
        now = time.perf_counter()
        if self._first_step is None:
            self._first_step = self._mark_steps = self.num_timesteps
        if self._rollout_ended is not None:
            self._root.child("update").add(max(0.0, now - self._rollout_ended - self.aside_s))
            self.aside_s = 0.0
        self._rollout_started = now

    def _on_step(self) -> bool:
        for row in np.flatnonzero(self.locals["dones"]):
            self.episodes[self._batch.environment_of[row]] += 1
        now = time.perf_counter()
        if now - self._last_told > 0.1:
            self._last_told = now
            self._reporter.progress(self.num_timesteps, self._total, self._rate(now), self.mean_return())
        return not self._should_stop()

    def _rate(self, now: float) -> float:
        return (self.num_timesteps - (self._first_step or 0)) / max(now - self._started, 1e-9)

    def mean_return(self) -> float | None:
        """Mean return of the last 100 episodes."""
        recent = self.model.ep_info_buffer
        return float(np.mean([episode["r"] for episode in recent])) if recent else None

    def _on_rollout_end(self) -> None:
        now = self._rollout_ended = time.perf_counter()
        rollout = self._root.child("rollout")
        rollout.add(now - self._rollout_started)
        self._parts.tell(rollout)
        if now - self._mark < 1.0 and isinstance(self.model, OffPolicyAlgorithm):
            return  # SAC's rollouts are single steps
        times, span = self._batch.engine_times, now - self._mark
        steps, ticks = self.num_timesteps - self._mark_steps, times.ticks - self._mark_ticks
        row = {
            "throughput/steps_per_s": steps / span,
            "throughput/ticks_per_s": ticks / span,
        }
        if self._batch.spec.native:  # other games do not tell
            row["throughput/engine_share"] = self.engine_share()
        for key, value in row.items():
            self.logger.record(key, value)
        memory = max(self._batch.rss_bytes(), default=0) / 2**20
        plain = {key.split("/")[1]: round(value, 4) for key, value in row.items()}
        self._table.append(
            {
                "step": self.num_timesteps,
                "wall_s": round(now - self._started, 3),
                **plain,
                "rss_mib": round(memory, 1),
                "nodes": times.nodes,
            }
        )
        self._mark, self._mark_steps, self._mark_ticks = now, self.num_timesteps, times.ticks

    def engine_share(self) -> float:
        """Share of the wall clock in which an engine process was busy, 0..1."""
        t = self._batch.engine_times
        busy = t.physics_s + t.observe_s + t.encode_s
        processes = max(1, len(self._batch.pids))
        return busy / processes / max(time.perf_counter() - self._started, 1e-9)

    def _on_training_end(self) -> None:
        if self._rollout_ended is not None and self._rollout_ended > self._rollout_started:
            rest = time.perf_counter() - self._rollout_ended - self.aside_s
            self._root.child("update").add(max(0.0, rest))


class Keeper(BaseCallback):
    """Evaluates between updates, keeps the best model, and writes checkpoints."""

    def __init__(
        self,
        folder: RunFolder,
        root: Timer,
        reporter: Reporter,
        watch: Watch,
        run_evaluation: Callable[[Any], Evaluation],
        eval_freq: int,
        checkpoint_freq: int,
    ) -> None:
        super().__init__()
        self._folder, self._root, self._reporter, self._watch = folder, root, reporter, watch
        self._run_evaluation = run_evaluation
        self._eval_freq, self._checkpoint_freq = eval_freq, checkpoint_freq
        self._table = folder.table("evaluations.csv")
        self._next_eval, self._next_checkpoint = eval_freq, checkpoint_freq
        self._started = time.perf_counter()
        self._eval_s, self._last_eval_s = 0.0, _FIRST_GUESS_S
        self._stretched = False
        state = folder.read_json("best_model.json")
        self.best = float(state["mean"]) if state else -float("inf")

    def _on_training_start(self) -> None:
        done = self.num_timesteps
        self._next_eval = (done // self._eval_freq + 1) * self._eval_freq
        self._next_checkpoint = (done // self._checkpoint_freq + 1) * self._checkpoint_freq

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        started = time.perf_counter()
        if self.num_timesteps >= self._next_eval and self._is_affordable():
            self._next_eval = (self.num_timesteps // self._eval_freq + 1) * self._eval_freq
            self.evaluate()
        if self.num_timesteps >= self._next_checkpoint:
            self._next_checkpoint = (self.num_timesteps // self._checkpoint_freq + 1) * self._checkpoint_freq
            self.save_checkpoint()
        self._watch._rollout_started += time.perf_counter() - started

    def _is_affordable(self) -> bool:
        elapsed = time.perf_counter() - self._started
        affordable = self._eval_s + self._last_eval_s <= EVALUATION_SHARE * (elapsed + self._last_eval_s)
        if not affordable and self._eval_s and not self._stretched:
            self._stretched = True
            self._reporter.say(
                f"an evaluation takes {self._last_eval_s:.1f} s; they come less often than every "
                f"{self._eval_freq} steps, so that they take at most {EVALUATION_SHARE:.0%} of the time"
            )
        return affordable

    @property
    def evaluation_share(self) -> float:
        """Share of the wall clock spent in evaluation."""
        return self._eval_s / max(time.perf_counter() - self._started, 1e-9)

    def evaluate(self) -> Evaluation | None:
        """Evaluates the model now, and keeps it if it is the best so far."""
        started = time.perf_counter()
        with self._root.measure("evaluation"):
            result = self._run_evaluation(self.model)
        self._last_eval_s = time.perf_counter() - started
        self._eval_s += self._last_eval_s
        if not result.returns:
            return None
        self._record(result)
        if result.mean > self.best:
            self.best = result.mean
            save_model(self.model, self._folder, BEST)
            told = {"step": self.num_timesteps, "mean": result.mean, "std": result.std}
            self._folder.write_json("best_model.json", told)
        return result

    def _record(self, result: Evaluation) -> None:
        row = {
            "step": self.num_timesteps,
            "wall_s": round(time.perf_counter() - self._started, 3),
            "mean_return": result.mean,
            "std_return": result.std,
            "mean_length": float(np.mean(result.lengths)),
            "success_rate": "" if result.success_rate is None else result.success_rate,
            "evaluation_s": round(self._last_eval_s, 3),
        }
        self._table.append(row)
        self.logger.record("eval/mean_reward", result.mean)
        self.logger.record("eval/std_reward", result.std)
        self.logger.record("eval/share_of_wall_clock", self.evaluation_share)
        self._reporter.say(
            f"step {self.num_timesteps}: evaluation {result.mean:.1f} ± {result.std:.1f} "
            f"over {len(result.returns)} episodes"
        )

    def save_checkpoint(self) -> None:
        """Writes what --resume needs: the model, and how many episodes each environment has had."""
        with self._root.measure("save"):
            name = f"checkpoints/step_{self.num_timesteps}.zip"
            save_model(self.model, self._folder, name)
            state = {"step": self.num_timesteps, "episodes": self._watch.episodes.tolist()}
            self._folder.write_text("state.json", json.dumps(state) + "\n")
