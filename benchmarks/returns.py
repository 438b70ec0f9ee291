"""What is learnt: our PPO beside Stable-Baselines3's, and --pipeline beside our own, on the same seeds.

make bench-returns       5 seeds x 500,000 steps x 3, about 25 minutes on 2 cores

Each pair shares its seed: the same first weights and the same episodes. Actions are drawn otherwise, so a
pair's curves are not the same. Returns are means over 20 deterministic episodes that training has not seen.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

from common import Report
from godot_parallel.engine.export import bundled_game
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.evaluate import evaluate
from godot_parallel.training.models import FINAL, load_model
from godot_parallel.training.train import evaluation_env, train

EPISODES = 20
VARIANTS: dict[str, dict[str, object]] = {
    "Stable-Baselines3": {"learner": "sb3"},
    "ours": {},
    "ours, --pipeline": {"pipeline": True},
}


def compare(report: Report, name: str, differences: npt.NDArray[np.float64]) -> None:
    """Mean difference with its 95 % interval (Student's t), and the exact two-sided sign-flip p-value."""
    n = len(differences)
    mean, error = differences.mean(), stats.sem(differences)
    low, high = mean + error * stats.t.ppf([0.025, 0.975], n - 1)
    flips = np.array(list(itertools.product([-1, 1], repeat=n))) @ differences
    p = float(np.mean(np.abs(flips) >= abs(differences.sum()) - 1e-9))
    print(
        f"{name}: {mean:+.1f}, 95 % interval {low:+.1f} to {high:+.1f}; p {p:.3f} "
        f"(it can't be below {2 / 2**n:.3f} with {n} seeds)"
    )
    told = {"differences": differences.tolist(), "mean": mean, "low": low, "high": high, "p": p}
    report.keep(name, told)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--timesteps", type=int, default=500_000)
    parser.add_argument("--instances", type=int, default=16)
    options = parser.parse_args()
    report = Report("returns")
    game = bundled_game("ball_chase", print)
    returns: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        for seed, (number, (name, own)) in itertools.product(
            range(options.seeds), enumerate(VARIANTS.items())
        ):
            config = TrainConfig(
                env_path=game, experiment_dir=Path(folder), experiment_name=f"{number}_seed{seed}", seed=seed,
                timesteps=options.timesteps, instances=options.instances, eval_freq=options.timesteps,
                **own,  # type: ignore[arg-type]
            )  # fmt: skip
            result = train(config)
            with evaluation_env(TrainConfig(env_path=game, instances=4), game, seed=0) as env:
                mean = evaluate(load_model(result.folder / FINAL), env, EPISODES).mean
            returns[name].append(mean)
            print(f"seed {seed}  {name:<20}{mean:>8.1f}{result.steps_per_s:>10,.0f} steps/s", flush=True)
    for name, values in returns.items():
        print(f"{name:<28}{np.mean(values):>8.1f} ± {np.std(values, ddof=1):.1f} across {len(values)} seeds")
        report.keep(name, values)
    ours = np.array(returns["ours"])
    compare(report, "ours - Stable-Baselines3", ours - returns["Stable-Baselines3"])
    compare(report, "--pipeline - without", np.array(returns["ours, --pipeline"]) - ours)


if __name__ == "__main__":
    main()
