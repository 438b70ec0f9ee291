"""One action space for learners that take only one: from many named actions, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from godot_parallel.engine.spaces import ActionKey


class ActionFace:
    """Joins an agent's named actions into one space.

    All continuous: one Box of all their numbers, in the game's order. All discrete: Discrete for one,
    MultiDiscrete for several. Mixed: one Box, where a discrete action of n choices takes n numbers, and
    the largest wins.
    """

    def __init__(self, keys: tuple[ActionKey, ...]) -> None:
        self.keys = keys
        self._discrete = all(key.kind == "discrete" for key in keys)
        widths = [key.wire_width if self._discrete else key.size for key in keys]
        self._splits = np.cumsum(widths)[:-1]
        self.space = self._space()

    def _space(self) -> spaces.Space[Any]:
        if not self._discrete:
            return spaces.Box(-1.0, 1.0, (sum(key.size for key in self.keys),), np.float32)
        if len(self.keys) == 1:
            return spaces.Discrete(self.keys[0].size)
        return spaces.MultiDiscrete([key.size for key in self.keys])

    def split(self, actions: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Actions of the one space, (N, ...), as named actions for :meth:`Batch.send`."""
        flat = actions.reshape(len(actions), -1)
        parts = np.split(flat, self._splits, axis=1)
        return {key.name: self._part(key, part) for key, part in zip(self.keys, parts, strict=True)}

    def _part(self, key: ActionKey, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if key.kind == "continuous" or self._discrete:
            return part
        largest: npt.NDArray[Any] = part.argmax(axis=1, keepdims=True)
        return largest

    def sample(self, rng: np.random.Generator, rows: int) -> npt.NDArray[Any]:
        """Random actions of the one space for ``rows`` agents."""
        if not self._discrete:
            uniform: npt.NDArray[Any] = rng.uniform(-1, 1, (rows, *(self.space.shape or ())))
            return uniform.astype(np.float32)
        sizes = [key.size for key in self.keys]
        choices: npt.NDArray[Any] = rng.integers(0, sizes, (rows, len(sizes)))
        return choices[:, 0] if len(sizes) == 1 else choices
