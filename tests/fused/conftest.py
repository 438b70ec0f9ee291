import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv


class Random(gym.Env):
    """Random observations and rewards; every 20th step a time limit, every 33rd a true end."""

    def __init__(self, observation_space, action_space, seed):
        self.observation_space, self.action_space = observation_space, action_space
        self.rng = np.random.default_rng(seed)
        observation_space.seed(seed)
        self.t = 0

    def reset(self, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        self.t += 1
        reward = float(self.rng.normal())
        return self.observation_space.sample(), reward, self.t % 33 == 0, self.t % 20 == 0, {}


@pytest.fixture
def make_env():
    def make(observation_space, action_space, n=4):
        spaces = [copy.deepcopy((observation_space, action_space)) for _ in range(n)]
        return DummyVecEnv([lambda s=s, i=i: Random(*s, i) for i, s in enumerate(spaces)])

    return make


@pytest.fixture
def ready():
    """Gives a model a logger that keeps its numbers, and a callback, without ``learn``."""

    def prepare(model):
        model.set_logger(Logger(None, []))
        model._setup_learn(10_000)
        callback = CallbackList([])
        callback.init_callback(model)
        return callback

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield prepare
    torch.set_num_threads(threads)
