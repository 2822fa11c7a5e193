"""Networks at a temperature: one start for all, the best rate, divergence as a reading, looks, kappa."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from winze.data import Dataset
from winze.lab.bench import Bench
from winze.lab.quantities import hidden
from winze.networks import build
from winze.readings import Readings, ReadingsError
from winze.recipes.temperature import heated
from winze.recipes.temperature.heated import best_factor, work
from winze.recipes.temperature.looks import Looks
from winze.recipes.temperature.quantities import QUANTITIES, Kappa, added_late, late_over_early
from winze.recipes.temperature.settings import TEMPERATURES, arms_of
from winze.recipes.temperature.training import TABLE, recipe
from winze.train import DivergedError, Hardware
from winze.train.fit import History

SMOKE = recipe.config("smoke", "mlp8_t10")
DATA = Dataset("none", torch.zeros(2, 1), torch.arange(2), torch.zeros(2, 1), torch.arange(2), ("a", "b"), "nowhere")


def quick(arm: str, **changes):
    config = recipe.config("smoke", arm)
    return replace(config, factors=(1.0,), training=replace(config.training, epochs=1), **changes)


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Readings of two temperatures of one seed, and of another seed."""
    found = {}
    for name, arm, seed in (("cold", "mlp8_t1", 0), ("hot", "mlp8_t100", 0), ("other", "mlp8_t1", 1)):
        bench = Bench(tmp_path_factory.mktemp(name), seed)
        work(quick(arm), bench)
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
    """A training that ends with given losses by rate; NaN diverges."""

    def train(study, bench, name, watch):
        shrinks = study.training.lr * study.training.weight_decay
        seen.append((name, torch.rand(1).item(), study.training.epochs, study.training.schedule, shrinks))
        loss = losses[study.training.lr]
        if math.isnan(loss):
            raise DivergedError("lost")
        return heated.Trained(nn.Identity(), DATA, None, History(({"loss": loss},), 1, 0.0))

    return train


@pytest.mark.parametrize(
    ("losses", "best"),
    [((3.0, 2.0, 1.0), 4.0), ((3.0, 1.0, 2.0), 2.0), ((3.0, 2.0, math.nan), 2.0), ((1.0, math.nan, math.nan), 1.0)],
)
def test_the_rate_is_the_one_with_the_lowest_loss_after_a_short_trial(losses, best, tmp_path, monkeypatch):
    config = replace(SMOKE, factors=(1.0, 2.0, 4.0), trial=3, training=replace(SMOKE.training, weight_decay=0.5))
    lr, seen = config.training.lr, []
    monkeypatch.setattr(heated, "train", losing(dict(zip((lr, 2 * lr, 4 * lr), losses, strict=True)), seen))
    bench = Bench(tmp_path)
    assert best_factor(config, bench) == best
    told = [row for row in bench.readings.rows if row.measure == "trial_loss"]
    np.testing.assert_array_equal([row.value for row in told], losses)
    assert all(("lost" in row.note) == math.isnan(row.value) for row in told)
    names, draws, epochs, schedules, shrinks = zip(*seen, strict=True)
    assert names == ("try-0", "try-1", "try-2")
    assert len(set(draws)) == 1, "every trial starts from the same weights"
    assert set(epochs) == {3}
    assert set(schedules) == {"constant"}
    assert set(shrinks) == {lr * 0.5}, "a step shrinks weights as much at every rate"


def test_a_single_factor_needs_no_trial(tmp_path, monkeypatch):
    monkeypatch.setattr(heated, "train", None)
    assert best_factor(replace(SMOKE, factors=(7.0,)), Bench(tmp_path)) == 7


def test_trials_are_not_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.compile", lambda net: pytest.fail("a trial takes less time than that"))
    bench = Bench(tmp_path, hardware=Hardware("cpu", compile=True))
    assert best_factor(replace(SMOKE, factors=(1.0, 2.0)), bench) in (1, 2)
    assert bench.hardware.compile


def test_divergence_is_a_reading_and_its_claims_say_why(tmp_path, read):
    config = quick("mlp8_t100")
    bench = Bench(tmp_path)
    work(replace(config, factors=(1e30,), training=replace(config.training, clip=None)), bench)
    assert QUANTITIES["diverged"](bench.readings) == 1
    with pytest.raises(ReadingsError, match=r"was not read \(training: training diverged: the loss is"):
        QUANTITIES["rank_at_the_end"](bench.readings)
    runs = {"mlp8_t1": {0: read["cold"]}, "mlp8_t100": {0: bench.readings}}
    told = {claim.text: one for claim, one in recipe.verdicts("cpu", runs)}
    lost = told["the weights of MLP-8 are larger at T = 100 than at T = 1"]
    assert lost.word == "not run"
    assert "diverged" in lost.sentence


class StopError(Exception):
    """A kill in the middle."""


def test_a_run_that_was_killed_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    config = replace(SMOKE, factors=(1.0, 3.0))
    whole = Bench(tmp_path / "whole")
    work(config, whole)
    calls = []

    def die(self, net, step, look=Looks.__call__):
        calls.append(step)
        if step == 5:
            raise StopError
        look(self, net, step)

    often = replace(config, training=replace(config.training, checkpoint_every=1))
    with monkeypatch.context() as patch:
        patch.setattr(Looks, "__call__", die)
        with pytest.raises(StopError):
            work(often, Bench(tmp_path / "killed"))
    again = Bench(tmp_path / "killed")
    work(often, again)
    assert again.readings.table.to_csv() == whole.readings.table.to_csv()
    for name, array in whole.readings.arrays.items():
        np.testing.assert_array_equal(again.readings.arrays[name], array)


def test_looks_see_a_layer_that_reads_what_it_is_fed():
    torch.manual_seed(0)
    net = build("winze/mlp3x20", 4, inputs=20)
    samples = torch.randn(200, 20)
    fed = net.layers[0](samples).detach()
    with torch.no_grad():
        net.layers[1][0].weight.copy_(torch.diag(torch.arange(20, 0, -1.0)) @ torch.linalg.svd(fed)[2])
    looks = Looks(net, samples, "points", every=10, at=(5,), top=5)
    looks(net, 5)
    read, _ = rows(looks.readings, "alignment", 5)
    assert read > 0.99
    assert looks.readings.arrays["alignment/5"][0].diagonal().min() > 250
    looks(net, 6)
    assert not rows(looks.readings, "logits_norm", 6)


def test_looks_read_channels_of_convolutions_over_all_positions():
    torch.manual_seed(0)
    net = build("winze/resnet20x0.5", 4)
    samples = torch.randn(3, 3, 8, 8)
    looks = Looks(net, samples, "pictures", every=1, at=(0,), top=4)
    looks(net.train(), 0)
    assert net.training
    assert len(rows(looks.readings, "alignment", 0)) == 18
    conv = net.stages[0][0].branch.conv1.weight.detach().double()
    weights = torch.cat([conv[:, :, i, j] for i in range(3) for j in range(3)])
    x = net.eval().stem(samples).detach().movedim(1, -1).flatten(0, 2).double()
    expected = (torch.linalg.svd(weights)[2][:4] @ torch.linalg.svd(x, full_matrices=False)[2][:4].T).abs()
    assert rows(looks.readings, "alignment", 0)[0] == pytest.approx(float(expected.diagonal().mean()), abs=1e-4)


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


def test_norms_are_compared_between_the_halves_of_the_hidden_layers():
    assert late_over_early(np.array([2.0, 2.0, 1.0, 1.0, 99.0])) == pytest.approx(0.5)
    assert added_late(np.array([1.0, 2.0, 4.0, 8.0, 99.0])) == pytest.approx(0.75)


def test_every_cell_of_the_tables_is_claimed_at_the_papers_scale():
    told = {claim.check.arms[0]: [] for claim in recipe.claims_at("paper") if claim.text[:4] in ("κ of", "ρ of")}
    for claim in recipe.claims_at("paper"):
        if claim.text[:4] in ("κ of", "ρ of"):
            told[claim.check.arms[0]].append(claim.paper)
    for network, (_, kappas, rhos) in TABLE.items():
        for arm, kappa, rho in zip(arms_of(network), kappas, rhos, strict=True):
            assert told[arm] == [f"{kappa} %", f"{rho} %"]


@pytest.mark.parametrize("network", TABLE)
def test_temperatures_differ_in_nothing_but_the_loss_its_clip_and_the_rates_tried(network):
    configs = [recipe.config("paper", arm) for arm in arms_of(network)]
    assert [config.training.temperature for config in configs] == list(TEMPERATURES)
    assert [config.factors for config in configs][1:] == [(1, T**0.5, T) for T in TEMPERATURES[1:]]
    plain = [
        replace(config, factors=(), training=replace(config.training, temperature=1.0, clip=None)) for config in configs
    ]
    assert all(config == plain[0] for config in plain)


def test_stand_ins_are_named_where_they_are_used():
    for claim in recipe.claims_at("gpu"):
        if claim.check.quantity.startswith("rho") and claim.paper != "not in the thesis":
            assert "MNIST" in claim.departure_at("gpu")
            assert claim.departure_at("paper") == ""
    assert recipe.config("gpu", "resnet18_t1").ood == ("mnist", "tinyimagenet")
    assert recipe.config("paper", "resnet18_t1").ood[0] == "svhn"


def test_the_path_of_the_gpu_scale_runs_on_a_small_resnet(tmp_path):
    config = recipe.config("gpu", "resnet18_t10")
    assert (config.training.precision, config.pool) == ("bf16-mixed", 2)
    config = replace(
        config,
        network="winze/resnet18x0.0625",
        data="digits[0-4]",
        ood=("digits[5-9]",),
        size=16,
        limit=40,
        factors=(3.0,),
        look_at=(0, 1),
        every_look=1,
        look_samples=16,
        training=replace(config.training, epochs=1, batch=32, milestones=()),
    )
    bench = Bench(tmp_path)
    work(config, bench)
    assert len(bench.readings.curve("weight_norm")) == 18
    assert len(bench.readings.curve("probe", data="digits[5-9]")) == 18
    assert bench.readings.arrays["alignment/1"].shape == (4, 15, 15)
    assert 0 < QUANTITIES["kappa"](bench.readings) <= 1
