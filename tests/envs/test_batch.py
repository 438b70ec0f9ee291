import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from godot_parallel.envs.batch import Batch
from godot_parallel.errors import (
    EngineDiedError,
    EngineStartError,
    EngineTimeoutError,
    EnvironmentDataError,
    GodotParallelError,
    ProtocolError,
    ProtocolVersionError,
    UsageError,
)

STRANGE_MESSAGES = [
    b'{"type": "error", "message": "go away"}',
    b'{"type": "env_info", "godot_parallel": {"protocol": 9, "token": "guess"}}',
    b'{"type": "env_info", "n_agents": 1, "observation_space": {"obs": {"size": [4], "space": "box"}}, '
    b'"action_space": {"move": {"size": 2, "action_type": "continuous"}}}',
]
MOVE = {"move": np.zeros((6, 2), np.float32)}


def test_rows_are_numbered_process_by_process(settings):
    with Batch(settings(n_parallel=3, instances=2)) as batch:
        obs = batch.reset()
        assert batch.n_rows == batch.n_environments == 6
        assert obs["obs"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
        assert batch.rank_of.tolist() == [0, 0, 1, 1, 2, 2]
        assert batch.environment_of.tolist() == [0, 1, 2, 3, 4, 5]


def test_step_brings_rewards_ends_and_final_observations(settings):
    with Batch(settings(n_parallel=3, instances=2)) as batch:
        batch.reset()
        for step in range(1, 5):
            batch.send(MOVE)
            t = batch.receive()
            assert t.reward.tolist() == [e + step / 8 for e in range(6)]
            assert not t.final_rows.size
            assert not t.terminated.any()
        batch.send(MOVE)
        t = batch.receive()
        assert t.final_rows.tolist() == [0, 1, 2, 3, 4, 5]
        assert t.terminated.tolist() == [True, False] * 3  # even environments terminate, odd are truncated
        assert t.truncated.tolist() == [False, True] * 3
        assert t.final_obs["obs"][4].tolist() == [4, 0, 5, 0]  # environment 4, step 5, episode 0
        assert t.obs["obs"][4].tolist() == [4, 0, 0, 1]  # the new episode's first
        assert t.infos[3] == {"is_success": True, "length": 5}


def test_reset_numbers_the_episodes(settings):
    with Batch(settings(n_parallel=2, instances=2)) as batch:
        obs = batch.reset(seed=2**64 - 1, episodes=[3, 4, 5, 6])
        assert obs["obs"][:, 3].tolist() == [3, 4, 5, 6]


def test_engine_times_are_summed(settings):
    with Batch(settings(n_parallel=2)) as batch:
        batch.reset()
        batch.send({"move": np.zeros((2, 2))})
        batch.receive()
        assert batch.engine_times.ticks == 16  # two processes, 8 ticks each
        assert batch.engine_times.physics_s == pytest.approx(4 * 5e-6)  # 2 answers from each of 2 processes


def test_calls_reach_the_right_agents(settings):
    with Batch(settings(n_parallel=2, instances=2)) as batch:
        assert batch.call("get", "speed", rows=[3, 0]) == [["get", "speed", [], 1], ["get", "speed", [], 0]]


def test_foreign_games_speak_json(settings):
    with Batch(settings("foreign", action_repeat=4)) as batch:
        assert not batch.spec.native
        assert batch.spec.action_repeat == 4
        assert batch.reset()["obs"].tolist() == [[0, 0, 0, 0]]
        for _ in range(5):
            batch.send({"move": np.zeros((1, 2))})
            t = batch.receive()
        assert t.terminated.tolist() == [True]
        assert t.reward.tolist() == [5 / 8]
        assert t.final_obs["obs"].tolist() == [[0, 0, 0, 1]]  # all that protocol tells is the next episode's


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("die", EngineDiedError, ["process 0", "exit code 3", "the game crashes now"]),
        ("quit", EngineDiedError, ["process 0", "exit code 0"]),
        ("fin", EngineDiedError, ["closed the connection"]),
        ("rst", EngineDiedError, ["connection"]),
        ("rubbish", ProtocolError, ["process 0"]),
        ("error", EnvironmentDataError, ["20 values, 21 expected"]),
    ],
)
def test_a_game_that_fails_in_a_step_is_named_at_once(settings, fault, error, words):
    batch = Batch(settings(fault))
    batch.reset()
    started = time.monotonic()
    with pytest.raises(error) as caught:
        for _ in range(3):
            batch.send({"move": np.zeros((1, 2))})
            batch.receive()
    assert time.monotonic() - started < 4
    assert all(word in str(caught.value) for word in words), str(caught.value)
    batch.close()
    batch.close()


@pytest.mark.parametrize("fault", ["hang", "half"])
def test_a_silent_game_is_given_up_within_its_time_limit(settings, fault):
    batch = Batch(settings(fault, step_timeout=0.5, n_parallel=2))
    batch.reset()
    with pytest.raises(EngineTimeoutError, match="within 0.5 s"):
        for _ in range(3):
            batch.send({"move": np.zeros((2, 2))})
            batch.receive()
    with pytest.raises(UsageError, match="closed"):
        batch.receive()


def test_a_slow_step_is_legal_below_the_limit(settings):
    with Batch(settings("slow", start_timeout=1.0)) as batch:
        batch.reset()
        for _ in range(3):
            batch.send({"move": np.zeros((1, 2))})
            assert batch.receive().reward[0] > 0


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("die_at_start", EngineStartError, ["exit code 3", "script does not parse", "command:"]),
        ("silent", EngineStartError, ["within 1 s", "no Sync node", "HUMAN"]),
        ("version", ProtocolVersionError, ["99", "trainer 1"]),
        ("token", EngineStartError, ["wrong token"]),
        ("disagree", EnvironmentDataError, ["/root/fake0", "/root/fake1", "disagree"]),
        ("no_agents", EnvironmentDataError, ["no agents"]),
        ("refuse", GodotParallelError, ["no agents to train"]),
    ],
)
def test_a_game_that_fails_at_the_start_is_named(settings, fault, error, words):
    with pytest.raises(error) as caught:
        Batch(settings(fault, start_timeout=1.0, n_parallel=2, instances=2))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_an_exit_at_the_start_is_seen_within_a_second(settings):
    started = time.monotonic()
    with pytest.raises(EngineStartError):
        Batch(settings("die_at_start", start_timeout=30.0))
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "nan",
            ["observation 'obs' is nan at index 2", "process 0", "environment 0", "/root/fake0", "step 2"],
        ),
        ("inf_reward", ["reward is inf", "process 0", "environment 1", "/root/fake1", "step 2"]),
    ],
)
def test_numbers_that_are_not_finite_are_named(settings, fault, words):
    with Batch(settings(fault, instances=2)) as batch:
        batch.reset()
        with pytest.raises(EnvironmentDataError) as caught:
            for _ in range(3):
                batch.send({"move": np.zeros((2, 2))})
                batch.receive()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_parallel": 0},
        {"n_parallel": -1},
        {"instances": 0},
        {"action_repeat": 0},
        {"speedup": 0.0},
        {"speedup": float("nan")},
        {"isolation": "moon"},
        {"step_timeout": float("nan")},
        {"start_timeout": 0.0},
        {"editor_port": 70000},
    ],
)
def test_impossible_settings_are_refused_before_anything_starts(settings, wrong):
    with pytest.raises(UsageError, match="expected"):
        settings(**wrong)


def test_another_tick_rate_starts_the_game_again_at_that_rate(settings):
    with Batch(settings(ticks=30)) as batch:
        command = " ".join(psutil.Process(batch.pids[0]).cmdline())
    assert "--fixed-fps 30" in command


def test_strangers_on_the_port_do_not_disturb(settings):
    made, strangers = settings("slow_start"), []

    def disturb():
        for _ in range(100):
            for child in psutil.Process().children(recursive=True):
                port = [a for a in child.cmdline() if a.startswith("--port=")]
                if port:
                    address = ("127.0.0.1", int(port[0].removeprefix("--port=")))
                    strangers.extend(socket.create_connection(address) for _ in range(3))
                    strangers[0].sendall(b"GET / HTTP/1.1\r\n\r\n")  # a port scanner
                    strangers[1].close()  # one that goes at once
                    strangers[2].sendall(b"\x10")  # one that says a byte and no more
                    for message in STRANGE_MESSAGES:
                        strangers.append(socket.create_connection(address))
                        strangers[-1].sendall(struct.pack("<I", len(message)) + message)
                    return
            time.sleep(0.05)

    thread = threading.Thread(target=disturb)
    thread.start()
    with Batch(made) as batch:
        assert batch.reset()["obs"].shape == (1, 4)
    thread.join()
    assert len(strangers) == 3 + len(STRANGE_MESSAGES)
    for stranger in strangers:
        stranger.close()


def test_requests_and_answers_go_in_pairs(settings):
    with Batch(settings()) as batch:
        with pytest.raises(UsageError, match="nothing was asked"):
            batch.receive()
        batch.reset()
        batch.send({"move": np.zeros((1, 2))})
        with pytest.raises(UsageError, match="not been answered"):
            batch.reset()
        assert batch.receive().obs["obs"].tolist() == [[0, 0, 1, 0]]
        assert batch.reset()["obs"].tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ({}, r"expected \['move'\], found \[\]"),
        ({"move": np.zeros((1, 1))}, r"expected the shape \(1, 2\), found \(1, 1\)"),
        ({"move": np.zeros((2, 2))}, r"found \(2, 2\)"),
        ({"move": np.array([[0, np.nan]])}, "finite"),
    ],
)
def test_actions_that_do_not_fit_are_refused(settings, actions, words):
    with Batch(settings()) as batch:
        batch.reset()
        with pytest.raises(UsageError, match=words):
            batch.send(actions)


def test_choices_that_do_not_exist_are_refused(settings):
    with Batch(settings("mixed")) as batch:
        batch.reset()
        with pytest.raises(UsageError, match="expected 0 to 2"):
            batch.send({"z": np.array([[3]]), "a": np.zeros((1, 2))})


def test_a_last_observation_that_is_not_finite_is_named(settings):
    with Batch(settings("nan_final")) as batch:
        batch.reset()
        with pytest.raises(EnvironmentDataError, match="last observation 'obs' is nan at index 1"):
            for _ in range(5):
                batch.send({"move": np.zeros((1, 2))})
                batch.receive()


def test_whoever_has_ended_is_to_blame(settings):
    with Batch(settings("hang", step_timeout=20.0, n_parallel=2)) as batch:
        batch.reset()
        os.kill(batch.pids[1], signal.SIGKILL)
        started = time.monotonic()
        with pytest.raises(EngineDiedError, match=r"game process 1.*SIGKILL"):
            for _ in range(3):
                batch.send({"move": np.zeros((2, 2))})
                batch.receive()
        assert time.monotonic() - started < 5


def test_what_a_game_has_started_ends_with_it(settings):
    made = settings("silent", start_timeout=0.5)
    made.env_path.write_text(made.env_path.read_text().replace("exec ", ""))  # the shell stays as the parent
    with pytest.raises(EngineStartError):
        Batch(made)


def test_many_frozen_games_are_ended_together(settings):
    batch = Batch(settings(n_parallel=4))
    for pid in batch.pids:
        os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    batch.close(patience=0.2)
    assert time.monotonic() - started < 6


def test_two_batches_never_meet(settings):
    with Batch(settings(n_parallel=2)) as one, Batch(settings(n_parallel=2)) as two:
        assert one.reset()["obs"].shape == two.reset()["obs"].shape == (2, 4)
        assert not set(one.pids) & set(two.pids)


def test_ten_starts_and_stops(settings):
    for _ in range(10):
        with Batch(settings()) as batch:
            batch.reset()


def test_games_die_with_a_killed_trainer_even_when_frozen(settings):
    made = settings()
    code = (
        "import sys, time; from pathlib import Path\n"
        "from godot_parallel.engine.process import EngineSettings\n"
        "from godot_parallel.envs.batch import Batch\n"
        f"b = Batch(EngineSettings(Path({str(made.env_path)!r}), 2)); print(*b.pids, flush=True); time.sleep(60)\n"
    )
    trainer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert trainer.stdout
    pids = [int(word) for word in trainer.stdout.readline().split()]
    trainer.stdout.close()
    os.kill(pids[0], signal.SIGSTOP)
    trainer.kill()
    trainer.wait()
    deadline = time.monotonic() + 5
    while any(psutil.pid_exists(p) for p in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [p for p in pids if psutil.pid_exists(p)] == []
