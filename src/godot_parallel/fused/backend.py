"""JAX, set up once: on the CPU, quiet, with compiled programs kept on disk."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from godot_parallel.fused.fallback import UnsupportedError


def cache_dir() -> Path:
    """Where compiled programs are kept from one start to the next."""
    base = os.environ.get("GODOT_PARALLEL_CACHE") or Path.home() / ".cache" / "godot-parallel"
    return Path(base) / "compiled"


@functools.cache
def load_jax() -> ModuleType:
    """Imports JAX (1 to 2 s).

    Raises:
        UnsupportedError: It is not installed, or does not work here.
    """
    if "jax" not in sys.modules:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    draws = np.random.get_state()  # importing JAX draws a few random numbers
    try:
        jax = importlib.import_module("jax")
        jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jax.numpy.zeros(1).block_until_ready()
    except Exception as error:  # a broken installation raises anything
        raise UnsupportedError(f"JAX can't be used here ({type(error).__name__}: {error})") from error
    finally:
        np.random.set_state(draws)
    return jax
