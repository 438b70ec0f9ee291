"""Unusual games: several agents in one environment, images, episodes of one tick, infos in every step."""

import shutil

import numpy as np
import pytest

from godot_parallel.envs.batch import Batch
from godot_parallel.envs.sb3_env import GodotSb3VecEnv

pytestmark = pytest.mark.engine


def step(batch):
    batch.send({"move": np.zeros((batch.n_rows, 1))})
    t = batch.receive()
    return t._replace(obs={k: v.copy() for k, v in t.obs.items()}, reward=t.reward.copy())


def test_an_agent_that_has_ended_waits_for_its_next_step_while_the_other_goes_on(scene):
    # Agent 0 ends at tick 3 of each step; agent 1 at its tick 10, tick 2 of the second step.
    with Batch(scene("odd", "several", instances=2)) as batch:
        batch.reset(seed=1)
        assert batch.environment_of.tolist() == [0, 0, 1, 1]
        assert "several agents" in batch.spec.notes[0]
        t = step(batch)
        assert t.terminated.tolist() == [True, False] * 2
        assert t.reward.tolist() == [3, 8] * 2
        assert t.final_obs["obs"].tolist() == [[3, 0]] * 2
        assert t.obs["obs"].tolist() == [[0, 0], [8, 1]] * 2
        t = step(batch)
        assert t.terminated.tolist() == [True, True] * 2
        assert t.reward.tolist() == [3, 2] * 2
        assert t.final_obs["obs"].tolist() == [[3, 0], [10, 1]] * 2
        assert t.obs["obs"].tolist() == [[0, 0], [0, 1]] * 2


def test_agents_that_a_person_steers_live_on_beside_the_trained(scene):
    with Batch(scene("odd", "several bystander")) as batch:
        batch.reset(seed=1)
        assert batch.n_rows == 1
        before = batch.call("call", "get_other_restarts")[0]
        for _ in range(5):
            assert step(batch).reward.tolist() == [3]
        # 40 ticks less the 5 x 5 that the copy rests: its own time limit of 4 ticks ends at least 3 episodes.
        assert batch.call("call", "get_other_restarts")[0] - before >= 3


@pytest.mark.parametrize("habits", ["image", "hex"])
def test_images_travel_as_bytes(scene, habits):
    with Batch(scene("odd", habits, instances=3)) as batch:
        obs = batch.reset()
        assert obs["cam_2d"].dtype == np.uint8
        assert obs["cam_2d"].shape == (3, 1, 2, 3)
        t = step(batch)
        assert t.final_obs["cam_2d"].reshape(3, 6).tolist() == [[3, 0, 255, 0, 1, 2]] * 3
        assert t.obs["cam_2d"].reshape(3, 6).tolist() == [[0, 0, 255, 0, 1, 2]] * 3
        space = GodotSb3VecEnv(batch).observation_space["cam_2d"]
        assert (space.dtype, space.low.min(), space.high.max()) == (np.uint8, 0, 255)


def test_episodes_of_one_tick(scene):
    with Batch(scene("odd", "short", instances=2)) as batch:
        batch.reset()
        for _ in range(5):
            t = step(batch)
            assert t.terminated.tolist() == [True, True]
            assert t.reward.tolist() == [1, 1]
            assert t.final_obs["obs"].tolist() == [[1, 0], [1, 0]]
            assert t.obs["obs"].tolist() == [[0, 0], [0, 0]]


def test_infos_of_every_step_and_of_the_end(scene):
    with Batch(scene("odd", "info several")) as batch:
        batch.reset()
        assert step(batch).infos == {0: {"ticks": 3}, 1: {"ticks": 8}}


@pytest.mark.parametrize("engine", ["GodotPhysics3D", "Jolt Physics"])
def test_a_resting_copy_stands_still_in_3d(scene, project, tmp_path, engine):
    copy = tmp_path / "project"
    shutil.copytree(project, copy)
    text = (
        (copy / "project.godot")
        .read_text()
        .replace("[physics]\n", f'[physics]\n\n3d/physics_engine="{engine}"\n')
    )
    (copy / "project.godot").write_text(text)
    settings = scene("fall_3d", instances=2)
    settings.env_path.write_text(settings.env_path.read_text().replace(str(project), str(copy)))
    with Batch(settings) as batch:
        first = batch.reset(seed=1)["obs"].copy()
        assert first[:, :2].tolist() == [[0, 0], [0, 0]]
        assert first[:, 2] == pytest.approx((10 - 3) / 10)  # the ball's face is 3 m away on a ray of 10 m
        falls = []
        for _ in range(4):
            falls.append(step(batch).obs["obs"][0].tolist())
            t = step(batch)
            assert t.final_obs["obs"][:, 0].tolist() == [11, 11]
            assert t.final_obs["obs"][0, 1] < falls[-1][1] < 0
            assert (
                t.obs["obs"].tolist() == first.tolist()
            )  # moved back, seen by the ray, and not fallen since
        assert falls[1] == falls[2] == falls[3]
