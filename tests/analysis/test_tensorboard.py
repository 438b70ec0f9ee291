import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2

from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.tensorboard import write_bands


def curve(name, steps, seconds, returns):
    import numpy as np

    return Curve(name, *(np.asarray(column, float) for column in (steps, seconds, returns)))


SEEDS = [curve("0", [0, 100], [0, 10], [0, 10]), curve("1", [0, 100], [0, 20], [20, 30])]


def test_bands_are_runs_with_a_layout(tmp_path):
    folders = write_bands({"a": SEEDS, "b": SEEDS[:1]}, tmp_path)
    assert [folder.relative_to(tmp_path).as_posix() for folder in folders] == [
        "across_seeds/a",
        "across_seeds/b",
    ]
    events = EventAccumulator(str(folders[0]), size_guidance={"scalars": 0})
    events.Reload()

    def line(tag):
        return events.Scalars(f"across_seeds/{tag}")

    mean = line("return_by_step_mean")
    assert (mean[0].step, mean[-1].step) == (0, 100)
    assert (mean[0].value, mean[-1].value) == (10, 20)
    assert mean[-1].wall_time - mean[0].wall_time == pytest.approx(15)  # 10 and 20 s
    assert line("return_by_step_mean_high")[0].value == pytest.approx(10 + 200**0.5)
    assert [line(f"return_by_step_iqm{end}")[-1].value for end in ("_low", "", "_high")] == [10, 20, 30]
    assert line("return_by_second_mean")[-1].step == 10  # where the first one ends
    tensor = events.Tensors("custom_scalars__config__")[0].tensor_proto
    layout = layout_pb2.Layout.FromString(tensor.string_val[0])
    series = layout.category[0].chart[0].margin.series[0]
    assert {series.value, series.lower, series.upper} <= set(events.Tags()["scalars"])


def test_bands_are_replaced(tmp_path):
    write_bands({"a": SEEDS, "b": SEEDS}, tmp_path)
    write_bands({"a": SEEDS}, tmp_path)
    assert [p.name for p in (tmp_path / "across_seeds").iterdir()] == ["a"]
    assert len(list((tmp_path / "across_seeds" / "a").iterdir())) == 1
