"""Sums that stand in functions and objects which a module calls: each place that calls is a junction of its own."""

import copy
import functools
import pickle
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import winze
from winze import NoShortcut, Scaled

WIDTH = 8


def branch() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))


def batch() -> Tensor:
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))


def add(x: Tensor, h: Tensor, scale: float = 1.0) -> Tensor:
    return x + scale * h


def add_through(x: Tensor, h: Tensor) -> Tensor:
    return add(x, h)


def doubled(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return 2 * function(*args, **kwargs)

    return inner


@doubled
def add_twice(x: Tensor, h: Tensor) -> Tensor:
    return x + h


class Processor:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, module: nn.Module, x: Tensor) -> Tensor:
        self.calls += 1
        return self.joined(module.f(x), x)

    def joined(self, h: Tensor, x: Tensor) -> Tensor:
        return h + x


class Other(Processor):
    def __call__(self, module: nn.Module, x: Tensor) -> Tensor:
        return module.f(x) + x


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = branch(), branch()
        self.processor = Processor()
        self.partial = functools.partial(add, scale=0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x)


class TwoPlaces(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = add(x, self.f(x))
        return add(x, h=self.g(x), scale=0.5)


class Loop(Base):
    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.f, self.g):
            x = add(x, layer(x))
        return x


class Chain(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = add_through(x, self.f(x))
        return add_through(x, self.g(x))


class Wrapped(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = add_twice(x, self.f(x))
        return add_twice(x, self.g(x))


class Static(Base):
    @staticmethod
    def joined(x: Tensor, h: Tensor) -> Tensor:
        return x + h

    @classmethod
    def joined_too(cls, x: Tensor, h: Tensor) -> Tensor:
        return x + h

    def forward(self, x: Tensor) -> Tensor:
        x = self.joined(x, self.f(x))
        return self.joined_too(x, self.g(x))


class Partial(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = self.partial(x, self.f(x))
        return self.partial(x, self.g(x))


class InFunction(Base):
    def forward(self, x: Tensor) -> Tensor:
        def joined(y: Tensor) -> Tensor:
            for layer in (self.f, self.g):
                y = y + layer(y)
            return y

        return joined(x)


class Super(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = super().forward(x)
        return x + self.g(x)


class Processed(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = self.processor(self, x)
        return x + self.g(x)


KINDS = [TwoPlaces, Loop, Chain, Wrapped, Static, Partial, InFunction, Super, Processed]


def network(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(kind(), kind())


@pytest.mark.parametrize("kind", KINDS)
def test_each_place_that_calls_is_a_junction_of_its_own(kind: type[nn.Module]) -> None:
    net = network(kind)
    expected = net(batch())
    found = winze.junctions(net, example=batch())
    assert [j.place.name for j in found] == ["0.f", "0.g", "1.f", "1.g"]
    assert not found.unread
    rewired = winze.rewire(copy.deepcopy(net), Scaled(1.0, 1.0), example=batch())
    for one in (rewired, copy.deepcopy(rewired), pickle.loads(pickle.dumps(rewired))):
        assert torch.equal(one(batch()), expected)
    scaled = winze.rewire(copy.deepcopy(net), Scaled(0.5, 1.0), where="0.g", example=batch())
    again = winze.rewire(copy.deepcopy(scaled), Scaled(0.5, 1.0), where="0.f", example=batch())
    results = [expected, scaled(batch()), again(batch())]
    assert not any(torch.equal(a, b) for i, a in enumerate(results) for b in results[:i])
    winze.rewire(again, winze.Standard(), example=batch())
    assert torch.equal(again(batch()), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_without_shortcuts_only_the_branches_are_left(kind: type[nn.Module]) -> None:
    net = winze.rewire(network(kind)[:1], NoShortcut(), example=batch())
    one, two = {Wrapped: (2, 2), TwoPlaces: (1, 0.5), Partial: (0.5, 0.5)}.get(kind, (1, 1))
    torch.testing.assert_close(net(batch()), two * net[0].g(one * net[0].f(batch())))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TwoPlaces, Loop, Processed])
def test_a_function_with_a_sum_is_compiled_without_a_graph_break(kind: type[nn.Module]) -> None:
    net = winze.rewire(network(kind), Scaled(0.5, 1.0), example=batch())
    expected = net(batch())
    torch.compiler.reset()
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(batch()), expected)


def test_reading_leaves_the_state_of_objects_that_a_module_holds() -> None:
    net = network(Processed)
    winze.rewire(net, Scaled(0.5), example=batch())
    assert [block.processor.calls for block in net] == [0, 0]
    net(batch())
    assert [block.processor.calls for block in net] == [1, 1]


def test_an_object_put_in_the_place_of_another_is_refused_until_the_network_is_rewired_again() -> None:
    net = winze.rewire(network(Processed), Scaled(0.5), example=batch())
    net[0].processor = Other()
    with pytest.raises(winze.shape.CaptureError, match="calls another function than __call__"):
        net(batch())
    winze.rewire(net, NoShortcut(), example=batch())
    torch.testing.assert_close(net[0](batch()), net[0].g(net[0].f(batch())))


@pytest.mark.parametrize("options", [{}, {"parallel_attn": False}])
def test_falcon_adds_in_a_function_that_it_calls_twice(options: dict[str, Any]) -> None:
    config = transformers.FalconConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, **options
    )
    torch.manual_seed(0)
    net = transformers.FalconModel(config).eval()
    tokens = {"input_ids": torch.randint(3, 90, (2, 7))}
    expected = net(**tokens).last_hidden_state
    assert len(winze.junctions(net, example=tokens)) == (4 if options == {"parallel_attn": False} else 2)
    winze.rewire(net, Scaled(1.0, 1.0), example=tokens)
    assert torch.equal(net(**tokens).last_hidden_state, expected)


@pytest.mark.slow
def test_the_attention_of_diffusers_adds_in_a_processor() -> None:
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    net = diffusers.UNet2DModel(
        sample_size=16,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        attention_head_dim=8,
        down_block_types=("AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D"),
    ).eval()
    given = {"sample": torch.randn(2, 3, 16, 16), "timestep": torch.tensor([3, 5])}
    expected = net(**given).sample
    found = winze.junctions(net, example=given)
    assert (len(found), found.unread) == (12, {})  # 8 residual blocks, 4 attentions
    winze.rewire(net, Scaled(1.0, 1.0), example=given)
    assert torch.equal(net(**given).sample, expected)
