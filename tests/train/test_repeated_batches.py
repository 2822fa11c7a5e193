"""A batch may be used several times in a row, as two stages on the same samples need it."""

import pytest
import torch
from torch import nn

from winze import Alternation, ResidualDropPath, rewire
from winze.data import Noise
from winze.networks import ResidualMLP
from winze.train import Epochs, Training, fit

IMAGES = torch.randint(0, 256, (40, 1, 2, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 3


def batches_of(data, **kwargs) -> list[torch.Tensor]:
    """What each step of a training was given."""
    seen = []

    def objective(net, x, y):
        seen.append(x.detach().clone())
        return net(x).square().mean()

    fit(nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), data, Training(**kwargs, objective=objective))
    return seen


def test_every_batch_comes_twice_in_a_row_as_it_was_augmented():
    seen = batches_of((IMAGES, LABELS), length=Epochs(2), batch=10, repeat=2, augment=(Noise(0.1),))
    assert all(torch.equal(seen[i], seen[i + 1]) for i in range(0, len(seen), 2))
    assert len({x.sum().item() for x in seen}) == 4


def test_an_epoch_keeps_its_number_of_steps_down_to_whole_turns():
    assert len(batches_of((IMAGES / 255, LABELS), length=Epochs(1), batch=10, repeat=2)) == 4
    assert len(batches_of((IMAGES / 255, LABELS), length=Epochs(1), batch=8, repeat=2)) == 4  # of 5


def test_the_first_turns_are_the_batches_of_a_plain_epoch():
    plain = batches_of((IMAGES / 255, LABELS), length=Epochs(1), batch=10)
    assert torch.equal(
        torch.stack(batches_of((IMAGES / 255, LABELS), length=Epochs(1), batch=10, repeat=2)[::2]),
        torch.stack(plain[:2]),
    )


def test_batches_of_a_loader_are_repeated_too():
    loader = [(torch.full((4, 6), float(i)), torch.zeros(4, dtype=torch.long)) for i in range(5)]
    assert [int(x[0, 0]) for x in batches_of(loader, length=Epochs(1), batch=4, repeat=2)] == [0, 0, 1, 1]


def test_an_epoch_too_short_to_repeat_a_batch_is_refused():
    with pytest.raises(ValueError, match="an epoch of 1 batches is too short to repeat each 2 times"):
        batches_of((IMAGES / 255, LABELS), length=Epochs(1), batch=40, repeat=2)


def test_both_stages_of_a_pair_learn_from_the_same_samples_in_every_epoch():
    net = rewire(ResidualMLP(6, 8, 2, 3), ResidualDropPath())
    alternation = Alternation(net, rows=10)
    seen = []

    def objective(called, x, y):
        seen.append((alternation.stage, x.sum().item()))
        return called(x).square().mean()

    data = IMAGES.float().flatten(1) / 255, LABELS
    fit(net, data, Training(Epochs(3), 13, repeat=2, objective=objective), followers=[alternation])
    assert [stage for stage, _ in seen] == [1, 2] * 3
    assert all(seen[i][1] == seen[i + 1][1] for i in range(0, 6, 2))
