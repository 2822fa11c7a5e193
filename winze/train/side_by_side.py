"""Training several networks of one make at once: the same as one after the other, for little more than the time of one.

fit_side_by_side(nets, data, training, seeds=range(len(nets)))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from winze.shape import Alternation
from winze.train.config import Training
from winze.train.fit import History, fit
from winze.train.members import Members
from winze.train.objectives import Classify, Objective, class_labels
from winze.train.seeds import mix
from winze.train.source import OnDevice, Pair


def fit_side_by_side(
    nets: Sequence[nn.Module],
    data: Pair,
    training: Training,
    *,
    seeds: Sequence[int],
    alternations: Sequence[Alternation] | None = None,
    objective: Objective | None = None,
    by: Callable[..., History] = fit,
    **rest: Any,
) -> History:
    """Train several networks of one make at once, in place.

    Each ends as `fit(net, data, training, seed=seed, alternation=...)` would leave it, to rounding: it sees the data
    in its own order and under its own masks. One that diverges does not disturb the others: the losses of the history
    are means over those that have not, its `lost` has the seeds of the rest, and a warning names them; where all have,
    `DivergedError` is raised. `by` trains one network: `fit`, or a bench's `train`; the rest goes to it, and a `watch`
    is shown the `Members`.
    """
    _check(nets, training, seeds, alternations)
    data = data if objective is not None else (data[0], class_labels(data[1]))
    chosen = Classify.of(training) if objective is None else objective
    members = Members(nets, chosen, alternations, training.clip)
    data = (data[0], members.one_hot(*data)) if objective is None else data
    history = by(
        members,
        partial(_SideBySide, members, data, training, seeds),
        replace(training, clip=None),
        objective=_Mean(chosen),
        alternation=members.alternation,
        **rest,
    )
    members.hand_out()
    lost = tuple(seed for seed, gone in zip(seeds, members.lost.tolist(), strict=True) if gone)
    if lost:
        warnings.warn(
            f"{len(lost)} of {len(nets)} networks diverged, those of seeds {', '.join(map(str, lost))}: losses are "
            "means over the others",
            stacklevel=2,
        )
    return replace(history, lost=lost)


class _SideBySide:
    """Every member's own batches: row numbers [sample, member], and the numbers that its network draws."""

    def __init__(
        self, members: Members, data: Pair, training: Training, seeds: Sequence[int], device: torch.device
    ) -> None:
        here = data[0].to(device), data[1].to(device)
        self.each = [OnDevice(here, training, None, seed, device) for seed in seeds]
        self.members, self.seeds, self.steps, self.device = members, seeds, self.each[0].steps, device
        self.draws = {size: members.draws(*(part[:size] for part in data)) for size in set(self.each[0].sizes)}
        # a network in 64-true draws doubles
        self._dtype = torch.float64 if training.precision == "64-true" else torch.float32
        self._generator = torch.Generator()

    def epoch(self, number: int) -> Iterator[Pair]:
        """Row numbers and random numbers of each step."""
        orders = torch.stack([torch.cat([rows for rows, _ in one.epoch(number)]) for one in self.each], 1)
        for step, rows in enumerate(orders.split(self.each[0].sizes), start=number * self.steps):
            yield rows, self._noise(step, self.draws[len(rows)])

    def make(self, rows: Tensor, noise: Tensor) -> Pair:
        """Inputs and labels [member, sample, ...] of one step."""
        self.members.noise = noise
        return self.each[0].make(rows.T, noise)

    def share(self, rows: Tensor) -> float:
        """The mean over members is taken so many times that each one's loss counts once."""
        return float(len(self.each))

    def _noise(self, step: int, count: int) -> Tensor:
        """What each member would draw in this step if it learnt alone."""
        noise = torch.empty(len(self.seeds), count, dtype=self._dtype)
        if count:
            for row, seed in zip(noise, self.seeds, strict=True):
                row.uniform_(generator=self._generator.manual_seed(mix(seed, "step 0", step)))
        return noise.to(self.device)


class _Mean:
    """The mean loss of the members whose loss is finite, NaN where there is none; each gradient is its member's own."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.temperature = getattr(objective, "temperature", None)  # checkpoints keep it

    def __call__(self, members: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        losses = members(x, y)
        sound = torch.isfinite(losses)
        total = torch.where(sound, losses, 0.0).sum()
        learnt = total / len(losses)
        return learnt + (total / sound.sum() - learnt).detach()

    def step(self) -> None:
        """Move on whatever the objective has scheduled."""
        if hasattr(self.objective, "step"):
            self.objective.step()


def _check(
    nets: Sequence[nn.Module],
    training: Training,
    seeds: Sequence[int],
    alternations: Sequence[Alternation] | None,
) -> None:
    if not nets or len(seeds) != len(nets) or len(alternations or nets) != len(nets):
        raise ValueError(f"want a seed for each of {len(nets)} networks, and an alternation where one of them has one")
    reasons = {
        f"the optimizer {training.optimizer} looks at whole tensors": training.optimizer == "lars",
        "decay_vectors=False tells vectors from matrices": not training.decay_vectors,
        "rates= tells weights by name": bool(training.rates),
        "16-mixed scales the loss of all": training.precision == "16-mixed",
        "samples are augmented": bool(training.augment),
        "batches are repeated": training.repeat != 1,
    }
    for reason, true in reasons.items():
        if true:
            raise ValueError(f"networks cannot be trained side by side where {reason}")
