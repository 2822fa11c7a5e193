"""An ensemble: several seeds of one architecture trained at once with `torch.func.vmap`.

fit_ensemble(nets, data, training, seeds=range(len(nets)))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from winze.shape import Alternation
from winze.shape.rules.masks import rate_at
from winze.train.fit import History, fit
from winze.train.followers import named
from winze.train.objectives.base import Loss, Objective
from winze.train.sources import InputsAndLabels, OnDevice
from winze.train.training import Goal, Lars, Training, objective_of


def fit_ensemble(
    nets: Sequence[nn.Module],
    data: tuple[Tensor, Tensor],
    training: Training,
    *,
    seeds: Sequence[int],
    alternations: Sequence[Alternation] | None = None,
    by: Callable[..., History] = fit,
    followers: Mapping[str, Any] | Sequence[Any] = (),
    **rest: Any,
) -> History:
    """Train several networks of one architecture at once, in place.

    Up to rounding, each ends as after `fit(net, data, training, seed=seed, followers=[alternation])`: with its own
    order of the data and its own masks. What a forward draws at random differs from network to network, and from what
    one alone would draw. A network that diverges does not disturb the others: the losses of the history are means over
    the others, its `lost` has the seeds of those that diverged, and a warning names them; where all have,
    `DivergedError` is raised. `by` trains one network: `fit`, or a bench's `train`; `followers` and the rest go to it,
    and followers are given the `Ensemble`.
    """
    _check(nets, training, seeds, alternations)
    ensemble = Ensemble(nets, alternations, training.clip)
    own = {} if ensemble.alternation is None else {"alternation": ensemble.alternation}
    history = by(
        ensemble,
        partial(_Batches, data, training, seeds),
        replace(training, clip=None, objective=Together(training.objective)),
        followers=own | named(followers),
        **rest,
    )
    for net, weights in zip(nets, ensemble.weights.detach(), strict=True):
        spread(weights, net)
    if ensemble.alternation is not None:
        ensemble.alternation.load_state_dict(ensemble.alternation.state_dict())  # and so each has its own
    lost = tuple(seed for seed, gone in zip(seeds, ensemble.lost.tolist(), strict=True) if gone)
    if lost:
        warnings.warn(
            f"{len(lost)} of {len(nets)} networks diverged, those of seeds {', '.join(map(str, lost))}: losses are "
            "means over the others",
            stacklevel=2,
        )
    return replace(history, lost=lost)


class Ensemble(nn.Module):
    """The losses of several networks, each on its own batch with its own masks and its own random numbers.

    All weights lie in one parameter [network, number]: optimizers that treat every number alike, such as those of the
    Adam family, train each network as they would alone. `clip` bounds the gradient of each network.
    """

    tolerates_divergence = True

    def __init__(
        self, nets: Sequence[nn.Module], alternations: Sequence[Alternation] | None = None, clip: float | None = None
    ) -> None:
        super().__init__()
        self._shapes = {name: one.shape for name, one in nets[0].named_parameters()}
        self._tied = len(self._shapes) < len(list(nets[0].named_parameters(remove_duplicate=False)))
        for net in nets:
            if {name: one.shape for name, one in net.named_parameters()} != self._shapes:
                raise ValueError("an ensemble has one architecture: the parameters of these networks differ")
            if any(True for _ in net.buffers()):
                raise ValueError("networks with buffers, such as those of BatchNorm, cannot be an ensemble")
            if len({module.training for module in net.modules()}) > 1:
                raise ValueError("networks with some modules in eval mode cannot be an ensemble")
            if not all(one.requires_grad for one in net.parameters()):
                raise ValueError("networks with frozen parameters cannot be an ensemble")
        self.weights = nn.Parameter(torch.stack([parameters_to_vector(net.parameters()).detach() for net in nets]))
        if clip is not None:
            self.weights.register_hook(lambda gradient: _clipped(gradient, clip))
        # in a list, so that it is not moved, trained and stored as a part of this module
        self._run = [_simplified(deepcopy(nets[0]))]
        self.alternation = None if alternations is None else Alternations(self._run[0], alternations)
        self.lost: Tensor
        self.register_buffer("lost", torch.zeros(len(nets), dtype=torch.bool))

    def forward(self, objective: Objective, x: Tensor, y: Tensor) -> Tensor:
        """The loss of each network on its inputs and labels [network, sample, ...]; a loss that is not finite marks it.

        Networks so marked are `lost` from then on.
        """
        one = partial(self._one, Loss(self._run[0], objective))
        masks = None if self.alternation is None else self.alternation.masks
        over = (0, 0, 0, None if masks is None else 0)
        losses: Tensor = vmap(one, in_dims=over, randomness="different")(self.weights, x, y, masks)
        if self.training:
            self.lost.logical_or_(~torch.isfinite(losses.detach()))
        return losses

    def _one(self, loss: Loss, weights: Tensor, x: Tensor, y: Tensor, masks: Tensor | None) -> Any:
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = zip(self._shapes.items(), weights.split(sizes), strict=True)
        named = {f"net.{name}": part.view(shape) for (name, shape), part in parts}
        alternation = self.alternation
        with nullcontext() if alternation is None or masks is None else alternation.reading(masks):
            return functional_call(loss, named, (x, y), tie_weights=self._tied)["loss"]

    def train(self, mode: bool = True) -> Ensemble:
        self._run[0].train(mode)
        return super().train(mode)


class Alternations(Alternation):
    """The alternations of an ensemble in step: one table of masks [network, junction, sample] for all.

    `net` is the network that is run for all of them under `vmap`, where masks are an argument: `reading` sets them.
    Rules that look at a mask in Python cannot be run so.
    """

    def __init__(self, net: nn.Module, each: Sequence[Alternation]) -> None:
        rows, every = each[0].rows, each[0].every
        if rows is None or any((one.rows, one.every) != (rows, every) for one in each):
            raise ValueError("the alternations of an ensemble need the same rows= and every=, given when they are made")
        if len({(one.stage, one._steps) for one in each}) > 1:
            raise ValueError("the alternations of an ensemble must be in step")
        self.each: list[Alternation] = []  # the base class draws a table before there are any
        super().__init__(net, every, rows)
        rules: list[Any] = [junction.rule for junction in self._junctions]
        rates = [rate_at(rule.rate, rule.profile, j.seat) for rule, j in zip(rules, self._junctions, strict=True)]
        coins = all((rule.mask, rule.draw) == ("sample", "bernoulli") for rule in rules)
        self._rates = torch.tensor(rates)[:, None] if coins else None
        self.each, self.masks = list(each), torch.empty(len(each), len(rates), rows, dtype=torch.bool)
        self.load_state_dict({"each": [one.state_dict() for one in each]})

    def _draw(self, rows: int) -> None:
        """Draw what each would draw, into the same memory, so that captured graphs see it."""
        if self.each:
            self.masks.copy_(torch.stack([self._drawn(one, rows) for one in self.each]))

    def _drawn(self, one: Alternation, rows: int) -> Tensor:
        """The masks of one network; drawing all masks at once gives the same numbers as drawing them row by row."""
        if self._rates is not None:
            return torch.rand(len(self._rates), rows, generator=one._generator) >= self._rates
        return torch.stack([one._draw_row(junction, rows, 0, 1) for junction in one._junctions])

    @contextmanager
    def reading(self, masks: Tensor) -> Iterator[None]:
        """While open, the junctions read these masks [junction, sample]."""
        own, self._table = self._table, masks
        try:
            yield
        finally:
            self._table = own

    def kept_whole(self, row: int, samples: int) -> bool:
        """Raises where Python would depend on values of masks."""
        raise ValueError('in an ensemble every network has masks of its own: give the rule compute="dense"')

    def parted(self, row: int, samples: int) -> Any:
        return self.kept_whole(row, samples)

    def to(self, device: torch.device | str) -> Alternations:
        self.masks = self.masks.to(device)
        return self

    def state_dict(self) -> dict[str, Any]:
        """The state that each alternation would have if it had been stepped alone."""
        shared = {"stage": self.stage, "steps": self._steps, "rows": self.rows}
        own = zip(self.each, self.masks.cpu(), strict=True)
        return {"each": [{**shared, "generator": one._generator.get_state(), "table": table} for one, table in own]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for one, own in zip(self.each, state["each"], strict=True):
            one.load_state_dict(own)
        self.stage, self._steps = state["each"][0]["stage"], state["each"][0]["steps"]
        self.masks.copy_(torch.stack([own["table"] for own in state["each"]]))


@dataclass(frozen=True)
class Together(Goal):
    """The objective of each network of an ensemble, as one objective."""

    goal: Any

    def build(self, steps: int) -> Objective:
        return _Mean(objective_of(self.goal, steps))


class _Mean(Objective):
    """The mean of the finite losses, NaN where there is none; the gradient of each network is its own."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective, self.capturable = objective, objective.capturable

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Tensor:
        losses = net(self.objective, x, y)
        sound = torch.isfinite(losses)
        total = torch.where(sound, losses, 0.0).sum()
        return total + (total / sound.sum() - total).detach()

    def advance(self) -> None:
        self.objective.advance()

    def labels(self, y: Tensor | None) -> Tensor | None:
        return self.objective.labels(y)


class _Batches(OnDevice):
    """Every network's own batches: row numbers [sample, network]."""

    def __init__(
        self, data: tuple[Tensor, Tensor], training: Training, seeds: Sequence[int], device: torch.device
    ) -> None:
        super().__init__(*data, training, None, 0, device)
        self.seeds = seeds

    def _order(self, number: int) -> Tensor:
        return torch.stack([self._shuffled(seed, number) for seed in self.seeds], 1)

    def make(self, rows: Tensor, table: Tensor | None) -> InputsAndLabels:
        return super().make(rows.T, table)


def spread(weights: Tensor, net: nn.Module) -> None:
    """Give a network one row of an ensemble's weights."""
    vector_to_parameters(weights, net.parameters())
    for parameter in net.parameters():
        parameter.data = parameter.data.clone()  # in memory of its own, no longer that of all


def _simplified(net: nn.Module) -> nn.Module:
    """The network with linear layers as a product and a sum: `vmap` would make further passes of a fused one."""
    for layer in net.modules():
        if type(layer) is nn.Linear:
            layer.forward = partial(_linear, layer)  # type: ignore[method-assign]
    return net


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    product = x @ layer.weight.t()
    return product if layer.bias is None else product + layer.bias


def _clipped(gradient: Tensor, most: float) -> Tensor:
    """As `nn.utils.clip_grad_norm_` does it, for each network."""
    return gradient * (most / (gradient.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1)


def _check(
    nets: Sequence[nn.Module], training: Training, seeds: Sequence[int], alternations: Sequence[Alternation] | None
) -> None:
    if not nets or len(seeds) != len(nets) or len(alternations or nets) != len(nets):
        raise ValueError(f"expected one seed for each of {len(nets)} networks, and one alternation for each, or none")
    optimizer = training.optimizer
    reasons = {
        "the optimizer is Lars, which scales whole tensors": isinstance(optimizer, Lars),
        "decay_vectors=False exempts vectors from weight decay": not optimizer.decay_vectors,
        "rates= selects weights by name": bool(optimizer.rates),
        "16-mixed scales all losses together": training.precision == "16-mixed",
        "samples are augmented": bool(training.augment),
    }
    for reason, true in reasons.items():
        if true:
            raise ValueError(f"an ensemble cannot be trained where {reason}")
