"""Action distributions: drawn with NumPy, differentiated with JAX, defined as in Stable-Baselines3.

In all of them ``out`` is the policy network's output (n, outputs), ``log_std`` the (width,) logarithm of
the standard deviation or ``None``, ``actions`` an (n, width) matrix, discrete actions included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common import distributions as sb3

from godot_parallel.fused.fallback import UnsupportedError

Array = npt.NDArray[Any]
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Distribution(Protocol):
    """What a rollout and an update need."""

    def noise(self, log_std: Array | None, *shape: int) -> Array:
        """What makes ``shape`` draws random, from torch's generator: (*shape, width) float32."""

    def draw(self, out: Array, noise: Array) -> Array:
        """(n, width) actions from (n, width) noise."""

    def log_prob(self, out: Any, log_std: Any, actions: Any) -> Any:
        """(n,) log-probabilities, in a JAX program."""

    def entropy(self, out: Any, log_std: Any) -> Any:
        """(n,) or () entropies, in a JAX program."""


@dataclass(frozen=True)
class Gaussian:
    """Independent normals whose standard deviation does not depend on the state."""

    width: int

    def noise(self, log_std: Array | None, *shape: int) -> Array:
        """Normal, with the standard deviation."""
        scaled: Array = torch.randn(*shape, self.width).numpy() * np.exp(np.asarray(log_std))
        return scaled

    def draw(self, out: Array, noise: Array) -> Array:
        """Mean plus noise."""
        drawn: Array = out + noise
        return drawn

    def log_prob(self, out: Any, log_std: Any, actions: Any) -> Any:
        """Summed over the numbers of an action."""
        import jax.numpy as jnp

        scaled = (actions - out) / jnp.exp(log_std)
        return (-0.5 * scaled * scaled - log_std - _LOG_SQRT_2PI).sum(axis=1)

    def entropy(self, out: Any, log_std: Any) -> Any:
        """The same in every state."""
        return (0.5 + _LOG_SQRT_2PI + log_std).sum()


@dataclass(frozen=True)
class Categorical:
    """One choice of each group of logits.

    Attributes:
        choices: How many each number of an action can take.
    """

    choices: tuple[int, ...]

    def noise(self, log_std: Array | None, *shape: int) -> Array:
        """Uniform in 0..1."""
        return torch.rand(*shape, len(self.choices)).numpy()

    def draw(self, out: Array, noise: Array) -> Array:
        """Inverts the cumulative probabilities."""
        actions, start = np.empty(noise.shape, np.int64), 0
        for column, n in enumerate(self.choices):
            logits = out[:, start : start + n]
            weights = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
            threshold = noise[:, column : column + 1] * weights[:, -1:]
            actions[:, column] = np.minimum((weights <= threshold).sum(axis=1), n - 1)
            start += n
        return actions

    def _log_probs(self, out: Any) -> list[Any]:
        import jax

        ends = np.cumsum(self.choices)
        return [jax.nn.log_softmax(out[:, e - n : e]) for e, n in zip(ends, self.choices, strict=True)]

    def log_prob(self, out: Any, log_std: Any, actions: Any) -> Any:
        """Summed over the choices."""
        import jax.numpy as jnp

        chosen = [
            jnp.take_along_axis(logs, actions[:, i : i + 1].astype(jnp.int32), axis=1)[:, 0]
            for i, logs in enumerate(self._log_probs(out))
        ]
        return sum(chosen)

    def entropy(self, out: Any, log_std: Any) -> Any:
        """Summed over the choices."""
        import jax.numpy as jnp

        return sum(-(jnp.exp(logs) * logs).sum(axis=1) for logs in self._log_probs(out))


@dataclass(frozen=True)
class Bernoulli:
    """Independent yes or no."""

    width: int

    def noise(self, log_std: Array | None, *shape: int) -> Array:
        """Uniform in 0..1."""
        return torch.rand(*shape, self.width).numpy()

    def draw(self, out: Array, noise: Array) -> Array:
        """Yes where the noise lies below the probability."""
        actions: Array = noise < 1 / (1 + np.exp(-out))
        return actions.astype(np.int8)

    def log_prob(self, out: Any, log_std: Any, actions: Any) -> Any:
        """Summed over the numbers of an action."""
        import jax

        return (actions * jax.nn.log_sigmoid(out) + (1 - actions) * jax.nn.log_sigmoid(-out)).sum(axis=1)

    def entropy(self, out: Any, log_std: Any) -> Any:
        """Summed over the numbers of an action."""
        import jax

        yes = jax.nn.sigmoid(out)
        return -(yes * jax.nn.log_sigmoid(out) + (1 - yes) * jax.nn.log_sigmoid(-out)).sum(axis=1)


def read_distribution(policy_distribution: sb3.Distribution) -> Distribution:
    """The same distribution as a policy's.

    Raises:
        UnsupportedError: There is no such here (generalised state-dependent exploration, for example).
    """
    d = policy_distribution
    if type(d) is sb3.DiagGaussianDistribution:
        return Gaussian(d.action_dim)
    if type(d) is sb3.CategoricalDistribution:
        return Categorical((d.action_dim,))
    if type(d) is sb3.MultiCategoricalDistribution:
        return Categorical(tuple(int(n) for n in d.action_dims))
    if type(d) is sb3.BernoulliDistribution:
        return Bernoulli(d.action_dims)
    raise UnsupportedError(f"the action distribution is a {type(d).__name__}")
