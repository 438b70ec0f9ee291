"""The batch as a ``gymnasium.vector.VectorEnv``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from godot_parallel.engine.process import EngineSettings
from godot_parallel.engine.seeding import Purpose, spawn_seed
from godot_parallel.envs.batch import Batch

Array = npt.NDArray[Any]


class GodotVectorEnv(VectorEnv):
    """Agents as Gymnasium expects them, with Dict observations and Dict actions.

    Reset rule: SAME_STEP. A step that ends an episode returns the next episode's first observation; the
    last one of the old is in ``infos["final_obs"]`` (by key, (N, *shape), zeros elsewhere), with the mask
    ``infos["_final_obs"]``; what the game tells at the end is in ``infos["final_info"]``.

    Args:
        settings: What to run, and how.
        purpose: Which of the three disjoint sets of random streams ``reset(seed=...)`` chooses from.
    """

    def __init__(self, settings: EngineSettings, purpose: Purpose = "train") -> None:
        self.batch = Batch(settings)
        self.purpose = purpose
        self.num_envs = self.batch.n_rows
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.single_observation_space = self.batch.spec.observation_space
        self.single_action_space = spaces.Dict(
            [
                (k.name, spaces.Box(-1, 1, (k.size,)) if k.kind == "continuous" else spaces.Discrete(k.size))
                for k in self.batch.spec.actions
            ]
        )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Begins a new episode everywhere; ``options["episodes"]`` may number them, (environments,)."""
        base = None if seed is None else spawn_seed(seed, self.purpose)
        obs = self.batch.reset(base, (options or {}).get("episodes"))
        return {name: block.copy() for name, block in obs.items()}, {}

    def step(self, actions: dict[str, Array]) -> tuple[dict[str, Array], Array, Array, Array, dict[str, Any]]:
        """One step of all agents; arrays are copies."""
        self.batch.send(actions)
        t = self.batch.receive()
        infos: dict[str, Any] = {}
        for row, info in t.infos.items():
            if row not in t.final_rows:
                infos = self._add_info(infos, info, row)
        if len(t.final_rows):
            self._add_final(infos, t.final_rows, t.final_obs)
            final: dict[str, Any] = {}
            for row in t.final_rows:
                final = self._add_info(final, t.infos.get(int(row), {}), int(row))
            infos["final_info"] = final
        obs = {name: block.copy() for name, block in t.obs.items()}
        return obs, t.reward.copy(), t.terminated.copy(), t.truncated.copy(), infos

    def _add_final(self, infos: dict[str, Any], rows: Array, final_obs: dict[str, Array]) -> None:
        mask = np.zeros(self.num_envs, bool)
        mask[rows] = True
        whole = {}
        for name, block in final_obs.items():
            whole[name] = np.zeros((self.num_envs, *block.shape[1:]), block.dtype)
            whole[name][rows] = block
        infos["final_obs"], infos["_final_obs"] = whole, mask

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the games."""
        self.batch.close()
