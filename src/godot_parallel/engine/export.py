"""Imports and exports Godot projects, headless, with Godot's own error messages."""

from __future__ import annotations

import configparser
import hashlib
import importlib.resources
import logging
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import filelock

from godot_parallel.engine import godot
from godot_parallel.engine.godot import Godot, Progress
from godot_parallel.errors import ExportError, UsageError

logger = logging.getLogger(__name__)

_TIME_LIMIT_S = 600
_START_LIMIT_S = 60
_PRESETS = "export_presets.cfg"
_STAMP = Path(".godot") / "godot_parallel_imported"
_SOURCES = (".gd", ".tscn", ".tres", ".cfg", ".godot", ".import", ".svg", ".png", ".glb", ".wav", ".gdshader")
_PROBLEM = re.compile(r"(SCRIPT ERROR|Parse Error|Failed to load script|Cannot open file)")
_PRESET_FOR = {"ball_chase": "BallChase"}


def is_project(folder: Path) -> bool:
    """Whether a folder is a Godot project."""
    return (folder / "project.godot").is_file()


def import_project(project: Path, engine: Godot) -> None:
    """Imports a project's files if they were never imported or have changed since.

    Raises:
        UsageError: It is no project.
        ExportError: Godot reports an error in it.
    """
    if not is_project(project):
        raise UsageError(f"{project} holds no project.godot, so it is no Godot project")
    with _locked(project):
        stamp, state = project / _STAMP, _fingerprint(project, engine)
        if stamp.exists() and stamp.read_text() == state:
            return
        output = _godot(engine, ["--path", str(project.absolute()), "--import"])
        _raise_problems(output, f"importing {project}")
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(state)


def _locked(project: Path) -> filelock.BaseFileLock:
    name = hashlib.sha256(str(project.absolute()).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"godot-parallel-{os.getuid() if hasattr(os, 'getuid') else 0}"
    folder.mkdir(exist_ok=True)
    return filelock.FileLock(folder / f"{name}.lock", timeout=_TIME_LIMIT_S)


def _fingerprint(project: Path, engine: Godot) -> str:
    digest = hashlib.sha256(engine.version.encode())
    for file in _files(project):
        stat = file.stat()
        digest.update(f"{file.relative_to(project)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files(project: Path) -> list[Path]:
    return sorted(
        Path(folder) / name
        for folder, folders, names in os.walk(project)
        for name in names
        if name.endswith(_SOURCES) and ".godot" not in Path(folder).relative_to(project).parts
    )


def _godot(engine: Godot, arguments: list[str]) -> str:
    command = [str(engine.path), "--headless", *arguments]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"Godot did not end within {_TIME_LIMIT_S} s: {' '.join(command)}") from error
    output = result.stdout + result.stderr
    if result.returncode != 0:
        raise ExportError(
            f"Godot failed with exit code {result.returncode}: {' '.join(command)}\n{_tail(output)}"
        )
    return output


def _tail(output: str, lines: int = 20) -> str:
    told = [line for line in output.splitlines() if line.strip() and "[" not in line[:6]]
    return "\n".join(f"  {line}" for line in told[-lines:])


def _raise_problems(output: str, what: str) -> None:
    lines = output.splitlines()
    found = [i for i, line in enumerate(lines) if _PROBLEM.search(line)]
    if found:
        quoted = "\n".join(f"  {line.strip()}" for i in found[:5] for line in lines[i : i + 2])
        raise ExportError(f"{what}: Godot reports\n{quoted}")


def preset_names(project: Path) -> list[str]:
    """Names of a project's export presets, in order."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    if (project / _PRESETS).exists():
        parser.read_string((project / _PRESETS).read_text(errors="replace"))
    sections = [s for s in parser.sections() if re.fullmatch(r"preset\.\d+", s)]
    return [parser[s].get("name", "").strip('"') for s in sections]


def export_game(
    project: Path, output: Path, preset: str | None, engine: Godot, progress: Progress | None = None
) -> Path:
    """Exports a project as a program, and checks that the program starts.

    Args:
        project: Folder with project.godot and export_presets.cfg.
        output: The program to make; its .pck comes to lie beside it.
        preset: Name of the export preset; the only one if ``None``.
        engine: The Godot to export with.
        progress: Told what is being done.

    Returns:
        The program's path.

    Raises:
        UsageError: No such project or preset.
        ExportError: Godot reports an error, or the result does not start.
    """
    say = progress or logger.info
    if not is_project(project):
        raise UsageError(f"{project} holds no project.godot, so it is no Godot project")
    name = _choose_preset(project, preset)
    say(f"importing {project}")
    import_project(project, engine)
    say(f"exporting preset {name!r}")
    output = output.absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".export-") as folder, _locked(project):
        made = Path(folder) / output.name
        text = _godot(engine, ["--path", str(project.absolute()), "--export-release", name, str(made)])
        _raise_problems(text, f"exporting {project}")
        if not made.exists():
            raise ExportError(f"Godot made no {output.name}:\n{_tail(text)}")
        say("checking that the game starts")
        _check_start(made)
        for file in Path(folder).iterdir():
            os.replace(file, output.parent / file.name)
    return output


def _choose_preset(project: Path, preset: str | None) -> str:
    names = preset_names(project)
    if not names:
        raise UsageError(
            f"{project} has no {_PRESETS}: add a preset for this system in the editor (Project > Export), "
            "or train from the project folder itself, which needs no export"
        )
    if preset is None and len(names) == 1:
        return names[0]
    if preset not in names:
        raise UsageError(f"preset {preset!r}: expected one of {', '.join(names)}")
    return preset


def _check_start(game: Path) -> None:
    """Runs a game for a moment. With our addon and no trainer it ends with 1 and says so."""
    command = [str(game), "--headless", "--quit-after", "3", "--", "--connect_timeout=0"]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_START_LIMIT_S, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"the exported game does not end when told to: {' '.join(command)}") from error
    except OSError as error:
        raise ExportError(f"the exported game can't be started here: {error}") from error
    output = result.stdout + result.stderr
    _raise_problems(output, "starting the exported game")
    if result.returncode != 0 and "no trainer listens" not in output:
        raise ExportError(f"the exported game ends with {result.returncode}:\n{_tail(output)}")


def bundled_project() -> Path:
    """The Godot project that comes with this package: in a clone beside ``src``, else in the wheel."""
    clone = Path(__file__).parents[3] / "godot"
    if is_project(clone):
        return clone
    return Path(str(importlib.resources.files("godot_parallel") / "godot_project"))


def bundled_games() -> tuple[str, ...]:
    """Names of the games that come with this package."""
    folder = bundled_project() / "games"
    return tuple(sorted(p.name for p in folder.iterdir() if p.name in _PRESET_FOR))


def bundled_game(name: str, progress: Progress | None = None) -> Path:
    """A bundled game's program, exported into the cache when it is first used.

    Raises:
        UsageError: There is no such game.
    """
    if name not in bundled_games():
        raise UsageError(f"env: expected one of {', '.join(bundled_games())}, found {name!r}")
    engine = godot.find_godot(progress=progress)
    source = bundled_project()
    digest = hashlib.sha256(engine.version.encode())
    for file in _files(source):
        digest.update(file.relative_to(source).as_posix().encode() + file.read_bytes())
    folder = godot.cache_folder() / "games" / f"{name}-{digest.hexdigest()[:16]}"
    game = folder / f"{_PRESET_FOR[name]}{godot.suffix()}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder.parent / f"{name}.lock"):
        if not game.exists():
            # From a copy: an installed package may be read-only, and several users may share it.
            with tempfile.TemporaryDirectory(prefix="gdrl-project-") as work:
                copy = Path(work) / "project"
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".godot"))
                export_game(copy, game, _PRESET_FOR[name], engine, progress)
    return game
