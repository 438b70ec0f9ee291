import json

import pytest
import tomli_w


@pytest.fixture
def make_run():
    """Writes a run folder as a training leaves it, with a report unless ``returns`` is None."""

    def make(folder, seed=0, returns=(10.0, 20.0), spaces=None, **config):
        folder.mkdir(parents=True)
        options = {"env": "ball_chase", "timesteps": 100, "seed": seed, **config}
        (folder / "config.toml").write_text(tomli_w.dumps(options))
        (folder / "spaces.json").write_text(json.dumps({"action_repeat": 8} | (spaces or {})))
        (folder / "command.txt").write_text("gdrl train <x>\n")
        (folder / "versions.json").write_text(json.dumps({"godot": "4.6"}))
        lines = ["step,wall_s,rollout/ep_rew_mean"]
        lines += [f"{step},{step / 10},{step + seed}" for step in (10, 50, 100)]
        (folder / "progress.csv").write_text("\n".join(lines) + "\n")
        if returns is not None:
            told = {"mean": sum(returns) / len(returns), "returns": list(returns)}
            (folder / "report.json").write_text(json.dumps({"episodes": 2, "final": told, "best": told}))
        return folder

    return make


@pytest.fixture
def make_experiment(make_run, tmp_path):
    """Writes an experiment's folder: ``make_experiment({"a": {0: (1.0,), 1: None}})``."""

    def make(variants, name="e", seeds=None, status=(), **config):
        folder = tmp_path / name
        seeds = seeds or sorted({seed for runs in variants.values() for seed in runs})
        for variant, runs in variants.items():
            for seed, returns in runs.items():
                make_run(folder / variant / f"seed_{seed}", seed, returns, **config)
        plan = {"name": name, "seeds": seeds, "base": {}, "variants": {variant: {} for variant in variants}}
        (folder / "experiment.toml").write_text(tomli_w.dumps(plan))
        (folder / "status.json").write_text(json.dumps(list(status)))
        return folder

    return make
