import json
import math

import numpy as np
import pytest

from godot_parallel.analysis.compare import compare, table
from godot_parallel.errors import UsageError

A = {0: 10.0, 1: 20.0, 2: 30.0, 3: 40.0, 4: 100.0}
B = {0: 8.0, 1: 16.0, 2: 32.0, 3: 30.0, 4: 90.0}


def test_variants_are_summed_up_and_paired_by_seed():
    told = compare({"a": A, "b": dict(reversed(B.items()))})
    a, b = told.summaries
    assert (a.mean, a.iqm, a.median) == (40.0, 30.0, 30.0)
    assert a.std == pytest.approx(math.sqrt(5000 / 4))  # squares 900 + 400 + 100 + 0 + 3600
    assert b.values == (8.0, 16.0, 32.0, 30.0, 90.0)
    assert a.iqm_interval.low <= 30 <= a.iqm_interval.high
    (pair,) = told.pairs
    assert pair.paired
    assert pair.differences == (2.0, 4.0, -2.0, 10.0, 10.0)
    assert pair.difference == pytest.approx(4.8)
    # The sum is 24. As far from 0 are: all of one sign (28), and that with either of the twos turned (24).
    assert pair.sign_flip_p == pytest.approx(6 / 32)
    assert pair.smallest_p == 0.0625
    assert pair.probability_of_improvement == pytest.approx(14.5 / 25)
    assert pair.effect_size == pytest.approx(4.8 / math.sqrt(108.8 / 4))
    assert pair.correlation == pytest.approx(np.corrcoef(list(A.values()), list(B.values()))[0, 1])
    assert "roughly" in told.notes[-1]


def test_different_seeds_are_refused_unless_allowed():
    other = {5: 1.0, 6: 2.0}
    with pytest.raises(
        UsageError, match=r"a has the seeds 0, 1, 2, 3, 4 and b the seeds 5, 6.*--allow_unpaired"
    ):
        compare({"a": A, "b": other})
    told = compare({"a": A, "b": other}, allow_unpaired=True)
    assert not told.pairs[0].paired
    assert told.pairs[0].sign_flip_p is None
    assert told.notes[0].startswith("NOT PAIRED")
    assert "NOT PAIRED" in table(told)


def test_one_seed_has_a_mean_and_no_interval():
    told = compare({"a": {0: 5.0}, "b": {0: 4.0}})
    assert told.summaries[0].iqm_interval is None
    assert told.pairs[0].interval is None
    assert told.pairs[0].smallest_p == 1.0
    assert "compare nothing" in told.notes[-1]
    assert "one seed: none" in table(told)
    assert json.loads(json.dumps(told.as_dict(), allow_nan=False))["summaries"][0]["std"] is None


def test_the_same_everywhere_is_no_difference():
    told = compare({"a": A, "b": A})
    (pair,) = told.pairs
    assert (pair.difference, pair.sign_flip_p, pair.wilcoxon_p, pair.effect_size) == (0.0, 1.0, 1.0, 0.0)
    assert pair.seeds_needed is None
    assert "no number of seeds" in table(told)


@pytest.mark.parametrize(
    ("variants", "words"), [({}, "at least one variant"), ({"a": {0: math.nan}}, "value of seed 0 is nan")]
)
def test_nothing_and_nan_are_told(variants, words):
    with pytest.raises(UsageError, match=words):
        compare(variants)


def test_the_table_holds_what_a_reader_needs():
    text = table(compare({"ppo": A, "sac": B}))
    for words in (
        "40.0 ± 35.4",
        "ppo - sac: +4.8",
        "can't be below 0.0625 with 5",
        "by seed: +2.0 +4.0 -2.0 +10.0 +10.0",
    ):
        assert words in text
