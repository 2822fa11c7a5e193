"""Networks at several learning rates: they share their start, and are compared at the same training loss."""

import math
from dataclasses import replace

import pytest
import torch

from winze.lab.bench import Bench
from winze.lab.claims.quantities import At
from winze.lab.study import prepare
from winze.place import Place
from winze.readings import Point, Readings, ReadingsError
from winze.recipes.tunnel._course import COURSE, LOSS, AtLoss, follow
from winze.recipes.tunnel.learning_rate import recipe
from winze.report.experiment import UnreadError


def course(losses: dict[int, float]) -> Readings:
    """The rank of the one layer is the step at which it was read."""
    readings = Readings(conventions={"data": "digits", "places": ["one"]})
    for step, loss in losses.items():
        readings.add(LOSS, loss, data="digits", split="train", step=step)
        where = {"place": Place(0, 1, "one"), "data": "digits", "split": "test", "step": step}
        readings.add(COURSE["numerical_rank"], step, **where)
    return readings


def test_the_network_is_read_where_the_loss_first_reaches_the_level():
    readings = course({2: 1.0, 4: 0.5, 6: 0.7, 8: 0.1})
    assert AtLoss(At("numerical_rank", 0), 0.5)(readings) == 4
    assert AtLoss(At("numerical_rank", 0), 0.49)(readings) == 8


def test_a_loss_that_is_never_reached_is_missing_with_the_reason():
    value = AtLoss(At("numerical_rank", 0), 0.05)(course({2: 1.0, 4: 0.5}))
    assert math.isnan(value)
    assert "0.05" in value.note
    with pytest.raises(ReadingsError, match="course"):
        AtLoss(At("numerical_rank", 0), 0.05)(Readings())


def test_figures_over_the_loss_are_left_out_where_no_course_was_read():
    (figure,) = (one for one in recipe.figures if one.title == "During training")
    with pytest.raises(UnreadError, match="course"):
        figure.draw({Point(network="vgg19", rate=0.1): [Readings(conventions={"data": "digits"})]})


def test_learning_rates_differ_in_nothing_else_and_share_their_initial_weights(tmp_path):
    points = [Point(network="vgg19", rate=rate) for rate in (0.01, 0.2)]
    slow, fast = (recipe.config("cpu", point) for point in points)
    assert slow != fast
    assert replace(slow, training=fast.training) == fast
    assert replace(slow.training, optimizer=fast.training.optimizer) == fast.training
    first, second = (prepare(one, Bench(tmp_path / str(at))).net for at, one in enumerate((slow, fast)))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_course_has_own_and_ood_probes_at_every_layer_beside_the_last_scan(tmp_path):
    bench = Bench(tmp_path / "run")
    follow(recipe.config("smoke", Point(network="vgg19", rate=0.1)), bench)
    rows = [row for row in bench.readings.rows if row.measure == COURSE["probe"]]
    places, last = bench.readings.conventions["places"], max(row.step for row in rows)
    for data in ("digits[0-4]", "digits[5-9]"):
        assert [row.place for row in rows if row.data == data and row.step == last] == places
    assert max(row.step for row in bench.readings.rows if row.measure == LOSS) == last
