"""Scenes of the project's own tests, run in the real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from godot_parallel.engine import export, godot
from godot_parallel.engine.process import EngineSettings


@pytest.fixture(scope="session")
def project() -> Path:
    """The Godot project, imported."""
    folder = Path(__file__).parents[2] / "godot"
    export.import_project(folder, godot.find_godot())
    return folder


@pytest.fixture
def scene(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., EngineSettings]:
    """Settings for a test scene: ``scene("probe", "signal", length=11, instances=2)``."""

    def make(name: str, habits: str = "callback", length: int = 11, **own: object) -> EngineSettings:
        monkeypatch.setenv("PROBE", habits)
        monkeypatch.setenv("PROBE_LENGTH", str(length))
        engine = godot.find_godot()
        game = tmp_path / "game"
        game.write_text(
            f'#!/bin/sh\nexec "{engine.path}" --path "{project}" res://tests/scenes/{name}.tscn "$@"\n'
        )
        game.chmod(0o755)
        own.setdefault("log_dir", tmp_path / "logs")
        return EngineSettings(game, **own)  # type: ignore[arg-type]

    return make
