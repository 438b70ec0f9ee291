"""What the fused learners do not cover."""


class UnsupportedError(Exception):
    """Says why Stable-Baselines3's own code has to do the work; never leaves this package."""
