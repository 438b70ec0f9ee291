"""Stable-Baselines3's SAC with compiled gradient steps."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.distributions import SquashedDiagGaussianDistribution
from stable_baselines3.sac.policies import Actor, MultiInputPolicy, SACPolicy

from godot_parallel.errors import DivergedError
from godot_parallel.fused.adam import AdamRates, AdamState, TorchAdam
from godot_parallel.fused.backend import load_jax
from godot_parallel.fused.fallback import UnsupportedError, train_or_restore
from godot_parallel.fused.networks import Places
from godot_parallel.fused.observations import ObsEncoder
from godot_parallel.fused.sac_update import (
    SacBatch,
    SacLosses,
    SacNetworks,
    SacRates,
    SacRules,
    SacState,
    SacStrengths,
    compiled_sac_update,
)

Array = npt.NDArray[Any]
logger = logging.getLogger(__name__)

CHUNK = 64  # gradient steps in one compiled call, so that their samples stay small
_NOTHING = np.zeros(0, np.float32)


@dataclass
class _Program:
    """What was read from a policy: its networks as data, and views of its optimizers."""

    policy: SACPolicy
    actor: TorchAdam
    critic: TorchAdam
    temperature: TorchAdam | None
    encoder: ObsEncoder
    networks: SacNetworks

    @classmethod
    def of(cls, model: SAC) -> _Program:
        """Reads a model.

        Raises:
            UnsupportedError: Something of it is not covered.
        """
        policy = model.policy
        if type(policy) not in (SACPolicy, MultiInputPolicy) or type(model.actor) is not Actor:
            raise UnsupportedError(f"the policy is a {type(policy).__name__}")
        distribution = model.actor.action_dist
        if not isinstance(distribution, SquashedDiagGaussianDistribution):
            raise UnsupportedError("generalised state-dependent exploration (use_sde) is on")
        load_jax()
        encoder = ObsEncoder(model.observation_space, model.actor.features_extractor)
        actor, critic = TorchAdam(model.actor.optimizer), TorchAdam(model.critic.optimizer)
        own = model.ent_coef_optimizer
        actor_places, critic_places = Places(actor.parameters), Places(critic.parameters)
        networks = SacNetworks(
            trunk=actor_places.mlp(model.actor.latent_pi),
            mean=actor_places.mlp([model.actor.mu]),
            log_std=actor_places.mlp([model.actor.log_std]),
            critics=tuple(critic_places.mlp(network) for network in model.critic.q_networks),
            actor_shapes=actor.shapes,
            critic_shapes=critic.shapes,
            epsilon=distribution.epsilon,
        )
        return cls(policy, actor, critic, TorchAdam(own) if own else None, encoder, networks)

    def is_of(self, model: SAC) -> bool:
        """Whether nothing was replaced since it was read."""
        return (
            self.policy is model.policy
            and self.actor.optimizer is model.actor.optimizer
            and self.critic.optimizer is model.critic.optimizer
            and (self.temperature.optimizer if self.temperature else None) is model.ent_coef_optimizer
        )


class FusedSAC(SAC):
    """SAC that computes what Stable-Baselines3's computes, several times as fast.

    It takes the same arguments, draws the same random numbers, logs the same keys, and saves the same
    files: ``SAC.load`` opens them. What the compiled code does not cover (images, custom policies,
    state-dependent exploration, a GPU) runs in Stable-Baselines3's own; ``fallback_reason`` says why.
    """

    _program: _Program | None = None
    fallback_reason: str | None = None
    """Why Stable-Baselines3's own code is used; ``None`` as long as ours is."""

    def program(self) -> _Program | None:
        """The policy as data; ``None`` where Stable-Baselines3 has to do it."""
        if self._program is None or not self._program.is_of(self):
            try:
                self._program, self.fallback_reason = _Program.of(self), None
            except UnsupportedError as reason:
                self._program = None
                if self.fallback_reason != str(reason):
                    self.fallback_reason = str(reason)
                    logger.warning("SAC runs in Stable-Baselines3's own code, more slowly: %s", reason)
        return self._program

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_program", "fallback_reason"]

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Takes gradient steps on samples of the replay buffer.

        Raises:
            DivergedError: A loss is not finite; the policy is left as it was.
        """
        program = self.program()
        if program is None:
            train_or_restore(self, functools.partial(super().train, gradient_steps, batch_size))
            return
        self.policy.set_training_mode(True)
        temperature = [] if program.temperature is None else [program.temperature.optimizer]
        self._update_learning_rate([program.actor.optimizer, program.critic.optimizer, *temperature])
        chunks = [
            self._train_chunk(program, first, min(CHUNK, gradient_steps - first), batch_size)
            for first in range(0, gradient_steps, CHUNK)
        ]
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        if not chunks:
            return
        told = SacLosses(*(np.concatenate(blocks) for blocks in zip(*chunks, strict=True)))
        self.logger.record("train/ent_coef", told.ent_coef.mean())
        self.logger.record("train/actor_loss", told.actor.mean())
        self.logger.record("train/critic_loss", told.critic.mean())
        if program.temperature is not None:
            self.logger.record("train/ent_coef_loss", told.temperature.mean())

    def _train_chunk(self, program: _Program, first: int, n: int, batch_size: int) -> SacLosses:
        room = n if first == 0 else CHUNK
        batches = [self._sample(program, batch_size) for _ in range(n)]
        stacked = SacBatch(*(_padded(np.stack(blocks), room) for blocks in zip(*batches, strict=True)))
        state, rates = self._read(program), self._rates(program, room)
        new, losses = compiled_sac_update()(
            program.networks, self._rules(program), state, stacked, rates, first, n, self._strengths()
        )
        told = SacLosses(*(np.asarray(block)[:n] for block in losses))
        for i in range(n):
            if not all(np.isfinite(block[i]) for block in told):
                raise DivergedError(
                    f"the loss is not finite in gradient step {self._n_updates + first + i}",
                    batches[i]._asdict(),
                )
        self._write(program, new, n)
        return told

    def _sample(self, program: _Program, batch_size: int) -> SacBatch:
        data = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)  # type: ignore[union-attr]
        discounts = self.gamma if data.discounts is None else data.discounts.numpy().reshape(-1)
        width = data.actions.shape[1]
        return SacBatch(
            program.encoder.encode(_numpy(data.observations), batch_size),
            data.actions.numpy(),
            program.encoder.encode(_numpy(data.next_observations), batch_size),
            data.rewards.numpy().reshape(-1),
            ((1 - data.dones.numpy().reshape(-1)) * discounts).astype(np.float32),
            np.stack([torch.randn(batch_size, width).numpy() for _ in range(2)]),
        )

    def _read(self, program: _Program) -> SacState:
        target = np.concatenate([p.detach().numpy().reshape(-1) for p in self.critic_target.parameters()])
        nothing = AdamState(_NOTHING, _NOTHING, _NOTHING)
        temperature = program.temperature.read() if program.temperature else nothing
        return SacState(program.actor.read(), program.critic.read(), target, temperature)

    def _rates(self, program: _Program, n: int) -> SacRates:
        nothing = AdamRates(np.zeros(n, np.float32), np.ones(n, np.float32))
        temperature = program.temperature.rates(n) if program.temperature else nothing
        return SacRates(program.actor.rates(n), program.critic.rates(n), temperature)

    def _rules(self, program: _Program) -> SacRules:
        own = program.temperature.rules if program.temperature else None
        return SacRules(program.actor.rules, program.critic.rules, own, self.tau, self.target_update_interval)

    def _strengths(self) -> SacStrengths:
        fixed = 0.0 if self.ent_coef_optimizer is not None else float(self.ent_coef_tensor)
        return SacStrengths(fixed, float(self.target_entropy))

    def _write(self, program: _Program, new: SacState, n: int) -> None:
        program.actor.write(new.actor, n)
        program.critic.write(new.critic, n)
        if program.temperature:
            program.temperature.write(new.temperature, n)
        target, offset = np.asarray(new.target), 0
        for parameter in self.critic_target.parameters():
            view = parameter.detach().numpy()
            view[...] = target[offset : offset + view.size].reshape(view.shape)
            offset += view.size


def _numpy(obs: Any) -> Any:
    return {key: block.numpy() for key, block in obs.items()} if isinstance(obs, dict) else obs.numpy()


def _padded(block: Array, room: int) -> Array:
    if len(block) == room:
        return block
    return np.concatenate([block, np.zeros((room - len(block), *block.shape[1:]), block.dtype)])
