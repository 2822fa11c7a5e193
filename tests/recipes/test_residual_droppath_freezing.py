"""Parts that stage 2 freezes do not move, and those that it trains do."""

import pytest
import torch

import winze
from winze.networks import build
from winze.recipes.residual_droppath._freeze import PutBack


def two_stages(freeze):
    """The state of a network before and after one stage 2, in which the last branch alone is dropped."""
    torch.manual_seed(0)
    net = build("winze/resnet20x0.25", 4, channels=1)
    x, y = torch.randn(8, 1, 8, 8), torch.arange(8) % 4
    winze.rewire(net, winze.ResidualDropPath(mask="batch", frozen="weights", compute="dense"), example=x)
    alternation, back = winze.Alternation(net, rows=8), PutBack(net, freeze)
    alternation._set(torch.tensor([[True]] * 8 + [[False]]).expand(9, 8).clone())
    optimizer, seen = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=0.1), []
    for step in (1, 2):
        seen.append({name: one.clone() for name, one in net.state_dict().items()})
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        alternation.step()
        back.after_step(net, step)
    moved = {name for name, one in net.state_dict().items() if not torch.equal(one, seen[1][name])}
    return moved, set(seen[1])


def test_kept_branches_stand_still_in_stage_2_in_spite_of_momentum_and_weight_decay():
    moved, names = two_stages("branches")
    still = {name for name in names if name.startswith("stages.") and ".branch." in name and "stages.2.2." not in name}
    assert still
    assert not moved & still
    assert "stages.2.2.branch.conv1.weight" in moved
    assert {"stem.conv.weight", "stages.1.0.shortcut.conv.weight"} <= moved


def test_with_all_frozen_the_dropped_branch_alone_moves():
    moved, _ = two_stages("all")
    assert moved
    assert all(name.startswith("stages.2.2.branch.") for name in moved)


def test_a_per_sample_mask_freezes_no_whole_branch():
    net = build("winze/resnet20x0.25", 4, channels=1)
    winze.rewire(net, winze.ResidualDropPath(), example=torch.randn(2, 1, 8, 8))
    with pytest.raises(ValueError, match="per-sample"):
        PutBack(net)
