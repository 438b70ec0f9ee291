"""BallChase over several seeds: trained agents beside a random policy and a scripted chaser.

make bench-ball-chase            5 seeds x 500,000 steps, about 15 minutes on 2 cores
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from godot_parallel.engine.export import bundled_game
from godot_parallel.run_folder import RunFolder
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.evaluate import Evaluation, Policy, evaluate
from godot_parallel.training.models import FINAL, load_model
from godot_parallel.training.train import evaluation_env, train

EPISODES = 20
RAYS = 16


class Scripted:
    """A policy without learning."""

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Box) -> None:
        self.observation_space = observation_space
        self.action_space = action_space


class Random(Scripted):
    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Box) -> None:
        super().__init__(observation_space, action_space)
        self._rng = np.random.default_rng(0)

    def predict(self, observation: Any, *, deterministic: bool = False) -> tuple[npt.NDArray[Any], None]:
        return self._rng.uniform(-1, 1, (len(observation["obs"]), 2)).astype(np.float32), None


class Chaser(Scripted):
    """Goes straight for the ball, turned away from what is near."""

    def predict(self, observation: Any, *, deterministic: bool = False) -> tuple[npt.NDArray[Any], None]:
        step = 2 * math.pi / RAYS
        angles = step / 2 - math.pi + np.arange(RAYS) * step
        rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        closeness = observation["obs"][:, 5:]
        direction = observation["obs"][:, 2:4] - 1.2 * (closeness**2) @ rays
        length = np.linalg.norm(direction, axis=1, keepdims=True)
        return (direction / np.maximum(length, 1.0)).astype(np.float32), None


def row(name: str, result: Evaluation) -> str:
    balls = np.mean([info["balls"] for info in result.infos])
    walls = np.mean([info["wall_hit"] for info in result.infos])
    return f"{name:<16}{result.mean:>8.1f} ± {result.std:<6.1f}{balls:>8.1f}{walls:>12.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--timesteps", type=int, default=500_000)
    parser.add_argument("--folder", type=Path, default=Path("logs/benchmark"))
    options = parser.parse_args()
    game = bundled_game("ball_chase", print)
    base = TrainConfig(
        env_path=game, experiment_dir=options.folder, timesteps=options.timesteps, instances=8, force=True
    )
    print(f"{'policy':<16}{'return':>8} ± std   balls/episode  ends at wall")
    results: dict[str, Evaluation] = {}
    with evaluation_env(dataclasses.replace(base, instances=4), game, seed=0) as env:
        for name, kind in (("random", Random), ("chaser", Chaser)):
            policy: Policy = kind(env.observation_space, env.action_space)
            results[name] = evaluate(policy, env, EPISODES)
            print(row(name, results[name]), flush=True)
        for seed in range(options.seeds):
            config = dataclasses.replace(base, seed=seed, experiment_name=f"ball_chase_seed{seed}")
            train(config)
            env.seed(0)
            results[f"ppo seed {seed}"] = evaluate(
                load_model(options.folder / config.experiment_name / FINAL), env, EPISODES
            )
            print(row(f"ppo seed {seed}", results[f"ppo seed {seed}"]), flush=True)
    means = [r.mean for name, r in results.items() if name.startswith("ppo")]
    above = sum(mean > 80 for mean in means)
    print(f"across seeds: {np.mean(means):.1f} ± {np.std(means):.1f}; {above} of {len(means)} above 80")
    RunFolder(options.folder).write_json("ball_chase.json", {k: r.as_dict() for k, r in results.items()})


if __name__ == "__main__":
    main()
