"""Train reinforcement-learning agents in Godot games, many environments at once."""

__version__ = "0.1.0"
