"""Hand-computed values; and scipy's, where it has the same."""

import math

import numpy as np
import pytest
from scipy import stats

from godot_parallel.analysis import statistics as s
from godot_parallel.errors import UsageError

FIVE = [10.0, 20.0, 30.0, 40.0, 100.0]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_middle_half_is_averaged():
    assert s.iqm(FIVE) == 30.0  # one of five is cut at either end
    assert s.iqm([1, 2, 3]) == 2.0  # three quarters of a value are none
    assert s.iqm([0, 1, 2, 3, 4, 5, 6, 1000]) == 3.5
    assert s.iqm(np.array([[1.0, 2, 3, 100], [0, 0, 4, 4]]), axis=1).tolist() == [2.5, 2.0]


def test_the_spread_is_that_of_a_sample():
    assert s.std([1.0, 3.0]) == pytest.approx(math.sqrt(2))
    assert math.isnan(s.std([1.0]))
    assert s.std([2.0, 2.0]) == 0.0


def test_a_bootstrap_interval_agrees_with_scipy(rng):
    values = np.random.default_rng(1).normal(50, 10, 20)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    found = s.bootstrap_interval(values, np.mean, rng, 20_000)
    assert found.low == pytest.approx(expected.low, abs=0.15)
    assert found.high == pytest.approx(expected.high, abs=0.15)


def test_the_same_generator_gives_the_same_interval():
    a, b = (s.bootstrap_interval(FIVE, s.iqm, np.random.default_rng(3), 5000) for _ in range(2))
    assert a == b
    assert 10 <= a.low < 30 < a.high <= 100


def test_chunks_do_not_change_the_number_of_resamples(rng, monkeypatch):
    seen = []

    def mean(values, axis):
        seen.append(values.shape)
        return values.mean(axis=axis)

    monkeypatch.setattr(s, "_CHUNK", 35)
    s.bootstrap_interval(FIVE, mean, rng, 17)
    assert seen == [(7, 5), (7, 5), (3, 5)]


def test_values_without_spread_have_an_interval_without_width(rng):
    assert s.bootstrap_interval([4.0, 4.0, 4.0], s.iqm, rng, 100) == (4.0, 4.0)
    assert s.t_interval([4.0, 4.0]) == (4.0, 4.0)


@pytest.mark.parametrize("interval", [s.t_interval, lambda v: s.bootstrap_interval(v, np.mean, None)])
def test_one_seed_has_no_interval(interval):
    with pytest.raises(UsageError, match="at least 2 values, one per seed, found 1"):
        interval([1.0])


def test_students_interval():
    # Mean 2, standard error 1 / sqrt(3), t(0.975, 2) = 4.302653.
    low, high = s.t_interval([1.0, 2.0, 3.0])
    assert low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)


def test_sign_flips_by_hand(rng):
    # |1 + 2 + 4| is reached by two of eight flips; |1 + 2 - 4| = 1 by all eight.
    assert s.sign_flip_p([1.0, 2.0, 4.0], rng) == 2 / 8
    assert s.sign_flip_p([1.0, 2.0, -4.0], rng) == 1.0
    # |-1 + 2 + 4| = 5: two with 7, two with 5.
    assert s.sign_flip_p([-1.0, 2.0, 4.0], rng) == 4 / 8
    assert s.sign_flip_p([0.0, 0.0], rng) == 1.0
    assert s.sign_flip_p([3.0], rng) == 1.0


@pytest.mark.parametrize(("n", "p"), [(1, 1.0), (5, 0.0625), (6, 0.03125), (10, 0.001953125)])
def test_few_pairs_cannot_reach_small_p(n, p, rng):
    assert s.smallest_sign_flip_p(n) == p
    assert s.sign_flip_p(np.arange(1.0, n + 1), rng) == p


def test_exact_and_drawn_flips_agree(rng, monkeypatch):
    differences = np.random.default_rng(4).normal(0.4, 1, 18)
    exact = s.sign_flip_p(differences, rng)
    expected = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert exact == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr(s, "EXACT_PAIRS", 5)
    assert s.sign_flip_p(differences, rng) == pytest.approx(exact, abs=0.005)


def test_wilcoxon_leaves_ties_out():
    assert s.wilcoxon_p([1.0, 2.0, 3.0]) == 2 / 8
    assert s.wilcoxon_p([0.0, 1.0, 2.0, 3.0]) == 2 / 8
    assert s.wilcoxon_p([0.0, 0.0]) == 1.0


def test_probability_of_improvement_counts_pairs():
    assert s.probability_of_improvement([2.0, 5.0], [1.0, 3.0]) == 3 / 4
    assert s.probability_of_improvement([1.0, 1.0], [1.0, 1.0]) == 0.5
    a, b = np.random.default_rng(5).normal(size=(2, 7))
    assert s.probability_of_improvement(a, b) == pytest.approx(stats.mannwhitneyu(a, b).statistic / 49)


def test_effect_sizes():
    assert s.effect_size([1.0, 3.0]) == pytest.approx(2 / math.sqrt(2))
    assert s.effect_size([2.0, 2.0]) == math.inf
    assert s.effect_size([-2.0, -2.0]) == -math.inf
    assert s.effect_size([0.0, 0.0]) == 0.0
    assert math.isnan(s.effect_size([1.0]))


def test_pairs_that_go_together_are_correlated():
    assert s.correlation([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]) == pytest.approx(1.0)
    assert s.correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert math.isnan(s.correlation([1.0, 1.0], [1.0, 2.0]))


@pytest.mark.parametrize(
    # Cohen's tables and G*Power 3.1 for the two-sided paired t-test, alpha .05, power .8.
    ("effect", "n"),
    [(0.2, 199), (0.5, 34), (0.8, 15), (-0.8, 15), (1.0, 10), (math.inf, 2), (0.0, None), (1e-4, None)],
)
def test_seeds_needed(effect, n):
    assert s.seeds_needed(effect) == n


def test_profiles_and_areas():
    assert s.performance_profile([10, 20, 30, 40], [0, 20, 25, 40]).tolist() == [1.0, 0.5, 0.5, 0.0]
    assert s.area_under_curve([0, 10, 20], [0, 10, 10]) == 7.5
    assert s.area_under_curve([5], [3]) == 3.0


def test_what_is_not_a_number_is_told():
    with pytest.raises(UsageError, match="finite values, found nan"):
        s.std([1.0, math.nan])


@pytest.mark.parametrize(("n", "words"), [(1, "compare nothing"), (5, "roughly"), (10, "paper")])
def test_advice(n, words):
    assert words in s.advice(n)
