"""A training that was stopped after any step resumes bit for bit, whatever its objective and its data."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, Sampler, TensorDataset

from winze import Alternation, ResidualDropPath, rewire
from winze.data import Noise
from winze.networks import ResidualMLP
from winze.train import SGD, Checkpoints, Classify, Epochs, Objective, Ramp, Steps, StoreError, Training, fit

IMAGES = torch.rand(44, 1, 2, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(44) % 3


class Jittered(TensorDataset):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.1 * (torch.rand(()) + np.random.rand()), y


class Drawn(TensorDataset):
    """Draws from generators of its own, which nobody else knows."""

    def __init__(self, *tensors):
        super().__init__(*tensors)
        self.own, self.older = random.Random(0), np.random.RandomState(0)

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.1 * (self.own.random() + float(self.older.rand())), y


class Permuted(Sampler):
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(IMAGES)

    def __iter__(self):
        return iter(self.rng.permutation(len(IMAGES)).tolist())


DATA = {
    "tensors": lambda: (IMAGES, LABELS),
    "shuffled": lambda: DataLoader(TensorDataset(IMAGES, LABELS), 8, shuffle=True),
    "sampled": lambda: DataLoader(TensorDataset(IMAGES, LABELS), 8, sampler=RandomSampler(IMAGES, replacement=True)),
    "jittered": lambda: DataLoader(Jittered(IMAGES, LABELS), 8, shuffle=True, generator=torch.Generator()),
    "drawn": lambda: DataLoader(Drawn(IMAGES, LABELS), 8, sampler=Permuted()),
}
LAST = 10  # steps; an epoch has 6


class Growing(Objective):
    """Cross-entropy with all kinds of state: a parameter that is trained, a buffer, and a counter in Python."""

    def __init__(self):
        super().__init__()
        self.scale, self.count = nn.Parameter(torch.ones(())), 0
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, net, x, y):
        logits = net(x)
        with torch.no_grad():
            self.mean.lerp_(logits.mean(0), 0.1)
        noise = 0.01 * (np.random.rand() + torch.rand(()))
        return {"fit": F.cross_entropy(self.scale * logits - self.mean, y), "count": self.count * noise * self.scale}

    def advance(self):
        self.count += 1

    def get_extra_state(self):
        return {"count": self.count}

    def set_extra_state(self, state):
        self.count = state["count"]


def trained(data, folder=None, stop=None, objective=None, **settings):
    """The network's state, the objective's and the metrics."""
    torch.manual_seed(0)
    net = rewire(nn.Sequential(nn.Flatten(), ResidualMLP(6, 8, 2, 3), nn.Dropout(0.1)), ResidualDropPath(0.5))
    objective = Growing() if objective is None else objective

    def until(net, step):
        if step == stop:
            raise KeyboardInterrupt

    given = {"augment": (Noise(0.1),) if isinstance(data, tuple) else (), "ema": 0.9, "checkpoint": Steps(1)} | settings
    training = Training(Steps(LAST), 8, SGD(0.05, momentum=0.9), objective=objective, **given)
    history = fit(
        net, data, training, followers=[until, Alternation(net, every=2, rows=8)], tests={"test": (IMAGES, LABELS)},
        checkpoints=None if folder is None else Checkpoints(folder),
    )  # fmt: skip
    own = objective.state_dict() if isinstance(objective, Objective) else {}
    return history.metrics, {**net.state_dict(), **{f"objective.{name}": value for name, value in own.items()}}


def assert_same(one, other):
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    for name, value in one[1].items():
        same = torch.equal(value, other[1][name]) if isinstance(value, torch.Tensor) else value == other[1][name]
        assert same, name


@pytest.fixture(scope="module")
def whole():
    """Trainings that were never stopped."""
    return {name: trained(make()) for name, make in DATA.items()}


STOPS = {"tensors": range(1, LAST + 1)} | dict.fromkeys(("shuffled", "sampled", "jittered", "drawn"), (3, 6, 7))


@pytest.mark.parametrize(("name", "stop"), [(name, stop) for name, stops in STOPS.items() for stop in stops])
def test_after_any_step_it_goes_on_bit_for_bit(name, stop, whole, tmp_path):
    """What was done in the step that was interrupted is done again."""
    with pytest.raises(KeyboardInterrupt):
        trained(DATA[name](), tmp_path, stop)
    newest = Checkpoints(tmp_path).newest()
    assert (0 if newest is None else newest.step) == stop - 1
    assert_same(trained(DATA[name](), tmp_path), whole[name])


@pytest.mark.parametrize(
    "settings",
    [
        {"repeat": 2},
        {"checkpoint": Steps(4)},
        {"checkpoint": Epochs(1)},
        {"evaluate": Steps(4), "checkpoint": Steps(3)},
        {"objective": Classify(smoothing=0.1, temperature=Ramp(1.0, 9.0))},
    ],
    ids=str,
)
def test_it_goes_on_bit_for_bit_whenever_checkpoints_and_rows_are_written(settings, tmp_path):
    expected = trained((IMAGES, LABELS), **settings)
    with pytest.raises(KeyboardInterrupt):
        trained((IMAGES, LABELS), tmp_path, 9, **settings)
    assert_same(trained((IMAGES, LABELS), tmp_path, **settings), expected)


def test_what_an_objective_learns_and_counts_is_part_of_it(whole):
    state = whole["tensors"][1]
    assert state["objective.scale"] != 1
    assert state["objective._extra_state"] == {"count": LAST}
    assert state["objective.mean"].abs().sum() > 0


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"objective": Classify()}, r"by Growing, and this is Sequential by Classify\(smoothing=0.0"),
        ({"ema": None}, "is of a training with the follower 'ema'"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(other, said, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trained((IMAGES, LABELS), tmp_path, 5)
    with pytest.raises(StoreError, match=rf"the checkpoint of step 4 .*{said}.*train with its settings, or remove"):
        trained((IMAGES, LABELS), tmp_path, **other)


def test_a_checkpoint_of_the_same_objective_with_other_settings_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        trained((IMAGES, LABELS), tmp_path, 5, objective=Classify(smoothing=0.1))
    with pytest.raises(StoreError, match=r"smoothing=0.1.*smoothing=0.2"):
        trained((IMAGES, LABELS), tmp_path, objective=Classify(smoothing=0.2))
