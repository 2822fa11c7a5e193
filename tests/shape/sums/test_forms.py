"""Ways to write a residual sum: each is found, or listed with its reason, and never passed over."""

import functools
import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import winze

WIDTH = 8


class AddFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient, gradient


class Lerp(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.lerp(a, b, 0.5)


class Block(nn.Module):
    def __init__(self, body: Any) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
        self.w = nn.Parameter(torch.randn(WIDTH, WIDTH) / 3)
        self.kernel = nn.Parameter(torch.randn(1, 1, 3))
        self.lerp = Lerp()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


def columns(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1]).flip(0)


def rows(x: Tensor) -> Tensor:
    return torch.arange(len(x))


def in_items(s: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:] = y[:, 1:] + s.f(x)[:, 1:]
    return y


def in_a_view(s: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:] += s.f(x)[:, 1:]
    return y


def in_a_named_view(s: Any, x: Tensor) -> Tensor:
    y = x.clone()
    part = y[:, 1:]
    part += s.f(x)[:, 1:]
    return y


def in_a_flat_view(s: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y.view(-1).add_(s.f(x).view(-1))
    return y


def as_a_statement(s: Any, x: Tensor) -> Tensor:
    h = s.f(x)
    h.add_(x)
    return h


def onto_zeros(s: Any, x: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    total += x
    total += s.f(x)
    return total


def after_items_changed(s: Any, x: Tensor) -> Tensor:
    y = x.clone()
    h = s.f(x)
    y[:, :2] *= 3
    return y + h


def of_pieces(s: Any, x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    c, d = s.f(x).chunk(2, -1)
    return torch.cat([a + c, b * d], -1)


def of_token_and_patches(s: Any, x: Tensor) -> Tensor:
    token, rest = x[:1], x[1:]
    h = s.f(x)
    return torch.cat([token, rest]) + torch.cat([h[:1], h[1:]])


FOUND = {
    "keywords": lambda s, x: torch.add(input=x, other=s.f(x)),
    "method of the class": lambda s, x: torch.Tensor.add(x, s.f(x)),
    "operator": lambda s, x: operator.add(x, s.f(x)),
    "in place by the operator": lambda s, x: operator.iadd(x.clone(), s.f(x)),
    "sum with a start": lambda s, x: sum([s.f(x)], x),
    "sum of a generator": lambda s, x: sum(t for t in (x, s.f(x))),
    "another precision": lambda s, x: (x.double() + s.f(x).double()).float(),
    "rounded": lambda s, x: x.round() + s.f(x),
    "inside vmap": lambda s, x: torch.vmap(lambda row: row + s.f(row))(x),
    "where on a sum": lambda s, x: torch.where(torch.arange(WIDTH) > 3, x, x + s.f(x)),
    **{
        function.__name__.replace("_", " "): function
        for function in (
            in_items,
            in_a_view,
            in_a_named_view,
            in_a_flat_view,
            as_a_statement,
            onto_zeros,
            after_items_changed,
        )
    },
    "columns picked": lambda s, x: x.index_select(1, columns(x)) + s.f(x),
    "columns gathered": lambda s, x: x.gather(1, columns(x).expand(len(x), -1)) + s.f(x),
    "masked": lambda s, x: x.masked_fill(torch.arange(WIDTH) > 3, 0) + s.f(x),
    "other axes": lambda s, x: (x.swapdims(0, 1) + s.f(x).T).T,
    "normalised": lambda s, x: F.normalize(x, dim=-1) + s.f(x),
    "norm written out": lambda s, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) + s.f(x),
    "softplus": lambda s, x: F.softplus(x) + s.f(x),
    "product of matrices": lambda s, x: x + torch.mm(x, s.w).tanh(),
    "tensordot": lambda s, x: x + torch.tensordot(x, s.w, 1).tanh(),
    "bilinear": lambda s, x: x + F.bilinear(x, x, s.w.expand(WIDTH, -1, -1)),
    "transposed convolution": lambda s, x: x + F.conv_transpose1d(x[:, None], s.kernel, padding=1)[:, 0],
    "filter over frequencies": lambda s, x: x + torch.fft.ifft(torch.fft.fft(x)[:, None] * s.w).real.mean(1),
    "of pieces": of_pieces,
    "of token and patches": of_token_and_patches,
}
LISTED = {
    "lerp": lambda s, x: torch.lerp(x, s.f(x), 0.5),
    "lerp in a child": lambda s, x: s.lerp(x, s.f(x)),
    "addmm": lambda s, x: torch.addmm(x, s.f(x), s.w),
    "addmm of the stream itself": lambda s, x: torch.addmm(x, x, s.w),
    "addbmm": lambda s, x: torch.addbmm(x, s.f(x)[None], s.w[None]),
    "addcdiv": lambda s, x: torch.addcdiv(x, s.f(x), torch.ones(WIDTH)),
    "rsub": lambda s, x: torch.rsub(s.f(x), x),
    "stack and sum": lambda s, x: torch.stack([x, s.f(x)]).sum(0),
    "stack and weighted sum": lambda s, x: (torch.stack([x, s.f(x)]) * torch.ones(2, 1, 1)).sum(0),
    "stack and matmul": lambda s, x: torch.stack([x, s.f(x)], -1) @ torch.ones(2),
    "stack and cumsum": lambda s, x: torch.stack([x, s.f(x)]).cumsum(0)[-1],
    "stack and pool": lambda s, x: F.avg_pool1d(torch.stack([x, s.f(x)], -1), 2)[..., 0],
    "stack and index": lambda s, x: (lambda t: t[0] + t[1])(torch.stack([x, s.f(x)])),
    "stack and unbind": lambda s, x: sum(torch.stack([x, s.f(x)]).unbind(0)),
    "cat and sum": lambda s, x: torch.cat([x[None], s.f(x)[None]]).sum(0),
    "cat, view and sum": lambda s, x: torch.cat([x, s.f(x)], -1).view(len(x), 2, WIDTH).sum(1),
    "cat and chunk": lambda s, x: (lambda a, b: a + b)(*torch.cat([x, s.f(x)]).chunk(2)),
    "where": lambda s, x: torch.where(torch.arange(WIDTH) > 3, x, s.f(x)),
    "masked scatter": lambda s, x: x.masked_scatter(torch.arange(WIDTH) > 3, s.f(x)),
    "index add": lambda s, x: x.index_add(0, rows(x), s.f(x)),
    "index put": lambda s, x: x.clone().index_put_((rows(x),), s.f(x), accumulate=True),
    "scatter add": lambda s, x: x.scatter_add(0, rows(x)[:, None].expand(-1, WIDTH), s.f(x)),
    "foreach": lambda s, x: torch._foreach_add([x], [s.f(x)])[0],
    "autograd function": lambda s, x: AddFunction.apply(x, s.f(x)),
    "vmap of an addition": lambda s, x: torch.vmap(torch.add)(x, s.f(x)),
    "reduce": lambda s, x: functools.reduce(operator.add, [x, s.f(x)]),
    "out": lambda s, x: torch.add(x, s.f(x), out=torch.empty_like(x)),
    "starred": lambda s, x: torch.add(*(x, s.f(x))),
    "local variables counted": lambda s, x: (x + s.f(x)) * len(locals()),
}
NEITHER = {
    "product": lambda s, x: x * torch.sigmoid(s.f(x)),
    "difference from the stream": lambda s, x: s.f(x) - x,
    "maximum": lambda s, x: torch.maximum(x, s.f(x)),
    "concatenation": lambda s, x: F.linear(torch.cat([x, s.f(x)], -1), torch.cat([s.w, s.w], 1)),
    "one row for all": lambda s, x: x + s.f(x[:1]),
    "class token replaced": lambda s, x: torch.cat([s.f(x[:1]), x[1:]]),
}


def network(body: Any) -> nn.Module:
    plain = lambda s, x: x + s.f(x)  # noqa: E731
    return nn.Sequential(Block(plain), Block(body), Block(plain)).eval()


def batch() -> Tensor:
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_a_sum_is_found_and_goes_on_as_it_was_written(body: Any) -> None:
    net = network(body)
    expected = net(batch())
    found = winze.junctions(net, example=batch())
    assert [j.place.name for j in found] == ["0", "1", "2"]
    assert not found.unread
    winze.rewire(net, winze.Scaled(1.0, 1.0), example=batch())
    assert torch.equal(net(batch()), expected)
    winze.rewire(net, winze.Scaled(0.5, 1.0), where="1", example=batch())
    assert not torch.equal(net(batch()), expected)


@pytest.mark.parametrize("body", LISTED.values(), ids=LISTED)
def test_a_sum_in_which_no_rule_can_stand_is_listed_with_its_line(body: Any) -> None:
    net = network(body)
    found = winze.junctions(net, example=batch())
    assert list(found.unread) == ["1"]
    assert f"{__file__}:" in found.unread["1"]
    with pytest.raises(winze.shape.CaptureError, match="Block"):
        winze.rewire(net, winze.Scaled(0.5), example=batch())


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
def test_a_sum_in_a_scripted_function_is_listed() -> None:
    added = torch.jit.script(_added)
    found = winze.junctions(network(lambda s, x: added(x, s.f(x))), example=batch())
    assert list(found.unread) == ["1"]


def _added(a: Tensor, b: Tensor) -> Tensor:
    return a + b


@pytest.mark.parametrize("body", NEITHER.values(), ids=NEITHER)
def test_what_adds_no_shortcut_to_a_branch_is_neither_found_nor_listed(body: Any) -> None:
    found = winze.junctions(network(body), example=batch())
    assert [j.place.name for j in found] == ["0", "2"]
    assert not found.unread


def test_a_where_between_a_stream_and_a_residual_block_is_no_further_sum() -> None:
    class Skipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block(lambda s, x: x + s.f(x))

        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x.sum(1, keepdim=True) > 0, self.block(x), x)

    found = winze.junctions(Skipping(), example=batch())
    assert [j.place.name for j in found] == ["block"]
    assert not found.unread


def test_a_sum_of_four_terms_is_one_junction() -> None:
    net = network(lambda s, x: x + s.f(x) + torch.mm(x, s.w) + s.f(2 * x))
    expected = net(batch())
    found = winze.junctions(net, example=batch())
    assert ([j.place.name for j in found], found.unread) == (["0", "1", "2"], {})
    winze.rewire(net, winze.Scaled(1.0, 1.0), example=batch())
    torch.testing.assert_close(net(batch()), expected)
    before = net[0](batch())
    winze.rewire(net, winze.NoShortcut(), where="1", example=batch())
    torch.testing.assert_close(net[1](before), net[1].f(before) + before @ net[1].w + net[1].f(2 * before))


def test_a_strided_convolution_of_any_kernel_is_a_projection() -> None:
    class Down(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 4, 3, 2, 1)
            self.second = nn.Conv2d(4, 4, 3, padding=1)
            self.shortcut = nn.Conv2d(3, 4, 3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x).relu()) + self.shortcut(x)

    found = winze.junctions(nn.Sequential(Down()), example=torch.randn(2, 3, 8, 8))
    assert [(j.place.name, j.kind) for j in found] == [("0", "projection")]


def test_a_function_that_is_known_by_two_names_follows_its_rule_under_both() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(WIDTH, WIDTH)

        def run(self, x: Tensor) -> Tensor:
            return x + self.f(x)

        forward = run

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Twice()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner.run(self.inner(x))

    net = Both()
    winze.rewire(net, winze.NoShortcut(), example=batch())
    assert torch.equal(net(batch()), net.inner.f(net.inner.f(batch())))


def test_timesformer_adds_concatenations_of_token_and_patches() -> None:
    config = transformers.TimesformerConfig(
        image_size=32,
        patch_size=16,
        num_frames=2,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
    )
    net = transformers.TimesformerModel(config).eval()
    video = {"pixel_values": torch.randn(2, 2, 3, 32, 32)}
    expected = net(**video).last_hidden_state
    found = winze.junctions(net, example=video)
    assert (len(found), found.unread) == (6, {})  # 2 layers: temporal attention, spatial attention, MLP
    winze.rewire(net, winze.Scaled(1.0, 1.0), example=video)
    assert torch.equal(net(**video).last_hidden_state, expected)


class AddedInPlace(nn.Module):
    """A sum written into the branch's own memory, behind which the stream is permuted."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.f(x)
        t = y.add_(x)
        return t.permute(0, 2, 3, 1)


def test_gradients_behind_a_sum_in_place_are_bit_identical() -> None:
    torch.manual_seed(0)
    net, x = AddedInPlace().double(), torch.randn(3, 4, 6, 6, dtype=torch.float64)
    weights = torch.randn(3, 6, 6, 4, dtype=torch.float64)

    def bias_gradient() -> Tensor:
        net.zero_grad()
        (net(x) * weights).sum().backward()
        assert net.f.bias is not None
        assert net.f.bias.grad is not None
        return net.f.bias.grad.clone()

    expected = bias_gradient()
    winze.rewire(net, winze.Scaled(1.0, 1.0), example=x)
    assert torch.equal(bias_gradient(), expected)
