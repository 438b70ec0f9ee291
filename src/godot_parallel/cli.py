"""The command ``gdrl``: the only module that prints and exits.

Exit codes: 0 good, 1 a told error, 2 usage, 3 a bug (with a log file), 130 Ctrl+C.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from godot_parallel import __version__
from godot_parallel.errors import GodotParallelError, RunFolderError, UsageError
from godot_parallel.options import (
    BenchOptions,
    CompareOptions,
    DemoOptions,
    EvalOptions,
    ExportOptions,
    GodotOptions,
    ReportOptions,
)
from godot_parallel.run_folder import CONFIG, RunFolder, atomic_write

OVERVIEW = """\
Trains reinforcement-learning agents in Godot games, many environments at once.

  gdrl --env=ball_chase --experiment_name=first --timesteps=100000 --instances=8
  gdrl --env_path=./MyGame.x86_64 --experiment_name=mine --timesteps=500000 --n_parallel=4 --seed=0
  tensorboard --logdir=logs                 watch it learn
  gdrl eval logs/sb3/first                  20 deterministic episodes: mean and standard deviation
  gdrl eval logs/sb3/first --show_window    look at the agent

commands (a call without one trains):
  train     train an agent                  gdrl train --help lists all options
  experiment  train variants with several seeds each, evaluate and compare them
  compare   compare what experiments have trained
  report    write an experiment as one page, report.html
  eval      evaluate a model or run
  bench     measure the raw throughput of a game
  export    export a Godot project as a program, headless
  godot     path, install or version of the Godot that is used
  demo      the whole story with the bundled game, in about 4 minutes
"""

console = Console(soft_wrap=True, markup=False, highlight=False)
errors = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)


def train(arguments: list[str]) -> int:
    """Trains; returns the exit code."""
    from godot_parallel.training.config import TrainConfig

    config = _parse_train(arguments, TrainConfig)
    from godot_parallel.terminal import TerminalReporter
    from godot_parallel.training import train as training

    if config.speedup != 1.0 and not config.viz:
        console.print("no window: the game runs as fast as it can, whatever --speedup says")
    with TerminalReporter(console) as reporter:
        result = training.train(config, reporter)
    verb = "stopped" if result.interrupted else "done"
    console.print(
        f"{verb}: {result.timesteps:,} steps in {result.seconds:.0f} s, {result.steps_per_s:,.0f} steps/s\n"
        f"time: {result.time_summary}\n{result.folder}: {_told_best(result.best_mean)}",
    )
    return 130 if result.interrupted else 0


def _told_best(mean: float) -> str:
    return (
        f"best mean return {mean:.1f}"
        if mean > -math.inf
        else "not evaluated; the best model is the last one"
    )


def _parse_train(arguments: list[str], kind: Any) -> Any:
    default, rest = _config_file(arguments)
    base = kind.from_mapping(default, "config file") if default else kind()
    config = _parse(kind, rest, "gdrl train", default=base)
    if not config.resume:
        return config
    # A run goes on with its own settings; the command line may change some.
    folder = config.experiment_dir / config.experiment_name
    stored = RunFolder.open(folder).config() if (folder / CONFIG).exists() else {}
    return _parse(kind, rest, "gdrl train", default=kind.from_mapping({**stored, **default}, str(folder)))


def _config_file(arguments: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Takes ``--config FILE`` out of the arguments."""
    for i, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--config":
            rest = arguments[:i] + arguments[i + (1 if value else 2) :]
            path = Path(value or (arguments[i + 1] if i + 1 < len(arguments) else ""))
            try:
                return tomllib.loads(path.read_text()), rest
            except (OSError, tomllib.TOMLDecodeError) as error:
                raise UsageError(f"--config: {path} can't be read: {error}") from error
    return {}, arguments


def _parse(kind: Any, arguments: list[str], prog: str, **options: Any) -> Any:
    markers = (tyro.conf.FlagCreatePairsOff,)
    return tyro.cli(kind, args=arguments, prog=prog, config=markers, use_underscores=True, **options)


def experiment(arguments: list[str]) -> int:
    """Runs an experiment; returns the exit code: 0 all runs are done, 1 some failed, 130 stopped."""
    from godot_parallel.experiments import command
    from godot_parallel.experiments.experiment import run_experiment
    from godot_parallel.terminal import ExperimentTable
    from godot_parallel.training.config import TrainConfig

    def value_of(name: str, text: str) -> Any:
        return getattr(_parse(TrainConfig, [f"--{name}", *text.split()], "gdrl experiment --vary"), name)

    options: command.ExperimentOptions = _parse(command.ExperimentOptions, arguments, "gdrl experiment")
    plan = command.plan_of(options, value_of)
    with ExperimentTable(console) as reporter:
        outcome = run_experiment(plan, options.jobs, reporter)
    if outcome.comparison:
        from godot_parallel.analysis.compare import table

        console.print("\n" + table(outcome.comparison))
        _write_json(options.json, {**outcome.comparison.as_dict(), "not_compared": outcome.notes})
    for note in outcome.notes:
        console.print(note)
    if any(job.status == "stopped" for job in outcome.jobs):
        console.print(f"stopped: the same command goes on; {outcome.folder}")
        return 130
    return 1 if any(job.status == "failed" for job in outcome.jobs) else 0


def compare(arguments: list[str]) -> int:
    """Compares variants; returns the exit code."""
    options: CompareOptions = _parse(CompareOptions, arguments, "gdrl compare")
    from godot_parallel.analysis import compare as comparing
    from godot_parallel.analysis.runs import by_variant, load_runs, reached, reached_lines

    if not options.paths:
        raise UsageError("compare: give at least one folder: an experiment's, a variant's or a run's")
    runs = [run for path in options.paths for run in load_runs(path)]
    values, notes = by_variant(runs, options.model)
    comparison = comparing.compare(values, allow_unpaired=options.allow_unpaired)
    console.print("\n".join([comparing.table(comparison), *notes]))
    told = comparison.as_dict() | {"left_out": notes}
    if options.threshold is not None:
        told["reached"] = reached(runs, options.threshold)
        console.print("\n".join(reached_lines(told["reached"], options.threshold)))
    _write_json(options.json, told)
    return 0


def report(arguments: list[str]) -> int:
    """Writes an experiment's page; returns the exit code."""
    options: ReportOptions = _parse(ReportOptions, arguments, "gdrl report")
    from godot_parallel.analysis.page import write_page
    from godot_parallel.analysis.summary import summarise

    write_page(summarise(options.experiment, options.model), options.output)
    console.print(str(options.output))
    return 0


def evaluate(arguments: list[str]) -> int:
    """Evaluates a model; returns the exit code."""
    options: EvalOptions = _parse(EvalOptions, arguments, "gdrl eval")
    from godot_parallel.training import evaluation_command

    result = evaluation_command.run(options)
    for i, (total, length) in enumerate(zip(result.returns, result.lengths, strict=True), 1):
        console.print(f"episode {i:3}: return {total:8.2f}   {length:5} steps")
    success = "" if result.success_rate is None else f"   success rate {result.success_rate:.0%}"
    console.print(
        f"Mean ± std: {result.mean:.1f} ± {result.std:.1f} over {len(result.returns)} episodes{success}",
    )
    _write_json(options.json, result.as_dict())
    return 0


def bench(arguments: list[str]) -> int:
    """Measures throughput; returns the exit code."""
    options: BenchOptions = _parse(BenchOptions, arguments, "gdrl bench")
    from godot_parallel.engine.export import bundled_game
    from godot_parallel.engine.process import EngineSettings
    from godot_parallel.speed.throughput import measure

    game = bundled_game(options.env, _say) if options.env else options.env_path
    if game is None:
        raise UsageError("give the game by --env_path or --env")
    settings = EngineSettings(
        game, options.n_parallel, options.instances, options.isolation, options.action_repeat
    )
    r = measure(settings, options.seconds, options.repeats)
    console.print(
        f"{r.n_parallel} processes x {r.instances} instances: {r.vector_steps_per_s:,.0f} vector steps/s, "
        f"{r.steps_per_s:,.0f} ± {r.steps_per_s_spread:,.0f} steps/s, {r.ticks_per_s:,.0f} ticks/s\n"
        f"engine busy {_told_share(r.engine_share)}, start-up {r.startup_s:.2f} s, "
        f"memory {max(r.rss_mib):.0f} MiB per process",
    )
    _write_json(options.json, r.as_dict())
    return 0


def _told_share(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%} of the time"


def export(arguments: list[str]) -> int:
    """Exports a project; returns the exit code."""
    options: ExportOptions = _parse(ExportOptions, arguments, "gdrl export")
    from godot_parallel.engine.export import export_game
    from godot_parallel.engine.godot import find_godot

    made = export_game(options.project, options.output, options.preset, find_godot(progress=_say), _say)
    console.print(str(made))
    return 0


def godot(arguments: list[str]) -> int:
    """Shows or installs Godot; returns the exit code."""
    options: GodotOptions = _parse(GodotOptions, arguments, "gdrl godot")
    from godot_parallel.engine.godot import find_godot

    found = find_godot(install=options.action == "install", progress=_say)
    told = found.version if options.action == "version" else str(found.path)
    console.print(told)
    return 0


def _say(text: str) -> None:
    errors.print(text)


def _write_json(path: Path | None, values: dict[str, Any]) -> None:
    if path is not None:
        atomic_write(path, (json.dumps(values, indent=2) + "\n").encode())


def demo(arguments: list[str]) -> int:
    """Runs the demonstration; returns the exit code."""
    _parse(DemoOptions, arguments, "gdrl demo")
    from godot_parallel import demo as demonstration
    from godot_parallel.terminal import TerminalReporter

    with TerminalReporter(console) as reporter:
        text = demonstration.run(reporter)
    console.print("\n" + text)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train,
    "experiment": experiment,
    "compare": compare,
    "report": report,
    "eval": evaluate,
    "bench": bench,
    "export": export,
    "godot": godot,
    "demo": demo,
}


def main(arguments: list[str] | None = None) -> None:
    """Entry point of ``gdrl``."""
    arguments = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    sys.exit(_run(arguments))


def _run(arguments: list[str]) -> int:
    if arguments[:1] in (["--help"], ["-h"]):
        console.print(OVERVIEW)
        return 0
    if arguments[:1] == ["--version"]:
        console.print(__version__)
        return 0
    try:
        name = arguments[0] if arguments and not arguments[0].startswith("-") else None
        if name is None:
            return train(arguments)
        if name not in COMMANDS:
            raise UsageError(f"unknown command {name!r}; expected one of {', '.join(COMMANDS)}")
        return COMMANDS[name](arguments[1:])
    except UsageError as error:
        return _tell(error, 2)
    except GodotParallelError as error:
        return _tell(error, 1)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return _tell(RunFolderError(str(error)), 1)
    except Exception:
        return _tell_bug()


def _tell(error: Exception, code: int) -> int:
    errors.print(f"gdrl: {error}")
    return code


def _tell_bug() -> int:
    with tempfile.NamedTemporaryFile("w", prefix="gdrl-bug-", suffix=".log", delete=False) as file:
        file.write(f"gdrl {__version__}: {sys.argv}\n{traceback.format_exc()}")
    last = traceback.format_exc().strip().splitlines()[-1]
    errors.print(f"gdrl: a bug: {last}\nplease report it with {file.name}")
    return 3


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
