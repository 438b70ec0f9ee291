"""Stable-Baselines3 models from a config, and to and from run folders: only stock classes inside."""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv

from godot_parallel.errors import RunFolderError, UsageError
from godot_parallel.fused.ppo import FusedPPO
from godot_parallel.fused.sac import FusedSAC
from godot_parallel.run_folder import RunFolder
from godot_parallel.training.config import TrainConfig

ALGORITHMS: dict[str, type[BaseAlgorithm]] = {"ppo": PPO, "sac": SAC}
LEARNERS: dict[str, dict[str, type[BaseAlgorithm]]] = {
    "fused": {"ppo": FusedPPO, "sac": FusedSAC},
    "sb3": ALGORITHMS,
}
_EXCLUDED = "__dynamo_disable"  # where torch/_compile.py looks for what it has prepared
BEST, FINAL = "best_model.zip", "final_model.zip"


def _leave_out_compiler() -> None:
    """Saves the import of torch's compiler (0.9 s), which the first use of any optimizer brings with it.

    torch excludes these methods from compilation; without a compiler there is nothing to exclude them
    from. Where torch is made otherwise, nothing happens.
    """
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        method = getattr(getattr(torch.optim.Optimizer, name), "__wrapped__", None)
        if method is not None and not hasattr(method, _EXCLUDED):
            setattr(method, _EXCLUDED, method)


def make_model(config: TrainConfig, env: VecEnv) -> BaseAlgorithm:
    """A new model for ``env``."""
    _leave_out_compiler()
    rate: Any = config.learning_rate
    if config.lr_schedule == "linear":
        rate = LinearSchedule(config.learning_rate, 0.0, 1.0)
    policy_kwargs = {} if config.net_arch is None else {"net_arch": list(config.net_arch)}
    common: dict[str, Any] = {
        "policy": "MultiInputPolicy",
        "env": env,
        "learning_rate": rate,
        "gamma": config.gamma,
        "batch_size": config.batch_size,
        "policy_kwargs": policy_kwargs,
        "seed": config.seed,
        "device": config.device,
    }
    own = _ppo_options(config, env) if config.algo == "ppo" else _sac_options(config)
    try:
        with warnings.catch_warnings():
            # The run says in its own first line how the last minibatch comes out.
            warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
            return LEARNERS[config.learner][config.algo](**common, **own)
    except (AssertionError, ValueError) as error:
        raise UsageError(f"{config.algo} can't be used here: {error}") from error


def _ppo_options(config: TrainConfig, env: VecEnv) -> dict[str, Any]:
    return {
        "n_steps": config.rollout_length(env.num_envs),
        "n_epochs": config.n_epochs,
        "gae_lambda": config.gae_lambda,
        "clip_range": config.clip_range,
        "ent_coef": config.ent_coef or 0.0,
        "vf_coef": config.vf_coef,
        "max_grad_norm": config.max_grad_norm,
        "target_kl": config.target_kl,
    }


def _sac_options(config: TrainConfig) -> dict[str, Any]:
    return {
        "buffer_size": config.buffer_size,
        "learning_starts": config.learning_starts,
        "train_freq": config.train_freq,
        "gradient_steps": config.gradient_steps,
        "tau": config.tau,
        "ent_coef": "auto" if config.ent_coef is None else config.ent_coef,
    }


def save_model(model: BaseAlgorithm, folder: RunFolder, name: str) -> None:
    """Writes a model into a run folder, atomically."""
    stream = io.BytesIO()
    model.save(stream)
    folder.write_bytes(name, stream.getvalue())


def load_model(path: Path, algo: str | None = None, learner: str = "sb3", **kwargs: Any) -> BaseAlgorithm:
    """Loads a model of either algorithm; ``learner`` says which class goes on training it.

    Raises:
        UsageError: There is no model at ``path``, or it is not one of ours.
    """
    _leave_out_compiler()
    path = (
        path if path.suffix == ".zip" or not path.with_suffix(".zip").exists() else path.with_suffix(".zip")
    )
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise UsageError(f"{path} is no model: expected a Stable-Baselines3 zip file")
    classes = LEARNERS[learner]
    kinds = [classes[algo]] if algo else list(classes.values())
    problems = []
    for kind in kinds:
        try:
            return kind.load(path, device=kwargs.pop("device", "cpu"), **kwargs)
        except (KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            problems.append(f"{kind.__name__}: {error}")
    raise UsageError(f"{path} can't be loaded as a PPO or SAC model: {'; '.join(problems)}")


def find_model(path: Path) -> tuple[Path, RunFolder | None]:
    """The model that a user means: a zip file, or a run folder's best (else final) model.

    Raises:
        RunFolderError: It is neither.
    """
    if path.is_dir():
        folder = RunFolder.open(path)
        for name in (BEST, FINAL):
            if (path / name).exists():
                return path / name, folder
        raise RunFolderError(f"{path} holds no model yet: expected {BEST} or {FINAL}")
    beside = path.parent if (path.parent / "config.toml").exists() else None
    return path, RunFolder.open(beside) if beside else None
