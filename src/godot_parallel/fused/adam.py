"""torch's Adam as flat vectors, so that a compiled program can go on where torch was, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from godot_parallel.fused.fallback import UnsupportedError

Array = npt.NDArray[np.float32]


class AdamState(NamedTuple):
    """Parameters and moments, each a (P,) float32 vector; in NumPy or inside a JAX program."""

    parameters: Any
    mean: Any
    square: Any


class AdamRates(NamedTuple):
    """What scales step number t, computed in double precision: 1 - 0.999 has five digits in float32.

    Attributes:
        step_size: (n,) float32, ``lr / (1 - beta1**t)``.
        root_bias: (n,) float32, ``sqrt(1 - beta2**t)``.
    """

    step_size: Any
    root_bias: Any


class AdamRules(NamedTuple):
    """What does not change from step to step."""

    beta1: float
    beta2: float
    eps: float


def adam_step(state: AdamState, gradient: Any, rates: AdamRates, rules: AdamRules) -> AdamState:
    """One step in a JAX program, in the order of operations of ``torch.optim.Adam``."""
    import jax.numpy as jnp

    mean = state.mean + (gradient - state.mean) * (1 - rules.beta1)
    square = state.square * rules.beta2 + (1 - rules.beta2) * gradient * gradient
    root = jnp.sqrt(square) / rates.root_bias + rules.eps
    return AdamState(state.parameters - rates.step_size * mean / root, mean, square)


class TorchAdam:
    """A view of one optimizer: reads it as flat vectors, writes them back in place.

    Args:
        optimizer: The optimizer.

    Raises:
        UnsupportedError: It is not plain Adam over float32 parameters on the CPU.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        if type(optimizer) is not torch.optim.Adam or len(optimizer.param_groups) != 1:
            raise UnsupportedError(f"the optimizer is a {type(optimizer).__name__}, not a plain Adam")
        self.optimizer = optimizer
        self._group = optimizer.param_groups[0]
        for name in ("weight_decay", "amsgrad", "maximize"):
            if self._group.get(name):
                raise UnsupportedError(f"the optimizer uses {name}")
        self.parameters: list[torch.nn.Parameter] = self._group["params"]
        if any(p.dtype != torch.float32 or p.device.type != "cpu" for p in self.parameters):
            raise UnsupportedError("the parameters are not float32 on the CPU")
        self.views: list[Array] = [p.detach().numpy() for p in self.parameters]
        self.shapes = tuple(view.shape for view in self.views)

    @property
    def rules(self) -> AdamRules:
        """Betas and epsilon as they are now."""
        beta1, beta2 = self._group["betas"]
        return AdamRules(float(beta1), float(beta2), float(self._group["eps"]))

    @property
    def steps(self) -> int:
        """Steps taken so far.

        Raises:
            UnsupportedError: Not all parameters have taken the same number.
        """
        states = self.optimizer.state
        taken = {float(states[p]["step"]) if p in states else 0.0 for p in self.parameters}
        if len(taken) != 1:
            raise UnsupportedError("the optimizer's parameters have taken different numbers of steps")
        return int(taken.pop())

    def read(self) -> AdamState:
        """Copies of everything, flat."""
        state = self.optimizer.state
        if not state:
            parameters = _flat(self.views)
            return AdamState(parameters, np.zeros_like(parameters), np.zeros_like(parameters))
        moments = [[state[p][name].numpy() for p in self.parameters] for name in ("exp_avg", "exp_avg_sq")]
        return AdamState(_flat(self.views), *map(_flat, moments))

    def rates(self, n: int) -> AdamRates:
        """The scales of the next ``n`` steps."""
        t = self.steps + 1 + np.arange(n, dtype=np.float64)
        rules = self.rules
        step_size = self._group["lr"] / (1 - rules.beta1**t)
        return AdamRates(step_size.astype(np.float32), np.sqrt(1 - rules.beta2**t).astype(np.float32))

    def write(self, new: AdamState, steps_taken: int) -> None:
        """Makes the optimizer and its parameters as if they had taken these steps."""
        steps = self.steps + steps_taken
        flat = [np.asarray(vector) for vector in new]
        offset = 0
        for parameter, view in zip(self.parameters, self.views, strict=True):
            part = slice(offset, offset + view.size)
            offset += view.size
            view[...] = flat[0][part].reshape(view.shape)
            state = self.optimizer.state[parameter]
            if not state:
                state["step"] = torch.tensor(0.0)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            state["step"].fill_(steps)
            state["exp_avg"].numpy()[...] = flat[1][part].reshape(view.shape)
            state["exp_avg_sq"].numpy()[...] = flat[2][part].reshape(view.shape)


def _flat(blocks: list[Array]) -> Array:
    return np.concatenate([block.reshape(-1) for block in blocks])


def split(flat: Any, shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    """A flat vector's parameters in their shapes, in a JAX program."""
    parts, offset = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        parts.append(flat[offset : offset + size].reshape(shape))
        offset += size
    return parts


def join(parts: list[Any]) -> Any:
    """The flat vector of parameters or gradients, in a JAX program."""
    import jax.numpy as jnp

    return jnp.concatenate([part.reshape(-1) for part in parts])
