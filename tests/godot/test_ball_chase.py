"""The exported BallChase: determinism, both protocols, both ways of starting, training."""

import json
import os
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from godot_parallel.engine.process import EngineSettings
from godot_parallel.envs.batch import Batch
from godot_parallel.errors import EngineDiedError
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.models import FINAL, load_model
from godot_parallel.training.train import train, train_and_eval

pytestmark = pytest.mark.engine


def play(game, seed, steps, **layout):
    """Observations and rewards of all steps; every environment has its own fixed actions."""
    with Batch(EngineSettings(game, **layout)) as batch:
        n = batch.n_rows
        actions = np.stack([np.random.default_rng(e).uniform(-1, 1, (steps, 2)) for e in range(n)], axis=1)
        seen = [batch.reset(seed=seed)["obs"].copy()]
        rewards = []
        for step in range(steps):
            batch.send({"move": actions[step].astype(np.float32)})
            t = batch.receive()
            seen.append(t.obs["obs"].copy())
            rewards.append(t.reward.copy())
        return np.array(seen), np.array(rewards)


def test_layouts_play_the_same_games_to_the_bit(ball_chase):
    obs, rewards = play(ball_chase, 5, 150, instances=8)
    assert (rewards < -9).sum() > 20  # random play ends at walls: many episodes are compared
    for layout in ({"instances": 4, "n_parallel": 2}, {"instances": 2, "n_parallel": 4}, {"instances": 8}):
        other_obs, other_rewards = play(ball_chase, 5, 150, **layout)
        assert (obs == other_obs).all()
        assert (rewards == other_rewards).all()


def test_seeds_differ_and_numbers_are_sane(ball_chase):
    obs, rewards = play(ball_chase, 5, 100, instances=4)
    other, _ = play(ball_chase, 6, 100, instances=4)
    assert not (obs[0] == other[0]).all(axis=1).any()
    assert obs.shape == (101, 4, 21)
    assert (np.abs(obs[:, :, :2]) <= 1).all()
    assert np.linalg.norm(obs[:, :, 2:4], axis=2) == pytest.approx(1.0, abs=1e-5)
    assert (obs[:, :, 5:] >= 0).all()
    assert (obs[:, :, 5:] <= 1).all()
    assert rewards.min() == pytest.approx(-10.06, abs=0.1)


def test_the_time_limit_of_1000_ticks_truncates(ball_chase):
    with Batch(EngineSettings(ball_chase)) as batch:
        batch.reset(seed=1)
        for step in range(1, 126):
            batch.send({"move": np.zeros((1, 2), np.float32)})
            t = batch.receive()
            assert t.truncated.tolist() == [step == 125]  # 125 steps of 8 ticks
        assert t.infos == {0: {"balls": 0, "wall_hit": False}}


def test_grid_isolation_plays_the_same_game_up_to_rounding(ball_chase):
    world, _ = play(ball_chase, 5, 20, instances=4, isolation="world")
    grid, _ = play(ball_chase, 5, 20, instances=4, isolation="grid")
    assert np.abs(world - grid).max() < 1e-3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_game_that_is_shot_or_frozen_is_named(ball_chase, number, tmp_path):
    settings = EngineSettings(ball_chase, 4, step_timeout=1.0, log_dir=tmp_path)
    batch = Batch(settings)
    batch.reset()
    os.kill(batch.pids[2], number)
    started = time.monotonic()
    with pytest.raises(Exception, match="game process 2"):
        while True:
            batch.send({"move": np.zeros((4, 2), np.float32)})
            batch.receive()
    assert time.monotonic() - started < 10


class OldClient:
    """Speaks as the Python side of Godot RL Agents 0.8.2 does, from its published protocol."""

    def __init__(self, game, *options):
        server = socket.create_server(("127.0.0.1", 0))
        command = [
            str(game),
            f"--port={server.getsockname()[1]}",
            "--env_seed=1",
            "--disable-render-loop",
            "--headless",
        ]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        server.settimeout(20)
        self.socket, _ = server.accept()
        server.close()
        self.send({"type": "handshake", "major_version": "0", "minor_version": "7"})

    def send(self, message):
        data = json.dumps(message).encode()
        self.socket.sendall(struct.pack("<I", len(data)) + data)

    def ask(self, message):
        self.send(message)
        (length,) = struct.unpack("<I", self.socket.recv(4, socket.MSG_WAITALL))
        return json.loads(self.socket.recv(length, socket.MSG_WAITALL))

    def close(self):
        self.send({"type": "close"})
        return self.process.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.socket.close()


def test_the_old_projects_python_drives_our_game(ball_chase):
    with OldClient(ball_chase, "--speedup=20", "--action_repeat=8", "--instances=3") as client:
        info = client.ask({"type": "env_info"})
        assert info["n_agents"] == 3
        assert info["observation_space"] == [{"obs": {"size": [21], "space": "box"}}] * 3
        assert info["action_space"][0] == {"move": {"size": 2, "action_type": "continuous"}}
        first = client.ask({"type": "reset"})
        assert len(first["obs"][0]["obs"]) == 21
        done = 0
        for _ in range(60):
            answer = client.ask({"type": "action", "action": [{"move": [1.0, 0.3]}] * 3})
            assert answer["type"] == "step"
            done += sum(answer["done"])
            assert len(answer["reward"]) == len(answer["info"]) == 3
        assert done > 0  # steering into the wall ends episodes
        assert client.ask({"type": "call", "method": "get_done"})["returns"] == answer["done"]
        assert client.close() == 0


def test_an_unknown_version_is_refused_with_both_named(ball_chase):
    server = socket.create_server(("127.0.0.1", 0))
    command = [str(ball_chase), f"--port={server.getsockname()[1]}", "--headless"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        peer, _ = server.accept()
        for message in (
            {"type": "handshake", "major_version": "9", "minor_version": "1"},
            {"type": "env_info"},
        ):
            data = json.dumps(message).encode()
            peer.sendall(struct.pack("<I", len(data)) + data)
        _, errors = process.communicate(timeout=20)
    peer.close()
    server.close()
    assert process.returncode == 1
    assert "9.1" in errors
    assert "does not fit version 0" in errors


def test_a_headless_game_without_trainer_gives_up(ball_chase):
    command = [ball_chase, "--headless", "--port=1", "--", "--connect_timeout=0.3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert "no trainer listens on port 1; gave up after 0.3 s" in done.stderr


def test_a_game_that_was_started_first_is_found_on_its_fixed_port(ball_chase):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [str(ball_chase), "--headless", f"--port={port}", "--", "--connect_timeout=30"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as game:
        time.sleep(1.0)
        with Batch(EngineSettings(None, editor_port=port)) as batch:
            assert batch.reset()["obs"].shape == (1, 21)
        assert game.wait(10) == 0


def test_a_project_folder_trains_without_export(project, tmp_path):
    config = TrainConfig(
        env_path=project, experiment_dir=tmp_path, experiment_name="folder", timesteps=256, instances=2, n_steps=64,
        eval_episodes=2,
    )  # fmt: skip
    result = train(config)
    assert result.timesteps == 256
    spaces = json.loads((result.folder / "spaces.json").read_text())
    assert spaces["action_repeat"] == 8
    assert spaces["environments"] == 2


@pytest.mark.slow
def test_an_agent_learns(ball_chase, tmp_path):
    mean = train_and_eval(
        "PPO", 0, env_path=ball_chase, experiment_dir=tmp_path, timesteps=40_000, instances=16, isolation="grid",
        n_steps=64, batch_size=256, learning_rate=1e-3, eval_episodes=4,
    )  # fmt: skip
    assert mean > 5  # random play gives -10


def test_a_game_that_dies_in_training_loses_nothing(ball_chase, tmp_path, monkeypatch):
    import godot_parallel.training.train as module

    class Fragile(Batch):
        def send(self, actions, group=None):
            if self.steps == 100 and "evaluation" not in str(self.settings.log_dir):
                os.kill(self.pids[0], signal.SIGKILL)
            super().send(actions, group)

    monkeypatch.setattr(module, "Batch", Fragile)
    config = TrainConfig(env_path=ball_chase, experiment_dir=tmp_path, experiment_name="x", timesteps=10_000)
    with pytest.raises(EngineDiedError, match="SIGKILL"):
        train(config)
    assert (Path(tmp_path) / "x" / "final_model.zip").exists()
    assert list((Path(tmp_path) / "x" / "checkpoints").glob("step_*.zip"))


def test_training_in_any_layout_gives_the_same_weights(ball_chase, tmp_path):
    """Two processes are stepped in turns, four in two halves: that changes when, not what."""
    weights = []
    for n_parallel, instances in ((1, 8), (2, 4), (4, 2)):
        config = TrainConfig(
            env_path=ball_chase, experiment_dir=tmp_path, experiment_name=f"{n_parallel}x{instances}",
            n_parallel=n_parallel, instances=instances, timesteps=4096, eval_freq=4096, eval_episodes=4,
        )  # fmt: skip
        model = load_model(train(config).folder / FINAL)
        weights.append(np.concatenate([p.detach().numpy().ravel() for p in model.policy.parameters()]))
    assert (weights[0] == weights[1]).all()
    assert (weights[0] == weights[2]).all()
