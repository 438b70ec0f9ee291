import pytest

from godot_parallel.training.config import TrainConfig


@pytest.fixture
def config(fake_game, tmp_path):
    def make(fault="", at=2, **own):
        own = {
            "env_path": fake_game(fault, at),
            "experiment_dir": tmp_path / "runs",
            "experiment_name": "run",
            "timesteps": 256,
            "instances": 2,
            "n_steps": 32,
            "eval_episodes": 4,
            "eval_freq": 100,
        } | own
        return TrainConfig(**own)

    return make
