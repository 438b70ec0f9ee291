"""Raw throughput against Godot RL Agents 0.8.2, against the engine's own ceiling, and over layouts.

    make bench                          ours, and the ceiling
    make bench PEER_GAME=Peer.x86_64    also the peer's own BallChase, exported with its own plugin

Both sides run one after the other in one go on the same machine. The peer runs in an environment of its
own (.peer-venv), which the make target makes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

import psutil

from godot_parallel.engine.export import bundled_game
from godot_parallel.engine.process import EngineSettings
from godot_parallel.run_folder import atomic_write
from godot_parallel.speed.throughput import Throughput, measure

INSTANCES = 16
TARGET_RATIO = 6.0
TARGET_CEILING = 0.85
TARGET_STARTUP = 1.5
PEER_CODE = """
import sys, time
import numpy as np
from godot_rl.core.godot_env import GodotEnv
path, port, speedup, repeat, seconds, repeats, kwargs = sys.argv[1:8]
options = dict(pair.split(":") for pair in kwargs.split(",") if pair)
options |= dict(port=int(port), speedup=int(speedup), action_repeat=int(repeat))
env = GodotEnv(env_path=path, seed=0, **options)
env.reset()
n = env.num_envs
rng = np.random.default_rng(0)
actions = [[rng.uniform(-1, 1, (n, 2)).astype("f4")] for _ in range(64)]
def run(span):
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < span:
        env.step(actions[count % 64])
        count += 1
    return count * n / (time.perf_counter() - started)
run(1.0)
print("RESULT", *[run(float(seconds)) for _ in range(int(repeats))], flush=True)
env.close()
"""


def peer(
    python: Path, game: Path, port: int, repeat: int, options: argparse.Namespace, kwargs: str = ""
) -> float:
    """Median steps/s of the peer's client, at its usual speed-up of 20."""
    command = [python, "-c", PEER_CODE, game, port, 20, repeat, options.seconds, options.repeats, kwargs]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, check=False)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise SystemExit(f"the peer failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return statistics.median(float(word) for word in lines[0])


def ours(game: Path, options: argparse.Namespace, **layout: object) -> Throughput:
    settings = EngineSettings(game, **layout)  # type: ignore[arg-type]
    return measure(settings, options.seconds, options.repeats)


def ceiling(game: Path, isolation: str, seconds: float) -> float:
    """Steps/s of the same scene stepping itself: random actions, observations taken, no Python."""
    command = [str(game), "--headless", "--fixed-fps", "60", "--action_repeat=8", "--"]
    command += [
        "--environment=0",
        f"--instances={INSTANCES}",
        f"--isolation={isolation}",
        f"--self_play={seconds}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    return float(json.loads(line)["steps_per_s"])


def start_cpu_s(game: Path) -> float:
    """CPU seconds that one game needs to start, connect to nobody, and end."""
    before = psutil.Process().cpu_times()
    command = [
        str(game),
        "--headless",
        "--fixed-fps",
        "60",
        "--port=1",
        "--",
        "--environment=0",
        "--connect_timeout=0",
    ]
    subprocess.run(command, capture_output=True, timeout=60, check=False)
    after = psutil.Process().cpu_times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def told(name: str, value: float, unit: str, ratio: float | None = None, target: float | None = None) -> None:
    verdict = "" if ratio is None or target is None else f"{ratio:8.2f} (target {target:g})"
    print(f"{name:<58}{value:>12,.2f} {unit:<8}{verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer_game", type=Path)
    parser.add_argument("--peer_python", type=Path, default=Path(".peer-venv/bin/python"))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/throughput.json"))
    options = parser.parse_args()
    game = bundled_game("ball_chase", print)
    results: dict[str, float] = {}
    for repeat in (8, 1):
        grid = ours(game, options, instances=INSTANCES, isolation="grid", action_repeat=repeat)
        results[f"ours_grid_repeat{repeat}"] = grid.steps_per_s
        told(f"ours, {INSTANCES} instances, grid, action_repeat {repeat}", grid.steps_per_s, "steps/s")
        if options.peer_game:
            rate = peer(options.peer_python, options.peer_game.absolute(), 11100 + repeat, repeat, options)
            results[f"peer_repeat{repeat}"] = rate
            ratio = grid.steps_per_s / rate
            told(
                f"peer, its own game, {INSTANCES} instances, action_repeat {repeat}",
                rate,
                "steps/s",
                ratio,
                TARGET_RATIO,
            )
            kwargs = f"instances:{INSTANCES},isolation:grid"
            rate = peer(options.peer_python, game, 11200 + repeat, repeat, options, kwargs)
            results[f"peer_client_our_game_repeat{repeat}"] = rate
            told(f"the peer's client driving our game, action_repeat {repeat}", rate, "steps/s")
    for isolation in ("grid", "world"):
        limit = statistics.median(ceiling(game, isolation, options.seconds) for _ in range(options.repeats))
        got = ours(game, options, instances=INSTANCES, isolation=isolation, action_repeat=8).steps_per_s
        results[f"ceiling_{isolation}"] = limit
        told(f"ceiling, {isolation}: the scene steps itself", limit, "steps/s")
        told(f"ours, {isolation}, share of the ceiling", got, "steps/s", got / limit, TARGET_CEILING)
    cpu = statistics.median(start_cpu_s(game) for _ in range(options.repeats))
    started = statistics.median(ours(game, options, n_parallel=8).startup_s for _ in range(2))
    ideal = 8 * cpu / psutil.cpu_count()
    results |= {"start_cpu_s": cpu, "start_8_s": started}
    told("8 processes: their CPU start-up time on these cores", ideal, "s")
    told("8 processes: ready after", started, "s", started / ideal, TARGET_STARTUP)
    print(f"\n{'steps/s by layout':<24}" + "".join(f"{n:>10}" for n in (1, 4, 8, 16, 64)))
    for isolation in ("grid", "world"):
        for repeat in (8, 1):
            rates = []
            for n in (1, 4, 8, 16, 64):
                r = measure(EngineSettings(game, 1, n, isolation, repeat), 1.0, 3)
                rates.append(r.steps_per_s)
                results[f"{isolation}_repeat{repeat}_instances{n}"] = r.steps_per_s
            print(
                f"{isolation}, action_repeat {repeat:<4}" + "".join(f"{x:>10,.0f}" for x in rates), flush=True
            )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(options.json, json.dumps({"time": time.strftime("%Y-%m-%d"), **results}, indent=2).encode())


if __name__ == "__main__":
    main()
