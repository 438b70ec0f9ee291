"""A Godot project on disk: its files, its import, and Godot's own words about its mistakes."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import filelock

from godot_parallel.engine import godot
from godot_parallel.engine.command import Answer, run
from godot_parallel.engine.godot import Godot
from godot_parallel.errors import ExportError, UsageError

logger = logging.getLogger(__name__)

_TIME_LIMIT_S = 600
_STAMP = Path(".godot") / "godot_parallel_imported"
_CLASSES = Path(".godot") / "global_script_class_cache.cfg"
# What Godot reads or imports; not what games and trainers write into a project's folder (csv, logs).
_SOURCES = (
    *(".gd", ".tscn", ".scn", ".tres", ".res", ".cfg", ".godot", ".import", ".gdextension", ".gdshader"),
    *(".gdshaderinc", ".uid", ".svg", ".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tga", ".hdr", ".exr"),
    *(
        ".glb",
        ".gltf",
        ".bin",
        ".obj",
        ".fbx",
        ".dae",
        ".blend",
        ".wav",
        ".ogg",
        ".mp3",
        ".ttf",
        ".otf",
        ".woff2",
    ),
)
_PROBLEM = re.compile(
    r"SCRIPT ERROR|Parse Error|Failed to load script|Attempt to open script|Cannot open file 'res://"
)


def is_project(folder: Path) -> bool:
    """Whether a folder is a Godot project."""
    return (folder / "project.godot").is_file()


def check_project(folder: Path) -> None:
    """Raises UsageError when a folder is no Godot project."""
    if not is_project(folder):
        raise UsageError(f"{folder} holds no project.godot, so it is no Godot project")


def import_project(project: Path, engine: Godot) -> None:
    """Imports a project's files if they were never imported or have changed since.

    Raises:
        UsageError: It is no project.
        ExportError: Godot reports an error in it, or its folder can't be written.
    """
    check_project(project)
    with locked(project):
        stamp = project / _STAMP
        if stamp.exists() and stamp.read_text() == _fingerprint(project, engine):
            return
        if not os.access(project, os.W_OK):
            _accept_as_it_is(project)
            return
        arguments = ["--path", str(project.absolute()), "--import"]
        answer = run_godot(engine, arguments)
        if _problems(answer.output):
            # The first time, autoloads and plugins run before what they preload is imported.
            answer = run_godot(engine, arguments)
        raise_problems(answer.output, f"importing {project}")
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(_fingerprint(project, engine))  # taken anew: importing writes .import files


def _accept_as_it_is(project: Path) -> None:
    if not (project / _CLASSES).exists():
        raise ExportError(
            f"{project} has never been imported, and can't be written: import it once with the Godot editor, "
            "or copy it to a folder of your own"
        )
    logger.warning("%s can't be written, so it is used as it was imported last", project)


@contextlib.contextmanager
def locked(project: Path) -> Iterator[None]:
    """Keeps two of this user's programs from working on one project at the same time."""
    name = hashlib.sha256(str(project.resolve()).encode()).hexdigest()[:16]
    folder = godot.cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / f"{name}.lock", timeout=_TIME_LIMIT_S):
            yield
    except filelock.Timeout as error:
        raise ExportError(
            f"another program has been importing or exporting {project} for {_TIME_LIMIT_S} s"
        ) from error


def _fingerprint(project: Path, engine: Godot) -> str:
    digest = hashlib.sha256(f"{engine.path} {engine.version}\n".encode())
    for file in source_files(project):
        stat = file.stat()
        digest.update(f"{file.relative_to(project)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def source_files(project: Path) -> list[Path]:
    """The files that Godot makes something of, in order; it skips what begins with a dot as well."""
    found: list[Path] = []
    for folder, folders, names in os.walk(project):
        if ".gdignore" in names:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(folder) / name for name in names if name.endswith(_SOURCES)]
    return sorted(found)


def run_godot(engine: Godot, arguments: list[str]) -> Answer:
    """Runs the editor without a window.

    Raises:
        ExportError: It failed, or did not end in time.
    """
    command = [str(engine.path), "--headless", *arguments]
    try:
        answer = run(command, _TIME_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"Godot did not end within {_TIME_LIMIT_S} s: {' '.join(command)}") from error
    except OSError as error:
        raise ExportError(f"{engine.path} can't be started: {error}") from error
    if answer.exit_code != 0:
        raise_problems(answer.output, f"Godot failed with exit code {answer.exit_code}")
        raise ExportError(
            f"Godot failed with exit code {answer.exit_code}: {' '.join(command)}\n{answer.last_lines()}"
        )
    return answer


def raise_problems(output: str, what: str) -> None:
    """Raises ExportError with Godot's own words when it reported an error in the project."""
    if found := _problems(output):
        quoted = "\n".join(f"  {line}" for line in found[:10])
        raise ExportError(f"{what}: Godot reports\n{quoted}")


def _problems(output: str) -> list[str]:
    """Each error's line and the one behind it, which says where."""
    lines = [line.strip() for line in output.splitlines()]
    return [text for i, line in enumerate(lines) if _PROBLEM.search(line) for text in lines[i : i + 2]]
