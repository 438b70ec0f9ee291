from pathlib import Path

import pytest

from godot_parallel.errors import UsageError
from godot_parallel.experiments.plan import Plan, parse_seeds, parse_vary, read_plan, vary


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0-4", (0, 1, 2, 3, 4)), ("3", (3,)), ("0,1,7", (0, 1, 7)), ("0-2, 10", (0, 1, 2, 10)), ("5-5", (5,))],
)
def test_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found ''"),
        ("a", "found 'a'"),
        ("4-0", "found '4-0'"),
        ("-1", "found '-1'"),
        ("0-2,1", "1 is named twice"),
    ],
)
def test_impossible_seeds_are_told(text, words):
    with pytest.raises(UsageError, match=words):
        parse_seeds(text)


def test_all_combinations_are_varied():
    variants = vary({"algo": ["ppo", "sac"], "net_arch": [(64, 64), (8,)]})
    assert variants == {
        "algo=ppo,net_arch=64x64": {"algo": "ppo", "net_arch": (64, 64)},
        "algo=ppo,net_arch=8": {"algo": "ppo", "net_arch": (8,)},
        "algo=sac,net_arch=64x64": {"algo": "sac", "net_arch": (64, 64)},
        "algo=sac,net_arch=8": {"algo": "sac", "net_arch": (8,)},
    }
    assert vary({}) == {"base": {}}


def test_values_are_zipped_where_asked():
    zipped = vary({"n_steps": [64, 32], "batch_size": [128, 128]}, zipped=True)
    assert list(zipped) == ["n_steps=64,batch_size=128", "n_steps=32,batch_size=128"]
    with pytest.raises(UsageError, match="n_steps has 2, batch_size has 1"):
        vary({"n_steps": [64, 32], "batch_size": [128]}, zipped=True)
    with pytest.raises(UsageError, match="n_steps=64 is there twice"):
        vary({"n_steps": [64, 64]}, zipped=True)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["algo"], "found 'algo'"),
        (["algo="], "found 'algo='"),
        (["seed=1,2"], "seed: an experiment sets this itself"),
        (["batchsize=1"], "unknown option 'batchsize'; did you mean batch_size"),
        (["algo=ppo", "algo=sac"], "algo is named twice"),
    ],
)
def test_impossible_variations_are_told(texts, words):
    with pytest.raises(UsageError, match=words):
        parse_vary(texts, lambda name, text: text)


def test_equal_values_are_no_variants():
    with pytest.raises(UsageError, match="different values"):
        vary({"algo": ["ppo", "ppo"]})


def test_runs_come_seed_by_seed_with_folders_of_their_own():
    plan = Plan(
        "e", {"env": "ball_chase", "timesteps": 10}, vary({"algo": ["ppo", "sac"]}), (0, 3), Path("logs")
    )
    runs = plan.runs()
    assert [(r.variant, r.seed) for r in runs] == [
        ("algo=ppo", 0),
        ("algo=sac", 0),
        ("algo=ppo", 3),
        ("algo=sac", 3),
    ]
    assert runs[3].folder == Path("logs/e/algo=sac/seed_3")
    assert (runs[3].config.algo, runs[3].config.seed, runs[3].config.timesteps) == ("sac", 3, 10)


PLAN = """
name = "batches"
seeds = "0-1"
[base]
env = "ball_chase"
timesteps = 100
[vary]
batch_size = [64, 128]
"""


def test_a_plan_is_read_and_written_back(tmp_path):
    import tomli_w

    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    plan = read_plan(path)
    assert plan.name == "batches"
    assert plan.seeds == (0, 1)
    assert plan.variants == {"batch_size=64": {"batch_size": 64}, "batch_size=128": {"batch_size": 128}}
    path.write_text(tomli_w.dumps(plan.as_dict()))
    assert read_plan(path) == plan


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("seeds =", "sedes ="), "unknown key 'sedes'; did you mean seeds"),
        (("batch_size", "batch_sise"), "did you mean batch_size"),
        (('"0-1"', "[0, 0]"), "0 is named twice"),
        (("timesteps = 100", "seed = 1"), "sets this itself"),
        (("[vary]", "[vary"), "can't be read"),
        (("[vary]\nbatch_size = [64, 128]", '[variants."a/b"]\nbatch_size = 64'), "no folder name"),
    ],
)
def test_a_wrong_plan_is_told(tmp_path, change, words):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace(*change))
    with pytest.raises(UsageError, match=words):
        read_plan(path)
