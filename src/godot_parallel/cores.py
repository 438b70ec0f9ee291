"""How many cores this process may use, which in a container is less than the machine shows."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def available_cores(cgroups: Path = _CGROUPS) -> int:
    """Cores that the affinity mask and the control group's CPU quota allow; at least 1.

    Args:
        cgroups: Where control groups are mounted (kernel documentation, cgroup-v2: ``cpu.max``; cgroup-v1:
            ``cpu.cfs_quota_us``).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(_quota(cgroups) or cores)))


def _quota(cgroups: Path) -> float | None:
    """CPU seconds per second of the control group; ``None`` without a limit."""
    try:
        if (cgroups / "cpu.max").exists():
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota = (cgroups / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroups / "cpu" / "cpu.cfs_period_us").read_text()
        return None if quota in ("max", "-1") else float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
