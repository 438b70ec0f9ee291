"""Stable-Baselines3's networks as data: layers that name their parameters by place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from godot_parallel.fused.fallback import UnsupportedError

Array = npt.NDArray[np.float32]


class Layer(NamedTuple):
    """``activation(x @ weight.T + bias)``.

    Attributes:
        weight: Place of the (out, in) matrix among the parameters.
        bias: Place of the (out,) vector.
        activation: A name from ``ACTIVATIONS``.
    """

    weight: int
    bias: int
    activation: str


Mlp = tuple[Layer, ...]

ACTIVATIONS: dict[type[nn.Module], str] = {
    nn.Tanh: "tanh",
    nn.ReLU: "relu",
    nn.ELU: "elu",
    nn.LeakyReLU: "leaky_relu",
    nn.SiLU: "silu",
    nn.Identity: "identity",
}
_DEFAULTS = {nn.ELU: {"alpha": 1.0}, nn.LeakyReLU: {"negative_slope": 0.01}}


class Places:
    """Finds a parameter's place in a fixed order.

    Args:
        parameters: All parameters, in the optimizer's order.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._places = {id(parameter): place for place, parameter in enumerate(parameters)}

    def of(self, parameter: torch.Tensor) -> int:
        """The place.

        Raises:
            UnsupportedError: It is not one of them.
        """
        if id(parameter) not in self._places:
            raise UnsupportedError("the optimizer does not hold all of the network's parameters")
        return self._places[id(parameter)]

    def mlp(self, modules: Iterable[nn.Module]) -> Mlp:
        """Reads a chain of linear layers and activations.

        Raises:
            UnsupportedError: There is anything else in it.
        """
        layers: list[Layer] = []
        for module in modules:
            if type(module) is nn.Linear and module.bias is not None:
                layers.append(Layer(self.of(module.weight), self.of(module.bias), "identity"))
            elif layers and layers[-1].activation == "identity":
                layers[-1] = layers[-1]._replace(activation=_activation(module))
            else:
                raise UnsupportedError(f"the network holds a {type(module).__name__}")
        return tuple(layers)


def _activation(module: nn.Module) -> str:
    kind = type(module)
    usual = _DEFAULTS.get(kind, {})
    if kind not in ACTIVATIONS or any(getattr(module, name) != value for name, value in usual.items()):
        raise UnsupportedError(f"the network holds the activation {module}")
    return ACTIVATIONS[kind]


def apply(mlp: Mlp, parameters: Sequence[Any], x: Any) -> Any:
    """Runs a network on (n, in) inputs inside a JAX program; returns (n, out)."""
    import jax

    functions: dict[str, Callable[[Any], Any]] = {
        "tanh": jax.numpy.tanh,
        "relu": jax.nn.relu,
        "elu": jax.nn.elu,
        "leaky_relu": jax.nn.leaky_relu,
        "silu": jax.nn.silu,
        "identity": lambda y: y,
    }
    for layer in mlp:
        x = functions[layer.activation](x @ parameters[layer.weight].T + parameters[layer.bias])
    return x


def _elu(x: Array) -> None:
    np.copyto(x, np.expm1(np.minimum(x, 0)), where=x < 0)


_IN_PLACE: dict[str, Callable[[Array], object]] = {
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, 0, out=x),
    "elu": _elu,
    "leaky_relu": lambda x: np.maximum(x, 0.01 * x, out=x),
    "silu": lambda x: np.divide(x, 1 + np.exp(-x), out=x),
    "identity": lambda x: None,
}


class FastForward:
    """Runs a network on a fixed number of rows with NumPy, into buffers that are used again.

    Args:
        mlp: The network.
        parameters: Views of its parameters; changes to them are seen at the next call.
        rows: Rows of every input.
    """

    def __init__(self, mlp: Mlp, parameters: Sequence[Array], rows: int) -> None:
        self._layers = [
            (
                parameters[layer.weight].T,
                parameters[layer.bias],
                np.empty((rows, len(parameters[layer.bias])), np.float32),
                _IN_PLACE[layer.activation],
            )
            for layer in mlp
        ]

    def __call__(self, x: Array) -> Array:
        """The (rows, out) output for (rows, in) inputs; valid until the next call."""
        for weight, bias, out, activate in self._layers:
            np.matmul(x, weight, out=out)
            out += bias
            activate(out)
            x = out
        return x
