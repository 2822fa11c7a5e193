"""The stage-2 gradients that the recipe measures are those of a residual MLP written out by hand, in float64."""

from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import winze
from winze.networks import build
from winze.recipes.residual_droppath._gradients import Gradients, average, cosine
from winze.train.objectives.classify import CrossEntropy
from winze.train.seeds import generator

ROWS, WIDTH, DEPTH, RATE = 5, 4, 3, 0.3
EVERY = [f"blocks.{spot}" for spot in range(DEPTH)]


class Net(nn.Module):
    """h_0 = S x, h_l = h_{l-1} + tanh(W_l h_{l-1}), logits = H h_L."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH, bias=False)
        self.blocks = nn.ModuleList(
            winze.Junction(nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh())) for _ in range(DEPTH)
        )
        self.head = nn.Linear(WIDTH, 3, bias=False)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch():
    torch.manual_seed(1)
    return torch.randn(ROWS, WIDTH, dtype=torch.float64), torch.arange(ROWS) % 3


def made(**settings):
    """The gradients of one network, by the recipe."""
    torch.manual_seed(0)
    net = Net().double()
    rule = winze.ResidualDropPath(RATE, profile="constant", compute="dense", **settings)
    return net, Gradients(net, rule, batch()[0])


def by_hand(net, table, frozen):
    """Stage-2 gradients of stem and branches by the chain rule, sample by sample, without autograd."""
    stem, head = net.stem.weight.detach(), net.head.weight.detach()
    weights = [block.branch[0].weight.detach() for block in net.blocks]
    found = [torch.zeros_like(stem), *(torch.zeros_like(one) for one in weights)]
    for row, (x, y) in enumerate(zip(*batch(), strict=True)):
        streams = [stem @ x]
        for weight in weights:
            streams.append(streams[-1] + torch.tanh(weight @ streams[-1]))
        back = head.T @ (torch.softmax(head @ streams[-1], 0) - nn.functional.one_hot(y, 3)) / ROWS
        for spot in reversed(range(DEPTH)):
            kept = bool(table[spot, row])
            slope = (1 - torch.tanh(weights[spot] @ streams[spot]) ** 2) * back
            found[spot + 1] += 0 if kept else torch.outer(slope, streams[spot])
            back = back + (0 if kept and frozen == "output" else weights[spot].T @ slope)
        found[0] += torch.outer(back, x)
    return [one.flatten() for one in found]


def measured(gradients, table, stage=2):
    return gradients.stage(stage, table, CrossEntropy(), batch(), list(gradients.parts))


def close(some, others):
    return all(torch.allclose(one, other, rtol=1e-12, atol=1e-14) for one, other in zip(some, others, strict=True))


@pytest.mark.parametrize("frozen", ["output", "weights"])
@pytest.mark.parametrize("mask", ["sample", "batch"])
def test_stage_2_gradients_and_their_cosines_are_those_written_out_by_hand(frozen, mask):
    net, gradients = made(frozen=frozen, mask=mask)
    table = gradients.draw(ROWS, generator("cpu", 3, "masks"), "blocks.1")
    assert table.any()
    assert not table[1].all()
    true, mine = by_hand(net, torch.zeros_like(table), frozen), by_hand(net, table, frozen)
    assert close(measured(gradients, table), mine)
    found = [cosine(one, g) for one, g in zip(measured(gradients, table), true, strict=True)]
    by_numpy = [float((a.numpy() @ b.numpy()) / ((a.numpy() ** 2).sum() * (b.numpy() ** 2).sum()) ** 0.5)
                for a, b in zip(mine, true, strict=True) if a.any()]  # fmt: skip
    assert [value for value in found if value == value] == pytest.approx(by_numpy, rel=1e-12)


@pytest.mark.parametrize("frozen", ["output", "weights"])
def test_with_everything_dropped_stage_2_is_the_true_gradient(frozen):
    _, gradients = made(frozen=frozen)
    true = gradients.of(gradients.plain, CrossEntropy(), batch(), list(gradients.parts))
    assert close(measured(gradients, torch.zeros(DEPTH, ROWS, dtype=torch.bool)), true)


def test_with_nothing_dropped_frozen_weights_give_the_stem_the_true_gradient_and_branches_none():
    _, gradients = made(frozen="weights")
    stem, *branches = measured(gradients, torch.ones(DEPTH, ROWS, dtype=torch.bool))
    true = gradients.of(gradients.plain, CrossEntropy(), batch(), ["stem"])
    assert close([stem], true)
    assert not any(one.any() for one in branches)


def test_with_nothing_dropped_frozen_outputs_give_the_stem_the_gradient_of_the_shortcuts_alone():
    net, gradients = made(frozen="output")
    stem, *branches = measured(gradients, torch.ones(DEPTH, ROWS, dtype=torch.bool))
    x, y = batch()
    h = net.stem(x)
    rest = h.detach()
    for block in net.blocks:
        rest = rest + block.branch(rest).detach()
    cross_entropy(net.head(h + (rest - h).detach()), y).backward()
    assert torch.allclose(stem, net.stem.weight.grad.flatten(), rtol=1e-12)
    assert not any(one.any() for one in branches)


@pytest.mark.parametrize("frozen", ["output", "weights"])
def test_the_closed_form_points_where_the_mean_over_all_masks_points(frozen):
    net, gradients = made(frozen=frozen, mask="batch")
    mean = [torch.zeros(WIDTH * WIDTH, dtype=torch.float64) for _ in range(DEPTH + 1)]
    for kept in product((True, False), repeat=DEPTH):
        chance = RATE ** (DEPTH - sum(kept)) * (1 - RATE) ** sum(kept)
        table = torch.tensor(kept)[:, None].expand(DEPTH, ROWS)
        mean = [one + chance * other for one, other in zip(mean, by_hand(net, table, frozen), strict=True)]
    found = gradients.of(gradients.mean, CrossEntropy(), batch(), list(gradients.parts))
    assert [cosine(one, other) for one, other in zip(found, mean, strict=True)] == pytest.approx([1.0] * 4, abs=1e-12)


def test_the_mean_of_many_per_sample_masks_nears_the_closed_form():
    _, gradients = made(frozen="output", mask="sample")
    by, total = generator("cpu", 0, "masks"), [0.0] * (DEPTH + 1)
    for _ in range(400):
        total = [one + two for one, two in zip(total, measured(gradients, gradients.draw(ROWS, by)), strict=True)]
    found = gradients.of(gradients.mean, CrossEntropy(), batch(), list(gradients.parts))
    assert min(cosine(one, other) for one, other in zip(total, found, strict=True)) > 0.99


def test_masks_drawn_for_a_branch_drop_it_and_leave_the_other_rates_alone():
    _, gradients = made(mask="batch")
    by = generator("cpu", 0, "masks")
    tables = torch.stack([gradients.draw(ROWS, by, "blocks.2")[:, 0] for _ in range(600)])
    assert not tables[:, 2].any()
    assert tables[:, :2].double().mean(0).tolist() == pytest.approx([1 - RATE] * 2, abs=0.06)


def test_a_vector_of_zeros_has_no_cosine_and_does_not_count():
    unread = cosine(torch.zeros(3), torch.ones(3))
    assert unread != unread
    assert "zero" in unread.note
    assert average([unread, cosine(torch.ones(3), torch.ones(3))]) == pytest.approx(1.0)


def test_measuring_leaves_the_network_and_its_batchnorm_statistics_as_they_were():
    torch.manual_seed(0)
    net = build("winze/resnet20x0.25", 4, channels=1)
    before = {name: one.clone() for name, one in net.state_dict().items()}
    x, y = torch.randn(8, 1, 8, 8), torch.arange(8) % 4
    found = Gradients(net, winze.ResidualDropPath(compute="dense"), x)
    cosines = found.cosines(CrossEntropy(), (x, y), 2, generator("cpu", 0, "masks"))
    assert list(found.parts)[:2] == ["stem", "stages.0.0"]
    assert found.parts["stem"] == ["stem.conv.weight", "stem.norm.weight", "stem.norm.bias"]
    assert all(-1 <= value <= 1 + 1e-9 for one in cosines.values() for value in one)
    assert all(torch.equal(one, before[name]) for name, one in net.state_dict().items())
    assert next(iter(net.parameters())).grad is None
