"""The wire: bytes to messages and back. No socket, clock or process in here.

docs/protocol.md is the specification.

Versions of the binary protocol:
    1  first version
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from godot_parallel.engine.spaces import ActionKey, EnvSpec, ObsKey
from godot_parallel.errors import EngineError, ProtocolError, ProtocolVersionError

PROTOCOL_VERSION = 1
MAJOR_VERSION, MINOR_VERSION = "0", "7"
MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_FRAME_BYTES = 1 << 30
MAX_INFO_BYTES = 16 * 1024 * 1024
PREFIX = struct.Struct("<I")
_HEADER = struct.Struct("<IIQffffIIII")
HEADER_BYTES = _HEADER.size


class Kind(IntEnum):
    """First field of a binary frame."""

    STEP = 1
    RESET = 2
    CLOSE = 3
    CALL = 4
    TRANSITION = 17
    RETURNS = 20
    ERROR = 21


ANSWERS = {Kind.STEP: Kind.TRANSITION, Kind.RESET: Kind.TRANSITION, Kind.CALL: Kind.RETURNS}
"""Which answer each request has; exactly one each, in order. ERROR may stand for any of them."""


class Header(NamedTuple):
    """The numbers at the head of a TRANSITION; times in microseconds."""

    kind: int
    n_final: int
    tick: int
    physics_us: float
    observe_us: float
    encode_us: float
    wait_us: float
    info_bytes: int
    n_nodes: int
    ticks_in_step: int
    reserved: int

    @classmethod
    def parse(cls, data: bytes | bytearray | memoryview, n_agents: int) -> Header:
        """Reads a header and checks its counts.

        Raises:
            ProtocolError: A count is out of bounds, or it is no TRANSITION.
        """
        header = cls._make(_HEADER.unpack_from(data))
        if header.kind != Kind.TRANSITION:
            raise ProtocolError(f"expected a TRANSITION frame ({Kind.TRANSITION}), found kind {header.kind}")
        if header.n_final > n_agents or header.info_bytes > MAX_INFO_BYTES:
            raise ProtocolError(
                f"TRANSITION announces {header.n_final} ended episodes of {n_agents} agents and "
                f"{header.info_bytes} bytes of infos; limits {n_agents} and {MAX_INFO_BYTES}"
            )
        return header


class Tail(NamedTuple):
    """What a TRANSITION tells of ended episodes: rows (F,), last observations (F, size), infos by row."""

    rows: npt.NDArray[np.int64]
    obs: list[npt.NDArray[Any]]
    infos: dict[int, dict[str, Any]]


@dataclass(frozen=True)
class FrameLayout:
    """Sizes of the frames of one process with ``n_agents`` agents."""

    n_agents: int
    obs: tuple[ObsKey, ...]
    actions: tuple[ActionKey, ...]

    @classmethod
    def of(cls, spec: EnvSpec) -> FrameLayout:
        """The layout for a game's spec."""
        layout = cls(spec.n_agents, spec.obs, spec.actions)
        if layout.fixed_bytes > MAX_FRAME_BYTES:
            raise ProtocolError(f"a step would have {layout.fixed_bytes} bytes; limit {MAX_FRAME_BYTES}")
        return layout

    def obs_bytes(self, key: ObsKey, rows: int) -> int:
        """Bytes of one observation block, padding included."""
        return padded(rows * key.size * key.wire_dtype.itemsize)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of a TRANSITION up to its variable tail, without the length prefix."""
        blocks = sum(self.obs_bytes(key, self.n_agents) for key in self.obs)
        return HEADER_BYTES + blocks + 4 * self.n_agents + 2 * padded(self.n_agents)

    def tail_bytes(self, header: Header) -> int:
        """Bytes of the variable tail that a header announces."""
        if header.n_final == 0:
            return header.info_bytes
        blocks = sum(self.obs_bytes(key, header.n_final) for key in self.obs)
        return 4 * header.n_final + blocks + header.info_bytes

    def parse_tail(self, header: Header, data: bytes | bytearray) -> Tail:
        """Reads the variable tail.

        Raises:
            ProtocolError: A row does not exist, or the infos are no JSON object of objects.
        """
        n = header.n_final
        rows = np.frombuffer(data, "<u4", n).astype(np.int64)
        if n and int(rows.max()) >= self.n_agents:
            raise ProtocolError(f"an episode of agent {rows.max()} ended; there are {self.n_agents} agents")
        offset, obs = 4 * n, []
        for key in self.obs if n else ():
            flat = np.frombuffer(data, key.wire_dtype, n * key.size, offset)
            obs.append(flat.reshape(n, key.size))
            offset += self.obs_bytes(key, n)
        return Tail(rows, obs, self._parse_infos(data[offset:]))

    def _parse_infos(self, data: bytes | bytearray) -> dict[int, dict[str, Any]]:
        if not data:
            return {}
        infos = decode_json(data)
        try:
            result = {int(row): dict(info) for row, info in infos.items()}
        except (ValueError, TypeError) as error:
            raise ProtocolError(f"infos: expected objects by agent number, found {infos!r:.200}") from error
        if any(not 0 <= row < self.n_agents for row in result):
            raise ProtocolError(f"infos name agents {list(result)}; there are {self.n_agents} agents")
        return result

    @property
    def step_bytes(self) -> int:
        """Bytes of a STEP, prefix included."""
        return 8 + sum(4 * self.n_agents * key.wire_width for key in self.actions)


def padded(count: int) -> int:
    """Bytes rounded up to a multiple of 4."""
    return (count + 3) & ~3


def prefixed(payload: bytes) -> bytes:
    """A message with its length in front."""
    return PREFIX.pack(len(payload)) + payload


def encode_json(message: Mapping[str, Any]) -> bytes:
    """A JSON message, prefix included."""
    return prefixed(orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY))


def decode_json(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ProtocolError: It is none.
    """
    try:
        message = _loads(data)
    except ValueError as error:
        raise ProtocolError(f"expected JSON, found {bytes(data[:60])!r}: {error}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"expected a JSON object, found {message!r:.200}")
    return message


def _loads(data: bytes | bytearray | memoryview) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # Godot writes infinity as 1e99999, which is JSON, and too much for the fast parser.
        return json.loads(bytes(data))


def encode_hello() -> bytes:
    """Handshake and ``env_info`` request, as the first bytes that the trainer sends."""
    hello = {
        "type": "handshake",
        "major_version": MAJOR_VERSION,
        "minor_version": MINOR_VERSION,
        "godot_parallel": {"protocol": PROTOCOL_VERSION},
    }
    return encode_json(hello) + encode_json({"type": "env_info"})


def check_env_info(message: Mapping[str, Any]) -> None:
    """Checks that an answer to ``env_info`` is one, and that both sides speak one version.

    Raises:
        EngineError: The game refuses, with its own reason.
        ProtocolVersionError: Its binary protocol has another version.
        ProtocolError: It is another message.
    """
    own = message.get("godot_parallel")
    if message.get("type") == "error":
        text = str(message.get("message", "no reason given"))
        raise (ProtocolVersionError if "does not fit" in text else EngineError)(f"the game refuses: {text}")
    if message.get("type") != "env_info":
        raise ProtocolError(f"expected the answer to env_info, found {dict(message)!r:.200}")
    if isinstance(own, dict) and own.get("protocol") != PROTOCOL_VERSION:
        raise ProtocolVersionError(
            f"the game's addon speaks protocol {own.get('protocol')}, this trainer {PROTOCOL_VERSION}; "
            "copy the addon of this version into the project and export it again"
        )


def encode_reset(first_environment: int, base_seed: int, episodes: npt.NDArray[np.integer[Any]]) -> bytes:
    """A RESET frame, prefix included; ``episodes`` (instances,) numbers each instance's next episode."""
    head = struct.pack("<IIQI", Kind.RESET, first_environment, base_seed & (2**64 - 1), len(episodes))
    return prefixed(head + np.asarray(episodes, "<u4").tobytes())


def encode_call(op: str, name: str, args: list[Any], agents: list[int]) -> bytes:
    """A CALL frame, prefix included."""
    request = {"op": op, "name": name, "args": args, "agents": agents}
    return prefixed(PREFIX.pack(Kind.CALL) + orjson.dumps(request, option=orjson.OPT_SERIALIZE_NUMPY))


CLOSE_FRAME = prefixed(PREFIX.pack(Kind.CLOSE))
