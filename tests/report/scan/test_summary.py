"""The sentences, on readings whose answers are known."""

import re
from dataclasses import replace

import numpy as np
import pytest
from synthetic import scan, watched

from winze.measure.value import CONSTANT
from winze.readings import Readings
from winze.readings.facts import entrance
from winze.report import comparison, summary
from winze.report.scan.opening import lead, numbers

NAN = float("nan")


def test_the_summary_says_what_the_readings_hold() -> None:
    assert summary(scan()) == [
        "Extractor: layers 1-8 of 19 (95 % interval 8-8), tunnel: 9-19.",
        "The probe at layer 8, `features.22`, reaches 97.2 %; it is the first to reach 95 % of the network's own "
        "accuracy, 98.2 %.",
        "Best layer for `textures`: 7, `features.19` (+10 points over the last layer).",
        "Cut after layer 8: 99 % of the accuracy, 2.3x faster, 42 % of the parameters, 42 % of the FLOPs.",
    ]


def test_the_interval_widens_where_places_are_close() -> None:
    probe = [0.5, 0.9, 0.93, 0.945, 0.96, 0.98]
    first = summary(scan(probe=probe, accuracy=0.98, samples=100))[0]
    assert first.startswith("Extractor: layers 1-4 of 6 (95 % interval ")
    low, high = first.split("interval ")[1].split(")")[0].split("-")
    assert int(low) < 4 <= int(high)


def test_without_correctness_there_is_no_interval() -> None:
    assert summary(scan(arrays=False))[0] == "Extractor: layers 1-8 of 19, tunnel: 9-19."


def test_a_lower_threshold_gives_a_shorter_extractor() -> None:
    assert summary(scan(), threshold=0.9)[0].startswith("Extractor: layers 1-7 of 19")


def test_a_tunnel_never_reached_is_said_with_its_reason() -> None:
    said = summary(scan(probe=[0.3, 0.5, 0.4], accuracy=0.98))
    assert said[0] == (
        "No tunnel: no layer reaches 95 % of the network's own accuracy, 98 %; "
        "the best, layer 2, `features.4`, has 50 %."
    )
    assert not any(sentence.startswith("Cut") for sentence in said)


def test_a_start_at_the_last_layer_is_no_tunnel_and_no_cut() -> None:
    said = summary(scan(probe=[0.3, 0.5, 0.98], accuracy=0.98))
    assert said[0].startswith("Extractor: layers 1-3 of 3")
    assert said[0].endswith("no tunnel.")
    assert not any(sentence.startswith("Cut") for sentence in said)


def test_one_place_alone_is_said_in_the_singular() -> None:
    assert summary(scan(probe=[0.98], ood={}, arrays=False))[0] == "Extractor: layer 1 of 1, no tunnel."


def test_an_accuracy_that_could_not_be_read_is_said_with_its_note() -> None:
    readings = scan(accuracy=None)
    readings.add("accuracy", NAN, data="cifar10", split="test", note="1000 outputs for 10 classes")
    said = summary(readings)
    assert any("could not be read (1000 outputs for 10 classes)" in sentence for sentence in said)
    assert any("the last-layer probe, 98.2 %" in sentence for sentence in said)


def test_a_cut_that_was_timed_in_rounds_has_an_interval() -> None:
    readings = scan()
    start = entrance(readings).tunnel.start
    readings.add("cut_speed_up", 2.3, low=1.9, high=2.6, place=start, data=readings.conventions["data"])
    assert "2.3x faster (1.9x to 2.6x), 42 % of the parameters" in " ".join(summary(readings))


def test_costs_that_were_not_read_leave_the_cut_out() -> None:
    assert not any(sentence.startswith("Cut") for sentence in summary(scan(costs=False)))


@pytest.mark.parametrize(
    ("share", "words"), [(0.5, "2.0x faster"), (0.98, "as fast"), (1.08, "8 % slower"), (1.5, "1.5x slower")]
)
def test_speed_is_said_both_ways(share: float, words: str) -> None:
    readings = scan(costs=False)
    for index in range(19):
        readings.add("cut_seconds", share, place=f"features.{3 * index + 1}", index=index, total=19, data="cifar10")
    readings.add("seconds", 1.0)
    assert summary(readings)[-1] == f"Cut after layer 8: 99 % of the accuracy, {words}."


def test_other_data_served_best_by_the_last_layer_gets_no_gain() -> None:
    said = summary(scan(probe=[0.5, 0.98], ood={"a": [0.1, 0.2], "b": [0.2, 0.2], "c": [0.5, NAN]}))
    assert "Best layer for `a`: the last, 2, `features.4`." in said
    assert "Best layer for `b`: 1, `features.1` (no better than the last layer, but earlier)." in said
    assert "Best layer for `c`: 1, `features.1` (50 %; the last layer was not read)." in said


def with_other(probes: list[float], chance: float = 0.1, samples: int = 200) -> Readings:
    """A scan with samples of other data, on which each layer is right on the first ones."""
    readings = scan(probe=[0.5, 0.97, 0.98], ood={"a": probes})
    right = np.arange(samples) < samples * np.array(probes)[:, None]
    readings.arrays["correct/a"] = right
    readings.arrays["correct/a"][0] = right[0, ::-1]  # of other samples
    readings.conventions = readings.conventions.having(chance={"a": chance})
    for row in [row for row in readings.rows if row.data == "a"]:
        readings.rows[readings.rows.index(row)] = replace(row, n=samples)
    return readings


@pytest.mark.parametrize(
    ("probes", "said"),
    [
        ([0.6, 0.4, 0.3], r"Best layer for `a`: 1, .* \(\+30 points over the last layer\)"),
        (
            [0.42, 0.41, 0.4],
            r"Best layer for `a`: 1, .*, not clearly above the last .* interval -\S+ to \+\S+ points",
        ),
        ([0.12, 0.11, 0.1], r"none, since the best probe, 12 % .*, is not clearly above chance, 10 %"),
    ],
)
def test_a_layer_for_other_data_is_named_only_where_the_samples_tell_it_apart(probes: list[float], said: str) -> None:
    readings = with_other(probes)
    (told,) = (sentence for sentence in summary(readings) if sentence.startswith("Best layer for `a`"))
    assert re.search(said, told)
    lost = any(one.title == "OOD accuracy lost" and "points" in one.value for one in numbers(readings, 0.95))
    assert lost == ("points of OOD accuracy" in lead({"a": readings}, 0.95)) == ("points over the last" in told)


def test_a_last_layer_that_was_not_read_hides_no_loss_on_other_data() -> None:
    readings = scan(probe=[0.97, 0.98, 0.98], ood={"a": [0.5, 0.4, NAN], "b": [0.6, 0.4, 0.3]})
    assert "lose 30 points of OOD accuracy" in lead({"a": readings}, 0.95)


def test_notes_of_the_scan_come_last() -> None:
    readings = scan()
    readings.conventions = readings.conventions.having(notes=["`textures` was split half and half by class."])
    assert summary(readings)[-1] == "`textures` was split half and half by class."


def test_readings_without_probes_say_nothing() -> None:
    assert summary(Readings()) == []


def test_readings_during_training_are_judged_at_the_last_step() -> None:
    assert summary(watched())[0] == "Extractor: layers 1-3 of 6, tunnel: 4-6."


def test_two_scans_are_told_apart_in_words() -> None:
    plain = scan(ranks=[*range(5, 23), 23.0], accuracy=0.97)
    decayed = scan(ranks=[*range(5, 23), 7.0], accuracy=0.968)
    said = comparison({"plain": plain, "decayed": decayed})
    assert said[0] == (
        "At the last layer the numerical rank is 23 in `plain` against 7 in `decayed`, "
        "at accuracies of 97 % and 96.8 %."
    )
    assert said[1] == "The tunnel starts after layer 8 of 19 in `plain` and after layer 8 of 19 in `decayed`."
    assert said[2].startswith("The best features for `textures` reach 48 % in `plain` (layer 7)")


def test_a_rank_that_is_missing_is_not_compared() -> None:
    assert comparison({"one": scan(), "two": Readings()}) == []
    assert comparison({"one": scan()}) == []


def test_the_summary_agrees_with_the_probe_curve() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        probe = np.round(np.sort(rng.uniform(0.2, 0.99, 12)), 3).tolist()
        first = next(i for i, value in enumerate(probe) if value >= 0.95 * probe[-1] - 1e-9)
        said = summary(scan(probe=probe, ood={}, accuracy=None, samples=1000))[0]
        assert said.startswith(f"Extractor: layers 1-{first + 1} of 12" if first else "Extractor: layer 1 of 12")


def test_a_network_far_below_its_probes_is_measured_against_the_last_probe() -> None:
    assert "own accuracy, 81 %" in summary(scan(probe=[0.5, 0.8, 0.9], accuracy=0.81))[1]
    said = summary(scan(probe=[0.5, 0.8, 0.9], accuracy=0.7))
    assert said[0] == (
        "The last-layer probe reaches 90 %, far above the network's own accuracy, 70 %: its output classes probably do "
        "not match these labels. The reference is the last-layer probe."
    )
    assert said[1].startswith("Extractor: layers 1-3 of 3")
    said = summary(scan(probe=[0.5, 0.89, 0.9], accuracy=0.7))
    assert any(sentence.startswith("Cut after layer 2: 89 % accuracy, ") for sentence in said)
    assert not any("of the accuracy" in sentence for sentence in said)


def test_a_cut_that_is_better_than_the_network_is_told_as_a_gain() -> None:
    said = summary(scan(probe=[0.5, 0.75, 0.7], accuracy=0.7))
    assert any(sentence.startswith("Cut after layer 2: 75 % accuracy, +5.0 points over") for sentence in said)
    assert not any("107" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("own", "relabelled", "told"),
    [
        (0.11, 0.12, "own accuracy, 11 % .*, is not clearly above chance, 10 %"),  # untrained
        (0.03, 0.15, "own accuracy, 3 % .*, is not clearly above chance"),
        (
            0.15,
            0.25,
            "own accuracy, 15 %, is little above chance, 10 %, and the last-layer probe reaches 90 %",
        ),  # some luck, and features are far better
        (0.11, 0.85, "do not match these labels"),  # it has learnt this data under other names
        (0.01, 0.88, "do not match these labels"),
        (0.5, 0.5, "do not match these labels"),
    ],
)
def test_a_network_that_has_not_learnt_is_told_from_one_that_names_classes_otherwise(
    own: float, relabelled: float, told: str
) -> None:
    readings = scan(probe=[0.5, 0.88, 0.9], accuracy=own)
    readings.conventions = readings.conventions.having(relabelled_accuracy=relabelled, chance={"cifar10": 0.1})
    first = summary(readings)[0]
    assert re.search(told, first)
    found = entrance(readings)
    assert found is not None
    assert (found.tunnel.start is None) == first.startswith("No tunnel")
    assert bool(found.tunnel.reason) == first.startswith("No tunnel")


@pytest.mark.parametrize(("own", "refused"), [(0.135, True), (0.17, False)])
def test_outputs_that_predict_little_of_what_the_last_probe_does_may_be_random(own: float, refused: bool) -> None:
    readings = scan(probe=[0.2, 0.19, 0.19], accuracy=own)
    readings.conventions = readings.conventions.having(relabelled_accuracy=own, chance={"cifar10": 0.1})
    assert summary(readings)[0].startswith("No tunnel") == refused


def test_outputs_that_name_the_largest_class_under_another_name_have_learnt_nothing() -> None:
    readings = scan(probe=[0.5, 0.6, 0.53], accuracy=0.1)
    readings.conventions = readings.conventions.having(relabelled_accuracy=0.45, chance={"cifar10": 0.45})
    assert "own accuracy, 10 % " in summary(readings)[0]
    assert summary(readings)[0].startswith("No tunnel")


def test_an_accuracy_whose_interval_includes_chance_gives_no_tunnel() -> None:
    for own, chance, refused in ((0.98, 0.1, False), (0.12, 0.1, True), (0.9, 0.9, True), (0.95, 0.9, False)):
        readings = scan(probe=[own / 2, own, own], accuracy=own)
        readings.conventions = readings.conventions.having(chance={"cifar10": chance})
        assert summary(readings)[0].startswith("No tunnel") == refused


def test_chance_is_that_of_equal_classes_where_older_readings_do_not_say() -> None:
    readings = scan(probe=[0.2, 0.2], accuracy=0.2)
    readings.conventions = readings.conventions.having(class_count=5)
    assert "is not clearly above chance, 20 %" in summary(readings)[0]


def test_random_weights_and_constant_features_give_no_tunnel() -> None:
    readings = scan()
    readings.conventions = readings.conventions.having(weights="random")
    assert summary(readings)[0] == "No tunnel: the network has random weights."
    readings = scan()
    last = max(row.index for row in readings.rows if row.index is not None)
    readings.rows[:] = [row for row in readings.rows if (row.measure, row.index) != ("numerical_rank", last)]
    readings.add(
        "numerical_rank", NAN, place="x", index=last, total=last + 1, data="cifar10", split="test", note=CONSTANT
    )
    assert "same for every sample" in summary(readings)[0]


def test_a_comparison_says_which_scan_has_no_tunnel_and_why() -> None:
    untrained = scan()
    untrained.conventions = untrained.conventions.having(weights="random")
    said = comparison({"trained": scan(), "fresh": untrained})
    assert "No tunnel in `fresh`: the network has random weights." in said
    assert not any(sentence.startswith("The tunnel starts") for sentence in said)


def test_no_advice_is_given_that_was_not_measured() -> None:
    assert not any("freeze" in sentence for sentence in summary(scan()))
