"""Experiments: variants x seeds of runs."""
