"""Several networks of one make as one: their weights side by side, run together by `torch.func.vmap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector
from torch.overrides import TorchFunctionMode

from winze.shape import Alternation
from winze.shape.rules.masks import rate_at
from winze.train.objectives import Objective, classes_of


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
        self._tied = len(self._shapes) < len(list(nets[0].named_parameters(remove_duplicate=False)))
        for net in nets:
            if {name: one.shape for name, one in net.named_parameters()} != self._shapes:
                raise ValueError("networks side by side must be of one make: their parameters differ")
            if any(True for _ in net.buffers()):
                raise ValueError("networks with buffers, such as those of BatchNorm, cannot be trained side by side")
            if len({module.training for module in net.modules()}) > 1:
                raise ValueError("networks with modules in eval mode among others cannot be trained side by side")
            if not all(one.requires_grad for one in net.parameters()):
                raise ValueError("networks with weights that do not learn cannot be trained side by side")
        self.weights = nn.Parameter(torch.stack([parameters_to_vector(net.parameters()).detach() for net in nets]))
        if clip is not None:
            self.weights.register_hook(lambda gradient: _clipped(gradient, clip))
        # in lists, so that they are not moved, trained and stored as parts of this module
        self.nets, self._run = list(nets), [_Loss(_simplified(deepcopy(nets[0])), objective)]
        self.alternation = None if alternations is None else Alternations(self._run[0].net, alternations)
        self.noise = torch.empty(len(nets), 0)
        self.lost: Tensor
        self.register_buffer("lost", torch.zeros(len(nets), dtype=torch.bool))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of each member on its inputs and labels; the first axis of both is the member.

        One whose loss is not finite counts as `lost` from then on.
        """
        masks = None if self.alternation is None else self.alternation.masks
        each = vmap(self._one, in_dims=(0, 0, 0, 0, None if masks is None else 0))
        losses: Tensor = each(self.weights, x, y, self.noise, masks)
        if self.training:
            self.lost.logical_or_(~torch.isfinite(losses.detach()))
        return losses

    def _one(self, weights: Tensor, x: Tensor, y: Tensor, noise: Tensor, masks: Tensor | None) -> Any:
        with ExitStack() as moment:
            if self.alternation is not None and masks is not None:
                moment.enter_context(self.alternation.reading(masks))
            if noise.numel():
                moment.enter_context(_Numbers(noise))
            named = {f"net.{name}": one for name, one in self._parts(weights)}
            return functional_call(self._run[0], named, (x, y), tie_weights=self._tied)

    def train(self, mode: bool = True) -> Members:
        """Set the mode of the network that is run for all members, too."""
        self._run[0].train(mode)
        return super().train(mode)

    def hand_out(self) -> None:
        """Give each network its weights."""
        for net, own in zip(self.nets, self.weights.detach(), strict=True):
            spread(own, net)
        if self.alternation is not None:
            self.alternation.hand_out()

    def one_hot(self, x: Tensor, y: Tensor) -> Tensor:
        """Labels as shares of the classes: cross-entropy is the same, and `vmap` need not take it apart in Python."""
        with torch.no_grad():
            outputs = self._run[0].eval().net(self._at_home(x[:1]))
        if classes_of(y) > outputs.shape[1]:
            raise ValueError(f"labels go up to {classes_of(y) - 1}, but networks put out {outputs.shape[1]} classes")
        return F.one_hot(y, outputs.shape[1]).to(self.weights.dtype)

    def draws(self, x: Tensor, y: Tensor) -> int:
        """How many numbers one member draws with `torch.rand` while it learns from a batch of its own."""
        steered = nullcontext() if self.alternation is None else self.alternation.reading(self.alternation.masks[0])
        with _Numbers() as asked, steered, torch.no_grad():
            self._run[0].train()(self._at_home(x), self._at_home(y))
        return asked.count

    def _at_home(self, batch: Tensor) -> Tensor:
        """A batch as the network that is run for all takes it when it runs alone."""
        weight = next(self._run[0].parameters())
        return batch.to(weight) if batch.is_floating_point() else batch.to(weight.device)

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
        self.masks: Tensor
        self.each = list(each)
        rules: list[Any] = [junction.rule for junction in self._junctions]
        rates = [rate_at(rule.rate, rule.profile, j.seat) for rule, j in zip(rules, self._junctions, strict=True)]
        coins = all((rule.mask, rule.draw) == ("sample", "bernoulli") for rule in rules)
        self._rates = torch.tensor(rates)[:, None] if coins else None
        self.load_state_dict({"each": [one.state_dict() for one in each]})

    @contextmanager
    def reading(self, masks: Tensor) -> Iterator[None]:
        """Have the junctions read these masks [junction, sample] for a while."""
        own, self._table = self._table, masks
        try:
            yield
        finally:
            self._table = own

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
        """What each alternation would be at, had it been stepped alone."""
        shared = {"stage": self.stage, "steps": self._steps, "rows": self.rows}
        own = zip(self._generators, self.masks.cpu(), strict=True)
        return {"each": [{**shared, "generator": one.get_state(), "table": table} for one, table in own]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to where `state_dict` was taken."""
        each = state["each"]
        if len({(one["stage"], one["steps"]) for one in each}) > 1:
            raise ValueError("alternations side by side must be in step")
        self.stage, self._steps = each[0]["stage"], each[0]["steps"]
        self._generators = [torch.Generator() for _ in each]
        for generator, one in zip(self._generators, each, strict=True):
            generator.set_state(one["generator"])
        self._put(torch.stack([one["table"] for one in each]))

    def hand_out(self) -> None:
        """Bring each alternation to where it would be, had it been stepped alone."""
        for one, own in zip(self.each, self.state_dict()["each"], strict=True):
            one.load_state_dict(own)

    def _draw(self, rows: int) -> None:
        """Draw what each alternation would draw; many coins at once fall as they would one row after the other."""
        if not hasattr(self, "_generators"):  # the base class draws a table before there are any
            return
        if self._rates is not None:
            noise = torch.empty(len(self._generators), len(self._rates), rows)
            for one, generator in zip(noise, self._generators, strict=True):
                one.uniform_(generator=generator)
            self._put(noise >= self._rates)
            return
        tables = []
        for generator in self._generators:
            self._generator = generator
            tables.append(torch.stack([self._draw_row(junction, rows, 0, 1) for junction in self._junctions]))
        self._put(torch.stack(tables))

    def _put(self, masks: Tensor) -> None:
        """Put masks in place, into the same memory where there is some, so that captured graphs see them."""
        if hasattr(self, "masks"):
            self.masks.copy_(masks)
        else:
            self.masks = masks


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


def _simplified(net: nn.Module) -> nn.Module:
    """The network with linear layers as a product and a sum: `vmap` would make further passes of a fused one."""
    for layer in net.modules():
        if type(layer) is nn.Linear:
            layer.forward = partial(_linear, layer)  # type: ignore[method-assign]
    return net


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    product = x @ layer.weight.t()
    return product if layer.bias is None else product + layer.bias


def spread(weights: Tensor, net: nn.Module) -> None:
    """Give a network the weights of one member; torch's `vector_to_parameters` would leave all in one memory."""
    sizes = [parameter.numel() for parameter in net.parameters()]
    for parameter, part in zip(net.parameters(), weights.split(sizes), strict=True):
        parameter.data = part.view_as(parameter).clone()


def _clipped(gradient: Tensor, most: float) -> Tensor:
    """As `nn.utils.clip_grad_norm_` does it, for each member."""
    return gradient * (most / (gradient.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1)
