import pytest

from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.plots import learning_curves
from godot_parallel.errors import RunFolderError
from godot_parallel.run_folder import RunFolder


@pytest.fixture
def run(tmp_path):
    folder = RunFolder.create(tmp_path, "a")
    folder.write_config({"seed": 0})
    table = folder.table("progress.csv")
    table.append({"step": 100, "wall_s": 1.5})  # no episode has ended yet
    for step, wall_s, value in ((200, 3.0, -5.0), (300, 4.5, 21.0), (400, 6.0, 19.0), (500, 7.5, 80.0)):
        table.append({"step": step, "wall_s": wall_s, "rollout/ep_rew_mean": value})
    return folder.path


def test_a_curve_tells_when_a_return_was_first_reached(run):
    curve = Curve.read(run)
    assert curve.steps.tolist() == [200, 300, 400, 500]
    assert [curve.seconds_to(t) for t in (20, 80, 81)] == [4.5, 7.5, None]


def test_a_picture_is_drawn(run, tmp_path):
    for name in ("curves.png", "curves.svg"):
        learning_curves([Curve.read(run)], tmp_path / name, "title", 80.0)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "curves.svg").read_text()


def test_a_run_without_episodes_is_told(tmp_path):
    RunFolder.create(tmp_path, "b").write_config({"seed": 0})
    with pytest.raises(RunFolderError, match="no finished episode"):
        Curve.read(tmp_path / "b")
