"""Stable-Baselines3's PPO with a compiled update and a lean rollout."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy, MultiInputActorCriticPolicy
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv

from godot_parallel.errors import DivergedError
from godot_parallel.fused.adam import AdamRates, AdamState, TorchAdam
from godot_parallel.fused.backend import load_jax
from godot_parallel.fused.distributions import read_distribution
from godot_parallel.fused.fallback import UnsupportedError, train_or_restore
from godot_parallel.fused.networks import FastForward, Places
from godot_parallel.fused.observations import ObsEncoder
from godot_parallel.fused.ppo_update import (
    ActorCritic,
    Losses,
    Samples,
    Strengths,
    Switches,
    compiled_finish,
    compiled_update,
)
from godot_parallel.fused.rollout import Actor, Collector, GroupedEnv, OneGroup
from godot_parallel.timers import Timer

Array = npt.NDArray[Any]
logger = logging.getLogger(__name__)


@dataclass
class _Program:
    """What was read from a policy: its networks as data, and a view of its optimizer."""

    policy: ActorCriticPolicy
    adam: TorchAdam
    encoder: ObsEncoder
    networks: ActorCritic

    @classmethod
    def of(cls, model: PPO) -> _Program:
        """Reads a model.

        Raises:
            UnsupportedError: Something of it is not covered.
        """
        policy = model.policy
        if type(policy) not in (ActorCriticPolicy, MultiInputActorCriticPolicy):
            raise UnsupportedError(f"the policy is a {type(policy).__name__}")
        if model.use_sde:
            raise UnsupportedError("generalised state-dependent exploration (use_sde) is on")
        if type(model.rollout_buffer) not in (RolloutBuffer, DictRolloutBuffer):
            raise UnsupportedError(f"the rollout buffer is a {type(model.rollout_buffer).__name__}")
        load_jax()
        encoder = ObsEncoder(model.observation_space, policy.features_extractor)
        adam = TorchAdam(policy.optimizer)
        places = Places(adam.parameters)
        log_std = getattr(policy, "log_std", None)
        networks = ActorCritic(
            actor=places.mlp([*policy.mlp_extractor.policy_net, policy.action_net]),
            critic=places.mlp([*policy.mlp_extractor.value_net, policy.value_net]),
            log_std=None if log_std is None else places.of(log_std),
            distribution=read_distribution(policy.action_dist),
            shapes=adam.shapes,
        )
        return cls(policy, adam, encoder, networks)

    def values_of(self, observations: list[Any]) -> Array:
        """(F,) values of single observations."""
        features = np.concatenate([self.encoder.encode(obs, 1) for obs in observations])
        return FastForward(self.networks.critic, self.adam.views, len(features))(features)[:, 0]


class FusedPPO(PPO):
    """PPO that computes what Stable-Baselines3's computes, several times as fast.

    It takes the same arguments, logs the same keys, and saves the same files: ``PPO.load`` opens them in
    a program that has never heard of this class. What the compiled code does not cover (images, custom
    policies, state-dependent exploration, a GPU) runs in Stable-Baselines3's own; ``fallback_reason``
    says why.

    In ``callback.locals`` of a step there are ``new_obs``, ``actions``, ``rewards``, ``dones`` and
    ``infos``; values and log-probabilities are computed when the rollout is complete.
    """

    _program: _Program | None = None
    _pending: _Update | None = None
    fallback_reason: str | None = None
    """Why Stable-Baselines3's own code is used; ``None`` as long as ours is."""
    timer: Timer | None = None
    """Told how long the policy, the buffer and the callbacks take in rollouts, if set."""
    pipeline: bool = False
    """Computes each update while the next rollout is collected. Rollouts are then played by a policy that
    is one update old, whose own log-probabilities the update's importance ratios refer to."""

    def program(self) -> _Program | None:
        """The policy as data; ``None`` where Stable-Baselines3 has to do it."""
        known = self._program
        if known and known.policy is self.policy and known.adam.optimizer is self.policy.optimizer:
            return known
        try:
            self._program, self.fallback_reason = _Program.of(self), None
        except UnsupportedError as reason:
            self._program = None
            if self.fallback_reason != str(reason):
                self.fallback_reason = str(reason)
                logger.warning("PPO runs in Stable-Baselines3's own code, more slowly: %s", reason)
        return self._program

    def _excluded_save_params(self) -> list[str]:
        return [
            *super()._excluded_save_params(),
            "_program",
            "fallback_reason",
            "timer",
            "_pending",
            "pipeline",
        ]

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        """Collects (T, N) steps; see :class:`godot_parallel.fused.rollout.Collector`."""
        program = self.program()
        if program is None:
            return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        callback.on_rollout_start()
        collector = self._collector(program, env, rollout_buffer, n_rollout_steps)
        collector.start(self._last_obs, self._last_episode_starts)  # type: ignore[arg-type]
        callbacks_s = 0.0
        for t in range(n_rollout_steps):
            step = collector.step(t, last=t + 1 == n_rollout_steps)
            started = perf_counter()
            self.num_timesteps += env.num_envs
            callback.update_locals({**vars(step), "self": self, "env": env, "n_steps": t})
            if not callback.on_step():
                self._keep_last(collector.drain() or step)
                return False
            if step.dones.any():
                self._update_info_buffer(step.infos, step.dones)
            callbacks_s += perf_counter() - started
        self._keep_last(step)
        self._finish_rollout(program, collector, rollout_buffer)
        if self._pending:
            with collector.timer.measure("update"):
                self._settle()
        collector.tell_times()
        collector.timer.child("callbacks").add(callbacks_s)
        callback.update_locals({"rollout_buffer": rollout_buffer})
        callback.on_rollout_end()
        return True

    def _collector(self, program: _Program, env: VecEnv, buffer: RolloutBuffer, n_steps: int) -> Collector:
        grouped = env if isinstance(env, GroupedEnv) else OneGroup(env)
        networks, views = program.networks, program.adam.views
        groups = grouped.row_groups
        actor = Actor(
            program.encoder, networks.actor, views, networks.distribution, self.action_space, groups
        )
        log_std = None if networks.log_std is None else views[networks.log_std]
        noise = networks.distribution.noise(log_std, n_steps, env.num_envs)
        return Collector(grouped, actor, noise, buffer, self.timer or Timer())

    def _keep_last(self, step: Any) -> None:
        obs = step.new_obs
        self._last_obs = {k: v.copy() for k, v in obs.items()} if isinstance(obs, dict) else obs.copy()
        self._last_episode_starts = step.dones.copy()

    def _finish_rollout(self, program: _Program, collector: Collector, buffer: RolloutBuffer) -> None:
        with collector.timer.measure("policy"):
            if collector.cut_off:
                steps, rows, last = zip(*collector.cut_off, strict=True)
                # Several ends of one row and step can't be; so this adds to each place once.
                buffer.rewards[list(steps), list(rows)] += self.gamma * program.values_of(list(last))
            n = buffer.buffer_size * buffer.n_envs
            parts = compiled_finish()(
                program.networks,
                program.adam.read().parameters,
                program.encoder.encode(_flat_obs(buffer), n),
                buffer.actions.reshape(n, -1),
                program.encoder.encode(self._last_obs, buffer.n_envs),  # type: ignore[arg-type]
                buffer.rewards,
                buffer.episode_starts,
                np.asarray(self._last_episode_starts, np.float32),
                float(self.gamma),
                float(buffer.gae_lambda),
            )
            buffer.values, buffer.log_probs, buffer.advantages, buffer.returns = (np.array(p) for p in parts)
        buffer.pos, buffer.full = buffer.buffer_size, True

    def train(self) -> None:
        """Updates the policy with the collected rollout.

        Raises:
            DivergedError: The loss or a parameter is not finite; the policy is left as it was.
        """
        program = self.program()
        if program is None:
            train_or_restore(self, super().train)
            return
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        self._pending = _Update(self, program)
        self._pending.start()
        if not self.pipeline:
            self._settle()

    def _settle(self) -> None:
        """Keeps the outcome of the update that is under way, if there is one."""
        update, self._pending = self._pending, None
        if update:
            update.keep()
            self._log_update(update)

    def learn(self, *args: Any, **kwargs: Any) -> FusedPPO:
        """As in Stable-Baselines3."""
        try:
            return super().learn(*args, **kwargs)
        finally:
            self._settle()

    def _log_update(self, update: _Update) -> None:
        told, strengths = update.told, update.strengths
        self._n_updates += told.epochs
        record = self.logger.record
        record("train/entropy_loss", told.mean("entropy"))
        record("train/policy_gradient_loss", told.mean("policy"))
        record("train/value_loss", told.mean("value"))
        record("train/approx_kl", told.last_epoch("approx_kl"))
        record("train/clip_fraction", told.mean("clip_fraction"))
        record("train/loss", told.last("total"))
        record("train/explained_variance", explained_variance(update.samples.values, update.samples.returns))
        if hasattr(self.policy, "log_std"):
            record("train/std", float(np.exp(self.policy.log_std.detach().numpy()).mean()))
        record("train/n_updates", self._n_updates, exclude="tensorboard")
        record("train/clip_range", strengths.clip_range)
        if self.clip_range_vf is not None:
            record("train/clip_range_vf", strengths.clip_range_vf)


def _flat_obs(buffer: RolloutBuffer) -> Any:
    n = buffer.buffer_size * buffer.n_envs
    obs = buffer.observations
    if isinstance(obs, dict):
        return {key: block.reshape(n, -1) for key, block in obs.items()}
    return obs.reshape(n, -1)


class _Told:
    """The losses of the minibatches that were looked at."""

    def __init__(self, losses: Losses) -> None:
        self._losses = Losses(*(np.asarray(block) for block in losses))
        seen = self._losses.seen
        self.epochs = int(seen.any(axis=1).sum())
        self._last_epoch = seen[self.epochs - 1]
        self.stepped = int(self._losses.stepped.sum())

    def mean(self, name: str) -> float:
        """Over all minibatches."""
        return float(getattr(self._losses, name)[self._losses.seen].mean())

    def last_epoch(self, name: str) -> float:
        """Over those of the last epoch."""
        return float(getattr(self._losses, name)[self.epochs - 1][self._last_epoch].mean())

    def last(self, name: str) -> float:
        """Of the last minibatch."""
        return float(getattr(self._losses, name)[self._losses.seen][-1])

    def first_bad(self) -> int | None:
        """Which minibatch was the first whose loss is not finite."""
        bad = np.flatnonzero(~np.isfinite(self._losses.total[self._losses.seen]))
        return int(bad[0]) if len(bad) else None


class _Update:
    """One update: its inputs, taken when it is made, and its outcome."""

    def __init__(self, model: FusedPPO, program: _Program) -> None:
        self._program, self._batch_size = program, model.batch_size
        buffer = model.rollout_buffer
        self._n = buffer.buffer_size * buffer.n_envs
        self._random_state = np.random.get_state()
        self._orders = np.stack([np.random.permutation(self._n) for _ in range(model.n_epochs)])
        self.samples = self._take(buffer)
        progress = model._current_progress_remaining
        values_clipped = model.clip_range_vf is not None
        self.strengths = Strengths(
            clip_range=float(model.clip_range(progress)),  # type: ignore[operator]
            clip_range_vf=float(model.clip_range_vf(progress)) if values_clipped else 0.0,  # type: ignore[operator,misc]
            ent_coef=float(model.ent_coef),
            vf_coef=float(model.vf_coef),
            max_grad_norm=float(model.max_grad_norm),
            target_kl=float(model.target_kl or 0.0),
        )
        self._switches = Switches(model.normalize_advantage, values_clipped, model.target_kl is not None)
        minibatches = -(-self._n // self._batch_size)
        rates = program.adam.rates(model.n_epochs * minibatches)
        self._rates = AdamRates(*(rate.reshape(model.n_epochs, minibatches) for rate in rates))
        self._adam = program.adam.read()

    def _take(self, buffer: RolloutBuffer) -> Samples:
        if not buffer.generator_ready:
            # Stable-Baselines3 numbers a rollout's rows environment by environment; ours lie step by step.
            steps, rows = buffer.buffer_size, buffer.n_envs
            self._orders = self._orders % steps * rows + self._orders // steps
        flat = (
            getattr(buffer, name).reshape(self._n)
            for name in ("values", "log_probs", "advantages", "returns")
        )
        features = self._program.encoder.encode(_flat_obs(buffer), self._n)
        return Samples(features, buffer.actions.reshape(self._n, -1), *flat)

    def start(self) -> None:
        """Begins to compute it, in a thread of JAX's own."""
        self._new, self._losses = compiled_update()(
            self._program.networks,
            self._switches,
            self._batch_size,
            self._program.adam.rules,
            self._adam,
            self.samples,
            self._orders.astype(np.int32),
            self._rates,
            self.strengths,
        )

    def keep(self) -> None:
        """Waits for the outcome and writes it into the policy.

        Raises:
            DivergedError: It is not finite.
        """
        self.told = _Told(self._losses)
        new = AdamState(*(np.asarray(vector) for vector in self._new))
        bad = self.told.first_bad()
        if bad is not None or not np.isfinite(new.parameters).all():
            self._raise_diverged(bad)
        self._program.adam.write(new, self.told.stepped)
        if self.told.epochs < len(self._orders):  # as if the epochs after an early stop had not been shuffled
            np.random.set_state(self._random_state)
            for _ in range(self.told.epochs):
                np.random.permutation(self._n)

    def _raise_diverged(self, bad: int | None) -> None:
        per_epoch = self._rates.step_size.shape[1]
        epoch, place = divmod(self._rates.step_size.size - 1 if bad is None else bad, per_epoch)
        rows = self._orders[epoch][place * self._batch_size : (place + 1) * self._batch_size]
        batch = {name: block[rows] for name, block in self.samples._asdict().items()}
        raise DivergedError(f"the update's loss is not finite in minibatch {place} of epoch {epoch}", batch)
