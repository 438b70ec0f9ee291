import copy
import logging

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import SAC
from stable_baselines3.common.utils import LinearSchedule
from torch import nn

from godot_parallel.errors import DivergedError
from godot_parallel.fused.fallback import UnsupportedError
from godot_parallel.fused.sac import CHUNK, FusedSAC

BOX = spaces.Box(-1, 1, (5,), np.float32)
PLAIN = spaces.Dict({"obs": BOX})
SEVERAL = spaces.Dict(
    {
        "z": spaces.Box(-1, 1, (2, 3), np.float32),
        "a": spaces.Discrete(4),
        "b": spaces.MultiBinary(3),
    }
)
TWO = spaces.Box(-2, 1, (2,), np.float32)
IMAGE = spaces.Dict({"camera": spaces.Box(0, 255, (3, 40, 40), np.uint8)})
# Smooth networks: one of ReLU's kinks, passed on the other side, moves a parameter by as much as its
# learning rate, in Stable-Baselines3 just as here.
SMOOTH = {"activation_fn": nn.Tanh, "net_arch": [32, 32]}

CASES = {
    "box": (PLAIN, TWO, {}),
    "no dict": (BOX, TWO, {}),
    "several keys": (SEVERAL, TWO, {}),
    "matrix of actions": (PLAIN, spaces.Box(-2, 2, (2, 2), np.float32), {}),
    "fixed temperature": (PLAIN, TWO, {"ent_coef": 0.2}),
    "first temperature": (PLAIN, TWO, {"ent_coef": "auto_0.3", "target_entropy": -1.0}),
    "schedule": (PLAIN, TWO, {"learning_rate": LinearSchedule(3e-4, 0, 1)}),
    "targets": (PLAIN, TWO, {"target_update_interval": 3, "tau": 0.3}),
    "discount": (PLAIN, TWO, {"gamma": 0.7}),
    "several steps": (BOX, TWO, {"n_steps": 3}),
    "networks": (PLAIN, TWO, {"policy_kwargs": {"net_arch": {"pi": [8], "qf": [16, 4]}, "activation_fn": nn.ELU}}),
    "three critics": (PLAIN, TWO, {"policy_kwargs": {**SMOOTH, "n_critics": 3}}),
    "one critic": (PLAIN, TWO, {"policy_kwargs": {**SMOOTH, "n_critics": 1}}),
    "no hidden layer": (PLAIN, TWO, {"policy_kwargs": {"net_arch": []}}),
}  # fmt: skip


def make(kind, env, **options):
    options = {
        "buffer_size": 1000, "learning_starts": 40, "batch_size": 32, "seed": 1, "device": "cpu",
        "policy_kwargs": SMOOTH,
    } | options  # fmt: skip
    name = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    return kind(name, env, **options)


def parameters(model):
    everything = [*model.actor.parameters(), *model.critic.parameters(), *model.critic_target.parameters()]
    if model.ent_coef_optimizer is not None:
        everything.append(model.log_ent_coef)
    return torch.cat([p.detach().flatten() for p in everything])


def difference(a, b):
    return (parameters(a) - parameters(b)).abs().max().item()


def numbers(model):
    return {k: v for k, v in model.logger.name_to_value.items() if k.startswith("train/")}


def pair(make_env, ready, case):
    """Ours and Stable-Baselines3's with the same parameters and 160 transitions of random actions."""
    observation_space, action_space, options = case
    models = [make(kind, make_env(observation_space, action_space), **options) for kind in (FusedSAC, SAC)]
    for model in models:
        callback = ready(model)
        model.action_space.seed(0)
        model.collect_rollouts(
            model.env, callback, model.train_freq.__class__(40, model.train_freq.unit), model.replay_buffer,
            learning_starts=1000,
        )  # fmt: skip
    assert difference(*models) == 0
    return models


def trained(model, gradient_steps, seed=0):
    torch.manual_seed(seed)
    np.random.seed(seed)
    model.train(gradient_steps, 32)
    return float(torch.randn(1)), np.random.random()


@pytest.mark.parametrize("case", CASES)
def test_gradient_steps_have_the_same_numbers(case, make_env, ready):
    ours, theirs = pair(make_env, ready, CASES[case])
    for update, steps in enumerate((1, 5, 40)):
        before = parameters(ours).clone()
        ours._current_progress_remaining = theirs._current_progress_remaining = 1 - 0.3 * update
        assert trained(ours, steps, update) == trained(theirs, steps, update)  # draws are the same
        assert (parameters(ours) - before).abs().max() > 1e-4
        assert difference(ours, theirs) < 1e-5
        told, expected = numbers(ours), numbers(theirs)
        assert told.keys() == expected.keys()
        assert told == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert ours.fallback_reason is None
    assert ours._n_updates == theirs._n_updates == 46


def test_more_gradient_steps_than_one_call_takes(make_env, ready):
    ours, theirs = pair(make_env, ready, CASES["targets"])
    steps = 2 * CHUNK + 5
    assert trained(ours, steps) == trained(theirs, steps)
    assert difference(ours, theirs) < 1e-5


def test_relu_has_the_same_numbers_but_for_its_kinks(make_env, ready):
    ours, theirs = pair(make_env, ready, (PLAIN, TWO, {"policy_kwargs": {}}))
    assert trained(ours, 3) == trained(theirs, 3)
    apart = (parameters(ours) - parameters(theirs)).abs()
    assert (apart < 1e-5).float().mean() > 0.999
    assert apart.max() < 3 * 3e-4


def test_no_gradient_steps_change_nothing(make_env, ready):
    ours, _ = pair(make_env, ready, CASES["box"])
    before = parameters(ours).clone()
    ours.train(0, 32)
    assert torch.equal(parameters(ours), before)


def test_as_many_gradient_steps_as_were_collected(make_env):
    model = make(FusedSAC, make_env(PLAIN, TWO), gradient_steps=-1, train_freq=5).learn(80)
    # 40 random steps; then 2 updates after 5 steps in each of 4 environments.
    assert model._n_updates == 40
    assert model.fallback_reason is None


def test_training_goes_on_in_either(make_env, ready, tmp_path):
    """Ours, saved, loaded and trained by Stable-Baselines3, and back: the same as ours alone."""
    ours, _ = pair(make_env, ready, CASES["box"])
    trained(ours, 10)
    ours.save(tmp_path / "one")
    for kind, name, following in ((SAC, "one", "two"), (FusedSAC, "two", "three")):
        other = kind.load(tmp_path / name, env=ours.env, device="cpu")
        assert type(other) is kind
        ready(other)
        assert other._n_updates == ours._n_updates
        other.replay_buffer = copy.deepcopy(ours.replay_buffer)
        assert trained(ours, 10, 7) == trained(other, 10, 7)
        assert difference(ours, other) < 1e-5
        for mine, others in ((ours.critic.optimizer, other.critic.optimizer), (ours.ent_coef_optimizer, other.ent_coef_optimizer)):  # fmt: skip
            own, theirs = mine.state_dict()["state"], others.state_dict()["state"]
            assert own.keys() == theirs.keys() != set()
            for place, moments in theirs.items():
                assert float(moments["step"]) == float(own[place]["step"]) == ours._n_updates
                torch.testing.assert_close(moments["exp_avg"], own[place]["exp_avg"], atol=1e-6, rtol=1e-3)
        other.save(tmp_path / following)


def test_the_same_seed_gives_the_same_weights(make_env):
    def weights(seed):
        return parameters(make(FusedSAC, make_env(PLAIN, TWO), seed=seed).learn(200))

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


def test_it_learns(make_env):
    """The reward is the first action: the best policy takes its upper limit, 1."""
    env = make_env(PLAIN, TWO)
    for one in env.envs:
        step = one.step
        one.step = lambda a, step=step: (*step(a)[:1], float(a[0]), *step(a)[2:])
    model = make(FusedSAC, env, learning_rate=3e-3, gamma=0.5, gradient_steps=-1, ent_coef=0.01).learn(1200)
    actions, _ = model.predict({"obs": np.zeros((1, 5), np.float32)}, deterministic=True)
    assert actions[0, 0] > 0.8
    assert model.fallback_reason is None


FALLBACKS = {
    "state-dependent exploration": (PLAIN, {"use_sde": True}, "use_sde"),
    "images": (IMAGE, {"buffer_size": 100, "batch_size": 4}, "'camera' is an image"),
    "another optimizer": (PLAIN, {"policy_kwargs": {**SMOOTH, "optimizer_class": torch.optim.SGD}}, "SGD"),
    "another activation": (PLAIN, {"policy_kwargs": {"activation_fn": nn.Softplus}}, "Softplus"),
}


@pytest.mark.parametrize("case", FALLBACKS)
def test_what_is_not_covered_runs_in_stable_baselines(case, make_env, caplog):
    observation_space, options, reason = FALLBACKS[case]
    with caplog.at_level(logging.WARNING):
        ours = make(FusedSAC, make_env(observation_space, TWO), **options).learn(60)
    assert reason in ours.fallback_reason
    assert [r.message for r in caplog.records if reason in r.message] == [caplog.records[0].message]
    theirs = make(SAC, make_env(observation_space, TWO), **options).learn(60)
    assert ours._n_updates == theirs._n_updates > 0
    assert difference(ours, theirs) == 0


def test_without_jax_it_is_stable_baselines(make_env, monkeypatch):
    def broken():
        raise UnsupportedError("JAX can't be used here (ImportError: no such library)")

    monkeypatch.setattr("godot_parallel.fused.sac.load_jax", broken)
    ours = make(FusedSAC, make_env(PLAIN, TWO)).learn(60)
    assert "no such library" in ours.fallback_reason
    assert difference(ours, make(SAC, make_env(PLAIN, TWO)).learn(60)) == 0


@pytest.mark.parametrize("options", [{}, {"use_sde": True}], ids=["fused", "stable-baselines3"])
def test_a_loss_that_is_not_finite_stops_before_it_is_kept(options, make_env, ready):
    ours, _ = pair(make_env, ready, (PLAIN, TWO, options))
    ours.replay_buffer.rewards[:40] = np.nan
    before = parameters(ours).clone()
    with pytest.raises(DivergedError, match="not finite") as caught:
        trained(ours, 3)
    assert torch.equal(parameters(ours), before)
    if not options:
        assert np.isnan(caught.value.batch["rewards"]).all()
        assert caught.value.batch["features"].shape == (32, 5)
