"""The main job, end to end: BallChase at 1, 4 and 8 environments, measured, trained, evaluated, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from godot_parallel.analysis.curves import Curve
from godot_parallel.analysis.plots import learning_curves
from godot_parallel.cores import available_cores
from godot_parallel.engine.export import bundled_game
from godot_parallel.engine.process import EngineSettings
from godot_parallel.run_folder import RunFolder
from godot_parallel.speed.throughput import Throughput, measure
from godot_parallel.training.callbacks import Reporter
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.evaluate import Evaluation, evaluate
from godot_parallel.training.models import BEST, load_model
from godot_parallel.training.train import evaluation_env, train

COUNTS = (1, 4, 8)
TIMESTEPS = 500_000
THRESHOLDS = (20.0, 40.0, 60.0, 80.0)
EPISODES = 20
EVALUATION_INSTANCES = 4
FOLDER = Path("logs/sb3")
PICTURE = Path("logs/ball_chase_curves.png")
_TIE = 0.05  # rates that differ by less, or by less than the spread of the repeats, are a tie


@dataclass(frozen=True)
class Row:
    """One training in the table."""

    throughput: Throughput
    steps_per_s: float
    curve: Curve
    evaluation: Evaluation


def run(reporter: Reporter) -> str:
    """Does everything that is not there yet; returns the table and the verdict."""
    game = bundled_game("ball_chase", reporter.say)
    processes = [_measure(game, n, 1, reporter) for n in COUNTS]
    instances = [processes[0], *(_measure(game, 1, n, reporter) for n in COUNTS[1:])]
    rows = [
        _train_and_evaluate(game, n, measured, reporter)
        for n, measured in zip(COUNTS, instances, strict=True)
    ]
    learning_curves(
        [row.curve for row in rows], PICTURE, "BallChase: environments in one process", THRESHOLDS[-1]
    )
    return "\n".join([
        *_raw_table(processes, instances),
        "",
        *_training_table(rows),
        "",
        verdict("processes (--n_parallel)", processes),
        verdict("instances (--instances)", instances),
        "",
        f"learning curves: {PICTURE}",
        "TensorBoard:     .venv/bin/tensorboard --logdir=logs   (choose 'Wall' as the horizontal axis)",
        f"watch an agent:  .venv/bin/gdrl eval {FOLDER}/ball_chase_8env --show_window",
    ])  # fmt: skip


def _measure(game: Path, n_parallel: int, instances: int, reporter: Reporter) -> Throughput:
    reporter.say(f"measuring {n_parallel} processes x {instances} instances")
    return measure(EngineSettings(game, n_parallel, instances), seconds=1.0, repeats=3)


def _train_and_evaluate(game: Path, instances: int, measured: Throughput, reporter: Reporter) -> Row:
    config = TrainConfig(
        env_path=game,
        experiment_dir=FOLDER,
        experiment_name=f"ball_chase_{instances}env",
        timesteps=TIMESTEPS,
        instances=instances,
        force=True,
    )
    path = FOLDER / config.experiment_name
    if _is_finished(path):
        reporter.say(f"{path} is there already")
    else:
        reporter.say(f"training {config.experiment_name}: {TIMESTEPS:,} steps")
        train(config, reporter)
    reporter.say(f"evaluating {config.experiment_name}: {EPISODES} deterministic episodes")
    few = TrainConfig(env_path=game, instances=EVALUATION_INSTANCES)
    with evaluation_env(few, game, seed=0) as env:
        evaluation = evaluate(load_model(path / BEST), env, EPISODES)
    curve = Curve.read(path)
    return Row(measured, curve.steps[-1] / curve.wall_s[-1], curve, evaluation)


def _is_finished(path: Path) -> bool:
    if not (path / "config.toml").exists():
        return False
    state = RunFolder(path).read_json("state.json")
    return bool(state) and state["step"] >= TIMESTEPS and (path / BEST).exists()


def _raw_table(processes: Sequence[Throughput], instances: Sequence[Throughput]) -> list[str]:
    lines = ["raw throughput, random actions", f"{'layout':<30}{'steps/s':>10}{'spread':>9}{'ticks/s':>10}"]
    for t in [*processes, *instances[1:]]:
        name = f"{_counted(t.n_parallel, 'process', 'es')} x {_counted(t.instances, 'instance', 's')}"
        lines.append(f"{name:<30}{t.steps_per_s:>10,.0f}{t.steps_per_s_spread:>9,.0f}{t.ticks_per_s:>10,.0f}")
    return lines


def _counted(n: int, noun: str, plural: str) -> str:
    return f"{n} {noun}{plural if n > 1 else ''}"


def _training_table(rows: Sequence[Row]) -> list[str]:
    reach = "".join(f"{f'to {t:.0f}':>8}" for t in THRESHOLDS)
    head = f"{'layout':<30}{'steps/s':>10}{'ticks/s':>10}{reach}   evaluation over {EPISODES} episodes"
    lines = [f"training, {TIMESTEPS:,} steps each (to R: seconds until ep_rew_mean first reaches R)", head]
    for row in rows:
        seconds = [row.curve.seconds_to(t) for t in THRESHOLDS]
        told = "".join(f"{'never' if s is None else f'{s:.0f}':>8}" for s in seconds)
        ticks = row.steps_per_s * (row.throughput.action_repeat or 1) / row.throughput.agents
        result = f"{row.evaluation.mean:.1f} ± {row.evaluation.std:.1f}"
        lines.append(f"{row.curve.name:<30}{row.steps_per_s:>10,.0f}{ticks:>10,.0f}{told}   {result}")
    return lines


def verdict(what: str, measured: Sequence[Throughput]) -> str:
    """Says whether 8 >= 4 > 1 holds for the throughput, and what a tie or a loss means."""
    one, four, eight = measured
    rates = f"1: {one.steps_per_s:,.0f}, 4: {four.steps_per_s:,.0f}, 8: {eight.steps_per_s:,.0f} steps/s"
    slack = max(four.steps_per_s_spread + eight.steps_per_s_spread, _TIE * four.steps_per_s)
    gain = four.steps_per_s - one.steps_per_s > four.steps_per_s_spread + one.steps_per_s_spread
    if not gain:
        return (
            f"{what}: 8 >= 4 > 1 does not hold ({rates}): one game and its trainer keep the "
            f"{available_cores()} cores of this machine busy, and more only compete: that is the hardware's "
            "limit. Training still gains, since the policy acts for all at once (docs/speed.md)"
        )
    if eight.steps_per_s - four.steps_per_s > slack:
        return f"{what}: 8 >= 4 > 1 holds ({rates})"
    if four.steps_per_s - eight.steps_per_s <= slack:
        return f"{what}: 8 >= 4 > 1 holds, 8 and 4 being a tie ({rates}): that is the hardware's limit"
    return f"{what}: 4 > 1 holds, but 8 is slower than 4 ({rates}): more processes than cores compete"
