"""Laws that every verdict obeys, whatever the numbers are."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from small_recipe import QUANTITIES, runs

from winze.lab import Claim, at_least, at_most, falls, higher, level, lower, rises, share, tunnel_at, verdict
from winze.lab.verdicts import BORNE_OUT, NOT_BORNE_OUT, NOT_ENOUGH, Interval, Region, student, tally

numbers = st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: round(value, 3))
several = st.lists(numbers, min_size=3, max_size=8)
pairs = st.lists(st.tuples(numbers, numbers), min_size=3, max_size=8)
OPPOSITE = {BORNE_OUT: NOT_BORNE_OUT, NOT_BORNE_OUT: BORNE_OUT, NOT_ENOUGH: NOT_ENOUGH}
CHECKS = {
    "lower": lower("score", "a", than="b"),
    "higher": higher("score", "a", than="b"),
    "lower by": lower("score", "a", than="b", by=2.0),
    "level": level("score", "a", 1.0, 2.0),
    "at most": at_most("score", "a", 1.0),
    "at least": at_least("score", "a", 1.0),
    "rises": rises("score", ["a", "b"]),
    "falls": falls("score", ["a", "b"]),
    "share": share("score", "a", of="b", at_most=1.0),
}


def judged(check, **arms):
    return verdict(Claim("a claim", check), runs(**arms), QUANTITIES)


@given(pairs)
def test_the_opposite_numbers_turn_a_verdict_around(values):
    a, b = zip(*values, strict=True)
    word = judged(lower("score", "a", than="b"), a=list(a), b=list(b)).word
    turned = judged(lower("score", "a", than="b"), a=[-x for x in a], b=[-x for x in b]).word
    assert turned == OPPOSITE[word]


@given(pairs, st.floats(0, 10))
def test_lower_one_way_is_higher_the_other_way(values, by):
    a, b = (list(side) for side in zip(*values, strict=True))
    there, back = (
        judged(lower("score", "a", than="b", by=by), a=a, b=b),
        judged(higher("score", "b", than="a", by=by), a=a, b=b),
    )
    assert there.word == back.word
    assert there.estimate == -back.estimate


@pytest.mark.parametrize("name", [name for name in CHECKS if name != "share"])
@given(values=several, factor=st.floats(1, 50))
def test_more_spread_around_the_same_mean_never_makes_a_verdict_more_certain(name, values, factor):
    mean = float(np.mean(values))
    wider = [mean + factor * (value - mean) for value in values]
    assume(abs(np.mean(wider) - mean) < 1e-9 * (1 + abs(mean)))
    before, after = (judged(CHECKS[name], a=one, b=[0.0] * len(one)) for one in (values, wider))
    tight = before.high - before.low < 1e-6 * (1 + abs(mean))  # rounding then decides on which side an edge lies
    if before.word == NOT_ENOUGH and not tight:
        assert after.word == NOT_ENOUGH
    assert after.word in (before.word, NOT_ENOUGH) or tight


@pytest.mark.parametrize("name", CHECKS)
@given(values=st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=1, max_size=2))
def test_below_three_seeds_nothing_is_certain(name, values):
    a, b = (list(side) for side in zip(*values, strict=True))
    told = judged(CHECKS[name], a=a, b=b)
    assert told.word == NOT_ENOUGH
    assert "below 3 seeds" in told.sentence
    assert told.n == len(a)


@pytest.mark.parametrize("name", CHECKS)
def test_a_number_that_is_none_leaves_the_claim_open_and_says_where_it_is(name):
    told = judged(CHECKS[name], a=[1.0, math.nan, 1.0, 1.0], b=[2.0] * 4)
    assert told.word == NOT_ENOUGH
    assert "of a, seed 1, is" in told.sentence


@given(pairs, numbers)
def test_what_all_arms_share_does_not_matter(values, shift):
    a, b = (np.array(side) for side in zip(*values, strict=True))
    check = lower("score", "a", than="b")
    before, after = judged(check, a=list(a), b=list(b)), judged(check, a=list(a + shift), b=list(b + shift))
    assert before.estimate == pytest.approx(after.estimate, abs=1e-9)
    assert before.low == pytest.approx(after.low, abs=1e-6)


@given(pairs, st.randoms())
def test_the_order_of_seeds_does_not_matter(values, rng):
    order = list(range(len(values)))
    rng.shuffle(order)
    a, b = ({seed: values[seed][side] for seed in range(len(values))} for side in (0, 1))
    shuffled = {seed: a[seed] for seed in order}
    check = lower("score", "a", than="b")
    assert judged(check, a=a, b=b) == judged(check, a=shuffled, b=b)


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=8))
def test_the_interval_is_that_of_a_paired_t_test(values):
    a, b = (np.array(side) for side in zip(*values, strict=True))
    assume(np.std(a - b) > 1e-3)
    told = judged(lower("score", "a", than="b"), a=list(a), b=list(b))
    reference = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (told.low, told.high) == pytest.approx((reference.low, reference.high), rel=1e-9, abs=1e-9)
    assert told.effect == pytest.approx((a - b).mean() / (a - b).std(ddof=1))


@given(several)
def test_a_level_is_judged_by_the_interval_of_its_mean(values):
    assume(np.std(values) > 1e-3)
    reference = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    inside = reference.low >= -1 and reference.high <= 3
    outside = reference.high < -1 or reference.low > 3
    expected = BORNE_OUT if inside else NOT_BORNE_OUT if outside else NOT_ENOUGH
    assert judged(level("score", "a", 1.0, 2.0), a=values).word == expected


@given(several)
def test_the_slope_of_rising_and_falling_is_that_of_least_squares(values):
    order = [f"arm{i}" for i in range(len(values))]
    told = judged(rises("score", order), **{arm: [value] * 3 for arm, value in zip(order, values, strict=True)})
    assert told.estimate == pytest.approx(np.polyfit(range(len(values)), values, 1)[0], abs=1e-6)


def test_one_value_has_no_interval_and_equal_values_have_a_point():
    alone, equal = student([2.0]), student([2.0, 2.0, 2.0])
    assert (alone.low, alone.high) == (-math.inf, math.inf)
    assert (equal.low, equal.high, equal.effect) == (2.0, 2.0, math.inf)


def test_a_difference_of_nothing_is_on_neither_side():
    assert judged(lower("score", "a", than="b"), a=[1, 2, 3], b=[1, 2, 3]).word == NOT_ENOUGH


def test_the_edge_of_a_level_belongs_to_it():
    assert Region(1.0, 3.0).word(Interval(2.0, 1.0, 3.0, 3)) == BORNE_OUT
    assert Region(1.0, 3.0, open=True).word(Interval(2.0, 1.0, 3.0, 3)) == NOT_ENOUGH


def test_a_tally_counts_every_word_once():
    words = [judged(CHECKS["level"], a=values) for values in ([1, 1, 1], [9, 9, 9], [1, 9, 1], [1])]
    assert tally(words) == "1 borne out, 1 not borne out, 2 not enough evidence"
    assert tally([]) == "no claims"


def test_a_tunnel_claim_on_an_arm_that_was_not_run_says_so():
    told = verdict(Claim("a tunnel", tunnel_at("a", 0.95, 8)), {"b": {}})
    assert (told.word, told.sentence) == ("not run", "there are no readings of a")
