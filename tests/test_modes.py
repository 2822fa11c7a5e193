"""A network that was run inside `unchanged` is the network that it was before."""

import queue
import random
import threading
from types import SimpleNamespace
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from torch import nn

from winze.modes import rng_unchanged, unchanged


class Counts(nn.Module):
    """Reassigns a buffer, changes another in place, counts, and collects, at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("table", None)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.calls, self.kept, self.named, self.plain = 0, [], {"last": None}, torch.zeros(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.9 * self.mean + x.mean(0)
        self.table = x.detach()
        self.register_buffer("late", x.detach())
        self.steps += 1
        self.calls += 1
        self.kept.append(x)
        self.named["last"] = x
        self.plain.add_(1)
        self.extra = x
        return x


class Merging(nn.Linear):
    """A LoRA-like layer whose weight holds a part of another only in eval mode."""

    def __init__(self) -> None:
        super().__init__(3, 3)
        self.part, self.merged = torch.full((3, 3), 1e-4), False

    def train(self, mode: bool = True) -> "Merging":
        """Add the part in eval mode, take it out again in train mode."""
        super().train(mode)
        if mode == self.merged:
            self.weight.data += self.part if not mode else -self.part
            self.merged = not mode
        return self


class AlwaysEval(nn.BatchNorm1d):
    """A frozen norm, which no mode wakes up."""

    def train(self, mode: bool = True) -> "AlwaysEval":
        """Stay in eval mode."""
        return super().train(False)


def test_buffers_are_the_same_tensors_with_the_same_values() -> None:
    net = Counts()
    before = {name: (buffer, buffer.clone()) for name, buffer in net.named_buffers()}
    with unchanged(net):
        net(torch.ones(2, 3))
    assert dict(net.named_buffers()).keys() == before.keys()
    assert all(net.get_buffer(name) is tensor for name, (tensor, _) in before.items())
    assert all(torch.equal(tensor, value) for tensor, value in before.values())


def test_counters_lists_and_plain_tensors_are_as_before() -> None:
    net = Counts()
    kept = net.kept
    with unchanged(net):
        net(torch.ones(2, 3))
    assert net.calls == 0
    assert net.kept is kept
    assert not kept
    assert net.named == {"last": None}
    assert not net.plain.any()
    assert not hasattr(net, "extra")


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("inside", [True, False, None])
def test_a_layer_that_merges_its_weights_in_eval_mode_is_as_before(training: bool, inside: bool | None) -> None:
    net = nn.Sequential(Merging(), nn.Dropout()).train(training)
    weight = net[0].weight.clone()
    with unchanged(net, training=inside):
        assert net[0].merged != net[0].training
    assert net.training == training
    assert net[0].merged != training
    assert torch.equal(net[0].weight, weight)


def test_each_module_gets_its_own_mode_back() -> None:
    net = nn.Sequential(nn.Sequential(AlwaysEval(3), nn.Dropout()), nn.BatchNorm1d(3), Merging()).train()
    net[1].eval()
    before = [module.training for module in net.modules()]
    with unchanged(net, training=False):
        assert not any(module.training for module in net.modules())
    assert [module.training for module in net.modules()] == before


def test_modes_come_back_after_an_error() -> None:
    net = nn.Dropout()
    with pytest.raises(RuntimeError, match="inside"), unchanged(net, training=False):
        raise RuntimeError("inside")
    assert net.training


def test_the_rng_of_torch_numpy_and_python_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # beartype draws random numbers

    def state() -> tuple[Any, ...]:
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

    own = torch.Generator()
    before = state(), own.get_state().tolist()
    for borrowed in (rng_unchanged([own]), unchanged(generators=[own])):
        with borrowed:
            torch.rand(()), torch.rand((), generator=own), np.random.rand(), random.random()
    assert (state(), own.get_state().tolist()) == before


def test_a_layer_that_the_first_call_builds_stays() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.layer is None:
                self.layer = nn.Linear(3, 3)
            return self.layer(x)

    net = Late()
    with unchanged(net):
        net(torch.ones(1, 3))
    assert isinstance(net.layer, nn.Linear)


def test_a_tensor_that_nothing_wrote_keeps_its_version_for_autograd() -> None:
    net = nn.BatchNorm1d(3).eval()
    x = torch.ones(2, 3, requires_grad=True)
    loss = net(x).sum()
    with unchanged(net, training=False):
        net(x.detach())
    loss.backward()
    assert x.grad is not None


class Drawing(nn.Module):
    """Draws from generators of its own, counts in a namespace, and holds a queue that a thread waits at."""

    def __init__(self) -> None:
        super().__init__()
        self.own = random.Random(0), np.random.default_rng(0), np.random.RandomState(0), torch.Generator()
        self.counts, self.asked, self.answers = SimpleNamespace(calls=0), queue.Queue(), queue.Queue()
        threading.Thread(target=self.answer, daemon=True).start()

    def answer(self) -> None:
        while True:
            self.answers.put(self.asked.get())

    def forward(self) -> list[float]:
        self.counts.calls += 1
        self.asked.put(self.counts.calls)
        python, new, old, ours = self.own
        drawn = [python.random(), new.random(), old.rand(), float(torch.rand((), generator=ours))]
        return [*drawn, self.answers.get(timeout=60)]


def test_generators_and_namespaces_of_a_module_come_back_and_its_threads_go_on():
    net = Drawing()
    with unchanged(net):
        first = net()
    assert net() == first
    assert net() != first
