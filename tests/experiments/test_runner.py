import json
import os
import signal
import threading
import time

import psutil
import pytest

from godot_parallel.errors import RunFolderError, UsageError
from godot_parallel.experiments.plan import Plan, vary
from godot_parallel.experiments.runner import Runner, claimed
from godot_parallel.run_folder import PLAN

# The fake game's environment e is rewarded e + s / 8 at step s of 5: 20 episodes on 4 copies.
RETURN = 7.5 + 15 / 8


class Reporter:
    def __init__(self):
        self.lines, self.shown = [], 0

    def say(self, text):
        self.lines.append(text)

    def show(self, jobs):
        self.shown += 1


@pytest.fixture
def plan(fake_game, tmp_path):
    def make(fault="", at=2, seeds=(0, 1), **varied):
        base = {
            "env_path": fake_game(fault, at),
            "instances": 2,
            "timesteps": 128,
            "n_steps": 32,
            "eval_episodes": 2,
        }
        base["checkpoint_freq"] = 64
        return Plan("e", base, vary(varied or {"batch_size": [16, 32]}), seeds, tmp_path / "runs")

    return make


def times(plan):
    return {run.folder: (run.folder / "report.json").stat().st_mtime_ns for run in plan.runs()}


def test_every_run_is_trained_and_evaluated(plan):
    p, reporter = plan(), Reporter()
    jobs = Runner(p, 2, reporter).run()
    assert [job.status for job in jobs] == ["done"] * 4
    assert [job.result for job in jobs] == [RETURN] * 4
    report = json.loads((jobs[0].run.folder / "report.json").read_text())
    assert len(report["best"]["returns"]) == len(report["final"]["returns"]) == 20
    assert (p.folder / PLAN).exists()
    before = times(p)
    again = Runner(p, 2, reporter).run()
    assert [job.status for job in again] == ["done"] * 4
    assert times(p) == before  # nothing was run twice
    more = plan(seeds=(0, 1, 2))
    jobs = Runner(more, 2, reporter).run()
    assert [job.status for job in jobs] == ["done"] * 6
    assert {k: v for k, v in times(more).items() if k in before} == before


def test_a_failed_run_is_listed_with_its_reason_and_tried_again(plan):
    jobs = Runner(plan("die", at=40, seeds=(0,)), 2, Reporter()).run()
    assert [job.status for job in jobs] == ["failed", "failed"]
    assert "exit code 3" in jobs[0].reason
    reporter = Reporter()
    jobs = Runner(plan(seeds=(0,)), 2, reporter).run()
    assert [job.status for job in jobs] == ["done", "done"]
    assert [line for line in reporter.lines if "goes on from step" in line]


def test_stopping_saves_and_the_same_call_goes_on(plan):
    p, reporter = plan(seeds=(0,)), Reporter()
    long = Plan(p.name, {**p.base, "timesteps": 10_000_000}, p.variants, p.seeds, p.parent)
    wish = threading.Event()

    def stop_later(jobs=None):
        folders = [run.folder for run in long.runs()]
        if all((folder / "progress.csv").exists() for folder in folders):
            wish.set()

    reporter.show = stop_later
    jobs = Runner(long, 2, reporter).run(wish.is_set)
    assert [job.status for job in jobs] == ["stopped", "stopped"]
    steps = [json.loads((job.run.folder / "state.json").read_text())["step"] for job in jobs]
    assert min(steps) > 0
    assert not psutil.Process().children(recursive=True)


def test_an_experiment_begun_otherwise_is_not_mixed_up(plan):
    with claimed(plan()):
        pass
    p = plan()
    other = Plan(p.name, {**p.base, "timesteps": 256}, p.variants, p.seeds, p.parent)
    with pytest.raises(UsageError, match="begun with timesteps = 128, now it is 256"), claimed(other):
        pass
    more = plan(seeds=(7,), algo=["sac"])
    with claimed(more):
        pass
    text = (p.folder / PLAN).read_text()
    assert "batch_size=16" in text
    assert "algo=sac" in text
    assert "7" in text


def test_two_calls_do_not_run_the_same_experiment(plan):
    with claimed(plan()), pytest.raises(RunFolderError, match="being run right now"), claimed(plan()):
        pass


def test_a_folder_that_is_something_else_is_left_alone(plan):
    p = plan()
    p.folder.mkdir(parents=True)
    (p.folder / "thesis.txt").write_text("years of work")
    with pytest.raises(RunFolderError, match="is no experiment"), claimed(p):
        pass
    assert (p.folder / "thesis.txt").read_text() == "years of work"


def test_a_killed_worker_is_a_failed_run(plan):
    p = plan(seeds=(0,), batch_size=[16])
    long = Plan(p.name, {**p.base, "timesteps": 10_000_000}, p.variants, p.seeds, p.parent)
    reporter = Reporter()
    runner = Runner(long, 1, reporter)

    def kill(jobs):
        if (jobs[0].run.folder / "progress.csv").exists() and jobs[0].status == "running":
            os.kill(jobs[0].process.pid, signal.SIGKILL)
            time.sleep(0.2)

    reporter.show = kill
    (job,) = runner.run()
    assert job.status == "failed"
    assert "signal 9" in job.reason
