import copy
import gc
import io
import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from cases import CASES, WITHOUT_BATCHNORM, Case, NativeMLP, assert_steps_equal, masks, rewired, set_masks, take_step
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import winze

MLP = CASES["native mlp"]
DEEP = {depth: Case(partial(NativeMLP, depth), (3,), depth) for depth in (3, 6, 8)}
RULES = [
    winze.ResidualDropPath(0.5, "constant", frozen=frozen, mask=mask)
    for frozen in ("output", "weights")
    for mask in ("sample", "batch")
]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.frozen} {rule.mask}")
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
both_masks = pytest.mark.parametrize("mask", ["sample", "batch"])


def staged(mask: str = "sample", depth: int = 6, **settings: object) -> nn.Module:
    rule = winze.ResidualDropPath(**{"rate": 0.5, "profile": "constant", "mask": mask, **settings})
    return rewired(DEEP[depth], rule)


def run(net: nn.Module, alternate: winze.Alternation, steps: int, samples: int = 6) -> list[Tensor]:
    """Train for some steps; the mask table of each."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    seen = []
    for _ in range(steps):
        take_step(net, MLP.batch(samples))
        optimizer.step()
        seen.append(masks(alternate))
        alternate.step()
    return seen


@both_masks
def test_masks_last_from_stage_one_to_stage_two_and_no_longer(mask):
    net = staged(mask)
    seen = run(net, winze.Alternation(net), 16)
    pairs = list(zip(seen[::2], seen[1::2], strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert len({tuple(a.flatten().tolist()) for a, _ in pairs}) > 5  # of 8 tables out of at least 2^6


def test_masks_drawn_for_one_batch_coin_are_the_same_for_every_sample():
    net = staged("batch")
    for table in run(net, winze.Alternation(net), 6):
        assert torch.equal(table, table[:, :1].expand_as(table))


def test_sample_masks_next_to_batch_masks_stay_apart():
    one, other = winze.ResidualDropPath(0.5, "constant", mask="batch"), winze.ResidualDropPath(0.5, "constant")
    net = winze.rewire(NativeMLP(4).double(), lambda place: other if place.index else one)
    table = run(net, winze.Alternation(net), 1, samples=32)[0]
    assert (table[0] == table[0, 0]).all()
    assert all(0 < row.sum() < 32 for row in table[1:])


def test_the_stages_take_turns():
    net = staged()
    alternate = winze.Alternation(net)
    stages = []
    for _ in range(5):
        stages.append(alternate.stage)
        alternate.step()
    assert stages == [1, 2, 1, 2, 1]


@both_masks
def test_a_stage_lasts_as_many_steps_as_asked(mask):
    net = staged(mask)
    alternate = winze.Alternation(net, every=3, rows=6)
    stages, seen = [], []
    for _ in range(12):
        stages.append(alternate.stage)
        seen.append(masks(alternate))
        alternate.step()
    assert stages == [1, 1, 1, 2, 2, 2] * 2
    assert all(torch.equal(table, seen[0]) for table in seen[:6])
    assert not torch.equal(seen[5], seen[6])


@both_masks
@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_training_goes_on_identically_from_a_saved_state(mask, done):
    net = staged(mask)
    alternate = winze.Alternation(net, seed=7)
    run(net, alternate, done)
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "alternate": alternate.state_dict()}, file)
    expected_masks = run(net, alternate, 5)
    resumed = staged(mask)
    again = winze.Alternation(resumed, seed=99)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    resumed.load_state_dict(state["net"])
    again.load_state_dict(state["alternate"])
    torch.testing.assert_close(run(resumed, again, 5), expected_masks, rtol=0, atol=0)
    torch.testing.assert_close(resumed.state_dict(), net.state_dict(), rtol=0, atol=0)


def test_a_saved_state_is_not_changed_by_later_steps():
    net = staged()
    alternate = winze.Alternation(net, rows=6)
    state = alternate.state_dict()
    before = state["table"].clone()
    run(net, alternate, 4)
    assert torch.equal(state["table"], before)


def test_a_state_of_another_depth_is_refused():
    state = winze.Alternation(staged(depth=3), rows=2).state_dict()
    with pytest.raises(ValueError, match=r"3 junctions.*6"):
        winze.Alternation(staged(depth=6)).load_state_dict(state)


@every_case
@every_rule
def test_nothing_of_it_is_in_the_networks_state(case, rule):
    net = rewired(case, rule)
    alternate = winze.Alternation(net, rows=6)
    take_step(net, case.batch())
    assert alternate.stage == 1
    assert list(net.state_dict()) == list(case.make().state_dict())


def test_a_smaller_batch_takes_the_first_rows():
    net = staged()
    alternate = winze.Alternation(net, rows=6)
    x = MLP.batch(6)
    torch.testing.assert_close(net(x[:4]), net(x)[:4])
    assert alternate.rows == 6


def test_a_larger_batch_repeats_the_rows():
    net = staged()
    alternate = winze.Alternation(net, rows=4)
    x = MLP.batch(4)
    torch.testing.assert_close(net(torch.cat([x, x, x[:2]])), torch.cat([net(x), net(x), net(x)[:2]]))
    assert alternate.rows == 4


def test_rows_run_apart_follow_the_mask_at_any_batch_size():
    dense, rows = staged(compute="dense"), staged(compute="rows")
    alternates = [winze.Alternation(net, rows=4) for net in (dense, rows)]
    for samples in (4, 3, 9):
        torch.testing.assert_close(dense(MLP.batch(samples)), rows(MLP.batch(samples)))
    assert len(alternates) == 2


def test_the_first_batch_tells_the_number_of_rows():
    net = staged()
    alternate = winze.Alternation(net)
    net(MLP.batch(5))
    assert masks(alternate).shape == (6, 5)


@both_masks
def test_a_seed_fixes_the_masks(mask):
    seen = [run(net, winze.Alternation(net, seed=3), 4) for net in (staged(mask), staged(mask))]
    torch.testing.assert_close(*seen, rtol=0, atol=0)


def test_other_seeds_give_other_masks():
    tables = [masks(winze.Alternation(staged(), rows=6, seed=seed)) for seed in range(2)]
    assert not torch.equal(*tables)


def test_drawing_leaves_the_global_random_numbers():
    net = staged()
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    winze.Alternation(net, rows=6)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("profile", ["linear", "constant"])
def test_each_junction_is_dropped_as_often_as_its_profile_says(profile):
    n = 20_000
    dropped = 1 - masks(winze.Alternation(staged(rate=0.4, profile=profile), rows=n)).double().mean(1)
    rates = torch.linspace(0, 0.4, 6, dtype=torch.float64) if profile == "linear" else torch.full((6,), 0.4).double()
    bounds = 4 * (rates * (1 - rates) / n).sqrt()  # four standard errors: missed once in 16,000 seeds
    assert ((dropped - rates).abs() <= bounds + 1e-12).all()


def test_batch_coins_fall_as_often_as_their_rate_says():
    net = staged("batch", rate=0.3, depth=8)
    alternate = winze.Alternation(net, rows=1)
    kept = []
    for _ in range(500):
        kept.append(masks(alternate)[:, 0])
        alternate.step()
        alternate.step()
    dropped = 1 - torch.stack(kept).double().mean()
    assert abs(dropped - 0.3) < 4 * (0.3 * 0.7 / 4000) ** 0.5


def test_counting_draws_drop_an_exact_number_at_every_junction():
    net = staged(draw="count", rate=0.25)
    assert (~masks(winze.Alternation(net, rows=8))).sum(1).tolist() == [2] * 6


@every_case
@every_rule
def test_training_without_an_alternation_says_what_to_write(case, rule):
    with pytest.raises(RuntimeError, match=r"winze\.Alternation\(net\).*alternate\.step\(\)"):
        rewired(case, rule)(case.batch())


def test_an_alternation_that_is_never_stepped_warns_once():
    net = staged()
    alternate = winze.Alternation(net, rows=6)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    take_step(net, MLP.batch())
    optimizer.step()
    with pytest.warns(UserWarning, match=r"alternate\.step\(\)"):
        optimizer.step()
    optimizer.step()
    assert alternate.stage == 1


def test_two_optimizers_of_one_network_do_not_warn():
    net = staged()
    alternate = winze.Alternation(net, rows=6)
    halves = [torch.optim.SGD(net.blocks.parameters(), lr=0.01), torch.optim.SGD(net.head.parameters(), lr=0.01)]
    for _ in range(3):
        take_step(net, MLP.batch())
        for optimizer in halves:
            optimizer.step()
        alternate.step()
    assert alternate.stage == 2


def test_an_optimizer_of_another_network_does_not_warn():
    net, other = staged(), MLP.make()
    alternate = winze.Alternation(net, rows=6)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.01)
    for _ in range(3):
        take_step(other, MLP.batch())
        optimizer.step()
    assert alternate.stage == 1


def test_an_alternation_of_a_network_that_is_gone_does_not_warn():
    net = staged()
    alternate = winze.Alternation(net, rows=6)
    stepped = torch.optim.SGD(net.parameters(), lr=0.01)
    stepped.step()
    parameters = list(net.parameters())
    del net, stepped
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            torch.optim.SGD(parameters, lr=0.01).step()
    assert alternate.stage == 1


@pytest.mark.parametrize("rule", [winze.Standard(), winze.DropPath(0.1), winze.DecayedIdentity(0.6)], ids=repr)
def test_a_network_without_staged_rules_is_refused(rule):
    with pytest.raises(ValueError, match=r"winze\.ResidualDropPath\(\)"):
        winze.Alternation(winze.rewire(NativeMLP(), rule))


@pytest.mark.parametrize("settings", [{"every": 0}, {"rows": 0}], ids=str)
def test_a_setting_out_of_range_is_refused(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be at least 1"):
        winze.Alternation(staged(), **settings)


@every_case
@every_rule
def test_a_copy_is_not_steered(case, rule):
    net = rewired(case, rule)
    alternate = winze.Alternation(net)
    take_step(net, case.batch())
    alternate.step()
    twin = copy.deepcopy(net)
    assert torch.equal(twin.eval()(case.batch()), net.eval()(case.batch()))
    with pytest.raises(RuntimeError, match="Alternation"):
        twin.train()(case.batch())


@every_case
def test_a_copy_can_have_an_alternation_of_its_own(case):
    net = rewired(case, RULES[0])
    twin = copy.deepcopy(net)
    first, second = winze.Alternation(net, rows=6, seed=0), winze.Alternation(twin, rows=6, seed=1)
    second.step()
    set_masks(first, torch.zeros(case.junctions, 6), stage=1)
    assert not torch.equal(net(case.batch()), twin(case.batch()))
    assert torch.equal(twin(case.batch()), case.make()(case.batch()))


def test_a_second_alternation_takes_over():
    net = staged()
    first, second = winze.Alternation(net, rows=6), winze.Alternation(net, rows=6)
    set_masks(first, torch.zeros(6, 6), stage=1)
    set_masks(second, torch.ones(6, 6), stage=1)
    assert torch.equal(net(MLP.batch()), winze.rewire(copy.deepcopy(net), winze.Standard())(MLP.batch()))


def test_rewiring_cuts_the_thread_to_the_alternation():
    net = staged()
    winze.Alternation(net, rows=6)
    winze.rewire(net, RULES[0])
    with pytest.raises(RuntimeError, match="Alternation"):
        net(MLP.batch())


class Checkpointed(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.net, x, use_reentrant=False)


@every_rule
@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("case", WITHOUT_BATCHNORM.values(), ids=WITHOUT_BATCHNORM.keys())
def test_activation_checkpointing_gives_the_same_gradients(case: Case, rule, stage):
    net = rewired(case, rule)
    alternate = winze.Alternation(net, rows=6)
    if stage == 2:
        alternate.step()
    plain, again = take_step(net, case.batch()), take_step(Checkpointed(net), case.batch())
    torch.testing.assert_close(list(again.gradients.values()), list(plain.gradients.values()), rtol=0, atol=0)


@pytest.mark.slow
def test_a_compiled_network_gives_the_same_steps_in_both_stages():
    # a process of its own, where no type checks stand between the compiler and the package
    worker = Path(__file__).with_name("compiled_steps.py")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[1:3]))}
    done = subprocess.run([sys.executable, str(worker)], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    *steps, foreign, native = done.stdout.splitlines()
    assert steps == ["same"] * 12
    # one graph for each stage and each kind of batch size, whatever the number of steps and junctions
    assert foreign == native == "[1, 2, 2, 2, 3, 3, 3, 3, 3, 4] graphs, no breaks"


@every_rule
def test_a_whole_pair_of_stages_is_the_dense_form(rule):
    steps = []
    for compute in ("auto", "dense"):
        net = staged(rule.mask, frozen=rule.frozen, compute=compute)
        alternate = winze.Alternation(net)
        run(net, alternate, 4)
        steps.append(take_step(net, MLP.batch()))
    assert_steps_equal(*steps, tolerance=1e-12)


def test_masks_go_where_the_network_goes():
    net = staged("sample")
    alternation = winze.Alternation(net, rows=4)
    net.to("meta")
    assert alternation.to("meta").keep(1, 4).device.type == "meta"
