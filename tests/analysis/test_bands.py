import numpy as np
import pytest

from godot_parallel.analysis.bands import band
from godot_parallel.analysis.compare import compare
from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.plots import paired_differences, performance_profiles, plot_curves
from godot_parallel.errors import UsageError


def curve(name, steps, returns, speed=10.0):
    steps = np.asarray(steps, float)
    return Curve(name, steps, steps / speed, np.asarray(returns, float))


ONE = curve("one", [0, 10, 20, 30], [0, 10, 20, 30])
TWO = curve("two", [10, 20, 40], [30, 40, 60], speed=5.0)


def test_seeds_meet_where_all_have_values():
    told = band([ONE, TWO], "steps", points=3)
    assert told.x.tolist() == [10, 20, 30]
    assert told.values.tolist() == [[10, 20, 30], [30, 40, 50]]
    assert told.mean.tolist() == told.iqm.tolist() == [20, 30, 40]
    assert told.std == pytest.approx([np.sqrt(200)] * 3)
    # Resamples of two seeds: both the lower one, one of each, or both the upper one.
    assert told.low.tolist() == [10, 20, 30]
    assert told.high.tolist() == [30, 40, 50]


def test_over_seconds_the_faster_run_ends_first():
    told = band([ONE, TWO], "seconds", points=2)
    assert told.x.tolist() == [2, 3]
    assert told.values.tolist() == [[20, 30], [30, 35]]


def test_one_seed_has_no_width():
    told = band([ONE], "steps", points=4)
    assert told.iqm.tolist() == told.low.tolist() == told.high.tolist() == [0, 10, 20, 30]
    assert told.std.tolist() == [0, 0, 0, 0]


def test_the_same_curves_give_the_same_band():
    a, b = (band([ONE, TWO], "steps") for _ in range(2))
    assert (a.low == b.low).all()


@pytest.mark.parametrize(
    ("curves", "words"),
    [([], "at least one"), ([ONE, curve("late", [100, 200], [0, 1])], "one, late have no steps in common")],
)
def test_what_can_not_be_joined_is_told(curves, words):
    with pytest.raises(UsageError, match=words):
        band(curves, "steps")


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_pictures_are_drawn(tmp_path, ending):
    told = compare({"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0, 1: 1.5}})
    made = {name: tmp_path / f"{name}{ending}" for name in ("steps", "seconds", "pairs", "profile")}
    plot_curves({"a": [ONE, TWO], "b": [TWO]}, made["steps"], "t", "steps", 20)
    plot_curves({"a": [ONE, TWO]}, made["seconds"], "t", "seconds")
    paired_differences(told, made["pairs"], "t")
    performance_profiles(told, made["profile"], "t")
    for path in made.values():
        assert path.stat().st_size > 2000
