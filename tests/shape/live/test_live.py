"""A rewired forward goes on living: what its author wrote around the sum still happens, once, when it is called."""

import copy
import functools
import inspect
import pickle
import random
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import winze
from winze import NoShortcut, Scaled, Standard

WIDTH = 8
Pair = namedtuple("Pair", "result hidden")


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return 2 * function(*args, **kwargs)

    return inner


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.register_buffer("ema", torch.zeros(WIDTH))
        self.scale, self.calls, self.kept = 1.0, 0, []

    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x)


class Attribute(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.kept.append(x.shape)
        return x + self.f(x) * self.scale


class Buffer(Base):
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.ema = 0.9 * self.ema + 0.1 * x.detach().mean(0)
        return x + self.f(x - self.ema)


class CustomGradient(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x + Reverse.apply(self.f(x))


class TensorHook(Base):
    def forward(self, x: Tensor) -> Tensor:
        h = self.f(x)
        if h.requires_grad:
            h.register_hook(lambda gradient: 0.1 * gradient)
        return x + h


class NoGradient(Base):
    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(False):
            h = self.f[0](x)
        return x + self.f[2](h)


class Coin(Base):
    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.rand(()) < 0.5:
            return x
        return x + self.f(x)


class PythonCoin(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x + random.random() * np.random.rand() * self.f(x) if self.training else x + self.f(x)


class Values(Base):
    def forward(self, x: Tensor) -> Tensor:
        if float(x.detach().abs().max()) > 1.0:
            x = x.clamp(-1, 1)
        return x + self.f(x)


class InPlace(Base):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        h = self.f(x)
        y.mul_(2)
        return y + h


class Accumulated(Base):
    def forward(self, x: Tensor) -> Tensor:
        out = self.f(x)
        out += x
        return out.relu_()


class Aliased(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1
        seen = x
        x += self.f(x.clone())
        return torch.stack([x, seen]).prod(0)


class Helper(Base):
    def forward(self, x: Tensor) -> Tensor:
        return self._run(x, self.f)

    def _run(self, x: Tensor, f: nn.Module) -> Tensor:
        return x + f(x)


class Nested(Base):
    def forward(self, x: Tensor) -> Tensor:
        def run(y: Tensor) -> Tensor:
            return y + self.f(y)

        return run(x)


class Decorated(Base):
    @wrapped
    def forward(self, x: Tensor) -> Tensor:
        return x + self.f(x)


class Private(Base):
    def __init__(self) -> None:
        super().__init__()
        self.__gain = 0.5

    def forward(self, x: Tensor) -> Tensor:
        return x + self.__gain * super().forward(x) - self.__gain * x


class Loop(Base):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.f:
            if isinstance(layer, nn.Linear):
                x = x + layer(x)
        return x


class LayerDrop(Base):
    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.f[0], self.f[2]):
            if self.training and torch.rand(()) < 0.5:
                continue
            x = x + layer(x)
        return x


class Called(Base):
    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, self.f(x), alpha=0.5)


class Summed(Base):
    def forward(self, x: Tensor) -> Tensor:
        return sum([x, self.f(x)])


class Subtracted(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x - self.f(x)


class Parallel(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.f[0](x) + self.f[2](x)


def dropped_and_added(x: Tensor, residual: Tensor, p: float = 0.0, training: bool = False) -> Tensor:
    return residual + F.dropout(x, p=p, training=training)


class Function(Base):
    def forward(self, x: Tensor) -> Tensor:
        return dropped_and_added(self.f(x), x, 0.1, training=self.training)


class OnSelf(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.held = x
        return self.f(x) + self.held


KINDS = {
    kind.__name__: kind
    for kind in (
        *(Attribute, Buffer, CustomGradient, TensorHook, NoGradient, Coin, PythonCoin, Values, InPlace, Accumulated),
        *(Aliased, Helper, Nested, Decorated, Loop, LayerDrop, Called, Summed, Subtracted, Parallel, OnSelf, Function),
    )
}
each = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


def network(kind: type[Base]) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), kind(), kind())


def batch(samples: int = 4) -> Tensor:
    return torch.randn(samples, WIDTH, generator=torch.Generator().manual_seed(1))


def outcome(net: nn.Module, training: bool) -> list[Any]:
    """Outputs, gradients, buffers, draws and Python state of three calls."""
    random.seed(2), np.random.seed(2), torch.manual_seed(2)
    found: list[Any] = []
    for size in (4, 3, 4):
        net.train(training).zero_grad()
        result = net(batch(size))
        (result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum().backward()
        found += [result.detach(), *(p.grad if p.grad is None else p.grad.clone() for p in net.parameters())]
    states = [(m.scale, m.calls, list(m.kept)) for m in net if isinstance(m, Base)]
    return [*found, *net.buffers(), torch.get_rng_state(), random.random(), states]


def same(one: Any, two: Any, exact: bool) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, two) if exact else torch.allclose(one, two, atol=1e-6)
    return one == two


@each
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_results_gradients_draws_and_state_are_the_untouched_networks(kind: type[Base], training: bool) -> None:
    plain, net = network(kind), network(kind)
    winze.rewire(net, Scaled(1.0, 1.0), example=batch())
    exact = kind is not Parallel  # three terms are added up in another order
    pairs = zip(outcome(plain, training), outcome(net, training), strict=True)
    assert [i for i, (one, two) in enumerate(pairs) if not same(one, two, exact)] == []


@each
def test_a_rule_changes_what_the_network_computes(kind: type[Base]) -> None:
    plain, net = network(kind).eval(), network(kind).eval()
    winze.rewire(net, Scaled(0.5), example=batch())
    assert not torch.allclose(plain(batch()), net(batch()), atol=1e-3)


@each
def test_looking_for_junctions_leaves_no_trace(kind: type[Base]) -> None:
    plain, net = network(kind), network(kind)
    winze.junctions(net, example=batch())
    pairs = zip(outcome(plain, True), outcome(net, True), strict=True)
    assert all(same(one, two, True) for one, two in pairs)


@each
def test_undoing_leaves_nothing_behind(kind: type[Base]) -> None:
    net = network(kind)
    before = [sorted(vars(m)) for m in net.modules()]
    winze.rewire(net, Scaled(0.5), example=batch())
    winze.rewire(net, Standard(), example=batch())
    assert [sorted(vars(m)) for m in net.modules()] == before


@each
@torch.no_grad()
def test_copies_and_pickles_carry_their_rules(kind: type[Base]) -> None:
    net = winze.rewire(network(kind), Scaled(0.5), example=batch()).eval()
    expected = net(batch())
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(other(batch()), expected)
        other[1].f[0].weight.zero_()
        other[1].f[2].weight.zero_()
        assert not torch.equal(other(batch()), expected)
    assert torch.equal(net(batch()), expected)


def test_attributes_that_change_later_count() -> None:
    net = winze.rewire(network(Attribute), NoShortcut(), example=batch()).eval()
    for block in net[1:]:
        block.scale = 0.0
    assert not net(batch()).any()


def test_a_forward_on_the_instance_is_the_one_that_runs_and_comes_back() -> None:
    net = network(Base).eval()
    for block in net[1:]:
        block.forward = functools.partial(lambda me, x: x + 2 * me.f(x), block)
    expected, own = net(batch()), [block.forward for block in net[1:]]
    winze.rewire(net, Scaled(1.0, 1.0), example=batch())
    for one in (net, copy.deepcopy(net)):
        assert torch.equal(one(batch()), expected)
    winze.rewire(net, NoShortcut(), example=batch())
    torch.testing.assert_close(net(batch()), 2 * net[2].f(2 * net[1].f(net[0](batch()))))
    winze.rewire(net, Standard(), example=batch())
    assert [block.forward for block in net[1:]] == own
    assert torch.equal(net(batch()), expected)


def test_a_bound_forward_on_the_instance_is_rewired() -> None:
    net = network(Base).eval()
    for block in net[1:]:
        block.forward = Helper._run.__get__(block)
    net[1].forward, net[2].forward = (Values.forward.__get__(block) for block in net[1:])
    own = [block.forward for block in net[1:]]
    x = net[0](batch()).clamp(-1, 1)
    winze.rewire(net, NoShortcut(), example=batch())
    torch.testing.assert_close(net(batch()), net[2].f(net[1].f(x).clamp(-1, 1)))
    winze.rewire(net, Standard(), example=batch())
    assert [block.forward for block in net[1:]] == own


def test_the_signature_of_a_rewired_forward_stays() -> None:
    net = winze.rewire(network(Base), Scaled(0.5), example=batch())
    assert inspect.signature(net[1].forward) == inspect.signature(Base().forward)


@pytest.mark.parametrize("hook", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_of_others_fire_once_per_call_and_never_while_looking(hook: str) -> None:
    net, seen = network(Base), []
    getattr(net[1].f[0], hook)(lambda *args: seen.append(1))
    winze.junctions(net, example=batch())
    winze.rewire(net, Scaled(0.5), example=batch())
    assert seen == []
    net(batch())
    assert seen == [1]


def test_a_block_with_a_parametrised_weight_is_found() -> None:
    net = network(Base)
    parametrizations.spectral_norm(net[1].f[0], "weight")
    parametrizations.weight_norm(net[2].f[2], "weight")
    assert [j.place.name for j in winze.junctions(net, example=batch())] == ["1", "2"]


@pytest.mark.parametrize("kind", [tuple, Pair, OrderedDict])
def test_the_type_of_a_result_stays(kind: Any) -> None:
    class Returning(Base):
        def forward(self, x: Tensor) -> Any:
            y = x + self.f(x)
            return OrderedDict(result=y, hidden=x) if kind is OrderedDict else Pair(y, x) if kind is Pair else (y, x)

    net = winze.rewire(Returning(), Scaled(1.0, 1.0), example=batch())
    assert type(net(batch())) is kind


def test_a_sum_that_no_rule_can_take_over_is_listed_and_refused() -> None:
    class Odd(Base):
        def forward(self, x: Tensor) -> Tensor:
            return torch.lerp(x, self.f(x), 0.5)

    net = nn.Sequential(Base(), Odd(), Base())
    found = winze.junctions(net, example=batch())
    assert list(found.unread) == ["1"]
    assert "unread: 1" in repr(found)
    with pytest.raises(winze.shape.CaptureError, match="Odd"):
        winze.rewire(net, Scaled(0.5), example=batch())
    winze.rewire(net, Scaled(0.5), where="[02]", example=batch())
    assert [type(j.rule) for j in winze.junctions(net, example=batch())] == [Scaled, Scaled]


def test_a_line_that_is_residual_only_in_some_runs_is_plain_in_the_others() -> None:
    class Late(Base):
        def forward(self, x: Tensor) -> Tensor:
            for layer in (self.f[1], self.f[0]):
                x = x + layer(x)
            return x

    net = Late().eval()
    assert len(winze.junctions(net, example=batch())) == 1
    winze.rewire(net, NoShortcut(), example=batch())
    torch.testing.assert_close(net(batch()), net.f[0](batch() + torch.tanh(batch())))


def test_terms_that_a_loop_adds_up_are_listed() -> None:
    class Sums(Base):
        def forward(self, x: Tensor) -> Tensor:
            y = x
            for layer in (self.f[0], self.f[2]):
                y = y + layer(x)
            return y

    found = winze.junctions(nn.Sequential(Base(), Sums()), example=batch())
    assert list(found.unread) == ["1"]


def test_a_stream_that_is_copied_into_a_buffer_is_still_the_stream() -> None:
    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Base()

        def forward(self, x: Tensor) -> Tensor:
            padded = x.new_zeros(len(x), WIDTH)
            for i, row in enumerate(x):
                padded[i, : len(row)].copy_(row)
            return self.block(padded)

    assert [j.kind for j in winze.junctions(Padded(), example=batch())] == ["identity"]


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
def test_a_scripted_block_with_a_sum_is_listed() -> None:
    net = nn.Sequential(Base(), torch.jit.trace(Base(), batch()))
    assert list(winze.junctions(net, example=batch()).unread) == ["1"]


def test_positions_that_every_layer_is_handed_are_no_shortcuts() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

        def forward(self, x: Tensor, positions: Tensor) -> Tensor:
            q = x + positions
            return x + self.attention(q, q, x)[0]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.randn(1, 5, WIDTH))
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x, self.positions.expand(len(x), -1, -1))
            return x

    found = winze.junctions(Net(), example=torch.randn(2, 5, WIDTH))
    assert [j.place.name for j in found] == ["layers.0", "layers.1", "layers.2"]


CONFIG = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
CONFIG |= {"intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0, "initializer_range": 0.3}


def tokens(samples: int = 2, length: int = 7) -> Tensor:
    return torch.randint(3, 64, (samples, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["Llama", "Qwen2"])
def test_generation_with_a_cache_gives_the_same_tokens(name: str) -> None:
    config = getattr(transformers, f"{name}Config")(**CONFIG, num_key_value_heads=2, bos_token_id=1, eos_token_id=None)
    torch.manual_seed(0)
    net = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    padded, mask = tokens(), torch.ones(2, 7, dtype=torch.long)
    mask[1, :3] = 0
    calls = [{"input_ids": tokens()}, {"input_ids": padded * mask, "attention_mask": mask}]
    expected = [net.generate(**call, max_new_tokens=6, do_sample=False) for call in calls]
    winze.rewire(net, Scaled(1.0, 1.0), example={"input_ids": tokens()})
    for one in (net, pickle.loads(pickle.dumps(net))):
        got = [one.generate(**call, max_new_tokens=6, do_sample=False) for call in calls]
        assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


def test_attention_maps_are_collected_once_per_layer() -> None:
    net = transformers.BertModel(transformers.BertConfig(**CONFIG, attn_implementation="eager")).eval()
    expected = net(tokens(), output_attentions=True)
    winze.rewire(net, Scaled(1.0, 1.0), example={"input_ids": tokens()})
    got = net(tokens(), output_attentions=True)
    assert type(got) is type(expected)
    assert len(got.attentions) == 2
    assert all(torch.equal(a, b) for a, b in zip(expected.attentions, got.attentions, strict=True))


@pytest.mark.parametrize("compute", ["dense", "auto"])
def test_batch_norms_of_ones_own_are_never_run_on_some_rows(compute: str) -> None:
    class Norm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x - x.mean(0)) / (x.std(0) + 1e-3) if self.training else x

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Sequential(nn.Linear(4096, 8), Norm(), nn.Linear(8, 4096))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.f(x)

    torch.manual_seed(0)
    plain = nn.Sequential(Normed(), Normed()).train()
    x = torch.randn(16, 4096)
    net = winze.rewire(copy.deepcopy(plain), winze.ResidualDropPath(0.5, compute=compute), example=x[:2])
    alternate = winze.Alternation(net, rows=16)
    alternate.step()
    torch.testing.assert_close(net(x), plain(x))


def test_samples_are_found_behind_positions() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train()
    plain, x = copy.deepcopy(net), torch.randn(5, 3, 16)
    winze.rewire(net, winze.ResidualDropPath(0.5, profile="constant"), example=torch.randn(4, 2, 16))
    alternate = winze.Alternation(net)
    net(x)
    assert alternate.state_dict()["table"].shape == (4, 3)
    alternate.step()
    torch.testing.assert_close(net(x), plain(x))


def test_torchs_transformer_layers_take_no_fast_path_around_a_rule() -> None:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 2).eval()
    x, mask = torch.randn(3, 5, 16), torch.zeros(3, 5, dtype=torch.bool)
    mask[1, 3:] = True
    winze.rewire(net, NoShortcut(), example=x)
    with torch.no_grad():
        quick = net(x, src_key_padding_mask=mask)
    torch.testing.assert_close(quick, net(x, src_key_padding_mask=mask).detach())


@pytest.mark.parametrize(("layer", "shape", "gate"), [
    (lambda: nn.Conv1d(8, 8, 3, padding=1), (2, 8, 20), nn.Conv1d),
    (lambda: nn.Conv3d(8, 8, 3, padding=1), (2, 8, 4, 5, 6), nn.Conv3d),
    (lambda: nn.ConvTranspose2d(8, 8, 3, padding=1), (2, 8, 12, 20), nn.Conv2d),
    (lambda: nn.Linear(8, 8), (2, 5, 8), nn.Linear),
])  # fmt: skip
def test_a_highway_gate_reads_the_channels(layer: Any, shape: tuple[int, ...], gate: type[nn.Module]) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = layer()

        def forward(self, x: Tensor) -> Tensor:
            return x + self.f(x)

    net = winze.rewire(Block(), winze.Highway(), example=torch.randn(shape))
    assert type(net.highway) is gate
    assert net(torch.randn(shape)).shape == shape


def test_one_junction_alone_has_the_whole_rate() -> None:
    net = winze.rewire(network(Base), winze.DropPath(0.5, compute="dense"), where="1", example=batch()).train()
    x = batch(64)
    changed = (net[1](x) - x).abs().amax(1) > 0
    assert 0 < int(changed.sum()) < 64


@pytest.mark.slow
def test_accelerates_hooks_stay() -> None:
    accelerate = pytest.importorskip("accelerate")
    net = network(Base).eval()
    expected = net(batch())
    for block in net[1:]:
        accelerate.hooks.add_hook_to_module(block, accelerate.hooks.ModelHook())
    winze.rewire(net, Scaled(1.0, 1.0), example=batch())
    assert torch.equal(net(batch()), expected)
    winze.rewire(net, NoShortcut(), example=batch())
    torch.testing.assert_close(net(batch()), net[2].f(net[1].f(net[0](batch()))))


@pytest.mark.slow
def test_lora_layers_stay() -> None:
    peft = pytest.importorskip("peft")
    net = transformers.LlamaModel(transformers.LlamaConfig(**CONFIG, num_key_value_heads=2))
    adapted = peft.get_peft_model(net, peft.LoraConfig(target_modules=["q_proj"]))
    expected = adapted(tokens()).last_hidden_state
    winze.rewire(adapted, Scaled(1.0, 1.0), example={"input_ids": tokens()})
    got = adapted(tokens()).last_hidden_state
    assert torch.equal(got, expected)


def test_values_are_all_that_a_rule_gets_that_asks_for_no_more() -> None:
    class Greedy(winze.Rule):
        def join(self, place: winze.Place, shortcut: Any, branch: Any) -> Tensor:
            return shortcut() + branch(frozen=True)

    net = winze.rewire(network(Base), Greedy(), example=batch())
    with pytest.raises(RuntimeError, match='needs = "program"'):
        net(batch())


def test_f_batch_norm_moves_its_statistics_once_with_frozen_weights() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(WIDTH, WIDTH)
            self.register_buffer("mean", torch.zeros(WIDTH))
            self.register_buffer("var", torch.ones(WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            return x + F.batch_norm(self.f(x), self.mean, self.var, training=self.training)

    torch.manual_seed(0)
    plain = nn.Sequential(Functional(), Functional()).train()
    rule = winze.ResidualDropPath(0.5, frozen="weights", compute="dense")
    net = winze.rewire(copy.deepcopy(plain), rule, example=batch())
    winze.Alternation(net, rows=4).step()
    net(batch()), plain(batch())
    torch.testing.assert_close(dict(net.named_buffers()), dict(plain.named_buffers()))


def patched_later(rule: Any) -> tuple[type[nn.Module], nn.Module, Tensor]:
    class Own(Base):
        def forward(self, x: Tensor, factor: float = 1.0) -> Tensor:
            return x + factor * self.f(x)

    torch.manual_seed(0)
    net = nn.Sequential(Own(), Own())
    x = torch.randn(4, WIDTH)
    winze.rewire(net, rule, example=x)
    net(x)
    return Own, net, x


RULES = pytest.mark.parametrize("rule", [Scaled(1, 1), winze.DropPath(0.0), winze.DropPath(1e-9)], ids=str)


@RULES
def test_defaults_that_a_class_gets_after_rewiring_count(rule: Any) -> None:
    kind, net, x = patched_later(rule)
    kind.forward.__defaults__ = (3.0,)
    y = x + 3 * net[0].f(x)
    torch.testing.assert_close(net(x), y + 3 * net[1].f(y))


@RULES
def test_a_forward_that_wraps_the_old_one_after_rewiring_counts(rule: Any) -> None:
    kind, net, x = patched_later(rule)
    kind.forward = wrapped(kind.forward)
    y = 2 * (x + net[0].f(x))
    torch.testing.assert_close(net(x), 2 * (y + net[1].f(y)))


def test_another_forward_after_rewiring_is_refused_where_no_program_reads_it_anew() -> None:
    kind, net, x = patched_later(Scaled(1, 1))
    kind.forward = lambda self, x: 3 * x + self.f(x)
    with pytest.raises(winze.CaptureError, match=r"source of Own\.forward is not what it was .* rewire it again"):
        net(x)


def test_a_program_is_made_anew_for_another_forward() -> None:
    kind, net, x = patched_later(winze.DropPath(1e-9))
    kind.forward = lambda self, x: 3 * x + self.f(x)
    y = 3 * x + net[0].f(x)
    torch.testing.assert_close(net(x), 3 * y + net[1].f(y))
