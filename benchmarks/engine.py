"""What rays and physics worlds cost inside the engine, asked for in several ways.

make bench-engine        half a minute; the scripts are godot/tests/bench_*.gd
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from common import Report
from godot_parallel.engine.export import import_project
from godot_parallel.engine.godot import find_godot

PROJECT = Path("godot")


def main() -> None:
    report = Report("engine")
    engine = find_godot(progress=print)
    import_project(PROJECT, engine)
    for script, unit in (("bench_sensors", "us a ray"), ("bench_worlds", "us a tick")):
        command = [str(engine.path), "--headless", "--fixed-fps", "60", "--path", str(PROJECT)]
        command += ["--script", f"res://tests/{script}.gd"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
        for name, value in sorted(json.loads(line).items()):
            report.tell(name, value, unit)


if __name__ == "__main__":
    main()
