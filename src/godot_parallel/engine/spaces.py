"""What agents observe and do: parsed from a game's answer to ``env_info``, bounded before use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from godot_parallel.errors import EnvironmentDataError, ProtocolError

MAX_AGENTS = 65_536
MAX_KEYS = 256
MAX_ELEMENTS = 16 * 1024 * 1024
MAX_RATE = 100_000
MAX_STEP_BYTES = 1 << 30


@dataclass(frozen=True)
class ObsKey:
    """One named observation of an agent.

    Attributes:
        name: Key in the observation dictionary.
        shape: Shape for one agent; ``()`` for a discrete observation.
        dtype: ``float32``; ``uint8`` for images; ``int64`` for a discrete observation.
        low: Lower bound that the game states.
        high: Upper bound that the game states.
        discrete_n: Number of values of a discrete observation.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: float = -math.inf
    high: float = math.inf
    discrete_n: int | None = None

    @property
    def size(self) -> int:
        """Numbers per agent."""
        return math.prod(self.shape)

    @property
    def wire_dtype(self) -> np.dtype[Any]:
        """Type of an element in binary frames."""
        return np.dtype(np.uint8) if self.dtype == np.uint8 else np.dtype("<f4")

    @property
    def space(self) -> spaces.Space[Any]:
        """The Gymnasium space of one agent."""
        if self.discrete_n is not None:
            return spaces.Discrete(self.discrete_n)
        if self.dtype == np.uint8:
            return spaces.Box(0, 255, self.shape, np.uint8)
        return spaces.Box(self.low, self.high, self.shape, np.float32)

    @classmethod
    def parse(cls, name: str, entry: Any) -> ObsKey:
        """Reads one entry of an observation space.

        Raises:
            ProtocolError: The entry is malformed or too large.
        """
        kind, size = _field(entry, "space", name), _field(entry, "size", name)
        if kind == "discrete":
            return cls(name, (), np.dtype(np.int64), discrete_n=_positive(size, name))
        if kind != "box" or not isinstance(size, list):
            raise ProtocolError(f"observation '{name}': expected a box or discrete space, found {entry!r}")
        shape = tuple(_positive(n, name) for n in size)
        if math.prod(shape) > MAX_ELEMENTS:
            raise ProtocolError(f"observation '{name}' has {math.prod(shape)} elements; limit {MAX_ELEMENTS}")
        if "2d" in name:
            return cls(name, shape, np.dtype(np.uint8), 0, 255)
        low, high = float(entry.get("low", -math.inf)), float(entry.get("high", math.inf))
        if not low < high:
            raise ProtocolError(f"observation '{name}': expected low below high, found {low} and {high}")
        return cls(name, shape, np.dtype(np.float32), low, high)


@dataclass(frozen=True)
class ActionKey:
    """One named action: ``size`` numbers in -1..1, or one of ``size`` choices."""

    name: str
    kind: Literal["continuous", "discrete"]
    size: int

    @property
    def wire_width(self) -> int:
        """4-byte elements per agent in binary frames."""
        return self.size if self.kind == "continuous" else 1

    @property
    def wire_dtype(self) -> np.dtype[Any]:
        """Type of an element in binary frames."""
        return np.dtype("<f4") if self.kind == "continuous" else np.dtype("<i4")

    @classmethod
    def parse(cls, name: str, entry: Any) -> ActionKey:
        """Reads one entry of an action space.

        Raises:
            ProtocolError: The entry is malformed or too large.
        """
        kind = _field(entry, "action_type", name)
        if kind not in ("continuous", "discrete"):
            raise ProtocolError(f"action '{name}': expected continuous or discrete, found {kind!r}")
        return cls(name, kind, _positive(_field(entry, "size", name), name))


@dataclass(frozen=True)
class EnvSpec:
    """Everything a game tells about itself in the handshake; all agents have the same spaces.

    Attributes:
        n_agents: Rows of the batch that this spec describes.
        obs: Observation keys in the game's order.
        actions: Action keys in the game's order.
        policy_names: One per agent.
        instance_of: Instance (0-based, within the process) of each agent.
        agent_paths: Scene path of each agent.
        instances: Copies of the environment.
        native: Whether the game has our addon.
        ticks_per_second: The project's own tick rate; 60 where the game does not tell.
        action_repeat: Ticks per step; ``None`` where the game does not tell.
        isolation: ``world``, ``grid``, ``scene`` (hand-made copies), or ``None``.
        engine: Version of Godot.
        addon: Version of the addon.
        notes: What the game wants to be known, in words.
        token: What the game shows to prove that we started it.
    """

    n_agents: int
    obs: tuple[ObsKey, ...]
    actions: tuple[ActionKey, ...]
    policy_names: tuple[str, ...]
    instance_of: tuple[int, ...]
    agent_paths: tuple[str, ...]
    instances: int
    native: bool
    ticks_per_second: int = 60
    action_repeat: int | None = None
    isolation: str | None = None
    engine: str = "unknown"
    addon: str = "none"
    notes: tuple[str, ...] = ()
    token: str = ""

    @property
    def observation_space(self) -> spaces.Dict:
        """The observation space of one agent, keys in the game's order."""
        return spaces.Dict([(key.name, key.space) for key in self.obs])

    @classmethod
    def from_env_info(cls, message: Mapping[str, Any]) -> EnvSpec:
        """Parses the answer to ``env_info``.

        Raises:
            ProtocolError: The answer is malformed, or exceeds a limit.
            EnvironmentDataError: Agents disagree in spaces, or there are none.
        """
        try:
            return cls._parse(message)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProtocolError(f"the answer to env_info is malformed: {error}") from error

    @classmethod
    def _parse(cls, message: Mapping[str, Any]) -> EnvSpec:
        n = _field(message, "n_agents", "env_info")
        if not isinstance(n, int) or not 0 <= n <= MAX_AGENTS:
            raise ProtocolError(f"n_agents: expected 1 to {MAX_AGENTS}, found {n!r}")
        if n == 0:
            raise EnvironmentDataError("the game has no agents: add an AIController2D or 3D to its scene")
        own = message.get("godot_parallel")
        own = own if isinstance(own, dict) else {}
        who = own.get("agents")
        who = who if isinstance(who, list) and len(who) == n else [{}] * n
        paths = tuple(str(entry.get("path", f"agent {i}")) for i, entry in enumerate(who))
        obs = _common(message, "observation_space", n, paths)
        actions = _common(message, "action_space", n, paths)
        names = message.get("agent_policy_names") or ["shared_policy"] * n
        instances = _bounded("instances", own.get("instances", n), MAX_AGENTS)
        instance_of = tuple(int(entry.get("instance", i)) for i, entry in enumerate(who))
        if len(names) != n or not all(0 <= i < instances for i in instance_of):
            raise ProtocolError(
                f"expected a policy name and an instance below {instances} for each of {n} agents"
            )
        spec = cls(
            n_agents=n,
            obs=tuple(ObsKey.parse(k, v) for k, v in obs.items()),
            actions=tuple(ActionKey.parse(k, v) for k, v in actions.items()),
            policy_names=tuple(str(name) for name in names),
            instance_of=instance_of,
            agent_paths=paths,
            instances=instances,
            native=bool(own),
            ticks_per_second=_bounded("ticks_per_second", own.get("ticks_per_second", 60), MAX_RATE),
            action_repeat=_bounded("action_repeat", own["action_repeat"], MAX_RATE)
            if "action_repeat" in own
            else None,
            isolation=own.get("isolation"),
            engine=str(own.get("engine", "unknown")),
            addon=str(own.get("addon", "none")),
            notes=tuple(str(note) for note in own.get("notes", [])),
            token=str(own.get("token", "")),
        )
        step_bytes = n * sum(key.size * key.wire_dtype.itemsize for key in spec.obs)
        if step_bytes > MAX_STEP_BYTES:
            raise ProtocolError(
                f"the observations of one step have {step_bytes} bytes; limit {MAX_STEP_BYTES}"
            )
        return spec


def flatten(key: ObsKey, rows: int) -> npt.NDArray[Any]:
    """An empty array (rows, size) with the wire's type for one observation key."""
    return np.zeros((rows, key.size), key.wire_dtype)


def _common(message: Mapping[str, Any], name: str, n: int, paths: tuple[str, ...]) -> dict[str, Any]:
    entry = _field(message, name, "env_info")
    spaces_of = entry if isinstance(entry, list) else [entry] * n
    if len(spaces_of) != n or not all(isinstance(space, dict) and space for space in spaces_of):
        raise ProtocolError(f"{name}: expected one object for each of {n} agents, found {entry!r:.200}")
    if len(spaces_of[0]) > MAX_KEYS:
        raise ProtocolError(f"{name} has {len(spaces_of[0])} keys; limit {MAX_KEYS}")
    for i, space in enumerate(spaces_of):
        if list(space.items()) != list(spaces_of[0].items()):
            raise EnvironmentDataError(
                f"agents disagree in {name}: {paths[0]} has {spaces_of[0]}, {paths[i]} has {space}; "
                "all agents that share a policy need the same keys and sizes"
            )
    return dict(spaces_of[0])


def _field(entry: Any, name: str, where: str) -> Any:
    if not isinstance(entry, Mapping) or name not in entry:
        raise ProtocolError(f"'{where}': expected an object with the field {name!r}, found {entry!r:.200}")
    return entry[name]


def _bounded(name: str, value: Any, limit: int) -> int:
    number = int(value)
    if not 1 <= number <= limit:
        raise ProtocolError(f"{name}: expected 1 to {limit}, found {value!r}")
    return number


def _positive(value: Any, where: str) -> int:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != int(value) or value < 1:
        raise ProtocolError(f"'{where}': expected a size of at least 1, found {value!r}")
    if value > MAX_ELEMENTS:
        raise ProtocolError(f"'{where}': size {value} exceeds the limit {MAX_ELEMENTS}")
    return int(value)
