"""Raw throughput of a game in a layout: random actions, no learner."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from godot_parallel.engine.process import EngineSettings
from godot_parallel.envs.actions import ActionFace
from godot_parallel.envs.batch import Batch
from godot_parallel.errors import UsageError

_CHUNK = 16


@dataclass(frozen=True)
class Throughput:
    """Rates of one layout: medians over the repeats.

    Attributes:
        n_parallel: Processes.
        instances: Copies in each process.
        agents: Rows in all.
        action_repeat: Ticks per step; ``None`` if the game does not tell.
        vector_steps_per_s: Steps of the whole batch per second.
        steps_per_s: Agent steps per second.
        steps_per_s_spread: Half of the range of steps_per_s over the repeats.
        ticks_per_s: Physics ticks per second, all processes together.
        engine_share: Share of the time that an engine process computes; the rest is waiting. ``None`` if
            the game does not tell (it has the old plugin).
        startup_s: Seconds until all processes had answered.
        rss_mib: Resident memory of each process.
    """

    n_parallel: int
    instances: int
    agents: int
    action_repeat: int | None
    vector_steps_per_s: float
    steps_per_s: float
    steps_per_s_spread: float
    ticks_per_s: float
    engine_share: float | None
    startup_s: float
    rss_mib: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the attributes by name."""
        return dict(self.__dict__) | {"rss_mib": list(self.rss_mib)}


def measure(settings: EngineSettings, seconds: float = 2.0, repeats: int = 3) -> Throughput:
    """Measures one layout, after a warm-up.

    Args:
        settings: What to run.
        seconds: Length of one repeat.
        repeats: How many.

    Raises:
        UsageError: ``seconds`` or ``repeats`` is too small.
    """
    if not seconds > 0 or repeats < 1:
        raise UsageError(f"expected seconds above 0 and repeats of at least 1, found {seconds} and {repeats}")
    with Batch(settings) as batch:
        face = ActionFace(batch.spec.actions)
        rng = np.random.default_rng(0)
        actions = [face.split(face.sample(rng, batch.n_rows)) for _ in range(64)]
        batch.reset()
        _run(batch, actions, min(0.5, seconds / 4))
        rates = [_run(batch, actions, seconds) for _ in range(repeats)]
        vector, ticks, share = (np.array(column) for column in zip(*rates, strict=True))
        steps = vector * batch.n_rows
        processes = max(1, len(batch.pids))
        return Throughput(
            n_parallel=processes,
            instances=batch.n_environments // processes,
            agents=batch.n_rows,
            action_repeat=batch.spec.action_repeat,
            vector_steps_per_s=float(np.median(vector)),
            steps_per_s=float(np.median(steps)),
            steps_per_s_spread=float(np.ptp(steps) / 2),
            ticks_per_s=float(np.median(ticks)),
            engine_share=float(np.median(share)) if batch.spec.native else None,
            startup_s=batch.startup_s,
            rss_mib=tuple(round(n / 2**20, 1) for n in batch.rss_bytes()),
        )


def _run(batch: Batch, actions: list[dict[str, Any]], seconds: float) -> tuple[float, float, float]:
    """Vector steps/s, ticks/s and engine share of one stretch."""
    times = batch.engine_times
    before, ticks, count = _busy_s(batch), times.ticks, 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        for _ in range(_CHUNK):
            batch.send(actions[count % len(actions)])
            batch.receive()
            count += 1
    span = time.perf_counter() - started
    share = (_busy_s(batch) - before) / span / max(1, len(batch.pids))
    return count / span, (times.ticks - ticks) / span, share


def _busy_s(batch: Batch) -> float:
    times = batch.engine_times
    return times.physics_s + times.observe_s + times.encode_s
