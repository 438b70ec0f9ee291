"""Sockets with deadlines. Every wait has a limit; a connection that failed is closed and never reused."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from godot_parallel.engine import protocol
from godot_parallel.errors import EngineDiedError, EngineTimeoutError, ProtocolError, UsageError

LOOPBACK = "127.0.0.1"
_HAS_SCATTER = hasattr(socket.socket, "recvmsg_into") and sys.platform != "win32"
_MAX_SCATTER = 512  # well below IOV_MAX, which is 1024 on Linux


class Listener:
    """A listening socket on the loopback address; port 0 lets the system choose one."""

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if port and sys.platform != "win32":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((LOOPBACK, port))
        except OSError as error:
            self._socket.close()
            raise UsageError(
                f"port {port} is already in use (another training?): end it, or choose another with "
                f"--editor_port: {error.strerror}"
            ) from error
        self._socket.listen(8)
        self.port: int = self._socket.getsockname()[1]

    def accept(self, seconds: float) -> Connection | None:
        """The next connection, or ``None`` when none came within ``seconds``."""
        self._socket.settimeout(max(seconds, 1e-3))
        try:
            peer, _ = self._socket.accept()
        except TimeoutError:
            return None
        return Connection(peer)

    def close(self) -> None:
        """Stops listening; may be called twice."""
        self._socket.close()


class Connection:
    """One connected peer.

    Attributes:
        timeout: Seconds that a receive may take in all.
    """

    def __init__(self, peer: socket.socket) -> None:
        self._socket = peer
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.set_timeout(60.0)

    def set_timeout(self, seconds: float) -> None:
        """Sets the time limit of the receives and sends that follow."""
        self.timeout = seconds
        self._socket.settimeout(seconds)

    def fileno(self) -> int:
        """The socket's file descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Sends all of ``data``.

        Raises:
            EngineDiedError: The peer has closed the connection.
            EngineTimeoutError: It does not read.
        """
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            self.close()
            raise EngineTimeoutError(f"did not take a message within {self.timeout:g} s") from error
        except OSError as error:
            self.close()
            raise EngineDiedError(f"closed the connection ({error.strerror or error})") from error

    def receive_into(self, buffers: Sequence[memoryview]) -> None:
        """Fills all buffers, in one system call where the platform can.

        Raises:
            EngineDiedError: The peer closed or reset the connection.
            EngineTimeoutError: The time limit is over.
        """
        total = sum(len(buffer) for buffer in buffers)
        if _HAS_SCATTER and len(buffers) <= _MAX_SCATTER:
            got = self._guard(lambda: self._socket.recvmsg_into(buffers)[0])
            if got == total:
                return
        else:
            got = 0
        self._receive_rest(buffers, got)

    def _receive_rest(self, buffers: Sequence[memoryview], skip: int) -> None:
        deadline = time.monotonic() + self.timeout
        for buffer in buffers:
            if skip >= len(buffer):
                skip -= len(buffer)
                continue
            rest, skip = buffer[skip:], 0
            while len(rest):
                if time.monotonic() > deadline:
                    self._time_out()
                rest = rest[self._guard(self._socket.recv_into, rest) :]

    def _guard(self, receive: Any, *args: Any) -> int:
        try:
            count: int = receive(*args)
        except TimeoutError:
            self._time_out()
        except OSError as error:
            self.close()
            raise EngineDiedError(f"reset the connection ({error.strerror or error})") from error
        if count == 0:
            self.close()
            raise EngineDiedError("closed the connection")
        return count

    def _time_out(self) -> None:
        self.close()
        raise EngineTimeoutError(f"sent no complete message within {self.timeout:g} s")

    def receive_bytes(self, count: int) -> bytearray:
        """Exactly ``count`` bytes."""
        data = bytearray(count)
        if count:
            self.receive_into([memoryview(data)])
        return data

    def receive_message(self, limit: int = protocol.MAX_JSON_BYTES) -> bytearray:
        """One length-prefixed message.

        Raises:
            ProtocolError: It is longer than ``limit``.
        """
        (length,) = protocol.PREFIX.unpack(self.receive_bytes(protocol.PREFIX.size))
        if length > limit:
            self.close()
            raise ProtocolError(f"a message of {length} bytes was announced; limit {limit} (is it a game?)")
        return self.receive_bytes(length)

    def receive_json(self) -> dict[str, Any]:
        """One JSON message."""
        return protocol.decode_json(self.receive_message())

    def close(self) -> None:
        """Closes the socket; may be called twice."""
        self._socket.close()
