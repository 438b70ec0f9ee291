"""One running game: start it, watch it, end it, and say what happened to it."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from godot_parallel.cores import available_cores
from godot_parallel.errors import (
    EngineDiedError,
    EngineError,
    EngineStartError,
    EngineTimeoutError,
    UsageError,
)

logger = logging.getLogger(__name__)

TOKEN_VARIABLE = "GODOT_PARALLEL_TOKEN"
LOG_LINES = 20
SPIN_S = 0.001
LOG_TAIL_BYTES = 16384
_PR_SET_PDEATHSIG = 1
# util-linux's setpriv ties a game's life to ours before it becomes the game. Doing it in this program
# (preexec_fn) needs a fork of a process in which JAX and torch have threads, which may deadlock.
_SETPRIV = shutil.which("setpriv") if sys.platform == "linux" else None
_LEASH = [_SETPRIV, "--pdeathsig", "KILL", "--"] if _SETPRIV else []
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no SIGKILL
_LIKELY_CAUSES = (
    "likely causes: the scene has no Sync node; Sync's control mode is HUMAN; a script does not parse; "
    "the main scene is not the training scene"
)


@dataclass(frozen=True)
class EngineSettings:
    """How the game is to be run.

    Attributes:
        env_path: Exported game, or a project folder; ``None`` waits for a game started in the editor.
        n_parallel: Godot processes.
        instances: Copies of the environment in each process; ``None``: as the scene says.
        isolation: ``world`` or ``grid``; ``None``: as the scene says.
        action_repeat: Ticks per step; ``None``: as the scene says.
        speedup: Pace in a window, as a multiple of real time.
        show_window: Shows the game.
        trainer_threads: Threads of this program that are busy while the games play.
        seed: 64-bit base seed (see :func:`godot_parallel.engine.seeding.spawn_seed`).
        log_dir: Folder for ``<rank>.log``, what each process prints; ``None``: a temporary one.
        start_timeout: Seconds until the game must have answered the handshake.
        step_timeout: Seconds that one step may take.
        editor_port: Port for a game started in the editor.
    """

    env_path: Path | None
    n_parallel: int = 1
    instances: int | None = None
    isolation: str | None = None
    action_repeat: int | None = None
    speedup: float = 1.0
    show_window: bool = False
    trainer_threads: int = 1
    seed: int = 0
    log_dir: Path | None = None
    start_timeout: float = 60.0
    step_timeout: float = 60.0
    editor_port: int = 11008

    def __post_init__(self) -> None:
        _at_least_one("n_parallel", self.n_parallel)
        for name in ("instances", "action_repeat"):
            value = getattr(self, name)
            if value is not None:
                _at_least_one(name, value)
        for name in ("start_timeout", "step_timeout"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise UsageError(f"{name}: expected seconds above 0, found {getattr(self, name)}")
        if not 0 < self.editor_port < 65536:
            raise UsageError(f"editor_port: expected 1 to 65535, found {self.editor_port}")
        if self.isolation not in (None, "world", "grid"):
            raise UsageError(f"isolation: expected world or grid, found {self.isolation!r}")
        if not (math.isfinite(self.speedup) and self.speedup > 0):
            raise UsageError(f"speedup: expected a number above 0, found {self.speedup}")
        if self.env_path is None and self.n_parallel > 1:
            raise UsageError(
                f"n_parallel {self.n_parallel} needs an exported game or project folder (--env_path) or a "
                "bundled game (--env); a game started in the editor is one process"
            )


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"{name}: expected at least 1, found {value}")


def game_command(env_path: Path) -> list[str]:
    """The command that starts a game or project, without options.

    Raises:
        UsageError: There is no game there.
    """
    path = env_path.expanduser()
    if not path.exists():
        raise UsageError(f"env_path: there is nothing at {path}; expected an exported game or project folder")
    if path.is_dir() and path.suffix == ".app":
        return [str(_inside_app(path))]
    if path.is_dir():
        return _project_command(path)
    if not os.access(path, os.X_OK):
        if path.name == "project.godot":
            return _project_command(path.parent)
        raise UsageError(f"env_path: {path} is not executable; if it is a game, run: chmod +x '{path}'")
    if not _is_program(path):
        raise UsageError(f"env_path: {path} is no program that this machine can run; expected a Godot game")
    return [str(path.absolute())]


def _project_command(folder: Path) -> list[str]:
    from godot_parallel.engine import export, godot

    if not export.is_project(folder):
        raise UsageError(f"env_path: the folder {folder} holds no project.godot, so it is no Godot project")
    engine = godot.find_godot()
    export.import_project(folder, engine)
    return [str(engine.path), "--path", str(folder.absolute())]


def _inside_app(path: Path) -> Path:
    """The program inside a macOS bundle (untested: there is no such machine here)."""
    programs = sorted((path / "Contents" / "MacOS").glob("*"))
    if not programs:
        raise UsageError(f"env_path: {path} holds no program in Contents/MacOS")
    return programs[0]


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        magic = file.read(4)
    known = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"#!")
    return stat.S_ISREG(path.stat().st_mode) and magic.startswith(known)


def arguments(settings: EngineSettings, port: int, rank: int, ticks_per_second: int) -> list[str]:
    """Options for the process ``rank``: the engine's, the old plugin's, and behind ``--`` our own."""
    pace = settings.speedup if settings.show_window else 1
    args = [] if settings.show_window else ["--headless", "--fixed-fps", str(ticks_per_second)]
    args += [f"--port={port}", f"--env_seed={(settings.seed + rank) % 2**31}", f"--speedup={pace:g}"]
    own = [f"--environment={rank * (settings.instances or 1)}", f"--seed={_signed(settings.seed)}"]
    own += [f"--connect_timeout={settings.start_timeout:g}", f"--spin_us={spin_s(settings) * 1e6:.0f}"]
    if settings.action_repeat is not None:
        args.append(f"--action_repeat={settings.action_repeat}")
    if settings.instances is not None:
        own.append(f"--instances={settings.instances}")
    if settings.isolation is not None:
        own.append(f"--isolation={settings.isolation}")
    return [*args, "--", *own]


def spin_s(settings: EngineSettings) -> float:
    """Seconds that either side stays awake for an answer: only where cores have nothing else to do."""
    busy = settings.n_parallel + settings.trainer_threads
    return SPIN_S if busy <= available_cores() else 0.0


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Runs in the child: the kernel kills it when the thread that started it ends."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class EngineProcess:
    """One game process. Closing ends it for certain: terminate, wait, kill, reap."""

    def __init__(self, rank: int, command: list[str], log_path: Path) -> None:
        self.rank = rank
        self.command = command
        self.log_path = log_path
        self.token = secrets.token_hex(16)
        self._closed = False
        environment = {**os.environ, TOKEN_VARIABLE: self.token}
        log_path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log_path.open("wb") as log:
                self._process = subprocess.Popen(
                    [*_LEASH, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=_die_with_parent if _libc is not None and not _LEASH else None,
                )
        except OSError as error:
            raise EngineStartError(f"{command[0]} can't be started: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def owns_port(self, port: int) -> bool:
        """Whether this process, or one that it started, has a TCP socket on a local port."""
        try:
            root = psutil.Process(self.pid)
            family = [root, *root.children(recursive=True)]
            return any(c.laddr.port == port for p in family for c in p.net_connections("tcp") if c.laddr)
        except psutil.Error:
            return self.exit_code() is None  # it can't be looked at (another user's, or just gone)

    def exit_code(self) -> int | None:
        """The exit code, or ``None`` while it runs; negative: ended by that signal."""
        return self._process.poll()

    def last_log_lines(self) -> str:
        """The end of what the process printed."""
        with contextlib.suppress(OSError):
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - LOG_TAIL_BYTES))
                text = log.read(LOG_TAIL_BYTES).decode(errors="replace")
            return "\n".join(f"    {line}" for line in text.splitlines()[-LOG_LINES:])
        return ""

    def describe(self, what: str) -> str:
        """A message that names rank, command, exit code and the last log lines."""
        # A game that was just seen to close its socket is about to end: its exit code says more.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        code = self.exit_code()
        state = "still running" if code is None else f"exit code {code}"
        if code is not None and code < 0:
            state = f"ended by {signal.Signals(-code).name}"
        lines = self.last_log_lines() or "    (nothing)"
        return (
            f"game process {self.rank}: {what} ({state})\n  command: {' '.join(self.command)}\n"
            f"  it printed last ({self.log_path}):\n{lines}"
        )

    def start_error(self, what: str) -> EngineStartError:
        """The error for a process that never got ready."""
        causes = f"\n  {_LIKELY_CAUSES}" if self.exit_code() is None else ""
        return EngineStartError(self.describe(what) + causes)

    def error(self, cause: EngineError) -> EngineError:
        """The same kind of error as ``cause``, told with all that is known of the process."""
        kind = type(cause) if isinstance(cause, EngineTimeoutError) else EngineDiedError
        return kind(self.describe(str(cause)))

    def close(self, patience: float = 2.0) -> None:
        """Ends the process within about ``2 * patience`` seconds; may be called twice."""
        if self._closed:
            return  # its number may belong to another process by now
        self.signal_group(signal.SIGTERM)
        self.wait(patience)
        self.signal_group(_KILL)
        self._process.wait()
        self._closed = True

    def signal_group(self, number: int) -> None:
        """Signals the process and all that it started: a game may be a script that starts the game."""
        if sys.platform == "win32":
            self._process.terminate()
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Waits for a natural end; whether it came."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
