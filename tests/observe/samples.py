"""Data of noise around classes, and what a plain hook reads, for the tests of observing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def lively(net: nn.Module) -> nn.Module:
    """The network with BatchNorm statistics and affine parts away from their start, in eval mode."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                for part in (module.weight, module.bias, module.running_mean):
                    part.add_(0.3 * torch.randn(part.shape, generator=generator))
    return net.eval()


def taught(net: nn.Module, data: tuple[Tensor, Tensor], steps: int = 30) -> nn.Module:
    """The network after some steps on the data, in eval mode: its accuracy is then above chance."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    net.train()
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(data[0]), data[1]).backward()
        optimizer.step()
    optimizer.zero_grad()
    return net.eval()


def images(n: int, classes: int = 3, size: int = 8, seed: int = 0, channels: int = 3) -> tuple[Tensor, Tensor]:
    """Images of noise around a pattern of their class."""
    patterns = torch.randn(classes, channels, size, size, generator=torch.Generator().manual_seed(100))
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=generator)
    y[:classes] = torch.arange(classes)[:n]
    return 0.5 * patterns[y] + torch.randn(n, channels, size, size, generator=generator), y


def rows(n: int, classes: int = 3, width: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Vectors of noise around a centre of their class."""
    x, y = images(n, classes, 1, seed, width)
    return x.flatten(1), y


def loader(data: tuple[Tensor, Tensor], batch: int) -> list[tuple[Tensor, Tensor]]:
    """The same pair as a list of batches."""
    return list(zip(data[0].split(batch), data[1].split(batch), strict=True))


def hooks_of(net: nn.Module) -> int:
    """How many forward hooks hang on the network."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())


@torch.no_grad()
def outputs_of(net: nn.Module, name: str, x: Any, call: int = 0) -> Tensor:
    """What the `call`-th call of a module outputs in eval mode, copied at once by a plain hook."""
    found: list[Tensor] = []
    handle = net.get_submodule(name).register_forward_hook(lambda m, a, out: found.append(out.detach().clone()))
    modes = [(m, m.training) for m in net.modules()]
    net.eval()(x)
    for module, mode in modes:
        module.training = mode
    handle.remove()
    return found[call]


def pooled_of(net: nn.Module, name: str, x: Any, call: int = 0) -> Tensor:
    """The same, averaged in float64 over positions of a channels-first map."""
    out = outputs_of(net, name, x, call).double()
    return out.flatten(2).mean(2) if out.ndim > 2 else out
