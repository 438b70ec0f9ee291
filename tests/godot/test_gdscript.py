import re
import subprocess

import pytest

from godot_parallel.engine import godot

pytestmark = pytest.mark.engine


def test_the_editor_opens_the_project_with_the_plugin_active(project):
    command = [godot.find_godot().path, "--headless", "--editor", "--quit-after", "5", "--path", project]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    assert "SCRIPT ERROR" not in done.stdout + done.stderr
    assert "Unable to load addon" not in done.stdout + done.stderr


def test_the_play_scene_runs_without_a_trainer(project):
    scene = "res://games/ball_chase/play.tscn"
    command = [
        godot.find_godot().path,
        "--headless",
        "--path",
        project,
        scene,
        "--fixed-fps",
        "60",
        "--quit-after",
        "2500",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "ERROR" not in done.stdout + done.stderr, done.stdout + done.stderr


def test_gdscript_suite(project):
    command = [godot.find_godot().path, "--headless", "--fixed-fps", "60", "--path", project]
    command += ["--script", "res://tests/run.gd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.M)
    assert counts, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout
    assert int(counts[1]) >= 12
    assert int(counts[2]) == 0
