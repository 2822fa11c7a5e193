"""Sums whose code several places share, and sums that look residual and are not."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import winze
from winze.shape.live.definition import CaptureError

WIDTH = 8


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))


def batch() -> Tensor:
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(mlp() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class Inherited(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class InheritedByName(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return super(InheritedByName, self).forward(x)  # noqa: UP008


class Helper(Layers):
    def add(self, x: Tensor, h: Tensor) -> Tensor:
        return x + h

    def forward(self, x: Tensor) -> Tensor:
        x = self.add(x, self.layers[0](x))
        return self.add(x, self.layers[1](x))


class Child(nn.Module):
    def __init__(self, parent: nn.Module) -> None:
        super().__init__()
        self.f, self.parent = mlp(), [parent]

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.parent[0].add(x, self.f(x))
        return added


class Parent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.children_of = nn.ModuleList(Child(self) for _ in range(2))
        self.layers = [child.f for child in self.children_of]

    def add(self, x: Tensor, h: Tensor) -> Tensor:
        return x + h

    def forward(self, x: Tensor) -> Tensor:
        for child in self.children_of:
            x = child(x)
        return x


class SumOfTuples(Layers):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = sum((layer(x), x))
        return x


@pytest.mark.parametrize("kind", [Inherited, InheritedByName, Helper, Parent, SumOfTuples])
def test_each_run_of_shared_code_is_a_junction_of_its_own(kind: Callable[[], Any]) -> None:
    net = kind()
    found = winze.junctions(net, example=batch())
    assert (len(found), found.unread) == (2, {})
    winze.rewire(net, winze.DecayedIdentity(0.3), example=batch())
    x = batch() + net.layers[0](batch())
    torch.testing.assert_close(net(batch()), 0.3 * x + net.layers[1](x))


class Add(nn.Module):
    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return x + h


class Adding(nn.Module):
    def __init__(self, add: nn.Module) -> None:
        super().__init__()
        self.f, self.add = mlp(), add

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.add(x, self.f(x))
        return added


def test_one_module_that_makes_the_sums_of_several_is_listed() -> None:
    add = Add()
    net = nn.Sequential(Adding(add), Adding(add))
    assert list(winze.junctions(net, example=batch()).unread) == ["0", "1"]


def test_the_target_of_a_sum_in_place_is_evaluated_once() -> None:
    class Items(Layers):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            streams, at = [x.clone(), 2 * x], itertools.count()
            for layer in self.layers:
                streams[next(at)] += layer(x)
            return tuple(streams)

    net = Items()
    expected = net(batch())
    winze.rewire(net, winze.Scaled(1.0, 1.0), example=batch())
    assert all(map(torch.equal, net(batch()), expected))


def test_sums_into_two_views_of_one_tensor_are_both_found() -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f, self.g = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = x.clone()
            y[:, :4] += self.f(x[:, :4]).tanh()
            y[:, 4:] += self.g(x[:, 4:]).tanh()
            return y

    assert len(winze.junctions(nn.Sequential(Halves()), example=batch())) == 2


@pytest.mark.parametrize("cut", [lambda w: w, lambda w: w.unbind(0), lambda w: w.flatten(0, 1).split(WIDTH)])
def test_matrices_cut_from_one_parameter_are_weights(cut: Callable[[Tensor], Any]) -> None:
    class Stacked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(2, WIDTH, WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            first, second = cut(self.w)
            x = x + F.linear(x, first).tanh()
            return x + F.linear(x, second).tanh()

    assert len(winze.junctions(Stacked(), example=batch())) == 2


def test_operations_of_an_exported_program_are_listed() -> None:
    class Aten(Adding):
        def forward(self, x: Tensor) -> Tensor:
            added: Tensor = torch.ops.aten.add.Tensor(x, self.f(x))
            return added

    assert list(winze.junctions(nn.Sequential(Aten(Add())), example=batch()).unread) == ["0"]


@pytest.mark.parametrize(
    "add",
    [
        lambda x, h: torch.add(x, h, alpha=0.3),
        lambda x, h: x.clone().add_(h, alpha=0.3),
        lambda x, h: torch.sub(x, h, alpha=0.3),
        lambda x, h: torch.addcmul(x, h, h.sigmoid(), value=0.3),
    ],
)
def test_a_sum_with_a_factor_rounds_as_it_did(add: Callable[[Tensor, Tensor], Tensor]) -> None:
    class Factor(Adding):
        def forward(self, x: Tensor) -> Tensor:
            return add(x, self.f(x))

    net = nn.Sequential(Factor(Add()), Factor(Add()))
    expected = net(batch())
    winze.rewire(net, winze.Scaled(1.0, 1.0), example=batch())
    assert torch.equal(net(batch()), expected)


@pytest.mark.parametrize(
    ("add", "sign"),
    [
        (lambda x, f, g: x - (f + g), -1),
        (lambda x, f, g: x.clone().sub_(f + g), -1),
        (lambda x, f, g: x.add(f + g), 1),
        (lambda x, f, g: torch.add(x, f + g, alpha=2), 2),
    ],
)
def test_several_terms_are_added_or_taken_away_as_one_branch(add: Callable[..., Tensor], sign: int) -> None:
    class Several(Layers):
        def forward(self, x: Tensor) -> Tensor:
            return add(x, self.layers[0](x), self.layers[1](x))

    net = winze.rewire(Several(), winze.Scaled(0.5, 3.0), example=batch())
    f, g = (layer(batch()) for layer in net.layers)
    torch.testing.assert_close(net(batch()), 0.5 * batch() + 3 * sign * (f + g))


@pytest.mark.parametrize("add", [lambda x, f, g: torch.add(x + f, g), lambda x, f, g: torch.add(g, x + f)])
def test_a_call_that_adds_to_another_sum_is_listed(add: Callable[..., Tensor]) -> None:
    class Called(Layers):
        def forward(self, x: Tensor) -> Tensor:
            return add(x, self.layers[0](x), self.layers[1](x))

    (reason,) = winze.junctions(Called(), example=batch()).unread.values()
    assert "a call that adds to another sum" in reason


class Positions(nn.Module):
    def __init__(self, embed: Any) -> None:
        super().__init__()
        self.embed = embed
        self.blocks = nn.ModuleList(Adding(Add()) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        positions = self.embed(torch.arange(len(x)))
        for block in self.blocks:
            x = block(x + positions)
        return x


def test_positions_added_before_every_block_are_no_shortcuts() -> None:
    found = winze.junctions(Positions(nn.Embedding(9, WIDTH)), example=batch())
    assert [j.place.name for j in found] == ["blocks.0", "blocks.1", "blocks.2"]


def test_a_shortcut_around_blocks_with_positions_is_found() -> None:
    class Around(Positions):
        def forward(self, x: Tensor) -> Tensor:
            return x + super().forward(x)

    assert len(winze.junctions(Around(nn.Embedding(9, WIDTH)), example=batch())) == 4


class Gated(nn.Module):
    """A block of WaveNet: it hands on the stream, and what it adds to the output."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.residual, self.skip = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.f(x).tanh()
        return x + self.residual(h), self.skip(h)


def test_sums_of_what_blocks_put_out_on_the_side_are_no_junctions() -> None:
    class Wave(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Gated() for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            total = torch.zeros_like(x)
            for block in self.blocks:
                x, skip = block(x)
                total = total + skip
            return total

    found = winze.junctions(Wave(), example=batch())
    assert ([j.place.name for j in found], found.unread) == (["blocks.0", "blocks.1", "blocks.2"], {})


def test_side_outputs_of_a_forward_of_its_own_are_no_junctions() -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Gated(), Gated()

        def forward(self, x: Tensor) -> Tensor:
            h = self.first.f(x).tanh()
            skip = self.first.skip(h)
            x = x + self.first.residual(h)
            return skip + self.second.skip(self.second.f(x).tanh())

    assert len(winze.junctions(Flat(), example=batch())) == 1


@pytest.mark.parametrize(
    "noise", [torch.randn_like, lambda x: torch.empty_like(x).normal_(), lambda x: torch.normal(0.0, 1.0, x.shape)]
)
def test_a_mean_with_a_deep_deviation_and_a_straight_through_step_are_no_junctions(
    noise: Callable[[Tensor], Tensor],
) -> None:
    class Sampled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.deviation, self.codes = nn.Linear(WIDTH, WIDTH), mlp(), nn.Embedding(4, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            z = self.mean(x) + self.deviation(x).exp() * noise(x)
            code = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
            return z + (code - z).detach()

    found = winze.junctions(Sampled(), example=batch())
    assert (list(found), found.unread) == ([], {})


def test_a_forward_that_was_wrapped_since_is_refused_and_stays() -> None:
    net = nn.Sequential(Adding(Add()), Adding(Add()))
    winze.rewire(net, winze.Scaled(0.5), example=batch())
    inner, calls = net[0].add.forward, []

    def outer(x: Tensor, h: Tensor) -> Tensor:
        calls.append(len(x))
        done: Tensor = inner(x, h)
        return done

    net[0].add.forward = outer
    with pytest.raises(CaptureError, match=r"forward of 0\.add .* wrapped or replaced"):
        winze.rewire(net, winze.Standard(), example=batch())
    net(batch())
    assert calls == [4]
    net[0].add.forward = inner
    winze.rewire(net, winze.Standard(), example=batch())
    assert "forward" not in vars(net[0].add)


def test_a_gate_over_images_is_not_misled_by_a_linear_layer_behind_a_pool() -> None:
    class Excited(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weigh, self.f = nn.Linear(WIDTH, WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.f(x * self.weigh(x.mean((2, 3))).sigmoid()[..., None, None])

    net = winze.rewire(nn.Sequential(Excited()), winze.Highway(), example=torch.randn(2, WIDTH, WIDTH, WIDTH))
    assert isinstance(net[0].highway, nn.Conv2d)


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning", "ignore::torch.jit.TracerWarning")
def test_a_rewired_network_is_traced_by_torchscript() -> None:
    net = winze.rewire(nn.Sequential(Adding(Add())), winze.Scaled(0.5), example=batch())
    torch.testing.assert_close(torch.jit.trace(net, batch())(batch()), net(batch()))
