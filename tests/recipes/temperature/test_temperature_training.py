"""Networks at a temperature: one start for all, the best learning rate, divergence as a reading, kappa and rho."""

import math

import numpy as np
import pytest

from winze.lab.bench import Bench
from winze.lab.claims.quantities import hidden
from winze.observe.layer_alignment import AlignmentWatch
from winze.readings import Point, Readings, ReadingsError
from winze.recipes.temperature import _work, factors, schedule
from winze.recipes.temperature._settings import (
    KAPPA,
    QUANTITIES,
    RHO,
    STAND_IN,
    Kappa,
    added_late,
    cells,
    late_over_early,
)
from winze.recipes.temperature._work import best_factor, work
from winze.recipes.temperature.training import recipe
from winze.train import SGD, DivergedError, Epochs, Hardware, History
from winze.train.fields import replaced

TEMPERATURES = (1, 10, 100, 1000)


def at(temperature: int | str, network: str = "mlp8") -> Point:
    return Point(network=network, temperature=temperature)


SMOKE = recipe.config("smoke", at(10))


def quick(temperature: int, **changes):
    return replaced(recipe.config("smoke", at(temperature)), {"training.length": Epochs(1), **changes})


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Readings of two temperatures of one seed, and of another seed."""
    found = {}
    for name, temperature, seed in (("cold", 1, 0), ("hot", 100, 0), ("other", 1, 1)):
        bench = Bench(tmp_path_factory.mktemp(name), seed)
        work(quick(temperature), bench)
        found[name] = bench.readings
    return found


def rows(readings: Readings, measure: str, step: int | None = None) -> list[float]:
    return [row.value for row in readings.rows if row.measure == measure and row.step == step]


def test_all_temperatures_start_from_the_same_weights(read):
    for measure, step in (("rank_before", None), ("logits_norm", 0), ("alignment", 0)):
        assert rows(read["cold"], measure, step) == rows(read["hot"], measure, step)
        assert rows(read["cold"], measure, step) != rows(read["other"], measure, step)
    assert rows(read["cold"], "weight_norm") != rows(read["hot"], "weight_norm")


def test_every_quantity_can_be_read(read):
    for name, quantity in QUANTITIES.items():
        assert math.isfinite(quantity(read["hot"])), name


def test_growth_compares_the_end_with_the_start(read):
    norms = [row.value for row in read["hot"].rows if row.measure == "logits_norm"]
    assert QUANTITIES["logits_growth"](read["hot"]) == pytest.approx(norms[-1] / norms[0])


def test_ranks_before_and_after_are_of_the_same_places(read):
    for measure in ("rank_before", "numerical_rank", "weight_norm"):
        assert len(read["cold"].curve(measure)) == 9
    assert hidden("rank_before")(read["cold"]) == read["cold"].curve("rank_before")[7]


def losing(losses: dict[float, float], seen: list):
    """A training that ends with given losses by learning rate; NaN diverges."""

    def learn(prepared, bench, name, training):
        optimizer, start = training.optimizer, next(prepared.net.parameters()).sum().item()
        shrinks = optimizer.lr * optimizer.weight_decay
        seen.append((name, start, training.length, training.schedule.rate(1, 1, 1), shrinks))
        if math.isnan(losses[optimizer.lr]):
            raise DivergedError("the loss is nan")
        return History(({"loss": losses[optimizer.lr]},), 1, 0.0)

    return learn


@pytest.mark.parametrize(
    ("losses", "best"),
    [((3.0, 2.0, 1.0), 4.0), ((3.0, 1.0, 2.0), 2.0), ((3.0, 2.0, math.nan), 2.0), ((1.0, math.nan, math.nan), 1.0)],
)
def test_the_learning_rate_has_the_lowest_loss_after_a_short_trial(losses, best, tmp_path, monkeypatch):
    config = replaced(SMOKE, {"factors": (1.0, 2.0, 4.0), "trial": 3, "training.optimizer": SGD(0.1, weight_decay=0.5)})
    seen: list = []
    monkeypatch.setattr(_work, "learn", losing(dict(zip((0.1, 0.2, 0.4), losses, strict=True)), seen))
    bench = Bench(tmp_path)
    assert best_factor(config, bench) == best
    told = [row for row in bench.readings.rows if row.measure == "trial_loss"]
    np.testing.assert_array_equal([row.value for row in told], losses)
    assert all(("the loss is nan" in row.note) == math.isnan(row.value) for row in told)
    names, starts, lengths, shares, shrinks = zip(*seen, strict=True)
    assert names == ("try-0", "try-1", "try-2")
    assert len(set(starts)) == 1, "every trial starts from the same weights"
    assert set(lengths) == {Epochs(3)}
    assert set(shares) == {1}, "trials have a constant learning rate"
    assert shrinks == pytest.approx((0.05,) * 3), "a step shrinks weights as much at every learning rate"


def test_a_study_whose_trials_all_diverge_diverges(tmp_path, monkeypatch):
    monkeypatch.setattr(_work, "learn", losing({0.05: math.nan, 0.1: math.nan}, []))
    with pytest.raises(DivergedError, match="the loss is nan"):
        best_factor(replaced(SMOKE, {"factors": (1.0, 2.0)}), Bench(tmp_path))


def test_a_single_factor_needs_no_trial(tmp_path, monkeypatch):
    monkeypatch.setattr(_work, "learn", None)
    assert best_factor(replaced(SMOKE, {"factors": (7.0,)}), Bench(tmp_path)) == 7


def test_trials_are_not_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.compile", lambda net: pytest.fail("a trial takes less time than that"))
    bench = Bench(tmp_path, hardware=Hardware("cpu", compile=True))
    assert best_factor(replaced(SMOKE, {"factors": (1.0, 2.0)}), bench) in (1, 2)
    assert bench.hardware.compile


def test_divergence_is_a_reading_and_its_claims_say_why(tmp_path, read):
    bench = Bench(tmp_path)
    work(quick(100, **{"factors": (1e30,), "training.clip": None}), bench)
    assert QUANTITIES["diverged"](bench.readings) == 1
    with pytest.raises(ReadingsError, match=r"was not read \(training: training diverged: the loss is"):
        QUANTITIES["last_rank"](bench.readings)
    runs = {at(1): {0: read["cold"]}, at(100): {0: bench.readings}}
    told = {one.statement.text: one for one in recipe.verdicts("cpu", runs)}
    lost = told["early in training layers are more aligned with their inputs at T = 100 than at T = 1"]
    assert lost.word == "not run"
    assert "diverged" in lost.cells[0][1].sentence


class StopError(Exception):
    """A kill in the middle."""


def test_a_run_that_was_killed_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    config = replaced(SMOKE, {"factors": (1.0, 3.0)})
    whole = Bench(tmp_path / "whole")
    work(config, whole)

    def die(self, net, step, after=AlignmentWatch.after_step):
        if step == 5:
            raise StopError
        after(self, net, step)

    often = replaced(config, {"training.checkpoint": Epochs(1)})
    with monkeypatch.context() as patch:
        patch.setattr(AlignmentWatch, "after_step", die)
        with pytest.raises(StopError):
            work(often, Bench(tmp_path / "killed"))
    again = Bench(tmp_path / "killed")
    work(often, again)
    assert again.readings.table.to_csv() == whole.readings.table.to_csv()
    for name, array in whole.readings.arrays.items():
        np.testing.assert_array_equal(again.readings.arrays[name], array)


def curve(values: list[float], network: str, layers: int) -> Readings:
    readings = Readings(conventions={"network": network, "data": "d", "layer_count": layers})
    for index, value in enumerate(values):
        readings.add("probe", value, place=f"p{index}", index=index, total=len(values), data="d", split="test")
    return readings


@pytest.mark.parametrize(
    ("values", "network", "expected"),
    [
        ([0.5, 0.99, 1.0, 0.9], "winze/mlp4", 2 / 4),
        ([0.5, 0.98, 1.0, 0.9], "winze/mlp4", 3 / 4),
        ([0.5, 0.8, 0.9, 1.0], "winze/mlp3x16", 3 / 3),  # the output does not count
        ([0.5, 0.8, 0.9, 1.0], "winze/resnet4", 4 / 4),
    ],
)
def test_kappa_is_the_first_layer_as_good_as_the_best_over_the_number_in_the_name(values, network, expected):
    assert Kappa()(curve(values, network, len(values))) == pytest.approx(expected)


def test_kappa_is_known_to_half_a_layer():
    assert Kappa().spread(curve([0.5, 0.99, 1.0, 0.9], "winze/mlp4", 4)) == pytest.approx((0.375, 0.625))


def test_kappa_of_a_network_without_a_number_is_refused():
    with pytest.raises(ReadingsError, match="no number of layers"):
        Kappa()(curve([0.5, 1.0], "my_net", 2))


def test_rho_is_read_before_the_output_and_with_it():
    readings = curve([0.9, 0.9, 0.9, 0.9], "winze/mlp3", 4)
    for index, value in enumerate([0.5, 0.8, 0.6, 0.2]):
        readings.add("probe", value, place=f"p{index}", index=index, total=4, data="other", split="test")
    assert QUANTITIES["rho"](readings) == pytest.approx(0.25)
    assert QUANTITIES["rho_at_the_output"](readings) == pytest.approx(0.75)
    assert QUANTITIES["rho_of_the_second"](readings) == pytest.approx(0.25), "where there is one set, it is that"
    for index, value in enumerate([0.1, 0.4, 0.2, 0.1]):
        readings.add("probe", value, place=f"p{index}", index=index, total=4, data="another", split="test")
    assert QUANTITIES["rho"](readings) == pytest.approx(0.25)
    assert QUANTITIES["rho_of_the_second"](readings) == pytest.approx(0.5)
    assert QUANTITIES["rho_of_the_second_at_the_output"](readings) == pytest.approx(0.75)


def test_the_norm_that_late_layers_add_is_that_after_the_middle_of_the_hidden_layers():
    assert added_late(np.array([1.0, 2.0, 4.0, 8.0, 99.0])) == pytest.approx(0.75)
    assert added_late(np.array([1.0, 2.0, 4.0, 99.0])) == pytest.approx(0.5)


def test_weights_are_compared_between_the_halves_of_the_hidden_layers():
    assert late_over_early(np.array([2.0, 2.0, 1.0, 1.0, 99.0])) == pytest.approx(0.5)


@pytest.mark.parametrize(("quantity", "table"), [("kappa", KAPPA), ("rho", RHO)])
def test_every_cell_of_the_tables_is_claimed_at_the_papers_scale(quantity, table):
    (claim,) = [one for one in recipe.claims if one.check.quantity == quantity and "paper" in (one.scales or ())]
    judged = claim.cells(recipe.grid("paper"))
    assert {claim.key(cell): claim.published(cell) for cell in judged} == cells(table)
    assert len(judged) == 20


@pytest.mark.parametrize("network", KAPPA)
def test_temperatures_differ_in_nothing_but_the_loss_its_clip_and_the_learning_rates_tried(network):
    configs = [recipe.config("paper", at(temperature, network)) for temperature in TEMPERATURES]
    assert [config.training.objective.temperature for config in configs] == list(TEMPERATURES)
    assert [config.training.clip for config in configs] == [5 / temperature for temperature in TEMPERATURES]
    assert [config.factors for config in configs][1:] == [(1, T**0.5, T) for T in TEMPERATURES[1:]]
    same = {"factors": (1.0,), "training.objective.temperature": 1.0, "training.clip": None}
    plain = [replaced(config, same) for config in configs]
    assert all(config == plain[0] for config in plain)


def test_the_norm_as_temperature_has_the_clip_and_the_learning_rate_of_one():
    same = {"training.objective.temperature": 1.0}
    assert replaced(recipe.config("gpu", at("norm")), same) == recipe.config("gpu", at(1))


def test_stand_ins_are_named_where_they_are_used():
    assert STAND_IN in recipe.scales["gpu"].departures
    for claim in recipe.claims:
        if claim.check.quantity in ("rho", "ood_peak") and claim.scales is None:
            assert claim.departure == STAND_IN
    assert recipe.config("gpu", at(1, "resnet18")).reading.ood == ("mnist", "tinyimagenet")
    assert recipe.config("paper", at(1, "resnet18")).reading.ood[0] == "svhn"


def test_schedules_multiply_the_loss_by_the_temperature_and_factors_change_the_network_alone():
    for point in schedule.recipe.grid("gpu").points:
        assert schedule.recipe.config("gpu", point).training.objective.compensate
    configs = [factors.recipe.config("gpu", point) for point in factors.recipe.grid("gpu").points]
    assert configs[0].network.options == {}
    assert all(replaced(config, {"network.options": {}}) == configs[0] for config in configs)


def test_the_path_of_the_gpu_scale_runs_on_a_small_resnet(tmp_path):
    config = recipe.config("gpu", at(10, "resnet18"))
    assert (config.training.precision, config.reading.pool) == ("bf16-mixed", 2)
    small = {
        "network.name": "winze/resnet18x0.0625",
        "data.name": "digits[0-4]",
        "data.size": 16,
        "data.limit": 40,
        "reading.ood": ("digits[5-9]",),
        "factors": (3.0,),
        "align_at": (0, 1),
        "logits_every": 1,
        "samples": 16,
        "training.length": Epochs(1),
        "training.batch": 32,
    }
    bench = Bench(tmp_path)
    work(replaced(config, small), bench)
    assert len(bench.readings.curve("weight_norm")) == 18
    assert len(bench.readings.curve("probe", data="digits[5-9]")) == 18
    assert bench.readings.arrays["alignment/1"].shape == (4, 15, 15)
    assert 0 < QUANTITIES["kappa"](bench.readings) <= 1
