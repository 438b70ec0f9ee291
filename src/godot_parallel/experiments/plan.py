"""What an experiment consists of: variants of a training, each with the same seeds."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from godot_parallel.errors import UsageError
from godot_parallel.training.config import TrainConfig

OWN = ("experiment_name", "experiment_dir", "seed", "resume", "force", "viz")
"""Options of a training that an experiment sets itself."""
ONLY = "base"
"""Name of the variant of an experiment without variants."""
_NAME = re.compile(r"[\w.,=+-]+")

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One run of an experiment.

    Attributes:
        variant: Name of its variant.
        seed: Its seed.
        config: All its options.
    """

    variant: str
    seed: int
    config: TrainConfig

    @property
    def folder(self) -> Path:
        """Its run folder."""
        return self.config.experiment_dir / self.config.experiment_name

    def __str__(self) -> str:
        return f"{self.variant} seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Variants x seeds.

    Attributes:
        name: Of the experiment.
        base: Options of all runs.
        variants: For each variant's name, the options in which it differs.
        seeds: The same for every variant, so that they can be compared in pairs.
        parent: Folder that the experiment's folder lies in.
    """

    name: str
    base: Values
    variants: Mapping[str, Values]
    seeds: tuple[int, ...]
    parent: Path = Path("logs/sb3")

    @property
    def folder(self) -> Path:
        """The experiment's folder."""
        return self.parent / self.name

    def runs(self) -> list[Run]:
        """All runs, seed by seed, so that whatever is finished early is comparable.

        Raises:
            UsageError: An option has an impossible value.
        """
        return [
            Run(variant, seed, self._config(variant, own, seed))
            for seed, (variant, own) in itertools.product(self.seeds, self.variants.items())
        ]

    def _config(self, variant: str, own: Values, seed: int) -> TrainConfig:
        values = {**self.base, **own, "seed": seed}
        values |= {"experiment_dir": self.folder / variant, "experiment_name": f"seed_{seed}"}
        return TrainConfig.from_mapping(values, f"variant {variant}")

    def as_dict(self) -> dict[str, Any]:
        """For a TOML file; :func:`read_plan` reads it."""
        return {
            "name": self.name,
            "seeds": list(self.seeds),
            "base": _plain(self.base),
            "variants": {name: _plain(own) for name, own in self.variants.items()},
        }


def _plain(values: Values) -> dict[str, Any]:
    return {
        key: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for key, value in values.items()
        if value is not None
    }


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds from ``0-4``, ``0,1,7`` or both.

    Raises:
        UsageError: It is neither, or names a seed twice.
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise UsageError(f"seeds: expected for example 0-4 or 0,1,7, found {text!r}")
        seeds += range(int(match[1]), int(match[2] or match[1]) + 1)
    return checked_seeds(seeds)


def checked_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    """The seeds, if there is at least one and none is there twice.

    Raises:
        UsageError: They are not.
    """
    twice = [seed for i, seed in enumerate(seeds) if seed in seeds[:i]]
    if twice:
        raise UsageError(f"seeds: {twice[0]} is named twice; a seed counts once")
    if not seeds:
        raise UsageError("seeds: expected at least one")
    return tuple(seeds)


def vary(varied: Mapping[str, Sequence[Any]], *, zipped: bool = False) -> dict[str, dict[str, Any]]:
    """Variants of the values of some options, named after them.

    Args:
        varied: Values by option.
        zipped: The first values together, the second values together, ...; else all combinations.

    Raises:
        UsageError: An option is unknown, is the experiment's own, or has no value or one twice; or the
            options to be zipped have different numbers of values.
    """
    if zipped and len({len(values) for values in varied.values()}) > 1:
        counts = ", ".join(f"{name} has {len(values)}" for name, values in varied.items())
        raise UsageError(f"zip: expected as many values of each option, but {counts}")
    for name, values in varied.items():
        checked_option(name)
        if not values or (not zipped and len({_told(value) for value in values}) < len(values)):
            raise UsageError(f"vary {name}: expected different values, found {list(values)}")
    variants: dict[str, dict[str, Any]] = {}
    together = zip(*varied.values(), strict=True) if zipped else itertools.product(*varied.values())
    for combination in together:
        own = dict(zip(varied, combination, strict=True))
        label = ",".join(f"{name}={_told(value)}" for name, value in own.items()) or ONLY
        if label in variants:
            raise UsageError(f"vary: {label} is there twice")
        variants[label] = own
    return variants


def _told(value: Any) -> str:
    """A value as part of a folder's name."""
    if isinstance(value, tuple | list):
        return "x".join(map(str, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return re.sub(r"[^\w.+-]+", "_", str(value)).strip("_") or "none"


def parse_vary(texts: Sequence[str], value_of: Callable[[str, str], Any]) -> dict[str, list[Any]]:
    """Options and their values from ``algo=ppo,sac``.

    Args:
        texts: One for each option.
        value_of: Reads a value (name, text) as the command line does.

    Raises:
        UsageError: It has no such form, or names an option twice.
    """
    varied: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise UsageError(f"vary: expected for example algo=ppo,sac, found {text!r}")
        name = name.replace("-", "_")
        checked_option(name)
        if name in varied:
            raise UsageError(f"vary: {name} is named twice")
        varied[name] = [value_of(name, value.strip()) for value in values.split(",")]
    return varied


def checked_option(name: str) -> str:
    """The name, if it is an option of a training that an experiment may set.

    Raises:
        UsageError: It is not; the nearest name is suggested.
    """
    known = [field.name for field in dataclasses.fields(TrainConfig)]
    if name in OWN:
        raise UsageError(f"{name}: an experiment sets this itself")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else "; the names are those of gdrl train --help"
        raise UsageError(f"unknown option {name!r}{meant}")
    return name


def read_plan(path: Path, parent: Path = Path("logs/sb3")) -> Plan:
    """A plan from a TOML file: ``name``, ``seeds``, ``zip``, ``base``, and ``vary`` or ``variants``.

    Raises:
        UsageError: It can't be read, or says what no plan says.
    """
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"the plan {path} can't be read: {error}") from error
    known = ("name", "seeds", "zip", "base", "vary", "variants")
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{path}: unknown key {key!r}{meant} (expected {', '.join(known)})")
    if "vary" in values and "variants" in values:
        raise UsageError(f"{path}: give vary (all combinations) or variants (by name), not both")
    seeds = values.get("seeds", "0-4")
    variants = values.get("variants") or vary(values.get("vary", {}), zipped=bool(values.get("zip")))
    for own in (values.get("base", {}), *variants.values()):
        for name in own:
            checked_option(name)
    for name in variants:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{path}: the variant {name!r} is no folder name (letters, digits, . , = + -)")
    return Plan(
        name=str(values.get("name", path.stem)),
        base=values.get("base", {}),
        variants=variants,
        seeds=parse_seeds(seeds) if isinstance(seeds, str) else checked_seeds(seeds),
        parent=parent,
    )
