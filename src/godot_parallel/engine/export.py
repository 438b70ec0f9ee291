"""Exports Godot projects as programs, headless, with Godot's own error messages."""

from __future__ import annotations

import hashlib
import importlib.resources
import logging
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from godot_parallel.engine import debian, godot
from godot_parallel.engine.command import run
from godot_parallel.engine.godot import Godot, Progress
from godot_parallel.engine.presets import Preset, choose_preset, preset_names, presets
from godot_parallel.engine.project import (
    check_project,
    import_project,
    is_project,
    locked,
    raise_problems,
    run_godot,
    source_files,
)
from godot_parallel.errors import ExportError, GodotNotFoundError, UsageError

__all__ = [
    "bundled_game",
    "bundled_games",
    "bundled_project",
    "export_game",
    "import_project",
    "is_project",
    "preset_names",
]

logger = logging.getLogger(__name__)

_START_LIMIT_S = 60
_LOCK_LIMIT_S = 900
_NO_TEMPLATE = re.compile(r"No export template found at the expected path:\s*(\S.*?)\s*$", re.MULTILINE)
_NO_TRAINER = "no trainer listens"


def export_game(
    project: Path, output: Path, preset: str | None, engine: Godot, progress: Progress | None = None
) -> Path:
    """Exports a project as a program, and checks that the program starts.

    Args:
        project: Folder with project.godot and export_presets.cfg.
        output: The program to make; its .pck comes to lie beside it.
        preset: Name of the export preset; if ``None``, the only one (for this system).
        engine: The Godot to export with.
        progress: Told what is being done.

    Returns:
        The program's path.

    Raises:
        UsageError: No such project or preset, or no place for the program.
        ExportError: Godot reports an error, or the result does not start.
        GodotNotFoundError: The engine has no export templates.
    """
    say = progress or logger.info
    check_project(project)
    chosen = choose_preset(project, preset)
    output = output.expanduser().absolute()
    _check_output(output)
    _make(project, output, chosen, engine, say)
    if _stays_here(engine):
        say(f"{output.name} runs on this machine only: it uses the libraries in {engine.path.parents[2]}")
    return output


def _make(project: Path, output: Path, preset: Preset, engine: Godot, say: Progress) -> None:
    say(f"importing {project}")
    import_project(project, engine)
    say(f"exporting preset {preset.name!r}")
    with locked(project), _folder_beside(output) as folder:
        made = folder / output.name
        _export(project, preset, engine, made)
        if preset.runs_here:
            say("checking that the game starts")
            _check_start(made)
        else:
            say(f"not started: it is made for {preset.platform}")
        _move(folder, output)


def _check_output(output: Path) -> None:
    if os.path.isdir(output) and output.suffix != ".app":
        raise UsageError(f"output: {output} is a folder; expected the name of a program in it")
    if output.suffix == ".pck":
        raise UsageError(f"output: expected the name of a program like game{godot.suffix()}, found {output}")


@contextmanager
def _folder_beside(output: Path) -> Iterator[Path]:
    """A temporary folder on the output's own disk, which Godot does not look into."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=output.parent, prefix=".export-")
    except OSError as error:
        raise UsageError(f"output: {output} can't be written: {error.strerror}") from error
    with temporary as folder:
        yield Path(folder)


def _export(project: Path, preset: Preset, engine: Godot, made: Path) -> None:
    try:
        answer = run_godot(
            engine, ["--path", str(project.absolute()), "--export-release", preset.name, str(made)]
        )
    except ExportError as error:
        if missing := _NO_TEMPLATE.findall(str(error)):
            raise GodotNotFoundError(_template_advice(engine, missing[-1])) from error
        raise
    raise_problems(answer.output, f"exporting {project}")
    if not made.exists():
        raise ExportError(f"Godot made no {made.name}:\n{answer.last_lines()}")


def _template_advice(engine: Godot, path: str) -> str:
    return (
        f"{engine.path} ({engine.source}) has no export template: expected {path}. Install it in its editor "
        "(Editor > Manage Export Templates), let $GODOT name an engine that has it, or train from the "
        "project folder itself, which needs no export"
    )


def _check_start(game: Path) -> None:
    """Runs a game for a moment. With our addon and no trainer it ends with 1 and says so.

    Port 1: on the default one a trainer may be waiting for the editor.
    """
    program = next(iter(sorted((game / "Contents" / "MacOS").glob("*"))), game)
    command = [str(program), "--headless", "--quit-after", "3", "--port=1", "--", "--connect_timeout=0"]
    try:
        answer = run(command, _START_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise ExportError(f"the exported game does not end when told to: {' '.join(command)}") from error
    except OSError as error:
        raise ExportError(f"the exported game can't be started here: {error}") from error
    raise_problems(answer.output, "starting the exported game")
    if answer.exit_code != 0 and _NO_TRAINER not in answer.output:
        raise ExportError(f"the exported game ends with {answer.exit_code}:\n{answer.last_lines()}")


def _move(folder: Path, output: Path) -> None:
    """Moves all parts to where they belong; the program last, so that it is never there without them."""
    for file in sorted(folder.iterdir(), key=lambda f: f.name == output.name):
        target = output.parent / file.name
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)  # an older macOS bundle, or folder of libraries
        os.replace(file, target)


def _stays_here(engine: Godot) -> bool:
    folder = godot.cache_folder() / "godot"
    return debian.is_complete(folder) and engine.path == debian.program(folder)


def bundled_project() -> Path:
    """The Godot project that comes with this package: in a clone beside ``src``, else in the wheel."""
    clone = Path(__file__).parents[3] / "godot"
    if is_project(clone):
        return clone
    return Path(str(importlib.resources.files("godot_parallel") / "godot_project"))


def bundled_games() -> tuple[str, ...]:
    """Names of the games that come with this package: folders that an export preset is made for."""
    project = bundled_project()
    exported = {feature for preset in presets(project) for feature in preset.features}
    return tuple(sorted(p.name for p in (project / "games").iterdir() if p.name in exported))


def bundled_game(name: str, progress: Progress | None = None, engine: Godot | None = None) -> Path:
    """A bundled game's program, exported into the cache when it is first used.

    Args:
        name: One of :func:`bundled_games`.
        progress: Told what is being done.
        engine: The Godot to export with; found or installed if ``None``.

    Raises:
        UsageError: There is no such game.
        ExportError: It can't be exported.
    """
    if name not in bundled_games():
        raise UsageError(f"env: expected one of {', '.join(bundled_games())}, found {name!r}")
    engine = engine or godot.find_godot(progress=progress)
    preset = next(p for p in presets(bundled_project()) if name in p.features)
    folder = godot.cache_folder() / "games" / f"{name}-{_digest(bundled_project(), engine)}"
    game = folder / f"{preset.name}{godot.suffix()}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder.parent / f"{name}.lock", timeout=_LOCK_LIMIT_S):
            if not game.exists():
                _export_copy(preset, game, engine, progress)
    except filelock.Timeout as error:
        raise ExportError(f"another program has been exporting {name} for {_LOCK_LIMIT_S} s") from error
    return game


def _digest(project: Path, engine: Godot) -> str:
    """Stands for the engine (an export may need its libraries) and all that goes into an export."""
    digest = hashlib.sha256(f"{engine.path} {engine.version}\n".encode())
    for file in source_files(project):
        name = file.relative_to(project).as_posix()
        if not name.startswith("tests/"):  # as in the presets
            digest.update(f"{name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _export_copy(preset: Preset, game: Path, engine: Godot, progress: Progress | None) -> None:
    """Exports from a copy: an installed package may be read-only, and several users may share it."""
    with tempfile.TemporaryDirectory(prefix="gdrl-project-") as work:
        copy = Path(work) / "project"
        shutil.copytree(bundled_project(), copy, ignore=shutil.ignore_patterns(".godot"))
        copy.chmod(0o755)
        say = progress or logger.info
        try:
            _make(copy, game, preset, engine, say)
        except GodotNotFoundError:
            if engine.source != "PATH":
                raise
            # Whoever has only the editor gets our own engine with its templates for our own game.
            _make(copy, game, preset, godot.private_copy(progress=progress), say)
