"""Episodes end where they end, whatever the game's habits. The probe is rewarded 1 a tick."""

import shutil
import time

import numpy as np
import psutil
import pytest

from godot_parallel.envs.batch import Batch
from godot_parallel.errors import EnvironmentDataError

pytestmark = pytest.mark.engine

TICKS, EPISODE, OWN, GLOBAL, PRIVATE, HEIGHT, RAY, N_STEPS = range(8)


def step(batch):
    n = batch.n_rows
    batch.send({"z": np.ones((n, 1)), "a": np.zeros((n, 2))})
    t = batch.receive()
    return t._replace(obs={k: v.copy() for k, v in t.obs.items()}, reward=t.reward.copy())


@pytest.mark.parametrize("habits", ["callback signal", "callback signal leak", "signal", "poll"])
@pytest.mark.parametrize("instances", [1, 3])
def test_an_episode_that_ends_inside_a_step_ends_there(scene, habits, instances):
    # 11 ticks with 8 ticks a step: the end comes at tick 3 of the second step. With "leak" the game adds
    # 100 in the callback that ends the episode: still the old episode's reward.
    end_reward = 103 if "leak" in habits else 3
    with Batch(scene("probe", habits, length=11, instances=instances)) as batch:
        first = batch.reset(seed=1)["obs"]
        assert first[:, [TICKS, N_STEPS]].tolist() == [[0, 0]] * instances
        for _ in range(3):
            t = step(batch)
            assert t.reward.tolist() == [8] * instances
            assert t.obs["obs"][:, TICKS].tolist() == [8] * instances
            assert not t.final_rows.size
            t = step(batch)
            assert t.terminated.tolist() == [True] * instances
            assert not t.truncated.any()
            assert t.reward.tolist() == [end_reward] * instances
            assert t.final_obs["obs"][:, TICKS].tolist() == [11] * instances
            assert t.obs["obs"][:, [TICKS, N_STEPS]].tolist() == [[0, 0]] * instances
        assert batch.engine_times.ticks >= 6 * 8


@pytest.mark.parametrize("habits", ["signal limit", "poll limit"])
@pytest.mark.parametrize("limit", [16, 20])
def test_the_time_limit_truncates(scene, habits, limit):
    with Batch(scene("probe", habits, length=limit, instances=2)) as batch:
        batch.reset(seed=1)
        for _ in range(2):
            steps = [step(batch) for _ in range(-(-limit // 8))]
            assert [float(t.reward[0]) for t in steps] == ([8, 8] if limit == 16 else [8, 8, 4])
            assert steps[-1].truncated.tolist() == [True, True]
            assert not steps[-1].terminated.any()
            assert steps[-1].final_obs["obs"][:, TICKS].tolist() == [limit, limit]
            assert steps[-1].obs["obs"][:, TICKS].tolist() == [0, 0]


@pytest.mark.parametrize("habits", ["callback signal", "signal", "poll"])
def test_a_resting_copy_does_not_move(scene, habits):
    # The body falls from 0 in every episode; rays and heights of all episodes are equal to the bit.
    with Batch(scene("probe", habits, length=11, instances=2)) as batch:
        batch.reset(seed=1)
        heights = []
        for _ in range(3):
            heights.append(step(batch).obs["obs"][0, HEIGHT])
            t = step(batch)
            assert t.obs["obs"][:, HEIGHT].tolist() == [0, 0]
            assert t.final_obs["obs"][0, HEIGHT] > heights[-1] > 0
        assert heights[1] == heights[2]


def test_rays_see_what_was_moved_in_the_same_tick(scene):
    with Batch(scene("probe", "signal limit", length=8)) as batch:
        first = batch.reset(seed=1)["obs"][0, RAY]
        t = step(batch)
        assert first == pytest.approx((200 - 90) / 200)  # the disc's edge is 90 px away at its start
        assert t.obs["obs"][0, RAY] == pytest.approx((200 - 90) / 200)


def test_a_reset_in_the_middle_begins_anew(scene):
    with Batch(scene("probe", "poll", length=11)) as batch:
        batch.reset(seed=1)
        step(batch)
        assert batch.reset(seed=1)["obs"][0, TICKS] == 0
        t = step(batch)
        assert t.reward.tolist() == [8]
        assert not t.final_rows.size


@pytest.mark.parametrize("action_repeat", [1, 2, 8])
def test_ticks_per_step_are_exact(scene, action_repeat):
    with Batch(scene("probe", length=0, action_repeat=action_repeat)) as batch:
        batch.reset()
        before = batch.engine_times.ticks
        rewards = [step(batch).reward[0] for _ in range(5)]
        assert rewards == [action_repeat] * 5
        assert batch.engine_times.ticks - before == 5 * action_repeat
        assert batch.spec.action_repeat == action_repeat


def test_scripts_get_one_idle_frame_per_tick_with_the_right_delta(scene):
    # What _process, timers and tweens see is what they see in the game: one frame of 1/60 s per tick.
    with Batch(scene("probe", length=0)) as batch:
        batch.reset()
        before = batch.call("call", "get_clock")[0][0]
        for _ in range(10):
            step(batch)
        frames, frame_delta, tick_delta = batch.call("call", "get_clock")[0]
        assert frames - before == 80
        assert frame_delta == pytest.approx(1 / 60)
        assert tick_delta == pytest.approx(1 / 60)


@pytest.mark.parametrize("rate", [30, 120])
def test_a_project_runs_at_its_own_tick_rate(scene, project, tmp_path, rate):
    copy = tmp_path / "project"
    shutil.copytree(project, copy)
    text = (copy / "project.godot").read_text()
    (copy / "project.godot").write_text(text.replace("ticks_per_second=60", f"ticks_per_second={rate}"))
    settings = scene("probe", length=0)
    game = settings.env_path
    game.write_text(game.read_text().replace(str(project), str(copy)))
    with Batch(settings) as batch:
        assert batch.spec.ticks_per_second == rate
        batch.reset()
        for _ in range(5):
            assert step(batch).reward.tolist() == [8]
        frames, frame_delta, tick_delta = batch.call("call", "get_clock")[0]
        assert frame_delta == pytest.approx(1 / rate)
        assert tick_delta == pytest.approx(1 / rate)
        assert frames == pytest.approx(40, abs=3)


def test_waiting_games_burn_no_cpu(scene):
    with Batch(scene("probe", n_parallel=2)) as batch:
        batch.reset()
        before = [sum(psutil.Process(pid).cpu_times()[:2]) for pid in batch.pids]
        time.sleep(1.0)
        after = [sum(psutil.Process(pid).cpu_times()[:2]) for pid in batch.pids]
        assert max(b - a for a, b in zip(before, after, strict=True)) < 0.1


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("leave", ["Controller left the scene", "expected 2 agents"]),
        ("multiply", ["was added during training", "expected 2 agents"]),
        ("shrink", ["agent 1: observation 'obs' has 2 values, 8 expected"]),
    ],
)
def test_a_change_among_the_agents_is_named(scene, method, words):
    with Batch(scene("probe", length=0, instances=2)) as batch:
        batch.reset()
        step(batch)
        batch.call("call", method, rows=[1])
        with pytest.raises(EnvironmentDataError) as caught:
            for _ in range(3):
                step(batch)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def draws(settings, seed, environments, episodes=3):
    """Random numbers by environment and episode."""
    result = {}
    with Batch(settings) as batch:
        obs = batch.reset(seed=seed)["obs"].copy()
        for episode in range(episodes):
            for e in range(environments):
                result[e, episode] = tuple(obs[e, [OWN, GLOBAL, PRIVATE]])
            step(batch)
            obs = step(batch).obs["obs"]
    return result


@pytest.mark.parametrize("habits", ["callback signal", "signal", "poll"])
def test_draws_depend_on_seed_environment_and_episode_only(scene, habits):
    one = draws(scene("probe", habits, instances=4), 7, 4)
    assert draws(scene("probe", habits, instances=4), 7, 4) == one
    assert draws(scene("probe", habits, instances=2, n_parallel=2), 7, 4) == one
    assert draws(scene("probe", habits, instances=1, n_parallel=4), 7, 4) == one
    assert len(set(one.values())) == 12  # 4 environments x 3 episodes
    other = draws(scene("probe", habits, instances=4), 8, 4)
    assert not set(one.values()) & set(other.values())


def test_hand_made_copies_work_and_refuse_instances(scene):
    from godot_parallel.errors import UsageError

    with Batch(scene("hand_made", "signal")) as batch:
        batch.reset(seed=1)
        assert batch.n_rows == batch.n_environments == 3
        assert batch.spec.isolation == "scene"
        assert "rigid bodies" in batch.spec.notes[0]
        assert step(batch).reward.tolist() == [8, 8, 8]
        t = step(batch)
        assert t.reward.tolist() == [3, 3, 3]
        assert t.final_obs["obs"][:, TICKS].tolist() == [11, 11, 11]
    with pytest.raises(UsageError, match="hand-made"):
        Batch(scene("hand_made", "signal", instances=2))


def test_actions_keep_their_order_and_calls_arrive(scene):
    with Batch(scene("probe", "signal", instances=2)) as batch:
        assert [key.name for key in batch.spec.actions] == ["z", "a"]
        batch.reset()
        batch.send({"z": np.array([[2], [1]]), "a": np.array([[0.25, -0.5], [1, -1]])})
        batch.receive()
        assert batch.call("call", "get_last_action") == [[2, 0.25, -0.5], [1, 1, -1]]
        assert batch.call("call", "add", (1.5, 2), rows=[1]) == [3.5]
        assert batch.call("get", "speed") == [3.5, 3.5]
        batch.call("set", "speed", (4.25,), rows=[0])
        assert batch.call("get", "speed") == [4.25, 3.5]
