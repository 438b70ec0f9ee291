"""Train, evaluate, and what a run leaves behind."""
