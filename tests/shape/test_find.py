import copy
import linecache
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import winze
from winze import Scaled

C, SIDE, TOKENS = 4, 6, 5
SUMS = (
    "t = s + y",
    "t = y + s",
    "t = torch.add(s, y)",
    "t = torch.add(y, s)",
    "y += s\nt = y",
    "t = y.add_(s)",
    "t = s.add(y)",
)


def conv(kernel: int = 3, out: int = C, inside: int = C) -> nn.Conv2d:
    return nn.Conv2d(inside, out, kernel, padding=kernel // 2)


def deep() -> nn.Sequential:
    return nn.Sequential(conv(), nn.BatchNorm2d(C), nn.ReLU(), conv())


def mlp(width: int = C) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


@dataclass(frozen=True)
class Planted:
    """A shortcut `s` around a branch `y`, as source in which `@` stands for a number, and the members it needs.

    `f@` is the branch's largest child.
    """

    branch: str
    members: dict[str, Any]
    shortcut: str = "s = x"
    after: str = "x = t"
    kind: str = "identity"


@dataclass(frozen=True)
class Decoy:
    """Something with a sum in it that joins no shortcut to a branch."""

    lines: str
    members: dict[str, Any] = field(default_factory=dict)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


IMAGE_SHORTCUTS = {
    "identity": Planted("y = self.f@(x)", {"f@": deep}),
    "one layer": Planted("y = self.f@(x)", {"f@": conv}),
    "layer scale": Planted("y = self.gamma@ * self.f@(x)", {"f@": conv, "gamma@": lambda: parameter(1, C, 1, 1)}),
    "squeeze-excite": Planted(
        "y = self.f@(x)\ny = y * torch.sigmoid(self.gate@(y.mean((2, 3), keepdim=True)))",
        {"f@": deep, "gate@": lambda: conv(1)},
    ),
    "pre-norm": Planted("y = self.f@(F.relu(self.norm@(x)))", {"f@": conv, "norm@": lambda: nn.BatchNorm2d(C)}),
    "post-norm": Planted("y = self.f@(x)", {"f@": conv, "norm@": lambda: nn.BatchNorm2d(C)}, after="x = self.norm@(t)"),
    "pointwise projection": Planted(
        "y = self.f@(x)", {"f@": deep, "p@": lambda: conv(1)}, shortcut="s = self.p@(x)", kind="projection"
    ),
    "pooled and normed projection": Planted(
        "y = self.f@(x)",
        {"f@": deep, "p@": lambda: nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(1), nn.BatchNorm2d(C))},
        shortcut="s = self.p@(x)",
        kind="projection",
    ),
    "normed shortcut": Planted(
        "y = self.f@(x)",
        {"f@": conv, "p@": lambda: nn.BatchNorm2d(C)},
        shortcut="s = self.p@(x)",
        kind="projection",
    ),
    "channels last inside": Planted(
        "y = self.f@(x.permute(0, 2, 3, 1))",
        {"f@": mlp},
        shortcut="s = x.permute(0, 2, 3, 1)",
        after="x = t.permute(0, 3, 1, 2)",
    ),
    "sliced shortcut": Planted(
        "y = self.f@(x)",
        {"f@": lambda: conv(3, out=2)},
        shortcut="s = x[:, :2]",
        after="x = torch.cat([t, x[:, 2:]], 1)",
    ),
}
TOKEN_SHORTCUTS = {
    "mlp": Planted("y = self.f@(self.norm@(x))", {"f@": mlp, "norm@": lambda: nn.LayerNorm(C)}),
    "attention with weights": Planted(
        "y, w = self.f@(x, x, x)", {"f@": lambda: nn.MultiheadAttention(C, 2, batch_first=True)}
    ),
    "post-norm": Planted("y = self.f@(x)", {"f@": mlp, "norm@": lambda: nn.LayerNorm(C)}, after="x = self.norm@(t)"),
    "token mixing": Planted("y = self.f@(x.transpose(1, 2)).transpose(1, 2)", {"f@": lambda: mlp(TOKENS)}),
    "layer scale": Planted("y = self.f@(x) * self.gamma@", {"f@": mlp, "gamma@": lambda: parameter(C)}),
    "class token": Planted(
        "y = self.f@(x).mean(1, keepdim=True)",
        {"f@": mlp},
        shortcut="s = x[:, :1]",
        after="x = torch.cat([t, x[:, 1:]], 1)",
    ),
}
IMAGE_DECOYS = {
    "position embedding": Decoy("x = x + self.pos@", {"pos@": lambda: parameter(1, C, SIDE, SIDE)}),
    "position embedding of full shape": Decoy(
        "x = x + self.pos@.expand_as(x)", {"pos@": lambda: parameter(1, C, SIDE, SIDE)}
    ),
    "mask argument": Decoy("x = x + mask"),
    "parallel branches": Decoy("x = self.a@(x) + self.b@(x)", {"a@": conv, "b@": conv}),
    "parallel branches, one pointwise": Decoy("x = self.a@(x) + self.b@(x)", {"a@": conv, "b@": lambda: conv(1)}),
    "dense concatenation": Decoy(
        "x = self.b@(torch.cat([x, self.a@(x)], 1))", {"a@": conv, "b@": lambda: conv(1, inside=2 * C)}
    ),
    "pyramid fusion": Decoy(
        "x = self.b@(x) + F.interpolate(self.a@(F.avg_pool2d(x, 2)), size=x.shape[2:])",
        {"a@": conv, "b@": lambda: conv(1)},
    ),
    "pyramid fusion without a lateral layer": Decoy(
        "x = x + F.interpolate(self.a@(F.avg_pool2d(x, 2)), scale_factor=2)", {"a@": deep}
    ),
    "broadcast of a pooled vector": Decoy("x = x + self.a@(x.mean((2, 3), keepdim=True))", {"a@": lambda: conv(1)}),
}
TOKEN_DECOYS = {
    "position embedding": Decoy("x = x + self.pos@[:, : x.shape[1]]", {"pos@": lambda: parameter(1, TOKENS + 2, C)}),
    "mask argument": Decoy("x = mask + x"),
    "relative bias": Decoy(
        "q, k, v = self.a@(x).chunk(3, -1)\n"
        "w = q.matmul(k.transpose(1, 2)) + self.bias@.expand(x.shape[0], -1, -1)\n"
        "x = self.b@(w.softmax(-1).matmul(v))",
        {"a@": lambda: nn.Linear(C, 3 * C), "b@": lambda: nn.Linear(C, C), "bias@": lambda: parameter(TOKENS, TOKENS)},
    ),
    "rotary sum": Decoy(
        "r = torch.cat([-x[..., C // 2 :], x[..., : C // 2]], -1)\nx = x * self.cos@ + r * self.sin@",
        {"cos@": lambda: torch.rand(TOKENS, C), "sin@": lambda: torch.rand(TOKENS, C)},
    ),
    "rotary sum of queries": Decoy(
        "q = self.a@(x)\n"
        "r = torch.cat([-q[..., C // 2 :], q[..., : C // 2]], -1)\n"
        "q = q * self.cos@ + r * self.sin@\n"
        "x = q.matmul(x.transpose(1, 2)).softmax(-1).matmul(self.b@(x))",
        {
            "a@": lambda: nn.Linear(C, C),
            "b@": lambda: nn.Linear(C, C),
            "cos@": lambda: torch.rand(TOKENS, C),
            "sin@": lambda: torch.rand(TOKENS, C),
        },
    ),
    "parallel branches": Decoy(
        "x = self.a@(x) + self.b@(x)", {"a@": lambda: nn.Linear(C, C), "b@": lambda: nn.Linear(C, C)}
    ),
    "broadcast of a pooled vector": Decoy("x = x + self.a@(x.mean(1, keepdim=True))", {"a@": mlp}),
}
IMAGES = {**IMAGE_SHORTCUTS, **IMAGE_DECOYS}
TOKEN_PIECES = {**TOKEN_SHORTCUTS, **TOKEN_DECOYS}

Step = tuple[str, int]  # which piece, and how it adds


def written(pieces: dict[str, Any], steps: list[Step]) -> tuple[str, dict[str, Any]]:
    """The body of a forward that takes these steps, and the members it needs."""
    lines, members = [], {}
    for number, (name, how) in enumerate(steps):
        piece = pieces[name]
        text = (
            piece.lines
            if isinstance(piece, Decoy)
            else "\n".join([piece.shortcut, piece.branch, SUMS[how], piece.after])
        )
        lines += text.replace("@", str(number)).splitlines()
        members.update({key.replace("@", str(number)): make for key, make in piece.members.items()})
    return "\n".join(f"    {line}" for line in lines), members


def module_of(body: str, members: dict[str, Any], order: list[int]) -> nn.Module:
    """A module with this forward, its members registered in an order of their own."""
    names: dict[str, Any] = {"torch": torch, "F": F, "C": C}
    source = f"def forward(self, x, mask, *masks):\n{body}\n    return x\n"
    file = f"<written {hash(source)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file  # as notebooks do
    exec(compile(source, file, "exec"), names)
    module = type("Written", (nn.Module,), {"forward": names["forward"]})()
    for _, (name, make) in sorted(zip(order, members.items(), strict=False), key=lambda pair: pair[0]):
        member = make()
        if isinstance(member, Tensor) and not isinstance(member, nn.Parameter):
            module.register_buffer(name, member)
        else:
            setattr(module, name, member)
    return module


@dataclass
class Case:
    """A written network, what it takes, and the junctions that were planted in it: name and kind."""

    net: nn.Module
    example: tuple[Tensor, ...]
    planted: list[tuple[str, str]]
    source: str

    def __repr__(self) -> str:
        return f"{self.source}\nplanted: {self.planted}"


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    """A network of one to three blocks and steps of its own, in which each forward takes zero to three steps."""
    pieces, shape = (IMAGES, (C, SIDE, SIDE)) if kind == "images" else (TOKEN_PIECES, (TOKENS, C))
    step = st.tuples(st.sampled_from(sorted(pieces)), st.integers(0, len(SUMS) - 1))
    # one mask a forward: a mask that goes in before a layer and is added after it would be a shortcut around it
    lone = {"unique_by": lambda step: step[0] if step[0] == "mask argument" else object()}
    blocks = draw(st.lists(st.lists(step, min_size=1, max_size=3, **lone), min_size=1, max_size=3))
    own = draw(st.lists(step, max_size=2, **lone))
    order = draw(st.permutations(range(12)))
    own_body, members = written(pieces, own)
    planted, body, source = [], [], []
    for i, steps in enumerate(blocks):
        text, inside = written(pieces, steps)
        found = [n for n, (name, _) in enumerate(steps) if isinstance(pieces[name], Planted)]
        names = [f"block_{i}"] if len(found) == 1 else [f"block_{i}.f{n}" for n in found]
        planted += [(name, pieces[steps[n][0]].kind) for name, n in zip(names, found, strict=True)]
        members[f"block_{i}"] = lambda text=text, inside=inside: module_of(text, inside, order)
        body.append(f"    x = self.block_{i}(x, masks[{i}])")
        source.append(f"block_{i}:\n{text}")
    planted += [(f"f{n}", pieces[name].kind) for n, (name, _) in enumerate(own) if isinstance(pieces[name], Planted)]
    whole = "\n".join([*body, own_body])
    torch.manual_seed(0)
    net = module_of(whole, members, order).double()
    example = tuple(torch.randn(2, *shape, dtype=torch.float64) for _ in range(2 + len(blocks)))
    return Case(net, example, planted, "\n".join([*source, f"net:\n{whole}"]))


BOTH = st.one_of(cases("images"), cases("tokens"))


def found_in(net: nn.Module, *example: Tensor) -> list[tuple[str, str]]:
    return [(j.place.name, j.kind) for j in winze.junctions(net, example=example)]


def outcome(net: nn.Module, *inputs: Tensor) -> list[Tensor | None]:
    """The output and every gradient of a network for one fixed loss."""
    net.zero_grad()
    given = [x.clone().requires_grad_() for x in inputs]
    result = net(*given)
    (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view_as(result)).sum().backward()
    return [result.detach(), *(x.grad for x in given), *(p.grad for p in net.parameters())]


def equal(one: Tensor | None, two: Tensor | None) -> bool:
    return one is two if one is None or two is None else torch.equal(one, two)


def check_same(net: nn.Module, *inputs: Tensor) -> None:
    """`Scaled(1, 1)` on every junction leaves output and gradients as they are, in both modes."""
    untouched = copy.deepcopy(net)
    winze.rewire(net, Scaled(1.0, 1.0), example=inputs)
    for training in (True, False):
        expected = outcome(untouched.train(training), *inputs)
        got = outcome(net.train(training), *inputs)
        unequal = [i for i, pair in enumerate(zip(expected, got, strict=True)) if not equal(*pair)]
        assert not unequal, f"results {unequal} differ in {'train' if training else 'eval'} mode"


@settings(max_examples=60)
@given(case=BOTH)
def test_all_planted_shortcuts_are_found_and_no_decoy_is(case: Case) -> None:
    assert found_in(case.net, *case.example) == case.planted


@settings(max_examples=40)
@given(case=BOTH.filter(lambda case: bool(case.planted)))
def test_the_captured_path_of_a_random_network_is_bit_identical(case: Case) -> None:
    check_same(case.net, *case.example)


def single(pieces: dict[str, Any], name: str, how: int = 0) -> nn.Module:
    torch.manual_seed(0)
    return module_of(*written(pieces, [(name, how)]), list(range(12))).double()


def an_image(batch: int = 2) -> Tensor:
    return torch.randn(batch, C, SIDE, SIDE, dtype=torch.float64)


def tokens(batch: int = 2) -> Tensor:
    return torch.randn(batch, TOKENS, C, dtype=torch.float64)


@pytest.mark.parametrize("name", IMAGE_SHORTCUTS)
def test_a_shortcut_over_images_is_found(name: str) -> None:
    net = single(IMAGES, name)
    assert found_in(net, an_image(), an_image()) == [("f0", IMAGE_SHORTCUTS[name].kind)]


@pytest.mark.parametrize("name", TOKEN_SHORTCUTS)
def test_a_shortcut_over_tokens_is_found(name: str) -> None:
    net = single(TOKEN_PIECES, name)
    assert found_in(net, tokens(), tokens()) == [("f0", TOKEN_SHORTCUTS[name].kind)]


@pytest.mark.parametrize("name", IMAGE_DECOYS)
def test_a_sum_over_images_that_is_no_shortcut_is_left_out(name: str) -> None:
    assert found_in(single(IMAGES, name), an_image(), an_image()) == []


@pytest.mark.parametrize("name", TOKEN_DECOYS)
def test_a_sum_over_tokens_that_is_no_shortcut_is_left_out(name: str) -> None:
    assert found_in(single(TOKEN_PIECES, name), tokens(), tokens()) == []


@pytest.mark.parametrize("how", range(len(SUMS)), ids=SUMS)
def test_every_way_to_write_a_sum_is_found(how: int) -> None:
    assert found_in(single(IMAGES, "identity", how), an_image(), an_image()) == [("f0", "identity")]


@pytest.mark.parametrize("how", range(len(SUMS)), ids=SUMS)
def test_every_way_to_write_a_sum_is_kept_bit_for_bit(how: int) -> None:
    check_same(single(IMAGES, "identity", how), an_image(), an_image())


@pytest.mark.parametrize("name", IMAGE_SHORTCUTS)
def test_a_shortcut_over_images_is_kept_bit_for_bit(name: str) -> None:
    check_same(single(IMAGES, name), an_image(), an_image())


@pytest.mark.parametrize("name", TOKEN_SHORTCUTS)
def test_a_shortcut_over_tokens_is_kept_bit_for_bit(name: str) -> None:
    check_same(single(TOKEN_PIECES, name), tokens(), tokens())


class Block(nn.Module):
    """relu(conv(relu(conv(x))) + shortcut(x)), as ResNet has it."""

    def __init__(self, inside: int = C, out: int = C, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride, 1)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1)
        self.downsample = nn.Conv2d(inside, out, 1, stride) if stride > 1 or inside != out else None

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.conv2(self.relu(self.conv1(x)))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Stages(nn.Module):
    """Two stages of two blocks; the second halves the resolution. Registered last stage first."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2 * C, 3)
        self.layer2 = nn.Sequential(Block(C, 2 * C, stride=2), Block(2 * C, 2 * C))
        self.layer1 = nn.Sequential(Block(), Block())
        self.stem = conv(3, inside=3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))


def photos() -> Tensor:
    return torch.randn(2, 3, SIDE, SIDE)


def test_an_input_is_worked_out_even_where_the_first_layer_is_registered_last() -> None:
    assert len(winze.junctions(Stages())) == 4


def test_junctions_come_in_the_order_of_execution_not_of_registration() -> None:
    assert [j.place.name for j in winze.junctions(Stages(), example=photos())] == [
        "layer1.0",
        "layer1.1",
        "layer2.0",
        "layer2.1",
    ]


def test_a_shortcut_with_a_layer_on_it_is_a_projection_and_a_bare_one_an_identity() -> None:
    assert [j.kind for j in winze.junctions(Stages(), example=photos())] == [
        "identity",
        "identity",
        "projection",
        "identity",
    ]


def test_places_count_from_zero_to_the_total() -> None:
    places = [j.place for j in winze.junctions(Stages(), example=photos())]
    assert [(p.index, p.total) for p in places] == [(0, 4), (1, 4), (2, 4), (3, 4)]


def test_an_untouched_junction_carries_the_standard_rule() -> None:
    assert [j.rule for j in winze.junctions(Stages(), example=photos())] == [winze.Standard()] * 4


def test_junctions_print_as_a_table_with_one_row_each() -> None:
    header, *rows = repr(winze.junctions(Stages(), example=photos())).splitlines()
    assert header.split() == ["index", "name", "shortcut", "rule", "branch", "holds"]
    assert [row.split()[:4] for row in rows] == [
        ["0", "layer1.0", "identity", "Standard()"],
        ["1", "layer1.1", "identity", "Standard()"],
        ["2", "layer2.0", "projection", "Standard()"],
        ["3", "layer2.1", "identity", "Standard()"],
    ]


def test_the_table_says_what_the_branch_holds_and_leaves_the_projection_out() -> None:
    rows = repr(winze.junctions(Stages(), example=photos())).splitlines()[1:]
    assert [row.split("Standard()")[1].strip() for row in rows] == ["2 Conv2d, 1 ReLU"] * 4


def test_the_columns_of_the_table_line_up() -> None:
    header, *rows = repr(winze.junctions(Stages(), example=photos())).splitlines()
    assert {row.index("Standard()") for row in rows} == {header.index("rule")}


def test_a_network_without_junctions_gives_an_empty_list() -> None:
    found = winze.junctions(nn.Sequential(conv(), nn.ReLU(), conv()))
    assert isinstance(found, list)
    assert found == []


def test_no_junctions_print_as_words() -> None:
    assert repr(winze.junctions(nn.Sequential(conv()))) == "no junctions"


def test_a_block_with_two_sums_names_each_after_its_branch() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
            self.mlp = mlp()
            self.attn = nn.MultiheadAttention(C, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm1(x)
            x = x + self.attn(y, y, y, need_weights=False)[0]
            return x + self.mlp(self.norm2(x))

    net = nn.ModuleDict({"blocks": nn.Sequential(Encoder(), Encoder())})["blocks"]
    names = [j.place.name for j in winze.junctions(net, example=torch.randn(2, TOKENS, C))]
    assert names == ["0.attn", "0.mlp", "1.attn", "1.mlp"]


def test_a_sum_in_the_networks_own_forward_is_named_after_its_branch() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.body = conv(3, inside=3), deep()

        def forward(self, x: Tensor) -> Tensor:
            x = self.stem(x)
            return x + self.body(x)

    assert found_in(Net(), torch.randn(2, 3, SIDE, SIDE)) == [("body", "identity")]


def test_two_sums_with_the_same_largest_child_get_names_of_their_own() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = conv()

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.shared(x)
            return x + self.shared(x)

    names = [j.place.name for j in winze.junctions(Net(), example=torch.randn(2, C, SIDE, SIDE))]
    assert names[0] == "shared"
    assert len(set(names)) == 2


def test_a_module_called_twice_is_one_junction() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: Tensor) -> Tensor:
            return self.block(self.block(x))

    assert found_in(Net(), torch.randn(2, C, SIDE, SIDE)) == [("block", "identity")]


def test_a_module_called_twice_follows_its_rule_both_times() -> None:
    net = nn.Sequential(single(IMAGES, "one layer"))
    block = net[0]
    x, mask = an_image(), an_image()
    expected = block.f0(block.f0(x))

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return self.block(self.block(x, mask), mask)

    rewired = winze.rewire(Twice(), winze.NoShortcut(), example=(x, mask))
    assert torch.equal(rewired(x, mask), expected)


class Nested(nn.Module):
    """x + c(b'(a(x))), where b'(y) = y + b(y): one shortcut inside the branch of another."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = conv(1), conv(), nn.Sequential(conv(5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        y = y + self.b(y)
        return x + self.c(y)


def test_a_sum_inside_the_branch_of_another_is_a_junction_of_its_own() -> None:
    assert found_in(Nested(), torch.randn(2, C, SIDE, SIDE)) == [("b", "identity"), ("c", "identity")]


def test_nested_sums_are_kept_bit_for_bit() -> None:
    check_same(Nested().double(), an_image())


def test_nested_sums_follow_their_rules_one_inside_the_other() -> None:
    net, x = Nested().double(), an_image()
    y = net.a(x)
    expected = 0.5 * x + net.c(0.5 * y + net.b(y))
    assert torch.equal(winze.rewire(net, Scaled(shortcut=0.5), example=x)(x), expected)


class Output(nn.Module):
    """Takes both streams and adds them, as BERT's output modules do."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(C, C), nn.LayerNorm(C)

    def forward(self, hidden: Tensor, residual: Tensor) -> Tensor:
        return self.norm(self.dense(hidden) + residual)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.intermediate, self.output = nn.Linear(C, C), Output()

    def forward(self, x: Tensor) -> Tensor:
        return self.output(F.gelu(self.intermediate(x)), x)


def test_a_sum_in_a_child_that_takes_both_streams_is_found_at_its_parent() -> None:
    net = nn.Sequential(Layer(), Layer())
    assert found_in(net, torch.randn(2, TOKENS, C)) == [("0", "identity"), ("1", "identity")]


def test_a_sum_in_a_child_that_takes_both_streams_is_kept_bit_for_bit() -> None:
    check_same(nn.Sequential(Layer(), Layer()).double(), tokens())


def test_a_sum_in_a_child_that_takes_both_streams_follows_its_rule() -> None:
    net, x = Layer().double(), tokens()
    expected = net.output.norm(net.output.dense(F.gelu(net.intermediate(x))))
    assert torch.equal(winze.rewire(net, winze.NoShortcut(), example=x)(x), expected)


class WithWeights(nn.Module):
    """Hands the attention weights out beside the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(C, 2, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = self.attn(x, x, x)
        return x + y, weights


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = WithWeights()

    def forward(self, x: Tensor) -> Tensor:
        x, weights = self.block(x)
        return torch.cat([x, weights], -1)


def test_a_branch_with_a_side_result_is_found() -> None:
    assert found_in(Reader(), torch.randn(2, TOKENS, C)) == [("block", "identity")]


def test_a_branch_with_a_side_result_is_kept_bit_for_bit() -> None:
    check_same(Reader().double(), tokens())


def test_a_rule_reaches_the_sum_and_leaves_the_side_result() -> None:
    net, x = Reader().double(), tokens()
    y, weights = net.block.attn(x, x, x)
    got = winze.rewire(net, Scaled(shortcut=0.5, branch=2.0), example=x)(x)
    assert torch.equal(got, torch.cat([0.5 * x + 2.0 * y, weights], -1))


class ThreeTerms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp = conv(1), deep()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(x) + self.mlp(x)


def test_a_sum_of_three_terms_is_one_junction() -> None:
    assert found_in(ThreeTerms(), torch.randn(2, C, SIDE, SIDE)) == [("mlp", "identity")]


def test_a_sum_of_three_terms_is_kept_up_to_rounding() -> None:
    net, x = ThreeTerms().double(), an_image()
    expected = outcome(copy.deepcopy(net), x)
    for want, got in zip(expected, outcome(winze.rewire(net, Scaled(), example=x), x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_both_branches_of_a_three_term_sum_follow_the_rule() -> None:
    net, x = ThreeTerms().double().eval(), an_image()
    expected = net.attn(x) + net.mlp(x)
    assert torch.equal(winze.rewire(net, winze.NoShortcut(), example=x)(x), expected)


class PositionAfter(nn.Module):
    """A residual sum, and a position embedding of the same shape added to it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.position = conv(), parameter(1, C, SIDE, SIDE)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) + self.position.expand_as(x)


def test_a_position_embedding_added_to_a_residual_sum_is_no_part_of_the_branch() -> None:
    net, x = PositionAfter().double(), an_image()
    expected = x + net.position
    torch.testing.assert_close(winze.rewire(net, Scaled(branch=0.0), example=x)(x), expected)


def test_a_mask_added_to_a_residual_sum_is_no_part_of_the_branch() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = conv()

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return x + self.body(x) + mask

    x, mask = an_image(), an_image()
    net = winze.rewire(Net().double(), Scaled(branch=0.0), example=(x, mask))
    torch.testing.assert_close(net(x, mask), x + mask)


def test_a_strided_projection_is_found() -> None:
    assert found_in(Block(C, 2 * C, stride=2), torch.randn(2, C, SIDE, SIDE)) == [("conv2", "projection")]


def test_a_strided_projection_is_kept_bit_for_bit() -> None:
    check_same(Block(C, 2 * C, stride=2).double(), an_image())


def test_a_dense_block_has_no_junction() -> None:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(conv(3, inside=C * (i + 1)) for i in range(3))

        def forward(self, x: Tensor) -> Tensor:
            features = [x]
            for layer in self.layers:
                features.append(layer(torch.cat(features, 1)))
            return torch.cat(features, 1)

    assert found_in(Dense(), torch.randn(2, C, SIDE, SIDE)) == []


def test_a_transformer_layer_of_torch_has_two_junctions() -> None:
    layer = nn.TransformerEncoderLayer(C, 2, 8, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    names = [name for name, _ in found_in(net, torch.randn(2, TOKENS, C))]
    assert names == [
        *("layers.0.self_attn", "layers.0.linear1"),
        *("layers.1.self_attn", "layers.1.linear1"),
    ]


def test_native_junctions_are_found_beside_foreign_ones() -> None:
    net = nn.Sequential(winze.Junction(conv()), Block(), winze.Junction(deep(), shortcut=conv(1)))
    found = found_in(net, torch.randn(2, C, SIDE, SIDE))
    assert found == [("0", "identity"), ("1", "identity"), ("2", "projection")]


def test_an_example_may_be_a_dict_of_keyword_arguments() -> None:
    net = single(IMAGES, "identity")
    found = winze.junctions(net, example={"mask": an_image(), "x": an_image()})
    assert [j.place.name for j in found] == ["f0"]


def test_finding_twice_gives_the_same_answer() -> None:
    net = Stages()
    first = [(j.place, j.kind) for j in winze.junctions(net, example=photos())]
    assert [(j.place, j.kind) for j in winze.junctions(net, example=photos())] == first


def test_after_rewiring_the_found_junctions_carry_the_rule() -> None:
    net = winze.rewire(Stages(), Scaled(0.5), where="layer1.*", example=photos())
    rules = [j.rule for j in winze.junctions(net, example=photos())]
    assert rules == [Scaled(0.5), Scaled(0.5), winze.Standard(), winze.Standard()]
