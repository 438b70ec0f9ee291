"""``gdrl eval``: which model, which game, which episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from godot_parallel.engine.export import bundled_game
from godot_parallel.errors import UsageError
from godot_parallel.run_folder import RunFolder
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.evaluate import Evaluation, evaluate
from godot_parallel.training.models import find_model, load_model
from godot_parallel.training.train import evaluation_env


class Options(Protocol):
    """What the command line gives."""

    @property
    def model(self) -> Path:
        """Run folder or zip file."""

    @property
    def env_path(self) -> Path | None:
        """The game, if not the run's."""

    @property
    def env(self) -> str | None:
        """A bundled game, if not the run's."""

    @property
    def episodes(self) -> int:
        """How many episodes."""

    @property
    def seed(self) -> int:
        """Which episodes."""

    @property
    def instances(self) -> int | None:
        """Copies, if not the run's."""

    @property
    def show_window(self) -> bool:
        """Whether to show the game."""

    @property
    def speedup(self) -> float:
        """Pace in the window."""


def run(options: Options) -> Evaluation:
    """Evaluates a model on the episodes of the report.

    Raises:
        UsageError: No game is known, or the model does not fit it.
        RunFolderError: The folder is no run.
    """
    path, folder = find_model(options.model)
    config = _config(options, folder)
    game = bundled_game(config.env) if config.env else config.env_path
    if game is None:
        raise UsageError("which game? give --env_path or --env")
    model = load_model(path, config.algo if folder else None)
    with evaluation_env(config, game, options.seed) as env:
        return evaluate(model, env, options.episodes)


def _config(options: Options, folder: RunFolder | None) -> TrainConfig:
    values = folder.config() if folder else {}
    if options.env_path or options.env:
        values.pop("env", None)
        values.pop("env_path", None)
        values |= {"env_path": options.env_path} if options.env_path else {"env": options.env}
    instances = options.instances or (1 if options.show_window and "instances" in values else None)
    if instances is not None:
        values["instances"] = instances
    values |= {"n_parallel": 1, "viz": options.show_window, "speedup": options.speedup}
    return TrainConfig.from_mapping(values, str(folder.path) if folder else "command line")
