"""What can go wrong, and whose fault it is.

    GodotParallelError
    ├── UsageError            the caller asked for something that cannot be (command line: exit code 2)
    ├── RunFolderError        a run folder is missing, taken, or not one
    ├── GodotNotFoundError    no Godot engine or export template could be had
    ├── ExportError           Godot refused to import or export a project
    ├── EngineError           a game process: names its rank, command, exit code and last log lines
    │   ├── EngineStartError      it ended, or never connected, before the first answer
    │   ├── EngineDiedError       it ended in the middle
    │   └── EngineTimeoutError    it did not answer within its time limit
    ├── ProtocolError         what came off the wire breaks the protocol
    │   └── ProtocolVersionError  the other side speaks another version; both are named
    ├── EnvironmentDataError  the game works, but its data can't be trained on (NaN, disagreeing spaces, …)
    └── DivergedError         an update's loss or parameters are not finite; carries the minibatch

Every message says what was expected, what was found, and what to do next.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "DivergedError",
    "EngineDiedError",
    "EngineError",
    "EngineStartError",
    "EngineTimeoutError",
    "EnvironmentDataError",
    "ExportError",
    "GodotNotFoundError",
    "GodotParallelError",
    "ProtocolError",
    "ProtocolVersionError",
    "RunFolderError",
    "UsageError",
]


class GodotParallelError(Exception):
    """Base of all errors that this package raises on purpose."""


class UsageError(GodotParallelError):
    """The caller asked for something that cannot be."""


class RunFolderError(GodotParallelError):
    """A run folder is missing, already taken, or not a run folder."""


class GodotNotFoundError(GodotParallelError):
    """No Godot engine, or no export template for it, could be found or installed."""


class ExportError(GodotParallelError):
    """Godot refused to import or export a project."""


class EngineError(GodotParallelError):
    """A game process failed."""


class EngineStartError(EngineError):
    """A game process ended, or never connected, before its first answer."""


class EngineDiedError(EngineError):
    """A game process ended while it was needed."""


class EngineTimeoutError(EngineError):
    """A game process did not answer within its time limit."""


class ProtocolError(GodotParallelError):
    """Bytes off the wire break the protocol."""


class ProtocolVersionError(ProtocolError):
    """The other side speaks another version of the protocol."""


class EnvironmentDataError(GodotParallelError):
    """The game runs, but what it sends cannot be trained on."""


class DivergedError(GodotParallelError):
    """Training can't go on: an update came out as NaN or infinity, and was not kept.

    Attributes:
        batch: The minibatch's arrays by name; empty when they are not known.
    """

    def __init__(self, message: str, batch: dict[str, Any]) -> None:
        super().__init__(message)
        self.batch = batch
