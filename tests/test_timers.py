import pytest

from godot_parallel.timers import Timer


def test_self_time_is_total_minus_children():
    root = Timer()
    root.child("rollout").add(3.0, 2)
    root.child("rollout").child("policy").add(1.0)
    root.child("update").add(5.0)
    root.total_s = 10.0
    assert root.self_s == pytest.approx(2.0)
    assert root.child("rollout").self_s == pytest.approx(2.0)
    assert root.as_dict()["children"]["rollout"]["count"] == 2
    assert root.leaves() == {"update": 5.0, "policy": 1.0, "other": 4.0}
    assert root.summary() == "update 50%, policy 10%, other 40%"


def test_shares_add_up_to_100():
    root = Timer()
    for i in range(7):
        root.child(f"part {i}").add(1.0)
    root.total_s = 7.003
    shares = [int(word.rstrip("%,")) for word in root.summary().split() if "%" in word]
    assert sorted(shares) == [0, 14, 14, 14, 14, 14, 15, 15]


def test_a_body_is_measured_even_when_it_fails():
    root = Timer()
    with pytest.raises(ValueError, match="x"), root.measure("part"):
        raise ValueError("x")
    assert root.child("part").count == 1
    assert root.child("part").total_s >= 0
