"""One process of a distributed run; started by test_ddp.py, which compares what it leaves behind."""

import sys

import torch
import torch.distributed as dist
from cases import WITHOUT_BATCHNORM, rewired
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import winze

SAMPLES, STEPS = 4, 6


def train(net: nn.Module, inner: nn.Module, x: Tensor) -> list[Tensor]:
    """Train a network on one batch, the loss averaged over samples; the masks of each step."""
    alternate = winze.Alternation(net, seed=5)
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    seen = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(x).square().sum(1).mean().backward()
        optimizer.step()
        seen.append(alternate.state_dict()["table"].clone())
        alternate.step()
    return seen


def rule(mask: str) -> winze.Rule:
    return winze.ResidualDropPath(0.6, "constant", mask=mask, compute="dense" if mask == "sample" else "auto")


if __name__ == "__main__":
    folder, name, mask, rank = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    net = rewired(WITHOUT_BATCHNORM[name], rule(mask))
    x = WITHOUT_BATCHNORM[name].batch(2 * SAMPLES)[rank * SAMPLES : (rank + 1) * SAMPLES]
    masks = train(DistributedDataParallel(net), net, x)
    torch.save({"masks": masks, "net": net.state_dict()}, f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()
