import json
import tomllib

import pytest

from godot_parallel.training import layout
from godot_parallel.training.layout import Layout, choose_layout
from godot_parallel.training.train import LogReporter, train


@pytest.fixture
def cores(monkeypatch):
    def set_cores(n):
        monkeypatch.setattr(layout, "available_cores", lambda: n)

    monkeypatch.setattr(layout, "SECONDS", 0.02)
    monkeypatch.setattr(layout, "FINAL_SECONDS", 0.02)
    set_cores(2)
    return set_cores


@pytest.fixture
def rates(monkeypatch):
    """Replaces the stopwatch: ``rates(lambda p, k: steps_per_s)``; returns the layouts that were asked for."""

    def use(rate):
        asked = []

        def measure(self, layout, seconds):
            asked.append((layout.n_parallel, layout.instances))
            self.measured[layout] = rate(layout.n_parallel, layout.instances)
            return self.measured[layout]

        monkeypatch.setattr(layout.LayoutSearch, "measure", measure)
        return asked

    return use


def test_a_run_with_auto_measures_and_keeps_what_it_chose(config, cores):
    folder = train(config(n_parallel="auto", instances="auto", n_steps=None)).folder
    told = json.loads((folder / "layout.json").read_text())
    measured = {(m["n_parallel"], m["instances"]): m["steps_per_s"] for m in told["measured"]}
    assert (
        {(1, 64), (1, 32), (1, 16)} <= set(measured) <= {(1, 64), (1, 32), (1, 16), (2, 32), (2, 16), (2, 8)}
    )
    assert min(measured.values()) > 0
    assert told["cores"] == 2
    stored = tomllib.loads((folder / "config.toml").read_text())
    assert (stored["n_parallel"], stored["instances"]) == (told["n_parallel"], told["instances"])
    assert (told["n_parallel"], told["instances"]) in measured
    assert (
        json.loads((folder / "spaces.json").read_text())["environments"]
        == stored["n_parallel"] * stored["instances"]
    )


@pytest.mark.parametrize(
    ("n_cores", "rate", "best"),
    [
        (2, lambda p, k: p * k, (1, 64)),  # a tie is decided for what was measured first: fewer processes
        (2, lambda p, k: 100 * p + k, (2, 32)),
        (8, lambda p, k: 100 * p + k, (8, 8)),
        (6, lambda p, k: 100 * p + k, (6, 10)),
        (8, lambda p, k: 1000 / p - abs(k - 16), (1, 16)),
        (1, lambda p, k: 1 / k, (1, 16)),
    ],
)
def test_the_fastest_layout_is_taken(config, cores, rates, n_cores, rate, best):
    cores(n_cores)
    asked = rates(rate)
    chosen = choose_layout(config(n_parallel="auto", instances="auto"), config().env_path, LogReporter())
    assert (chosen.layout.n_parallel, chosen.layout.instances) == best
    assert asked.count(best) == 2  # a finalist is measured again
    assert all(p * k <= 64 and p <= n_cores for p, k in asked)


def test_many_processes_are_not_tried_once_they_are_hopeless(config, cores, rates):
    cores(16)
    asked = rates(lambda p, k: 100.0 / p)
    choose_layout(config(n_parallel="auto", instances="auto"), config().env_path, LogReporter())
    assert {p for p, _ in asked} == {1, 2}


def test_what_is_given_stays(config, cores, rates):
    asked = rates(lambda p, k: p + k)
    game = config().env_path
    assert choose_layout(config(n_parallel=3, instances="auto"), game, LogReporter()).layout == Layout(3, 21)
    assert {p for p, _ in asked} == {3}
    asked.clear()
    assert choose_layout(config(n_parallel="auto", instances=5), game, LogReporter()).layout == Layout(2, 5)
    assert {k for _, k in asked} == {5}
    assert choose_layout(config(), game, LogReporter()) is None


def test_a_game_that_decides_itself_is_left_to(config, cores, rates):
    asked = rates(lambda p, k: p)
    chosen = choose_layout(
        config("foreign", n_parallel="auto", instances="auto"), config("foreign").env_path, LogReporter()
    )
    assert chosen.layout == Layout(2, None)
    assert set(asked) == {(1, None), (2, None)}


def test_a_game_in_the_editor_is_one_process(config):
    chosen = choose_layout(config(env_path=None, n_parallel="auto", instances="auto"), None, LogReporter())
    assert chosen.layout == Layout(1, None)
    assert chosen.measured == {}
