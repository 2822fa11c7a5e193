"""What each kind of claim says about known numbers."""

import math

import numpy as np
import pytest
from small_recipe import QUANTITIES, curves, runs, score

from winze.lab import Claim, at_least, at_most, falls, higher, holds, level, lower, rises, share, tunnel_at, verdict
from winze.lab.verdicts import BORNE_OUT, NOT_BORNE_OUT, NOT_ENOUGH, NOT_RUN
from winze.measure import missing
from winze.readings import ReadingsError

LOW, HIGH = [1.0, 1.1, 1.2], [5.0, 5.2, 5.3]


def judged(check, **arms):
    return verdict(Claim("a claim", check), runs(**arms), QUANTITIES)


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (lower("score", "a", than="b"), BORNE_OUT),
        (lower("score", "b", than="a"), NOT_BORNE_OUT),
        (lower("score", "a", than="b", by=3.5), BORNE_OUT),
        (lower("score", "a", than="b", by=4.05), NOT_ENOUGH),
        (lower("score", "a", than="b", by=9), NOT_BORNE_OUT),
        (higher("score", "b", than="a", by=3.5), BORNE_OUT),
        (level("score", "a", 1.0, 0.5), BORNE_OUT),
        (level("score", "a", 1.0, 0.2), NOT_ENOUGH),
        (level("score", "b", 1.0, 0.5), NOT_BORNE_OUT),
        (at_most("score", "a", 2), BORNE_OUT),
        (at_most("score", "b", 2), NOT_BORNE_OUT),
        (at_least("score", "b", 2), BORNE_OUT),
        (share("score", "b", of="a", at_least=3), BORNE_OUT),
        (share("score", "a", of="b", at_least=0.1, at_most=0.3), BORNE_OUT),
        (share("score", "a", of="b", at_most=0.1), NOT_BORNE_OUT),
        (rises("score", ["a", "c", "b"]), BORNE_OUT),
        (falls("score", ["a", "c", "b"]), NOT_BORNE_OUT),
        (rises("score", ["b", "a"], at=[10, 1]), BORNE_OUT),
    ],
)
def test_a_check_of_known_numbers(check, word):
    assert judged(check, a=LOW, b=HIGH, c=[3.0, 3.1, 3.0]).word == word


def test_a_ratio_is_told_as_a_ratio():
    told = judged(share("score", "a", of="b", at_most=1.0), a=[2.0, 4.0, 6.0], b=[4.0, 8.0, 12.0])
    assert told.estimate == pytest.approx(0.5)
    assert (told.low, told.high) == pytest.approx((0.5, 0.5))


def test_a_ratio_of_numbers_that_are_not_positive_is_left_open():
    told = judged(share("score", "a", of="b", at_most=1.0), a=[2.0, 0.0, 6.0], b=[4.0, 8.0, 12.0])
    assert told.word == NOT_ENOUGH
    assert "a ratio wants positive numbers" in told.sentence


def test_only_seeds_that_all_arms_have_are_compared():
    told = judged(lower("score", "a", than="b"), a={0: 1.0, 1: 1.1, 2: 1.2, 7: 99.0}, b={0: 5.0, 1: 5.2, 2: 5.3})
    assert (told.word, told.n) == (BORNE_OUT, 3)
    assert told.values["a"] == {0: 1.0, 1: 1.1, 2: 1.2}


def test_arms_without_a_seed_in_common_were_not_run_together():
    told = judged(lower("score", "a", than="b"), a={0: 1.0}, b={1: 5.0})
    assert (told.word, told.sentence) == (NOT_RUN, "a and b share no seed")


def test_an_arm_without_readings_reads_not_run():
    told = verdict(Claim("a claim", lower("score", "a", than="b")), {"a": {0: score(1.0)}, "b": {}}, QUANTITIES)
    assert (told.word, told.sentence) == (NOT_RUN, "there are no readings of b")


def test_data_that_was_not_at_hand_reads_not_run_with_the_reason():
    def absent(readings):
        raise ReadingsError("probe on other data was not read (cifar100: there is no such folder)")

    told = verdict(Claim("a claim", at_most("absent", "a", 1)), runs(a=[1, 2, 3]), {"absent": absent})
    assert told.word == NOT_RUN
    assert "cifar100: there is no such folder" in told.sentence


def test_a_seed_without_the_reading_is_left_out_and_named():
    def some(readings):
        value = readings.rows[0].value
        if value > 3:
            raise ReadingsError("it was not read")
        return value

    told = verdict(Claim("a claim", at_most("some", "a", 9)), runs(a=[1, 2, 3, 4]), {"some": some})
    assert (told.word, told.n) == (BORNE_OUT, 3)
    assert "a, seed 3: it was not read" in told.sentence


def test_a_number_that_knows_why_it_is_missing_says_so():
    told = verdict(
        Claim("a claim", at_most("why", "a", 9)), runs(a=[1, 2, 3]), {"why": lambda _: missing("constant features")}
    )
    assert told.word == NOT_ENOUGH
    assert told.sentence == "why of a, seed 0, is –: constant features"


@pytest.mark.parametrize(("values", "word"), [([1], BORNE_OUT), ([0], NOT_BORNE_OUT), ([1, 1, 0], NOT_BORNE_OUT)])
def test_a_statement_without_chance_needs_one_seed_and_falls_with_one(values, word):
    assert judged(holds("score", "a"), a=values).word == word


def test_the_sentence_has_the_numbers_of_both_arms_and_their_difference():
    told = judged(lower("score", "a", than="b"), a=LOW, b=HIGH)
    assert told.sentence.startswith("score: a 1.1, b 5.167 (3 seeds); difference -4.067 [-4.2")
    assert str(told) == f"borne out: {told.sentence}"


def test_the_effect_of_a_level_is_its_distance_from_the_claimed_one():
    told = judged(level("score", "a", 2.0, 5.0), a=LOW)
    assert told.effect == pytest.approx(-0.9 / 0.1)


@pytest.mark.parametrize("check", [rises, falls])
def test_equal_values_neither_rise_nor_fall(check):
    equal = [0.1, 0.1, 0.1]
    told = judged(check("score", ["a", "b", "c", "d"]), a=equal, b=equal, c=equal, d=equal)
    assert (told.word, told.estimate) == (NOT_ENOUGH, 0.0)


def test_one_seed_gives_a_ratio_no_interval():
    assert "[" not in judged(share("score", "a", of="b", at_least=0.1), a=[1.0], b=[2.0]).sentence


def test_a_share_without_bounds_and_a_slope_of_one_arm_raise():
    with pytest.raises(ValueError, match="at_least= or at_most="):
        share("score", "a", of="b")
    with pytest.raises(ValueError, match="two arms or more"):
        rises("score", ["a"])
    with pytest.raises(ValueError, match="two arms or more"):
        rises("score", ["a", "b"], at=[1.0])


def test_a_quantity_that_nobody_defined_raises_with_those_there_are():
    with pytest.raises(ValueError, match="no quantity 'rank'; there are score"):
        verdict(Claim("a claim", at_most("rank", "a", 1)), runs(a=[1]), QUANTITIES)


def test_a_departure_may_depend_on_the_scale():
    claim = Claim("a claim", at_most("score", "a", 1), departure={"gpu": "a stand-in"})
    assert (claim.departure_at("gpu"), claim.departure_at("paper")) == ("a stand-in", "")
    assert Claim("a claim", at_most("score", "a", 1), departure="always").departure_at("gpu") == "always"


def tunnel(check, seeds):
    return verdict(Claim("a tunnel", check), {"a": seeds})


def test_curves_are_averaged_before_the_threshold():
    # alone, the runs reach 95 % at layers 2, 4 and 4; their mean, .6 .967 .9 1 against 1, does at 2
    seeds = curves([0.6, 1.0, 1.0, 1.0], [0.6, 0.94, 0.94, 1.0], [0.6, 0.94, 0.94, 1.0])
    told = tunnel(tunnel_at("a", 0.95, 2, within=0), seeds)
    assert told.values == {"a": {0: 2.0, 1: 4.0, 2: 4.0}}
    assert told.estimate == 2
    assert "at layer 2 of 4, `layers.1` [" in told.sentence
    assert "curves of 3 seeds averaged first" in told.sentence


def test_the_interval_of_a_tunnel_covers_what_other_draws_of_seeds_would_say():
    seeds = curves([0.6, 1.0, 1.0, 1.0], [0.6, 0.94, 0.94, 1.0], [0.6, 0.94, 0.94, 1.0])
    told = tunnel(tunnel_at("a", 0.95, 2, within=0), seeds)
    assert (told.low, told.high) == (2, 4)
    assert told.word == NOT_ENOUGH
    assert tunnel(tunnel_at("a", 0.95, 3, within=1), seeds).word == BORNE_OUT
    assert tunnel(tunnel_at("a", 0.95, 9, within=2), seeds).word == NOT_BORNE_OUT


def test_test_samples_are_drawn_again_where_their_answers_were_kept():
    probe = [0.5, 0.95, 0.96, 1.0]
    right = np.arange(100) < 100 * np.array(probe)[:, None]
    alone, kept = (tunnel(tunnel_at("a", 0.95, 2), curves(*[probe] * 3, correct=one)) for one in (None, [right] * 3))
    assert (alone.low, alone.high) == (2, 2)
    assert (kept.low, kept.high) == (2, 4)
    assert kept.estimate == alone.estimate == 2


def test_a_tunnel_below_three_seeds_is_left_open():
    told = tunnel(tunnel_at("a", 0.95, 1), curves(*[[1.0, 1.0]] * 2))
    assert told.word == NOT_ENOUGH
    assert "below 3 seeds" in told.sentence


def test_a_tunnel_that_no_layer_reaches_is_not_where_the_paper_has_it():
    told = tunnel(tunnel_at("a", 0.95, 2), curves(*[[0.5, 0.6, 0.7]] * 3, accuracy=0.99))
    assert told.word == NOT_BORNE_OUT
    assert told.estimate == math.inf
    assert told.sentence.startswith("no place reaches 0.95 x 0.9900")
    assert all(math.isnan(value) for value in told.values["a"].values())


def test_a_missing_probe_leaves_a_tunnel_open_and_is_named():
    seeds = curves(*[[0.5, 0.99, 1.0]] * 3)
    seeds[1].rows = [row for row in seeds[1].rows if not (row.measure == "probe" and row.index == 0)]
    seeds[1].add("probe", math.nan, place="layers.0", index=0, total=3, data="cifar10", split="test", note="dead layer")
    told = tunnel(tunnel_at("a", 0.95, 2), seeds)
    assert told.word == NOT_ENOUGH
    assert told.sentence == "the probe of a, seed 1, at layers.0 is missing: dead layer"


def test_layers_are_counted_as_the_paper_does_with_the_other_counting_beside_it():
    layers = {"without projections": [3, 5, 7, 9], "with projections": [3, 5, 8, 10]}
    seeds = curves(*[[0.5, 0.8, 1.0, 1.0]] * 3, layers=layers)
    told = tunnel(tunnel_at("a", 0.95, 7, within=0), seeds)
    assert (told.word, told.estimate) == (BORNE_OUT, 7)
    assert "8 counted with projections" in told.sentence
    assert tunnel(tunnel_at("a", 0.95, 8, within=0, counting="with projections"), seeds).word == BORNE_OUT


def test_readings_without_probes_say_so():
    told = tunnel(tunnel_at("a", 0.95, 7), {0: score(1.0)})
    assert (told.word, told.sentence) == (NOT_RUN, "there are no probes in the readings of a")
