"""Forwards that add differently in train and eval mode, or on ways that the example does not take."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import winze
from winze import NoShortcut, Scaled

WIDTH = 8


def branch() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))


def batch() -> Tensor:
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.g, self.drop = branch(), nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5)


class TwoForms(Base):
    """One junction, written once for each mode, with its terms in another order."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return x + self.drop(self.f(x))
        return self.f(x) + x


class ExtraTerm(Base):
    """A sum of three terms in train mode, of two in eval mode."""

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.f(x)
        return y + self.g(x) if self.training else y


class Further(Base):
    """A junction that only train mode has."""

    def __init__(self) -> None:
        super().__init__()
        self.g = branch()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.f(x)
        return x + self.g(x) if self.training else x


def network(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(kind(), kind())


@pytest.mark.parametrize("kind", [TwoForms, ExtraTerm])
def test_a_junction_that_is_written_in_two_ways_is_one(kind: type[nn.Module]) -> None:
    net = network(kind)
    assert [j.place.name for j in winze.junctions(net, example=batch())] == ["0", "1"]
    winze.rewire(net, Scaled(0.5), example=batch())
    assert [j.place.name for j in winze.junctions(net, example=batch())] == ["0", "1"]


@pytest.mark.parametrize("kind", [TwoForms, ExtraTerm, Further])
@pytest.mark.parametrize("training", [True, False])
def test_both_forms_go_on_as_they_were_written(kind: type[nn.Module], training: bool) -> None:
    net = network(kind).train(training)
    torch.manual_seed(1)
    expected = net(batch())
    for one in (winze.rewire(net, Scaled(1.0, 1.0), example=batch()), copy.deepcopy(net)):
        torch.manual_seed(1)
        assert torch.equal(one(batch()), expected)


@pytest.mark.parametrize("training", [True, False])
def test_a_rule_stands_at_both_forms(training: bool) -> None:
    net = winze.rewire(network(TwoForms), NoShortcut(), example=batch()).train(training)
    torch.manual_seed(1)
    got = net(batch())
    torch.manual_seed(1)
    drop = net[0].drop
    torch.testing.assert_close(got, drop(net[1].f(drop(net[0].f(batch())))))


def test_a_rule_stands_at_the_sum_that_both_modes_have() -> None:
    net = winze.rewire(network(ExtraTerm)[:1], NoShortcut(), example=batch())
    x = batch()
    torch.testing.assert_close(net.train()(x), net[0].f(x) + net[0].g(x))
    torch.testing.assert_close(net.eval()(x), net[0].f(x))


@pytest.mark.parametrize("kind", [TwoForms, Further])
@pytest.mark.parametrize("rule", [winze.DropPath(0.5), winze.ResidualDropPath(0.5)])
def test_samples_are_found_at_junctions_that_only_train_mode_has(kind: type[nn.Module], rule: winze.Rule) -> None:
    net = winze.rewire(network(kind), rule, example=batch()).train()
    if isinstance(rule, winze.ResidualDropPath):
        winze.Alternation(net, rows=4)
    net(batch()).sum().backward()


def test_a_way_that_the_example_did_not_take_is_told_once() -> None:
    class Either(Base):
        def forward(self, x: Tensor) -> Tensor:
            if x.sum() > 0:
                return x + self.f(x)
            x = x * torch.ones(WIDTH)
            x += self.f(x)
            return x - 0.5 * x

    net = winze.rewire(nn.Sequential(Either()), Scaled(0.5), example=torch.ones(4, WIDTH))
    with pytest.warns(UserWarning, match="did not run when the network was rewired") as told:
        net(-torch.ones(4, WIDTH))
    assert len(told) == 2  # both sums of that way
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net(-torch.ones(4, WIDTH))
        net(torch.ones(4, WIDTH))


def test_lists_that_a_block_fills_are_filled_under_every_rule() -> None:
    class Filling(Base):
        def forward(self, x: Tensor, seen: list[Tensor]) -> Tensor:
            h = self.f(x)
            seen.append(h)
            return x + h

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Filling() for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            seen: list[Tensor] = []
            for block in self.blocks:
                x = block(x, seen)
            return torch.cat([x, seen[0], seen[1]], 1)

    for rule in (winze.DropPath(0.5), winze.ResidualDropPath(0.5)):
        net = winze.rewire(Net(), rule, example=batch()).train()
        if isinstance(rule, winze.ResidualDropPath):
            winze.Alternation(net, rows=4)
        assert net(batch()).shape == (4, 3 * WIDTH)
    with pytest.raises(winze.shape.CaptureError, match="Filling"):
        winze.rewire(Net(), winze.ResidualDropPath(0.5, frozen="weights"), example=batch())


def test_what_cannot_be_cut_in_train_mode_is_refused_when_rewiring() -> None:
    class Drawing(Base):
        def forward(self, x: Tensor) -> Tensor:
            h = self.f(x)
            if self.training:
                h = h * torch.empty(len(x), 1).bernoulli_(0.7)
            return x + h

    with pytest.raises(winze.shape.CaptureError, match="Drawing"):
        winze.rewire(network(Drawing), winze.ResidualDropPath(0.5, frozen="weights"), example=batch())


def test_a_sum_of_a_changing_number_of_terms_is_refused_when_it_runs() -> None:
    class Many(Base):
        def __init__(self) -> None:
            super().__init__()
            self.more: list[Any] = []

        def forward(self, x: Tensor) -> Tensor:
            return sum([x, self.f(x), *(layer(x) for layer in self.more)])

    net = winze.rewire(network(Many), Scaled(0.5), example=batch())
    net(batch())
    net[0].more = [net[0].g]
    with pytest.raises(winze.shape.CaptureError, match="rewire it again"):
        net(batch())
