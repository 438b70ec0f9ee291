import json
import re

import pytest

from godot_parallel.analysis.page import write_page
from godot_parallel.analysis.runs import by_variant, load_runs, reached, reached_lines
from godot_parallel.analysis.summary import draw, summarise
from godot_parallel.errors import RunFolderError, UsageError

TWO = {"a": {0: (10.0,), 1: (20.0,)}, "b": {0: (11.0,), 1: (23.0,)}}


def test_a_finished_experiment_is_compared_and_drawn(make_experiment):
    folder = make_experiment(TWO)
    summary = summarise(folder)
    assert [s.values for s in summary.comparison.summaries] == [(10.0, 20.0), (11.0, 23.0)]
    assert summary.comparison.pairs[0].differences == (-1.0, -3.0)
    assert summary.notes == ()
    assert draw(summary, folder, ("svg",)) == []
    for name in ("curves_by_steps", "curves_by_seconds", "differences", "profiles"):
        assert (folder / f"{name}.svg").exists()
    assert sorted(p.name for p in (folder / "across_seeds").iterdir()) == ["a", "b"]
    assert summarise(folder).comparison == summary.comparison  # bands are no runs


def test_what_is_missing_is_told_with_its_reason(make_experiment):
    status = [{"variant": "b", "seed": 1, "status": "failed", "reason": "the game died", "steps": 7}]
    folder = make_experiment({"a": TWO["a"], "b": {0: (1.0,), 1: None}, "c": {}}, seeds=[0, 1], status=status)
    summary = summarise(folder)
    assert [s.name for s in summary.comparison.summaries] == ["a"]
    assert summary.notes == (
        "FAILED: b seed 1: the game died",
        "WAITING: c seed 0",
        "WAITING: c seed 1",
        "b is not compared before all its seeds are finished",
        "c is not compared before all its seeds are finished",
    )


def test_an_experiment_without_finished_runs_has_no_comparison(make_experiment, tmp_path):
    summary = summarise(make_experiment({"a": {0: None}}))
    assert summary.comparison is None
    assert draw(summary, tmp_path) == []
    write_page(summary, tmp_path / "page.html")
    assert "WAITING: a seed 0" in (tmp_path / "page.html").read_text()


def test_the_page_needs_nothing_else_and_escapes(make_experiment, tmp_path):
    folder = make_experiment({"<b>x": TWO["a"], "y": TWO["b"]})
    assert write_page(summarise(folder), tmp_path / "page.html") == []
    text = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;x" in text
    assert "<b>x" not in text
    assert "gdrl train &lt;x&gt;" in text
    assert text.count("data:image/svg+xml;base64,") == 4
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "<td>-2.0</td>" in text  # the mean difference
    assert "0.5" in text  # the smallest p of two seeds


def test_what_is_no_experiment_is_told(tmp_path, make_run):
    with pytest.raises(RunFolderError, match=r"is no experiment: its experiment\.toml can't be read"):
        summarise(tmp_path)
    (tmp_path / "experiment.toml").write_text("seeds = 3")
    with pytest.raises(RunFolderError, match="is no experiment"):
        summarise(tmp_path)


def test_runs_are_found_in_experiments_variants_and_alone(make_experiment):
    folder = make_experiment(TWO)
    assert [(r.variant, r.seed) for r in load_runs(folder)] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [(r.variant, r.seed) for r in load_runs(folder / "b")] == [("b", 0), ("b", 1)]
    assert [(r.variant, r.seed) for r in load_runs(folder / "b" / "seed_1")] == [("b", 1)]
    with pytest.raises(RunFolderError, match="no runs found"):
        load_runs(folder / "nothing")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"env": "other"}, "env is ball_chase in .* and other in"),
        ({"timesteps": 200}, "timesteps is 100 in .* and 200 in"),
        ({"action_repeat": 4}, "action_repeat is not given in .* and 4 in"),
        ({"spaces": {"action_repeat": 4}}, "differ in the game's action_repeat"),
        ({"spaces": {"observations": [1]}}, "differ in the game's observations"),
    ],
)
def test_runs_of_different_kinds_are_not_compared(make_run, tmp_path, change, words):
    make_run(tmp_path / "a" / "seed_0")
    make_run(tmp_path / "b" / "seed_0", **change)
    with pytest.raises(UsageError, match=words):
        by_variant(load_runs(tmp_path))


def test_a_seed_twice_is_told(make_run, tmp_path):
    make_run(tmp_path / "one" / "a" / "seed_0")
    make_run(tmp_path / "two" / "a" / "seed_0")
    with pytest.raises(UsageError, match="a has the seed 0 twice"):
        by_variant([*load_runs(tmp_path / "one"), *load_runs(tmp_path / "two")])


def test_a_report_of_another_version_is_told(make_run, tmp_path):
    (make_run(tmp_path / "a") / "report.json").write_text(json.dumps({"result": 1}))
    with pytest.raises(RunFolderError, match="no report of this version"):
        load_runs(tmp_path / "a")


def test_half_written_files_are_told(make_run, tmp_path):
    (make_run(tmp_path / "a") / "report.json").write_text('{"final": {"me')
    with pytest.raises(RunFolderError, match="can't be read"):
        load_runs(tmp_path / "a")


def test_runs_that_never_got_there_are_counted(make_experiment):
    told = reached(load_runs(make_experiment(TWO)), 100.5)
    assert told == {
        "a": {0: None, 1: {"steps": 100.0, "seconds": 10.0}},
        "b": {0: None, 1: {"steps": 100.0, "seconds": 10.0}},
    }
    assert reached_lines(told, 100.5)[0] == (
        "a: return 100.5 reached by 1 of 2, those after 100 steps and 10.0 s on average"
    )
    assert reached_lines(reached(load_runs(make_experiment({"c": {0: (1.0,)}}, "f")), 999), 999) == [
        "c: return 999 reached by 0 of 1"
    ]
