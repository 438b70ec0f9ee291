"""Learning curves from run folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from godot_parallel.errors import RunFolderError
from godot_parallel.run_folder import RunFolder

RETURN_COLUMN = "rollout/ep_rew_mean"


@dataclass(frozen=True)
class Curve:
    """How one run learnt.

    Attributes:
        name: The run's name.
        steps: (T,) agent steps.
        wall_s: (T,) seconds since the start of the run.
        returns: (T,) mean return of the last 100 training episodes (ep_rew_mean).
    """

    name: str
    steps: npt.NDArray[np.float64]
    wall_s: npt.NDArray[np.float64]
    returns: npt.NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> Curve:
        """Reads a run folder's curve.

        Raises:
            RunFolderError: It is no run folder, or has logged no episode yet.
        """
        rows = [r for r in RunFolder.open(path).table("progress.csv").read() if r.get(RETURN_COLUMN)]
        if not rows:
            raise RunFolderError(f"{path} has logged no finished episode yet")
        columns: list[Any] = [
            np.array([float(row[name]) for row in rows]) for name in ("step", "wall_s", RETURN_COLUMN)
        ]
        return cls(path.name, *columns)

    def seconds_to(self, threshold: float) -> float | None:
        """Seconds until the mean return first reached ``threshold``; ``None`` if it never did."""
        reached = np.flatnonzero(self.returns >= threshold)
        return float(self.wall_s[reached[0]]) if len(reached) else None

    def steps_to(self, threshold: float) -> float | None:
        """Steps until the mean return first reached ``threshold``; ``None`` if it never did."""
        reached = np.flatnonzero(self.returns >= threshold)
        return float(self.steps[reached[0]]) if len(reached) else None
