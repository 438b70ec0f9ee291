"""What tests share: a fake game that starts in milliseconds, and the real one, exported once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from godot_parallel.engine.process import EngineSettings

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")


@pytest.fixture
def fake_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes an executable fake game: ``fake_game("die", at=3)``."""

    def make(fault: str = "", at: int = 2, length: int = 5, reward: str = "", ticks: int = 60) -> Path:
        values = {"FAULT": fault, "AT": at, "LENGTH": length, "REWARD": reward, "TICKS": ticks}
        for name, value in values.items():
            monkeypatch.setenv(f"FAKE_{name}", str(value))
        game = tmp_path / "my game_v1.5"
        game.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{FAKE_ENGINE}" "$@"\n')
        game.chmod(0o755)
        return game

    return make


@pytest.fixture
def settings(fake_game: Callable[..., Path], tmp_path: Path) -> Callable[..., EngineSettings]:
    """Makes settings for a fake game: ``settings("die", n_parallel=2)``."""

    def make(
        fault: str = "", at: int = 2, length: int = 5, reward: str = "", ticks: int = 60, **own: object
    ) -> EngineSettings:
        own.setdefault("log_dir", tmp_path / "logs")
        own.setdefault("start_timeout", 10.0)
        own.setdefault("step_timeout", 5.0)
        return EngineSettings(fake_game(fault, at, length, reward, ticks), **own)  # type: ignore[arg-type]

    return make


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No test may leave a process or an open file behind."""
    files = len(os.listdir("/proc/self/fd"))
    yield
    left = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    assert not left, f"left running: {[p.cmdline() for p in left]}"
    assert len(os.listdir("/proc/self/fd")) <= files + 3, "open files were left behind"


@pytest.fixture(scope="session")
def ball_chase() -> Path:
    """The exported BallChase."""
    from godot_parallel.engine.export import bundled_game

    return bundled_game("ball_chase")
