"""The evaluation protocol of a finished run: 20 deterministic episodes that training has never seen."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from godot_parallel.run_folder import REPORT, RunFolder
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.evaluate import evaluate
from godot_parallel.training.models import BEST, FINAL, load_model
from godot_parallel.training.train import EVALUATION_INSTANCES, REPORT_EPISODES, evaluation_env

SEED = 0
"""The same episodes for all runs, whatever their seed."""


def write_report(folder: Path, config: TrainConfig, game: Path) -> dict[str, Any]:
    """Evaluates a run's final and best model, and keeps it as ``report.json`` in the run folder.

    Args:
        folder: The run folder.
        config: Of the run.
        game: To play.

    Returns:
        ``episodes``, ``seed``, and ``final`` and ``best`` as :meth:`Evaluation.as_dict` gives them.
    """
    few = None if config.instances is None else min(EVALUATION_INSTANCES, REPORT_EPISODES)
    one = dataclasses.replace(config, n_parallel=1, instances=few, viz=False)
    told: dict[str, Any] = {"episodes": REPORT_EPISODES, "seed": SEED}
    with evaluation_env(one, game, SEED) as env:
        for name, file in (("final", FINAL), ("best", BEST)):
            env.seed(SEED)
            model = load_model(folder / file, config.algo, device=config.device)
            told[name] = evaluate(model, env, REPORT_EPISODES).as_dict()
    RunFolder(folder).write_json(REPORT, told)
    return told
