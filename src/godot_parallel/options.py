"""Options of the commands besides training: each class is its command's flags and help text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class EvalOptions:
    """Play deterministic episodes with a trained model: returns, their mean and standard deviation.

    The episodes are those of the report: training and the choice of the best model never see them.
    """

    model: tyro.conf.Positional[Path]
    """Run folder (its best model is taken), or a Stable-Baselines3 zip file."""
    env_path: Path | None = None
    """Exported game or project folder; as in the run if not given."""
    env: str | None = None
    """Bundled game by name; as in the run if not given."""
    episodes: int = 20
    """How many episodes, spread evenly over the copies."""
    seed: int = 0
    """Which episodes."""
    instances: int | None = None
    """Copies of the environment; as in the run if not given (1 with --show_window)."""
    show_window: bool = False
    """Shows the game."""
    speedup: float = 1.0
    """Pace in the window, as a multiple of real time."""
    json: Path | None = None
    """Writes episodes, mean, std, returns, lengths, success_rate, infos to this file."""


@dataclass(frozen=True)
class BenchOptions:
    """Measure how fast a game steps with random actions and no learner."""

    env_path: Path | None = None
    """Exported game or project folder."""
    env: str | None = None
    """Bundled game by name."""
    n_parallel: int = 1
    """Godot processes."""
    instances: int | None = None
    """Copies of the environment inside each process."""
    isolation: Literal["world", "grid"] | None = None
    """Copies in worlds of their own, or spaced out in one world."""
    action_repeat: int | None = None
    """Physics ticks per step."""
    seconds: float = 2.0
    """Length of one repeat."""
    repeats: int = 3
    """Repeats; medians are shown."""
    json: Path | None = None
    """Writes vector_steps_per_s, steps_per_s, ticks_per_s, engine_share, startup_s, rss_mib ... there."""


@dataclass(frozen=True)
class ExportOptions:
    """Export a Godot project as a program, headless, and check that it starts."""

    project: tyro.conf.Positional[Path]
    """Folder with project.godot and export_presets.cfg."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """The program to make, for example ./MyGame.x86_64"""
    preset: str | None = None
    """Export preset; may be left out if there is only one."""


@dataclass(frozen=True)
class GodotOptions:
    """Show or install the Godot that is used: $GODOT, PATH, our private copy, Debian's, the release."""

    action: tyro.conf.Positional[Literal["path", "install", "version"]] = "version"
    """path, install, or version."""


@dataclass(frozen=True)
class CompareOptions:
    """Compare variants of an experiment, or of several, that were trained with the same seeds."""

    paths: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of experiments, of variants, or of single runs."""
    model: Literal["final", "best"] = "final"
    """Which model's 20 episodes count: the last one, or the one that was best during training."""
    threshold: float | None = None
    """Also tells the steps and seconds until the training return reached this."""
    allow_unpaired: bool = False
    """Compares variants of different seeds all the same, and says so."""
    json: Path | None = None
    """Writes everything to this file."""


@dataclass(frozen=True)
class ReportOptions:
    """Write an experiment as one page: tables, pictures, method, options, versions. It works offline."""

    experiment: tyro.conf.Positional[Path]
    """The experiment's folder, as logs/sb3/NAME."""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """File to write."""
    model: Literal["final", "best"] = "final"
    """Which model's 20 episodes count: the last one, or the one that was best during training."""


@dataclass(frozen=True)
class DemoOptions:
    """BallChase at 1, 4 and 8 environments: throughput, training, evaluation, picture. About 4 minutes."""
