"""Networks trained as an ensemble end where each would have ended alone."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

import winze
from winze.data import spiral
from winze.networks import SpiralMLP
from winze.train import (
    SGD,
    Adam,
    AdamW,
    Checkpoints,
    Classify,
    Cosine,
    DivergedError,
    Epochs,
    Hardware,
    Lars,
    NAdam,
    Ramp,
    Training,
    fit,
    fit_ensemble,
)
from winze.train.ensemble import Ensemble

SEEDS = (3, 1)
POINTS, LABELS = spiral(26, seed=1)
DATA = POINTS.double(), LABELS  # 52 points: batches of 16 leave a last one of 4
TRAINING = Training(Epochs(2), batch=16, optimizer=AdamW(0.01))
ON_CPU = {"hardware": Hardware(accelerator="cpu"), "progress": False}
RULES = {
    "standard": None,
    "droppath": winze.DropPath(rate=0.4),
    "droppath per batch": winze.DropPath(rate=0.4, mask="batch", compute="dense"),
    "output": winze.ResidualDropPath(rate=0.4),
    "weights": winze.ResidualDropPath(rate=0.4, frozen="weights"),
    "output per batch": winze.ResidualDropPath(rate=0.4, mask="batch", compute="dense"),
}


def networks(rule: winze.Rule | None = None, count: int = 2, depth: int = 3) -> list[nn.Module]:
    torch.manual_seed(7)
    nets = [SpiralMLP(width=5, depth=depth).double() for _ in range(count)]
    return nets if rule is None else [winze.rewire(net, rule) for net in nets]


def alternations(nets: list[nn.Module], every: int = 1) -> list[winze.Alternation] | None:
    staged = winze.junctions(nets[0])[0].rule.staged
    return [winze.Alternation(net, every, rows=16, seed=i) for i, net in enumerate(nets)] if staged else None


def alternations_of(nets: list[nn.Module]) -> list[winze.Alternation]:
    """Those that steer the networks now."""
    return [winze.junctions(net)[0].moment.alternation for net in nets]


def one_after_the_other(nets: list[nn.Module], training: Training = TRAINING, every: int = 1) -> list[float]:
    """The mean loss of all networks in each epoch, each trained by `fit`."""
    each = alternations(nets, every) or [None] * len(nets)
    told = [
        fit(net, DATA, training, seed=seed, followers=[one] if one else [], **ON_CPU).losses
        for net, seed, one in zip(nets, SEEDS, each, strict=True)
    ]
    return torch.tensor(told, dtype=torch.float64).mean(0).tolist()


def assert_same(nets: list[nn.Module], others: list[nn.Module], within: float = 1e-10) -> None:
    for one, other in zip(nets, others, strict=True):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=within)


@pytest.mark.parametrize("name", ["standard", "output", "weights", "output per batch"])
def test_every_rule_without_draws_of_its_own_trains_each_network_as_fit_does(name):
    together, alone = networks(RULES[name]), networks(RULES[name])
    start = deepcopy(together)
    each = alternations(together)
    history = fit_ensemble(together, DATA, TRAINING, seeds=SEEDS, alternations=each, **ON_CPU)
    told = one_after_the_other(alone)
    assert_same(together, alone)
    assert history.losses == pytest.approx(told, rel=1e-6)  # kept in float32
    for one, other in zip(each or (), alternations_of(alone), strict=False):
        assert (one.stage, one.keep(1, 16).tolist()) == (other.stage, other.keep(1, 16).tolist())
    with pytest.raises(AssertionError):
        assert_same(together, start)


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": Adam(0.01)},
        {"optimizer": NAdam(0.01, weight_decay=0.1)},
        {"optimizer": SGD(0.01, momentum=0.9, nesterov=True, weight_decay=0.1)},
        {"clip": 0.05},
        {"schedule": Cosine(warmup=Epochs(1)), "objective": Classify(smoothing=0.1), "drop_last": True},
        {"objective": Classify(temperature=Ramp(1.0, 4.0), compensate=True)},
        {"ema": 0.9},
        {"repeat": 2},
    ],
    ids=str,
)
def test_every_way_to_train_is_the_same(change):
    training = replace(TRAINING, **change)
    together, alone = networks(), networks()
    fit_ensemble(together, DATA, training, seeds=SEEDS, **ON_CPU)
    one_after_the_other(alone, training)
    assert_same(together, alone)


def test_stages_may_last_several_steps():
    rule = RULES["output"]
    together, alone = networks(rule), networks(rule)
    each = alternations(together, every=3)
    fit_ensemble(together, DATA, TRAINING, seeds=SEEDS, alternations=each, **ON_CPU)
    one_after_the_other(alone, every=3)
    assert_same(together, alone)


def test_networks_differ_in_data_order_and_masks_even_from_one_start():
    rule = RULES["output"]
    nets = [deepcopy(net) for net in networks(rule, 1) for _ in range(3)]
    fit_ensemble(nets, DATA, TRAINING, seeds=(0, 0, 1), alternations=alternations(nets), **ON_CPU)
    ends = [net.output.weight for net in nets]
    assert not torch.allclose(ends[0], ends[1], atol=1e-4)  # other masks
    assert not torch.allclose(ends[0], ends[2], atol=1e-4)  # another order


@pytest.mark.parametrize("name", ["droppath", "output"])
def test_a_training_that_was_killed_goes_on_bit_for_bit(name, tmp_path):
    training = replace(TRAINING, length=Epochs(3))

    def train(folder, stop=None):
        nets = networks(RULES[name])
        given = {"seeds": SEEDS, "alternations": alternations(nets), "checkpoints": Checkpoints(folder), **ON_CPU}
        fit_ensemble(nets, DATA, training, followers=[stop] if stop else [], **given)
        return nets

    def stop(net, step):
        if step == 6:
            raise KeyboardInterrupt

    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", stop)
    assert_same(train(tmp_path / "killed"), whole, within=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="captured steps need a GPU")
@pytest.mark.parametrize("name", RULES)
def test_captured_steps_train_an_ensemble_as_plain_ones_do(name):
    ends = []
    for step in ("plain", "graph"):
        nets = networks(RULES[name])
        hardware = Hardware(accelerator="cuda", step=step)
        given = {"seeds": SEEDS, "alternations": alternations(nets), "hardware": hardware, "progress": False}
        fit_ensemble(nets, DATA, TRAINING, **given)
        ends.append([net.cpu() for net in nets])
    assert_same(*ends)


def test_a_network_that_diverges_does_not_disturb_the_others():
    together, alone = networks(), networks()
    with torch.no_grad():
        together[1].output.weight.fill_(torch.nan)
    with pytest.warns(
        UserWarning, match="1 of 2 networks diverged, those of seeds 1: losses are means over the others"
    ):
        history = fit_ensemble(together, DATA, TRAINING, seeds=SEEDS, **ON_CPU)
    assert history.lost == (1,)
    with pytest.raises(DivergedError):
        fit(deepcopy(together[1]), DATA, TRAINING, **ON_CPU)
    only = fit(alone[0], DATA, TRAINING, seed=SEEDS[0], **ON_CPU).losses
    assert history.losses == pytest.approx(only, rel=1e-6)
    assert_same(together[:1], alone[:1])
    assert together[1].output.weight.isnan().all()


def test_networks_that_all_diverge_are_an_error():
    nets = networks()
    with torch.no_grad():
        for net in nets:
            net.output.weight.fill_(torch.nan)
    with pytest.raises(DivergedError, match="the loss is nan at step 1"):
        fit_ensemble(nets, DATA, TRAINING, seeds=SEEDS, **ON_CPU)


def test_a_network_that_diverged_before_a_stop_is_still_named_after_it(tmp_path):
    nets = networks()
    with torch.no_grad():
        nets[0].output.weight.fill_(torch.nan)
    for training in (TRAINING, replace(TRAINING, length=Epochs(3))):
        with pytest.warns(UserWarning, match="seeds 3:"):
            fit_ensemble(nets, DATA, training, seeds=SEEDS, checkpoints=Checkpoints(tmp_path), **ON_CPU)


def test_labels_beyond_the_outputs_are_refused_for_an_ensemble_too():
    with pytest.raises(ValueError, match="labels go up to 2, but SpiralMLP outputs 2 classes"):
        fit_ensemble(networks(), (DATA[0], LABELS + 1), TRAINING, seeds=SEEDS, **ON_CPU)


@pytest.mark.parametrize("drawn", ["dropout", "droppath", "droppath per batch"])
def test_random_numbers_inside_a_forward_differ_between_networks_from_one_start(drawn):
    nets = networks(RULES.get(drawn), 1)
    if drawn == "dropout":
        nets = [nn.Sequential(nn.Linear(2, 4), nn.Dropout(), nn.Linear(4, 2)).double()]
    nets = [deepcopy(nets[0]) for _ in range(2)]
    fit_ensemble(nets, DATA, TRAINING, seeds=(0, 0), **ON_CPU)
    assert not torch.allclose(*(next(net.parameters()) for net in nets), atol=1e-4)


@pytest.mark.parametrize("rule", [winze.ResidualDropPath(mask="batch"), winze.ResidualDropPath(compute="rows")])
def test_a_rule_that_looks_at_masks_in_python_is_told_what_to_do(rule):
    nets = networks(rule)
    with pytest.raises(ValueError, match='compute="dense"'):
        fit_ensemble(nets, DATA, TRAINING, seeds=SEEDS, alternations=alternations(nets), **ON_CPU)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"optimizer": Lars(0.1)}, "Lars"),
        ({"optimizer": SGD(decay_vectors=False)}, "decay_vectors"),
        ({"optimizer": SGD(rates=(("weights", 0.1),))}, "rates="),
        ({"precision": "16-mixed"}, "16-mixed"),
        ({"augment": (winze.data.Flip(),)}, "augmented"),
    ],
)
def test_what_an_ensemble_cannot_share_is_refused(change, word):
    with pytest.raises(ValueError, match=word):
        fit_ensemble(networks(), DATA, replace(TRAINING, **change), seeds=SEEDS, **ON_CPU)


def test_networks_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="one seed for each of 2 networks"):
        fit_ensemble(networks(), DATA, TRAINING, seeds=(0, 1, 2), **ON_CPU)
    with pytest.raises(ValueError, match="one architecture"):
        Ensemble([*networks(count=1), *networks(count=1, depth=2)])
    with pytest.raises(ValueError, match="BatchNorm"):
        Ensemble([nn.BatchNorm1d(2)])
    nets = networks()
    nets[1].output.bias.requires_grad_(False)
    with pytest.raises(ValueError, match="frozen parameters"):
        Ensemble(nets)
    nets = networks(RULES["output"])
    with pytest.raises(ValueError, match="rows="):
        Ensemble(nets, [winze.Alternation(net) for net in nets])
    each = alternations(nets)
    each[0].step()
    with pytest.raises(ValueError, match="in step"):
        Ensemble(nets, each)
