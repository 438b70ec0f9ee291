"""An experiment on the real engine, by the example of the documentation."""

import importlib.util
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

pytestmark = pytest.mark.engine
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "experiment.py"


def test_the_example_runs(ball_chase, tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(tmp_path, 16_384)
    told = capsys.readouterr().out
    assert "64 - 512:" in told
    assert "(it can't be below 0.25 with 3)" in told
    folder = tmp_path / "minibatches"
    assert (folder / "curves_by_steps.png").exists()
    events = EventAccumulator(str(folder / "across_seeds" / "512"))
    events.Reload()
    assert len(events.Scalars("across_seeds/return_by_step_iqm")) == 200
