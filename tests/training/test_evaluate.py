import numpy as np
import pytest
from gymnasium import spaces

from godot_parallel.envs.batch import Batch
from godot_parallel.envs.sb3_env import GodotSb3VecEnv
from godot_parallel.errors import EnvironmentDataError, UsageError
from godot_parallel.training.evaluate import evaluate


class Still:
    def __init__(self, env):
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def predict(self, observation, *, deterministic=False):
        return np.zeros((len(observation["obs"]), 2), np.float32), None


@pytest.fixture
def env(settings):
    made = GodotSb3VecEnv(Batch(settings(instances=3)))
    yield made
    made.close()


def test_each_copy_plays_a_fixed_share(env):
    # Environment e is rewarded e + s / 8 in step s of 5: its returns are 5 e + 15 / 8. 10 episodes over 3
    # copies are 4, 3 and 3.
    result = evaluate(Still(env), env, 10)
    expected = [15 / 8] * 4 + [5 + 15 / 8] * 3 + [10 + 15 / 8] * 3
    assert list(result.returns) == expected
    assert result.lengths == (5,) * 10
    assert result.mean == pytest.approx(np.mean(expected))
    assert result.std == pytest.approx(np.std(expected))
    assert result.success_rate == pytest.approx(
        6 / 10
    )  # every other episode of a copy, from the first: 2 of 4, 2 of 3, 2 of 3
    assert evaluate(Still(env), env, 10).returns == result.returns


def test_a_game_that_never_ends_is_told(env):
    with pytest.raises(EnvironmentDataError, match="reset_after"):
        evaluate(Still(env), env, 3, max_episode_steps=3)


def test_a_model_for_other_spaces_is_told(env):
    policy = Still(env)
    policy.action_space = spaces.Discrete(3)
    with pytest.raises(UsageError, match=r"action_space Discrete\(3\); this game has Box"):
        evaluate(policy, env, 1)


def test_no_episodes_is_an_error(env):
    with pytest.raises(UsageError, match="at least 1"):
        evaluate(Still(env), env, 0)
