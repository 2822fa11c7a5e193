import itertools
from dataclasses import replace

import pytest
import torch
from cases import CASES, WITHOUT_BATCHNORM, Case, assert_steps_equal, rewired, set_masks, take_step
from torch import Tensor, nn
from torch.func import functional_call

import winze

FROZEN, MASKS, STAGES = ("output", "weights"), ("sample", "batch"), (1, 2)
readings = pytest.mark.parametrize(("frozen", "mask"), list(itertools.product(FROZEN, MASKS)))
both_stages = pytest.mark.parametrize("stage", STAGES)
both_frozen = pytest.mark.parametrize("frozen", FROZEN)
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
without_batchnorm = pytest.mark.parametrize("case", WITHOUT_BATCHNORM.values(), ids=WITHOUT_BATCHNORM.keys())
SAMPLES = 6


def rule(**settings: object) -> winze.ResidualDropPath:
    return replace(winze.ResidualDropPath(rate=0.5, profile="constant"), **settings)


def table(case: Case, mask: str) -> Tensor:
    """Some of everything: for samples all kept, all dropped and mixtures, for batches kept and dropped in turn."""
    if mask == "batch":
        return (torch.arange(case.junctions) % 2 == 0)[:, None].repeat(1, SAMPLES)
    keep = torch.arange(case.junctions * SAMPLES).reshape(case.junctions, SAMPLES) % 3 != 0
    keep[0], keep[1] = True, False
    return keep


def staged(case: Case, stage: int, masks: Tensor | None = None, **settings: object) -> nn.Module:
    """A network in a stage under known masks; its alternation lives as long as it does."""
    net = rewired(case, rule(**settings))
    net.alternation = (winze.Alternation(net),)
    set_masks(net.alternation[0], table(case, settings.get("mask", "sample")) if masks is None else masks, stage)
    return net


class Formula(nn.Module):
    """The residual MLP with both stages written out."""

    def __init__(self, net: nn.Module, masks: Tensor, stage: int, frozen: str) -> None:
        super().__init__()
        self.stem, self.blocks, self.head = net.stem, net.blocks, net.head
        self.masks, self.stage, self.frozen = masks.double(), stage, frozen

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block, row in zip(self.blocks, self.masks, strict=True):
            m, f = row[:, None], block.branch
            if self.stage == 1:
                x = x + m * f(x)
            elif self.frozen == "output":
                x = x + m * f(x).detach() + (1 - m) * f(x)
            else:
                x = x + m * functional_call(f, {k: p.detach() for k, p in f.named_parameters()}, x) + (1 - m) * f(x)
        return self.head(x)


@readings
@both_stages
@pytest.mark.parametrize("compute", ["dense", "rows", "auto"])
def test_each_stage_has_the_gradients_of_its_formula(frozen, mask, stage, compute):
    case = CASES["native mlp"]
    net = staged(case, stage, frozen=frozen, mask=mask, compute=compute)
    formula = Formula(case.make(), table(case, mask), stage, frozen)
    assert_steps_equal(take_step(net, case.batch()), take_step(formula, case.batch()), tolerance=1e-12)


@every_case
@readings
@pytest.mark.parametrize("compute", ["dense", "auto"])
def test_stage_two_computes_the_plain_forward_exactly(case, frozen, mask, compute):
    net = staged(case, 2, frozen=frozen, mask=mask, compute=compute)
    found, plain = net(case.batch()), case.make()(case.batch())
    # products with weights that need no gradient are folded another way by PyTorch, which some processors round apart
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-14 if frozen == "weights" else 0)


@without_batchnorm
@both_frozen
def test_stage_two_on_rows_computes_the_plain_forward(case, frozen):
    net = staged(case, 2, frozen=frozen, compute="rows")
    torch.testing.assert_close(net(case.batch()), case.make()(case.batch()), rtol=1e-12, atol=1e-12)


@without_batchnorm
@both_frozen
@pytest.mark.parametrize("compute", ["dense", "auto"])
def test_a_kept_branch_gets_zero_gradients_in_stage_two(case, frozen, compute):
    everything_kept = torch.ones(case.junctions, SAMPLES)
    net = staged(case, 2, everything_kept, frozen=frozen, mask="batch", compute=compute)
    gradients = take_step(net, case.batch()).gradients
    branches = {name: gradient for name, gradient in gradients.items() if name.startswith("blocks.")}
    assert branches
    for gradient in branches.values():
        assert gradient is not None
        assert not gradient.any()


@every_case
@pytest.mark.parametrize("compute", ["dense", "auto"])
def test_a_dropped_branch_gets_the_plain_networks_gradient_where_weights_are_frozen(case, compute):
    net = staged(case, 2, torch.zeros(case.junctions, SAMPLES), frozen="weights", mask="batch", compute=compute)
    assert_steps_equal(take_step(net, case.batch()), take_step(case.make(), case.batch()), tolerance=1e-12)


@every_case
@pytest.mark.parametrize("mask", MASKS)
def test_freezing_weights_leaves_the_gradient_to_the_input(case, mask):
    net = staged(case, 2, frozen="weights", mask=mask)
    plain = take_step(case.make(), case.batch()).input_gradient
    torch.testing.assert_close(take_step(net, case.batch()).input_gradient, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS)
def test_freezing_outputs_lets_the_shortcuts_alone_carry_the_gradient(mask):
    case = CASES["native mlp"]
    net = staged(case, 2, torch.ones(case.junctions, SAMPLES), frozen="output", mask=mask)
    step = take_step(net, case.batch())
    through_shortcuts = 2 * step.output @ net.head.weight @ net.stem.weight
    torch.testing.assert_close(step.input_gradient, through_shortcuts.detach(), rtol=1e-12, atol=1e-12)


@readings
@pytest.mark.parametrize("compute", ["dense", "auto"])
def test_stage_one_rescales_nothing(frozen, mask, compute):
    case = CASES["native mlp"]
    net = staged(case, 1, torch.ones(case.junctions, SAMPLES), frozen=frozen, mask=mask, compute=compute)
    assert torch.equal(net(case.batch()), case.make()(case.batch()))


@readings
@both_stages
@pytest.mark.parametrize("compute", ["dense", "auto"])
def test_batchnorm_statistics_move_once_a_step(frozen, mask, stage, compute):
    case = CASES["foreign cnn"]
    net = staged(case, stage, frozen=frozen, mask=mask, compute=compute)
    seen: dict[nn.Module, Tensor] = {}
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.register_forward_hook(lambda m, args, out: seen.update({m: args[0].detach().mean((0, 2, 3))}))
    take_step(net, case.batch())
    for norm in norms:
        assert norm.num_batches_tracked == 1
        torch.testing.assert_close(norm.running_mean, 0.1 * seen[norm], rtol=1e-12, atol=1e-12)


@readings
@pytest.mark.parametrize("compute", ["dense", "auto"])
def test_batchnorm_statistics_of_stage_two_are_the_plain_networks(frozen, mask, compute):
    case = CASES["foreign cnn"]
    net, plain = staged(case, 2, frozen=frozen, mask=mask, compute=compute), case.make()
    net(case.batch())
    plain(case.batch())
    torch.testing.assert_close(dict(net.named_buffers()), dict(plain.named_buffers()), rtol=0, atol=0)


@without_batchnorm
@both_stages
@both_frozen
def test_rows_are_the_dense_form(case, stage, frozen):
    rows, dense = (staged(case, stage, frozen=frozen, compute=compute) for compute in ("rows", "dense"))
    assert_steps_equal(take_step(rows, case.batch()), take_step(dense, case.batch()), tolerance=1e-12)


@without_batchnorm
@both_stages
@both_frozen
@pytest.mark.parametrize("kept", [0, 1])
def test_rows_are_the_dense_form_where_none_are_left(case, stage, frozen, kept):
    masks = torch.full((case.junctions, SAMPLES), kept)
    rows, dense = (staged(case, stage, masks, frozen=frozen, compute=compute) for compute in ("rows", "dense"))
    assert_steps_equal(take_step(rows, case.batch()), take_step(dense, case.batch()), tolerance=1e-12)


@both_stages
@both_frozen
def test_rows_are_refused_where_samples_depend_on_each_other(stage, frozen):
    case = CASES["foreign cnn"]
    net = staged(case, stage, frozen=frozen, compute="rows")
    with pytest.raises(ValueError, match="BatchNorm"):
        net(case.batch())


def test_rows_are_allowed_where_batchnorm_is_at_rest():
    case = CASES["foreign cnn"]
    steps = []
    for compute in ("rows", "dense"):
        net = staged(case, 1, compute=compute)
        for norm in net.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.eval()
        steps.append(take_step(net, case.batch()))
    assert_steps_equal(*steps, tolerance=1e-12)


@without_batchnorm
@pytest.mark.parametrize(("mask", "compute"), [("sample", "rows"), ("batch", "auto")])
@both_frozen
def test_momentum_and_weight_decay_act_as_in_the_dense_form(case, mask, compute, frozen):
    trained = []
    for how in (compute, "dense"):
        net = rewired(case, rule(frozen=frozen, mask=mask, compute=how))
        alternate = winze.Alternation(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=0.1)
        for _ in range(6):
            take_step(net, case.batch(2))
            optimizer.step()
            alternate.step()
        trained.append(dict(net.named_parameters()))
    torch.testing.assert_close(*trained, rtol=1e-12, atol=1e-12)


@both_stages
@readings
def test_dropped_branches_of_a_cnn_are_the_dense_form(frozen, mask, stage):
    case = CASES["foreign cnn"]
    auto, dense = (staged(case, stage, frozen=frozen, mask=mask, compute=compute) for compute in ("auto", "dense"))
    assert_steps_equal(take_step(auto, case.batch()), take_step(dense, case.batch()), tolerance=1e-12)
