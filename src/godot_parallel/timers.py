"""Where the time goes: a tree of timers. Self time is total minus children."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Timer:
    """A named stretch of work.

    Attributes:
        total_s: Seconds spent, children included.
        count: How many times.
        children: Parts of it, by name.
    """

    total_s: float = 0.0
    count: int = 0
    children: dict[str, Timer] = field(default_factory=dict)

    @property
    def self_s(self) -> float:
        """Seconds not spent in any child."""
        return self.total_s - sum(child.total_s for child in self.children.values())

    def add(self, seconds: float, count: int = 1) -> None:
        """Adds measured seconds."""
        self.total_s += seconds
        self.count += count

    def child(self, name: str) -> Timer:
        """The part called ``name``, made when first asked for."""
        return self.children.setdefault(name, Timer())

    @contextmanager
    def measure(self, name: str) -> Iterator[Timer]:
        """Times the body of a ``with`` as the part ``name``."""
        part = self.child(name)
        started = time.perf_counter()
        try:
            yield part
        finally:
            part.add(time.perf_counter() - started)

    def as_dict(self) -> dict[str, Any]:
        """The tree as plain data, for JSON."""
        children = {name: child.as_dict() for name, child in self.children.items()}
        return {
            "total_s": round(self.total_s, 6),
            "self_s": round(self.self_s, 6),
            "count": self.count,
            "children": children,
        }

    def leaves(self) -> dict[str, float]:
        """Seconds of every part that has no parts, by name; what is left of the others is ``other``."""
        seconds = {"other": 0.0}
        for name, child in self.children.items():
            for leaf, s in (child.leaves() if child.children else {name: child.total_s}).items():
                seconds[leaf] = seconds.get(leaf, 0.0) + s
        seconds["other"] += max(0.0, self.self_s)
        return seconds

    def summary(self) -> str:
        """One line: the shares of the leaves in per cent; they add up to 100."""
        seconds = self.leaves()
        whole = sum(seconds.values()) or 1.0
        exact = {name: 100 * s / whole for name, s in seconds.items()}
        shares = {name: int(share) for name, share in exact.items()}
        # Largest remainders are rounded up, as many as it takes.
        by_remainder = sorted(exact, key=lambda name: shares[name] - exact[name])
        for name in by_remainder[: round(sum(exact.values())) - sum(shares.values())]:
            shares[name] += 1
        other = shares.pop("other")
        named = sorted(((n, share) for n, share in shares.items() if share), key=lambda item: -item[1])
        return ", ".join(f"{name} {share}%" for name, share in [*named, ("other", other)])
