"""The compiled learners against Stable-Baselines3's own, on the same samples, in turns.

make bench-learner       about two minutes

PPO: 21 observations, 2 continuous actions, networks 64 x 64, 10 epochs over 2,048 samples. SAC: networks
256 x 256, batches of 256. Both sides get one torch thread, as in training, and Stable-Baselines3 also two.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import Env, spaces
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from common import Report
from godot_parallel.fused.ppo import FusedPPO
from godot_parallel.fused.sac import FusedSAC

OBSERVATIONS, ACTIONS, ENVIRONMENTS, STEPS = 21, 2, 16, 128
SAC_STEPS = 256
TARGETS = {64: "15", 512: "-", 2048: "1.5"}
SAC_TARGET = "5"


class Noise(Env[Any, Any]):
    """Random observations and rewards: a learner's work does not depend on them."""

    observation_space = spaces.Dict({"obs": spaces.Box(-1, 1, (OBSERVATIONS,), np.float32)})
    action_space = spaces.Box(-1, 1, (ACTIONS,), np.float32)

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def _observe(self) -> dict[str, Any]:
        return {"obs": self._rng.uniform(-1, 1, OBSERVATIONS).astype(np.float32)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._observe(), float(self._rng.normal()), False, False, {}


def make(kind: type[BaseAlgorithm], **options: Any) -> Any:
    env = DummyVecEnv([lambda i=i: Noise(i) for i in range(ENVIRONMENTS)])  # type: ignore[misc]
    model = kind("MultiInputPolicy", env, seed=0, device="cpu", **options)  # type: ignore[call-arg]
    model.set_logger(Logger(None, []))
    return model


def ppo(kind: type[PPO], batch_size: int) -> Any:
    """A model that has collected its first rollout, and updated with it once."""
    model = make(kind, n_steps=STEPS, batch_size=batch_size)
    model.learn(ENVIRONMENTS * STEPS)
    return model


def sac(kind: type[SAC]) -> Any:
    """A model with some samples in its buffer."""
    model = make(kind, batch_size=256, buffer_size=10_000, learning_starts=2_000)
    model.learn(2_000)
    return model


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compare(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, taken in turns so that all meet the same weather; the first turn is warm-up."""
    turns = [{name: seconds(work) for name, work in works.items()} for _ in range(repeats + 1)]
    return {name: statistics.median(turn[name] for turn in turns[1:]) for name in works}


def with_threads(threads: int, work: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        torch.set_num_threads(threads)
        work()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("learner")
    samples = ENVIRONMENTS * STEPS  # each is seen ten times
    for batch_size, target in TARGETS.items():
        ours, theirs = ppo(FusedPPO, batch_size), ppo(PPO, batch_size)
        times = compare(
            {
                "ours": with_threads(1, ours.train),
                "Stable-Baselines3": with_threads(1, theirs.train),
                "Stable-Baselines3, 2 threads": with_threads(2, theirs.train),
            },
            options.repeats,
        )
        for name, s in times.items():
            report.tell(f"PPO update, minibatch {batch_size}, {name}", samples / s, "samples/s")
        best = min(times["Stable-Baselines3"], times["Stable-Baselines3, 2 threads"])
        report.ratio(f"PPO, minibatch {batch_size}", best / times["ours"], target)
    ours, theirs = sac(FusedSAC), sac(SAC)
    times = compare(
        {
            "ours": with_threads(1, lambda: ours.train(SAC_STEPS, 256)),
            "Stable-Baselines3": with_threads(1, lambda: theirs.train(SAC_STEPS, 256)),
            "Stable-Baselines3, 2 threads": with_threads(2, lambda: theirs.train(SAC_STEPS, 256)),
        },
        options.repeats,
    )
    for name, s in times.items():
        report.tell(f"SAC, {name}", SAC_STEPS / s, "gradient steps/s")
    report.ratio("SAC, against one thread", times["Stable-Baselines3"] / times["ours"], SAC_TARGET)
    report.ratio("SAC, against two", times["Stable-Baselines3, 2 threads"] / times["ours"], SAC_TARGET)
    a = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32)
    product = statistics.median(seconds(lambda: a @ a) for _ in range(200))
    report.tell("SAC: one product of 256 x 256 matrices (NumPy)", product * 1e6, "us")
    report.tell(
        "SAC: the 16 products of a gradient step, nothing else", 1 / (16 * product), "gradient steps/s"
    )


if __name__ == "__main__":
    main()
