"""One training run, from a config to a run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import io
import logging
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat

from godot_parallel.engine.export import bundled_game
from godot_parallel.engine.process import game_command
from godot_parallel.engine.seeding import spawn_seed
from godot_parallel.envs.batch import Batch
from godot_parallel.envs.sb3_env import GodotSb3VecEnv
from godot_parallel.errors import DivergedError, RunFolderError, UsageError
from godot_parallel.fused.ppo import FusedPPO
from godot_parallel.fused.sac import FusedSAC
from godot_parallel.run_folder import RunFolder
from godot_parallel.timers import Timer
from godot_parallel.training.callbacks import CsvWriter, Keeper, Reporter, Watch
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.evaluate import Evaluation, check_spaces, evaluate
from godot_parallel.training.interrupt import Interrupt
from godot_parallel.training.layout import choose_layout
from godot_parallel.training.models import ALGORITHMS, BEST, FINAL, load_model, make_model, save_model

logger = logging.getLogger(__name__)

EVALUATION_INSTANCES = 4
REPORT_EPISODES = 20
NOTHING = Evaluation((), (), ())
_PACKAGES = ("godot-parallel", "stable-baselines3", "torch", "jax", "jaxlib", "numpy", "gymnasium")
DIVERGED_BATCH = "diverged_batch.npz"


@dataclass(frozen=True)
class RunResult:
    """How a run ended.

    Attributes:
        folder: The run folder.
        timesteps: Agent steps trained in all.
        seconds: Wall clock of this call.
        steps_per_s: Agent steps per second of this call, evaluation and all included.
        best_mean: Best evaluation's mean return.
        interrupted: Somebody asked for the end before it was reached.
        time_summary: Where the time went, in one line.
    """

    folder: Path
    timesteps: int
    seconds: float
    steps_per_s: float
    best_mean: float
    interrupted: bool
    time_summary: str


class LogReporter:
    """Tells by ``logging``; for callers without a terminal."""

    def progress(self, steps: int, total: int, steps_per_s: float, mean_return: float | None) -> None:
        """Says nothing."""

    def say(self, text: str) -> None:
        """Logs the line."""
        logger.info("%s", text)


def resolve_game(config: TrainConfig, reporter: Reporter) -> Path | None:
    """The game to start; exports a bundled one when it is first used."""
    if config.env is not None:
        return bundled_game(config.env, reporter.say)
    return config.env_path


def train(config: TrainConfig, reporter: Reporter | None = None) -> RunResult:
    """Trains, evaluates, and leaves a run folder.

    Whatever ends the run (a dead game, a full disk, Ctrl+C), the model is saved first.

    Args:
        config: All options.
        reporter: Who is told how it goes.

    Raises:
        GodotParallelError: A told failure; see :mod:`godot_parallel.errors`.
    """
    reporter = reporter or LogReporter()
    game = resolve_game(config, reporter)
    if game is None:
        reporter.say(f"no --env_path: press Play in the Godot editor (waiting on port {config.editor_port})")
    config.engine_settings(game, None)  # checks it
    if game is not None:
        game_command(game)  # tells what is wrong with it before anything is written
    folder = RunFolder.create(
        config.experiment_dir, config.experiment_name, resume=config.resume, force=config.force
    )
    try:
        return _train_in(folder, config, game, reporter)
    finally:
        folder.release()


def _train_in(folder: RunFolder, config: TrainConfig, game: Path | None, reporter: Reporter) -> RunResult:
    torch.set_num_threads(config.threads)
    interrupt = Interrupt()
    run = _Run(config, folder, reporter, interrupt)
    with run.root.measure("auto layout"):
        if choice := choose_layout(config, game, reporter):
            run.config = config = dataclasses.replace(config, **dataclasses.asdict(choice.layout))
            folder.write_json("layout.json", choice.as_dict())
    settings = config.engine_settings(game, folder.path / "engine")
    with run.root.measure("start-up"):
        batch = Batch(settings)  # nothing to save yet: Ctrl+C ends it at once
    with interrupt, batch:
        for note in batch.spec.notes:
            reporter.say(f"note: {note}")
        return run.execute(batch, game)


class _Run:
    """The parts of one run while it runs."""

    def __init__(
        self, config: TrainConfig, folder: RunFolder, reporter: Reporter, interrupt: Interrupt
    ) -> None:
        self.config = config
        self.folder = folder
        self.reporter = reporter
        self.interrupt = interrupt
        self.root = Timer()
        self.started = time.perf_counter()
        self.evaluator: GodotSb3VecEnv | None = None
        self.game: Path | None = None

    def execute(self, batch: Batch, game: Path | None) -> RunResult:
        self.game = game
        with self.root.measure("set-up"):
            self._write_description(batch)
            model = self._make_model(GodotSb3VecEnv(batch))
            model.set_logger(self._logger())
            if isinstance(model, FusedPPO):
                model.timer = self.root.child("rollout")
                model.pipeline = self.config.pipeline
            if isinstance(model, FusedPPO | FusedSAC):
                model.program()  # imports JAX; what can't be covered is said now
        first_step = model.num_timesteps
        total = self.config.timesteps
        watch = Watch(batch, self.folder, self.root, self.reporter, total, self.interrupt)
        watch.episodes += self._episodes_so_far(batch)
        keeper = Keeper(
            self.folder, self.root, self.reporter, watch, self._evaluate,
            self.config.eval_freq or max(1, total // 20), self.config.checkpoint_freq,
        )  # fmt: skip
        try:
            self._learn(model, total - first_step, watch, keeper)
        finally:
            self._save_end(model, keeper)
            if self.evaluator:
                self.evaluator.close()
            model.logger.close()
        return self._result(model, first_step, keeper)

    def _learn(self, model: BaseAlgorithm, steps: int, watch: Watch, keeper: Keeper) -> None:
        try:
            model.learn(steps, callback=[watch, keeper], reset_num_timesteps=False)
        except DivergedError as error:
            raise DivergedError(self._tell_diverged(error, model), error.batch) from error
        if not self.interrupt():
            keeper.evaluate()
            model.logger.dump(model.num_timesteps)

    def _tell_diverged(self, error: DivergedError, model: BaseAlgorithm) -> str:
        kept = f"the model before that update is {FINAL} in {self.folder.path}"
        if error.batch:
            stream = io.BytesIO()
            np.savez(stream, **error.batch)
            self.folder.write_bytes(DIVERGED_BATCH, stream.getvalue())
            kept += f", the samples of that minibatch are {DIVERGED_BATCH} there"
        return (
            f"training diverged at step {model.num_timesteps}: {error}; {kept}; "
            "try a smaller --learning_rate, and look for rewards or observations of extreme size"
        )

    def _save_end(self, model: BaseAlgorithm, keeper: Keeper) -> None:
        with self.root.measure("save"):
            save_model(model, self.folder, FINAL)
            if not (self.folder.path / BEST).exists():
                save_model(model, self.folder, BEST)
        if keeper.model is not None:
            keeper.save_checkpoint()
        if self.config.algo == "sac":
            model.save_replay_buffer(self.folder.path / "checkpoints" / "replay_buffer.pkl")  # type: ignore[attr-defined]
        self.root.total_s = time.perf_counter() - self.started
        self.folder.write_json("timers.json", self.root.as_dict())

    def _make_model(self, env: GodotSb3VecEnv) -> BaseAlgorithm:
        if not self.config.resume:
            model = make_model(self.config, env)
            self._tell_rollout(model, env)
            return model
        checkpoints = self.folder.checkpoints()
        path = checkpoints[-1] if checkpoints else self.folder.path / FINAL
        if not path.exists():
            raise RunFolderError(f"--resume: {self.folder.path} holds no checkpoint to go on from")
        model = load_model(path, self.config.algo, self.config.learner, device=self.config.device)
        if model.num_timesteps >= self.config.timesteps:
            raise UsageError(
                f"--resume: the run has {model.num_timesteps} steps already; give more --timesteps to go on"
            )
        check_spaces(model, env)
        model.set_env(env)
        model.set_random_seed(self.config.seed + model.num_timesteps)
        env.seed(self.config.seed)
        env.next_episodes = self._episodes_so_far(env.batch).tolist()
        buffer = self.folder.path / "checkpoints" / "replay_buffer.pkl"
        if self.config.algo == "sac" and buffer.exists():
            model.load_replay_buffer(buffer)  # type: ignore[attr-defined]
        self.reporter.say(f"going on from step {model.num_timesteps} ({path.name})")
        return model

    def _tell_rollout(self, model: BaseAlgorithm, env: GodotSb3VecEnv) -> None:
        if self.config.algo != "ppo":
            return
        n_steps: int = model.n_steps  # type: ignore[attr-defined]
        rest = n_steps * env.num_envs % self.config.batch_size
        note = f"; the last minibatch of an epoch has {rest} samples" if rest else ""
        self.reporter.say(
            f"environments: {env.batch.n_environments}, in processes: {len(env.batch.pids) or 1}, "
            f"agents: {env.num_envs}; n_steps {n_steps}, batch_size {self.config.batch_size}{note}"
        )

    def _episodes_so_far(self, batch: Batch) -> np.ndarray[Any, np.dtype[np.int64]]:
        state = self.folder.read_json("state.json") if self.config.resume else None
        episodes = np.asarray(state["episodes"] if state else [], np.int64)
        if len(episodes) != batch.n_environments:  # another layout: begin behind all episodes played so far
            return np.full(batch.n_environments, episodes.max(initial=0), np.int64)
        # The running episodes are lost; their numbers are not used again.
        return episodes + (1 if state else 0)

    def _logger(self) -> Logger:
        table = self.folder.table("progress.csv")
        outputs = [TensorBoardOutputFormat(str(self.folder.path)), CsvWriter(table, self.started)]
        return Logger(str(self.folder.path), outputs)

    def _evaluate(self, model: BaseAlgorithm) -> Evaluation:
        if self.game is None:
            return Evaluation(
                (), (), ()
            )  # a game in the editor is one engine: there is no second to evaluate on
        if self.evaluator is None:
            self.evaluator = self._start_evaluator()
        self.evaluator.seed(self.config.seed)
        result = evaluate(model, self.evaluator, self.config.eval_episodes, should_stop=self.interrupt)
        return result if len(result.returns) == self.config.eval_episodes else NOTHING

    def _start_evaluator(self) -> GodotSb3VecEnv:
        config = self.config
        can_copy = config.instances is not None
        few = dataclasses.replace(
            config, env=None, env_path=self.game, n_parallel=1, viz=False,
            instances=min(EVALUATION_INSTANCES, config.eval_episodes) if can_copy else None,
        )  # fmt: skip
        settings = few.engine_settings(self.game, self.folder.path / "engine" / "evaluation", "select")
        return GodotSb3VecEnv(Batch(settings), "select")

    def _write_description(self, batch: Batch) -> None:
        config = dataclasses.replace(self.config, resume=False, force=False)
        self.folder.write_config(config.as_dict())
        self.folder.write_text("command.txt", shlex.join(sys.argv) + "\n")
        versions = {name: _version(name) for name in _PACKAGES}
        spec = batch.spec
        engine = {"godot": spec.engine, "addon": spec.addon, "python": platform.python_version()}
        self.folder.write_json("versions.json", {**versions, **engine, "platform": platform.platform()})
        self.folder.write_json("spaces.json", _describe(batch))

    def _result(self, model: BaseAlgorithm, first_step: int, keeper: Keeper) -> RunResult:
        seconds = time.perf_counter() - self.started
        return RunResult(
            folder=self.folder.path,
            timesteps=model.num_timesteps,
            seconds=seconds,
            steps_per_s=(model.num_timesteps - first_step) / seconds,
            best_mean=keeper.best,
            interrupted=self.interrupt.requested,
            time_summary=self.root.summary(),
        )


def _version(package: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return "not installed"


def _describe(batch: Batch) -> dict[str, Any]:
    spec = batch.spec
    return {
        "observations": [
            {"name": k.name, "shape": list(k.shape), "dtype": str(k.dtype), "discrete_n": k.discrete_n}
            for k in spec.obs
        ],
        "actions": [{"name": k.name, "kind": k.kind, "size": k.size} for k in spec.actions],
        "agents": spec.n_agents,
        "environments": spec.instances,
        "action_repeat": spec.action_repeat,
        "ticks_per_second": spec.ticks_per_second,
        "isolation": spec.isolation,
    }


@contextlib.contextmanager
def evaluation_env(
    config: TrainConfig, game: Path | None, seed: int, log_dir: Path | None = None
) -> Iterator[GodotSb3VecEnv]:
    """An environment on the episodes of the report, which training and model choice never see."""
    settings = dataclasses.replace(config.engine_settings(game, log_dir), seed=spawn_seed(seed, "report"))
    with Batch(settings) as batch:
        env = GodotSb3VecEnv(batch, "report")
        env.seed(seed)
        yield env


def train_and_eval(algo: str, seed: int, **options: Any) -> float:
    """Trains one run and returns its best model's mean return over 20 episodes of the report.

    Args:
        algo: ``PPO`` or ``SAC``, in upper or lower case.
        seed: Of everything random.
        **options: As in :class:`TrainConfig`; ``experiment_name`` defaults to ``<algo>_seed<seed>``.

    Raises:
        GodotParallelError: The training failed.
        UsageError: There is no such algorithm.
    """
    algo = algo.lower()
    if algo not in ALGORITHMS:
        raise UsageError(f"algo: expected one of {', '.join(ALGORITHMS)}, found {algo!r}")
    options.setdefault("experiment_name", f"{algo}_seed{seed}")
    config = TrainConfig.from_mapping({**options, "algo": algo, "seed": seed}, "train_and_eval")
    result = train(config)
    game = resolve_game(config, LogReporter())
    one = dataclasses.replace(config, n_parallel=1, viz=False)
    with evaluation_env(one, game, seed) as env:
        return evaluate(load_model(result.folder / BEST, algo), env, REPORT_EPISODES).mean
