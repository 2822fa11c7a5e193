"""Arms side by side: the mean of each over training, over depth and over a setting."""

import numpy as np
import pytest
from synthetic import scan

from winze.readings import Readings
from winze.report.by_arm import depth_by_arm, training_by_arm
from winze.report.doses import Panel, doses
from winze.report.scans import UnreadError
from winze.report.style import THEMES


def looked(*accuracies: float, network: str = "resnet18") -> Readings:
    made = Readings(conventions={"network": network})
    for number, value in enumerate(accuracies, 1):
        made.add("accuracy", value, data="cifar10", split="test", step=100 * number)
    made.add("accuracy", 0.123, data="cifar10", split="test")
    return made


def lines(axes) -> dict[str, list[float]]:
    return {line.get_label(): np.round(line.get_ydata(), 6).tolist() for line in axes.get_lines()}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accuracy_over_training_is_the_mean_of_the_seeds(theme):
    arms = {"cifar10_standard": [looked(0.2, 0.4), looked(0.4, 0.6)], "cifar10_output_batch": [looked(0.1, 0.3)]}
    axes = training_by_arm(arms, theme).axes[0]
    assert lines(axes) == {"standard": [0.3, 0.5], "output, batch": [0.1, 0.3]}
    assert axes.get_lines()[0].get_xdata().tolist() == [100, 200]


def test_each_network_has_a_panel_of_its_own():
    arms = {"a": [looked(0.2)], "b": [looked(0.3, network="vit")]}
    assert [axes.get_title(loc="left") for axes in training_by_arm(arms).axes] == ["resnet18", "vit"]


def test_steps_that_not_all_seeds_have_are_left_out():
    axes = training_by_arm({"a": [looked(0.2, 0.4, 0.6), looked(0.4, 0.6)]}).axes[0]
    assert lines(axes) == {"a": [0.3, 0.5]}


def test_a_measure_over_depth_is_the_mean_of_the_seeds():
    arms = {
        "x_plain": [scan([0.5, 0.9], ood={"t": [0.4, 0.2]}), scan([0.7, 1.0], ood={"t": [0.2, 0.2]})],
        "x_ours": [scan([0.1, 0.2], ood={})],
    }
    assert lines(depth_by_arm(arms, measure="probe").axes[0]) == {"plain": [0.6, 0.95], "ours": [0.1, 0.2]}
    assert lines(depth_by_arm(arms, measure="probe", other=True).axes[0]) == {"x, plain": [0.3, 0.2]}


def test_a_setting_is_drawn_with_every_run_and_the_mean_of_the_last_looks():
    panel = Panel("Rate", "rate", {"": {0.0: "plain", 0.1: "ours", 0.2: "never"}})
    drawing = doses({"plain": [looked(0.9, 0.2), looked(0.9, 0.4)], "ours": [looked(0.1)]}, panels=[panel])
    drawn = drawing.axes[0].get_lines()
    assert list(drawn[0].get_ydata()) == [0.2, 0.4]
    assert np.round(drawn[-1].get_ydata(), 6).tolist() == [0.3, 0.1]
    assert list(drawn[-1].get_xdata()) == [0.0, 0.1]


@pytest.mark.parametrize("draw", [training_by_arm, depth_by_arm, doses])
def test_nothing_that_was_read_is_told_not_drawn(draw):
    with pytest.raises(UnreadError):
        draw({"a": [Readings()]})


def test_training_is_counted_in_epochs_where_all_runs_tell_their_steps():
    arms = {"a": [looked(0.2, 0.4)], "b": [looked(0.1, 0.3)]}
    for runs in arms.values():
        runs[0].add("epoch_steps", 50)
    axes = training_by_arm(arms).axes[0]
    assert (axes.get_xlabel(), axes.get_lines()[0].get_xdata().tolist()) == ("epoch", [2, 4])
    axes = training_by_arm(arms | {"c": [looked(0.2, 0.4)]}).axes[0]
    assert (axes.get_xlabel(), axes.get_lines()[0].get_xdata().tolist()) == ("training step", [100, 200])


def test_arms_in_an_order_have_the_panels_and_names_that_are_said():
    arms = {name: [looked(0.2, 0.4)] for name in ("a1", "a2", "b1")}
    said = {"a1": ("first", "one"), "a2": ("first", "two"), "b1": ("second", "one")}
    drawing = training_by_arm(arms, said=said)
    assert [axes.get_title(loc="left") for axes in drawing.axes] == ["first", "second"]
    assert [list(lines(axes)) for axes in drawing.axes] == [["one", "two"], ["one"]]
    one, two = drawing.axes[0].get_lines()
    assert (one.get_color(), two.get_color()) == tuple(THEMES["light"].ramp_colours(2))


def test_panels_that_belong_together_share_a_scale_on_which_all_of_them_is_seen():
    arms = {"low": [looked(0.1, 0.2)], "high": [looked(0.8, 0.9)]}
    for order in (arms, dict(reversed(arms.items()))):
        one, two = training_by_arm(order, said={"low": ("first", "x"), "high": ("second", "x")}).axes
        assert one.get_ylim() == two.get_ylim()
        assert one.get_ylim()[0] < 0.1 < 0.9 < one.get_ylim()[1]


def test_more_lines_than_colours_can_be_drawn_in_their_order():
    panel = Panel("", "blocks", {f"line {number}": {1: f"arm{number}"} for number in range(9)}, ordered=True)
    drawing = doses({f"arm{number}": [looked(0.1)] for number in range(9)}, panels=[panel])
    colours = [line.get_color() for line in drawing.axes[0].get_lines() if line.get_label().startswith("line")]
    assert colours == THEMES["light"].ramp_colours(9)
