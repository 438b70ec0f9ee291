"""Stable-Baselines3's PPO and SAC with the same numbers and a compiled inside: no engine, no files."""
