"""Where Stable-Baselines3's own code has to do the work."""

from __future__ import annotations

import copy
from collections.abc import Callable

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import recursive_getattr

from godot_parallel.errors import DivergedError


class UnsupportedError(Exception):
    """Says why the compiled code can't be used; never leaves this package."""


def train_or_restore(model: BaseAlgorithm, train: Callable[[], None]) -> None:
    """Calls Stable-Baselines3's ``train``; what it makes of a policy must be finite.

    Raises:
        DivergedError: It is not; the policy is as it was.
    """
    before = copy.deepcopy(model.get_parameters())
    loose = [recursive_getattr(model, name) for name in model._get_torch_save_params()[1]]
    values = [tensor.detach().clone() for tensor in loose]
    problem: Exception | None = None
    try:
        train()
    except ValueError as error:  # torch's distributions refuse NaN
        problem = error
    if not all(bool(p.isfinite().all()) for p in model.policy.parameters()):
        model.set_parameters(before)  # type: ignore[arg-type]
        for tensor, value in zip(loose, values, strict=True):
            tensor.data.copy_(value)
        raise DivergedError("the update's parameters are not finite", {}) from problem
    if problem:
        raise problem
