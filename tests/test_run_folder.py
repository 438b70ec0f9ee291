import os
import resource
import signal

import pytest

from godot_parallel.errors import RunFolderError
from godot_parallel.run_folder import RunFolder, Table, atomic_write


def test_a_taken_name_is_an_error_that_names_the_ways_out(tmp_path):
    first = RunFolder.create(tmp_path, "a")
    first.write_config({"seed": 1, "env": None})
    first.release()
    with pytest.raises(RunFolderError, match=r"--resume.*--force"):
        RunFolder.create(tmp_path, "a")
    resumed = RunFolder.create(tmp_path, "a", resume=True)
    assert resumed.config() == {"seed": 1}
    resumed.release()
    assert not (RunFolder.create(tmp_path, "a", force=True).path / "config.toml").exists()


def test_two_trainings_never_write_to_one_folder(tmp_path):
    first = RunFolder.create(tmp_path, "a")
    for options in ({}, {"force": True}):
        with pytest.raises(RunFolderError, match="another training is writing"):
            RunFolder.create(tmp_path, "a", **options)
    first.release()
    first.release()
    assert os.listdir(tmp_path / "a") == ["checkpoints"]
    RunFolder.create(tmp_path, "a").release()


def test_force_leaves_strange_folders_alone(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(RunFolderError, match="no run folder"):
        RunFolder.create(tmp_path, "photos", force=True)
    assert os.listdir(tmp_path / "photos") == ["cat.jpg"]


def test_what_a_failed_start_leaves_is_no_run(tmp_path):
    folder = RunFolder.create(tmp_path, "a")
    (folder.path / "engine").mkdir()
    (folder.path / "engine" / "0.log").touch()
    folder.release()
    RunFolder.create(tmp_path, "a")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(RunFolderError, match="plain folder name"):
        RunFolder.create(tmp_path, name)


@pytest.mark.parametrize("name", ["with space", "Zöpfe", "🎈", "-rf", "a.b"])
def test_unusual_names_work(tmp_path, name):
    assert RunFolder.create(tmp_path, name).path.is_dir()


def test_what_is_no_run_is_told(tmp_path):
    with pytest.raises(RunFolderError, match=r"expected a config\.toml"):
        RunFolder.open(tmp_path)
    with pytest.raises(RunFolderError, match="no run"):
        RunFolder.create(tmp_path, "x", resume=True)


def test_a_table_grows_columns_and_survives_a_restart(tmp_path):
    path = tmp_path / "t.csv"
    Table(path).append({"step": 1, "a": 0.5})
    table = Table(path)
    table.append({"step": 2, "a": 1.5})
    table.append({"step": 3, "b": "x,y"})
    assert Table(path).read() == [
        {"step": "1", "a": "0.5", "b": ""},
        {"step": "2", "a": "1.5", "b": ""},
        {"step": "3", "a": "", "b": "x,y"},
    ]


def test_a_full_disk_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "model.zip"
    atomic_write(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(RunFolderError, match="is whole"):
            atomic_write(path, b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.zip"]
