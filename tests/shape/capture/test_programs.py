"""Programs, the forwards cut into shortcut and branch: what changes later counts, and nothing is left out."""

from __future__ import annotations

import copy
import gc
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from transformers.utils import ModelOutput

import winze
from winze.shape.capture.program import Program
from winze.shape.live.definition import CaptureError

SETTINGS = {"factor": 1.0}
FACTOR = 1.0
SEEN: list[float] = []


class Base(nn.Module):
    """A block whose branch stands in several statements, so that rules that need a program get one."""

    factor: ClassVar[float] = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.f, self.g, self.shortcut = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.config, self.table, self.steps = SimpleNamespace(factor=1.0), {"factor": 1.0}, [1.0, 2.0]
        self.act: Callable[[Tensor], Tensor] = torch.tanh
        self.g.factor = 1.0  # type: ignore[assignment]
        self.last: Any = None

    def branch(self, x: Tensor) -> Tensor:
        return self.g(self.f(x).tanh())


class OfObject(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.config.factor * self.branch(x)

    def change(self) -> None:
        self.config.factor = 3.0


class OfDict(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.table["factor"] * self.branch(x)

    def change(self) -> None:
        self.table["factor"] = 3.0


class OfList(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.steps[0] * self.branch(x)

    def change(self) -> None:
        self.steps[0] = 3.0


class OfClass(Base):
    factor: ClassVar[float] = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.factor * self.branch(x)

    def change(self) -> None:
        type(self).factor = 3.0


class OfChild(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.g.factor * self.branch(x)

    def change(self) -> None:
        self.g.factor = 3.0  # type: ignore[assignment]


class OfFile(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + FACTOR * self.branch(x)

    def change(self) -> None:
        global FACTOR
        FACTOR = 3.0


class OfDictOfFile(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + SETTINGS["factor"] * self.branch(x)

    def change(self) -> None:
        SETTINGS["factor"] = 3.0


class OfFunction(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.act(self.branch(x))

    def change(self) -> None:
        self.act = torch.relu


class OfTensor(Base):
    def forward(self, x: Tensor) -> Tensor:
        before = torch.zeros_like(x) if getattr(self, "carried", None) is None else self.carried
        return self.shortcut(x) + self.branch(x + before)

    def change(self) -> None:
        self.carried = torch.ones(4, 6)


class Slots:
    """An object without a dictionary."""

    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 1.0


class OfSlots(Base):
    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots()

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.slots.factor * self.branch(x)

    def change(self) -> None:
        self.slots.factor = 3.0


def with_closure() -> type[Base]:
    factor = 1.0

    class OfClosure(Base):
        def forward(self, x: Tensor) -> Tensor:
            return self.shortcut(x) + factor * self.branch(x)

        def change(self) -> None:
            nonlocal factor
            factor = 3.0

    return OfClosure


CHANGING = [OfObject, OfDict, OfList, OfClass, OfChild, OfFile, OfDictOfFile, OfFunction, OfTensor, OfSlots]


@pytest.fixture(autouse=True)
def unchanged_file() -> Any:
    yield
    global FACTOR
    FACTOR = OfClass.factor = SETTINGS["factor"] = 1.0
    SEEN.clear()


def batch() -> Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def network(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(kind())


FREE = winze.DropPath(1e-9, profile="constant", scale=False, compute="rows")  # nothing is dropped: the plain sum


@pytest.mark.parametrize("kind", CHANGING, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("training", [True, False])
def test_what_a_forward_reads_may_change_under_a_program(kind: type[nn.Module], training: bool) -> None:
    net = network(kind).train(training)
    untouched = copy.deepcopy(net)
    winze.rewire(net, FREE, example=batch())
    assert isinstance(vars(net[0])["forward"].__self__, Program)
    torch.testing.assert_close(net(batch()), untouched(batch()))
    for model in (net, untouched):
        model[0].change()
    torch.testing.assert_close(net(batch()), untouched(batch()))


def test_a_variable_of_the_function_around_may_change_under_a_program() -> None:
    test_what_a_forward_reads_may_change_under_a_program(with_closure(), training=True)


class OfAutocast(Base):
    def forward(self, x: Tensor) -> Tensor:
        factor = 3.0 if torch.is_autocast_enabled("cpu") else 1.0
        return self.shortcut(x) + factor * self.branch(x)


def test_a_forward_that_asks_for_autocast_gets_a_program_for_each_answer() -> None:
    net = network(OfAutocast)
    untouched = copy.deepcopy(net)
    winze.rewire(net, FREE, example=batch())
    for enabled in (False, True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            torch.testing.assert_close(net(batch()), untouched(batch()))


class LeavesTensor(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.last = self.branch(x)
        return self.shortcut(x) + self.last

    def left(self) -> Any:
        return None if self.last is None else self.last.shape


class LeavesText(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.last = str(tuple(x.shape))
        return self.shortcut(x) + self.branch(x)

    def left(self) -> Any:
        return self.last


class CountsInObject(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.config.factor += 1
        return self.shortcut(x) + self.branch(x)

    def left(self) -> Any:
        return self.config.factor


class LeavesOnChild(Base):
    def forward(self, x: Tensor) -> Tensor:
        h = self.branch(x)
        self.g.last = h.detach()
        return self.shortcut(x) + h

    def left(self) -> Any:
        return getattr(self.g, "last", None) is None


LEAVING = [LeavesTensor, LeavesText, CountsInObject, LeavesOnChild]


@pytest.mark.parametrize("kind", LEAVING, ids=lambda kind: kind.__name__)
def test_a_forward_that_leaves_something_behind_runs_live(kind: type[nn.Module]) -> None:
    net = network(kind)
    untouched = copy.deepcopy(net)
    winze.rewire(net, winze.DropPath(1e-9, scale=False), example=batch())
    assert net[0].left() == untouched[0].left()
    for model in (net, untouched):
        model(batch())
    assert net[0].left() == untouched[0].left()
    with pytest.raises(CaptureError, match="cannot be cut into shortcut and branch"):
        winze.rewire(net, FREE, example=batch())


def test_a_forward_that_writes_to_a_list_of_its_file_goes_on_doing_so() -> None:
    class Writing(Base):
        def note(self, h: Tensor) -> Tensor:
            SEEN.append(1.0)
            return h

        def forward(self, x: Tensor) -> Tensor:
            return self.shortcut(x) + self.note(self.branch(x))

    net = winze.rewire(network(Writing), winze.DropPath(1e-9, scale=False), example=batch())
    SEEN.clear()
    net(batch())
    assert SEEN == [1.0]


class Coupled(nn.Module):
    """Two streams that cross: what the second sum's branch starts from is handed on as well."""

    def __init__(self) -> None:
        super().__init__()
        self.p, self.q = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        a = a + self.p(b).tanh()
        b = b + self.q(a).tanh()
        return torch.cat([a, b], 1)


class WithMaps(nn.Module):
    """Attention whose maps are handed on beside the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h, maps = self.attention(x, x, x)
        return x + h, maps


@pytest.mark.parametrize("rule", [winze.DropPath, winze.ResidualDropPath])
@pytest.mark.parametrize("kind", [Coupled, WithMaps])
def test_what_a_branch_hands_on_keeps_its_gradient_where_the_whole_batch_drops_it(kind: Any, rule: Any) -> None:
    x = batch() if kind is Coupled else torch.randn(4, 5, 6)
    gradients = []
    for compute in ("auto", "dense"):
        net = winze.rewire(network(kind), rule(0.5, "constant", mask="batch", compute=compute), example=x).train()
        steps = []
        for seed in range(4):
            alternate = winze.Alternation(net, seed=seed) if rule is winze.ResidualDropPath else None
            for _ in range(2):
                net.zero_grad()
                torch.manual_seed(seed)
                result = net(x)
                sum(t.square().sum() for t in (result if isinstance(result, tuple) else (result,))).backward()
                steps += [torch.zeros(1) if p.grad is None else p.grad.clone() for p in net.parameters()]
                if alternate is not None:
                    alternate.step()
        gradients.append(steps)
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)


def test_a_sum_with_its_samples_along_another_axis_than_its_stream_is_masked_by_sample() -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(6, 6)

        def forward(self, x: Tensor) -> Tensor:
            h = self.f(x).tanh()
            return (x.transpose(0, 1) + h.transpose(0, 1)).transpose(0, 1)

    net = winze.rewire(network(Turned), winze.ResidualDropPath(0.5, "constant"), example=batch()).train()
    alternate = winze.Alternation(net, rows=4, seed=1)
    keep = alternate.keep(0, 4)
    assert 0 < keep.sum() < 4
    x = batch()
    torch.testing.assert_close(net(x), x + keep[:, None] * net[0].f(x).tanh())


@pytest.mark.parametrize("kind", [OfObject, OfSlots, with_closure()], ids=lambda kind: kind.__name__)
def test_a_compiled_program_notices_what_changes_without_a_graph_break(kind: Any) -> None:
    net = winze.rewire(network(kind), FREE, example=batch()).eval()
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    first = compiled(batch())
    torch.testing.assert_close(first, net(batch()))
    net[0].change()
    expected = net(batch())  # which makes the plan anew
    assert not torch.allclose(expected, first)
    torch.testing.assert_close(compiled(batch()), expected)


def test_making_and_checking_programs_fires_no_hook_of_weights_or_of_all_modules() -> None:
    fired: list[Any] = []
    net = network(OfObject)
    for parameter in net.parameters():
        parameter.register_hook(fired.append)
    for module in net.modules():
        module.register_full_backward_hook(lambda *args: fired.append(args))
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *args: fired.append(args))
    try:
        winze.rewire(net, FREE, example=batch())
    finally:
        handle.remove()
    assert not fired
    net(batch().requires_grad_()).sum().backward()
    weights = sum(1 for _ in net.parameters())
    assert sum(isinstance(one, Tensor) for one in fired) == weights  # each hook is back in its place


@dataclass
class Output(ModelOutput):
    """What a network of Hugging Face returns."""

    last: Tensor | None = None
    maps: Tensor | None = None


def test_a_program_returns_the_class_of_output_that_the_forward_does() -> None:
    class Outputting(Base):
        def forward(self, x: Tensor) -> Output:
            return Output(last=self.shortcut(x) + self.branch(x))

    net = network(Outputting)
    expected = net(batch())
    winze.rewire(net, FREE, example=batch())
    assert isinstance(vars(net[0])["forward"].__self__, Program)
    result = net(batch())
    assert type(result) is Output
    assert result.maps is None
    torch.testing.assert_close(result.last, expected.last)


def note_collection(phase: str, info: dict[str, int]) -> None:
    SEEN.append(1.0)


def test_what_the_garbage_collector_calls_belongs_to_no_forward() -> None:
    before = gc.get_threshold()
    gc.set_threshold(50, 1000)  # it collects many times within a forward
    gc.callbacks.append(note_collection)
    try:
        net = winze.rewire(network(OfObject), FREE, example=batch())
    finally:
        gc.callbacks.remove(note_collection)
        gc.set_threshold(*before)
    program = vars(net[0])["forward"].__self__
    assert note_collection.__code__ not in program.functions
    assert gc.isenabled()


class Scattering(Base):
    """Adds up the batch in another order at each call, as kernels on several threads may."""

    turns = itertools.count().__next__

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        h = self.branch(x)
        start = 5 * self.turns()
        mean = sum(h[(start + i) % 16] for i in range(16)) / 16
        return self.shortcut(x) + self.norm(h - mean)  # whose running mean and bias gradients are all rounding


class Alternating(Base):
    """Is another forward at each call."""

    turns = itertools.count(1).__next__

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.turns() * self.branch(x)


class Masking(Alternating):
    """Is another forward at each call, beside values that are infinite."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(torch.arange(6) < 3, super().forward(x), -torch.inf)


def test_runs_that_differ_by_rounding_alone_are_the_same() -> None:
    net, x = network(Scattering), torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
    winze.rewire(net, FREE, example=x)
    assert isinstance(vars(net[0])["forward"].__self__, Program)


@pytest.mark.parametrize("kind", [Alternating, Masking])
def test_runs_that_differ_by_more_are_not(kind: type[nn.Module]) -> None:
    with pytest.raises(CaptureError, match="differ in their"):
        winze.rewire(network(kind), FREE, example=batch())
