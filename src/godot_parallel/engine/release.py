"""Installs Godot's official release for this system, its checksum verified."""

from __future__ import annotations

import hashlib
import http.client
import os
import platform
import shutil
import sys
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

from godot_parallel.errors import GodotNotFoundError

Progress = Callable[[str], None]
VERSION = "4.6.3-stable"
BASE_VARIABLE = "GODOT_PARALLEL_RELEASES"
_BASE = "https://github.com/godotengine/godot/releases/download"
_MARKER = "complete-release"
_TIMEOUT_S = 60.0
_CHUNK = 1 << 20
_TEMPLATES = {"linux": "linux_", "win32": "windows_", "darwin": "macos"}


def asset_name(system: str = sys.platform, machine: str | None = None) -> str:
    """File name of the editor for a system.

    Raises:
        GodotNotFoundError: There is no release for it.
    """
    arm = (machine or platform.machine()).lower() in ("arm64", "aarch64")
    names = {
        "linux": f"linux.{'arm64' if arm else 'x86_64'}.zip",
        "win32": "windows_arm64.exe.zip" if arm else "win64.exe.zip",
        "darwin": "macos.universal.zip",
    }
    if system not in names:
        raise GodotNotFoundError(f"there is no official release for the system {system!r}")
    return f"Godot_v{VERSION}_{names[system]}"


def is_complete(folder: Path) -> bool:
    """Whether an installation was finished."""
    return (folder / _MARKER).exists()


def program(folder: Path) -> Path:
    """The editor in a private folder."""
    return folder / (folder / _MARKER).read_text().strip()


def install(folder: Path, progress: Progress) -> None:
    """Downloads the editor and its export templates and unpacks them.

    Raises:
        GodotNotFoundError: A download failed, or its checksum is wrong.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sums = _checksums()
    editor, templates = asset_name(), f"Godot_v{VERSION}_export_templates.tpz"
    for name in (editor, templates):
        progress(f"downloading {name}")
        _download(name, folder / name, sums.get(name))
    progress("unpacking")
    try:
        main = _unpack_editor(folder, editor)
        _unpack_templates(folder, templates, main)
    except (zipfile.BadZipFile, StopIteration) as error:
        raise GodotNotFoundError(f"the release holds something unexpected: {error}") from error
    (folder / _MARKER).write_text(str(main.relative_to(folder)))


def _address(name: str) -> str:
    return f"{os.environ.get(BASE_VARIABLE, _BASE)}/{VERSION}/{name}"


def _checksums() -> dict[str, str]:
    """Checksums by file name, from the release's own list."""
    try:
        with urllib.request.urlopen(_address("SHA512-SUMS.txt"), timeout=_TIMEOUT_S) as answer:
            lines = answer.read(_CHUNK).decode(errors="replace").splitlines()
    except (OSError, http.client.HTTPException) as error:
        raise GodotNotFoundError(f"the list of checksums can't be downloaded: {error}") from error
    return {line.split()[-1].lstrip("*"): line.split()[0] for line in lines if len(line.split()) == 2}


def _download(name: str, target: Path, expected: str | None) -> None:
    if expected is None:
        raise GodotNotFoundError(f"the release's list of checksums does not name {name}")
    digest = hashlib.sha512()
    try:
        with urllib.request.urlopen(_address(name), timeout=_TIMEOUT_S) as answer, target.open("wb") as file:
            while chunk := answer.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except (OSError, http.client.HTTPException) as error:
        raise GodotNotFoundError(f"{name} can't be downloaded: {error}") from error
    if digest.hexdigest() != expected:
        target.unlink()
        raise GodotNotFoundError(f"{name} has the wrong checksum (a broken download?); it was deleted")


def _unpack_editor(folder: Path, name: str) -> Path:
    with zipfile.ZipFile(folder / name) as archive:
        archive.extractall(folder)
        members = archive.namelist()
    (folder / name).unlink()
    inner = "Contents/MacOS/Godot" if sys.platform == "darwin" else ""
    main = folder / next(m for m in members if (m.endswith(inner) if inner else "console" not in m))
    main.chmod(0o755)
    return main


def _unpack_templates(folder: Path, name: str, main: Path) -> None:
    """Puts this system's templates where the editor looks for them; all of them would be 3 GB."""
    # Self-contained mode: the editor's data lies beside it; on macOS beside its bundle, which is sealed.
    beside = main.parents[3] if sys.platform == "darwin" else main.parent
    (beside / "._sc_").touch()
    target = beside / "editor_data" / "export_templates" / VERSION.replace("-", ".")
    target.mkdir(parents=True, exist_ok=True)
    wanted = (_TEMPLATES[sys.platform], "version.txt")
    with zipfile.ZipFile(folder / name) as archive:
        for member in archive.namelist():
            file = target / Path(member).name
            if file.name.startswith(wanted):
                with archive.open(member) as packed, file.open("wb") as unpacked:
                    shutil.copyfileobj(packed, unpacked)
                file.chmod(0o755)
    (folder / name).unlink()
