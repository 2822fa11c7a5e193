"""Laws that every verdict obeys, whatever the numbers are."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from small_recipe import QUANTITIES, runs

from winze.lab import Axis, Claim, Scale, at_least, at_most, falls, higher, level, lower, rises, share, tunnel_at
from winze.lab.axes import PointGrid
from winze.lab.claims.claim import judge
from winze.lab.claims.verdict import CONTRADICTED, INCONCLUSIVE, SUPPORTED, Interval, Region, student, tally

numbers = st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: round(value, 3))
several = st.lists(numbers, min_size=3, max_size=8)
pairs = st.lists(st.tuples(numbers, numbers), min_size=3, max_size=8)
OPPOSITE = {SUPPORTED: CONTRADICTED, CONTRADICTED: SUPPORTED, INCONCLUSIVE: INCONCLUSIVE}
A, B = {"speed": "a"}, {"speed": "b"}
CHECKS = {
    "lower": lower("score", A, than=B),
    "higher": higher("score", A, than=B),
    "lower by": lower("score", A, than=B, by=2.0),
    "level": level("score", 1.0, within=2.0),
    "at most": at_most("score", 1.0),
    "at least": at_least("score", 1.0),
    "rises": rises("score", over="speed"),
    "falls": falls("score", over="speed"),
    "share": share("score", A, of=B, at_most=1.0),
}


def judged(check, **speeds):
    grid = PointGrid.of({"speed": Axis("x", tuple(speeds))}, Scale())
    claim = Claim("a claim", "table 1", check, at={} if check.over else A)
    [(_, verdict)] = judge(claim, grid, runs(**speeds), QUANTITIES).cells
    return verdict


@given(pairs)
def test_the_opposite_numbers_turn_a_verdict_around(values):
    a, b = zip(*values, strict=True)
    word = judged(lower("score", A, than=B), a=list(a), b=list(b)).word
    turned = judged(lower("score", A, than=B), a=[-x for x in a], b=[-x for x in b]).word
    assert turned == OPPOSITE[word]


@given(pairs, st.floats(0, 10))
def test_lower_one_way_is_higher_the_other_way(values, by):
    a, b = (list(side) for side in zip(*values, strict=True))
    there, back = (
        judged(lower("score", A, than=B, by=by), a=a, b=b),
        judged(higher("score", B, than=A, by=by), a=a, b=b),
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
    if before.word == INCONCLUSIVE and not tight:
        assert after.word == INCONCLUSIVE
    assert after.word in (before.word, INCONCLUSIVE) or tight


@pytest.mark.parametrize("name", CHECKS)
@given(values=st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=1, max_size=2))
def test_below_three_seeds_nothing_is_certain(name, values):
    a, b = (list(side) for side in zip(*values, strict=True))
    told = judged(CHECKS[name], a=a, b=b)
    assert told.word == INCONCLUSIVE
    assert "fewer than 3 seeds" in told.sentence
    assert told.n == len(a)


@pytest.mark.parametrize("name", CHECKS)
def test_a_number_that_is_none_leaves_the_claim_open_and_says_where_it_is(name):
    told = judged(CHECKS[name], a=[1.0, math.nan, 1.0, 1.0], b=[2.0] * 4)
    assert told.word == INCONCLUSIVE
    assert "at speed a, seed 1, is" in told.sentence


@given(pairs, numbers)
def test_what_all_points_share_does_not_matter(values, shift):
    a, b = (np.array(side) for side in zip(*values, strict=True))
    check = lower("score", A, than=B)
    before, after = judged(check, a=list(a), b=list(b)), judged(check, a=list(a + shift), b=list(b + shift))
    assert before.estimate == pytest.approx(after.estimate, abs=1e-9)
    assert before.low == pytest.approx(after.low, abs=1e-6)


@given(pairs, st.randoms())
def test_the_order_of_seeds_does_not_matter(values, rng):
    order = list(range(len(values)))
    rng.shuffle(order)
    a, b = ({seed: values[seed][side] for seed in range(len(values))} for side in (0, 1))
    shuffled = {seed: a[seed] for seed in order}
    check = lower("score", A, than=B)
    assert judged(check, a=a, b=b) == judged(check, a=shuffled, b=b)


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=8))
def test_the_interval_is_that_of_a_paired_t_test(values):
    a, b = (np.array(side) for side in zip(*values, strict=True))
    assume(np.std(a - b) > 1e-3)
    told = judged(lower("score", A, than=B), a=list(a), b=list(b))
    reference = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (told.low, told.high) == pytest.approx((reference.low, reference.high), rel=1e-9, abs=1e-9)
    assert told.effect == pytest.approx((a - b).mean() / (a - b).std(ddof=1))


@given(several)
def test_a_level_is_judged_by_the_interval_of_its_mean(values):
    assume(np.std(values) > 1e-3)
    reference = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    inside = reference.low >= -1 and reference.high <= 3
    outside = reference.high < -1 or reference.low > 3
    expected = SUPPORTED if inside else CONTRADICTED if outside else INCONCLUSIVE
    assert judged(level("score", 1.0, within=2.0), a=values).word == expected


@given(several)
def test_the_slope_of_rising_and_falling_is_that_of_least_squares(values):
    told = judged(rises("score", over="speed"), **{f"v{i}": [value] * 3 for i, value in enumerate(values)})
    assert told.estimate == pytest.approx(np.polyfit(range(len(values)), values, 1)[0], abs=1e-6)


def test_differences_that_cancel_have_a_mean_of_zero_and_no_rounding_error():
    values = [0.1, 0.2, -0.3]
    assert np.mean(values) != 0
    assert student(values).estimate == 0
    assert student([1e-9, 2e-9, 3e-9]).estimate == pytest.approx(2e-9)


def test_one_value_has_no_interval_and_equal_values_have_a_point():
    alone, equal = student([2.0]), student([2.0, 2.0, 2.0])
    assert (alone.low, alone.high) == (-math.inf, math.inf)
    assert (equal.low, equal.high, equal.effect) == (2.0, 2.0, math.inf)


def test_a_difference_of_nothing_is_on_neither_side():
    assert judged(lower("score", A, than=B), a=[1, 2, 3], b=[1, 2, 3]).word == INCONCLUSIVE


def test_the_edge_of_a_level_belongs_to_it():
    assert Region(1.0, 3.0).word(Interval(2.0, 1.0, 3.0, 3)) == SUPPORTED
    assert Region(1.0, 3.0, open=True).word(Interval(2.0, 1.0, 3.0, 3)) == INCONCLUSIVE


def test_a_tally_counts_every_word_once():
    words = [judged(CHECKS["level"], a=values).word for values in ([1, 1, 1], [9, 9, 9], [1, 9, 1], [1])]
    assert tally(words) == "1 supported, 1 contradicted, 2 inconclusive"
    assert tally([]) == "no claims"


def test_a_tunnel_claim_at_a_point_that_was_not_run_says_so():
    grid = PointGrid.of({"speed": Axis("x", ("a", "b"))}, Scale())
    [(_, told)] = judge(Claim("a tunnel", "fig. 1", tunnel_at(0.95, 8), at=A), grid, {}).cells
    assert (told.word, told.sentence) == ("not run", "no readings of speed a")
