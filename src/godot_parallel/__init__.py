"""Train reinforcement-learning agents in Godot games, many environments at once."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Batch": "envs.batch",
    "EngineSettings": "engine.process",
    "GodotParallelError": "errors",
    "GodotSb3VecEnv": "envs.sb3_env",
    "GodotVectorEnv": "envs.vector_env",
    "Plan": "experiments.plan",
    "TrainConfig": "training.config",
    "compare": "analysis.compare",
    "evaluate": "training.evaluate",
    "load_runs": "analysis.runs",
    "plot_curves": "analysis.plots",
    "run_experiment": "experiments.experiment",
    "train": "training.train",
    "train_and_eval": "training.train",
}
__all__ = ["__version__", *_HOMES]  # names of a table


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: torch takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
