"""JAX, set up once: on the CPU, quiet, with compiled programs kept on disk."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from godot_parallel.fused.fallback import UnsupportedError

# Running small operations side by side costs more than it brings: a fifth of a PPO update.
_FLAG = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
# A version that does not know a flag ends the program, so only the one that was tried gets it.
_FLAG_VERSION = (0, 10)


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
        with _xla_flag():
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


@contextlib.contextmanager
def _xla_flag() -> Iterator[None]:
    """Sets the flag while JAX starts, where it is known and nobody has decided otherwise."""
    before = os.environ.get("XLA_FLAGS")
    try:
        version = tuple(int(part) for part in importlib.metadata.version("jaxlib").split(".")[:2])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        version = ()
    if version != _FLAG_VERSION or "concurrency_optimized_scheduler" in (before or ""):
        yield
        return
    os.environ["XLA_FLAGS"] = f"{before or ''} {_FLAG}".strip()
    try:
        yield
    finally:
        del os.environ["XLA_FLAGS"]
        if before is not None:
            os.environ["XLA_FLAGS"] = before
