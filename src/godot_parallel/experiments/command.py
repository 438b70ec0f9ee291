"""``gdrl experiment``: from its options to a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from godot_parallel.errors import UsageError
from godot_parallel.experiments.plan import OWN, Plan, parse_seeds, parse_vary, read_plan, vary
from godot_parallel.training.config import TrainConfig


@dataclass(frozen=True)
class ExperimentOptions:
    """Train variants with several seeds each, evaluate every run, and compare the variants in pairs.

    All options of gdrl train are taken too, for all runs. The same command again goes on where it was.
    """

    name: tyro.conf.Positional[str | None] = None
    """Name of the experiment. Its folder is EXPERIMENT_DIR/NAME; run folders in it are VARIANT/seed_N."""
    seeds: str | None = None
    """Seeds of every variant, for example 0-4 (which it is if not given) or 0,1,7."""
    vary: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """OPTION=VALUE,VALUE,...: makes a variant of each value, of each combination where given several times.
    For example --vary algo=ppo,sac"""
    zip: bool = False
    """Takes the first values of all --vary together, the second ones together, ..., not all combinations."""
    plan: Path | None = None
    """TOML file with name, seeds, and the tables base and vary (or variants, by name)."""
    jobs: int | Literal["auto"] = "auto"
    """Runs at a time; auto: measured at the start."""
    json: Path | None = None
    """Writes the comparison to this file."""
    train: Annotated[TrainConfig, tyro.conf.arg(name="")] = dataclasses.field(default_factory=TrainConfig)


def plan_of(options: ExperimentOptions, value_of: Callable[[str, str], Any]) -> Plan:
    """The plan that the options mean.

    Args:
        options: Of the command line.
        value_of: Reads an option's value (name, text) as the command line does.

    Raises:
        UsageError: They mean none.
    """
    defaults = TrainConfig().as_dict()
    given = {key: value for key, value in options.train.as_dict().items() if value != defaults[key]}
    parent = given.pop("experiment_dir", options.train.experiment_dir)
    for name in OWN:
        if name in given:
            raise UsageError(f"{name}: an experiment sets this itself")
    if "env_path" in given:
        given["env_path"] = given["env_path"].absolute()
    if options.plan:
        plan = read_plan(options.plan, parent)
        if options.vary:
            raise UsageError("give the variants in the plan or by --vary, not both")
        seeds = parse_seeds(options.seeds) if options.seeds else plan.seeds
        base = {**plan.base, **given}
        return dataclasses.replace(plan, name=options.name or plan.name, base=base, seeds=seeds)
    if not options.name:
        raise UsageError("give the experiment a name: gdrl experiment NAME ..., or a plan by --plan")
    variants = vary(parse_vary(options.vary, value_of), zipped=options.zip)
    return Plan(options.name, given, variants, parse_seeds(options.seeds or "0-4"), parent)
