"""What a training minimises, how it is evaluated, and what of it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from winze.modes import unchanged

LossValue = Tensor | dict[str, Tensor]


class Objective(nn.Module):
    """The loss of a network on a batch, and how the network is judged.

    An objective is a module: its parameters are trained with the network's, its state is moved, stored and restored.
    Python state belongs in `get_extra_state` / `set_extra_state`. Set `capturable = True` only where nothing but
    tensors on the device changes between two steps: `fit` may then replay the step as a CUDA graph, which runs no
    Python; `advance` is always called.
    """

    capturable: bool = False

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> LossValue:
        """The mean loss over the batch, or named parts of it, which are summed and each logged."""
        raise ValueError(f"{type(self).__name__} defines no forward(net, x, y), which returns its loss")

    def judge(self, net: nn.Module, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        """Metrics of a test batch, each summed over its samples; `fit` divides by the number of samples."""
        return {}

    def view(self, net: nn.Module) -> nn.Module:
        """What a scan or a Watch runs."""
        return net

    def advance(self) -> None:
        """Called after each optimizer step, for what is scheduled."""

    def labels(self, y: Tensor | None) -> Tensor | None:
        """The labels as `forward` takes them: called once on stored labels, on each batch of a loader."""
        return y


class Function(Objective):
    """A plain function `(net, x, y) -> loss` as an objective."""

    def __init__(self, function: Callable[..., LossValue]) -> None:
        super().__init__()
        self.function = function

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> LossValue:
        return self.function(net, x, y)


class Loss(nn.Module):
    """A network and its objective as one module, so that precision and processes wrap all that an objective calls."""

    def __init__(self, net: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.net, self.objective = net, objective

    def forward(self, x: Tensor, y: Tensor | None, share: float = 1.0) -> dict[str, Tensor]:
        """The loss, and its parts by name; `share` multiplies its gradient."""
        parts = losses(self.objective(self.net, x, y), type(self.objective).__name__)
        if share != 1:  # here, since Fabric hands the loss over in float32
            parts["loss"].register_hook(lambda gradient: gradient * share)
        return parts


def losses(found: Any, of: str) -> dict[str, Tensor]:
    """Losses by name, each one number, the total first: that called "loss", else the sum of all."""
    parts = {"loss": found} if isinstance(found, Tensor) else dict(found)
    if not parts:
        raise ValueError(f"{of} returns no loss: expected a tensor, or a dict of named parts")
    for name, part in parts.items():
        if not (isinstance(part, Tensor) and part.numel() == 1):
            what = f"of shape {tuple(part.shape)}" if isinstance(part, Tensor) else f"of type {type(part).__name__}"
            named = "" if name == "loss" else f"part {name!r} "
            raise ValueError(f"{of} returns a loss {named}{what}: expected one number, the mean over the batch")
    total = parts["loss"] if "loss" in parts else torch.stack([part.reshape(()) for part in parts.values()]).sum()
    return {"loss": total} | parts


def uncompiled(net: nn.Module) -> Any:
    """The network inside the wrap of `torch.compile`."""
    return getattr(net, "_orig_mod", net)


def in_float(values: Tensor) -> Tensor:
    """Values in float32 at least: autocast leaves outputs in half precision."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def encoder_of(net: nn.Module) -> nn.Module:
    """The `encoder` of a network, or the network itself where it has none."""
    found = getattr(net, "encoder", net)
    return found if isinstance(found, nn.Module) else net


@torch.no_grad()
def judged(
    net: nn.Module,
    batches: Iterable[Any],
    objective: Objective,
    reduce: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, float]:
    """The mean of each of an objective's metrics over all samples, on all processes; the network is left as it was."""
    weight = next((p for p in net.parameters() if p.is_floating_point()), torch.zeros(0))
    home = weight.device
    names: tuple[str, ...] | None = None
    sums = torch.zeros(1, dtype=torch.float64, device=home)  # of samples, then of each metric
    with unchanged(net, objective, training=False):
        for batch in batches:
            x, y = batch if isinstance(batch, tuple | list) else (batch, None)
            # a network in float64 or bfloat16 takes no float32; without weights it takes any
            inputs = x.to(weight) if x.is_floating_point() and weight.numel() else x.to(home)
            found = objective.judge(net, inputs, None if y is None else y.to(home))
            if tuple(found) != (names or tuple(found)):
                of = type(objective).__name__
                raise ValueError(f"{of}.judge returns {names} for one batch and {tuple(found)} for another")
            names = tuple(found)
            values = [torch.as_tensor(value, device=home).double() for value in (len(x), *found.values())]
            sums = sums + torch.stack(values)
    if names is None:
        raise ValueError("evaluate: no samples")
    samples, *totals = (sums if reduce is None else reduce(sums)).tolist()
    return {name: total / samples for name, total in zip(names, totals, strict=True)}
