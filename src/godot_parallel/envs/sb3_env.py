"""The batch as a Stable-Baselines3 ``VecEnv``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from godot_parallel.engine.seeding import Purpose, spawn_seed
from godot_parallel.envs.actions import ActionFace
from godot_parallel.envs.batch import Array, Batch, Obs, Transition


class GodotSb3VecEnv(VecEnv):
    """Agents as Stable-Baselines3 expects them: Dict observations, one action space.

    ``infos`` hold ``terminal_observation``, ``TimeLimit.truncated`` and ``episode`` (return ``r``, length
    ``l`` in steps, seconds ``t`` since the environment was made) where an episode ended, and what the game
    tells. ``seed()`` takes effect at the next ``reset()``.

    ``row_groups``, ``send_group`` and ``receive_group`` step parts of the rows on their own.

    Args:
        batch: The games; closed with the environment.
        purpose: Which of the three disjoint sets of random streams ``seed()`` chooses from.
    """

    def __init__(self, batch: Batch, purpose: Purpose = "train") -> None:
        self.batch = batch
        self.purpose = purpose
        self.face = ActionFace(batch.spec.actions)
        self._next_seed: int | None = None
        self.next_episodes: Sequence[int] | None = None
        self.row_groups = [group.rows for group in batch.groups]
        self._started = time.time()
        self._returns = np.zeros(batch.n_rows)
        self._lengths = np.zeros(batch.n_rows, np.int64)
        super().__init__(batch.n_rows, batch.spec.observation_space, self.face.space)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Chooses the random streams from the next reset on."""
        if seed is not None:
            self._next_seed = spawn_seed(seed, self.purpose)
        return [seed] * self.num_envs

    def reset(self) -> Any:
        """Begins a new episode everywhere; observations by key, (N, *shape)."""
        obs = self.batch.reset(self._next_seed, self.next_episodes)
        self._next_seed = None
        self._returns[:], self._lengths[:] = 0, 0
        self._reset_options()
        return {name: block.copy() for name, block in obs.items()}

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Sends all agents their actions."""
        self.batch.send(self.face.split(np.asarray(actions)))

    def step_wait(self) -> VecEnvStepReturn:
        """Waits for all; arrays are copies."""
        obs, reward, done, infos = self._read(self.batch.receive(), slice(0, self.num_envs))
        return {name: block.copy() for name, block in obs.items()}, reward.copy(), done, infos

    def send_group(self, group: int, actions: npt.NDArray[Any]) -> None:
        """Sends the agents of one of the ``row_groups`` their actions, (n, ...)."""
        self.batch.send(self.face.split(actions), self.batch.groups[group])

    def receive_group(self, group: int) -> tuple[Obs, Array, Array, list[dict[str, Any]]]:
        """Waits for one of the ``row_groups``; arrays are views, valid until its next answer."""
        part = self.batch.groups[group]
        return self._read(self.batch.receive(part), part.rows)

    def _read(self, t: Transition, rows: slice) -> tuple[Obs, Array, Array, list[dict[str, Any]]]:
        infos: list[dict[str, Any]] = [{} for _ in range(len(t.reward))]
        for told_row, info in t.infos.items():
            infos[told_row].update(info)
        done = t.terminated | t.truncated
        self._returns[rows] += t.reward
        self._lengths[rows] += 1
        for i, row in enumerate(t.final_rows):
            infos[row]["terminal_observation"] = {name: block[i] for name, block in t.final_obs.items()}
            infos[row]["TimeLimit.truncated"] = bool(t.truncated[row] and not t.terminated[row])
            infos[row]["episode"] = self._end_episode(rows.start + int(row))
        return t.obs, t.reward, done, infos

    def _end_episode(self, row: int) -> dict[str, Any]:
        told = {
            "r": float(self._returns[row]),
            "l": int(self._lengths[row]),
            "t": round(time.time() - self._started, 6),
        }
        self._returns[row], self._lengths[row] = 0, 0
        return told

    def close(self) -> None:
        """Ends the games; may be called twice."""
        self.batch.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Reads a property of the agents' scripts in the game; of this object if it has it."""
        rows = self._rows(indices)
        if attr_name in ("render_mode", "spec"):
            return [None] * len(rows)
        if hasattr(type(self), attr_name) or attr_name in self.__dict__:
            return [getattr(self, attr_name)] * len(rows)
        return self.batch.call("get", attr_name, (), rows)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets a property of the agents' scripts in the game."""
        self.batch.call("set", attr_name, (value,), self._rows(indices))

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of the agents' scripts in the game; it takes no keyword arguments."""
        if method_kwargs:
            raise TypeError(f"{method_name}: methods in the game take no keyword arguments: {method_kwargs}")
        return self.batch.call("call", method_name, method_args, self._rows(indices))

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """Games are never wrapped one by one."""
        return [False] * len(self._rows(indices))

    def _rows(self, indices: VecEnvIndices) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [int(i) for i in indices] if isinstance(indices, Iterable) else [int(indices)]
