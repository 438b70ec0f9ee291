"""Every command in the documentation is one that exists, flags included; so are the course unit's."""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from godot_parallel.training.config import TrainConfig

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
UNIT = [
    "gdrl --env_path=./BallChase.x86_64 --experiment_name=ballchase_1env --timesteps=500000 --n_parallel=1 --speedup=20",
    "gdrl --env_path=./BallChase.x86_64 --experiment_name=ballchase_8env --timesteps=500000 --n_parallel=8 --speedup=20",
    "gdrl --env_path=./BallChase.x86_64 --experiment_name=x --timesteps=500000 --n_parallel=8 --speedup=20 --seed=0 --batch_size=128",
]


def commands():
    found = list(UNIT)
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.S):
            found += [line.split("#")[0].strip() for line in block.splitlines() if line.startswith("gdrl")]
        found += re.findall(r"`(gdrl [^`]*)`", page.read_text())
    return sorted(set(found))


def help_of(command):
    done = subprocess.run(
        [sys.executable, "-m", "godot_parallel", command, "--help"], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "", "COLUMNS": "200", "HOME": "/nonexistent"},
    )  # fmt: skip
    return done.stdout


@functools.cache
def flags_of(command):
    return set(re.findall(r"(?<![\w-])--?[a-z]\w*", help_of(command))) | {"--config", "--help"}


@pytest.mark.parametrize("line", commands())
def test_documented_commands_exist(line):
    words = shlex.split(line)[1:]
    command = words[0] if words and not words[0].startswith("-") else "train"
    if command in ("--help", "--version"):
        return
    known = flags_of(command)
    used = {word.split("=")[0] for word in words if word.startswith("-")}
    assert used <= known, f"{line}: {used - known} unknown to gdrl {command}"


def test_documents_link_to_files_that_exist():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_option_is_explained():
    text = help_of("train")
    for name in TrainConfig.__dataclass_fields__:
        assert re.search(rf"--{name}\b.*\w", text), name
