"""How often a network is right."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def evaluate(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """The share of samples whose largest output is their label; the network's mode is left as it was."""
    return judge(net, batches)["accuracy"]


@torch.no_grad()
def judge(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Accuracy, with more than five classes also top-5 accuracy, and the mean cross-entropy."""
    home = next((p.device for p in net.parameters()), torch.device("cpu"))
    training = net.training
    sums = torch.zeros(3, dtype=torch.float64, device=home)
    samples, many = 0, False
    net.eval()
    try:
        for x, y in batches:
            outputs, labels = net(x.to(home)), y.to(home)
            many = outputs.shape[1] > 5
            best = outputs.topk(5 if many else 1, 1).indices == labels[:, None]
            loss = F.cross_entropy(outputs.float(), labels, reduction="sum")
            sums += torch.stack([best[:, 0].sum().double(), best.sum().double(), loss.double()])
            samples += len(y)
    finally:
        net.train(training)
    if not samples:
        raise ValueError("evaluate: not one sample")
    right, among, loss_sum = (sums / samples).tolist()
    return {"accuracy": right} | ({"top5": among} if many else {}) | {"test_loss": loss_sum}
