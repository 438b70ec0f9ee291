"""Sockets with deadlines. Every wait has a limit; a connection that failed is closed and never reused."""

from __future__ import annotations

import errno
import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from godot_parallel.engine import protocol
from godot_parallel.errors import EngineDiedError, EngineTimeoutError, ProtocolError, UsageError

LOOPBACK = "127.0.0.1"
_HAS_SCATTER = hasattr(socket.socket, "recvmsg_into") and sys.platform != "win32"
_HAS_POLL = hasattr(select, "poll")
_WATCH_S = 1.0
_READ_BYTES = 65536
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
            cause = (
                "is already in use (another training?)"
                if error.errno == errno.EADDRINUSE
                else "can't be used"
            )
            raise UsageError(
                f"port {port} {cause}: {error.strerror}. End what uses it, or choose another by --editor_port"
            ) from error
        self._socket.listen(8)
        self.port: int = self._socket.getsockname()[1]

    def fileno(self) -> int:
        """The socket's file descriptor, for selectors."""
        return self._socket.fileno()

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
    """One connected peer. The socket never blocks; every wait is one of ours, with a limit.

    Attributes:
        timeout: Seconds that a receive may take in all.
        spin_s: Seconds to look for an answer before sleeping on it. Waking up costs tens of microseconds,
            so a core that has nothing else to do had better stay awake.
        watch: Called about once a second while waiting; may raise.
    """

    def __init__(self, peer: socket.socket) -> None:
        self._socket = peer
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self.timeout = 60.0
        self.spin_s = 0.0
        self.watch: Callable[[], None] = lambda: None

    def fileno(self) -> int:
        """The socket's file descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Sends all of ``data``.

        Raises:
            EngineDiedError: The peer has closed the connection.
            EngineTimeoutError: It does not read.
        """
        deadline = time.monotonic() + self.timeout
        rest = memoryview(data)
        while len(rest):
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                if not self._wait(deadline, for_reading=False):
                    self.close()
                    raise EngineTimeoutError(f"did not take a message within {self.timeout:g} s") from None
            except OSError as error:
                self.close()
                raise EngineDiedError(f"closed the connection ({error.strerror or error})") from error

    def receive_into(self, buffers: Sequence[memoryview], skip: int = 0) -> None:
        """Fills all buffers; the first ``skip`` bytes are there already.

        Raises:
            EngineDiedError: The peer closed or reset the connection.
            EngineTimeoutError: The time limit is over.
        """
        deadline = time.monotonic() + self.timeout
        for buffer in buffers:
            if skip >= len(buffer):
                skip -= len(buffer)
                continue
            rest, skip = buffer[skip:], 0
            while len(rest):
                rest = rest[self._receive(self._socket.recv_into, rest, deadline) :]

    def receive_some(self, buffers: Sequence[memoryview]) -> int:
        """Fills the buffers as far as what has come reaches, in one system call; at least the first one.

        Returns:
            How many bytes have come. Raises as :meth:`receive_into`.
        """
        got = 0
        if _HAS_SCATTER and len(buffers) <= _MAX_SCATTER:
            got = self._receive(self._scatter, buffers, time.monotonic() + self.timeout)
        if got < len(buffers[0]):
            self.receive_into(buffers[:1], got)
            return len(buffers[0])
        return got

    def _scatter(self, buffers: Sequence[memoryview]) -> int:
        return self._socket.recvmsg_into(buffers)[0]

    def _receive(self, receive: Callable[[Any], int], into: Any, deadline: float) -> int:
        """Waits until ``receive`` brings at least one byte."""
        awake_until = time.monotonic() + self.spin_s if self.spin_s else 0.0
        while True:
            try:
                count = receive(into)
            except BlockingIOError:
                if time.monotonic() >= awake_until and not self._wait(deadline, for_reading=True):
                    self.close()
                    raise EngineTimeoutError(f"sent no complete message within {self.timeout:g} s") from None
            except OSError as error:
                self.close()
                raise EngineDiedError(f"reset the connection ({error.strerror or error})") from error
            else:
                if count == 0:
                    self.close()
                    raise EngineDiedError("closed the connection")
                return count

    def _wait(self, deadline: float, *, for_reading: bool) -> bool:
        """Sleeps until the socket is ready; false when the deadline is over."""
        while (seconds := deadline - time.monotonic()) > 0:
            if self._sleep(min(seconds, _WATCH_S), for_reading):
                return True
            self.watch()
        return False

    def _sleep(self, seconds: float, for_reading: bool) -> bool:
        if _HAS_POLL:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN if for_reading else select.POLLOUT)
            return bool(poll.poll(max(1.0, seconds * 1000)))
        both = ([self._socket], []) if for_reading else ([], [self._socket])
        return any(select.select(*both, [], seconds))

    def read_available(self) -> bytes:
        """What has come, without waiting; empty if nothing has.

        Raises:
            EngineDiedError: The peer closed or reset the connection.
        """
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise EngineDiedError(f"reset the connection ({error.strerror or error})") from error
        if not data:
            raise EngineDiedError("closed the connection")
        return data

    def peer_port(self) -> int:
        """The port at the other end."""
        return int(self._socket.getpeername()[1])

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
