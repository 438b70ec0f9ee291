import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecCheckNan, VecFrameStack, VecMonitor, VecNormalize

from godot_parallel.engine.spaces import ActionKey
from godot_parallel.envs.actions import ActionFace
from godot_parallel.envs.batch import Batch
from godot_parallel.envs.sb3_env import GodotSb3VecEnv


@pytest.fixture
def env(settings):
    made = GodotSb3VecEnv(Batch(settings(n_parallel=2, instances=2)))
    yield made
    made.close()


def test_infos_hold_the_last_observation_and_whether_time_was_up(env):
    env.reset()
    for _ in range(5):
        obs, rewards, dones, infos = env.step(np.zeros((4, 2), np.float32))
    assert dones.tolist() == [True] * 4
    assert rewards.tolist() == [e + 5 / 8 for e in range(4)]
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True, False, True]
    assert infos[1]["terminal_observation"]["obs"].tolist() == [1, 0, 5, 0]
    assert infos[1]["is_success"] is True
    assert obs["obs"][1].tolist() == [1, 0, 0, 1]


def test_arrays_are_copies(env):
    first = env.reset()["obs"]
    before = first.copy()
    env.step(np.zeros((4, 2)))
    assert (first == before).all()


def test_attributes_and_methods_reach_the_game(env):
    assert env.get_attr("speed", 3) == [["get", "speed", [], 1]]
    assert env.env_method("jump", 2, indices=[0]) == [["call", "jump", [2], 0]]
    assert env.get_attr("render_mode") == [None] * 4
    assert env.env_is_wrapped(VecMonitor) == [False] * 4
    with pytest.raises(TypeError, match="keyword"):
        env.env_method("jump", height=2)


def test_wrappers_of_stable_baselines_work(env):
    wrapped = VecFrameStack(VecNormalize(VecCheckNan(VecMonitor(env), raise_exception=True)), 2)
    assert wrapped.reset()["obs"].shape == (4, 8)
    for _ in range(6):
        _, _, dones, infos = wrapped.step(np.zeros((4, 2), np.float32))
        if dones.any():
            assert infos[0]["episode"]["l"] == 5
            assert infos[0]["episode"]["r"] == pytest.approx(sum(s / 8 for s in range(1, 6)))


@pytest.mark.parametrize("algorithm", [PPO, A2C, SAC])
def test_algorithms_of_stable_baselines_learn(env, algorithm):
    options = {"learning_starts": 8} if algorithm is SAC else {"n_steps": 8}
    model = algorithm("MultiInputPolicy", VecMonitor(env), **options)
    before = [p.detach().clone() for p in model.policy.parameters()]
    model.learn(64)
    assert any((a != b).any() for a, b in zip(before, model.policy.parameters(), strict=True))
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=4)
    assert mean == pytest.approx(np.mean([5 * e + 15 / 8 for e in range(4)]))


def test_eval_callback(env, settings, tmp_path):
    other = VecMonitor(GodotSb3VecEnv(Batch(settings())))
    model = PPO("MultiInputPolicy", VecMonitor(env), n_steps=8)
    callback = EvalCallback(other, eval_freq=8, n_eval_episodes=2, best_model_save_path=str(tmp_path))
    model.learn(64, callback=callback)
    other.close()
    assert callback.best_mean_reward == pytest.approx(15 / 8)
    assert (tmp_path / "best_model.zip").exists()


def test_a_time_limit_is_bootstrapped(settings):
    # Reward 1 a step, no end but the time limit of 5 steps, gamma 0.5: every state is worth 1 / (1 - 0.5) = 2.
    env = GodotSb3VecEnv(Batch(settings(reward="1", instances=4)))
    model = PPO("MultiInputPolicy", env, n_steps=32, gamma=0.5, learning_rate=3e-3, seed=0, n_epochs=20)
    model.learn(5000)
    obs = {
        "obs": np.array([[e, 0, s, k] for e in range(4) for s in range(5) for k in (100, 200)], np.float32)
    }
    values = model.policy.predict_values(model.policy.obs_to_tensor(obs)[0]).detach().numpy()
    env.close()
    assert values.mean() == pytest.approx(2.0, abs=0.1)


KEYS = {
    "box": (ActionKey("a", "continuous", 2), ActionKey("b", "continuous", 1)),
    "discrete": (ActionKey("z", "discrete", 3),),
    "multi": (ActionKey("z", "discrete", 3), ActionKey("a", "discrete", 2)),
    "mixed": (ActionKey("z", "discrete", 3), ActionKey("a", "continuous", 2)),
}


@pytest.mark.parametrize(
    ("name", "space", "action", "expected"),
    [
        ("box", spaces.Box(-1, 1, (3,)), [[0.1, 0.2, 0.3]], {"a": [[0.1, 0.2]], "b": [[0.3]]}),
        ("discrete", spaces.Discrete(3), [2], {"z": [[2]]}),
        ("multi", spaces.MultiDiscrete([3, 2]), [[2, 1]], {"z": [[2]], "a": [[1]]}),
        ("mixed", spaces.Box(-1, 1, (5,)), [[0.1, 0.9, 0.2, -0.5, 0.5]], {"z": [[1]], "a": [[-0.5, 0.5]]}),
    ],
)
def test_named_actions_become_one_space_and_back(name, space, action, expected):
    face = ActionFace(KEYS[name])
    assert face.space == space
    split = face.split(np.array(action))
    assert list(split) == list(expected)  # the game's order is kept
    assert {key: part.tolist() for key, part in split.items()} == expected
    assert face.sample(np.random.default_rng(0), 7).shape[0] == 7
