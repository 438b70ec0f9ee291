import copy
import logging

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize
from torch import nn

from godot_parallel.errors import DivergedError
from godot_parallel.fused import backend
from godot_parallel.fused.fallback import UnsupportedError
from godot_parallel.fused.ppo import FusedPPO

BOX = spaces.Box(-1, 1, (5,), np.float32)
PLAIN = spaces.Dict({"obs": BOX})
SEVERAL = spaces.Dict(
    {
        "z": spaces.Box(-1, 1, (2, 3), np.float32),
        "a": spaces.Discrete(4),
        "m": spaces.MultiDiscrete([3, 2]),
        "b": spaces.MultiBinary(3),
        "u": spaces.Box(0, 255, (4,), np.uint8),
    }
)
TWO = spaces.Box(-1, 1, (2,), np.float32)
IMAGE = spaces.Dict({"camera": spaces.Box(0, 255, (3, 40, 40), np.uint8)})

CASES = {
    "box": (PLAIN, TWO, {}),
    "no dict": (BOX, TWO, {}),
    "discrete": (PLAIN, spaces.Discrete(3), {"ent_coef": 0.01}),
    "multi-discrete": (PLAIN, spaces.MultiDiscrete([3, 4]), {"ent_coef": 0.01}),
    "multi-binary": (PLAIN, spaces.MultiBinary(3), {"ent_coef": 0.01}),
    "matrix of actions": (PLAIN, spaces.Box(-2, 2, (2, 2), np.float32), {}),
    "several keys": (SEVERAL, TWO, {}),
    "value clipping": (PLAIN, TWO, {"clip_range_vf": 0.1}),
    "target KL": (PLAIN, TWO, {"target_kl": 0.0002}),
    "gradient norm": (PLAIN, TWO, {"max_grad_norm": 0.01}),
    "schedules": (PLAIN, TWO, {"learning_rate": LinearSchedule(1e-2, 0, 1), "clip_range": LinearSchedule(0.3, 0, 1)}),
    "rest of one": (PLAIN, TWO, {"batch_size": 127}),
    "rest": (PLAIN, TWO, {"batch_size": 50}),
    "one minibatch": (PLAIN, TWO, {"batch_size": 128}),
    "larger than the rollout": (PLAIN, TWO, {"batch_size": 1000}),
    "as is": (PLAIN, TWO, {"normalize_advantage": False, "gae_lambda": 0.8, "gamma": 0.9, "vf_coef": 0.7}),
    "networks": (PLAIN, TWO, {"policy_kwargs": {"net_arch": {"pi": [8], "vf": [16, 4, 4]}, "activation_fn": nn.ELU}}),
    "no hidden layer": (PLAIN, TWO, {"policy_kwargs": {"net_arch": []}}),
    "relu": (PLAIN, TWO, {"policy_kwargs": {"activation_fn": nn.ReLU}}),
    "leaky relu": (PLAIN, TWO, {"policy_kwargs": {"activation_fn": nn.LeakyReLU}}),
    "silu": (PLAIN, TWO, {"policy_kwargs": {"activation_fn": nn.SiLU}}),
    "own extractors": (PLAIN, TWO, {"policy_kwargs": {"share_features_extractor": False}}),
}  # fmt: skip


def make(kind, env, **options):
    options = {"n_steps": 32, "batch_size": 32, "n_epochs": 3, "seed": 1, "device": "cpu"} | options
    name = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    with pytest.warns() if (32 * env.num_envs) % options["batch_size"] else _nothing():
        return kind(name, env, **options)


class _nothing:  # noqa: N801 - stands in for pytest.warns
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def difference(a, b):
    return max(
        (p - q).abs().max().item() for p, q in zip(a.policy.parameters(), b.policy.parameters(), strict=True)
    )


def numbers(model):
    return {k: v for k, v in model.logger.name_to_value.items() if k.startswith("train/")}


@pytest.mark.parametrize("case", CASES)
def test_an_update_has_the_same_numbers(case, make_env, ready):
    observation_space, action_space, options = CASES[case]
    env = make_env(observation_space, action_space)
    ours, theirs = make(FusedPPO, env, **options), make(PPO, env, **options)
    callback = ready(ours)
    ready(theirs)
    for update in range(2):
        ours._current_progress_remaining = theirs._current_progress_remaining = 1 - 0.4 * update
        theirs.set_parameters(copy.deepcopy(ours.get_parameters()))
        assert ours.collect_rollouts(env, callback, ours.rollout_buffer, 32)
        theirs.rollout_buffer = copy.deepcopy(ours.rollout_buffer)
        before = copy.deepcopy(ours.policy.state_dict())
        np.random.seed(update)
        ours.train()
        after_ours = np.random.random()
        np.random.seed(update)
        theirs.train()
        assert after_ours == np.random.random()  # the same shuffles were drawn
        assert any((v - before[k]).abs().max() > 1e-4 for k, v in ours.policy.state_dict().items())
        assert difference(ours, theirs) < 1e-5
        told, expected = numbers(ours), numbers(theirs)
        assert told.keys() == expected.keys()
        assert told == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert ours.fallback_reason is None


@pytest.mark.parametrize("case", CASES)
def test_a_rollout_has_the_same_numbers(case, make_env, ready):
    """The actions are drawn otherwise; everything computed from them is the same."""
    observation_space, action_space, options = CASES[case]
    env = make_env(observation_space, action_space)
    model = make(FusedPPO, env, **options)
    callback = ready(model)
    first_obs = model._last_obs
    assert model.collect_rollouts(env, callback, model.rollout_buffer, 32)
    buffer = model.rollout_buffer
    assert buffer.full
    assert model.num_timesteps == 128
    obs, actions = buffer.observations, buffer.actions
    named = obs if isinstance(obs, dict) else {"": obs}
    for key, block in named.items():
        first = first_obs[key] if key else first_obs
        np.testing.assert_array_equal(block[0].reshape(4, -1), np.reshape(first, (4, -1)))
    flat = {k: torch.as_tensor(b.reshape(128, *b.shape[2:])) for k, b in named.items()}
    chosen = torch.as_tensor(actions.reshape(128, -1)).float()
    with torch.no_grad():
        chosen = chosen.flatten() if isinstance(model.action_space, spaces.Discrete) else chosen
        values, log_prob, _ = model.policy.evaluate_actions(
            flat if isinstance(obs, dict) else flat[""], chosen
        )
    np.testing.assert_allclose(buffer.values.reshape(-1), values.flatten(), atol=1e-5)
    np.testing.assert_allclose(buffer.log_probs.reshape(-1), log_prob, atol=1e-4)
    again = copy.deepcopy(buffer)
    with torch.no_grad():
        last_values = model.policy.predict_values(model.policy.obs_to_tensor(model._last_obs)[0])
    again.compute_returns_and_advantage(last_values, model._last_episode_starts)
    np.testing.assert_allclose(buffer.advantages, again.advantages, atol=1e-4)
    np.testing.assert_allclose(buffer.returns, again.returns, atol=1e-4)


def test_a_time_limit_is_bootstrapped(make_env, ready):
    env = make_env(PLAIN, TWO)
    seen = []

    class Spy(BaseCallback):
        def _on_step(self):
            rewards = self.locals["rewards"].copy()
            seen.append((rewards, [info.get("terminal_observation") for info in self.locals["infos"]]))
            return True

    model = make(FusedPPO, env, gamma=0.9)
    ready(model)
    spy = Spy()
    spy.init_callback(model)
    model.collect_rollouts(env, spy, model.rollout_buffer, 32)
    stored = model.rollout_buffer.rewards
    for t in range(32):
        rewards, last = seen[t]
        if t == 19:  # 1.0 * value of what was seen last
            with torch.no_grad():
                values = [float(model.policy.predict_values(model.policy.obs_to_tensor(o)[0])) for o in last]
            np.testing.assert_allclose(stored[t], rewards + 0.9 * np.array(values), atol=1e-5)
            assert np.abs(stored[t] - rewards).min() > 1e-4
        else:
            np.testing.assert_array_equal(stored[t], rewards)


def test_actions_are_drawn_from_the_policy(make_env, ready):
    """Frequencies of 20,000 draws against the policy's own probabilities, within five standard errors."""
    for space in (spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(3), TWO):
        model = make(FusedPPO, make_env(PLAIN, space))
        program = model.program()
        distribution, rows = program.networks.distribution, 20_000
        obs = {"obs": torch.full((1, 5), 0.3)}
        with torch.no_grad():
            theirs = model.policy.get_distribution(obs)
            out = model.policy.action_net(model.policy.mlp_extractor.policy_net(obs["obs"])).numpy()
        log_std = None if program.networks.log_std is None else np.full(2, -0.5, np.float32)
        drawn = distribution.draw(np.repeat(out, rows, axis=0), distribution.noise(log_std, rows))
        if space is TWO:
            np.testing.assert_allclose(drawn.mean(0), out[0], atol=5 * 0.61 / rows**0.5)
            np.testing.assert_allclose(drawn.std(0), np.exp(-0.5), atol=0.02)
        elif isinstance(space, spaces.MultiBinary):
            np.testing.assert_allclose(drawn.mean(0), theirs.distribution.probs[0], atol=5 * 0.5 / rows**0.5)
        else:
            for column, one in enumerate(theirs.distribution):
                shares = np.bincount(drawn[:, column], minlength=len(one.probs[0])) / rows
                np.testing.assert_allclose(shares, one.probs[0], atol=5 * 0.5 / rows**0.5)


def test_training_goes_on_in_either(make_env, ready, tmp_path):
    """Ours, saved, loaded and updated by Stable-Baselines3, and back: the same as ours alone."""
    env = make_env(PLAIN, TWO)
    ours = make(FusedPPO, env)
    callback = ready(ours)
    ours.collect_rollouts(env, callback, ours.rollout_buffer, 32)
    buffer = copy.deepcopy(ours.rollout_buffer)
    np.random.seed(0)
    ours.train()
    ours.save(tmp_path / "one")
    for kind, name, following in ((PPO, "one", "two"), (FusedPPO, "two", "three")):
        other = kind.load(tmp_path / name, env=env, device="cpu")
        assert type(other) is kind
        ready(other)
        assert other._n_updates == ours._n_updates
        for model in (ours, other):
            model.rollout_buffer = copy.deepcopy(buffer)
            np.random.seed(7)
            model.train()
        assert difference(ours, other) < 1e-5
        theirs, own = (
            other.policy.optimizer.state_dict()["state"],
            ours.policy.optimizer.state_dict()["state"],
        )
        for place, moments in theirs.items():
            assert float(moments["step"]) == float(own[place]["step"])
            for key in ("exp_avg", "exp_avg_sq"):
                torch.testing.assert_close(moments[key], own[place][key], atol=1e-6, rtol=1e-3)
        other.save(tmp_path / following)


def test_the_same_seed_gives_the_same_weights(make_env):
    def weights(seed):
        model = make(FusedPPO, make_env(PLAIN, TWO), seed=seed).learn(300)
        return torch.cat([p.detach().flatten() for p in model.policy.parameters()])

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


def test_it_learns(make_env):
    """The reward is the first action, at most 1 a step: from 0 to near 20 in an episode of 20 steps."""
    env = make_env(PLAIN, TWO)
    for one in env.envs:
        step = one.step
        one.step = lambda a, step=step: (*step(a)[:1], float(a[0]), *step(a)[2:])
    model = make(FusedPPO, VecMonitor(env), learning_rate=3e-3, gamma=0.5).learn(6000)
    assert np.mean([e["r"] / e["l"] for e in list(model.ep_info_buffer)[-10:]]) > 0.8
    assert model.fallback_reason is None


@pytest.mark.parametrize("wrap", [VecMonitor, lambda env: VecNormalize(VecMonitor(env))])
def test_wrappers_work(make_env, wrap):
    model = make(FusedPPO, wrap(make_env(PLAIN, TWO))).learn(256)
    assert model.fallback_reason is None
    assert len(model.ep_info_buffer) > 4


FALLBACKS = {
    "state-dependent exploration": (PLAIN, TWO, {"use_sde": True}, "use_sde"),
    "images": (IMAGE, TWO, {}, "'camera' is an image"),
    "another optimizer": (PLAIN, TWO, {"policy_kwargs": {"optimizer_class": torch.optim.SGD}}, "SGD"),
    "weight decay": (PLAIN, TWO, {"policy_kwargs": {"optimizer_kwargs": {"weight_decay": 0.1}}}, "weight_decay"),
    "another activation": (PLAIN, TWO, {"policy_kwargs": {"activation_fn": nn.Softplus}}, "Softplus"),
}  # fmt: skip


@pytest.mark.parametrize("case", FALLBACKS)
def test_what_is_not_covered_runs_in_stable_baselines(case, make_env, caplog):
    observation_space, action_space, options, reason = FALLBACKS[case]
    with caplog.at_level(logging.WARNING):
        ours = make(FusedPPO, make_env(observation_space, action_space), **options).learn(256)
    assert reason in ours.fallback_reason
    assert [r.message for r in caplog.records if reason in r.message] == [caplog.records[0].message]
    theirs = make(PPO, make_env(observation_space, action_space), **options).learn(256)
    assert difference(ours, theirs) == 0


def test_without_jax_it_is_stable_baselines(make_env, monkeypatch):
    def broken():
        raise UnsupportedError("JAX can't be used here (ImportError: no such library)")

    monkeypatch.setattr("godot_parallel.fused.ppo.load_jax", broken)
    ours = make(FusedPPO, make_env(PLAIN, TWO)).learn(256)
    assert "no such library" in ours.fallback_reason
    assert difference(ours, make(PPO, make_env(PLAIN, TWO)).learn(256)) == 0


def test_a_broken_jax_is_told(monkeypatch):
    backend.load_jax.cache_clear()
    monkeypatch.setattr(backend.importlib, "import_module", lambda name: 1 / 0)
    with pytest.raises(UnsupportedError, match="JAX can't be used here .ZeroDivisionError"):
        backend.load_jax()
    monkeypatch.undo()
    backend.load_jax.cache_clear()
    assert backend.load_jax().__name__ == "jax"


@pytest.mark.parametrize("options", [{}, {"use_sde": True}], ids=["fused", "stable-baselines3"])
def test_a_loss_that_is_not_finite_stops_before_it_is_kept(options, make_env, ready):
    env = make_env(PLAIN, TWO)
    model = make(FusedPPO, env, normalize_advantage=False, **options)
    callback = ready(model)
    model.collect_rollouts(env, callback, model.rollout_buffer, 32)
    model.rollout_buffer.returns[5, 2] = np.nan
    before = copy.deepcopy(model.policy.state_dict())
    np.random.seed(0)
    with pytest.raises(DivergedError, match="not finite") as caught:
        model.train()
    for key, value in model.policy.state_dict().items():
        assert torch.equal(value, before[key])
    if not options:
        assert caught.value.batch["features"].shape == (32, 5)
        assert np.isnan(caught.value.batch["returns"]).sum() == 1


def test_a_callback_that_stops_loses_no_answer(make_env, ready):
    class Stop(BaseCallback):
        def _on_step(self):
            return self.num_timesteps < 12

    env = make_env(PLAIN, TWO)
    model = make(FusedPPO, env).learn(1000, callback=Stop())
    assert model.num_timesteps == 12
    model.learn(128)  # and it goes on
    assert model.num_timesteps == 128


def test_a_pipelined_update_learns_from_the_rollout_before(make_env, ready):
    """Against Stable-Baselines3's update, called with the rollouts and in the order that pipelining means."""
    ours, played = (make(FusedPPO, make_env(PLAIN, TWO), learning_rate=3e-3) for _ in range(2))
    learner = make(PPO, make_env(PLAIN, TWO), learning_rate=3e-3)
    callback = ready(played)
    ready(learner)
    torch.manual_seed(5)
    np.random.seed(5)
    ours.pipeline = True
    ours.learn(4 * 128, reset_num_timesteps=False)

    torch.manual_seed(5)
    np.random.seed(5)
    waiting = None
    for _ in range(4):
        played.set_parameters(copy.deepcopy(learner.get_parameters()))
        played.collect_rollouts(played.env, callback, played.rollout_buffer, 32)
        rollout = copy.deepcopy(played.rollout_buffer)
        if waiting is not None:
            learner.rollout_buffer = waiting
            learner.train()
        waiting = rollout
    assert difference(ours, learner) > 1e-4  # the last update is still under way
    learner.rollout_buffer = waiting
    learner.train()
    assert difference(ours, learner) < 1e-5
    assert ours._n_updates == learner._n_updates == 12
    assert np.allclose(ours.rollout_buffer.log_probs, played.rollout_buffer.log_probs, atol=1e-5)


def test_a_pipelined_model_is_saved_whole(make_env, tmp_path):
    model = make(FusedPPO, make_env(PLAIN, TWO))
    model.pipeline = True
    model.learn(256).save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", device="cpu")
    assert difference(model, loaded) == 0
    assert not hasattr(loaded, "pipeline")
    assert FusedPPO.load(tmp_path / "model", device="cpu").pipeline is False


def test_a_pipelined_update_that_diverges_is_told(make_env):
    model = make(FusedPPO, make_env(PLAIN, TWO), learning_rate=1e30)
    model.pipeline = True
    with pytest.raises(DivergedError, match="not finite"):
        model.learn(1024)
    assert all(bool(p.isfinite().all()) for p in model.policy.parameters())
