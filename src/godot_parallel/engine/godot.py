"""Finds Godot, or installs it: ``$GODOT``, ``PATH``, our private copy, Debian, the official release."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import filelock
import platformdirs

from godot_parallel.engine import debian, release
from godot_parallel.errors import GodotNotFoundError

logger = logging.getLogger(__name__)

MINIMUM = (4, 4)
VARIABLE = "GODOT"
CACHE_VARIABLE = "GODOT_PARALLEL_CACHE"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Godot:
    """A usable Godot editor.

    Attributes:
        path: The program.
        version: What it answers to ``--version``.
        source: Where it was found, in words.
    """

    path: Path
    version: str
    source: str


def cache_folder() -> Path:
    """Where engines and exported bundled games are kept; ``$GODOT_PARALLEL_CACHE`` moves it."""
    own = os.environ.get(CACHE_VARIABLE)
    return Path(own) if own else platformdirs.user_cache_path("godot-parallel", appauthor=False)


def find_godot(install: bool = True, progress: Progress | None = None) -> Godot:
    """The engine to use; installs one where there is none.

    Args:
        install: Whether to install one if none is found.
        progress: Told what is being done, a line at a time.

    Raises:
        GodotNotFoundError: None was found or could be installed, or ``$GODOT`` names no usable one.
    """
    if chosen := os.environ.get(VARIABLE):
        return _check(Path(chosen), f"${VARIABLE}")
    tried = [f"${VARIABLE} is not set"]
    for name in ("godot", "godot4"):
        if (found := shutil.which(name)) is None:
            tried.append(f"no '{name}' in PATH")
            continue
        try:
            return _check(Path(found), "PATH")
        except GodotNotFoundError as error:
            tried.append(str(error))
    private = cache_folder() / "godot"
    if debian.is_complete(private) or release.is_complete(private):
        return _check(_program(private), "private copy")
    tried.append(f"no private copy in {private}")
    if not install:
        raise _not_found(tried)
    return _install(private, tried, progress or logger.info)


def _install(private: Path, tried: list[str], progress: Progress) -> Godot:
    private.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(private.parent / "godot.lock"):
        if not (debian.is_complete(private) or release.is_complete(private)):
            shutil.rmtree(private, ignore_errors=True)
            _install_somehow(private, tried, progress)
        return _check(_program(private), "private copy")


def _install_somehow(private: Path, tried: list[str], progress: Progress) -> None:
    ways = [(debian.is_possible(), "Debian's packages", debian.install)]
    ways.append((True, "the official release", release.install))
    for possible, name, install in ways:
        if not possible:
            tried.append(f"{name}: not on this system")
            continue
        try:
            install(private, progress)
            return
        except (GodotNotFoundError, OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(private, ignore_errors=True)
            tried.append(f"{name}: {error}")
    raise _not_found(tried)


def _program(private: Path) -> Path:
    return debian.program(private) if debian.is_complete(private) else release.program(private)


def _not_found(tried: list[str]) -> GodotNotFoundError:
    lines = "\n".join(f"  - {line}" for line in tried)
    return GodotNotFoundError(
        f"no Godot {MINIMUM[0]}.{MINIMUM[1]} or later was found. Tried:\n{lines}\n"
        f"Install Godot 4 and put it into PATH, or set ${VARIABLE} to its program."
    )


def _check(path: Path, source: str) -> Godot:
    """Asks a program for its version."""
    try:
        answer = subprocess.run(
            [path, "--headless", "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GodotNotFoundError(f"{path} ({source}) does not run: {error}") from error
    lines = answer.stdout.strip().splitlines() or [""]
    match = re.match(r"(\d+)\.(\d+)", lines[-1])
    if answer.returncode != 0 or match is None:
        raise GodotNotFoundError(
            f"{path} ({source}) is no Godot: --version gave exit code {answer.returncode} and "
            f"{(answer.stdout + answer.stderr).strip()[-200:]!r}"
        )
    if (int(match[1]), int(match[2])) < MINIMUM:
        raise GodotNotFoundError(f"{path} ({source}) is Godot {lines[-1]}; 4.4 or later is needed")
    return Godot(path, lines[-1], source)


def suffix() -> str:
    """The usual ending of an exported game on this system."""
    return {"win32": ".exe", "darwin": ".app"}.get(sys.platform, ".x86_64")
