import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from godot_parallel.envs.vector_env import GodotVectorEnv


@pytest.fixture
def env(settings):
    made = GodotVectorEnv(settings(n_parallel=2, instances=2))
    yield made
    made.close()


def test_spaces_are_those_of_the_game(env):
    assert env.num_envs == 4
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert env.observation_space["obs"].shape == (4, 4)
    obs, infos = env.reset(seed=3)
    assert obs in env.observation_space
    assert infos == {}
    assert env.action_space.sample()["move"].shape == (4, 2)


def test_ends_keep_the_last_observation(env):
    env.reset(options={"episodes": [1, 2, 3, 4]})
    for _ in range(5):
        obs, rewards, terminated, truncated, infos = env.step({"move": np.zeros((4, 2), np.float32)})
    assert terminated.tolist() == [True, False, True, False]
    assert truncated.tolist() == [False, True, False, True]
    assert rewards.tolist() == [e + 5 / 8 for e in range(4)]
    assert infos["_final_obs"].tolist() == [True] * 4
    assert infos["final_obs"]["obs"][2].tolist() == [2, 0, 5, 3]
    assert obs["obs"][2].tolist() == [2, 0, 0, 4]
    assert infos["final_info"]["is_success"].tolist() == [False, True, False, True]


def test_wrappers_of_gymnasium_work(env):
    wrapped = RecordEpisodeStatistics(env)
    wrapped.reset(seed=0)
    for _ in range(5):
        infos = wrapped.step({"move": np.zeros((4, 2), np.float32)})[-1]
    assert infos["episode"]["r"].tolist() == [5 * e + 15 / 8 for e in range(4)]
