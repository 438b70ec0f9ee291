import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3 import PPO
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from godot_parallel.errors import DivergedError, EngineDiedError, RunFolderError, UsageError
from godot_parallel.training.config import TrainConfig
from godot_parallel.training.train import train, train_and_eval

SRC = Path(__file__).parents[2] / "src"


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_everything(config):
    result = train(config())
    assert result.timesteps == 256
    assert not result.interrupted
    folder = result.folder
    for name in (
        "config.toml", "command.txt", "versions.json", "best_model.zip", "final_model.zip", "evaluations.csv",
        "progress.csv", "throughput.csv", "timers.json", "spaces.json", "engine/0.log", "checkpoints/step_256.zip",
    ):  # fmt: skip
        assert (folder / name).exists(), name
    # Evaluated on four copies, one episode each: returns 5 e + 15/8.
    assert float(rows(folder / "evaluations.csv")[-1]["mean_return"]) == 7.5 + 15 / 8
    assert json.loads((folder / "best_model.json").read_text())["mean"] == 7.5 + 15 / 8
    assert [int(r["step"]) for r in rows(folder / "progress.csv")][-1] == 256
    timers = json.loads((folder / "timers.json").read_text())
    parts = sum(child["total_s"] for child in timers["children"].values())
    assert 0 < parts <= timers["total_s"]
    assert {"rollout", "update", "evaluation", "start-up"} <= set(timers["children"])
    rollout = timers["children"]["rollout"]
    told = {name: child["total_s"] for name, child in rollout["children"].items()}
    assert {"engine physics", "observe", "encode", "wire", "policy", "buffer", "callbacks"} == set(told)
    assert min(told.values()) >= 0
    assert sum(told.values()) <= rollout["total_s"]
    assert told["wire"] > 0


def test_a_pipelined_run_is_reproducible_and_another_one(config):
    weights = []
    for name, pipeline in (("a", True), ("b", True), ("c", False)):
        folder = train(config(experiment_name=name, pipeline=pipeline)).folder
        model = PPO.load(folder / "final_model.zip", device="cpu")
        weights.append(np.concatenate([p.detach().numpy().ravel() for p in model.policy.parameters()]))
    assert (weights[0] == weights[1]).all()
    assert not (weights[0] == weights[2]).all()


def test_a_diverging_run_keeps_the_model_before_and_the_batch(config):
    with pytest.raises(DivergedError, match="smaller --learning_rate") as caught:
        train(config(learning_rate=1e30))
    folder = Path(config().experiment_dir) / config().experiment_name
    assert str(folder) in str(caught.value)
    with np.load(folder / "diverged_batch.npz") as batch:
        assert len(batch["features"]) == len(batch["returns"]) == config().batch_size
    model = PPO.load(folder / "final_model.zip", device="cpu")
    assert all(bool(p.isfinite().all()) for p in model.policy.parameters())


def test_without_a_working_jax_training_runs_in_stable_baselines(fake_game, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "jax.py").write_text("raise ImportError('libjax is not for this machine')\n")
    command = [
        sys.executable, "-m", "godot_parallel", f"--env_path={fake_game()}", "--timesteps=128", "--instances=2",
        f"--experiment_dir={tmp_path}", "--experiment_name=run", "--n_steps=32", "--eval_episodes=2",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": f"{broken}{os.pathsep}{SRC}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("PPO runs in Stable-Baselines3's own code") == 1
    assert "libjax is not for this machine" in done.stderr
    assert PPO.load(tmp_path / "run" / "final_model.zip", device="cpu").num_timesteps == 128


def test_tensorboard_finds_the_usual_tags(config):
    events = EventAccumulator(str(train(config()).folder))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {
        "rollout/ep_rew_mean",
        "time/fps",
        "train/loss",
        "throughput/steps_per_s",
        "eval/mean_reward",
    } <= tags
    assert events.Scalars("eval/mean_reward")[-1].value == 7.5 + 15 / 8


def test_the_best_model_loads_where_this_package_is_unknown(config, tmp_path):
    folder = train(config()).folder
    code = (
        "import sys; sys.modules['godot_parallel'] = None\n"
        "from stable_baselines3 import PPO; import numpy as np\n"
        f"model = PPO.load({str(folder / 'best_model')!r})\n"
        "print(model.predict({'obs': np.zeros(4)}, deterministic=True)[0].shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout.strip() == "(2,)", done.stderr


def test_the_same_seed_gives_the_same_weights(config):
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        folder = train(config(experiment_name=name, seed=seed)).folder
        model = PPO.load(folder / "final_model.zip")
        weights.append(np.concatenate([p.detach().numpy().ravel() for p in model.policy.parameters()]))
    assert (weights[0] == weights[1]).all()
    assert not (weights[0] == weights[2]).all()


def test_an_existing_run_is_not_overwritten(config):
    train(config())
    with pytest.raises(RunFolderError, match=r"--resume.*--force"):
        train(config())
    train(config(force=True))


def test_resume_goes_on_with_counters_and_curve(config):
    train(config(timesteps=128))
    result = train(config(timesteps=256, resume=True))
    assert result.timesteps == 256
    steps = [int(row["step"]) for row in rows(result.folder / "progress.csv")]
    assert steps == sorted(steps)
    assert {64, 128, 192, 256} <= set(steps)
    state = json.loads((result.folder / "state.json").read_text())
    assert min(state["episodes"]) >= 256 // 2 // 5  # episodes are numbered on, not from 0 again
    with pytest.raises(UsageError, match="256 steps already"):
        train(config(timesteps=256, resume=True))


def test_a_dead_game_loses_nothing(config):
    with pytest.raises(EngineDiedError, match="exit code 3"):
        train(config("die", at=70))
    folder = config().experiment_dir / "run"
    assert PPO.load(folder / "final_model.zip").num_timesteps == 138  # 69 steps of 2 agents
    assert train(config(resume=True)).timesteps >= 256


def test_sac_trains(config):
    result = train(config(algo="sac", timesteps=60, learning_starts=20, batch_size=8, buffer_size=1000))
    assert result.timesteps == 60
    assert (result.folder / "best_model.zip").exists()


@pytest.mark.parametrize("signals", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_ends_cleanly(fake_game, tmp_path, signals, number):
    game = fake_game()
    command = [
        sys.executable, "-m", "godot_parallel", f"--env_path={game}", "--timesteps=100000000",
        "--experiment_name=stop", f"--experiment_dir={tmp_path}", "--instances=2", "--eval_episodes=2",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    trainer = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    folder = tmp_path / "stop"
    deadline = time.monotonic() + 60
    while not (folder / "progress.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    for _ in range(signals):
        trainer.send_signal(number)
        time.sleep(0.05)
    output, _ = trainer.communicate(timeout=60)
    assert trainer.returncode == 130, output
    steps = PPO.load(folder / "final_model.zip").num_timesteps
    assert steps > 0
    assert (folder / "checkpoints" / f"step_{steps}.zip").exists()


def test_train_and_eval_returns_the_mean_of_the_report(config, tmp_path):
    made = config()
    options = {
        "env_path": made.env_path,
        "experiment_dir": tmp_path / "t",
        "timesteps": 64,
        "instances": 2,
        "n_steps": 32,
    }
    assert train_and_eval("PPO", 0, **options) == 2.5 + 15 / 8
    assert (tmp_path / "t" / "ppo_seed0" / "best_model.zip").exists()
    with pytest.raises(UsageError, match="ppo, sac"):
        train_and_eval("DQN", 0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"timesteps": 0}, "timesteps"),
        ({"timesteps": "auto"}, "timesteps: expected at least 1, found 'auto'"),
        ({"n_parallel": "many"}, "n_parallel: expected at least 1, found 'many'"),
        ({"batch_size": 1}, "batch_size"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"gamma": 1.5}, "gamma"),
        ({"env": "x"}, "not by both"),
        ({"pipeline": True, "algo": "sac"}, "pipeline: needs --algo ppo"),
        ({"pipeline": True, "learner": "sb3"}, "pipeline: needs .*--learner fused"),
        ({"n_parallel": 2, "env_path": None}, "n_parallel 2 needs"),
        ({"n_steps": 33, "instances": 1, "batch_size": 32}, "minibatch of one sample"),
    ],
)
def test_impossible_options_are_told(config, wrong, words):
    with pytest.raises(UsageError, match=words):
        train(config(**wrong))


def test_n_steps_shrinks_with_the_number_of_agents():
    config = TrainConfig()
    assert [config.rollout_length(n) for n in (1, 4, 8, 64, 128)] == [2048, 512, 256, 32, 32]
