"""How often a network is right."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.modes import unchanged
from winze.train.objectives import class_labels


def evaluate(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The share of samples whose largest output is their label; the network is left as it was."""
    return judge(net, batches)["accuracy"]


@torch.no_grad()
def judge(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Accuracy, with more than five classes also top-5 accuracy, and the mean cross-entropy."""
    weight = next((p for p in net.parameters() if p.is_floating_point()), torch.zeros(0))
    home = weight.device
    sums = torch.zeros(3, dtype=torch.float64, device=home)
    samples, many = 0, False
    with unchanged(net, training=False):
        for x, y in batches:
            # a network in float64 or bfloat16 takes no float32; without weights it takes any
            inputs = x.to(weight) if x.is_floating_point() and weight.numel() else x.to(home)
            outputs, labels = net(inputs), class_labels(y).to(home)
            answers = labels.argmax(1) if labels.is_floating_point() else labels
            many = outputs.shape[1] > 5
            best = outputs.topk(5 if many else 1, 1).indices == answers[:, None]
            loss = F.cross_entropy(outputs.float(), labels, reduction="sum")
            sums += torch.stack([best[:, 0].sum().double(), best.sum().double(), loss.double()])
            samples += len(y)
    if not samples:
        raise ValueError("evaluate: not one sample")
    right, among, loss_sum = (sums / samples).tolist()
    return {"accuracy": right} | ({"top5": among} if many else {}) | {"test_loss": loss_sum}
