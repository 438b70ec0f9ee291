import re
import subprocess

import pytest

from godot_parallel.engine import godot

pytestmark = pytest.mark.engine


def test_gdscript_suite(project):
    command = [godot.find_godot().path, "--headless", "--path", project, "--script", "res://tests/run.gd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.M)
    assert counts, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout
    assert int(counts[1]) >= 12
    assert int(counts[2]) == 0
