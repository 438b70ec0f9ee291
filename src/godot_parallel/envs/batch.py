"""P game processes stepped as one batch of N agent rows."""

from __future__ import annotations

import dataclasses
import itertools
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import psutil

from godot_parallel.engine.launch import close_all, launch
from godot_parallel.engine.link import NO_TAIL, EngineTimes, Rows
from godot_parallel.engine.process import EngineSettings
from godot_parallel.engine.protocol import Tail
from godot_parallel.engine.spaces import ActionKey, EnvSpec, ObsKey
from godot_parallel.errors import (
    EngineDiedError,
    EngineError,
    EnvironmentDataError,
    GodotParallelError,
    ProtocolError,
    UsageError,
)

Array = npt.NDArray[Any]
Obs = dict[str, Array]
_NO_ROWS = np.empty(0, np.int64)


class Transition(NamedTuple):
    """The answer to one step, for all N rows. Views: valid until the next ``receive``.

    Attributes:
        obs: By key, (N, *shape). A row whose episode ended holds the new episode's first.
        reward: (N,) float32, of the step that led here.
        terminated: (N,) bool.
        truncated: (N,) bool.
        final_rows: (F,) rows whose episodes ended.
        final_obs: By key, (F, *shape), what those episodes saw last.
        infos: What the game tells, by row.
    """

    obs: Obs
    reward: npt.NDArray[np.float32]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    final_rows: npt.NDArray[np.int64]
    final_obs: Obs
    infos: dict[int, dict[str, Any]]


class Group(NamedTuple):
    """Some of the processes, next to each other, with their rows of the batch.

    Attributes:
        ranks: The processes.
        rows: Their rows.
        shaped: (key, (n, *shape) view of its rows, whether it is discrete) of every observation.
        reward: (n,) view.
        terminated: (n,) view.
        truncated: (n,) view.
        checked: Views in which every number must be finite.
    """

    ranks: range
    rows: slice
    shaped: list[tuple[str, Array, bool]]
    reward: npt.NDArray[np.float32]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    checked: list[Array]


class Batch:
    """Many games as one: ``send`` to all, then ``receive`` from all.

    With several processes, ``groups`` are two halves that can be sent to and received from on their
    own: while one simulates, whoever acts can act for the other.

    Rows are numbered process by process, instance by instance, agent by agent. Whatever fails, all
    processes are ended and the batch is closed. On Linux the games also end with the *thread* that made
    the batch (PR_SET_PDEATHSIG), so make it in one that lives as long as it is needed.

    Args:
        settings: What to run, and how.

    Raises:
        GodotParallelError: See :func:`godot_parallel.engine.launch.launch`.
    """

    def __init__(self, settings: EngineSettings) -> None:
        started = time.perf_counter()
        self.settings = settings
        self._games = launch(settings)
        self._closed = False
        self.startup_s = time.perf_counter() - started
        try:
            self.spec = _merge([game.link.spec for game in self._games])
            self._number_rows()
            self._allocate()
            self._check_instances()
        except BaseException:
            self.close()
            raise
        self.engine_times = EngineTimes()
        self.blocked_s = 0.0
        """Seconds that callers have spent in ``send`` and ``receive``."""
        self.steps = 0
        self._asked = [False] * len(self._games)
        self._early: dict[int, Tail] = {}
        for game in self._games:
            game.link.connection.watch = self._watch
        self._base_seed = settings.seed

    @property
    def n_rows(self) -> int:
        """N, the agents over all processes."""
        return self.spec.n_agents

    @property
    def n_environments(self) -> int:
        """Copies of the environment over all processes."""
        return self.spec.instances

    @property
    def pids(self) -> list[int]:
        """Process ids; empty for a game in the editor."""
        return [game.process.pid for game in self._games if game.process]

    def rss_bytes(self) -> list[int]:
        """Resident memory of each process."""
        return [int(psutil.Process(pid).memory_info().rss) for pid in self.pids]

    def _number_rows(self) -> None:
        specs = [game.link.spec for game in self._games]
        sizes = [spec.n_agents for spec in specs]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        self._slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(starts)]
        self._first = [int(n) for n in np.concatenate([[0], np.cumsum([s.instances for s in specs])])]
        self.rank_of: npt.NDArray[np.int64] = np.repeat(np.arange(len(specs)), sizes)
        self.environment_of: npt.NDArray[np.int64] = np.concatenate(
            [first + np.asarray(s.instance_of) for first, s in zip(self._first, specs, strict=False)]
        )

    def _allocate(self) -> None:
        n = self.n_rows
        self._blocks = [np.zeros((n, key.size), key.wire_dtype) for key in self.spec.obs]
        self._reward = np.zeros(n, np.float32)
        self._terminated = np.zeros(n, np.uint8)
        self._truncated = np.zeros(n, np.uint8)
        self._rows = [
            Rows([b[s] for b in self._blocks], self._reward[s], self._terminated[s], self._truncated[s])
            for s in self._slices
        ]
        p = len(self._games)
        self._whole = self._group(range(p))
        cut = p // 2
        self.groups = [self._group(range(cut)), self._group(range(cut, p))] if cut else [self._whole]

    def _group(self, ranks: range) -> Group:
        rows = slice(self._slices[ranks[0]].start, self._slices[ranks[-1]].stop)
        blocks = [block[rows] for block in self._blocks]
        shaped = [
            (key.name, block.reshape(len(block), *key.shape), key.discrete_n is not None)
            for key, block in zip(self.spec.obs, blocks, strict=True)
        ]
        reward = self._reward[rows]
        checked = [reward.reshape(-1, 1), *(block for block in blocks if block.dtype != np.uint8)]
        flags = (self._terminated[rows].view(np.bool_), self._truncated[rows].view(np.bool_))
        return Group(ranks, rows, shaped, reward, *flags, checked)

    def _check_instances(self) -> None:
        wanted = self.settings.instances
        spec = self._games[0].link.spec
        if wanted is not None and spec.native and spec.instances != wanted:
            raise UsageError(
                f"--instances {wanted}: the scene holds {spec.instances} hand-made copies under one Sync "
                "and no Replicator, so it decides itself; leave --instances out, or give it a Replicator"
            )
        if wanted not in (None, 1) and not spec.native:
            raise UsageError(
                f"--instances {wanted}: this game was not exported with the godot_parallel addon"
            )

    def reset(self, seed: int | None = None, episodes: Sequence[int] | Array | None = None) -> Obs:
        """Begins a new episode everywhere.

        Args:
            seed: 64-bit base seed from now on; the one before if ``None``.
            episodes: (n_environments,) number of each environment's next episode; 0 if ``None``.

        Returns:
            The first observations, as in :class:`Transition`.
        """
        if seed is not None:
            self._base_seed = seed
        numbers = np.zeros(self.n_environments, np.uint32) if episodes is None else np.asarray(episodes)
        self._expect_nothing("reset", self._whole.ranks)
        for rank, game in enumerate(self._games):
            first, end = self._first[rank], self._first[rank + 1]
            self._try(rank, game.link.request_reset, first, self._base_seed, numbers[first:end])
            self._asked[rank] = True
        return self.receive().obs

    def send(self, actions: Mapping[str, Array], group: Group | None = None) -> None:
        """Sends every row its action.

        Args:
            actions: By key: continuous (n, size) in -1..1, discrete (n,) integers.
            group: One of ``groups``, to send to its n rows only; all N rows if ``None``.
        """
        started = time.perf_counter()
        group = group or self._whole
        n = len(group.reward)
        blocks = [self._action_block(key, actions, n) for key in self.spec.actions]
        self._expect_nothing("send", group.ranks)
        for rank in group.ranks:
            rows = self._slices[rank]
            own = slice(rows.start - group.rows.start, rows.stop - group.rows.start)
            self._try(rank, self._games[rank].link.request_step, [block[own] for block in blocks])
            self._asked[rank] = True
        if group.ranks.start == 0:
            self.steps += 1
        self.blocked_s += time.perf_counter() - started

    def _action_block(self, key: ActionKey, actions: Mapping[str, Array], n: int) -> Array:
        if key.name not in actions:
            raise UsageError(
                f"actions: expected {[k.name for k in self.spec.actions]}, found {list(actions)}"
            )
        block = np.asarray(actions[key.name])
        if block.size != n * key.wire_width or len(block) != n:
            raise UsageError(
                f"action '{key.name}': expected the shape {(n, key.wire_width)}, found {block.shape}"
            )
        if not math.isfinite(block.sum()):
            raise UsageError(f"action '{key.name}': expected finite numbers, found {block}")
        if key.kind == "discrete" and (block.min() < 0 or block.max() >= key.size):
            raise UsageError(f"action '{key.name}': expected 0 to {key.size - 1}, found {block}")
        return block.reshape(n, -1)

    def _expect_nothing(self, what: str, ranks: range) -> None:
        if any(self._asked[rank] for rank in ranks):
            raise UsageError(f"{what}: the last request has not been answered yet; call receive() first")

    def receive(self, group: Group | None = None) -> Transition:
        """Waits for the answers of all processes, or of one group's.

        Raises:
            EngineDiedError: A process ended; the message names it.
            EngineTimeoutError: One did not answer within ``step_timeout``.
            EnvironmentDataError: An observation or reward is not finite.
        """
        started = time.perf_counter()
        group = group or self._whole
        if not self._closed and not all(self._asked[rank] for rank in group.ranks):
            raise UsageError("receive: nothing was asked; call send() or reset() first")
        tails = [self._receive(rank) for rank in group.ranks]
        self._check_finite(group, tails)
        transition = self._transition(group, tails)
        self.blocked_s += time.perf_counter() - started
        return transition

    def _receive(self, rank: int) -> Tail:
        if (early := self._early.pop(rank, None)) is None:
            link, rows = self._games[rank].link, self._rows[rank]
            early = self._try(rank, link.receive, rows, self.engine_times)
        self._asked[rank] = False
        return early

    def _receive_early(self, rank: int) -> None:
        """Takes an answer off the wire, for whoever asks for it later, to make room for a call."""
        if self._asked[rank] and rank not in self._early:
            tail = self._receive(rank)
            self._early[rank], self._asked[rank] = tail, True

    def _transition(self, group: Group, tails: list[Tail]) -> Transition:
        final_rows, final_obs, infos = _NO_ROWS, {}, {}
        starts = [self._slices[rank].start - group.rows.start for rank in group.ranks]
        ended = [(tail, start) for tail, start in zip(tails, starts, strict=True) if tail is not NO_TAIL]
        if ended:
            final_rows = np.concatenate([tail.rows + start for tail, start in ended])
            infos = {row + start: info for tail, start in ended for row, info in tail.infos.items()}
        if len(final_rows):
            for k, key in enumerate(self.spec.obs):
                blocks = [tail.obs[k] for tail, _ in ended if len(tail.rows)]
                final_obs[key.name] = _shaped(key, np.concatenate(blocks))
        obs = {name: block.astype(np.int64) if discrete else block for name, block, discrete in group.shaped}
        flags = (group.terminated, group.truncated)
        return Transition(obs, group.reward, *flags, final_rows, final_obs, infos)

    def _check_finite(self, group: Group, tails: list[Tail]) -> None:
        for block in group.checked:
            # A sum is a fifth of the work of looking at each number; an overflow only makes us look.
            if not math.isfinite(block.sum()) and not np.isfinite(block).all():
                self._blame(group)
        for rank, tail in zip(group.ranks, tails, strict=True):
            for key, block in zip(self.spec.obs, tail.obs, strict=False):
                if block.dtype != np.uint8 and not np.isfinite(block).all():
                    rows = tail.rows + self._slices[rank].start
                    self._raise_not_finite(f"last observation '{key.name}'", block, rows)

    def _blame(self, group: Group) -> None:
        named = [(f"observation '{key.name}'", b) for key, b in zip(self.spec.obs, self._blocks, strict=True)]
        rows = np.arange(self.n_rows)[group.rows]
        for name, block in [*named, ("reward", self._reward.reshape(-1, 1))]:
            if not np.isfinite(block[group.rows]).all():
                self._raise_not_finite(name, block[group.rows], rows)

    def _raise_not_finite(self, name: str, block: Array, rows: Array) -> NoReturn:
        i, index = (int(n) for n in np.argwhere(~np.isfinite(block))[0])
        row = int(rows[i])
        self.close()
        raise EnvironmentDataError(
            f"{name} is {block[i, index]} at index {index}: game process {self.rank_of[row]}, "
            f"environment {self.environment_of[row]}, agent {self.spec.agent_paths[row]}, step {self.steps}; "
            "look for a division by zero or an uninitialised value in the game's get_obs() or get_reward()"
        )

    def call(
        self, op: str, name: str, args: Sequence[Any] = (), rows: Sequence[int] | None = None
    ) -> list[Any]:
        """Calls a method (``op`` "call"), or gets or sets a property of agents in the games.

        Args:
            op: ``call``, ``get`` or ``set``.
            name: Method or property of the agent's script.
            args: Arguments; for ``set`` the new value.
            rows: Which agents; all if ``None``.

        Returns:
            One value per row.
        """
        wanted = range(self.n_rows) if rows is None else rows
        result: dict[int, Any] = {}
        for rank, game in enumerate(self._games):
            own = [row for row in wanted if self.rank_of[row] == rank]
            if own:
                self._receive_early(rank)
                local = [row - self._slices[rank].start for row in own]
                values = self._try(rank, game.link.call, op, name, list(args), local)
                result.update(zip(own, values, strict=True))
        return [result[row] for row in wanted]

    def _try(self, rank: int, act: Callable[..., Any], *args: Any) -> Any:
        if self._closed:
            raise UsageError("this batch of environments is closed; make a new one")
        try:
            return act(*args)
        except GodotParallelError as error:
            self._fail(rank, error)

    def _watch(self) -> None:
        """Notices a dead process while another is waited for."""
        for game in self._games:
            if game.process and game.process.exit_code() is not None:
                raise EngineDiedError("ended while it was needed")

    def _fail(self, rank: int, error: GodotParallelError) -> NoReturn:
        # Whoever has ended is to blame, whoever was being waited for.
        ended = [g.process for g in self._games if g.process and g.process.exit_code() is not None]
        own = self._games[rank].process
        process = own if own in ended or not ended or not isinstance(error, EngineError) else ended[0]
        if process is None:
            told: GodotParallelError = error
        elif isinstance(error, EngineError):
            told = process.error(error if process is own else EngineDiedError("ended while it was needed"))
        else:
            told = type(error)(process.describe(str(error)))
        self.close(patience=0.2, keep_logs=True)
        raise told from error

    def close(self, patience: float = 3.0, *, keep_logs: bool = False) -> None:
        """Ends all processes; may be called twice.

        Args:
            patience: Seconds that the games have to end by themselves.
            keep_logs: Keeps a temporary log folder, for an error that names it.
        """
        if self._closed:
            return
        self._closed = True
        close_all(self._games, patience)
        if self.settings.log_dir is None and not keep_logs:
            for folder in {game.process.log_path.parent for game in self._games if game.process}:
                shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _shaped(key: ObsKey, block: Array) -> Array:
    shaped = block.reshape(len(block), *key.shape)
    return shaped.astype(np.int64) if key.discrete_n is not None else shaped


def _merge(specs: list[EnvSpec]) -> EnvSpec:
    first = specs[0]
    for rank, spec in enumerate(specs):
        if (spec.obs, spec.actions) != (first.obs, first.actions):
            raise EnvironmentDataError(
                f"processes disagree in spaces: 0 has {first.obs} and {first.actions}, "
                f"{rank} has {spec.obs} and {spec.actions}"
            )
    if not first.actions:
        raise ProtocolError("the agents have no actions; get_action_space() must name at least one")
    return dataclasses.replace(
        first,
        n_agents=sum(spec.n_agents for spec in specs),
        instances=sum(spec.instances for spec in specs),
        policy_names=tuple(name for spec in specs for name in spec.policy_names),
        instance_of=tuple(i for spec in specs for i in spec.instance_of),
        agent_paths=tuple(path for spec in specs for path in spec.agent_paths),
    )
