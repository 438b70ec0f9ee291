"""What experiments cost besides their runs: reading, comparing, drawing.

make bench-experiments       about a minute
"""

from __future__ import annotations

import csv
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tomli_w

from common import Report
from godot_parallel.analysis.compare import compare
from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.page import write_page
from godot_parallel.analysis.runs import by_variant, load_runs
from godot_parallel.analysis.summary import summarise

STEPS, ROLLOUT = 500_000, 2_048


def make_experiment(folder: Path, variants: int, seeds: int) -> None:
    """Folders as trainings of 500,000 steps leave them, as far as they are read."""
    rng = np.random.default_rng(0)
    for variant in range(variants):
        for seed in range(seeds):
            run = folder / f"variant_{variant}" / f"seed_{seed}"
            run.mkdir(parents=True)
            config = {"env": "ball_chase", "timesteps": STEPS, "seed": seed}
            (run / "config.toml").write_text(tomli_w.dumps(config))
            (run / "spaces.json").write_text(json.dumps({"action_repeat": 8}))
            with (run / "progress.csv").open("w", newline="") as file:
                table = csv.writer(file)
                table.writerow(["step", "wall_s", "rollout/ep_rew_mean", *(f"train/{i}" for i in range(10))])
                returns = 100 * np.linspace(0, 1, STEPS // ROLLOUT) + rng.normal(0, 5, STEPS // ROLLOUT)
                for i, value in enumerate(returns):
                    table.writerow([i * ROLLOUT, i / 10, value, *rng.random(10)])
            told = {"mean": float(rng.normal(100 + variant, 10)), "returns": rng.normal(size=20).tolist()}
            (run / "report.json").write_text(json.dumps({"episodes": 20, "final": told, "best": told}))
    plan = {"name": folder.name, "seeds": list(range(seeds)), "base": {}}
    plan["variants"] = {f"variant_{i}": {} for i in range(variants)}
    (folder / "experiment.toml").write_text(tomli_w.dumps(plan))


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    report = Report("experiments")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for variants, seeds in ((10, 10), (20, 50)):
            own = folder / f"load_{variants}"
            make_experiment(own, variants, seeds)

            def load(own: Path = own) -> None:
                runs = load_runs(own)
                values, _ = by_variant(runs)
                curves = [Curve.read(run.path) for run in runs]
                compare({name: values[name] for name in list(values)[:2]})
                del curves

            report.tell(
                f"load and compare {variants * seeds} runs (target for 1,000: 20)", seconds(load), "s"
            )
        report.tell(
            "memory after it (target 1,024)", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB"
        )
        rng = np.random.default_rng(0)
        many = {f"v{i}": {seed: float(rng.normal()) for seed in range(50)} for i in range(10)}
        report.tell(
            "compare 10 variants x 50 seeds, 50,000 resamples (target 5)", seconds(lambda: compare(many)), "s"
        )
        page = folder / "page"
        make_experiment(page, 20, 10)
        took = seconds(lambda: write_page(summarise(page), folder / "report.html"))
        report.tell("page of 20 variants x 10 seeds (target 30)", took, "s")
        report.tell("its size (target 5)", (folder / "report.html").stat().st_size / 2**20, "MiB")


if __name__ == "__main__":
    main()
