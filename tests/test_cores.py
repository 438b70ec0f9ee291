import os

import pytest

from godot_parallel.cores import available_cores

FILES = {
    "half a core": ({"cpu.max": "50000 100000"}, 1),
    "one and a half": ({"cpu.max": "150000 100000"}, 1),
    "no limit": ({"cpu.max": "max 100000"}, 64),
    "more than there are": ({"cpu.max": "9900000 100000"}, 64),
    "three": ({"cpu.max": "300000 100000"}, 3),
    "version 1": ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
    "version 1 without limit": ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 64),
    "nonsense": ({"cpu.max": "what"}, 64),
    "no control groups": ({}, 64),
}


@pytest.mark.parametrize("case", FILES)
def test_cores_are_those_a_container_may_use(case, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    files, expected = FILES[case]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cores(tmp_path) == expected


def test_the_affinity_mask_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7})
    assert available_cores(tmp_path) == 1
