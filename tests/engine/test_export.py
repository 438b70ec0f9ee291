import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from godot_parallel.engine import export, godot
from godot_parallel.engine import project as projects
from godot_parallel.engine.export import bundled_game, export_game, import_project, preset_names
from godot_parallel.engine.presets import choose_preset
from godot_parallel.errors import ExportError, GodotNotFoundError, UsageError

pytestmark = pytest.mark.engine
PRESET = (Path(__file__).parents[2] / "godot" / "export_presets.cfg").read_text()
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>'


@pytest.fixture
def project(tmp_path):
    """A tiny project: a scene with a script that prints and quits."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "project.godot").write_text(
        'config_version=5\n[application]\nrun/main_scene="res://main.tscn"\n'
    )
    (folder / "main.gd").write_text('extends Node\n\n\nfunc _ready() -> void:\n\tprint("ready")\n')
    (folder / "main.tscn").write_text(
        '[gd_scene format=3]\n[ext_resource type="Script" path="res://main.gd" id="1"]\n'
        '[node name="Main" type="Node"]\nscript = ExtResource("1")\n'
    )
    (folder / "export_presets.cfg").write_text(PRESET)
    return folder


def test_an_export_starts_and_its_parts_have_the_given_name(project, tmp_path):
    # Godot 4.6 complains in the very first import, since this autoload runs before its image is there.
    (project / "icon.svg").write_text(SVG)
    (project / "auto.gd").write_text('extends Node\n\nvar icon: Texture2D = preload("res://icon.svg")\n')
    with (project / "project.godot").open("a") as file:
        file.write('[autoload]\nAuto="*res://auto.gd"\n')
    output = tmp_path / "out" / "game_v1.5"
    made = export_game(project, output, None, godot.find_godot())
    assert made == output
    left = sorted(os.listdir(output.parent))
    assert left in (["game_v1.5", "game_v1.pck"], ["game_v1.5", "game_v1.5.pck"])
    done = subprocess.run(
        [output, "--headless", "--quit-after", "2"], capture_output=True, text=True, timeout=30, check=False
    )
    assert "ready" in done.stdout


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("extends Node\nfunc _ready( -> void:\n", r"(?s)Parse Error.*main\.gd"),
        (None, r"Attempt to open script 'res://main\.gd'"),
        ("extends Node\nfunc _ready() -> void:\n\tget_tree().quit(5)\n", "game ends with 5"),
    ],
    ids=["does not parse", "is missing", "quits with an error"],
)
def test_a_bad_script_fails_with_godots_words(project, tmp_path, script, words):
    (project / "main.gd").unlink() if script is None else (project / "main.gd").write_text(script)
    started = time.monotonic()
    with pytest.raises(ExportError, match=words):
        export_game(project, tmp_path / "out" / "game", None, godot.find_godot())
    assert time.monotonic() - started < 30
    assert not (tmp_path / "out").exists() or not os.listdir(tmp_path / "out")


def test_an_engine_without_templates_is_told_with_what_to_do(project, tmp_path, monkeypatch):
    engine = godot.find_godot()
    if not (engine.path.parent / "._sc_").exists():
        pytest.skip("only our own engine is known to keep its templates beside it")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    copy = tmp_path / "godot"
    shutil.copyfile(engine.path, copy)
    copy.chmod(0o755)
    with pytest.raises(GodotNotFoundError, match=r"(?s)no export template: expected .*data/godot.*\$GODOT"):
        export_game(project, tmp_path / "game", None, godot.Godot(copy, engine.version, "$GODOT"))


def test_the_check_of_a_start_stays_away_from_a_waiting_trainer(tmp_path):
    game = tmp_path / "game"
    game.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    game.chmod(0o755)
    export._check_start(game)
    assert "--port=1 " in (tmp_path / "arguments").read_text()  # 11008 is the editor's


def test_a_game_that_never_ends_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_START_LIMIT_S", 0.3)
    game = tmp_path / "game"
    game.write_text("#!/bin/sh\nsleep 60\n")
    game.chmod(0o755)
    with pytest.raises(ExportError, match="does not end when told to"):
        export._check_start(game)


def test_presets_are_checked(project, tmp_path):
    engine = godot.find_godot()
    assert preset_names(project) == ["BallChase"]
    with pytest.raises(UsageError, match="'Web': expected one of BallChase"):
        export_game(project, tmp_path / "g", "Web", engine)
    with pytest.raises(UsageError, match="is a folder"):
        export_game(project, tmp_path, None, engine)
    with pytest.raises(UsageError, match="expected the name of a program"):
        export_game(project, tmp_path / "game.pck", None, engine)
    (project / "export_presets.cfg").unlink()
    with pytest.raises(UsageError, match=r"no export_presets\.cfg"):
        export_game(project, tmp_path / "g", None, engine)
    with pytest.raises(UsageError, match=r"no project\.godot"):
        export_game(tmp_path / "nothing", tmp_path / "g", None, engine)


def test_presets_as_the_editor_writes_them(project, monkeypatch):
    """With scripts over several lines, and one preset for each system."""
    monkeypatch.setattr("sys.platform", "linux")
    script = 'ssh/run_script="#!/usr/bin/env bash\nexport DISPLAY=:0\nunzip -o -q \\"{temp_dir}\\"\n\\"{exe_name}\\""\n'
    (project / "export_presets.cfg").write_text(
        PRESET + script + '\n[preset.1]\n\nname="Web 100%"\nplatform="Web"\ncustom_features="a, b"\n'
        "\n[preset.1.options]\n\n" + script
    )
    assert preset_names(project) == ["BallChase", "Web 100%"]
    assert choose_preset(project, None).name == "BallChase"  # the only one for this system
    assert choose_preset(project, "Web 100%").features == ("a", "b")
    text = (project / "export_presets.cfg").read_text()
    (project / "export_presets.cfg").write_text(text.replace('platform="Web"', 'platform="Linux"'))
    with pytest.raises(UsageError, match="has several, choose one of BallChase, Web 100%"):
        choose_preset(project, None)


def test_a_project_is_imported_once_until_it_changes(project, monkeypatch):
    (project / "icon.svg").write_text(SVG)  # importing it writes an .import file into the project
    engine, calls = godot.find_godot(), []
    real = projects.run_godot
    monkeypatch.setattr(projects, "run_godot", lambda *args: calls.append(args) or real(*args))
    threads = [threading.Thread(target=import_project, args=(project, engine)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    import_project(project, engine)
    assert len(calls) == 1
    (project / "main.gd").write_text("extends Node\n\n\nfunc _ready() -> void:\n\tprint(1)\n")
    import_project(project, engine)
    assert len(calls) == 2


def test_a_folder_that_cannot_be_written_is_used_only_as_it_was_imported(project, monkeypatch, caplog):
    monkeypatch.setattr(os, "access", lambda *args: False)
    engine = godot.Godot(Path("never run"), "4.6", "PATH")
    with pytest.raises(ExportError, match="never been imported, and can't be written"):
        import_project(project, engine)
    (project / ".godot").mkdir()
    (project / ".godot" / "global_script_class_cache.cfg").touch()
    import_project(project, engine)
    assert "used as it was imported last" in caplog.text


def test_files_that_godot_skips_do_not_count(project):
    for name in (".git/x.gd", "videos/.gdignore", "videos/a.svg", "logs/evaluations.csv"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
    found = [file.name for file in projects.source_files(project)]
    assert found == ["export_presets.cfg", "main.gd", "main.tscn", "project.godot"]


def test_the_committed_preset_holds_no_path():
    assert "/usr" not in PRESET
    assert 'export_path=""' in PRESET
    assert 'custom_template/release=""' in PRESET


def test_the_bundled_game_is_exported_once(ball_chase):
    stamp = ball_chase.stat().st_mtime_ns
    assert bundled_game("ball_chase") == ball_chase
    assert ball_chase.stat().st_mtime_ns == stamp
    with pytest.raises(UsageError, match="expected one of ball_chase"):
        bundled_game("tetris")


def test_whoever_has_only_the_editor_gets_our_engine_for_our_game(tmp_path, monkeypatch):
    monkeypatch.setenv("GODOT_PARALLEL_CACHE", str(tmp_path))
    used = []

    def without_templates(project, output, preset, engine, say):
        used.append(engine.source)
        if engine.source != "private copy":
            raise GodotNotFoundError("no export template")
        output.parent.mkdir(parents=True)
        output.touch()

    monkeypatch.setattr(export, "_make", without_templates)
    ours = godot.Godot(Path("/ours"), "4.6", "private copy")
    monkeypatch.setattr(godot, "private_copy", lambda **own: ours)
    game = bundled_game("ball_chase", engine=godot.Godot(Path("/usr/bin/godot"), "4.5", "PATH"))
    assert game.exists()
    assert used == ["PATH", "private copy"]
    with pytest.raises(GodotNotFoundError):
        bundled_game("ball_chase", engine=godot.Godot(Path("/usr/bin/godot2"), "4.5", "$GODOT"))
