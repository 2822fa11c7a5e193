"""Settings that make no sense are refused in words."""

from dataclasses import dataclass

import pytest
import torch

from winze.networks import MLP
from winze.train import (
    SGD,
    Adam,
    AdamW,
    Classify,
    Constant,
    Cosine,
    Epochs,
    Goal,
    Lars,
    Milestones,
    NAdam,
    Objective,
    Steps,
    Training,
    fit,
)

DATA = torch.randn(40, 4), torch.arange(40) % 2


@pytest.mark.parametrize(
    ("made", "field", "value", "said"),
    [
        (Epochs(1), "count", -1, "count must be a finite number of at least 0"),
        (Epochs(1), "count", True, "count must be a finite number"),
        (Steps(1), "count", 1.5, "count must be a whole number of at least 0"),
        (Training(Epochs(2)), "length", 2, r"length must be Epochs \| Steps, not 2"),
        (Training(Epochs(2)), "batch", 0, "batch must be a whole number of at least 1"),
        (Training(Epochs(2)), "repeat", 0, "repeat must be"),
        (Training(Epochs(2)), "optimizer", "sgd", "optimizer must be Optimizer, not"),
        (Training(Epochs(2)), "schedule", "cosine", "schedule must be Constant, not"),
        (Training(Epochs(2)), "objective", "classify", "objective is a config such as Classify"),
        (Training(Epochs(2)), "precision", "fp16", r"precision must be '32-true' \| '64-true'"),
        (Training(Epochs(2)), "clip", float("inf"), "clip must be a positive number"),
        (Training(Epochs(2)), "ema", 1.0, "ema must be a number in"),
        (Training(Epochs(2)), "drop_last", "no", "drop_last must be bool, not"),
        (Training(Epochs(2)), "evaluate", Steps(0), "evaluate must be at least one step"),
        (Training(Epochs(2)), "checkpoint", 3, r"checkpoint must be Epochs \| Steps"),
        (Training(Epochs(2)), "schedule", Cosine(warmup=Epochs(3)), r"warmup must lie within Epochs\(count=2\)"),
        (Training(Steps(2)), "schedule", Cosine(warmup=Steps(3)), r"warmup must lie within Steps\(count=2\)"),
        (SGD(), "lr", 0.0, "lr must be a positive number"),
        (SGD(), "lr", float("nan"), "lr must be a positive number"),
        (Adam(), "lr", "0.1", "lr must be a positive number"),
        (SGD(), "momentum", 2.0, r"momentum must be a number in \[0, 1\)"),
        (Lars(), "momentum", float("nan"), "momentum must be a number in"),
        (SGD(), "nesterov", True, "nesterov needs a momentum"),
        (SGD(), "nesterov", "no", "nesterov must be bool"),
        (AdamW(), "weight_decay", -1.0, "weight_decay must be a finite number of at least 0"),
        (NAdam(), "betas", (0.9, 1.0), "betas must be tuple"),
        (Adam(), "betas", (0.9,), "betas must be tuple"),
        (SGD(), "rates", (("*", float("nan")),), "rates must be tuple"),
        (Constant(), "warmup_lr", float("inf"), "warmup_lr must be"),
        (Constant(), "per", "batch", r"per must be 'step' \| 'epoch'"),
        (Cosine(), "min_lr", -1.0, "min_lr must be"),
        (Milestones(), "gamma", -0.1, "gamma must be"),
        (Milestones(), "at", (-1,), "at must be tuple"),
        (Classify(), "smoothing", 1.0, "smoothing must be a number in"),
        (Classify(), "temperature", 0.0, "temperature must be a positive number"),
    ],
    ids=lambda one: None if isinstance(one, Training) else str(one),
)
def test_a_setting_that_makes_no_sense_is_refused(made, field, value, said):
    object.__setattr__(made, field, value)  # types are enforced while testing, before the check could speak
    with pytest.raises(ValueError, match=said):
        made.__post_init__()


@pytest.mark.parametrize(
    ("training", "said"),
    [
        (
            Training(Epochs(1), 16, drop_last=True, schedule=Constant(warmup=Steps(3))),
            "warmup must lie within the 2 st",
        ),
        (
            Training(Steps(4), 16, drop_last=True, schedule=Cosine(warmup=Epochs(2.5))),
            "warmup must lie within the 4 st",
        ),
        (Training(Epochs(1), 64, drop_last=True), "drop_last leaves nothing of 40 samples"),
        (Training(Epochs(1), 40, repeat=2), "too short to repeat each 2 times"),
    ],
    ids=["epochs", "steps", "drop_last", "repeat"],
)
def test_settings_that_do_not_fit_the_data_are_refused(training, said):
    with pytest.raises(ValueError, match=said):
        fit(MLP(4, 4, 1, 2), DATA, training)


def test_an_average_in_bfloat16_is_refused():
    with pytest.raises(ValueError, match="use bf16-mixed"):
        Training(Epochs(1), precision="bf16-true", ema=0.99)


def test_data_of_no_known_kind_are_refused():
    with pytest.raises(Exception, match=r"data is tensors \(x, y\), one tensor, or a loader|Type-check|type hint"):
        fit(MLP(4, 4, 1, 2), iter([DATA]), Training(Epochs(1)))


@dataclass(frozen=True)
class Half(Goal):
    """A config without `build`."""


@dataclass(frozen=True)
class Foreign(Goal):
    """A config that builds no `Objective`."""

    def build(self, steps):
        return torch.nn.Identity()


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (Half(), r"Half defines no build\(steps\)"),
        (Foreign(), "Foreign.build returns Identity, which is no Objective"),
        (Objective(), r"Objective defines no forward\(net, x, y\)"),
    ],
)
def test_an_objective_that_is_incomplete_is_named(objective, said):
    with pytest.raises(ValueError, match=said):
        fit(MLP(4, 4, 1, 2), DATA, Training(Epochs(1), objective=objective))
