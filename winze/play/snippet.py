"""The lines of Python that build and train the network on the page."""

from __future__ import annotations

from winze.play.settings import DRAWN, Arm, Setup
from winze.play.trainer import TEST
from winze.shape import Standard

MSE = """
def mse(net, x, y):
    outputs = net(x)
    return F.mse_loss(outputs, F.one_hot(y, outputs.shape[1]).float())

"""


def snippet(setup: Setup, arm: Arm, steps: int) -> str:
    """Code that trains this very network for so many steps; its weights end as the page's do, bit for bit."""
    squared, ruled = arm.objective == "mse", arm.rule != Standard()
    names = sorted({arm.optimizer, "Hardware", "Steps", "Training", "fit"} | (set() if squared else {"Classify"}))
    lines = ["import torch", *(["import torch.nn.functional as F"] if squared else []), ""]
    lines += ["import winze", *([] if setup.data == DRAWN else ["from winze.data import plane"])]
    lines += ["from winze.networks import SpiralMLP", f"from winze.train import {', '.join(names)}"]
    lines += MSE.splitlines() if squared else [""]
    lines += ["", *_data(setup), "", f"torch.manual_seed({setup.seed})"]
    sizes = f"width={arm.width}, depth={arm.depth}, classes={setup.classes}, activation={arm.activation!r}"
    lines += [f"net = SpiralMLP({sizes})"]
    lines += [f"winze.rewire(net, winze.{arm.rule!r})"] if ruled else []
    if arm.rule.staged:
        rows = min(setup.batch, len(setup.drawn) if setup.data == DRAWN else setup.points)
        lines += [f"alternate = winze.Alternation(net, rows={rows}, seed={setup.seed})"]
    goal = "mse" if squared else f"Classify(temperature={arm.temperature!r})"
    lines += [
        "training = Training(",
        f"    Steps({max(steps, 1)}), batch={setup.batch}, optimizer={arm.optimizer}({arm.lr}), objective={goal},",
        "    evaluate=Steps(1),",
        ")",
        "history = fit(",
        f'    net, train, training, seed={setup.seed}, hardware=Hardware(accelerator="cpu"),'
        + (" followers=[alternate]," if arm.rule.staged else ""),
        ")",
        'print("first loss", history.metrics[0]["loss"])',
        'print("last loss", history.metrics[-1]["loss"])',
        "with torch.no_grad():",
        '    print("test accuracy", float((net.eval()(test[0]).argmax(1) == test[1]).float().mean()))',
    ]
    return "\n".join(lines) + "\n"


def _data(setup: Setup) -> list[str]:
    if setup.data == DRAWN:
        points = ", ".join(f"({x}, {y}, {label})" for x, y, label in setup.drawn)
        return [
            f"points = torch.tensor([{points}])",
            "train = test = points[:, :2].contiguous(), points[:, 2].long()",
        ]
    drawn = f"noise={setup.noise}" + (f", classes={setup.classes}" if setup.data == "gaussians" else "")
    return [
        f"train = plane({setup.data!r}, {setup.points}, {drawn}, seed={setup.seed})",
        f"test = plane({setup.data!r}, {TEST}, {drawn}, seed={setup.seed + 1})",
    ]
