"""Runs a plan on this machine: some runs at a time, each a program of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import filelock
import tomli_w

from godot_parallel.errors import RunFolderError, UsageError
from godot_parallel.experiments.plan import Plan, Run, read_plan
from godot_parallel.experiments.worker import steps_so_far
from godot_parallel.run_folder import CONFIG, PLAN, REPORT, STATUS, RunFolder, atomic_write

_LOCK = ".lock"
_POLL_S = 0.25
_PATIENCE_S = 60.0
# The worker saves and ends when this program is gone; see engine/process.py for why it is a program's job.
_SETPRIV = shutil.which("setpriv") if sys.platform == "linux" else None
_LEASH = [_SETPRIV, "--pdeathsig", "TERM", "--"] if _SETPRIV else []

Status = Literal["waiting", "running", "done", "failed", "stopped"]


@dataclass
class Job:
    """One run, and how far it is.

    Attributes:
        run: Which.
        status: ``stopped``: by somebody's wish, to be gone on with.
        steps: Agent steps so far.
        steps_per_s: Its speed.
        mean_return: Mean return of its last 100 training episodes.
        result: Mean return over the report's episodes, of the final model.
        reason: Why it failed.
    """

    run: Run
    status: Status = "waiting"
    steps: int = 0
    steps_per_s: float = 0.0
    mean_return: float | None = None
    result: float | None = None
    reason: str = ""
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        """Nothing more comes of it now."""
        return self.status in ("done", "failed", "stopped")


class Reporter(Protocol):
    """Who shows how an experiment goes."""

    def show(self, jobs: list[Job]) -> None:
        """Called several times a second."""

    def say(self, text: str) -> None:
        """A line worth reading."""


@contextlib.contextmanager
def claimed(plan: Plan) -> Iterator[None]:
    """Makes the experiment's folder, or takes up the one of an earlier call, and holds it.

    An earlier call may have had other seeds or variants; what it shares with this one must be the same.

    Raises:
        UsageError: The experiment of this name was another one; what differs is named.
        RunFolderError: The folder is something else or can't be made, or another call holds it.
    """
    path = plan.folder / PLAN
    before = read_plan(path, plan.parent) if path.exists() else None
    if before:
        _check_same(plan, before)
    elif plan.folder.exists() and any(plan.folder.iterdir()):
        raise RunFolderError(f"{plan.folder} exists and is no experiment; choose another name")
    lock = filelock.FileLock(plan.folder / _LOCK)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise RunFolderError(f"the experiment in {plan.folder} is being run right now") from None
    except OSError as error:
        raise RunFolderError(f"{plan.folder} can't be made: {error.strerror}") from error
    try:
        atomic_write(path, tomli_w.dumps(_joined(plan, before).as_dict()).encode())
        yield
    finally:
        (plan.folder / _LOCK).unlink(missing_ok=True)
        lock.release()


def _check_same(plan: Plan, before: Plan) -> None:
    new, old = plan.as_dict(), before.as_dict()
    parts = {"in all variants": (new["base"], old["base"])}
    for name, own in new["variants"].items():
        parts[f"in the variant {name}"] = (own, old["variants"].get(name, own))
    for where, (a, b) in parts.items():
        for key in sorted({*a, *b}):
            if a.get(key) != b.get(key):
                was, now = b.get(key, "its default"), a.get(key, "its default")
                raise UsageError(
                    f"the experiment in {plan.folder} was begun with {key} = {was}, now it is {now} "
                    f"({where}); "
                    "choose another name, or delete that folder"
                )


def _joined(plan: Plan, before: Plan | None) -> Plan:
    """All that the experiment consists of by now."""
    if before is None:
        return plan
    seeds = tuple(dict.fromkeys((*before.seeds, *plan.seeds)))
    return dataclasses.replace(plan, seeds=seeds, variants={**before.variants, **plan.variants})


class Runner:
    """Keeps some jobs running until none is left.

    Args:
        plan: What to run.
        jobs: How many at a time.
        reporter: Who is told.
    """

    def __init__(self, plan: Plan, jobs: int, reporter: Reporter) -> None:
        if jobs < 1:
            raise UsageError(f"jobs: expected at least 1, found {jobs}")
        self._plan, self._most, self._reporter = plan, jobs, reporter
        self.jobs = [Job(run) for run in plan.runs()]
        self._events: queue.Queue[tuple[Job, dict[str, Any]]] = queue.Queue()
        self._threads: dict[int, threading.Thread] = {}
        self._stopping = False

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> list[Job]:
        """Runs everything that is not done; returns all jobs, in the plan's order."""
        with claimed(self._plan):
            for job in self.jobs:
                self._look(job)
            try:
                while not all(job.is_over for job in self.jobs):
                    if should_stop() and not self._stopping:
                        self._stop()
                    if not self._stopping:
                        self._start_some()
                    self._listen()
                    self._reporter.show(self.jobs)
            finally:
                self._end_all()
                self._keep_status()
        return self.jobs

    def _keep_status(self) -> None:
        """What became of each run, earlier calls' included."""
        folder = RunFolder(self._plan.folder)
        told = {(one["variant"], one["seed"]): one for one in folder.read_json(STATUS) or []}
        for job in self.jobs:
            status = {"status": job.status, "reason": job.reason, "steps": job.steps}
            told[job.run.variant, job.run.seed] = {"variant": job.run.variant, "seed": job.run.seed, **status}
        folder.write_json(STATUS, list(told.values()))

    def _look(self, job: Job) -> None:
        """What an earlier call has left of this run."""
        folder = job.run.folder
        told = RunFolder(folder).read_json(REPORT) if (folder / REPORT).exists() else None
        if told:
            job.status, job.steps, job.result = "done", job.run.config.timesteps, float(told["final"]["mean"])
            return
        job.steps = steps_so_far(folder)
        if job.steps and (folder / CONFIG).exists():
            self._reporter.say(f"{job.run}: goes on from step {job.steps:,}")

    def _start_some(self) -> None:
        running = sum(job.status == "running" for job in self.jobs)
        for job in [job for job in self.jobs if job.status == "waiting"][: self._most - running]:
            self._start(job)

    def _start(self, job: Job) -> None:
        logs = self._plan.folder / "logs"
        logs.mkdir(exist_ok=True)
        options = logs / f"{_file_name(job.run)}.json"
        atomic_write(options, json.dumps(_plain(job.run.config)).encode())
        command = [*_LEASH, sys.executable, "-m", "godot_parallel.experiments.worker", str(options)]
        with _log(job, self._plan).open("w") as errors:
            # A session of its own: Ctrl+C comes to this program alone, which passes it on.
            job.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True,
            )  # fmt: skip
        job.status = "running"
        thread = threading.Thread(target=self._read, args=(job, job.process), daemon=True)
        self._threads[id(job)] = thread
        thread.start()

    def _read(self, job: Job, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            with contextlib.suppress(json.JSONDecodeError):
                self._events.put((job, json.loads(line)))
        self._events.put((job, {"exit": process.wait()}))

    def _listen(self) -> None:
        """Takes what has been told, for a quarter of a second."""
        until = time.monotonic() + _POLL_S
        while (left := until - time.monotonic()) > 0:
            try:
                job, told = self._events.get(timeout=left)
            except queue.Empty:
                return
            self._take(job, told)

    def _take(self, job: Job, told: dict[str, Any]) -> None:
        if "exit" in told:
            self._end(job, told["exit"])
        elif "error" in told:
            job.reason = told["error"].splitlines()[0]
        elif "steps" in told:
            job.steps, job.steps_per_s = told["steps"], told["steps_per_s"]
            job.mean_return = told["mean_return"]

    def _end(self, job: Job, code: int) -> None:
        self._threads.pop(id(job)).join()
        if job.process and job.process.stdout:
            job.process.stdout.close()
        report = RunFolder(job.run.folder).read_json(REPORT) if code == 0 else None
        if report:
            job.status, job.steps, job.result = (
                "done",
                job.run.config.timesteps,
                float(report["final"]["mean"]),
            )
            self._reporter.say(f"{job.run}: {report['final']['mean']:.1f} ± {report['final']['std']:.1f}")
        elif code == 130 or (self._stopping and code in (-signal.SIGTERM, -signal.SIGINT)):
            job.status = "stopped"
        else:
            job.status = "failed"
            job.reason = job.reason or _reason(_log(job, self._plan), code)
            self._reporter.say(f"{job.run} FAILED: {job.reason}")

    def _stop(self) -> None:
        self._stopping = True
        self._reporter.say("stopping: the running trainings save what they have")
        for job in self.jobs:
            if job.status == "waiting":
                job.status = "stopped"
            elif job.process and job.status == "running":
                job.process.send_signal(signal.SIGINT)

    def _end_all(self) -> None:
        """Whatever happened: nothing is left running."""
        left = [job.process for job in self.jobs if job.process and job.process.poll() is None]
        for process in left:
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _PATIENCE_S
        for process in left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            if process.poll() is None:
                process.kill()
                process.wait()
        for thread in self._threads.values():
            thread.join()


def _file_name(run: Run) -> str:
    return f"{run.variant}_seed_{run.seed}"


def _log(job: Job, plan: Plan) -> Path:
    return plan.folder / "logs" / f"{_file_name(job.run)}.log"


def _reason(log: Path, code: int) -> str:
    """Why a program ended that could not tell."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{lines[-1]} ({ended})" if lines else ended


def _plain(config: Any) -> dict[str, Any]:
    values: Iterable[tuple[str, Any]] = dataclasses.asdict(config).items()
    return {
        key: str(value) if isinstance(value, Path) else value for key, value in values if value is not None
    }
