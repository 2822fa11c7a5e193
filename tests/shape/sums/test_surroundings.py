"""Networks whose forward leans on what lies around it: wrappers, globals, counters, base classes, modes."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import winze
from winze.shape.live.definition import CaptureError

CALLS = 0
DRAWN = torch.Generator().manual_seed(5)


def batch() -> Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def wired(kind: Callable[[], nn.Module], rule: winze.Rule, seed: int = 0) -> nn.Module:
    return winze.rewire(made(kind, seed), rule, example=batch())


def made(kind: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 6), kind(), kind())


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(6, 6), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x)


def counted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def inner(*args: Any) -> Tensor:
        inner.calls += 1  # type: ignore[attr-defined]
        return function(*args)

    inner.calls = 0  # type: ignore[attr-defined]
    return inner


class Counted(Block):
    @counted
    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x)


def test_a_wrapper_that_holds_itself_goes_on_counting() -> None:
    function: Any = Counted.forward
    function.calls = 0
    net = wired(Counted, winze.NoShortcut())
    assert function.calls == 0
    torch.testing.assert_close(net(batch()), net[2].f(net[1].f(net[0](batch()))))
    assert function.calls == 2


def numbered(function: Callable[..., Tensor]) -> Any:
    number = 0

    def inner(self: nn.Module, x: Tensor) -> Tensor:
        nonlocal number
        number += 1
        return function(self, x)

    inner.number = lambda: number  # type: ignore[attr-defined]
    return inner


class Leaving(Block):
    calls = 0
    shapes: dict[int, Any] = {}  # noqa: RUF012
    turns = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.own = itertools.count(7)

    @numbered
    def forward(self, x: Tensor, seen: list[int] = []) -> Tensor:  # noqa: B006
        global CALLS
        CALLS += 1
        type(self).calls += 1
        self.shapes[self.calls] = tuple(x.shape)
        seen.append(next(self.turns) + next(self.own))
        return x + self.f(x) * torch.rand(1, generator=DRAWN)


def left() -> tuple[Any, ...]:
    forward: Any = Leaving.forward
    inner = forward.__closure__[0].cell_contents
    defaults = list(inner.__defaults__[0])
    return CALLS, Leaving.calls, dict(Leaving.shapes), repr(Leaving.turns), forward.number(), defaults


@pytest.mark.parametrize("rule", [winze.Scaled(1.0, 1.0), winze.ResidualDropPath(0.5)], ids=["live", "program"])
def test_reading_leaves_what_a_forward_writes_outside_of_the_network(rule: winze.Rule) -> None:
    net = made(Leaving)
    before, drawn = left(), DRAWN.get_state()
    winze.junctions(net, example=batch())
    winze.rewire(net, rule, example=batch())
    assert left() == before
    assert torch.equal(DRAWN.get_state(), drawn)
    assert repr(net[1].own) == "count(7)"
    net.eval()(batch())
    assert left()[0] == before[0] + 2
    assert left()[4] == before[4] + 2


class OfGenerators(Block):
    def __init__(self) -> None:
        super().__init__()
        self.torchs, self.pythons = torch.Generator().manual_seed(3), random.Random(1)
        self.numpys, self.counts = np.random.default_rng(1), itertools.count(1)

    def forward(self, x: Tensor) -> Tensor:
        drawn = torch.rand(1, generator=self.torchs) * self.pythons.random() * self.numpys.random()
        return x + self.f(x) * drawn / next(self.counts)


def test_draws_of_generators_that_a_module_holds_are_in_no_program() -> None:
    rule = winze.ResidualDropPath(0.5, frozen="weights")
    with pytest.raises(CaptureError, match="differ in their"):
        wired(OfGenerators, rule)


class SharedInTraining(Block):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1
        seen = [x] if self.training else []
        x += self.f(x.clone())
        return x * seen[0] if seen else x


def test_a_sum_in_place_is_seen_by_what_shares_its_tensor_in_train_mode() -> None:
    net, expected = wired(SharedInTraining, winze.Scaled(1.0, 1.0)), made(SharedInTraining)
    assert torch.equal(net(batch()), expected(batch()))
    assert torch.equal(net.eval()(batch()), expected.eval()(batch()))


class Called(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        return Block.forward(self.block, x) if self.training else self.block(x)


class Both(Block):
    def __init__(self) -> None:
        super().__init__()
        self.bound = self.run

    def run(self, x: Tensor) -> Tensor:
        return x + self.f(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.bound(x) if self.training else self.run(x)


@pytest.mark.parametrize("kind", [Called, Both])
def test_a_function_that_one_mode_does_not_look_up_on_the_module_is_refused(kind: Callable[[], nn.Module]) -> None:
    with pytest.raises(CaptureError, match="does not look up the function"):
        wired(kind, winze.Scaled(0.5))


def test_sums_in_place_are_found_in_inference_mode() -> None:
    class InPlace(Block):
        def forward(self, x: Tensor) -> Tensor:
            x = x.clone()
            x += self.f(x)
            return x

    with torch.inference_mode():
        net = wired(InPlace, winze.NoShortcut())
        torch.testing.assert_close(net(batch()), net[2].f(net[1].f(net[0](batch()))))


def test_a_name_that_stands_for_two_modules_is_listed() -> None:
    class Shadowing(Block):
        def forward(self, x: Tensor) -> Tensor:
            def run(self: nn.Module, x: Tensor) -> Tensor:
                return x + self(x)

            return run(self.f, x)

    found = winze.junctions(made(Shadowing), example=batch())
    assert not found
    assert [("uses the name self" in why) for why in found.unread.values()] == [True, True]


class Halving(nn.Module):
    """Layers that the length of their input tells apart as well as their modules do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        for layer in self.layers:
            x = x + layer(x)
            x = x[:, ::2]
            length = x.shape[1]
        return x.mean(1) * length


def test_layers_are_told_apart_by_modules_before_lengths() -> None:
    net = winze.rewire(Halving(), winze.DecayedIdentity(0.4), example=torch.randn(4, 8, 6))
    for length in (8, 4, 16):
        stream = given = torch.randn(4, length, 6)
        for weight, layer in zip((1.0, 0.7, 0.4), net.layers, strict=True):
            stream = (weight * stream + layer(stream))[:, ::2]
        torch.testing.assert_close(net(given), stream.mean(1) * stream.shape[1])


class Frozen(nn.Module):
    """A layer whose weights are no parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(6, 6) / 3)
        self.table: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.table).tanh()


class OfBuffers(Block):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Sequential(Frozen(), Frozen())


def quantised() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(made(Block), {nn.Linear}, dtype=torch.qint8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [lambda: made(OfBuffers), quantised], ids=["buffers", "quantised"])
def test_layers_whose_weights_are_no_parameters_are_layers(make: Callable[[], Any]) -> None:
    net = make()
    assert len(winze.junctions(net, example=batch())) == 2
    winze.rewire(net, winze.NoShortcut(), example=batch())
    torch.testing.assert_close(net(batch()), net[2].f(net[1].f(net[0](batch()))))


class Parallel(nn.Module):
    """Two branches of three layers each, of which none is a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) + self.two(x)


@pytest.mark.filterwarnings("ignore")
def test_a_long_branch_of_quantised_layers_is_no_shortcut() -> None:
    net = torch.ao.quantization.quantize_dynamic(nn.Sequential(Parallel()), {nn.Linear}, dtype=torch.qint8)
    assert list(winze.junctions(net, example=batch())) == []


def test_a_blur_is_no_branch() -> None:
    class Blurred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 4, 1)
            self.register_buffer("kernel", torch.ones(4, 1, 3, 3) / 9)
            self.kernel: Tensor

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            return x + F.conv2d(x, self.kernel, padding=1, groups=4)

    found = winze.junctions(Blurred(), example=torch.randn(2, 3, 8, 8))
    assert (len(found), found.unread) == (0, {})


def test_a_network_whose_lazy_layers_have_no_weights_is_refused_with_a_way_out() -> None:
    net = nn.Sequential(nn.LazyLinear(6), Block())
    with pytest.raises(ValueError, match="run it once"):
        winze.junctions(net, example=batch())
    net(batch())
    assert len(winze.junctions(net, example=batch())) == 1


class Base(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x)


class Between(Base):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class Derived(Between):
    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = super(Derived, self).forward(x)  # noqa: UP008
        return x + self.g(x)


@pytest.fixture
def compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("compiler")
def test_a_sum_in_a_base_class_is_compiled_without_a_graph_break() -> None:
    net = wired(Derived, winze.DecayedIdentity(0.4))
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(batch()), net(batch()))
