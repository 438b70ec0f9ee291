"""A Godot project's export presets."""

from __future__ import annotations

import configparser
import re
import sys
from pathlib import Path
from typing import NamedTuple

from godot_parallel.errors import ExportError, UsageError

_PRESETS = "export_presets.cfg"
_PLATFORMS = {"linux": ("Linux", "Linux/X11"), "win32": ("Windows Desktop",), "darwin": ("macOS",)}


class Preset(NamedTuple):
    """One export preset of a project."""

    name: str
    platform: str
    features: tuple[str, ...]

    @property
    def runs_here(self) -> bool:
        """Whether what it makes is a program for this system."""
        return self.platform in _PLATFORMS.get(sys.platform, ())


def presets(project: Path) -> list[Preset]:
    """A project's export presets, in order."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    if (project / _PRESETS).exists():
        try:
            parser.read_string((project / _PRESETS).read_text(encoding="utf-8", errors="replace"))
        except configparser.Error as error:
            raise ExportError(f"{project / _PRESETS} can't be read: {error}") from error
    return [
        Preset(
            _text(parser[section], "name"),
            _text(parser[section], "platform"),
            tuple(f.strip() for f in _text(parser[section], "custom_features").split(",") if f.strip()),
        )
        for section in parser.sections()
        if re.fullmatch(r"preset\.\d+", section)
    ]


def _text(section: configparser.SectionProxy, key: str) -> str:
    return (section.get(key) or "").strip('"')


def preset_names(project: Path) -> list[str]:
    """Names of a project's export presets, in order."""
    return [preset.name for preset in presets(project)]


def choose_preset(project: Path, name: str | None) -> Preset:
    """The preset called ``name``; if ``None``, the only one, or the only one for this system.

    Raises:
        UsageError: There is none, or more than one.
    """
    all_presets = presets(project)
    if not all_presets:
        raise UsageError(
            f"{project} has no {_PRESETS}: add a preset for this system in the editor (Project > Export), "
            "or train from the project folder itself, which needs no export"
        )
    fitting = [p for p in all_presets if p.name == name or (name is None and p.runs_here)]
    if name is None and len(all_presets) == 1:
        return all_presets[0]
    if fitting and (name is not None or len(fitting) == 1):
        return fitting[0]
    expected = ", ".join(p.name for p in all_presets)
    if name is None:
        raise UsageError(f"preset: {project} has several, choose one of {expected}")
    raise UsageError(f"preset {name!r}: expected one of {expected}")
