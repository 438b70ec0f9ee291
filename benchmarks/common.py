"""What the benchmarks share: a ratio in one line, and results that a script can read."""

from __future__ import annotations

import json
import time
from pathlib import Path

from godot_parallel.run_folder import atomic_write

FOLDER = Path("benchmarks/results")


class Report:
    """Prints each number as it is measured, and keeps all of them in benchmarks/results/NAME.json."""

    def __init__(self, name: str) -> None:
        self._path = FOLDER / f"{name}.json"
        self._results: dict[str, object] = {"time": time.strftime("%Y-%m-%d")}

    def tell(self, name: str, value: float, unit: str) -> float:
        """A measured number."""
        print(f"{name:<74}{_number(value):>12} {unit}", flush=True)
        return self._keep(name, value)

    def ratio(self, name: str, value: float, target: str) -> float:
        """A ratio beside what it should be."""
        print(f"{'  -> ' + name:<74}{value:>12,.2f} x  (target {target})", flush=True)
        return self._keep(name, value)

    def keep(self, name: str, value: object) -> None:
        """Keeps something without printing it."""
        self._results[name] = value
        FOLDER.mkdir(parents=True, exist_ok=True)
        atomic_write(self._path, (json.dumps(self._results, indent=2) + "\n").encode())

    def _keep(self, name: str, value: float) -> float:
        self.keep(name, round(value, 4))
        return value


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"
