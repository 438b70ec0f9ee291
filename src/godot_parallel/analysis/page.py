"""An experiment as one page that needs nothing else: tables, pictures, method, and how to make it again."""

from __future__ import annotations

import base64
import importlib.resources
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2

from godot_parallel.analysis.runs import RunRecord
from godot_parallel.analysis.summary import ExperimentSummary, draw
from godot_parallel.run_folder import RunFolder, atomic_write

_PICTURES = {
    "curves_by_steps": "Learning curves: IQM across seeds with 95 % interval; thin lines are single seeds.",
    "curves_by_seconds": "The same over wall-clock time.",
    "differences": "Differences seed by seed, and their mean with its 95 % interval.",
    "profiles": "Share of runs whose mean return is above each value.",
}
_VARYING = ("experiment_name", "experiment_dir", "seed")


def write_page(summary: ExperimentSummary, output: Path) -> list[str]:
    """Writes the page.

    Args:
        summary: The experiment.
        output: File to write.

    Returns:
        What could not be drawn, and why.
    """
    with tempfile.TemporaryDirectory() as folder:
        notes = draw(summary, Path(folder), ("svg",))
        pictures = [
            {"title": title, "data": base64.b64encode(path.read_bytes()).decode()}
            for name, title in _PICTURES.items()
            if (path := Path(folder) / f"{name}.svg").exists()
        ]
    template = importlib.resources.files("godot_parallel.analysis").joinpath("page.html.jinja").read_text()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["zip"] = zip
    text = environment.from_string(template).render(
        name=summary.folder.name,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        comparison=summary.comparison,
        notes=[*summary.notes, *notes],
        pictures=pictures,
        options=_options(summary.runs),
        versions=_first(summary.runs, "versions.json"),
        commands=_commands(summary.runs),
        episodes=summary.runs[0].report["episodes"] if summary.runs and summary.runs[0].report else 0,
    )
    atomic_write(output, text.encode())
    return notes


def _options(runs: tuple[RunRecord, ...]) -> list[tuple[str, str]]:
    """Options and their values; where variants differ, all of them."""
    names = dict.fromkeys(key for run in runs for key in run.config if key not in _VARYING)
    told = []
    for name in names:
        values = dict.fromkeys(str(run.config.get(name, "-")) for run in runs)
        told.append((name, " | ".join(values)))
    return told


def _first(runs: tuple[RunRecord, ...], name: str) -> dict[str, Any]:
    return RunFolder(runs[0].path).read_json(name) or {} if runs else {}


def _commands(runs: tuple[RunRecord, ...]) -> list[str]:
    found = [run.path / "command.txt" for run in runs]
    return list(dict.fromkeys(path.read_text().strip() for path in found if path.exists()))
