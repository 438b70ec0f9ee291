"""Deterministic episodes, spread evenly over the copies, so that short ones aren't favoured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from godot_parallel.envs.sb3_env import GodotSb3VecEnv
from godot_parallel.errors import EnvironmentDataError, UsageError

MAX_EPISODE_STEPS = 100_000


class Policy(Protocol):
    """Anything with Stable-Baselines3's ``predict``."""

    observation_space: Any
    action_space: Any

    def predict(self, observation: Any, *, deterministic: bool = False) -> tuple[npt.NDArray[Any], Any]:
        """Actions (N, ...) for observations by key, (N, *shape)."""


@dataclass(frozen=True)
class Evaluation:
    """Finished episodes, in the order of their environments.

    Attributes:
        returns: (E,) undiscounted sums of rewards.
        lengths: (E,) steps.
        infos: What the game told at each end.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    infos: tuple[dict[str, Any], ...]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Standard deviation of the returns (divided by E, as ``np.std`` does)."""
        return float(np.std(self.returns))

    @property
    def success_rate(self) -> float | None:
        """Share of episodes with ``is_success``; ``None`` if the game never tells."""
        told = [bool(info["is_success"]) for info in self.infos if "is_success" in info]
        return float(np.mean(told)) if told else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: episodes, mean, std, returns, lengths, success_rate, infos."""
        return {
            "episodes": len(self.returns),
            "mean": self.mean,
            "std": self.std,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
            "success_rate": self.success_rate,
            "infos": list(self.infos),
        }


def check_spaces(policy: Policy, env: GodotSb3VecEnv) -> None:
    """Checks that a model fits a game.

    Raises:
        UsageError: It was made for other observations or actions; both are named.
    """
    for name in ("observation_space", "action_space"):
        made_for, found = getattr(policy, name), getattr(env, name)
        if _shapes(made_for) != _shapes(found):
            raise UsageError(f"the model was made for the {name} {made_for}; this game has {found}")


def _shapes(space: Any) -> Any:
    """What must agree: keys, shapes and types; bounds may differ."""
    if hasattr(space, "spaces"):
        return {name: _shapes(part) for name, part in space.spaces.items()}
    return (
        type(space).__name__,
        space.shape,
        space.dtype,
        getattr(space, "n", None),
        str(getattr(space, "nvec", "")),
    )


def evaluate(
    policy: Policy,
    env: GodotSb3VecEnv,
    episodes: int,
    *,
    deterministic: bool = True,
    max_episode_steps: int = MAX_EPISODE_STEPS,
    should_stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Plays exactly ``episodes`` episodes; each agent row plays a fixed share of them.

    Args:
        policy: Who plays.
        env: Where; it is reset first, so the same seed gives the same episodes.
        episodes: How many.
        deterministic: Whether the policy's most likely action is taken.
        max_episode_steps: Ceiling of an episode's length.
        should_stop: Asked after each step; if true, what is finished is returned.

    Raises:
        UsageError: ``episodes`` is below 1, or the model does not fit the game.
        EnvironmentDataError: An episode does not end within ``max_episode_steps``.
    """
    if episodes < 1:
        raise UsageError(f"episodes: expected at least 1, found {episodes}")
    check_spaces(policy, env)
    n = env.num_envs
    quota = np.array([episodes // n + (row < episodes % n) for row in range(n)])
    done_by_row: list[list[tuple[float, int, dict[str, Any]]]] = [[] for _ in range(n)]
    returns, lengths = np.zeros(n), np.zeros(n, int)
    obs = env.reset()
    while any(len(done) < quota[row] for row, done in enumerate(done_by_row)) and not should_stop():
        actions, _ = policy.predict(obs, deterministic=deterministic)
        obs, rewards, dones, infos = env.step(actions)
        returns += rewards
        lengths += 1
        for row in np.flatnonzero(dones):
            if len(done_by_row[row]) < quota[row]:
                told = {k: v for k, v in infos[row].items() if k != "terminal_observation"}
                done_by_row[row].append((float(returns[row]), int(lengths[row]), told))
            returns[row], lengths[row] = 0.0, 0
        if int(lengths.max()) > max_episode_steps:
            raise EnvironmentDataError(
                f"an episode has not ended after {max_episode_steps} steps: set the agent's reset_after "
                "(its time limit in ticks), or let the game set done"
            )
    finished = [episode for done in done_by_row for episode in done]
    return Evaluation(
        tuple(e[0] for e in finished), tuple(e[1] for e in finished), tuple(e[2] for e in finished)
    )
