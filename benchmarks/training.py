"""Training end to end: against Godot RL Agents 0.8.2, against the engine's ceiling, by layout, and over time.

    make bench-training                          ours alone, about 10 minutes
    make bench-training PEER_GAME=Peer.x86_64    also the peer, about 20 minutes more

The peer trains as its own stable_baselines3_example.py does (PPO with n_steps 32, entropy 0.0001, speed-up
20), on its own BallChase, exported with its own plugin, and once more on our game. Ours gets the same
hyperparameters. Wall clock is that of the whole program, from its start to its end, imports and all.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from common import Report
from godot_parallel.cores import available_cores
from godot_parallel.engine.export import bundled_game
from godot_parallel.engine.process import EngineSettings
from godot_parallel.speed.throughput import measure
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.evaluate import evaluate
from godot_parallel.training.layout import Layout, LayoutSearch
from godot_parallel.training.models import load_model
from godot_parallel.training.train import evaluation_env

INSTANCES, PROCESSES = 16, 2
SAVE_EVERY = 20_480
RETURN = 80.0
EPISODES = 20
NEVER = 10**9
LIKE_THE_PEER: dict[str, object] = {"n_steps": 32, "ent_coef": 0.0001}
PEER_CODE = """
import json, sys, time
from pathlib import Path
started = time.perf_counter()
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env.vec_monitor import VecMonitor
from godot_rl.wrappers.stable_baselines_wrapper import StableBaselinesGodotEnv
game, processes, steps, save_every, folder, port, extra = sys.argv[1:]
class Keep(BaseCallback):
    saved = 0
    def _on_step(self):
        return True
    def _on_rollout_start(self):
        if self.num_timesteps // int(save_every) > self.saved:
            self.saved = self.num_timesteps // int(save_every)
            self.model.save(Path(folder) / f"step_{self.num_timesteps}.zip")
            with (Path(folder) / "times.csv").open("a") as file:
                print(self.num_timesteps, time.perf_counter() - started, sep=",", file=file)
env = VecMonitor(StableBaselinesGodotEnv(
    env_path=game, show_window=False, seed=0, n_parallel=int(processes), speedup=20, port=int(port),
    **json.loads(extra)
))
model = PPO(
    "MultiInputPolicy", env, ent_coef=0.0001, verbose=0, n_steps=32, tensorboard_log=folder,
    learning_rate=0.0003
)
model.learn(int(steps), callback=Keep())
env.close()
"""


class Reporter:
    """Says nothing; the benchmark prints its own lines."""

    def progress(self, steps: int, total: int, steps_per_s: float, mean_return: float | None) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Trained:
    """A finished training program.

    Attributes:
        folder: Its run folder.
        wall_s: From the program's start to its end.
        evaluation_s: Of it spent in evaluation.
        peak_mib: Largest resident memory of the trainer.
        memory: (seconds, MiB) of the trainer, every second.
    """

    folder: Path
    wall_s: float
    evaluation_s: float
    peak_mib: float
    memory: list[tuple[float, float]]


class Bench:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.report = Report("training")
        self.game = bundled_game("ball_chase", print)
        self._runs = 0

    def train(self, environment: dict[str, str] | None = None, **options: Any) -> Trained:
        """Trains with the command line, as a user does."""
        self._runs += 1
        values = {"env_path": self.game, "experiment_dir": self.folder, "experiment_name": f"run{self._runs}"}
        values |= {"eval_freq": NEVER, "checkpoint_freq": NEVER, **options}
        command = [sys.executable, "-m", "godot_parallel"]
        command += [f"--{k}" if v is True else f"--{k}={v}" for k, v in values.items()]
        started = time.perf_counter()
        with (self.folder / "output.txt").open("w") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            memory: list[tuple[float, float]] = []
            watch = threading.Thread(target=_watch_memory, args=(process.pid, started, memory))
            watch.start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            watch.join()
        if process.returncode:
            raise SystemExit(f"{command} failed:\n{(self.folder / 'output.txt').read_text()}")
        wall_s = time.perf_counter() - started
        run = self.folder / str(values["experiment_name"])
        timers = json.loads((run / "timers.json").read_text())
        spent = timers["children"].get("evaluation", {"total_s": 0.0})["total_s"]
        return Trained(run, wall_s, spent, usage.ru_maxrss / 1024, memory)

    def train_peer(self, game: Path, port: int, **extra: object) -> tuple[Path, float]:
        """Trains with the peer; returns the folder of its saved models, and the wall clock."""
        folder = self.folder / f"peer{port}"
        folder.mkdir()
        values = [game, PROCESSES, self.options.timesteps, SAVE_EVERY, folder, port, json.dumps(extra)]
        command = [str(self.options.peer_python.absolute()), "-c", PEER_CODE, *map(str, values)]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the peer failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return folder, time.perf_counter() - started

    def against_the_peer(self) -> None:
        steps, report = self.options.timesteps, self.report
        layout = {"n_parallel": PROCESSES, "instances": INSTANCES, **LIKE_THE_PEER}
        runs = [
            self.train(timesteps=steps, checkpoint_freq=SAVE_EVERY, **layout)
            for _ in range(self.options.repeats)
        ]
        wall_s = statistics.median(run.wall_s for run in runs)
        report.tell(f"ours, {steps:,} steps, {INSTANCES} x {PROCESSES}, evaluation included", wall_s, "s")
        report.tell("ours", steps / wall_s, "steps/s")
        pipelined = statistics.median(
            self.train(timesteps=steps, pipeline=True, **layout).wall_s for _ in range(self.options.repeats)
        )
        report.tell("ours with --pipeline", pipelined, "s")
        limit = measure(EngineSettings(self.game, 1, INSTANCES), 2.0, 5).steps_per_s
        report.tell("ceiling: random actions, one process, no learner", limit, "steps/s")
        busy_s = statistics.median(run.wall_s - run.evaluation_s for run in runs)
        report.ratio(
            "ours, evaluation not counted, of that ceiling", steps / busy_s / limit, "0.6, aim for 1"
        )
        reached = statistics.median(self._seconds_to_return(run.folder / "checkpoints", run) for run in runs)
        report.tell(f"ours: wall clock until return {RETURN:.0f}", reached, "s")
        if not self.options.peer_game:
            return
        _, peer_s = self.train_peer(self.options.peer_game.absolute(), 11300)
        report.tell("the peer, on its own game", peer_s, "s")
        report.tell("the peer, on its own game", steps / peer_s, "steps/s")
        report.ratio("ours against the peer on its own game", peer_s / wall_s, "10, aim for 20")
        folder, peer_s = self.train_peer(self.game, 11400, instances=INSTANCES)
        report.tell("the peer, on our game", peer_s, "s")
        report.ratio("ours against the peer on our game", peer_s / wall_s, "10, aim for 20")
        peer_reached = self._seconds_to_return(folder, None)
        report.tell(f"the peer: wall clock until return {RETURN:.0f}, on our game", peer_reached, "s")
        report.ratio(f"until return {RETURN:.0f}", peer_reached / reached, "10")

    def _seconds_to_return(self, folder: Path, run: Trained | None) -> float:
        """When the first of the saved models was there whose 20 episodes have the mean return."""
        when = _times(folder / "times.csv", 0, 1) if run is None else _progress(run)
        config = TrainConfig(env_path=self.game, instances=4)
        with evaluation_env(config, self.game, seed=0) as env:
            for path in sorted(folder.glob("step_*.zip"), key=lambda path: int(path.stem[5:])):
                env.seed(0)
                if evaluate(load_model(path, "ppo"), env, EPISODES).mean >= RETURN:
                    return when[int(path.stem[5:])]
        return float("inf")

    def layouts(self) -> None:
        for layouts in ([(1, n) for n in (1, 4, 8, 16)], [(n, INSTANCES) for n in (1, 2, 4)]):
            for n_parallel, instances in layouts:
                run = self.train(timesteps=100_000, n_parallel=n_parallel, instances=instances)
                name = f"training, {n_parallel} x {instances}, start and evaluation not counted"
                self.report.tell(name, 100_000 / _learning_s(run), "steps/s")

    def automatic(self) -> None:
        config = TrainConfig(env_path=self.game, n_parallel="auto", instances="auto")
        search = LayoutSearch(config, self.game, Reporter(), available_cores())
        chosen = search.run()
        by_hand = [Layout(p, k) for p in (1, 2, 4) for k in (1, 4, 8, 16, 32, 64) if p * k <= 64]
        turns = [{layout: search.measure(layout, 2.0) for layout in {*by_hand, chosen}} for _ in range(3)]
        rates = {layout: statistics.median(turn[layout] for turn in turns) for layout in turns[0]}
        for layout in sorted(rates, key=lambda layout: -rates[layout]):
            self.report.tell(f"by hand: {layout}", rates[layout], "steps/s")
        self.report.ratio(
            f"automatic choice {chosen}, of the best by hand",
            rates[chosen] / max(rates.values()),
            "0.95",
        )

    def memory(self) -> None:
        for n_parallel, instances in ((1, 16), (2, 128)):
            run = self.train(timesteps=100_000, n_parallel=n_parallel, instances=instances)
            engine = max(float(row["rss_mib"]) for row in _rows(run.folder / "throughput.csv"))
            name = f"{n_parallel * instances} environments in {n_parallel}"
            self.report.tell(f"{name}: trainer, peak", run.peak_mib, "MiB")
            self.report.tell(f"{name}: each engine", engine, "MiB")

    def long_run(self) -> None:
        steps = self.options.long_timesteps
        run = self.train(timesteps=steps, n_parallel=PROCESSES, instances=INSTANCES)
        rows = _rows(run.folder / "throughput.csv")
        tenths = [_rate(rows, steps * i / 10, steps * (i + 1) / 10) for i in range(10)]
        self.report.keep("steps/s by tenths of the long run", [round(rate) for rate in tenths])
        self.report.tell(f"{steps:,} steps: second tenth", tenths[1], "steps/s")
        self.report.tell(f"{steps:,} steps: last tenth", tenths[-1], "steps/s")
        self.report.ratio("last of second tenth", tenths[-1] / tenths[1], "0.95")
        end = run.memory[-1][0]
        early = [mib for s, mib in run.memory if 0.1 < s / end < 0.3]
        late = [mib for s, mib in run.memory if s / end > 0.8]
        self.report.tell("trainer's memory in the second tenth", statistics.median(early), "MiB")
        self.report.tell("trainer's memory at the end", max(late), "MiB")
        engines = [float(row["rss_mib"]) for row in rows]
        self.report.tell("largest engine's memory in the second tenth", engines[len(engines) // 10], "MiB")
        self.report.tell("largest engine's memory at the end", engines[-1], "MiB")

    def start(self) -> None:
        cache = {**os.environ, "GODOT_PARALLEL_CACHE": str(self.folder / "cache")}
        first = self._start_s(cache)
        self.report.tell("first start, nothing compiled yet: a run of one update", first, "s")
        second = statistics.median(self._start_s(cache) for _ in range(3))
        self.report.tell("second start: the same (target: 5)", second, "s")

    def _start_s(self, environment: dict[str, str]) -> float:
        """Wall clock of imports, set-up, compilation and one update: no game's start, no evaluation."""
        run = self.train(environment, timesteps=2048, instances=INSTANCES)
        parts = json.loads((run.folder / "timers.json").read_text())["children"]
        return run.wall_s - float(parts["evaluation"]["total_s"] + parts["start-up"]["total_s"])

    def profile(self) -> None:
        run = self.train(timesteps=100_000, instances=INSTANCES)
        vector_step_s = _learning_s(run) / (100_000 / INSTANCES)
        pair_s = (
            min(
                timeit.repeat(
                    "a = t(); b += t() - a", "from time import perf_counter as t; b = 0.0", number=10**5
                )
            )
            / 10**5
        )
        self.report.tell("profile: one measured stretch", pair_s * 1e9, "ns")
        share = 6 * pair_s / vector_step_s
        self.report.tell(
            "profile: the six stretches of a vector step, of its time (target 1)", 100 * share, "%"
        )


def _watch_memory(pid: int, started: float, memory: list[tuple[float, float]]) -> None:
    try:
        process = psutil.Process(pid)
        while process.status() != psutil.STATUS_ZOMBIE:
            memory.append((time.perf_counter() - started, process.memory_info().rss / 2**20))
            time.sleep(1.0)
    except psutil.NoSuchProcess:
        return


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _times(path: Path, step: int, seconds: int) -> dict[int, float]:
    with path.open(newline="") as file:
        return {int(row[step]): float(row[seconds]) for row in csv.reader(file)}


def _progress(run: Trained) -> dict[int, float]:
    """Seconds since the program's start of every update; imports come before the run's own clock."""
    total = json.loads((run.folder / "timers.json").read_text())["total_s"]
    return {
        int(row["step"]): float(row["wall_s"]) + run.wall_s - total
        for row in _rows(run.folder / "progress.csv")
    }


def _learning_s(run: Trained) -> float:
    """Seconds of rollouts and updates."""
    parts = json.loads((run.folder / "timers.json").read_text())["children"]
    return float(parts["rollout"]["total_s"] + parts["update"]["total_s"])


def _rate(rows: list[dict[str, str]], first: float, last: float) -> float:
    inside = [(int(row["step"]), float(row["wall_s"])) for row in rows if first <= int(row["step"]) <= last]
    (first_step, first_s), (last_step, last_s) = inside[0], inside[-1]
    return (last_step - first_step) / (last_s - first_s)


PARTS = {
    "peer": Bench.against_the_peer,
    "layouts": Bench.layouts,
    "auto": Bench.automatic,
    "memory": Bench.memory,
    "long": Bench.long_run,
    "start": Bench.start,
    "profile": Bench.profile,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer_game", type=Path)
    parser.add_argument("--peer_python", type=Path, default=Path(".peer-venv/bin/python"))
    parser.add_argument("--timesteps", type=int, default=500_000)
    parser.add_argument("--long_timesteps", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        for part in options.parts:
            PARTS[part](bench)


if __name__ == "__main__":
    main()
