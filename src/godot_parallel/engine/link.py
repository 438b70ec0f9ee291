"""One game's requests and answers, in either dialect, written straight into its rows of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from godot_parallel.engine import protocol
from godot_parallel.engine.connection import Connection
from godot_parallel.engine.protocol import FrameLayout, Header, Kind, Tail
from godot_parallel.engine.spaces import EnvSpec, ObsKey
from godot_parallel.errors import EnvironmentDataError, ProtocolError

Array = npt.NDArray[Any]
NO_TAIL = Tail(np.empty(0, np.int64), [], {})


@dataclass
class Rows:
    """One process's rows of the batch arrays: contiguous views that answers are written into.

    Attributes:
        obs: By key, (n, size) in the wire's type.
        reward: (n,) float32.
        terminated: (n,) uint8.
        truncated: (n,) uint8.
    """

    obs: list[Array]
    reward: Array
    terminated: Array
    truncated: Array


@dataclass
class EngineTimes:
    """Seconds that engines have spent, summed over processes and steps.

    Attributes:
        physics_s: Physics and the game's scripts.
        observe_s: Collecting observations and rewards.
        encode_s: Packing them.
        wait_s: Waiting for the trainer.
        ticks: Physics ticks in steps.
        nodes: Nodes in the scene of the last process that answered.
    """

    physics_s: float = 0.0
    observe_s: float = 0.0
    encode_s: float = 0.0
    wait_s: float = 0.0
    ticks: int = 0
    nodes: int = 0

    def add(self, header: Header) -> None:
        """Adds the times of one answer."""
        self.physics_s += header.physics_us * 1e-6
        self.observe_s += header.observe_us * 1e-6
        self.encode_s += header.encode_us * 1e-6
        self.wait_s += header.wait_us * 1e-6
        self.ticks += header.ticks_in_step
        self.nodes = header.n_nodes


class Link(Protocol):
    """The two dialects look alike."""

    spec: EnvSpec
    connection: Connection

    def request_reset(self, first_environment: int, base_seed: int, episodes: Array) -> None:
        """Asks for new episodes."""

    def request_step(self, actions: list[Array]) -> None:
        """Asks for a step; one array (n, width) per action key."""

    def receive(self, rows: Rows, times: EngineTimes) -> Tail:
        """Waits for the answer, writes it into ``rows``."""

    def call(self, op: str, name: str, args: list[Any], agents: list[int]) -> list[Any]:
        """Calls a method, or gets or sets a property, of agents in the game."""

    def say_goodbye(self) -> None:
        """Asks the game to quit."""


@dataclass
class NativeLink:
    """Binary frames, with games that have our addon."""

    spec: EnvSpec
    connection: Connection
    layout: FrameLayout = field(init=False)

    def __post_init__(self) -> None:
        self.layout = FrameLayout.of(self.spec)
        self._fixed = 4 + self.layout.fixed_bytes
        self._head = bytearray(4 + protocol.HEADER_BYTES)
        self._buffers: list[memoryview] = []
        self._rows: Rows | None = None
        self._step = bytearray(self.layout.step_bytes)
        protocol.PREFIX.pack_into(self._step, 0, len(self._step) - 4)
        protocol.PREFIX.pack_into(self._step, 4, Kind.STEP)
        self._slots = self._action_slots()

    def _action_slots(self) -> list[Array]:
        slots, offset, n = [], 8, self.spec.n_agents
        for key in self.spec.actions:
            flat = np.frombuffer(self._step, key.wire_dtype, n * key.wire_width, offset)
            slots.append(flat.reshape(n, key.wire_width))
            offset += flat.nbytes
        return slots

    def request_reset(self, first_environment: int, base_seed: int, episodes: Array) -> None:
        """Sends RESET."""
        self.connection.send(protocol.encode_reset(first_environment, base_seed, episodes))

    def request_step(self, actions: list[Array]) -> None:
        """Sends STEP from a buffer that is used again."""
        for slot, values in zip(self._slots, actions, strict=True):
            slot[...] = values
        self.connection.send(self._step)

    def _scatter(self, rows: Rows) -> list[memoryview]:
        if self._rows is not rows:
            self._rows = rows
            blocks = [*rows.obs, rows.reward, rows.terminated, rows.truncated]
            self._buffers = [memoryview(self._head)]
            for block in blocks:
                flat = block.reshape(-1).data.cast("B")
                self._buffers.append(flat)
                if pad := protocol.padded(len(flat)) - len(flat):
                    self._buffers.append(memoryview(bytearray(pad)))
        return self._buffers

    def receive(self, rows: Rows, times: EngineTimes) -> Tail:
        """Receives a TRANSITION straight into ``rows``."""
        buffers = self._scatter(rows)
        got = self.connection.receive_some(buffers)
        (length,) = protocol.PREFIX.unpack_from(self._head)
        header = self._header(length, got)
        if got < self._fixed:
            self.connection.receive_into(buffers, got)
        times.add(header)
        tail_bytes = length - self.layout.fixed_bytes
        if tail_bytes == 0:
            return NO_TAIL
        return self.layout.parse_tail(header, self.connection.receive_bytes(tail_bytes))

    def _header(self, length: int, got: int) -> Header:
        kind = protocol.PREFIX.unpack_from(self._head, 4)[0]
        if kind == Kind.ERROR:
            self._raise_error(length, got)
        header = Header.parse(memoryview(self._head)[4:], self.spec.n_agents)
        expected = self.layout.fixed_bytes + self.layout.tail_bytes(header)
        if length != expected:
            self.connection.close()
            raise ProtocolError(f"a TRANSITION of {length} bytes was announced, {expected} expected")
        return header

    def _raise_error(self, length: int, got: int) -> NoReturn:
        """Raises what an ERROR frame tells; its text lies where a TRANSITION would, and beyond."""
        have = b"".join(self._buffers)[:got]
        rest = self.connection.receive_bytes(max(0, 4 + min(length, 65536) - got))
        text = (have + rest)[8 : 4 + length]
        raise EnvironmentDataError(f"the game can't go on: {text.decode(errors='replace').strip()}")

    def call(self, op: str, name: str, args: list[Any], agents: list[int]) -> list[Any]:
        """Sends CALL and waits for RETURNS."""
        self.connection.send(protocol.encode_call(op, name, args, agents))
        message = self.connection.receive_message()
        kind = protocol.PREFIX.unpack_from(message)[0] if len(message) >= 4 else 0
        if kind == Kind.ERROR:
            raise EnvironmentDataError(
                f"the game can't go on: {message[4:].decode(errors='replace').strip()}"
            )
        if kind != Kind.RETURNS:
            raise ProtocolError(f"expected the answer to a call ({Kind.RETURNS}), found kind {kind}")
        return _returns(protocol.decode_json(memoryview(message)[4:]), len(agents))

    def say_goodbye(self) -> None:
        """Sends CLOSE."""
        self.connection.send(protocol.CLOSE_FRAME)


@dataclass
class JsonLink:
    """JSON messages, with games that were exported with the plugin of Godot RL Agents.

    That protocol has one ``done`` for both kinds of end (read as terminated), and sends the next
    episode's observation with it: the final observation cannot be known.
    """

    spec: EnvSpec
    connection: Connection

    def __post_init__(self) -> None:
        self._is_reset = False

    def request_reset(self, first_environment: int, base_seed: int, episodes: Array) -> None:
        """Sends ``reset``; the old plugin takes its seed only at the start."""
        self._is_reset = True
        self.connection.send(protocol.encode_json({"type": "reset"}))

    def request_step(self, actions: list[Array]) -> None:
        """Sends ``action``."""
        keys = self.spec.actions
        lists = [
            a.tolist() if k.kind == "continuous" else a[:, 0].tolist()
            for k, a in zip(keys, actions, strict=True)
        ]
        rows = [dict(zip([k.name for k in keys], row, strict=True)) for row in zip(*lists, strict=True)]
        self.connection.send(protocol.encode_json({"type": "action", "action": rows}))

    def receive(self, rows: Rows, times: EngineTimes) -> Tail:
        """Receives a ``step`` or ``reset`` answer."""
        message = self.connection.receive_json()
        expected = "reset" if self._is_reset else "step"
        if message.get("type") != expected:
            raise ProtocolError(f"expected a message of type {expected!r}, found {message.get('type')!r}")
        self._fill_obs(rows, _per_agent(message, "obs", self.spec.n_agents))
        infos = _per_agent(message, "info", self.spec.n_agents) if message.get("info") else []
        tail = NO_TAIL
        if self._is_reset:
            rows.reward[:], rows.terminated[:] = 0, 0
        else:
            rows.reward[:] = _numbers(_per_agent(message, "reward", self.spec.n_agents))
            rows.terminated[:] = np.asarray(_per_agent(message, "done", self.spec.n_agents), bool)
            ended = np.flatnonzero(rows.terminated)
            told = {i: info for i, info in enumerate(infos) if isinstance(info, dict) and info}
            tail = Tail(ended, [block[ended].copy() for block in rows.obs], told)
            times.ticks += self.spec.action_repeat or 0
        rows.truncated[:] = 0
        self._is_reset = False
        return tail

    def _fill_obs(self, rows: Rows, observations: list[Mapping[str, Any]]) -> None:
        for key, block in zip(self.spec.obs, rows.obs, strict=True):
            try:
                block[...] = [_decode(key, obs[key.name]) for obs in observations]
            except (ValueError, TypeError, KeyError) as error:
                raise EnvironmentDataError(
                    f"observation '{key.name}' does not have {key.size} values for each agent: {error}"
                ) from error

    def call(self, op: str, name: str, args: list[Any], agents: list[int]) -> list[Any]:
        """Sends ``call``: methods without arguments, on all agents."""
        if op != "call" or args:
            raise ProtocolError(
                "games of Godot RL Agents' plugin only take calls of methods without arguments"
            )
        self.connection.send(protocol.encode_json({"type": "call", "method": name}))
        returns = _returns(self.connection.receive_json(), self.spec.n_agents)
        return [returns[i] for i in agents]

    def say_goodbye(self) -> None:
        """Sends ``close``."""
        self.connection.send(protocol.encode_json({"type": "close"}))


def _decode(key: ObsKey, value: Any) -> Any:
    if isinstance(value, str):
        image = np.frombuffer(bytes.fromhex(value), np.uint8)
        if len(image) != key.size:
            raise ValueError(f"found {len(image)}")
        return image
    numbers = np.asarray(value, np.float32).reshape(-1)
    if len(numbers) != key.size:
        raise ValueError(f"found {len(numbers)}")
    return numbers


def _numbers(values: list[Any]) -> Array:
    try:
        return np.asarray(values, np.float32)
    except (ValueError, TypeError) as error:
        raise ProtocolError(f"expected numbers, found {values!r:.200}") from error


def _per_agent(message: Mapping[str, Any], name: str, n: int) -> list[Any]:
    values = message.get(name)
    if not isinstance(values, list) or len(values) != n:
        raise ProtocolError(f"{name}: expected a list for {n} agents, found {values!r:.200}")
    return values


def _returns(message: Mapping[str, Any], n: int) -> list[Any]:
    values = message.get("returns")
    if not isinstance(values, list) or len(values) != n:
        raise ProtocolError(f"returns: expected a list for {n} agents, found {values!r:.200}")
    return values
