import os
import subprocess
import time
from pathlib import Path

import pytest

from godot_parallel.engine import export, godot
from godot_parallel.engine.export import bundled_game, export_game, import_project, preset_names
from godot_parallel.errors import ExportError, UsageError

pytestmark = pytest.mark.engine
PRESET = (Path(__file__).parents[2] / "godot" / "export_presets.cfg").read_text()


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
    output = tmp_path / "out" / "game_v1.5"
    made = export_game(project, output, None, godot.find_godot())
    assert made == output
    assert sorted(os.listdir(output.parent)) == ["game_v1.5", "game_v1.pck"] or sorted(
        os.listdir(output.parent)
    ) == [
        "game_v1.5",
        "game_v1.5.pck",
    ]
    done = subprocess.run(
        [output, "--headless", "--quit-after", "2"], capture_output=True, text=True, timeout=30, check=False
    )
    assert "ready" in done.stdout


def test_a_script_that_does_not_parse_fails_with_godots_words(project, tmp_path):
    (project / "main.gd").write_text("extends Node\nfunc _ready( -> void:\n")
    started = time.monotonic()
    with pytest.raises(ExportError, match=r"(?s)Parse Error.*main\.gd"):
        export_game(project, tmp_path / "game", None, godot.find_godot())
    assert time.monotonic() - started < 30
    assert not (tmp_path / "game").exists()


def test_presets_are_checked(project, tmp_path):
    engine = godot.find_godot()
    assert preset_names(project) == ["BallChase"]
    with pytest.raises(UsageError, match="'Web': expected one of BallChase"):
        export_game(project, tmp_path / "g", "Web", engine)
    (project / "export_presets.cfg").unlink()
    with pytest.raises(UsageError, match=r"no export_presets\.cfg"):
        export_game(project, tmp_path / "g", None, engine)
    with pytest.raises(UsageError, match=r"no project\.godot"):
        export_game(tmp_path / "nothing", tmp_path / "g", None, engine)


def test_a_project_is_imported_once_until_it_changes(project, monkeypatch):
    engine, calls = godot.find_godot(), []
    real = export._godot
    monkeypatch.setattr(export, "_godot", lambda *args: calls.append(args) or real(*args))
    import_project(project, engine)
    import_project(project, engine)
    assert len(calls) == 1
    (project / "main.gd").write_text("extends Node\n\n\nfunc _ready() -> void:\n\tprint(1)\n")
    import_project(project, engine)
    assert len(calls) == 2


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
