"""What goes on working once the forwards of somebody else's network have been rewritten."""

import copy
import io
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock

import winze
from winze import DecayedIdentity, NoShortcut, Scaled, Standard

C = 4


class Block(nn.Module):
    """A residual block with BatchNorm and dropout in its branch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(C, C, 3, padding=1), nn.BatchNorm2d(C)
        self.drop = nn.Dropout(0.3)
        self.conv2 = nn.Conv2d(C, C, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.conv2(self.drop(torch.relu(self.norm(self.conv1(x))))))


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, C, 3, padding=1)
        self.blocks = nn.Sequential(Block(), Block())
        self.fc = nn.Linear(C, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class Encoder(nn.Module):
    """Two sums in one forward, with control flow on shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.2)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        x = x.reshape(batch, channels, height * width).transpose(1, 2)
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return x.transpose(1, 2).reshape(batch, channels, height, width)


class PostNorm(nn.Module):
    """A block with layers before and after its sum, outside the branch."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.body, self.norm = (
            nn.Conv2d(3, C, 3, padding=1),
            nn.Conv2d(C, C, 3, padding=1),
            nn.BatchNorm2d(C),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.norm(x + self.body(x))


def encoder() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 4, 4), Encoder(), Encoder(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "tiny": Tiny,
    "encoder": encoder,
    "post_norm": PostNorm,
    "resnet18": lambda: torchvision.models.ResNet(BasicBlock, [1, 2, 1, 1], num_classes=3),
    "vit_tiny": lambda: timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, embed_dim=48, proj_drop_rate=0.1
    ),
    "convnext_atto": lambda: timm.create_model(
        "convnext_atto", depths=(1, 1, 2, 1), dims=(8, 16, 32, 64), num_classes=3, drop_path_rate=0.1
    ),
    "swin_tiny": lambda: timm.create_model(
        "swin_tiny_patch4_window7_224", img_size=32, window_size=4, depths=(2, 2), num_heads=(2, 4), embed_dim=16
    ),
}
LIGHT = ["tiny", "encoder", "post_norm"]
each = pytest.mark.parametrize("name", NETWORKS)
light = pytest.mark.parametrize("name", LIGHT)
# the compiler itself looks at the gradients of tensors that have none, and says so
compiling = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")


def photos(batch: int = 2, side: int = 32) -> Tensor:
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(3))


def pair(name: str) -> tuple[nn.Module, nn.Module]:
    """A network as it was, and a copy of it with rules at its sums."""
    untouched, rewired = made(name)
    return copy.deepcopy(untouched), copy.deepcopy(rewired)


@cache
def made(name: str) -> tuple[nn.Module, nn.Module]:
    untouched = NETWORKS[name]()
    return untouched, winze.rewire(copy.deepcopy(untouched), Scaled(1.0, 1.0), example=photos())


def outcome(net: nn.Module, x: Tensor) -> list[Tensor | None]:
    """Output, gradients and buffers of one pass with one seed."""
    torch.manual_seed(5)
    net.zero_grad()
    result = net(x)
    (result.float() * torch.linspace(-1, 1, result.numel()).view_as(result)).sum().backward()
    return [result.detach(), *(p.grad for p in net.parameters()), *(b.clone() for b in net.buffers())]


def check_equal(one: list[Tensor | None], two: list[Tensor | None]) -> None:
    assert len(one) == len(two)
    for i, (a, b) in enumerate(zip(one, two, strict=True)):
        same = a is b if a is None or b is None else torch.equal(a, b)
        assert same, f"result {i} differs"


def captured(net: nn.Module) -> list[str]:
    """The modules whose forward is not their class's own."""
    return [name for name, module in net.named_modules() if "forward" in vars(module)]


def rules(net: nn.Module) -> list[winze.Rule]:
    return [j.rule for j in winze.junctions(net, example=photos())]


@each
def test_the_captured_path_is_really_at_work(name: str) -> None:
    _, net = pair(name)
    assert captured(net)


@each
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_outputs_gradients_and_buffers_are_bit_identical(name: str, training: bool) -> None:
    untouched = NETWORKS[name]()
    net = winze.rewire(copy.deepcopy(untouched), Scaled(1.0, 1.0), example=photos())
    x = photos(3)
    check_equal(outcome(untouched.train(training), x), outcome(net.train(training), x))


@each
def test_the_mode_may_change_back_and_forth(name: str) -> None:
    untouched, net = pair(name)
    for training in (True, False, True):
        check_equal(outcome(untouched.train(training), photos()), outcome(net.train(training), photos()))


@each
def test_the_keys_of_the_state_dict_stay(name: str) -> None:
    untouched, net = pair(name)
    assert list(net.state_dict()) == list(untouched.state_dict())


@each
def test_checkpoints_load_both_ways(name: str) -> None:
    one, two = NETWORKS[name](), NETWORKS[name]().eval()
    rewired = winze.rewire(copy.deepcopy(one), Scaled(0.5), example=photos()).eval()
    again = winze.rewire(copy.deepcopy(two), Scaled(0.5), example=photos()).eval()
    again.load_state_dict(one.state_dict())
    assert torch.equal(again(photos()), rewired(photos()))
    two.load_state_dict(rewired.state_dict())
    assert torch.equal(two(photos()), one.eval()(photos()))


@each
def test_autocast_gives_the_same_numbers_and_types(name: str) -> None:
    untouched, net = pair(name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected, got = untouched.eval()(photos()), net.eval()(photos())
    assert got.dtype == expected.dtype
    assert torch.equal(got, expected)


@pytest.mark.parametrize("name", ["tiny", "resnet18", "convnext_atto"])
def test_channels_last_gives_the_same_numbers(name: str) -> None:
    untouched, net = (n.to(memory_format=torch.channels_last).train() for n in pair(name))
    x = photos().to(memory_format=torch.channels_last)
    check_equal(outcome(untouched, x), outcome(net, x))


@each
def test_ragged_batches_are_taken(name: str) -> None:
    untouched, net = (n.eval() for n in pair(name))
    for batch in (5, 1, 4):
        assert torch.equal(net(photos(batch)), untouched(photos(batch)))


@pytest.mark.parametrize("name", [*LIGHT, "resnet18", "convnext_atto"])
def test_another_resolution_is_taken(name: str) -> None:
    untouched, net = pair(name)
    for side in (48, 64):
        check_equal(outcome(untouched.train(), photos(side=side)), outcome(net.train(), photos(side=side)))


@each
def test_another_type_is_taken_after_rewiring(name: str) -> None:
    untouched, net = (n.to(torch.float64).eval() for n in pair(name))
    x = photos().double()
    assert net(x).dtype == torch.float64
    assert torch.equal(net(x), untouched(x))


@light
@compiling
@pytest.mark.slow
def test_a_compiled_network_gives_the_same_numbers(name: str) -> None:
    torch._dynamo.reset()
    untouched, net = pair(name)
    compiled = torch.compile(net.eval(), backend="aot_eager")
    expected, got = outcome(untouched.eval(), photos()), outcome(compiled, photos())
    for want, have in zip(expected, got, strict=True):
        torch.testing.assert_close(have, want)


@light
@compiling
@pytest.mark.slow
def test_a_compiled_network_is_not_compiled_for_ever(name: str) -> None:
    torch._dynamo.reset()
    _, net = pair(name)
    count = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(net.train(), backend=count)
    for _ in range(2):
        outcome(compiled, photos())
    first = count.frame_count
    for _ in range(4):
        outcome(compiled, photos())
    assert first > 0
    assert count.frame_count == first


@light
@compiling
@pytest.mark.slow
def test_a_rule_shows_in_the_compiled_network(name: str) -> None:
    torch._dynamo.reset()
    net = winze.rewire(NETWORKS[name](), NoShortcut(), example=photos()).eval()
    torch.testing.assert_close(torch.compile(net, backend="aot_eager")(photos()), net(photos()))


@each
def test_a_copy_gives_the_same_numbers(name: str) -> None:
    _, net = pair(name)
    copied = copy.deepcopy(net)
    check_equal(outcome(net.train(), photos()), outcome(copied.train(), photos()))


@each
def test_a_copy_stands_on_weights_of_its_own(name: str) -> None:
    _, net = pair(name)
    copied = copy.deepcopy(net).eval()
    expected = copied(photos())
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert torch.equal(copied(photos()), expected)
    assert not torch.equal(net.eval()(photos()), expected)


@light
def test_a_copy_carries_rules_of_its_own(name: str) -> None:
    net = winze.rewire(NETWORKS[name](), Scaled(0.5), example=photos())
    copied = copy.deepcopy(net)
    winze.rewire(copied, Scaled(0.25), example=photos())
    assert set(rules(net)) == {Scaled(0.5)}
    assert set(rules(copied)) == {Scaled(0.25)}


@each
def test_a_whole_network_is_saved_and_loaded(name: str) -> None:
    net = winze.rewire(NETWORKS[name](), Scaled(0.5, 2.0), example=photos()).eval()
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert torch.equal(loaded(photos()), net(photos()))
    assert set(rules(loaded)) == {Scaled(0.5, 2.0)}


def test_hooks_on_children_of_a_rewritten_module_still_fire() -> None:
    net, seen = winze.rewire(Tiny(), Scaled(0.5), example=photos()).eval(), []
    net.blocks[0].conv2.register_forward_hook(lambda module, args, result: seen.append(tuple(result.shape)))
    net(photos())
    assert seen == [(2, C, 32, 32)]


def test_hooks_on_a_rewritten_module_still_fire_and_may_change_its_output() -> None:
    net = winze.rewire(Tiny(), Scaled(0.5), example=photos()).eval()
    net.blocks[1].register_forward_hook(lambda module, args, result: torch.zeros_like(result))
    assert torch.equal(net(photos()), net.fc.bias.expand(2, 3))


def test_hooks_that_were_there_before_do_not_fire_on_the_example() -> None:
    net, seen = Tiny().eval(), []
    net.blocks[0].register_forward_hook(lambda module, args, result: seen.append(module))
    winze.rewire(net, Scaled(0.5), example=photos())
    seen.clear()
    net(photos())
    assert seen == [net.blocks[0]]


@pytest.mark.parametrize("name", ["vit_tiny", "swin_tiny", "convnext_atto"])
def test_gradient_checkpointing_gives_the_same_numbers(name: str) -> None:
    untouched, net = pair(name)
    untouched.set_grad_checkpointing(True)
    net.set_grad_checkpointing(True)
    check_equal(outcome(untouched.train(), photos()), outcome(net.train(), photos()))


@each
def test_a_rewired_network_is_exported(name: str) -> None:
    net = winze.rewire(NETWORKS[name](), Scaled(0.5, 2.0), example=photos()).eval()
    exported = torch.export.export(net, (photos(),)).module()
    torch.testing.assert_close(exported(photos()), net(photos()))


def test_a_head_that_is_replaced_afterwards_is_used() -> None:
    net = winze.rewire(torchvision.models.resnet18(num_classes=3), Scaled(0.5), example=photos()).eval()
    net.fc = nn.Linear(512, 7)
    assert net(photos()).shape == (2, 7)


def test_a_layer_in_a_branch_that_is_replaced_afterwards_is_used() -> None:
    net = winze.rewire(Block(), NoShortcut(), example=torch.randn(2, C, 8, 8)).eval()
    net.conv2 = nn.Conv2d(C, C, 1)
    x = torch.randn(2, C, 8, 8)
    expected = torch.relu(net.conv2(torch.relu(net.norm(net.conv1(x)))))
    assert torch.equal(net(x), expected)


@each
def test_undoing_leaves_no_forward_behind(name: str) -> None:
    untouched, net = pair(name)
    winze.rewire(net, Standard(), example=photos())
    assert captured(net) == []
    check_equal(outcome(untouched.train(), photos()), outcome(net.train(), photos()))


@light
def test_rewiring_twice_is_rewiring_once(name: str) -> None:
    net = winze.rewire(NETWORKS[name](), DecayedIdentity(0.6), example=photos()).eval()
    expected = net(photos())
    assert torch.equal(winze.rewire(net, DecayedIdentity(0.6), example=photos())(photos()), expected)


@light
def test_a_rule_over_another_takes_its_place(name: str) -> None:
    net = NETWORKS[name]().eval()
    expected = winze.rewire(copy.deepcopy(net), Scaled(0.5), example=photos())(photos())
    winze.rewire(net, NoShortcut(), example=photos())
    assert torch.equal(winze.rewire(net, Scaled(0.5), example=photos())(photos()), expected)


def test_a_rule_at_some_junctions_leaves_the_others() -> None:
    net = winze.rewire(Tiny(), Scaled(0.5), where="blocks.1", example=photos())
    assert rules(net) == [Standard(), Scaled(0.5)]
    assert captured(net) == ["blocks.1"]


def test_rules_at_different_junctions_stand_side_by_side() -> None:
    net = winze.rewire(Tiny(), Scaled(0.5), where="blocks.1", example=photos())
    winze.rewire(net, NoShortcut(), where="blocks.0", example=photos())
    assert rules(net) == [NoShortcut(), Scaled(0.5)]


def test_one_of_two_sums_in_a_forward_may_be_rewired_alone() -> None:
    net = Encoder().eval()
    x = torch.randn(2, 8, 4, 4)
    tokens = x.flatten(2).transpose(1, 2)
    y = net.norm1(tokens)
    middle = net.attn(y, y, y, need_weights=False)[0]
    expected = (middle + net.mlp(net.norm2(middle))).transpose(1, 2).reshape(x.shape)
    assert torch.equal(winze.rewire(net, NoShortcut(), where="attn", example=x)(x), expected)


def test_undoing_a_part_leaves_the_rest() -> None:
    net = winze.rewire(Tiny(), Scaled(0.5), example=photos())
    winze.rewire(net, Standard(), where="blocks.0", example=photos())
    assert rules(net) == [Standard(), Scaled(0.5)]
    assert captured(net) == ["blocks.1"]


def test_a_rule_counts_depth_over_the_junctions_that_were_picked() -> None:
    net = winze.rewire(Tiny(), DecayedIdentity(0.0), where="blocks.1", example=photos()).eval()
    x = photos()
    block = net.blocks[1]
    stream = net.blocks[0](net.stem(x))
    branch = block.conv2(torch.relu(block.norm(block.conv1(stream))))
    assert torch.equal(block(stream), torch.relu(0 * stream + branch))


def snapshot(net: nn.Module) -> tuple[dict[str, Any], list[bool], list[bool], list[Any]]:
    return (
        copy.deepcopy(net.state_dict()),
        [m.training for m in net.modules()],
        [p.requires_grad for p in net.parameters()],
        [sorted(vars(m)) for m in net.modules()],
    )


LOOKS: dict[str, Callable[[nn.Module], Any]] = {
    "junctions": lambda net: winze.junctions(net, example=photos()),
    "rewire": lambda net: winze.rewire(net, Standard(), example=photos()),
}


@each
@pytest.mark.parametrize("look", LOOKS)
def test_looking_leaves_weights_buffers_modes_and_attributes(name: str, look: str) -> None:
    net = NETWORKS[name]().train()
    next(iter(net.children())).eval()
    state, *rest = snapshot(net)
    LOOKS[look](net)
    now, *others = snapshot(net)
    assert others == rest
    assert all(torch.equal(state[key], now[key]) for key in state)


@each
@pytest.mark.parametrize("look", LOOKS)
def test_looking_draws_nothing_from_the_random_state(name: str, look: str) -> None:
    net = NETWORKS[name]()
    before = torch.get_rng_state()
    LOOKS[look](net)
    assert torch.equal(torch.get_rng_state(), before)


@each
@pytest.mark.parametrize("look", LOOKS)
def test_looking_leaves_no_gradients(name: str, look: str) -> None:
    net = NETWORKS[name]()
    LOOKS[look](net)
    assert all(p.grad is None for p in net.parameters())


@each
def test_the_first_training_step_after_rewiring_moves_the_statistics_once(name: str) -> None:
    _, net = pair(name)
    net.train()(photos())
    counts = [int(b) for key, b in net.named_buffers() if key.endswith("num_batches_tracked")]
    assert set(counts) <= {1}


def test_a_frozen_layer_stays_frozen() -> None:
    net = Tiny()
    net.blocks[0].conv1.requires_grad_(False)
    winze.rewire(net, Scaled(0.5), example=photos())
    outcome(net.train(), photos())
    assert net.blocks[0].conv1.weight.grad is None
    assert net.blocks[0].conv2.weight.grad is not None
