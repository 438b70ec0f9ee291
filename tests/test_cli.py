import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def gdrl(*arguments, cwd=None):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    command = [sys.executable, "-m", "godot_parallel", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=cwd, check=False, timeout=120
    )


def test_help_teaches_quickly():
    started = time.monotonic()
    done = gdrl("--help")
    assert time.monotonic() - started < 5
    assert done.returncode == 0
    for command in ("train", "experiment", "compare", "report", "eval", "bench", "export", "godot", "demo"):
        assert re.search(rf"^  {command} ", done.stdout, re.M)


@pytest.mark.parametrize(
    "command", ["train", "experiment", "compare", "report", "eval", "bench", "export", "godot", "demo"]
)
def test_every_command_has_help(command):
    done = gdrl(command, "--help")
    assert done.returncode == 0
    assert "usage" in done.stdout.lower()


def test_a_training_starts_without_torchs_compiler(fake_game, tmp_path):
    """It takes a second to import, and nothing here uses it."""
    options = {
        "env_path": str(fake_game()), "experiment_dir": str(tmp_path), "timesteps": 64, "instances": 2,
        "n_steps": 32, "eval_episodes": 2,
    }  # fmt: skip
    code = (
        "import sys\nfrom godot_parallel import TrainConfig, train\n"
        f"train(TrainConfig.from_mapping({options}, 'test'))\n"
        "print(sorted({'torch._dynamo', 'sympy'} & set(sys.modules)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_misspelt_flag_suggests_the_right_one():
    done = gdrl("--n_paralell=4")
    assert done.returncode == 2
    assert "--n_parallel" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--env_path=./nothing.x86_64"], 2, "there is nothing at nothing.x86_64"),
        (["--env_path=.", "--n_parallel=0"], 2, "n_parallel: expected at least 1, found 0"),
        (["--n_parallel=2"], 2, "n_parallel 2 needs"),
        (["--env=tetris"], 2, "expected one of ball_chase"),
        (["fly"], 2, "unknown command 'fly'"),
        (["bench"], 2, "--env_path or --env"),
        (["eval", "."], 1, "no run folder"),
        (["export", ".", "-o", "x"], 2, "no project.godot"),
        (["--config", "none.toml"], 2, "none.toml can't be read"),
    ],
)
def test_mistakes_get_one_clear_answer(tmp_path, arguments, code, words):
    done = gdrl(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


def test_what_is_no_game_is_told(tmp_path):
    (tmp_path / "text.x86_64").write_text("hello")
    assert "chmod +x" in gdrl("--env_path=text.x86_64", cwd=tmp_path).stderr
    (tmp_path / "text.x86_64").chmod(0o755)
    assert "no program" in gdrl("--env_path=text.x86_64", cwd=tmp_path).stderr
    (tmp_path / "folder").mkdir()
    assert "no project.godot" in gdrl("--env_path=folder", cwd=tmp_path).stderr


def test_train_eval_and_bench(fake_game, tmp_path):
    game = fake_game()
    done = gdrl(
        "--env_path",
        game,
        "--experiment-name=x",
        "--timesteps=64",
        "--n_steps=32",
        "--instances=2",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "logs" / "sb3" / "x" / "best_model.zip").exists()
    done = gdrl("eval", "logs/sb3/x", "--episodes=4", "--json=e.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Copies 0 and 1 have returns 15/8 and 5 + 15/8, two episodes each.
    assert "Mean ± std: 4.4 ± 2.5 over 4 episodes" in done.stdout
    assert json.loads((tmp_path / "e.json").read_text())["mean"] == 2.5 + 15 / 8
    done = gdrl("eval", "logs/sb3/x/best_model.zip", "--env_path", game, "--episodes=1", cwd=tmp_path)
    assert "1.9" in done.stdout, done.stderr
    done = gdrl(
        "bench",
        "--env_path",
        game,
        "--instances=2",
        "--seconds=0.1",
        "--repeats=2",
        "--json=b.json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    keys = {"vector_steps_per_s", "steps_per_s", "ticks_per_s", "engine_share", "startup_s", "rss_mib"}
    told = json.loads((tmp_path / "b.json").read_text())
    assert keys <= set(told)
    assert told["steps_per_s"] == pytest.approx(2 * told["vector_steps_per_s"])
    assert told["ticks_per_s"] == pytest.approx(8 * told["vector_steps_per_s"], rel=0.2)


def test_a_config_file_sets_options_and_the_command_line_wins(fake_game, tmp_path):
    (tmp_path / "c.toml").write_text(
        f'env_path = "{fake_game()}"\nexperiment_name = "c"\ntimesteps = 64\nn_steps = 16\nseed = 5\n'
    )
    done = gdrl("--config=c.toml", "--seed=7", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    config = (tmp_path / "logs/sb3/c/config.toml").read_text()
    assert "seed = 7" in config
    assert "n_steps = 16" in config
    (tmp_path / "bad.toml").write_text("sede = 1")
    assert "unknown option 'sede'" in gdrl("--config=bad.toml", cwd=tmp_path).stderr


def test_resume_takes_the_settings_of_the_run(fake_game, tmp_path):
    game = fake_game()
    done = gdrl(
        "--env_path", game, "--experiment_name=r", "--timesteps=64", "--n_steps=16", "--seed=3", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    done = gdrl("--experiment_name=r", "--resume", "--timesteps=128", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "going on from step 64" in done.stdout
    config = (tmp_path / "logs/sb3/r/config.toml").read_text()
    assert "n_steps = 16" in config
    assert "seed = 3" in config
    assert "timesteps = 128" in config


def test_a_game_that_dies_ends_the_run_with_one_error(fake_game, tmp_path):
    game = fake_game("die", 40)
    done = gdrl("--env_path", game, "--experiment_name=d", "--timesteps=1000", cwd=tmp_path)
    assert done.returncode == 1
    assert "game process 0" in done.stderr
    assert "exit code 3" in done.stderr
    assert "the game crashes now" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_experiment_from_its_command_to_its_comparison(fake_game, tmp_path):
    game = fake_game()
    command = [
        "experiment", "two", f"--env_path={game}", f"--experiment_dir={tmp_path}", "--timesteps=128", "--n_steps=32",
        "--instances=2", "--eval_episodes=2", "--seeds=0-1", "--vary", "batch_size=16,32", "--jobs=2",
        f"--json={tmp_path / 'told.json'}",
    ]  # fmt: skip
    done = gdrl(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "batch_size=16 - batch_size=32: +0.0" in done.stdout
    told = json.loads((tmp_path / "told.json").read_text())
    assert [s["values"] for s in told["summaries"]] == [[9.375, 9.375], [9.375, 9.375]]
    for name in ("curves_by_steps.png", "differences.png", "profiles.svg", "experiment.toml"):
        assert (tmp_path / "two" / name).exists()
    page = gdrl("report", tmp_path / "two", "-o", tmp_path / "report.html")
    assert page.returncode == 0, page.stderr
    text = (tmp_path / "report.html").read_text()
    assert text.count("<td>batch_size=16</td>") == 2
    assert text.count("data:image/svg+xml;base64,") >= 3
    assert "http" not in text.replace("http://www.w3.org", "")
    again = gdrl("compare", tmp_path / "two", "--threshold=4")
    assert again.returncode == 0, again.stderr
    assert "batch_size=32: return 4 reached by 2 of 2" in again.stdout
    other = gdrl("experiment", "two", *command[2:], "--learning_rate=0.1")
    assert other.returncode == 2
    assert "begun with learning_rate = its default, now it is 0.1" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["experiment", "--env=ball_chase"], "give the experiment a name"),
        (["experiment", "x", "--env=ball_chase", "--seeds=1,1"], "1 is named twice"),
        (["experiment", "x", "--env=ball_chase", "--vary=algo=ppo,dqn"], "dqn"),
        (["experiment", "x", "--env=ball_chase", "--seed=3"], "seed: an experiment sets this itself"),
        (["experiment", "x"], "needs --env_path or --env"),
        (["compare", "."], "no runs found"),
        (["compare"], "at least one folder"),
    ],
)
def test_impossible_experiments_are_told(tmp_path, arguments, words):
    done = gdrl(*arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert words in done.stdout + done.stderr
    assert "bug" not in done.stderr
