"""All options of a training: command line, config file and documentation in one dataclass."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from godot_parallel.engine.process import EngineSettings
from godot_parallel.engine.seeding import Purpose, spawn_seed
from godot_parallel.errors import UsageError

ROLLOUT_STEPS = 2048
MIN_N_STEPS = 32


@dataclass(frozen=True)
class TrainConfig:
    """Train an agent in a Godot game.

    Give the game by --env_path (an exported game, or a project folder), or by --env (a game that comes
    with gdrl). With neither, the training waits for a game that you start in the Godot editor.
    """

    env_path: Path | None = None
    """Exported game (./BallChase.x86_64), or a Godot project folder, which needs no export."""
    env: str | None = None
    """Bundled game by name: ball_chase. It is exported into the cache when it is first used."""
    experiment_name: str = "experiment"
    """Name of the run; its folder is EXPERIMENT_DIR/EXPERIMENT_NAME."""
    experiment_dir: Path = Path("logs/sb3")
    """Folder that the runs' folders lie in. TensorBoard: tensorboard --logdir=logs"""
    timesteps: int = 1_000_000
    """Agent steps to train for, all environments together."""
    n_parallel: int | Literal["auto"] = 1
    """Godot processes. Uses several cores; environments = n_parallel x instances. auto: measures a few
    numbers for some seconds and takes the fastest."""
    instances: int | Literal["auto"] | None = None
    """Copies of the environment inside each process; as the scene says if not given. auto: as above."""
    isolation: Literal["world", "grid"] | None = None
    """Copies in physics worlds of their own (world), or spaced out in one world (grid)."""
    action_repeat: int | None = None
    """Physics ticks that an action is held; as the scene says if not given."""
    speedup: float = 1.0
    """Pace where somebody watches (--viz), as a multiple of real time. Without a window a game always
    runs as fast as it can."""
    seed: int = 0
    """Seed of everything random: policy, environments, resets."""
    viz: bool = False
    """Shows the games in windows, at the pace of --speedup."""
    algo: Literal["ppo", "sac"] = "ppo"
    """Learning algorithm of Stable-Baselines3."""
    learner: Literal["fused", "sb3"] = "fused"
    """Who computes: compiled code with the same numbers (fused), or Stable-Baselines3 itself (sb3)."""
    pipeline: bool = False
    """PPO: learns from one rollout while the next is played, by a policy that is one update old. Faster
    where a core would be idle; the results are other ones."""
    device: str = "cpu"
    """Where the network lives: cpu is fastest for small networks; cuda pays for images."""
    threads: int = 1
    """Threads of the learner (torch). The games need the other cores."""
    learning_rate: float = 3e-4
    """Step size of the optimizer."""
    lr_schedule: Literal["constant", "linear"] = "constant"
    """constant, or linear: falls to 0 at the last step."""
    batch_size: int = 64
    """Samples in one gradient step (a minibatch)."""
    n_steps: int | None = None
    """PPO: steps per environment between updates; max(32, 2048 // environments) if not given."""
    n_epochs: int = 10
    """PPO: passes over the collected steps in one update."""
    gamma: float = 0.99
    """Discount of later rewards."""
    gae_lambda: float = 0.95
    """PPO: bias against variance of the advantage estimate."""
    clip_range: float = 0.2
    """PPO: how far an update may move the policy."""
    ent_coef: float | None = None
    """Weight of the entropy bonus; if not given 0 for PPO, and found by itself for SAC."""
    vf_coef: float = 0.5
    """PPO: weight of the value loss."""
    max_grad_norm: float = 0.5
    """PPO: gradients are cut to this length."""
    target_kl: float | None = None
    """PPO: an update stops early when the policy has moved this far."""
    net_arch: tuple[int, ...] | None = None
    """Sizes of the hidden layers, for example --net_arch 64 64; the algorithm's own if not given."""
    buffer_size: int = 1_000_000
    """SAC: transitions in the replay buffer."""
    learning_starts: int = 1_000
    """SAC: random steps before learning."""
    train_freq: int = 1
    """SAC: steps per environment between updates."""
    gradient_steps: int = 1
    """SAC: gradient steps in an update; -1: as many as steps were collected."""
    tau: float = 0.005
    """SAC: how fast the target networks follow."""
    eval_freq: int | None = None
    """Agent steps between evaluations; a twentieth of --timesteps if not given. Stretched so that
    evaluation takes at most a tenth of the time; there is always one at the end."""
    eval_episodes: int = 10
    """Deterministic episodes in an evaluation during training."""
    checkpoint_freq: int = 100_000
    """Agent steps between checkpoints, from which --resume goes on."""
    resume: bool = False
    """Goes on with the run of this name where it was."""
    force: bool = False
    """Replaces the run of this name."""
    start_timeout: float = 60.0
    """Seconds until a game must have started and connected."""
    step_timeout: float = 60.0
    """Seconds that one step of a game may take."""
    editor_port: int = 11008
    """Port for a game that is started in the Godot editor."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None or (value == "auto" and name in ("n_parallel", "instances")):
                continue
            if isinstance(value, str) or not value >= least:
                raise UsageError(f"{name}: expected at least {least}, found {value!r}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"learning_rate: expected a number above 0, found {self.learning_rate}")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}: expected a number from 0 to 1, found {getattr(self, name)}")
        if self.gradient_steps < 1 and self.gradient_steps != -1:
            raise UsageError(f"gradient_steps: expected at least 1, or -1, found {self.gradient_steps}")
        if self.pipeline and (self.algo, self.learner) != ("ppo", "fused"):
            raise UsageError(
                f"pipeline: needs --algo ppo and --learner fused, found {self.algo} and {self.learner}"
            )
        if self.env_path is not None and self.env is not None:
            raise UsageError("give the game by --env_path or by --env, not by both")
        if self.env is None:
            self.engine_settings(self.env_path, None)  # checks n_parallel, instances, ... at once

    def engine_settings(
        self, game: Path | None, log_dir: Path | None, purpose: Purpose = "train"
    ) -> EngineSettings:
        """How to start the games of this run."""
        return EngineSettings(
            env_path=game,
            n_parallel=1 if self.n_parallel == "auto" else self.n_parallel,
            instances=None if self.instances == "auto" else self.instances,
            isolation=self.isolation,
            action_repeat=self.action_repeat,
            speedup=self.speedup,
            show_window=self.viz,
            trainer_threads=2 if self.pipeline else 1,
            seed=spawn_seed(self.seed, purpose),
            log_dir=log_dir,
            start_timeout=self.start_timeout,
            step_timeout=self.step_timeout,
            editor_port=self.editor_port,
        )

    def rollout_length(self, n_rows: int) -> int:
        """PPO's ``n_steps`` for this many agents.

        Raises:
            UsageError: The last minibatch would hold a single sample, which can't be normalised.
        """
        n_steps = self.n_steps if self.n_steps is not None else max(MIN_N_STEPS, ROLLOUT_STEPS // n_rows)
        if (n_steps * n_rows) % self.batch_size == 1:
            raise UsageError(
                f"n_steps {n_steps} x {n_rows} agents leaves a minibatch of one sample with --batch_size "
                f"{self.batch_size}; choose a batch_size that divides {n_steps * n_rows}"
            )
        return n_steps

    def as_dict(self) -> dict[str, Any]:
        """All options by name."""
        return dataclasses.asdict(self)

    @classmethod
    def from_mapping(cls, values: dict[str, Any], where: str) -> TrainConfig:
        """Makes a config from a file's content.

        Raises:
            UsageError: It names unknown options.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UsageError(f"{where}: unknown option {unknown[0]!r}; the names are those of gdrl --help")
        told = dict(values)
        for name in ("env_path", "experiment_dir"):
            if name in told:
                told[name] = Path(told[name])
        if "net_arch" in told:
            told["net_arch"] = tuple(told["net_arch"])
        return cls(**told)


_LEAST = {
    "timesteps": 1,
    "n_parallel": 1,
    "instances": 1,
    "action_repeat": 1,
    "seed": 0,
    "batch_size": 2,
    "n_steps": 2,
    "n_epochs": 1,
    "threads": 1,
    "buffer_size": 1,
    "learning_starts": 0,
    "train_freq": 1,
    "eval_freq": 1,
    "eval_episodes": 1,
    "checkpoint_freq": 1,
}
