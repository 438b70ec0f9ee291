"""One run of an experiment as a program of its own: trains, goes on, or only evaluates, as it is needed.

It reads the run's options as JSON from the file that its argument names, and prints one JSON object a line:
``{"steps": ..., "total": ..., "steps_per_s": ..., "mean_return": ...}`` now and then, and
``{"note": ...}``; at last, if need be, ``{"error": ...}``. Exit codes are those of ``gdrl``.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

from godot_parallel.errors import GodotParallelError, RunFolderError
from godot_parallel.run_folder import CONFIG, REPORT, RunFolder
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.report import write_report
from godot_parallel.training.train import resolve_game, train

_INTERVAL_S = 0.5


class JsonReporter:
    """Tells on standard output, a JSON object a line."""

    def __init__(self) -> None:
        self._last = 0.0

    def progress(self, steps: int, total: int, steps_per_s: float, mean_return: float | None) -> None:
        """At most twice a second."""
        if time.monotonic() - self._last > _INTERVAL_S:
            self._last = time.monotonic()
            _print({"steps": steps, "total": total, "steps_per_s": steps_per_s, "mean_return": mean_return})

    def say(self, text: str) -> None:
        """A note."""
        _print({"note": text})


def _print(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)  # noqa: T201 - this program talks to another


def execute(config: TrainConfig, reporter: JsonReporter) -> bool:
    """Brings a run to its end, from wherever it is; false if somebody asked for an early end."""
    folder = config.experiment_dir / config.experiment_name
    if (folder / REPORT).exists():
        return True
    game = resolve_game(config, reporter)
    if game is None:
        raise RunFolderError("an experiment needs --env_path or --env: a game in the editor is only one")
    steps = steps_so_far(folder)
    if steps < config.timesteps:
        goes_on = steps > 0
        if train(dataclasses.replace(config, resume=goes_on, force=not goes_on), reporter).interrupted:
            return False
    write_report(folder, TrainConfig.from_mapping(RunFolder.open(folder).config(), str(folder)), game)
    return True


def steps_so_far(folder: Path) -> int:
    """Agent steps from which a run can go on; 0 if it has to begin."""
    if not (folder / CONFIG).exists():
        return 0
    run = RunFolder(folder)
    state = run.read_json("state.json")
    return int(state["step"]) if state and run.checkpoints() else 0


def main() -> int:
    """Reads the options, runs, and returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    options = json.loads(Path(sys.argv[1]).read_text())
    try:
        return 0 if execute(TrainConfig.from_mapping(options, sys.argv[1]), JsonReporter()) else 130
    except KeyboardInterrupt:
        return 130
    except (GodotParallelError, OSError) as error:
        _print({"error": str(error)})
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
