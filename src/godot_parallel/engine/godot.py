"""Finds Godot, or installs it: ``$GODOT``, ``PATH``, our private copy, Debian, the official release."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import filelock
import platformdirs

from godot_parallel.engine import debian, release
from godot_parallel.engine.command import run
from godot_parallel.errors import GodotNotFoundError

logger = logging.getLogger(__name__)

MINIMUM = (4, 4)
VARIABLE = "GODOT"
CACHE_VARIABLE = "GODOT_PARALLEL_CACHE"
PRIVATE = "private copy"
_VERSION_LIMIT_S = 60
_LOCK_LIMIT_S = 3600
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Godot:
    """A usable Godot editor.

    Attributes:
        path: The program.
        version: What it answers to ``--version``.
        source: Where it was found: ``$GODOT``, ``PATH`` or ``private copy``.
    """

    path: Path
    version: str
    source: str


def cache_folder() -> Path:
    """Where engines and exported bundled games are kept; ``$GODOT_PARALLEL_CACHE`` moves it."""
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser().absolute()
    return platformdirs.user_cache_path("godot-parallel", appauthor=False)


def find_godot(install: bool = True, progress: Progress | None = None) -> Godot:
    """The engine to use; installs one where there is none.

    Args:
        install: Whether to install one if none is found.
        progress: Told what is being done, a line at a time.

    Raises:
        GodotNotFoundError: None was found or could be installed, or ``$GODOT`` names no usable one.
    """
    if chosen := os.environ.get(VARIABLE):
        return _check(_named(chosen), f"${VARIABLE}")
    tried = [f"${VARIABLE} is not set"]
    for name in ("godot", "godot4"):
        if (found := shutil.which(name)) is None:
            tried.append(f"no '{name}' in PATH")
            continue
        try:
            return _check(Path(found).absolute(), "PATH")
        except GodotNotFoundError as error:
            tried.append(str(error))
    return private_copy(install, progress, tried)


def private_copy(
    install: bool = True, progress: Progress | None = None, tried: list[str] | None = None
) -> Godot:
    """Our own engine, which has its export templates; one that is missing or broken is made anew.

    Raises:
        GodotNotFoundError: There is none, and none could be installed; lists what was ``tried`` before too.
    """
    tried = [] if tried is None else tried
    folder = cache_folder() / "godot"
    if found := _installed(folder, tried):
        return found
    if not install:
        raise _not_found(tried)
    with _only_one(folder, progress or logger.info):
        # Somebody else may have installed it while we waited.
        return _installed(folder, []) or _install(folder, tried, progress or logger.info)


def _installed(folder: Path, tried: list[str]) -> Godot | None:
    if not (debian.is_complete(folder) or release.is_complete(folder)):
        tried.append(f"no private copy in {folder}")
        return None
    try:
        return _check(_program(folder), PRIVATE)
    except GodotNotFoundError as error:
        if isinstance(error.__cause__, subprocess.TimeoutExpired):
            raise  # a busy machine is no reason to take away what others may be running
        tried.append(str(error))
        return None


def _install(folder: Path, tried: list[str], progress: Progress) -> Godot:
    for possible, name, way in (
        (debian.is_possible(), "Debian's packages", debian.install),
        (True, "the official release", release.install),
    ):
        if not possible:
            tried.append(f"{name}: not on this system")
            continue
        shutil.rmtree(folder, ignore_errors=True)
        try:
            way(folder, progress)
            return _check(_program(folder), PRIVATE)
        except (GodotNotFoundError, OSError) as error:
            tried.append(f"{name}: {error}")
    shutil.rmtree(folder, ignore_errors=True)
    raise _not_found(tried)


@contextlib.contextmanager
def _only_one(folder: Path, progress: Progress) -> Iterator[None]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder.parent / f"{folder.name}.lock")
        try:
            lock.acquire(timeout=0.1)
        except filelock.Timeout:
            progress("waiting for another installation of Godot to end")
            lock.acquire(timeout=_LOCK_LIMIT_S)
    except (OSError, filelock.Timeout) as error:
        raise GodotNotFoundError(
            f"Godot can't be installed into {folder}: {error}. ${CACHE_VARIABLE} names another place."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _named(chosen: str) -> Path:
    """What a person means by a program's name: a path, or something in PATH."""
    path = Path(chosen).expanduser()
    if path.name == chosen and (found := shutil.which(chosen)):
        path = Path(found)
    return path.absolute()


def _program(folder: Path) -> Path:
    return debian.program(folder) if debian.is_complete(folder) else release.program(folder)


def _not_found(tried: list[str]) -> GodotNotFoundError:
    lines = "\n".join(f"  - {line}" for line in tried)
    return GodotNotFoundError(
        f"no Godot {MINIMUM[0]}.{MINIMUM[1]} or later was found. Tried:\n{lines}\n"
        f"Install Godot 4 and put it into PATH, or set ${VARIABLE} to its program."
    )


def _check(path: Path, source: str) -> Godot:
    """Asks a program for its version."""
    try:
        answer = run([path, "--headless", "--version"], _VERSION_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GodotNotFoundError(f"{path} ({source}) does not run: {error}") from error
    lines = answer.stdout.strip().splitlines() or [""]
    match = re.match(r"(\d+)\.(\d+)", lines[-1])
    if answer.exit_code != 0 or match is None:
        raise GodotNotFoundError(
            f"{path} ({source}) is no Godot: --version gave exit code {answer.exit_code} and "
            f"{answer.output.strip()[-200:]!r}"
        )
    if (int(match[1]), int(match[2])) < MINIMUM:
        raise GodotNotFoundError(f"{path} ({source}) is Godot {lines[-1]}; 4.4 or later is needed")
    return Godot(path, lines[-1], source)


def suffix() -> str:
    """The usual ending of an exported game on this system."""
    return {"win32": ".exe", "darwin": ".app"}.get(sys.platform, ".x86_64")
