import copy
import math

import pytest
import timm
import torch
import torchvision
from cases import CASES, NativeMLP, assert_steps_equal, rewired, take_step
from nets import Transformer
from timm.layers import drop_path as timm_drop_path
from torch import Tensor, nn

import winze

LIKE_STANDARD = [
    winze.Standard(),
    winze.Scaled(1.0, 1.0),
    winze.DecayedIdentity(alpha_min=1.0),
    winze.DropPath(rate=0.0),
    winze.ResidualDropPath(rate=0.0),
]
LIKE_PLAIN_IN_EVAL = [
    winze.DropPath(rate=0.5, profile="constant"),
    winze.DropPath(rate=0.5, profile="constant", mask="batch"),
    winze.ResidualDropPath(rate=0.5, profile="constant"),
    winze.ResidualDropPath(rate=0.5, profile="constant", mask="batch", frozen="weights"),
]
EVERY_RULE = [
    *LIKE_STANDARD,
    *LIKE_PLAIN_IN_EVAL,
    winze.Scaled(0.5, 2.0),
    winze.DecayedIdentity(alpha_min=0.6),
    winze.NoShortcut(),
    winze.Highway(),
]
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
like_standard = pytest.mark.parametrize("rule", LIKE_STANDARD, ids=repr)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def one_junction(rule: winze.Rule, samples: int) -> tuple[winze.Junction, Tensor]:
    """A junction whose branch gives ones and whose stream is zero: what comes out is the branch's factor."""
    branch = nn.Linear(3, 3)
    nn.init.zeros_(branch.weight)
    nn.init.ones_(branch.bias)
    return winze.Junction(branch, rule=rule), torch.zeros(samples, 3)


@every_case
@like_standard
def test_a_rule_without_effect_leaves_a_training_step_bit_for_bit(case, rule):
    net = rewired(case, rule)
    assert_steps_equal(take_step(net, case.batch()), take_step(case.make(), case.batch()))


@like_standard
def test_a_rule_without_effect_leaves_the_random_numbers_of_dropout(rule):
    torch.manual_seed(1)
    plain, x = Transformer(dropout=0.5).double(), CASES["foreign transformer"].batch()
    net = winze.rewire(copy.deepcopy(plain), rule, example=x)
    assert_steps_equal(take_step(net, x), take_step(plain, x))


@every_case
@pytest.mark.parametrize("rule", LIKE_PLAIN_IN_EVAL, ids=repr)
def test_a_dropping_rule_is_the_plain_network_in_eval_mode(case, rule):
    net = rewired(case, rule).eval()
    assert_steps_equal(take_step(net, case.batch()), take_step(case.make().eval(), case.batch()))


@every_case
@pytest.mark.parametrize("rule", [LIKE_PLAIN_IN_EVAL[2], winze.NoShortcut(), winze.Highway()], ids=repr)
def test_undoing_a_rule_gives_the_plain_network_back(case, rule):
    net = rewired(case, rule)
    net = winze.rewire(net, winze.Standard(), example=case.batch())
    assert_steps_equal(take_step(net, case.batch()), take_step(case.make(), case.batch()))
    assert net.state_dict().keys() == case.make().state_dict().keys()


@every_case
@pytest.mark.parametrize("rule", [r for r in EVERY_RULE if not isinstance(r, winze.Highway)], ids=repr)
def test_state_dict_keys_stay(case, rule):
    net = rewired(case, rule)
    assert list(net.state_dict()) == list(case.make().state_dict())


@every_case
@pytest.mark.parametrize("rule", [r for r in EVERY_RULE if not r.staged], ids=repr)
def test_a_rule_trains_under_autocast(case, rule):
    net = rewired(case, rule).float()
    with torch.autocast("cpu", torch.bfloat16):
        step = take_step(net, case.batch(dtype=torch.float32))
    assert step.output.isfinite().all()
    assert all(g is not None and g.isfinite().all() for n, g in step.gradients.items() if "project" not in n)


def test_decayed_shortcuts_unroll_to_equation_4():
    net = winze.rewire(NativeMLP(depth=5).double(), winze.DecayedIdentity(alpha_min=0.3))
    streams, branches = [], []
    for block in net.blocks:
        block.register_forward_pre_hook(lambda _, args: streams.append(args[0]))
        block.branch.register_forward_hook(lambda _, args, out: branches.append(out))
    last = []
    net.blocks[-1].register_forward_hook(lambda _, args, out: last.append(out))
    net(CASES["native mlp"].batch())
    alphas = [1, 0.825, 0.65, 0.475, 0.3]
    unrolled = math.prod(alphas) * streams[0]
    for i in range(4):
        unrolled = unrolled + math.prod(alphas[i + 1 :]) * branches[i]
    close(last[0], unrolled + branches[4])


def test_the_decay_over_24_junctions_is_the_papers():
    weights = [winze.DecayedIdentity(0.6).weight(winze.Place(i, 24, "x")) for i in range(24)]
    assert [round(w, 5) for w in weights[:3] + weights[-2:]] == [1, 0.98261, 0.96522, 0.61739, 0.6]
    assert math.prod(weights) == pytest.approx(0.0035782, abs=5e-8)


def test_a_junction_alone_has_the_last_weight():
    assert winze.DecayedIdentity(0.6).weight(winze.Place(0, 1, "x")) == 0.6


def test_one_rule_counts_over_the_junctions_picked():
    net = winze.rewire(NativeMLP(depth=4), winze.DecayedIdentity(0.5), where="blocks.[13]")
    seats = [(b.seat.index, b.seat.total) for b in net.blocks if isinstance(b.rule, winze.DecayedIdentity)]
    assert seats == [(0, 2), (1, 2)]


def test_a_rule_by_place_counts_over_all_junctions():
    rule = lambda place: winze.DecayedIdentity(0.5) if place.index % 2 else winze.Standard()  # noqa: E731
    net = winze.rewire(NativeMLP(depth=4), rule)
    seats = [(b.seat.index, b.seat.total) for b in net.blocks if isinstance(b.rule, winze.DecayedIdentity)]
    assert seats == [(1, 4), (3, 4)]


@every_case
def test_counting_reaches_the_numbers_of_a_foreign_network(case):
    decayed = rewired(case, winze.DecayedIdentity(0.5))
    by_place = lambda place: winze.Scaled(1 - 0.5 * place.index / (case.junctions - 1))  # noqa: E731
    scaled = winze.rewire(case.make(), by_place, example=case.batch())
    assert_steps_equal(take_step(decayed, case.batch()), take_step(scaled, case.batch()))


def test_a_scaled_sum_is_what_it_says():
    net, x = NativeMLP(depth=1).double(), CASES["native mlp"].batch()
    h = net.stem(x)
    expected = net.head(0.5 * h + 3 * net.blocks[0].branch(h))
    close(winze.rewire(net, winze.Scaled(0.5, 3.0))(x), expected)


class PlainResNet18(nn.Module):
    """A resnet18 without shortcuts, written out over the same modules."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        net = self.net
        x = net.maxpool(torch.relu(net.bn1(net.conv1(x))))
        for block in [*net.layer1, *net.layer2, *net.layer3, *net.layer4]:
            x = torch.relu(block.bn1(block.conv1(x)))
            x = torch.relu(block.bn2(block.conv2(x)))
        return net.fc(net.avgpool(x).flatten(1))


def resnet18_and_batch() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(1)
    return torchvision.models.resnet18(num_classes=3), torch.randn(4, 3, 32, 32)


def test_no_shortcut_makes_resnet18_a_plain_network():
    net, x = resnet18_and_batch()
    plain = take_step(PlainResNet18(copy.deepcopy(net)), x)
    ours = take_step(winze.rewire(net, winze.NoShortcut(), example=x), x)
    torch.testing.assert_close(ours.output, plain.output, rtol=0, atol=0)
    torch.testing.assert_close({f"net.{k}": v for k, v in ours.gradients.items()}, plain.gradients, rtol=0, atol=0)


def test_no_shortcut_never_runs_a_projection():
    net, x = resnet18_and_batch()
    winze.rewire(net, winze.NoShortcut(), example=x)
    ran = []
    for block in (net.layer2[0], net.layer3[0], net.layer4[0]):
        block.downsample.register_forward_hook(lambda module, args, out: ran.append(module))
    net(x)
    assert ran == []


def test_a_native_projection_is_not_run_without_a_shortcut():
    def never(*_: object) -> None:
        raise AssertionError("the projection ran")

    junction = winze.Junction(nn.Linear(3, 5), shortcut=nn.Linear(3, 5), rule=winze.NoShortcut())
    junction.shortcut.register_forward_hook(never)
    assert junction(torch.randn(2, 3)).shape == (2, 5)


@every_case
def test_a_gate_appears_in_the_state_dict(case):
    net = rewired(case, winze.Highway())
    assert len(net.state_dict()) == len(case.make().state_dict()) + 2 * case.junctions


@every_case
def test_a_gate_starts_at_the_sigmoid_of_its_bias(case):
    carry = 1 / (1 + math.exp(-2.0))
    gated = winze.rewire(case.make(), winze.Highway(bias=2.0), example=case.batch())
    scaled = winze.rewire(case.make(), winze.Scaled(carry, 1 - carry), example=case.batch())
    close(gated(case.batch()), scaled(case.batch()))


@every_case
def test_gradients_reach_the_gate(case):
    net = rewired(case, winze.Highway())
    plain = case.make().state_dict().keys()
    gates = {k: g for k, g in take_step(net, case.batch()).gradients.items() if k not in plain}
    assert len(gates) == 2 * case.junctions
    assert all(g is not None and g.abs().sum() > 0 for g in gates.values())


@pytest.mark.parametrize(("name", "kind"), [("foreign cnn", nn.Conv2d), ("foreign transformer", nn.Linear)])
def test_a_gate_follows_the_layout_of_its_stream(name, kind):
    case = CASES[name]
    net = rewired(case, winze.Highway())
    gates = [module for path, module in net.named_modules() if "highway" in path]
    assert [type(gate) for gate in gates] == [kind] * case.junctions


def test_highway_without_a_gate_says_what_to_write():
    with pytest.raises(RuntimeError, match=r"winze\.rewire"):
        winze.Junction(nn.Linear(3, 3), rule=winze.Highway())(torch.randn(2, 3))


@pytest.mark.parametrize("compute", ["dense", "rows"])
def test_drop_path_gives_timms_numbers(compute):
    junction, x = one_junction(winze.DropPath(0.4, profile="constant", compute=compute), 64)
    torch.manual_seed(5)
    out = junction(x)
    torch.manual_seed(5)
    kept = torch.rand(64) >= 0.4
    assert 0 < kept.sum() < 64
    torch.testing.assert_close(out, (kept / 0.6)[:, None].expand(64, 3))
    timm_values = timm_drop_path(torch.ones(64, 3), 0.4, training=True).unique()
    torch.testing.assert_close(out.detach().unique(), timm_values)


def test_drop_path_can_leave_out_the_scaling():
    junction, x = one_junction(winze.DropPath(0.4, profile="constant", scale=False), 64)
    assert junction(x).unique().tolist() == [0, 1]


def test_drop_path_drops_as_often_as_it_says():
    junction, x = one_junction(winze.DropPath(0.3, profile="constant", scale=False), 20_000)
    dropped = 1 - junction(x)[:, 0].mean().item()
    bound = 4 * math.sqrt(0.3 * 0.7 / 20_000)  # four standard errors: missed once in 16,000 seeds
    assert abs(dropped - 0.3) < bound


def test_the_linear_profile_is_timms():
    depth = 12
    rates = [m.drop_prob for m in drop_paths(timm.create_model("vit_tiny_patch16_224", drop_path_rate=0.3))]
    ours = [0.3 * winze.Place(i, depth, "x").depth for i in range(depth)]
    assert rates == pytest.approx([r for r in ours[1:] for _ in "ab"], rel=1e-6)


def drop_paths(net: nn.Module) -> list[nn.Module]:
    return [m for m in net.modules() if type(m).__name__ == "DropPath"]


def test_the_linear_profile_spares_the_first_junction_and_drops_most_at_the_last():
    case = CASES["native mlp"]
    net = winze.rewire(case.make(), winze.DropPath(0.5, scale=False))
    for block in net.blocks:
        nn.init.zeros_(block.branch[0].weight)
        nn.init.ones_(block.branch[0].bias)
    differences = []
    for block in net.blocks:
        block.register_forward_hook(lambda _, args, out: differences.append((out - args[0])[:, 0] != 0))
    net(case.batch(4_000))
    kept = torch.stack(differences).double().mean(1)
    rates = torch.tensor([0, 1 / 6, 1 / 3, 1 / 2], dtype=torch.float64)
    assert kept[0] == 1
    assert ((1 - kept - rates).abs() <= 4 * (rates * (1 - rates) / 4_000).sqrt()).all()


@pytest.mark.parametrize("compute", ["auto", "dense"])
def test_one_coin_for_the_batch_keeps_or_drops_all_of_it(compute):
    junction, x = one_junction(winze.DropPath(0.5, profile="constant", mask="batch", compute=compute), 8)
    outs = [junction(x) for _ in range(40)]
    assert {tuple(out.unique().tolist()) for out in outs} == {(0.0,), (2.0,)}


@pytest.mark.parametrize(
    ("rate", "samples", "dropped"), [(0.25, 16, 4), (0.3, 7, 2), (0.3, 9, 3), (0.5, 2, 1), (0.01, 8, 0)]
)
def test_counting_draws_drop_an_exact_number(rate, samples, dropped):
    junction, x = one_junction(winze.DropPath(rate, profile="constant", draw="count"), samples)
    masks = torch.stack([junction(x)[:, 0] == 0 for _ in range(20)])
    assert masks.sum(1).tolist() == [dropped] * 20
    assert dropped == 0 or masks.any(0).sum() > dropped


@pytest.mark.parametrize("name", ["native mlp", "foreign transformer"])
@pytest.mark.parametrize("draw", ["bernoulli", "count"])
def test_drop_path_on_rows_is_the_dense_form(name, draw):
    case = CASES[name]
    steps = []
    for compute in ("rows", "dense"):
        net = rewired(case, winze.DropPath(0.5, "constant", draw=draw, compute=compute))
        steps.append(take_step(net, case.batch(16)))
    assert_steps_equal(*steps, tolerance=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: winze.DropPath(rate=1.0), r"rate must lie in \[0, 1\)"),
        (lambda: winze.DropPath(rate=-0.1), "rate"),
        (lambda: winze.DropPath(rate=math.nan), "rate"),
        (lambda: winze.ResidualDropPath(rate=1.5), "rate"),
        (lambda: winze.DropPath(profile="cubic"), "'linear', 'constant'"),
        (lambda: winze.DropPath(mask="row"), "'sample', 'batch'"),
        (lambda: winze.DropPath(draw="sobol"), "'bernoulli', 'count'"),
        (lambda: winze.DropPath(compute="sparse"), "'auto', 'dense', 'rows'"),
        (lambda: winze.ResidualDropPath(frozen="all"), "'output', 'weights'"),
        (lambda: winze.DecayedIdentity(alpha_min=1.1), r"alpha_min must lie in \[0, 1\]"),
        (lambda: winze.DecayedIdentity(alpha_min=-0.1), "alpha_min"),
        (lambda: winze.DecayedIdentity(alpha_min=math.nan), "alpha_min"),
        (lambda: winze.Scaled(shortcut=math.inf), "finite"),
        (lambda: winze.Scaled(branch=math.nan), "finite"),
    ],
)
def test_a_setting_out_of_range_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("rule", [winze.DropPath(0.1), winze.ResidualDropPath(0.1)], ids=repr)
def test_dropping_on_top_of_an_active_drop_path_is_refused(rule):
    net = timm.create_model("test_vit", drop_path_rate=0.1)
    with pytest.raises(ValueError, match="drop_path_rate=0"):
        winze.rewire(net, rule)


@pytest.mark.parametrize("rule", [r for r in EVERY_RULE if type(r) not in (winze.NoShortcut, winze.Highway)], ids=repr)
def test_shapes_that_differ_at_a_native_junction_are_told_in_words(rule):
    junction = winze.Junction(nn.Linear(3, 4), rule=rule)
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(2, 4\)"):
        junction.eval()(torch.randn(2, 3))
