"""Each variant as one more run in TensorBoard: lines with bands across seeds, in its "Custom Scalars" tab."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.custom_scalar import layout_pb2, metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from godot_parallel.analysis.bands import Axis, Band, band
from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.statistics import Values

FOLDER = "across_seeds"
_CHARTS: dict[str, tuple[Axis, str]] = {
    "Return, mean ± std": ("steps", "mean"),
    "Return, IQM with 95 % interval": ("steps", "iqm"),
    "Return by second, mean ± std": ("seconds", "mean"),
    "Return by second, IQM with 95 % interval": ("seconds", "iqm"),
}


def write_bands(variants: Mapping[str, Sequence[Curve]], experiment: Path) -> list[Path]:
    """Writes the runs ``across_seeds/VARIANT`` into an experiment's folder; earlier ones are replaced.

    Over steps, an event's wall clock is the time at which the seeds were there on average. The charts "by
    second" have the seconds since the start in place of steps.

    Args:
        variants: Curves by variant, one for each seed.
        experiment: The folder that TensorBoard is pointed to.

    Returns:
        The folders written.
    """
    shutil.rmtree(experiment / FOLDER, ignore_errors=True)
    started = time.time()
    folders = []
    for name, curves in variants.items():
        folder = experiment / FOLDER / name
        writer = EventFileWriter(str(folder))
        writer.add_event(Event(wall_time=started, summary=_layout()))
        for axis in ("steps", "seconds"):
            told = band(curves, axis)
            seconds = told.x if axis == "seconds" else band_seconds(curves, told)
            for i, x in enumerate(told.x):
                values = [
                    Summary.Value(tag=tag, simple_value=float(line[i])) for tag, line in _lines(axis, told)
                ]
                writer.add_event(
                    Event(wall_time=started + float(seconds[i]), step=round(x), summary=Summary(value=values))
                )
        writer.close()
        folders.append(folder)
    return folders


def band_seconds(curves: Sequence[Curve], told: Band) -> Values:
    """(T,) seconds at which the seeds had come to a band's steps, on average."""
    seconds: Values = np.mean([np.interp(told.x, curve.steps, curve.wall_s) for curve in curves], axis=0)
    return seconds


def _tags(axis: Axis, kind: str) -> tuple[str, str, str]:
    base = f"across_seeds/return_by_{'step' if axis == 'steps' else 'second'}_{kind}"
    return base, f"{base}_low", f"{base}_high"


def _lines(axis: Axis, told: Band) -> Iterator[tuple[str, Values]]:
    mean = (told.mean, told.mean - told.std, told.mean + told.std)
    yield from zip(_tags(axis, "mean"), mean, strict=True)
    yield from zip(_tags(axis, "iqm"), (told.iqm, told.low, told.high), strict=True)


def _layout() -> Summary:
    charts = []
    for title, (axis, kind) in _CHARTS.items():
        value, low, high = _tags(axis, kind)
        series = layout_pb2.MarginChartContent.Series(value=value, lower=low, upper=high)
        charts.append(layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series])))
    layout = layout_pb2.Layout(category=[layout_pb2.Category(title="Across seeds", chart=charts)])
    tensor = TensorProto(dtype=DT_STRING, string_val=[layout.SerializeToString()])
    told = Summary.Value(
        tag=metadata.CONFIG_SUMMARY_TAG, metadata=metadata.create_summary_metadata(), tensor=tensor
    )
    return Summary(value=[told])
