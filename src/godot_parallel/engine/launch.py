"""Starts all games at once and shakes hands with each, undisturbed by strangers on the port."""

from __future__ import annotations

import dataclasses
import hmac
import logging
import selectors
import signal
import tempfile
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from godot_parallel.engine import protocol
from godot_parallel.engine.connection import Connection, Listener
from godot_parallel.engine.link import JsonLink, Link, NativeLink
from godot_parallel.engine.process import (
    EngineProcess,
    EngineSettings,
    arguments,
    game_command,
    spin_s,
)
from godot_parallel.engine.spaces import EnvSpec
from godot_parallel.errors import (
    EngineDiedError,
    EngineError,
    EngineTimeoutError,
    GodotParallelError,
    ProtocolError,
    ProtocolVersionError,
)

logger = logging.getLogger(__name__)

DEFAULT_TICKS_PER_SECOND = 60
_POLL_S = 0.05
_TERM_S = 2.0
_EDITOR_PATIENCE_S = 600.0


@dataclass
class Game:
    """A connected game, and its process where we started one."""

    link: Link
    process: EngineProcess | None

    def say_goodbye(self) -> None:
        """Asks the game to quit, if it still listens."""
        try:
            self.link.connection.timeout = 1.0
            self.link.say_goodbye()
        except (EngineError, OSError):
            pass
        self.link.connection.close()


def launch(settings: EngineSettings) -> list[Game]:
    """Starts all processes at once; returns when all have answered the handshake.

    Raises:
        UsageError: There is no game at ``env_path``, or the port is taken.
        EngineStartError: A process ended or did not connect in time; all others are ended.
        ProtocolVersionError: The game speaks another version.
        EnvironmentDataError: Its agents can't be trained together.
    """
    if settings.env_path is None:
        return [_wait_for_editor(settings)]
    command = game_command(settings.env_path)
    games = _start_all(settings, command, DEFAULT_TICKS_PER_SECOND)
    rate = games[0].link.spec.ticks_per_second
    if rate != DEFAULT_TICKS_PER_SECOND and not settings.show_window:
        logger.info("the project runs at %d ticks per second; starting it again at that rate", rate)
        close_all(games)
        games = _start_all(settings, command, rate)
    return games


def close_all(games: list[Game], patience: float = 3.0) -> None:
    """Ends all games: ask, wait, terminate, wait, kill, reap."""
    for game in games:
        game.say_goodbye()
    end_processes([game.process for game in games if game.process], patience)


def end_processes(processes: list[EngineProcess], patience: float) -> None:
    """Gives all processes ``patience`` seconds together to end by themselves, then ends them."""
    deadline = time.monotonic() + patience
    for process in processes:
        process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        process.signal_group(signal.SIGTERM)
    deadline = time.monotonic() + _TERM_S
    for process in processes:
        process.close(max(0.0, deadline - time.monotonic()))


def _start_all(settings: EngineSettings, command: list[str], rate: int) -> list[Game]:
    folder = settings.log_dir or Path(tempfile.mkdtemp(prefix="gdrl-"))
    listeners = [Listener() for _ in range(settings.n_parallel)]
    processes: list[EngineProcess] = []
    try:
        for rank, listener in enumerate(listeners):
            full = [*command, *arguments(settings, listener.port, rank, rate)]
            processes.append(EngineProcess(rank, full, folder / f"{rank}.log"))
        return _greet_all(settings, listeners, processes)
    except BaseException:
        end_processes(processes, 0.0)
        raise
    finally:
        for listener in listeners:
            listener.close()


def _greet_all(
    settings: EngineSettings, listeners: list[Listener], processes: list[EngineProcess]
) -> list[Game]:
    with ThreadPoolExecutor(len(processes)) as pool:
        greetings = [
            pool.submit(_Greeting(settings, listener, process).run)
            for listener, process in zip(listeners, processes, strict=True)
        ]
        try:
            done, _ = wait(greetings, return_when=FIRST_EXCEPTION)
            for greeting in done:
                greeting.result()
        except BaseException:
            end_processes(processes, 0.0)  # the other greetings see their game end, and stop
            raise
        return [greeting.result() for greeting in greetings]


class _Greeting:
    """Waits for one game among all who may connect to its port."""

    def __init__(self, settings: EngineSettings, listener: Listener, process: EngineProcess | None) -> None:
        self.settings = settings
        self.listener = listener
        self.process = process
        self.selector = selectors.DefaultSelector()
        self.dropped = ""

    def run(self) -> Game:
        deadline = time.monotonic() + self.settings.start_timeout
        self.selector.register(self.listener, selectors.EVENT_READ)
        try:
            while time.monotonic() < deadline:
                ended = self.process is not None and self.process.exit_code() is not None
                ready = self.selector.select(0.0 if ended else _POLL_S)
                for key, _ in ready:
                    if game := self._handle(key.data):
                        return game
                if ended and not ready:  # what it said last has been read: it may have told why
                    raise self._failure("ended before it was connected")
        finally:
            for key in list(self.selector.get_map().values()):
                if isinstance(key.data, _Caller):
                    key.data.connection.close()
            self.selector.close()
        raise self._failure(f"did not connect and answer within {self.settings.start_timeout:g} s")

    def _failure(self, what: str) -> EngineError:
        what += self.dropped
        return self.process.start_error(what) if self.process else EngineTimeoutError(what)

    def _handle(self, caller: _Caller | None) -> Game | None:
        if caller is None:
            self._accept()
            return None
        try:
            message = caller.read()
            return self._greet(caller.connection, message) if message is not None else None
        except _StrangerError as error:
            self._drop(caller, error)
        except (EngineDiedError, ProtocolError) as error:
            if isinstance(error, ProtocolVersionError):
                raise
            self._drop(caller, error)
        except GodotParallelError as error:
            raise type(error)(self.process.describe(str(error)) if self.process else str(error)) from error
        return None

    def _drop(self, caller: _Caller, why: Exception) -> None:
        logger.warning("a connection to port %d was dropped: %s", self.listener.port, why)
        self.dropped = f"; a connection was dropped: {why}"
        self.selector.unregister(caller.connection)
        caller.connection.close()

    def _accept(self) -> None:
        connection = self.listener.accept(0.0)
        if connection is None:
            return
        try:
            connection.send(protocol.encode_hello())
        except EngineError:
            return
        self.selector.register(connection, selectors.EVENT_READ, _Caller(connection))

    def _greet(self, connection: Connection, message: dict[str, Any]) -> Game:
        if self.process:
            _check_caller(message, connection, self.process)
        protocol.check_env_info(message)
        spec = EnvSpec.from_env_info(message)
        self.selector.unregister(connection)
        connection.timeout = self.settings.step_timeout
        connection.spin_s = spin_s(self.settings)
        if not spec.native:  # it does not tell, but does as it was told
            spec = dataclasses.replace(spec, action_repeat=self.settings.action_repeat)
        link: Link = (NativeLink if spec.native else JsonLink)(spec, connection)
        return Game(link, self.process)


class _StrangerError(Exception):
    """Somebody on the port who is not the game that was started."""


class _Caller:
    """Somebody who has connected and not said all yet. Nobody can hold the others up by being slow."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._data = bytearray()

    def read(self) -> dict[str, Any] | None:
        """Takes what has come; the message when it is whole."""
        self._data += self.connection.read_available()
        if len(self._data) < protocol.PREFIX.size:
            return None
        (length,) = protocol.PREFIX.unpack_from(self._data)
        if length > protocol.MAX_JSON_BYTES:
            raise ProtocolError(f"a message of {length} bytes was announced; limit {protocol.MAX_JSON_BYTES}")
        end = protocol.PREFIX.size + length
        return (
            protocol.decode_json(self._data[protocol.PREFIX.size : end]) if len(self._data) >= end else None
        )


def _check_caller(message: dict[str, Any], connection: Connection, process: EngineProcess) -> None:
    """Checks that a caller is the game that we started: by its token, or by its socket if it has none.

    Raises:
        _StrangerError: It is not.
    """
    own = message.get("godot_parallel")
    token = own.get("token") if isinstance(own, dict) else message.get("token")
    if token is not None:
        if not hmac.compare_digest(str(token).encode(), process.token.encode()):
            raise _StrangerError("it shows a wrong token, so it is not the game that was started here")
    elif not process.owns_port(connection.peer_port()):
        raise _StrangerError("it shows no token and is not the game that was started here")


def _wait_for_editor(settings: EngineSettings) -> Game:
    listener = Listener(settings.editor_port)
    try:
        logger.warning("waiting on port %d: press Play in the Godot editor", listener.port)
        patient = dataclasses.replace(settings, start_timeout=max(settings.start_timeout, _EDITOR_PATIENCE_S))
        return _Greeting(patient, listener, None).run()
    finally:
        listener.close()
