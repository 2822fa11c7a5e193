"""Several networks of one make as one: their weights side by side, run together by `torch.func.vmap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector
from torch.overrides import TorchFunctionMode

from winze.shape import Alternation
from winze.train.objectives import Objective


class Members(nn.Module):
    """The losses of several networks, each on its own batch with its own masks and its own random numbers.

    All weights lie in one parameter [member, number]: optimizers that treat every number alike, such as those of the
    Adam family, thus train each member as they would alone. `clip` bounds the gradient of each member. `noise` are the
    numbers that `torch.rand` gives to each; whatever else draws at random raises.
    """

    def __init__(
        self,
        nets: Sequence[nn.Module],
        objective: Objective,
        alternations: Sequence[Alternation] | None = None,
        clip: float | None = None,
    ) -> None:
        super().__init__()
        self._shapes = {name: one.shape for name, one in nets[0].named_parameters()}
        for net in nets:
            if {name: one.shape for name, one in net.named_parameters()} != self._shapes:
                raise ValueError("networks side by side must be of one make: their parameters differ")
            if any(True for _ in net.buffers()):
                raise ValueError("networks with buffers, such as those of BatchNorm, cannot be trained side by side")
        self.weights = nn.Parameter(torch.stack([parameters_to_vector(net.parameters()).detach() for net in nets]))
        if clip is not None:
            self.weights.register_hook(lambda gradient: _clipped(gradient, clip))
        # in lists, so that they are not moved, trained and stored as parts of this module
        self.nets, self._run = list(nets), [_Loss(deepcopy(nets[0]), objective)]
        self.alternation = None if alternations is None else Alternations(self._run[0].net, alternations)
        self.noise = torch.empty(len(nets), 0)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of each member on its inputs and labels; the first axis of both is the member."""
        masks = None if self.alternation is None else self.alternation.masks
        each = vmap(self._one, in_dims=(0, 0, 0, 0, None if masks is None else 0))
        losses: Tensor = each(self.weights, x, y, self.noise, masks)
        return losses

    def _one(self, weights: Tensor, x: Tensor, y: Tensor, noise: Tensor, masks: Tensor | None) -> Any:
        with ExitStack() as moment:
            if self.alternation is not None and masks is not None:
                moment.enter_context(self.alternation.reading(masks))
            if noise.numel():
                moment.enter_context(_Numbers(noise))
            return functional_call(self._run[0], {f"net.{name}": one for name, one in self._parts(weights)}, (x, y))

    def train(self, mode: bool = True) -> Members:
        """Set the mode of the network that is run for all members, too."""
        self._run[0].train(mode)
        return super().train(mode)

    def hand_out(self) -> None:
        """Give each network its weights."""
        for net, own in zip(self.nets, self.weights.detach(), strict=True):
            spread(own, net)

    def draws(self, x: Tensor, y: Tensor) -> int:
        """How many numbers one member draws with `torch.rand` while it learns from a batch of its own."""
        run = self._run[0].train()
        home = next(run.parameters())
        with _Numbers() as asked, torch.no_grad():
            run(x.to(home) if x.is_floating_point() else x.to(home.device), y.to(home.device))
        return asked.count

    def _parts(self, weights: Tensor) -> Iterator[tuple[str, Tensor]]:
        sizes = [shape.numel() for shape in self._shapes.values()]
        for (name, shape), part in zip(self._shapes.items(), weights.split(sizes), strict=True):
            yield name, part.view(shape)


class Alternations(Alternation):
    """The alternations of several networks in step: one table of masks [member, junction, sample] for all.

    `net` is the network that is run for all of them under `vmap`, where masks are an argument: `reading` them steers
    its junctions. Rules that look at a mask in Python cannot be run so.
    """

    def __init__(self, net: nn.Module, each: Sequence[Alternation]) -> None:
        first = each[0]
        if any(one.rows is None or (one.rows, one.every) != (first.rows, first.every) for one in each):
            raise ValueError("alternations side by side want the same rows= and every=, given when they are made")
        super().__init__(net, first.every, first.rows)
        self.each, self.stage = list(each), first.stage
        self.masks = self._gathered()

    @contextmanager
    def reading(self, masks: Tensor) -> Iterator[None]:
        """Have the junctions read these masks [junction, sample] for a while."""
        own, self._table = self._table, masks
        try:
            yield
        finally:
            self._table = own

    def step(self) -> None:
        """Go on to the next step of each; captured graphs find new masks in the same memory."""
        for one in self.each:
            one.step()
        if self.stage == 2 and self.each[0].stage == 1:
            self.masks.copy_(self._gathered())
        self.stage = self.each[0].stage

    def kept_whole(self, row: int, samples: int) -> bool:
        """Masks that Python would have to look at."""
        raise ValueError('side by side every network has masks of its own: give the rule compute="dense"')

    def parted(self, row: int, samples: int) -> Any:
        """Masks that Python would have to look at."""
        return self.kept_whole(row, samples)

    def to(self, device: torch.device | str) -> Alternations:
        """Move the masks of all to where the members went."""
        self.masks = self.masks.to(device)
        return self

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next steps depend on."""
        return {"each": [one.state_dict() for one in self.each]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where `state_dict` was taken."""
        for one, own in zip(self.each, state["each"], strict=True):
            one.load_state_dict(own)
        self.stage = self.each[0].stage
        self.masks.copy_(self._gathered())

    def _gathered(self) -> Tensor:
        return torch.stack([one.state_dict()["table"] for one in self.each])


class _Loss(nn.Module):
    """An objective as a module, to which a network's parameters can be passed."""

    def __init__(self, net: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.net, self.objective = net, objective

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.objective(self.net, x, y)


class _Numbers(TorchFunctionMode):
    """While open, `torch.rand` hands out these numbers one after the other; without any it gives zeros and counts."""

    def __init__(self, numbers: Tensor | None = None) -> None:
        super().__init__()
        self.numbers, self.count = numbers, 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if function is not torch.rand:
            return function(*args, **given)
        shape = torch.Size(args[0] if isinstance(args[0], tuple | list) else args)
        start, self.count = self.count, self.count + shape.numel()
        if self.numbers is None:
            return torch.zeros(shape, device=given.get("device"))
        return self.numbers[start : self.count].view(shape)


def spread(weights: Tensor, net: nn.Module) -> None:
    """Give a network the weights of one member; torch's `vector_to_parameters` would leave all in one memory."""
    sizes = [parameter.numel() for parameter in net.parameters()]
    for parameter, part in zip(net.parameters(), weights.split(sizes), strict=True):
        parameter.data = part.view_as(parameter).clone()


def _clipped(gradient: Tensor, most: float) -> Tensor:
    """As `nn.utils.clip_grad_norm_` does it, for each member."""
    return gradient * (most / (gradient.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1)
