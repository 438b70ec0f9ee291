"""Runs a program to its end, within a time limit, and leaves nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Answer(NamedTuple):
    """How a program ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Both streams, one behind the other."""
        return self.stdout + self.stderr

    def last_lines(self, count: int = 20) -> str:
        """The end of what it printed, indented, without progress bars."""
        told = [line for line in self.output.splitlines() if line.strip() and "[" not in line[:6]]
        return "\n".join(f"  {line.rstrip()}" for line in told[-count:])


def run(command: Sequence[str | Path], time_limit: float) -> Answer:
    """Runs ``command`` in a session of its own; when time is up, all that it started is killed too.

    Args:
        command: Program and arguments.
        time_limit: Seconds.

    Raises:
        OSError: It can't be started.
        subprocess.TimeoutExpired: It did not end in time.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=time_limit)
        except BaseException:  # Ctrl+C too: it does not reach another session by itself
            _kill(process)
            raise
    return Answer(process.returncode, stdout, stderr)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kills the whole group: a wrapper script's engine would hold the pipes open for ever."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
