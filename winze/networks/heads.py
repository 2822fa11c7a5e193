"""One output for each task of a sequence."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from winze.networks.models.init import check_sizes
from winze.networks.network_error import NetworkError
from winze.networks.published import head_of


class Heads(nn.Module):
    """Linear outputs for several tasks, of which one speaks at a time: `heads.use(1)`.

    Only the one in use runs and learns.
    """

    def __init__(self, inputs: int, outputs: Sequence[int]) -> None:
        super().__init__()
        check_sizes(inputs=inputs, heads=len(outputs), outputs=min(outputs, default=1))
        self.heads = nn.ModuleList(nn.Linear(inputs, count) for count in outputs)
        self.task = 0

    def use(self, task: int) -> Heads:
        """Let the head of this task speak from now on."""
        if not 0 <= task < len(self.heads):
            raise NetworkError(f"there is no head {task}; they are numbered 0 to {len(self.heads) - 1}")
        self.task = task
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.heads[self.task](x)

    def extra_repr(self) -> str:
        return f"task={self.task}"


def give_heads(net: nn.Module, outputs: Sequence[int]) -> Heads:
    """Put a head for each task where the network has its output, in place; what comes back says which one speaks.

    >>> heads = give_heads(VGG(19), [len(task.classes) for task in split_classes(cifar10, (5, 5))])  # doctest: +SKIP
    """
    name = head_of(net)
    last = None if name is None else net.get_submodule(name)
    if not name or not isinstance(last, nn.Linear):
        raise NetworkError(f"{type(net).__name__} does not end in a linear layer that heads could stand in for")
    heads = Heads(last.in_features, outputs).to(last.weight.device, last.weight.dtype)
    owner, _, own = name.rpartition(".")
    setattr(net.get_submodule(owner), own, heads)
    return heads
