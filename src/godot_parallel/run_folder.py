"""What a run leaves on disk: one folder that tells everything. Writes are atomic."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import filelock
import tomli_w

from godot_parallel.errors import RunFolderError

CONFIG = "config.toml"
PLAN = "experiment.toml"
STATUS = "status.json"
"""What became of each run, in an experiment's folder."""
REPORT = "report.json"
"""The evaluation of a finished run, by the protocol of :mod:`godot_parallel.training.report`."""
_LOCK = ".lock"
_NAME = re.compile(r"[^/\\\0]+")


def atomic_write(path: Path, data: bytes) -> None:
    """Writes a file so that it is either whole or as it was before, even after a power loss."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunFolderError(
            f"{path} can't be written: {error.strerror}; what was there before is whole"
        ) from error


class RunFolder:
    """The folder of one run.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = filelock.FileLock(path / _LOCK)

    @classmethod
    def create(cls, parent: Path, name: str, *, resume: bool = False, force: bool = False) -> RunFolder:
        """Makes a new run folder, or takes up an old one; it is held until :meth:`release`.

        Raises:
            RunFolderError: It exists already and neither ``resume`` nor ``force`` is given, it is to be
                resumed and does not exist, or it can't be made.
        """
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise RunFolderError(f"experiment_name: expected a plain folder name, found {name!r}")
        path = parent / name
        if resume and not (path / CONFIG).exists():
            raise RunFolderError(f"--resume: there is no run in {path}")
        folder = cls(path)
        folder._lock_up()
        try:
            folder._make_room(resume=resume, force=force)
            (path / "checkpoints").mkdir(exist_ok=True)
        except BaseException:
            folder.release()
            raise
        return folder

    def _lock_up(self) -> None:
        """Makes the folder and holds it until :meth:`release`, or until this process ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise RunFolderError(
                f"another training is writing to {self.path} right now; choose another --experiment_name"
            ) from None
        except OSError as error:
            raise RunFolderError(f"the run folder {self.path} can't be made: {error.strerror}") from error

    def release(self) -> None:
        """Lets another training have the folder; may be called twice."""
        if self._lock.is_locked:
            (self.path / _LOCK).unlink(missing_ok=True)
            self._lock.release()

    def _make_room(self, *, resume: bool, force: bool) -> None:
        path, name = self.path, self.path.name
        taken = _is_taken(path)
        if taken and not (resume or force):
            raise RunFolderError(
                f"the experiment {name!r} exists already in {path}: go on with it (--resume), "
                "replace it (--force), or choose another --experiment_name"
            )
        if taken and force and not resume:
            if not (path / CONFIG).exists():
                raise RunFolderError(f"--force: {path} is no run folder, so it is left alone")
            for entry in path.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif entry.name != _LOCK:
                    entry.unlink()

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Opens an existing run folder for reading.

        Raises:
            RunFolderError: It is none.
        """
        if not (path / CONFIG).is_file():
            raise RunFolderError(f"{path} is no run folder: expected a {CONFIG} in it")
        return cls(path)

    def config(self) -> dict[str, Any]:
        """The settings that the run was made with."""
        try:
            return tomllib.loads((self.path / CONFIG).read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise RunFolderError(f"{self.path / CONFIG} can't be read: {error}") from error

    def write_config(self, values: Mapping[str, Any]) -> None:
        """Stores the settings; those that are ``None`` are left out."""
        told = {key: _plain(value) for key, value in values.items() if value is not None}
        self.write_text(CONFIG, tomli_w.dumps(told))

    def write_bytes(self, name: str, data: bytes) -> None:
        """Writes a file of the run."""
        atomic_write(self.path / name, data)

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file of the run."""
        self.write_bytes(name, text.encode())

    def write_json(self, name: str, values: Any) -> None:
        """Writes a JSON file of the run."""
        self.write_text(name, json.dumps(values, indent=2) + "\n")

    def read_json(self, name: str) -> Any:
        """Reads a JSON file of the run; ``None`` if there is none."""
        path = self.path / name
        try:
            return json.loads(path.read_text()) if path.exists() else None
        except (OSError, json.JSONDecodeError) as error:
            raise RunFolderError(f"{path} can't be read: {error}") from error

    def table(self, name: str) -> Table:
        """A CSV file of the run that grows row by row."""
        return Table(self.path / name)

    def checkpoints(self) -> list[Path]:
        """Checkpoints, oldest first."""
        found = (self.path / "checkpoints").glob("step_*.zip")
        return sorted(found, key=lambda p: int(p.stem.removeprefix("step_")))


def _is_taken(path: Path) -> bool:
    """Whether something of worth lies there; what a start that failed leaves behind is not."""
    if not path.is_dir():
        return path.exists()
    checkpoints = path / "checkpoints"
    return any(p.name not in ("engine", "checkpoints", _LOCK) for p in path.iterdir()) or (
        checkpoints.is_dir() and any(checkpoints.iterdir())
    )


class Table:
    """A CSV file that grows; a new column rewrites it once. Rows of an earlier run stay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] = []
        if path.exists():
            with path.open(newline="") as file:
                self._columns = next(csv.reader(file), [])

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a row; missing columns stay empty."""
        new = [key for key in row if key not in self._columns]
        if new:
            old = self.read()
            self._columns += new
            header = ",".join(self._columns) + "\n"
            atomic_write(self.path, (header + self._text(old)).encode())
        try:
            with self.path.open("a", newline="") as file:
                file.write(self._text([row]))
        except OSError as error:
            raise RunFolderError(f"{self.path} can't be written: {error.strerror}") from error

    def read(self) -> list[dict[str, str]]:
        """All rows."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return list(csv.DictReader(file))

    def _text(self, rows: Iterable[Mapping[str, Any]]) -> str:
        stream = io.StringIO()
        csv.DictWriter(stream, self._columns, restval="", lineterminator="\n").writerows(rows)
        return stream.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
