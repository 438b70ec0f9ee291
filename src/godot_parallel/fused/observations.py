"""Observations as the (n, features) matrix that Stable-Baselines3's extractors make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor, FlattenExtractor

from godot_parallel.fused.fallback import UnsupportedError

Array = npt.NDArray[Any]


class Part(NamedTuple):
    """One key's columns.

    Attributes:
        key: Its name; empty if the space is no Dict.
        columns: Where they lie.
        choices: How many each of its numbers can take, written one-hot; empty for plain numbers.
    """

    key: str
    columns: slice
    choices: tuple[int, ...]


class ObsEncoder:
    """Flattens and joins observations.

    Args:
        space: The observation space.
        extractor: The policy's features extractor.

    Raises:
        UnsupportedError: It is not one of the two that only flatten, or there are images.
    """

    def __init__(self, space: spaces.Space[Any], extractor: BaseFeaturesExtractor) -> None:
        if type(extractor) is FlattenExtractor:
            named = {"": space}
        elif type(extractor) is CombinedExtractor and isinstance(space, spaces.Dict):
            named = {key: space[key] for key in extractor.extractors}
        else:
            raise UnsupportedError(f"the features extractor is a {type(extractor).__name__}")
        self.parts: list[Part] = []
        self.size = 0
        for key, subspace in named.items():
            width, choices = _width(key, subspace)
            self.parts.append(Part(key, slice(self.size, self.size + width), choices))
            self.size += width
        self._plain = len(self.parts) == 1 and not self.parts[0].choices

    def encode(self, obs: Array | Mapping[str, Array], rows: int) -> npt.NDArray[np.float32]:
        """The (rows, features) matrix; the caller's own numbers where nothing has to change."""
        if self._plain:
            only = obs[self.parts[0].key] if isinstance(obs, Mapping) else obs
            return np.asarray(only, np.float32).reshape(rows, self.size)
        out = np.zeros((rows, self.size), np.float32)
        for part in self.parts:
            block = np.asarray(obs[part.key] if isinstance(obs, Mapping) else obs).reshape(rows, -1)
            if part.choices:
                _one_hot(block, part, out)
            else:
                out[:, part.columns] = block
        return out


def _width(key: str, space: spaces.Space[Any]) -> tuple[int, tuple[int, ...]]:
    if is_image_space(space, check_channels=False):
        raise UnsupportedError(f"observation '{key}' is an image" if key else "the observation is an image")
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape)), ()
    if isinstance(space, spaces.Discrete):
        return int(space.n), (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        choices = tuple(int(n) for n in space.nvec)
        return sum(choices), choices
    raise UnsupportedError(f"observation '{key}' is a {type(space).__name__}")


def _one_hot(block: Array, part: Part, out: npt.NDArray[np.float32]) -> None:
    rows = np.arange(len(block))
    start = part.columns.start
    for column, n in enumerate(part.choices):
        out[rows, start + block[:, column].astype(np.int64)] = 1
        start += n
