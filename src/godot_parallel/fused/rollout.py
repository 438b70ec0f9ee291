"""Collecting a rollout with next to nothing between an engine's answer and its next action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.vec_env import VecEnv

from godot_parallel.fused.distributions import Distribution
from godot_parallel.fused.networks import FastForward, Mlp
from godot_parallel.fused.observations import ObsEncoder
from godot_parallel.timers import Timer

Array = npt.NDArray[Any]
Obs = Array | Mapping[str, Array]
Infos = list[dict[str, Any]]


class Answer(NamedTuple):
    """What a group of environments answers to a step; valid until the group's next answer.

    Attributes:
        obs: (n, ...) observations, by key for Dict spaces.
        rewards: (n,) float32.
        dones: (n,) bool.
        infos: One dict per row, as in Stable-Baselines3.
    """

    obs: Any
    rewards: Array
    dones: Array
    infos: Infos


@runtime_checkable
class GroupedEnv(Protocol):
    """A vector environment whose groups of rows step on their own, one ahead of another."""

    row_groups: Sequence[slice]

    def send_group(self, group: int, actions: Array) -> None:
        """Sends one group its actions."""

    def receive_group(self, group: int) -> tuple[Any, Array, Array, Infos]:
        """Waits for one group's observations, rewards, dones and infos."""


class OneGroup:
    """Any other vector environment."""

    def __init__(self, env: VecEnv) -> None:
        self._env = env
        self.row_groups: Sequence[slice] = [slice(0, env.num_envs)]

    def send_group(self, group: int, actions: Array) -> None:
        """Sends all rows their actions."""
        self._env.step_async(actions)

    def receive_group(self, group: int) -> tuple[Any, Array, Array, Infos]:
        """Waits for all."""
        return self._env.step_wait()


@dataclass
class Step:
    """A step of all rows, as callbacks see it in their ``locals``."""

    new_obs: Any
    actions: Array
    rewards: Array
    dones: Array
    infos: Infos = field(default_factory=list)


class Actor:
    """Chooses the actions of groups of rows.

    Args:
        encoder: Makes features of observations.
        mlp: The network.
        views: Of its parameters.
        distribution: How its output is read.
        space: The action space.
        groups: The groups of rows.
    """

    def __init__(
        self,
        encoder: ObsEncoder,
        mlp: Mlp,
        views: Sequence[npt.NDArray[np.float32]],
        distribution: Distribution,
        space: spaces.Space[Any],
        groups: Sequence[slice],
    ) -> None:
        self._encode, self._draw = encoder.encode, distribution.draw
        self._rows = [group.stop - group.start for group in groups]
        self._forwards = [FastForward(mlp, views, rows) for rows in self._rows]
        self._limits = (space.low, space.high) if isinstance(space, spaces.Box) else None
        self._shape = space.shape or ()

    def act(self, group: int, obs: Obs, noise: Array) -> tuple[Array, Array]:
        """Actions as drawn, (n, width), and as the environment takes them."""
        rows = self._rows[group]
        drawn = self._draw(self._forwards[group](self._encode(obs, rows)), noise)
        shaped = drawn.reshape(rows, *self._shape)
        return drawn, shaped if self._limits is None else np.clip(shaped, *self._limits)


class Collector:
    """Fills a rollout buffer; stopped early, it leaves no environment unanswered.

    With an environment in groups, each group gets its next actions as soon as it has answered, and what
    there is to write down is written down while it simulates. Every action is drawn with the noise of
    its own step and row, so groups do not change what is drawn.

    Args:
        env: The environment.
        actor: Chooses the actions.
        noise: (T, N, width), of each step and row.
        buffer: Observations, actions, rewards and episode starts are written into it; the rest is not.
        timer: Told where the time went.
    """

    def __init__(
        self,
        env: GroupedEnv | OneGroup,
        actor: Actor,
        noise: Array,
        buffer: RolloutBuffer | DictRolloutBuffer,
        timer: Timer,
    ) -> None:
        self._env, self._actor, self._noise, self._buffer, self.timer = env, actor, noise, buffer, timer
        self._groups = list(enumerate(env.row_groups))
        self._looks_ahead = not isinstance(env, OneGroup)
        named = buffer.observations if isinstance(buffer.observations, dict) else {None: buffer.observations}
        self._stores: dict[str | None, Array] = named  # type: ignore[assignment]
        self._drawn: list[Array] = [noise[0]] * len(self._groups)
        self._policy_s = self._buffer_s = 0.0
        self.cut_off: list[tuple[int, int, Any]] = []
        """(step, row, last observation) of every episode that a time limit ended."""

    def start(self, obs: Obs, starts: Array) -> None:
        """Gives the first step's observations (N, ...) and which of them begin an episode."""
        self._obs = [_rows(obs, rows) for _, rows in self._groups]
        if self._looks_ahead:
            for group, _ in self._groups:
                self._send(group, 0)
        self._store_obs(0, slice(None), obs, starts)

    def step(self, t: int, last: bool) -> Step:
        """Brings step ``t`` to its end, and with environments in groups begins the next unless ``last``."""
        if not self._looks_ahead:
            self._send(0, t)
        drawn = list(self._drawn)
        return _merge([self._step_group(group, rows, t, last) for group, rows in self._groups], drawn)

    def drain(self) -> Step | None:
        """Waits for whatever has been sent and not been answered."""
        if not self._looks_ahead:
            return None
        return _merge([Answer(*self._env.receive_group(group)) for group, _ in self._groups], self._drawn)

    def tell_times(self) -> None:
        """Adds this rollout's times to the timer."""
        self.timer.child("policy").add(self._policy_s)
        self.timer.child("buffer").add(self._buffer_s)

    def _send(self, group: int, t: int) -> None:
        started = perf_counter()
        rows = self._groups[group][1]
        self._drawn[group], actions = self._actor.act(group, self._obs[group], self._noise[t, rows])
        self._policy_s += perf_counter() - started
        self._env.send_group(group, actions)

    def _step_group(self, group: int, rows: slice, t: int, last: bool) -> Answer:
        answer = Answer(*self._env.receive_group(group))
        drawn, self._obs[group] = self._drawn[group], answer.obs
        if self._looks_ahead and not last:
            self._send(group, t + 1)
        started = perf_counter()
        if not last:
            self._store_obs(t + 1, rows, answer.obs, answer.dones)
        self._buffer.actions[t, rows] = drawn
        self._buffer.rewards[t, rows] = answer.rewards
        if answer.dones.any():
            self._note_cut_off(t, rows.start, answer)
        self._buffer_s += perf_counter() - started
        return answer

    def _store_obs(self, t: int, rows: slice, obs: Any, starts: Array) -> None:
        for key, store in self._stores.items():
            place = store[t, rows]
            place[...] = (obs if key is None else obs[key]).reshape(place.shape)
        self._buffer.episode_starts[t, rows] = starts

    def _note_cut_off(self, t: int, first_row: int, answer: Answer) -> None:
        for row in np.flatnonzero(answer.dones):
            info = answer.infos[row]
            last = info.get("terminal_observation")
            if last is not None and info.get("TimeLimit.truncated", False):
                self.cut_off.append((t, first_row + int(row), last))


def _merge(answers: list[Answer], drawn: list[Array]) -> Step:
    if len(answers) == 1:
        return Step(answers[0].obs, drawn[0], *answers[0][1:])
    return Step(
        _joined([answer.obs for answer in answers]),
        np.concatenate(drawn),
        np.concatenate([answer.rewards for answer in answers]),
        np.concatenate([answer.dones for answer in answers]),
        [info for answer in answers for info in answer.infos],
    )


def _rows(obs: Any, rows: slice) -> Any:
    return {key: block[rows] for key, block in obs.items()} if isinstance(obs, Mapping) else obs[rows]


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], Mapping):
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return np.concatenate(parts)
