"""Residual sums in unusual Python: each is found and follows its rule, or is refused by name."""

from __future__ import annotations

import copy
import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import winze
from winze.shape.live.definition import CaptureError


def layer() -> nn.Linear:
    return nn.Linear(6, 6)


class One(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = layer()


class Two(One):
    def __init__(self) -> None:
        super().__init__()
        self.g = layer()


class Three(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(3))


class Block(One):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x).tanh()


class Generator(Three):
    def states(self, x: Tensor) -> Iterator[Tensor]:
        for part in self.layers:
            x = x + part(x).tanh()
            yield x

    def forward(self, x: Tensor) -> Tensor:
        return list(self.states(x))[-1]


class Reduce(Three):
    def forward(self, x: Tensor) -> Tensor:
        return functools.reduce(lambda stream, part: stream + part(stream).tanh(), self.layers, x)


class Recursive(Three):
    def descend(self, x: Tensor, i: int = 0) -> Tensor:
        return x if i == 3 else self.descend(x + self.layers[i](x).tanh(), i + 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.descend(x)


class While(One):
    def forward(self, x: Tensor) -> Tensor:
        i = 0
        while i < 3:
            x = x + self.f(x) / (i + 1)
            i += 1
        return x


def residual(function: Callable[..., Tensor], x: Tensor) -> Tensor:
    return x + function(x)


class Helper(Two):
    def forward(self, x: Tensor) -> Tensor:
        return residual(self.g, residual(self.f, x))


class Checkpointed(Two):
    def body(self, x: Tensor) -> Tensor:
        return x + self.g(self.f(x).relu())

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.body, x, use_reentrant=False)


class Autocast(Two):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            h = self.f(x)
        x = x + h
        with torch.autocast("cpu", enabled=False):
            return x + self.g(x.float())


class Nested(Two):
    def forward(self, x: Tensor) -> Tensor:
        def step(stream: Tensor, part: nn.Module) -> Tensor:
            def inner(value: Tensor) -> Tensor:
                return part(value).relu()

            return stream + inner(stream)

        return step(step(x, self.f), self.g)


class Walrus(Two):
    def forward(self, x: Tensor) -> Tensor:
        return (h := x + self.f(x)) + self.g(h)


class Finally(Two):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        try:
            try:
                x = x + self.f(x)
            finally:
                self.calls += 1
            raise KeyError
        except KeyError:
            return x + self.g(x)


class InPlace(Two):
    def forward(self, x: Tensor) -> Tensor:
        h = self.f(x)
        h += x
        kept = h.clone()
        h.relu_()
        y = self.g(h)
        y.add_(kept)
        return y


class Super(Block):
    def __init__(self) -> None:
        super().__init__()
        self.g = layer()

    def forward(self, x: Tensor) -> Tensor:
        h = super().forward(x)
        return h + self.g(h)


class Called(One):
    calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return super().__call__(*args, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Block(), Block()

    def forward(self, x: Tensor) -> Tensor:
        return self.a(self.b(self.a(x)))


@dataclass
class State:
    stream: Tensor


class OnState(One):
    def forward(self, state: State) -> State:
        return State(state.stream + self.f(state.stream))


class DataClass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = OnState(), OnState()

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(State(x))).stream


class Vmap(One):
    def forward(self, x: Tensor) -> Tensor:
        return torch.vmap(lambda row: row + self.f(row).tanh())(x)


class Crossing(Two):
    """A reversible block: each half is added to what has grown from the other."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2)
        a = a + self.f(b).tanh()
        b = b + self.g(a).tanh()
        return torch.cat([a, b])


class Pooled(Three):
    """Blocks that run in another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        grad = torch.is_grad_enabled()

        def run(part: nn.Module, x: Tensor) -> Tensor:
            with torch.set_grad_enabled(grad):
                return part(x)

        with ThreadPoolExecutor(1) as pool:
            for part in self.layers:
                x = pool.submit(run, part, x).result()
        return x


class Batched(Three):
    def forward(self, x: Tensor) -> Tensor:
        for part in self.layers:
            x = x + torch.vmap(lambda row, part=part: part(row).tanh())(x)
        return x


class Hyper(Three):
    """Two streams that a matrix per layer mixes (hyper-connections)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(layer(), nn.Tanh(), layer()) for _ in range(3))
        self.mix, self.spread = nn.Parameter(torch.rand(3, 2, 2)), nn.Parameter(torch.rand(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        streams = torch.stack([x, x])
        for i, part in enumerate(self.layers):
            branch = part(streams.mean(0))
            streams = torch.einsum("jk,kbd->jbd", self.mix[i], streams) + self.spread[i][:, None, None] * branch
        return streams.mean(0)


class Adapted(Three):
    """Linear layers with an adapter beside each, which is no shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(6, 2), nn.Linear(2, 6)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.layers:
            x = x + self.inside(part, x).tanh()
        return x

    def inside(self, part: nn.Module, x: Tensor) -> Tensor:
        return part(x) + self.up(self.down(x))


class Losses(Three):
    """Collects single numbers on its way, which are no stream."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Penalised() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(())
        for part in self.layers:
            x, loss = part(x)
            total = total + loss
        return x + total


class Penalised(One):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.f(x).tanh()
        return x + h, h.square().mean()


FOUND: dict[type[nn.Module], int] = {
    Crossing: 2,
    Pooled: 3,
    Batched: 3,
    Hyper: 3,
    Adapted: 3,
    Losses: 3,
    Generator: 3,
    Reduce: 3,
    Recursive: 3,
    While: 3,
    Helper: 2,
    Checkpointed: 1,
    Autocast: 2,
    Nested: 2,
    Walrus: 2,
    Finally: 2,
    InPlace: 2,
    Super: 2,
    Called: 1,
    Shared: 2,
    DataClass: 2,
    Vmap: 1,
}


class InCall(One):
    def __call__(self, x: Tensor) -> Tensor:
        return x + self.f(x)


class Property(One):
    stream: Any = None

    @property
    def result(self) -> Tensor:
        return self.stream + self.f(self.stream)

    def forward(self, x: Tensor) -> Tensor:
        self.stream = x
        return self.result


class Comprehension(Three):
    def forward(self, x: Tensor) -> Tensor:
        return sum([part(x) for part in self.layers], x)


class Lerp(One):
    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, self.f(x), 0.5)


class Dispatched(One):
    @functools.singledispatchmethod
    def add(self, x: Any) -> Any:
        raise TypeError

    @add.register
    def _(self, x: Tensor) -> Tensor:
        return x + self.f(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.add(x)


class Routed(Two):
    """A mixture of experts that adds to the stream in place."""

    def forward(self, x: Tensor) -> Tensor:
        out = x.clone()
        for part in (self.f, self.g):
            rows = (x[:, 0] > 0).nonzero().flatten()
            out = out.index_add(0, rows, part(x[rows]).tanh())
        return out


class Masked(One):
    def forward(self, x: Tensor) -> Tensor:
        out, chosen = x.clone(), x[:, 0] > 0
        out[chosen] += self.f(x[chosen]).tanh()
        return out


class Product(One):
    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(x, x.tanh(), self.f.weight)


def add_relu(x: Tensor, y: Tensor) -> Tensor:
    return x + torch.relu(y)


class Scripted(One):
    def __init__(self) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.add = torch.jit.script(add_relu)

    def forward(self, x: Tensor) -> Tensor:
        return self.add(x, self.f(x))


class Hooked(One):
    def __init__(self) -> None:
        super().__init__()
        self.f.register_forward_hook(lambda module, args, output: output.tanh() + args[0])

    def forward(self, x: Tensor) -> Tensor:
        return self.f(x)


class Started(One):
    """A sum of a function that another thread runs."""

    def forward(self, x: Tensor) -> Tensor:
        made = []
        thread = threading.Thread(target=lambda: made.append(x + self.f(x).tanh()))
        thread.start()
        thread.join()
        return made[0]


REFUSED: dict[type[nn.Module], str] = {
    Routed: "part of a index_add",
    Masked: "rows that an index picks",
    Product: "part of a addmm",
    Scripted: "part of a blend",
    Hooked: "a hook adds to its input",
    Started: "not a method of a module",
    InCall: "make it in forward",
    Property: "does not call by a name",
    Comprehension: "nothing around it tells apart",
    Lerp: "part of a lerp",
    Dispatched: "Make the sum in forward or in a plain method",
}


class Around(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.stem, self.inner = layer(), kind()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.stem(x))


def batch() -> Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return Around(kind)


def three_steps(net: nn.Module) -> list[Tensor]:
    """Outputs and gradients of three train steps, and the outputs of an eval call."""
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.05), []
    net.train()
    for seed in range(3):
        torch.manual_seed(seed)
        optimizer.zero_grad()
        out = net(batch())
        out.float().square().mean().backward()
        seen += [out.detach().clone(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)]
        optimizer.step()
    return [*seen, net.eval()(batch()).detach(), torch.get_rng_state()]


each = pytest.mark.parametrize("kind", FOUND, ids=lambda kind: kind.__name__)


@each
def test_an_odd_forward_goes_on_as_it_was_written(kind: type[nn.Module]) -> None:
    net = made(kind)
    untouched = copy.deepcopy(net)
    assert len(winze.junctions(net, batch())) == FOUND[kind]
    winze.rewire(net, winze.Scaled(1, 1), example=batch())
    for ours, theirs in zip(three_steps(net), three_steps(untouched), strict=True):
        assert torch.equal(ours, theirs)
    assert getattr(net.inner, "calls", 0) == getattr(untouched.inner, "calls", 0)


@each
def test_a_rule_counts_in_an_odd_forward(kind: type[nn.Module]) -> None:
    net = made(kind).eval()
    before = net(batch())
    winze.rewire(net, winze.Scaled(0.5, 1), example=batch())
    assert not torch.allclose(net(batch()), before)


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_a_sum_that_no_rule_can_take_over_is_refused_by_name(kind: type[nn.Module]) -> None:
    net = made(kind).eval()
    before = net(batch())
    with pytest.raises(CaptureError, match=REFUSED[kind]) as caught:
        winze.rewire(net, winze.Scaled(0.5, 1), example=batch())
    assert "test_odd_forms.py:" in str(caught.value)
    assert torch.equal(net(batch()), before)


def test_a_vector_that_a_hook_adds_is_no_shortcut() -> None:
    net = made(Block)
    net.inner.f.register_forward_hook(lambda module, args, output: output + torch.ones(6))
    net.inner.register_forward_pre_hook(lambda module, args: (args[0] + torch.zeros_like(args[0]),))
    assert not winze.junctions(net, batch()).unread


class Outer(nn.Module):
    """A residual block whose branch is a residual block, as in RepGhost."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.f = Block(), layer()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(self.inner(x))


class Output(One):
    """Adds what it is handed besides, as in BERT."""

    def forward(self, h: Tensor, stream: Tensor) -> Tensor:
        return (self.f(h) + stream).relu()


class Apart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.out = layer(), Output()

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.f(x).tanh(), x)


class Tree(nn.Module):
    """Hands one tensor in twice, as in DLA."""

    def __init__(self) -> None:
        super().__init__()
        self.out = Output()

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x, x)


PROGRAMS = (Outer, Apart, Tree, Reduce, While, Super, Nested)


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.__name__)
def test_frozen_weights_reach_sums_that_stand_elsewhere(kind: type[nn.Module]) -> None:
    net = made(kind)
    untouched = copy.deepcopy(net)
    winze.rewire(net, winze.ResidualDropPath(1.0 - 1e-9, "constant", frozen="weights"), example=batch())
    alternate = winze.Alternation(net, rows=4)
    torch.testing.assert_close(net.eval()(batch()), untouched.eval()(batch()))
    net.train()
    assert not torch.allclose(net(batch()), untouched.train()(batch()))  # all dropped
    alternate.step()  # the dropped branches learn, and the network is the plain one
    for one in (net, untouched):
        one(batch()).square().sum().backward()
    for ours, theirs in zip(net.parameters(), untouched.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    copied = copy.deepcopy(net).eval()
    torch.testing.assert_close(copied(batch()), untouched.eval()(batch()))
    winze.rewire(net, winze.Standard(), example=batch())
    assert torch.equal(net.eval()(batch()), untouched(batch()))
    assert "forward" not in vars(net.inner)


def test_a_hook_on_a_module_inside_a_program_is_not_lost() -> None:
    net = made(Apart)
    rule = winze.ResidualDropPath(0.5, frozen="weights")
    winze.rewire(net, rule, example=batch())
    winze.Alternation(net, rows=4)
    net.inner.out.register_forward_hook(lambda module, args, out: None)
    with pytest.raises(CaptureError, match="a hook on 'out' would not fire"):
        net.eval()(batch())


def test_reading_fires_no_hooks() -> None:
    net, fired = made(Apart), []
    net.inner.register_forward_hook(lambda module, args, out: fired.append(1))
    for rule in (winze.Scaled(0.5), winze.DropPath(0.5), winze.ResidualDropPath(0.5, frozen="weights")):
        winze.rewire(net, rule, example=batch())
    assert fired == []


class Mixing(One):
    """Its samples depend on each other in eval mode too."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x - x.mean(0))


class Dead(One):
    """Nothing of what it is handed comes through."""

    def forward(self, x: Tensor) -> Tensor:
        y = 0 * x
        return y + self.f(y)


@pytest.mark.parametrize("kind", [Mixing, Dead])
def test_samples_are_masked_where_a_change_of_one_does_not_tell_their_axis(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(Block(), kind(), Block())
    winze.rewire(net, winze.DropPath(0.5, "constant"), example=batch())
    net.train()(batch()).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


class LayerDrop(Three):
    def forward(self, x: Tensor) -> Tensor:
        for part in self.layers:
            if self.training and torch.rand(()) < 0.6:
                continue
            x = x + part(x)
        return x


@pytest.mark.parametrize("seed", range(6))
def test_layers_that_were_dropped_while_reading_have_their_own_junctions(seed: int) -> None:
    net = made(LayerDrop).eval()
    torch.manual_seed(seed)  # one to three layers run in train mode
    winze.rewire(net, winze.DecayedIdentity(0.4), example=batch())
    x = net.stem(batch())
    for weight, part in zip((1.0, 0.7, 0.4), net.inner.layers, strict=True):
        x = weight * x + part(x)
    torch.testing.assert_close(net(batch()), x)
