"""What each kind of claim says about known numbers, and how cells make a row."""

import math

import numpy as np
import pytest
from small_recipe import QUANTITIES, curves, runs, score

from winze.lab import (
    Axis,
    Claim,
    Scale,
    alike,
    at_least,
    at_most,
    falls,
    higher,
    holds,
    level,
    lower,
    not_below,
    rises,
    share,
    tunnel_at,
)
from winze.lab.axes import PointGrid
from winze.lab.claims.claim import judge
from winze.lab.claims.quantities import TunnelLayer
from winze.lab.claims.verdict import CONTRADICTED, INCONCLUSIVE, MIXED, NOT_RUN, SUPPORTED, Verdict, row_word
from winze.measure import missing
from winze.readings import Point, ReadingsError

LOW, HIGH = [1.0, 1.1, 1.2], [5.0, 5.2, 5.3]
A, B, C = {"speed": "a"}, {"speed": "b"}, {"speed": "c"}


def told(check, read, quantities=QUANTITIES, at=A):
    """The verdict on a check at one point of an axis of names."""
    grid = PointGrid.of({"speed": Axis("x", tuple(point["speed"] for point in read))}, Scale())
    [(_, verdict)] = judge(Claim("a claim", "table 1", check, at=at), grid, read, quantities).cells
    return verdict


def judged(check, at=A, **speeds):
    return told(check, runs(**speeds), at=at)


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (lower("score", A, than=B), SUPPORTED),
        (lower("score", B, than=A), CONTRADICTED),
        (lower("score", A, than=B, by=3.5), SUPPORTED),
        (lower("score", A, than=B, by=4.05), INCONCLUSIVE),
        (lower("score", A, than=B, by=9), CONTRADICTED),
        (higher("score", B, than=A, by=3.5), SUPPORTED),
        (not_below("score", A, than=C, margin=2.5), SUPPORTED),
        (not_below("score", A, than=C, margin=1), CONTRADICTED),
        (alike("score", A, to=C, within=3), SUPPORTED),
        (alike("score", A, to=C, within=1), CONTRADICTED),
        (level("score", 1.0, within=0.5), SUPPORTED),
        (level("score", 1.0, within=0.2), INCONCLUSIVE),
        (level("score", 3.0, within=0.5), CONTRADICTED),
        (at_most("score", 2), SUPPORTED),
        (at_most("score", 0.5), CONTRADICTED),
        (at_least("score", 0.5), SUPPORTED),
        (share("score", B, of=A, at_least=3), SUPPORTED),
        (share("score", A, of=B, at_least=0.1, at_most=0.3), SUPPORTED),
        (share("score", A, of=B, at_most=0.1), CONTRADICTED),
    ],
)
def test_a_check_of_known_numbers(check, word):
    assert judged(check, a=LOW, b=HIGH, c=[3.0, 3.1, 3.0]).word == word


def over(check, **values):
    """The verdict on a slope over an axis of numbers, from scores by value."""
    grid = PointGrid.of({"alpha": Axis("x", tuple(float(name[1:]) for name in values))}, Scale())
    read = {Point(alpha=float(name[1:])): dict(enumerate(map(score, one))) for name, one in values.items()}
    [(_, verdict)] = judge(Claim("a claim", "fig. 1", check), grid, read, QUANTITIES).cells
    return verdict


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (rises("score", over="alpha"), SUPPORTED),
        (falls("score", over="alpha"), CONTRADICTED),
        (rises("score", over="alpha", scale=lambda value: -value), CONTRADICTED),
    ],
)
def test_a_slope_is_that_over_the_values_of_the_axis(check, word):
    verdict = over(check, v10=HIGH, v1=LOW)
    assert verdict.word == word
    assert abs(verdict.estimate) == pytest.approx((5.1667 - 1.1) / 9, rel=1e-4)


def test_values_that_are_names_rise_in_their_order():
    assert judged(rises("score", over="speed"), at={}, a=LOW, c=[3.0, 3.1, 3.0], b=HIGH).word == SUPPORTED


@pytest.mark.parametrize("check", [rises, falls])
def test_equal_values_neither_rise_nor_fall(check):
    equal = [0.1, 0.1, 0.1]
    verdict = over(check("score", over="alpha"), v1=equal, v2=equal, v3=equal, v4=equal)
    assert (verdict.word, verdict.estimate) == (INCONCLUSIVE, 0.0)


def test_every_value_of_an_axis_is_a_cell_with_its_own_claimed_and_published_number():
    grid = PointGrid.of({"alpha": Axis("x", (1.0, 0.6, 0.4))}, Scale())
    read = {point: {seed: score(point["alpha"] + seed / 100) for seed in range(3)} for point in grid.points}
    claim = Claim("a claim", "t", level("score", {1.0: 1.0, 0.6: 9.0}, within=0.1), each="alpha", paper={1.0: "93.6 %"})
    found = judge(claim, grid, read, QUANTITIES)
    assert [(cell["alpha"], verdict.word) for cell, verdict in found.cells] == [(1.0, SUPPORTED), (0.6, CONTRADICTED)]
    assert found.word == MIXED
    assert found.names == ["alpha 1", "alpha 0.6"]
    assert [claim.published(cell) for cell, _ in found.cells] == ["93.6 %", ""]


def test_a_cell_that_would_be_compared_with_itself_is_none():
    grid = PointGrid.of({"alpha": Axis("x", (1.0, 0.6, 0.4))}, Scale())
    claim = Claim("a claim", "t", higher("score", than={"alpha": 1.0}), each="alpha")
    assert [cell["alpha"] for cell in claim.cells(grid)] == [0.6, 0.4]


@pytest.mark.parametrize(
    ("cells", "word"),
    [
        ([SUPPORTED], SUPPORTED),
        ([SUPPORTED, SUPPORTED, INCONCLUSIVE], SUPPORTED),
        ([SUPPORTED, INCONCLUSIVE], INCONCLUSIVE),
        ([CONTRADICTED, CONTRADICTED, INCONCLUSIVE], CONTRADICTED),
        ([SUPPORTED, CONTRADICTED], MIXED),
        ([SUPPORTED, SUPPORTED, SUPPORTED, CONTRADICTED], MIXED),
        ([SUPPORTED, NOT_RUN], SUPPORTED),
        ([NOT_RUN, NOT_RUN], NOT_RUN),
        ([INCONCLUSIVE, NOT_RUN], INCONCLUSIVE),
        ([], NOT_RUN),
    ],
)
def test_the_word_of_a_row_follows_from_its_cells(cells, word):
    assert row_word(Verdict(one, "") for one in cells) == word


def test_a_ratio_is_told_as_a_ratio():
    verdict = judged(share("score", A, of=B, at_most=1.0), a=[2.0, 4.0, 6.0], b=[4.0, 8.0, 12.0])
    assert verdict.estimate == pytest.approx(0.5)
    assert (verdict.low, verdict.high) == pytest.approx((0.5, 0.5))


def test_a_ratio_of_numbers_that_are_not_positive_is_left_open():
    verdict = judged(share("score", A, of=B, at_most=1.0), a=[2.0, 0.0, 6.0], b=[4.0, 8.0, 12.0])
    assert verdict.word == INCONCLUSIVE
    assert "a ratio needs positive numbers" in verdict.sentence


def test_only_seeds_that_all_points_have_are_compared():
    verdict = judged(lower("score", A, than=B), a={0: 1.0, 1: 1.1, 2: 1.2, 7: 99.0}, b={0: 5.0, 1: 5.2, 2: 5.3})
    assert (verdict.word, verdict.n) == (SUPPORTED, 3)
    assert verdict.values[Point(A)] == {0: 1.0, 1: 1.1, 2: 1.2}


def test_points_without_a_seed_in_common_were_not_run_together():
    verdict = judged(lower("score", A, than=B), a={0: 1.0}, b={1: 5.0})
    assert (verdict.word, verdict.sentence) == (NOT_RUN, "the points share no seed")


def test_a_point_without_readings_reads_not_run():
    verdict = told(lower("score", A, than=B), {Point(A): {0: score(1.0)}, Point(B): {}})
    assert (verdict.word, verdict.sentence) == (NOT_RUN, "no readings of speed b")


def test_data_that_was_not_found_reads_not_run_with_the_reason():
    def absent(readings):
        raise ReadingsError("probe on OOD data was not read (cifar100: there is no such folder)")

    verdict = told(at_most("absent", 1), runs(a=[1, 2, 3]), {"absent": absent})
    assert verdict.word == NOT_RUN
    assert "cifar100: there is no such folder" in verdict.sentence


def test_a_seed_without_the_reading_is_left_out_and_named():
    def some(readings):
        value = readings.rows[0].value
        if value > 3:
            raise ReadingsError("it was not read")
        return value

    verdict = told(at_most("some", 9), runs(a=[1, 2, 3, 4]), {"some": some})
    assert (verdict.word, verdict.n) == (SUPPORTED, 3)
    assert "speed a, seed 3: it was not read" in verdict.sentence


def test_a_number_that_knows_why_it_is_missing_says_so():
    verdict = told(at_most("why", 9), runs(a=[1, 2, 3]), {"why": lambda _: missing("constant features")})
    assert verdict.word == INCONCLUSIVE
    assert verdict.sentence == "why at speed a, seed 0, is –: constant features"


@pytest.mark.parametrize(("values", "word"), [([1], SUPPORTED), ([0], CONTRADICTED), ([1, 1, 0], CONTRADICTED)])
def test_a_statement_without_chance_needs_one_seed_and_falls_with_one(values, word):
    assert judged(holds("score"), a=values).word == word


def test_the_sentence_has_the_numbers_of_both_points_and_their_difference():
    verdict = judged(lower("score", A, than=B), a=LOW, b=HIGH)
    assert verdict.sentence.startswith("score: 1.1 at a, 5.167 at b (3 seeds); difference -4.067 [-4.2")
    assert str(verdict) == f"supported: {verdict.sentence}"


def test_the_effect_of_a_level_is_its_distance_from_the_claimed_one():
    assert judged(level("score", 2.0, within=5.0), a=LOW).effect == pytest.approx(-0.9 / 0.1)


def test_one_seed_gives_a_ratio_no_interval():
    assert "[" not in judged(share("score", A, of=B, at_least=0.1), a=[1.0], b=[2.0]).sentence


def test_a_share_without_bounds_raises():
    with pytest.raises(ValueError, match="at_least= or at_most="):
        share("score", A, of=B)


def test_a_quantity_that_nobody_defined_raises_with_those_there_are():
    with pytest.raises(ValueError, match="no quantity 'rank'; there are score, accuracy"):
        judged(at_most("rank", 1), a=[1])


def test_layers_that_all_seeds_agree_on_still_have_an_interval():
    seeds = curves(*[[0.5, 1.0, 1.0]] * 3)
    verdict = told(at_most("start", 1.9), {Point(A): seeds}, {"start": TunnelLayer(0.95)})
    assert verdict.high > verdict.low
    assert verdict.word == INCONCLUSIVE


def tunnel(check, seeds):
    return told(check, {Point(A): seeds})


def test_curves_are_averaged_before_the_threshold():
    # alone, the runs reach 95 % at layers 2, 4 and 4; their mean, .6 .967 .9 1 against 1, does at 2
    seeds = curves([0.6, 1.0, 1.0, 1.0], [0.6, 0.94, 0.94, 1.0], [0.6, 0.94, 0.94, 1.0])
    verdict = tunnel(tunnel_at(0.95, 2, within=0), seeds)
    assert verdict.values == {Point(A): {0: 2.0, 1: 4.0, 2: 4.0}}
    assert verdict.estimate == 2
    assert "at layer 2 of 4, `layers.1` [" in verdict.sentence
    assert "mean curve of 3 seeds" in verdict.sentence


def test_the_interval_of_a_tunnel_covers_what_other_draws_of_seeds_would_say():
    seeds = curves([0.6, 1.0, 1.0, 1.0], [0.6, 0.94, 0.94, 1.0], [0.6, 0.94, 0.94, 1.0])
    verdict = tunnel(tunnel_at(0.95, 2, within=0), seeds)
    assert (verdict.low, verdict.high) == (2, 4)
    assert verdict.word == INCONCLUSIVE
    assert tunnel(tunnel_at(0.95, 3, within=1), seeds).word == SUPPORTED
    assert tunnel(tunnel_at(0.95, 9, within=2), seeds).word == CONTRADICTED


def test_test_samples_are_drawn_again_where_their_answers_were_kept():
    probe = [0.5, 0.95, 0.96, 1.0]
    right = np.arange(100) < 100 * np.array(probe)[:, None]
    alone, kept = (tunnel(tunnel_at(0.95, 2), curves(*[probe] * 3, correct=one)) for one in (None, [right] * 3))
    assert (alone.low, alone.high) == (2, 2)
    assert (kept.low, kept.high) == (2, 4)
    assert kept.estimate == alone.estimate == 2


def test_a_tunnel_below_three_seeds_is_left_open():
    verdict = tunnel(tunnel_at(0.95, 1), curves(*[[1.0, 1.0]] * 2))
    assert verdict.word == INCONCLUSIVE
    assert "fewer than 3 seeds" in verdict.sentence


def test_a_tunnel_that_no_layer_reaches_is_not_where_the_paper_has_it():
    verdict = tunnel(tunnel_at(0.95, 2), curves(*[[0.5, 0.6, 0.7]] * 3, accuracy=0.99))
    assert verdict.word == CONTRADICTED
    assert verdict.estimate == math.inf
    assert verdict.sentence.startswith("no place reaches 0.95 x 0.9900")
    assert all(math.isnan(value) for value in verdict.values[Point(A)].values())


def test_a_missing_probe_leaves_a_tunnel_open_and_is_named():
    seeds = curves(*[[0.5, 0.99, 1.0]] * 3)
    seeds[1].rows = [row for row in seeds[1].rows if not (row.measure == "probe" and row.index == 0)]
    seeds[1].add("probe", math.nan, place="layers.0", index=0, total=3, data="cifar10", split="test", note="dead layer")
    verdict = tunnel(tunnel_at(0.95, 2), seeds)
    assert verdict.word == INCONCLUSIVE
    assert verdict.sentence == "the probe of seed 1 at layers.0 is missing: dead layer"


def test_layers_are_counted_as_the_paper_does_with_the_other_counting_beside_it():
    layers = {"without projections": [3, 5, 7, 9], "with projections": [3, 5, 8, 10]}
    seeds = curves(*[[0.5, 0.8, 1.0, 1.0]] * 3, layers=layers)
    verdict = tunnel(tunnel_at(0.95, 7, within=0), seeds)
    assert (verdict.word, verdict.estimate) == (SUPPORTED, 7)
    assert "8 counted with projections" in verdict.sentence


def test_readings_without_probes_say_so():
    verdict = tunnel(tunnel_at(0.95, 7), {0: score(1.0)})
    assert (verdict.word, verdict.sentence) == (NOT_RUN, "the readings hold no probes")
