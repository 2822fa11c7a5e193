import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn
from torchvision.models.efficientnet import MBConvConfig

import winze
from winze import (
    CaptureError,
    DecayedIdentity,
    DropPath,
    Highway,
    Junction,
    NoShortcut,
    ResidualDropPath,
    Scaled,
    Standard,
    Temperature,
)

C = 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(C, C, 3, padding=1), nn.Conv2d(C, C, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(torch.relu(self.conv1(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(Block(), Block())
        self.layer2 = nn.Sequential(Block(), Block())

    def forward(self, x: Tensor) -> Tensor:
        return self.layer2(self.layer1(x))


def added(x: Tensor, y: Tensor) -> Tensor:
    return x + y


class Elsewhere(nn.Module):
    """Adds its branch in a function that it does not call by a name."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(C, C, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return next(map(added, [x], [self.conv(x)]))


def images(batch: int = 2) -> Tensor:
    return torch.randn(batch, C, 6, 6)


def forwards(net: nn.Module) -> dict[str, Any]:
    """What stands in for the forward of each module, where something does."""
    return {name: vars(module)["forward"] for name, module in net.named_modules() if "forward" in vars(module)}


def check_refused(
    net: nn.Module,
    call: Callable[[nn.Module], Any],
    error: type[Exception],
    *words: str,
    example: Any = None,
) -> str:
    """The call raises, its message holds the words, and the network is as it was; the message."""
    x = images() if example is None else example
    before = copy.deepcopy(net.state_dict())
    modes = [m.training for m in net.modules()]
    own = forwards(net)
    torch.manual_seed(1)
    expected = net(x)
    after_the_call = copy.deepcopy(net.state_dict())
    with pytest.raises(error) as caught:
        call(net)
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    now = net.state_dict()
    assert list(now) == list(before)
    assert all(torch.equal(after_the_call[key], now[key]) for key in now)
    assert [m.training for m in net.modules()] == modes
    assert forwards(net) == own
    net.load_state_dict(before)
    torch.manual_seed(1)
    assert torch.equal(net(x), expected)
    return message


def test_a_network_without_a_junction_is_refused() -> None:
    net = nn.Sequential(nn.Conv2d(C, C, 3, padding=1), nn.ReLU())
    check_refused(net, lambda n: winze.rewire(n, Scaled(), example=images()), CaptureError, "Sequential", "no junction")


def test_a_glob_that_matches_nothing_is_refused_with_the_nearest_names() -> None:
    call = lambda n: winze.rewire(n, Scaled(0.5), where="layer3.0", example=images())  # noqa: E731
    check_refused(Net(), call, ValueError, "layer3.0", "layer2.0")


def test_a_predicate_that_picks_nothing_is_refused() -> None:
    call = lambda n: winze.rewire(n, Scaled(0.5), where=lambda place: place.index > 9, example=images())  # noqa: E731
    check_refused(Net(), call, ValueError, "none of", "4 junctions")


def test_the_message_about_a_predicate_names_junctions_that_are_there() -> None:
    call = lambda n: winze.rewire(n, Scaled(0.5), where=lambda place: False, example=images())  # noqa: E731
    check_refused(Net(), call, ValueError, "the first: layer1.0")


@pytest.mark.parametrize("rule", ["decayed", 0.5, None, Scaled])
def test_a_rule_of_the_wrong_type_is_refused(rule: Any) -> None:
    check_refused(Net(), lambda n: winze.rewire(n, rule, example=images()), TypeError, "rule")


def test_a_callable_that_gives_no_rule_is_refused_and_the_place_named() -> None:
    def pick(place: winze.Place) -> Any:
        return Scaled(0.5) if place.index < 2 else "nothing"

    check_refused(Net(), lambda n: winze.rewire(n, pick, example=images()), TypeError, "layer2.0", "'nothing'")


def test_an_error_inside_a_callable_leaves_the_network() -> None:
    def pick(place: winze.Place) -> Any:
        return DropPath(rate=0.4 * place.index)

    check_refused(Net(), lambda n: winze.rewire(n, pick, example=images()), ValueError, "rate")


@pytest.mark.parametrize("where", [3, ["layer1.0"]])
def test_a_where_of_the_wrong_type_is_refused(where: Any) -> None:
    check_refused(Net(), lambda n: winze.rewire(n, Scaled(0.5), where=where, example=images()), TypeError, "where")


def test_a_sum_outside_of_every_module_is_refused_with_class_file_line_and_a_way_out() -> None:
    call = lambda n: winze.rewire(n, Scaled(0.5), example=images())  # noqa: E731
    message = check_refused(nn.Sequential(Elsewhere()), call, CaptureError, "Elsewhere", "where=", "winze.Junction")
    lines = Path(__file__).read_text().splitlines()
    line = next(i for i, text in enumerate(lines, start=1) if text.strip().startswith("return x + y"))
    assert f"{__file__}:{line}" in message


def test_one_unreadable_module_among_readable_ones_is_not_passed_over_in_silence() -> None:
    """What was asked for everywhere must not be done almost everywhere."""
    call = lambda n: winze.rewire(n, Scaled(0.5), example=images())  # noqa: E731
    check_refused(nn.Sequential(Block(), Elsewhere()), call, CaptureError, "Elsewhere")


def test_junctions_names_the_modules_it_could_not_read() -> None:
    found = winze.junctions(nn.Sequential(Block(), Elsewhere()), example=images())
    assert list(found.unread) == ["1"]


def test_one_unreadable_module_may_be_left_out_by_where() -> None:
    net = winze.rewire(nn.Sequential(Block(), Elsewhere()), NoShortcut(), where="0", example=images())
    x = images()
    assert torch.equal(net(x), net[1](net[0].conv2(torch.relu(net[0].conv1(x)))))


@pytest.mark.parametrize("example", ["an image", 3, 2.5])
def test_an_example_of_the_wrong_type_is_refused(example: Any) -> None:
    check_refused(
        Net(), lambda n: winze.rewire(n, Scaled(), example=example), TypeError, "example=", type(example).__name__
    )


@pytest.mark.parametrize("example", ["an image", 3])
def test_junctions_refuses_an_example_of_the_wrong_type(example: Any) -> None:
    check_refused(Net(), lambda n: winze.junctions(n, example=example), TypeError, "example=")


@pytest.mark.parametrize(
    "call", [lambda n, x: winze.rewire(n, Scaled(), example=x), lambda n, x: winze.junctions(n, x)]
)
def test_an_example_of_the_wrong_shape_is_refused_and_its_shape_named(call: Any) -> None:
    check_refused(Net(), lambda n: call(n, torch.randn(2, C + 1, 6, 6)), ValueError, "example", "2, 5, 6, 6")


def test_an_example_without_a_tensor_is_refused() -> None:
    check_refused(Net(), lambda n: winze.rewire(n, Scaled(), example=()), ValueError, "example")


def test_an_example_with_an_unknown_keyword_is_refused() -> None:
    call = lambda n: winze.rewire(n, Scaled(), example={"image": images()})  # noqa: E731
    check_refused(Net(), call, ValueError, "example", "image")


def test_a_network_that_no_guess_fits_asks_for_an_example() -> None:
    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(C, C, 3, padding=1)

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            return x + self.conv(x) * scale

    with pytest.raises(ValueError, match=r"Strange.*example="):
        winze.rewire(Strange(), Scaled())


def a_vit(rate: float) -> nn.Module:
    return timm.create_model("test_vit", img_size=32, depth=3, drop_path_rate=rate, num_classes=3)


def an_efficient_net(rate: float) -> nn.Module:
    stages = [MBConvConfig(1, 3, 1, 8, 8, 2), MBConvConfig(2, 3, 2, 8, 16, 2)]
    return torchvision.models.EfficientNet(stages, dropout=0.2, stochastic_depth_prob=rate, num_classes=3)


PHOTO = torch.randn(2, 3, 32, 32)
DROPPING = [DropPath(0.1), ResidualDropPath(0.1)]


@pytest.mark.parametrize("rule", DROPPING, ids=["DropPath", "ResidualDropPath"])
def test_a_dropping_rule_over_timms_active_drop_path_is_refused(rule: winze.Rule) -> None:
    call = lambda n: winze.rewire(n, rule, example=PHOTO)  # noqa: E731
    check_refused(a_vit(0.1).eval(), call, ValueError, "drop_path_rate=0", type(rule).__name__, example=PHOTO)


@pytest.mark.parametrize("rule", DROPPING, ids=["DropPath", "ResidualDropPath"])
def test_a_dropping_rule_over_torchvisions_active_stochastic_depth_is_refused(rule: winze.Rule) -> None:
    call = lambda n: winze.rewire(n, rule, example=PHOTO)  # noqa: E731
    net = an_efficient_net(0.1).eval()
    check_refused(net, call, ValueError, "stochastic_depth_prob=0", "StochasticDepth", example=PHOTO)


@pytest.mark.parametrize("rule", DROPPING, ids=["DropPath", "ResidualDropPath"])
@pytest.mark.parametrize("build", [a_vit, an_efficient_net])
def test_a_dropping_rule_over_an_idle_drop_path_is_taken(build: Any, rule: winze.Rule) -> None:
    net = winze.rewire(build(0.0), rule, example=PHOTO)
    assert {j.rule for j in winze.junctions(net, example=PHOTO)} == {rule}


def test_a_rule_that_does_not_drop_is_taken_over_an_active_drop_path() -> None:
    net = winze.rewire(a_vit(0.1), DecayedIdentity(0.6), example=PHOTO)
    assert {j.rule for j in winze.junctions(net, example=PHOTO)} == {DecayedIdentity(0.6)}


def test_a_dropping_rule_is_taken_where_the_picked_junctions_have_no_active_drop_path() -> None:
    net = a_vit(0.1)  # the rate grows from 0 at the first block
    rules = [
        j.rule for j in winze.junctions(winze.rewire(net, DropPath(0.1), where="blocks.0.*", example=PHOTO), PHOTO)
    ]
    assert rules[:2] == [DropPath(0.1)] * 2
    assert set(rules[2:]) == {Standard()}


def test_shapes_that_differ_at_a_native_junction_are_told_in_words() -> None:
    net = nn.Sequential(Junction(nn.Linear(4, 5)))
    with pytest.raises(ValueError, match=r"shortcut is \(2, 4\).*branch gives \(2, 5\)"):
        net(torch.randn(2, 4))


def test_a_branch_that_would_broadcast_at_a_native_junction_is_refused() -> None:
    net = nn.Sequential(Junction(nn.Linear(4, 1)))
    with pytest.raises(ValueError, match=r"\(2, 4\).*\(2, 1\)"):
        net(torch.randn(2, 4))


@pytest.mark.parametrize("rule", [Scaled(0.5), DecayedIdentity(0.5), DropPath(0.5)])
def test_shapes_that_differ_are_told_under_every_rule_that_adds(rule: winze.Rule) -> None:
    net = Junction(nn.Linear(4, 5), rule=rule).train()
    with pytest.raises(ValueError, match=r"\(2, 4\).*\(2, 5\)"):
        net(torch.randn(2, 4))


OUT_OF_RANGE: dict[str, Callable[[], Any]] = {
    "DropPath rate below 0": lambda: DropPath(rate=-0.1),
    "DropPath rate of 1": lambda: DropPath(rate=1.0),
    "DropPath rate not a number": lambda: DropPath(rate=float("nan")),
    "ResidualDropPath rate below 0": lambda: ResidualDropPath(rate=-0.1),
    "ResidualDropPath rate of 1": lambda: ResidualDropPath(rate=1.0),
    "DecayedIdentity alpha_min below 0": lambda: DecayedIdentity(alpha_min=-0.1),
    "DecayedIdentity alpha_min above 1": lambda: DecayedIdentity(alpha_min=1.1),
    "DecayedIdentity alpha_min not a number": lambda: DecayedIdentity(alpha_min=float("nan")),
    "Scaled shortcut not a number": lambda: Scaled(shortcut=float("nan")),
    "Scaled branch without end": lambda: Scaled(branch=float("inf")),
    "Temperature of 0": lambda: Temperature(0.0),
    "Temperature below 0": lambda: Temperature(-1.0),
    "Temperature word": lambda: Temperature("hot"),
    "DropPath profile": lambda: DropPath(profile="cubic"),
    "DropPath mask": lambda: DropPath(mask="pixel"),
    "DropPath draw": lambda: DropPath(draw="dice"),
    "DropPath compute": lambda: DropPath(compute="never"),
    "ResidualDropPath frozen": lambda: ResidualDropPath(frozen="input"),
    "ResidualDropPath profile": lambda: ResidualDropPath(profile="cubic"),
    "ResidualDropPath mask": lambda: ResidualDropPath(mask="pixel"),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_argument_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="(?i)" + name.split()[0 if name.startswith("Temperature") else 1]):
        OUT_OF_RANGE[name]()


@pytest.mark.parametrize(("rule", "word"), [(lambda: DropPath(rate=1.5), "1.5"), (lambda: DecayedIdentity(2.0), "2.0")])
def test_the_message_about_a_range_names_the_value(rule: Any, word: str) -> None:
    with pytest.raises(ValueError, match=re.escape(word)):
        rule()


@pytest.mark.parametrize("rule", [DecayedIdentity(0.0), DecayedIdentity(1.0), DropPath(0.0), ResidualDropPath(0.0)])
def test_the_ends_of_a_range_are_taken(rule: winze.Rule) -> None:
    net = winze.rewire(Net(), rule, example=images())
    assert [j.rule for j in winze.junctions(net, example=images())] == [rule] * 4


def test_an_error_leaves_an_earlier_rewiring_as_it_was() -> None:
    net = winze.rewire(Net(), Scaled(0.5), example=images())
    call = lambda n: winze.rewire(n, NoShortcut(), where="head", example=images())  # noqa: E731
    check_refused(net, call, ValueError, "head")


def test_an_error_leaves_no_gate_behind() -> None:
    def pick(place: winze.Place) -> Any:
        return Highway() if place.index < 3 else None

    check_refused(Net(), lambda n: winze.rewire(n, pick, example=images()), TypeError, "layer2.1")


def test_a_rule_without_a_sum_is_refused_before_anything_changes():
    class Nothing(winze.shape.Rule):
        pass

    net, x = Net(), torch.randn(2, C, 4, 4)
    before = net(x)
    with pytest.raises(TypeError, match=r"Nothing has no join\(self, place, shortcut, branch\)"):
        winze.rewire(net, Nothing(), example=x)
    assert torch.equal(net(x), before)
