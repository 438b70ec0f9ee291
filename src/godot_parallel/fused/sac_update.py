"""Many gradient steps of SAC in one compiled call.

The losses are those of Stable-Baselines3's ``SAC.train`` (Haarnoja et al. 2018, arXiv:1812.05905), term by
term and in its order: temperature, critics, actor, targets.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from godot_parallel.fused.adam import AdamRates, AdamRules, AdamState, adam_step, join, split
from godot_parallel.fused.backend import load_jax
from godot_parallel.fused.networks import Mlp, apply

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_LOG_STD_LIMITS = (-20.0, 2.0)


class SacNetworks(NamedTuple):
    """The policy as data; hashable, so that a program is compiled once for each.

    Attributes:
        trunk: From features to what mean and spread share.
        mean: The mean's layer.
        log_std: The spread's layer.
        critics: From features and actions to one value each; places among the critic's parameters.
        actor_shapes: Of the actor's parameters, in its optimizer's order.
        critic_shapes: Of the critics', and of their targets'.
        epsilon: Keeps the logarithm of the squashing's slope finite.
    """

    trunk: Mlp
    mean: Mlp
    log_std: Mlp
    critics: tuple[Mlp, ...]
    actor_shapes: tuple[tuple[int, ...], ...]
    critic_shapes: tuple[tuple[int, ...], ...]
    epsilon: float

    def act(self, parameters: list[Any], features: Any, noise: Any) -> tuple[Any, Any]:
        """(n, width) actions in -1..1 and their (n,) log-probabilities, in a JAX program."""
        import jax.numpy as jnp

        hidden = apply(self.trunk, parameters, features)
        log_std = jnp.clip(apply(self.log_std, parameters, hidden), *_LOG_STD_LIMITS)
        actions = jnp.tanh(apply(self.mean, parameters, hidden) + jnp.exp(log_std) * noise)
        log_prob = (-0.5 * noise * noise - log_std - _LOG_SQRT_2PI).sum(axis=1)
        return actions, log_prob - jnp.log(1 - actions * actions + self.epsilon).sum(axis=1)

    def values(self, parameters: list[Any], features: Any, actions: Any) -> list[Any]:
        """(n,) values of every critic, in a JAX program."""
        import jax.numpy as jnp

        x = jnp.concatenate([features, actions], axis=1)
        return [apply(critic, parameters, x)[:, 0] for critic in self.critics]


class SacState(NamedTuple):
    """All that learns; ``target`` is a flat vector, ``temperature`` has no numbers when it is fixed."""

    actor: AdamState
    critic: AdamState
    target: Any
    temperature: AdamState


class SacBatch(NamedTuple):
    """Samples of one gradient step, or (with one more axis) of many.

    ``noise`` is (2, n, width): for this step's actions and for the next's.
    """

    features: Any
    actions: Any
    next_features: Any
    rewards: Any
    discounts: Any
    noise: Any


class SacRates(NamedTuple):
    """Scales of the three optimizers' steps."""

    actor: AdamRates
    critic: AdamRates
    temperature: AdamRates


class SacRules(NamedTuple):
    """What does not change from step to step; part of the program."""

    actor: AdamRules
    critic: AdamRules
    temperature: AdamRules | None
    tau: float
    target_interval: int


class SacStrengths(NamedTuple):
    """Numbers that may change without compiling anew.

    Attributes:
        ent_coef: Weight of the entropy where it is fixed.
        target_entropy: What the temperature aims at where it is not.
    """

    ent_coef: float
    target_entropy: float


class SacLosses(NamedTuple):
    """What is logged, one number each."""

    actor: Any
    critic: Any
    ent_coef: Any
    temperature: Any


def _gradient_step(
    state: SacState,
    index: Any,
    batch: SacBatch,
    rates: SacRates,
    networks: SacNetworks,
    rules: SacRules,
    k: SacStrengths,
) -> tuple[SacState, SacLosses]:
    import jax
    import jax.numpy as jnp

    actor = split(state.actor.parameters, networks.actor_shapes)
    _, log_prob = networks.act(actor, batch.features, batch.noise[0])
    temperature, ent_coef, temperature_loss = state.temperature, jnp.float32(k.ent_coef), jnp.float32(0)
    if rules.temperature is not None:
        log_ent_coef = temperature.parameters[0]
        ent_coef = jnp.exp(log_ent_coef)
        surplus = -(log_prob + k.target_entropy).mean()
        temperature_loss = log_ent_coef * surplus
        temperature = adam_step(temperature, surplus[None], rates.temperature, rules.temperature)

    next_actions, next_log_prob = networks.act(actor, batch.next_features, batch.noise[1])
    target = split(state.target, networks.critic_shapes)
    next_values = functools.reduce(jnp.minimum, networks.values(target, batch.next_features, next_actions))
    aim = batch.rewards + batch.discounts * (next_values - ent_coef * next_log_prob)

    def critic_loss(parameters: list[Any]) -> Any:
        values = networks.values(parameters, batch.features, batch.actions)
        return 0.5 * sum(jnp.square(value - aim).mean() for value in values)

    critic_parameters = split(state.critic.parameters, networks.critic_shapes)
    critic_told, gradients = jax.value_and_grad(critic_loss)(critic_parameters)
    critic = adam_step(state.critic, join(gradients), rates.critic, rules.critic)
    critic_parameters = split(critic.parameters, networks.critic_shapes)

    def actor_loss(parameters: list[Any]) -> Any:
        actions, log_prob = networks.act(parameters, batch.features, batch.noise[0])
        values = networks.values(critic_parameters, batch.features, actions)
        return (ent_coef * log_prob - functools.reduce(jnp.minimum, values)).mean()

    actor_told, gradients = jax.value_and_grad(actor_loss)(actor)
    new_actor = adam_step(state.actor, join(gradients), rates.actor, rules.actor)
    moved = state.target * (1 - rules.tau) + critic.parameters * rules.tau
    if rules.target_interval > 1:
        moved = jnp.where(index % rules.target_interval == 0, moved, state.target)
    told = SacLosses(actor_told, critic_told, ent_coef, temperature_loss)
    return SacState(new_actor, critic, moved, temperature), told


def _update(
    networks: SacNetworks,
    rules: SacRules,
    state: SacState,
    batches: SacBatch,
    rates: SacRates,
    first: Any,
    n: Any,
    k: SacStrengths,
) -> tuple[SacState, SacLosses]:
    import jax
    import jax.numpy as jnp

    most = len(batches.rewards)
    losses = SacLosses(*[jnp.zeros(most)] * 4)

    def body(i: Any, carry: tuple[SacState, SacLosses]) -> tuple[SacState, SacLosses]:
        state, losses = carry
        batch, own = jax.tree.map(lambda block: block[i], (batches, rates))
        state, told = _gradient_step(state, first + i, batch, own, networks, rules, k)
        return state, jax.tree.map(lambda block, number: block.at[i].set(number), losses, told)

    return jax.lax.fori_loop(0, n, body, (state, losses))  # type: ignore[no-any-return]


@functools.cache
def compiled_sac_update() -> Callable[..., tuple[SacState, SacLosses]]:
    """``n`` gradient steps: ``(networks, rules, state, batches, rates, first, n, strengths)``.

    ``batches`` and ``rates`` have room for at least ``n`` on their first axis; ``first`` is the number of
    the first gradient step within its update. Returns the new state and the losses of each step.
    """
    return load_jax().jit(_update, static_argnums=(0, 1))  # type: ignore[no-any-return]
