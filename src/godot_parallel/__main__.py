"""``python -m godot_parallel`` is ``gdrl``."""

from godot_parallel.cli import main

main()
