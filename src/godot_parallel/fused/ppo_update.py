"""All epochs and minibatches of a PPO update in one compiled call.

The loss is that of Stable-Baselines3's ``PPO.train`` (Schulman et al. 2017, arXiv:1707.06347), term by term.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from godot_parallel.fused.adam import AdamRates, AdamRules, AdamState, adam_step, join, split
from godot_parallel.fused.backend import load_jax
from godot_parallel.fused.distributions import Distribution
from godot_parallel.fused.networks import Mlp, apply


class ActorCritic(NamedTuple):
    """The policy as data; hashable, so that a program is compiled once for each.

    Attributes:
        actor: From features to the distribution's parameters.
        critic: From features to one value.
        log_std: Place of the logarithm of the standard deviation, or ``None``.
        distribution: How the actor's output is read.
        shapes: Of all parameters, in the optimizer's order.
    """

    actor: Mlp
    critic: Mlp
    log_std: int | None
    distribution: Distribution
    shapes: tuple[tuple[int, ...], ...]

    def evaluate(self, parameters: list[Any], features: Any, actions: Any) -> tuple[Any, Any, Any]:
        """(n,) values, (n,) log-probabilities and entropies, in a JAX program."""
        out = apply(self.actor, parameters, features)
        log_std = None if self.log_std is None else parameters[self.log_std]
        values = apply(self.critic, parameters, features)[:, 0]
        log_prob = self.distribution.log_prob(out, log_std, actions)
        return values, log_prob, self.distribution.entropy(out, log_std)


class Samples(NamedTuple):
    """A rollout flattened to n rows; also a minibatch of it."""

    features: Any
    actions: Any
    values: Any
    log_probs: Any
    advantages: Any
    returns: Any


class Switches(NamedTuple):
    """What changes the program and not only its numbers."""

    normalize_advantage: bool
    clip_values: bool
    stop_early: bool


class Strengths(NamedTuple):
    """Numbers that may change from update to update without compiling anew."""

    clip_range: float
    clip_range_vf: float
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    target_kl: float


class Losses(NamedTuple):
    """What is logged of every minibatch.

    Attributes:
        seen: Whether it was looked at; not, after an early stop.
        stepped: Whether it changed the parameters.
    """

    policy: Any
    value: Any
    entropy: Any
    total: Any
    approx_kl: Any
    clip_fraction: Any
    seen: Any
    stepped: Any


Minibatch = tuple[Samples, AdamRates]
Carry = tuple[AdamState, Any]


def _loss(
    parameters: list[Any], batch: Samples, policy: ActorCritic, switches: Switches, k: Strengths
) -> tuple[Any, tuple[Any, ...]]:
    import jax.numpy as jnp

    values, log_prob, entropy = policy.evaluate(parameters, batch.features, batch.actions)
    advantages = batch.advantages
    if switches.normalize_advantage and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    log_ratio = log_prob - batch.log_probs
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - k.clip_range, 1 + k.clip_range)
    policy_loss = -jnp.minimum(advantages * ratio, advantages * clipped).mean()
    if switches.clip_values:
        change = jnp.clip(values - batch.values, -k.clip_range_vf, k.clip_range_vf)
        values = batch.values + change
    value_loss = jnp.square(batch.returns - values).mean()
    entropy_loss = -jnp.mean(entropy)
    total = policy_loss + k.ent_coef * entropy_loss + k.vf_coef * value_loss
    approx_kl = (ratio - 1 - log_ratio).mean()
    clip_fraction = (jnp.abs(ratio - 1) > k.clip_range).mean()
    return total, (policy_loss, value_loss, entropy_loss, total, approx_kl, clip_fraction)


def _minibatch(
    carry: Carry,
    minibatch: Minibatch,
    policy: ActorCritic,
    switches: Switches,
    rules: AdamRules,
    k: Strengths,
) -> tuple[Carry, Losses]:
    import jax
    import jax.numpy as jnp

    def step(carry: Carry) -> tuple[Carry, Losses]:
        adam, _ = carry
        parameters = split(adam.parameters, policy.shapes)
        (_, told), gradients = jax.value_and_grad(_loss, has_aux=True)(parameters, batch, policy, switches, k)
        gradient = join(gradients)
        norm = jnp.sqrt(jnp.square(gradient).sum())
        gradient = gradient * jnp.minimum(1.0, k.max_grad_norm / (norm + 1e-6))
        new = adam_step(adam, gradient, rates, rules)
        stop = jnp.bool_(False)
        if switches.stop_early:
            stop = told[4] > 1.5 * k.target_kl
            new = jax.tree.map(lambda old, changed: jnp.where(stop, old, changed), adam, new)
        return (new, stop), Losses(*told, jnp.bool_(True), ~stop)  # type: ignore[call-arg]

    def skip(carry: Carry) -> tuple[Carry, Losses]:
        nothing = jnp.float32(0)
        no = jnp.bool_(False)
        return carry, Losses(nothing, nothing, nothing, nothing, nothing, nothing, no, no)

    batch, rates = minibatch
    if not switches.stop_early:
        return step(carry)
    return jax.lax.cond(carry[1], skip, step, carry)  # type: ignore[no-any-return]


def _update(
    policy: ActorCritic,
    switches: Switches,
    batch_size: int,
    rules: AdamRules,
    adam: AdamState,
    samples: Samples,
    orders: Any,
    rates: AdamRates,
    k: Strengths,
) -> tuple[AdamState, Losses]:
    import jax
    import jax.numpy as jnp

    n = orders.shape[1]
    whole = n // batch_size
    body = functools.partial(_minibatch, policy=policy, switches=switches, rules=rules, k=k)

    def take(order: Any) -> Samples:
        return jax.tree.map(lambda block: block[order], samples)  # type: ignore[no-any-return]

    def epoch(carry: Carry, x: tuple[Any, AdamRates]) -> tuple[Carry, Losses]:
        order, rates = x
        parts = []
        if whole:
            shuffled = take(order[: whole * batch_size])
            batches = jax.tree.map(lambda b: b.reshape(whole, batch_size, *b.shape[1:]), shuffled)
            own = jax.tree.map(lambda r: r[:whole], rates)
            carry, losses = jax.lax.scan(body, carry, (batches, own))
            parts.append(losses)
        if n % batch_size:
            last = jax.tree.map(lambda r: r[whole], rates)
            carry, losses = body(carry, (take(order[whole * batch_size :]), last))
            parts.append(jax.tree.map(lambda number: number[None], losses))
        return carry, jax.tree.map(lambda *blocks: jnp.concatenate(blocks), *parts)

    (adam, _), losses = jax.lax.scan(epoch, (adam, jnp.bool_(False)), (orders, rates))
    return adam, losses


def _finish(
    policy: ActorCritic,
    parameters: Any,
    features: Any,
    actions: Any,
    last_features: Any,
    rewards: Any,
    starts: Any,
    last_dones: Any,
    gamma: float,
    gae_lambda: float,
) -> tuple[Any, Any, Any, Any]:
    import jax
    import jax.numpy as jnp

    steps, rows = rewards.shape
    split_parameters = split(parameters, policy.shapes)
    values, log_probs, _ = policy.evaluate(
        split_parameters, features.reshape(steps * rows, -1), actions.reshape(steps * rows, -1)
    )
    values, log_probs = values.reshape(steps, rows), log_probs.reshape(steps, rows)
    last_values = apply(policy.critic, split_parameters, last_features)[:, 0]
    next_values = jnp.concatenate([values[1:], last_values[None]])
    goes_on = 1.0 - jnp.concatenate([starts[1:], last_dones[None]])
    deltas = rewards + gamma * next_values * goes_on - values

    def backwards(last: Any, x: tuple[Any, Any]) -> tuple[Any, Any]:
        delta, going = x
        last = delta + gamma * gae_lambda * going * last
        return last, last

    _, advantages = jax.lax.scan(backwards, jnp.zeros(rows), (deltas, goes_on), reverse=True)
    return values, log_probs, advantages, advantages + values


@functools.cache
def compiled_update() -> Callable[..., tuple[AdamState, Losses]]:
    """The update: ``(policy, switches, batch_size, rules, adam, samples, orders, rates, strengths)``.

    ``orders`` is (epochs, n) int32, the rows of ``samples`` in the order of each epoch; ``rates`` has
    (epochs, minibatches) scales. The last minibatch of an epoch has the rest. Returns the new state and
    (epochs, minibatches) losses.
    """
    return load_jax().jit(_update, static_argnums=(0, 1, 2, 3))  # type: ignore[no-any-return]


@functools.cache
def compiled_finish() -> Callable[..., tuple[Any, Any, Any, Any]]:
    """What is left to compute when a rollout of T steps and N rows is collected.

    ``(policy, parameters, features, actions, last_features, rewards, starts, last_dones, gamma,
    gae_lambda)`` give (T, N) values, log-probabilities, advantages and returns (generalised advantage
    estimation, Schulman et al. 2016, arXiv:1506.02438).
    """
    return load_jax().jit(_finish, static_argnums=0)  # type: ignore[no-any-return]
