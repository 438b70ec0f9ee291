import pytest

from godot_parallel.demo import verdict
from godot_parallel.speed.throughput import Throughput


def measured(steps_per_s, spread=10.0):
    return Throughput(1, 1, 1, 8, steps_per_s, steps_per_s, spread, 8 * steps_per_s, 0.5, 0.1, (90.0,))


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ((100, 400, 800), "8 >= 4 > 1 holds (1: 100, 4: 400, 8: 800 steps/s)"),
        ((100, 400, 405), "being a tie"),
        ((100, 400, 390), "being a tie"),
        ((100, 400, 300), "8 is slower than 4"),
        ((400, 405, 800), "does not hold"),
        ((400, 300, 200), "hardware's limit"),
    ],
)
def test_the_verdict_follows_the_rates(rates, words):
    assert words in verdict("x", [measured(rate) for rate in rates])
