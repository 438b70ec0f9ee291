"""Random streams: one for every (seed, purpose, environment, episode, agent).

The engine computes the same numbers (``streams.gd``); docs/protocol.md gives the formula. The mixer is
that of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from godot_parallel.errors import UsageError

Purpose = Literal["train", "select", "report"]
_PURPOSES: tuple[Purpose, ...] = ("train", "select", "report")
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def spawn_seed(seed: int, purpose: Purpose) -> int:
    """The 64-bit base seed that a user's ``seed`` gives for one purpose.

    Training, choosing the best model, and the report never share a base seed.
    """
    if seed < 0:
        raise UsageError(f"seed: expected at least 0, found {seed}")
    sequence = np.random.SeedSequence(seed, spawn_key=(_PURPOSES.index(purpose),))
    return int(sequence.generate_state(1, np.uint64)[0])


def episode_seed(base: int, environment: int, episode: int, agent: int = 0) -> int:
    """The 64-bit seed of one agent's episode in one environment."""
    result = _mix(base + ((environment << 32) + episode + 1) * _GOLDEN)
    return result if agent == 0 else _mix(result + agent * _GOLDEN)


def _mix(z: int) -> int:
    z &= _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)
