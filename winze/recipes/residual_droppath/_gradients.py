"""How far the gradients of ResidualDroppath's stages lie from the true one, for the stem and for every branch."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal

import torch
from torch import Tensor, nn

from winze.lab import Bench, Prepared, Study, learn, prepare, store_curve
from winze.lab.study import steps_of
from winze.measure import Value, missing
from winze.place import Place
from winze.shape import Alternation, ResidualDropPath, Rule, Standard, rewire
from winze.shape.branch import Branch, Shortcut
from winze.shape.find import wired
from winze.shape.junction import Junction
from winze.shape.rules.masks import draw_keep, rate_at
from winze.train.objectives.base import Objective
from winze.train.seeds import generator, mix

Labelled = tuple[Tensor, Tensor]
STEM, LETTER = "stem", ResidualDropPath(compute="dense")  # Algorithm 1 to the letter


@dataclass(frozen=True)
class Mechanism(Study):
    """A study whose network is read at some shares of its training: gradients of `measured` against the true ones.

    Weights come from a training with Standard, so that all readings of the algorithm are compared at the same weights,
    or from one with the measured rule `itself`. `draws` masks are drawn per part of the network and batch of `samples`.
    """

    measured: Rule = LETTER
    trained: Literal["standard", "itself"] = "standard"
    looks: tuple[float, ...] = (0.0, 0.2, 1.0)
    samples: int = 128
    batches: int = 1
    draws: int = 4


@dataclass(frozen=True)
class Averaged(Rule):
    """Stage 2 with frozen branch outputs, averaged over all masks: drop rate p is the share of the branch's gradient.

        y = x + p f(x) + (1 - p) sg[f(x)]

    The gradient is linear in each mask and masks are independent, so this is exact, per sample and per batch.
    """

    rate: float = 0.1
    profile: str = "linear"

    def join(self, place: Place, shortcut: Shortcut, branch: Branch) -> Tensor:
        value, rate = branch(), rate_at(self.rate, self.profile, place) or 1.0  # at a rate of 0 nothing is frozen
        still = value.detach()
        return branch.onto(shortcut(), still + rate * (value - still))


def averaged(rule: ResidualDropPath) -> Rule:
    """A rule whose gradients point where those of stage 2 point on average; with frozen weights, that is Standard."""
    return Standard() if rule.frozen == "weights" else Averaged(rule.rate, rule.profile)


class StatesSeen:
    """Keeps the weights and buffers of a network at some steps; checkpoints hold what it has seen."""

    def __init__(self, steps: Iterable[int]) -> None:
        self.steps, self.states = set(steps), dict[int, dict[str, Tensor]]()

    def __call__(self, net: nn.Module, step: int) -> None:
        if step in self.steps:
            self.states[step] = {name: one.detach().to("cpu", copy=True) for name, one in net.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"states": dict(self.states)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.states = dict(state["states"])


class Gradients:
    """Gradients of one network with the Standard rule, in both stages of `rule`, and in stage 2 averaged over masks."""

    def __init__(self, net: nn.Module, rule: ResidualDropPath, example: Tensor, where: str | None = None) -> None:
        one: dict[str, Any] = {"where": where, "example": example}
        self.plain = rewire(deepcopy(net), Standard(), **one).train()
        self.mean = rewire(deepcopy(net), averaged(rule), **one).train()
        self.staged = rewire(deepcopy(net), rule, **one).train()
        self.rule, self.seats = rule, [junction.seat for junction in wired(self.staged) if junction.rule.staged]
        self.parts = parts_of(self.staged)
        self._alternation = Alternation(self.staged, rows=len(example))

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take other weights and buffers."""
        for net in (self.plain, self.mean, self.staged):
            net.load_state_dict(state)

    def of(self, net: nn.Module, objective: Objective, batch: Labelled, parts: Iterable[str]) -> list[Tensor]:
        """The gradient of each part as one vector in float64."""
        weights = dict(net.named_parameters())
        groups = [[weights[name] for name in self.parts[part]] for part in parts]
        loss: Any = objective(net, *batch)
        found = iter(torch.autograd.grad(loss, [w for group in groups for w in group], materialize_grads=True))
        return [torch.cat([next(found).flatten().double() for _ in group]) for group in groups]

    def stage(self, stage: int, table: Tensor, *rest: Any) -> list[Tensor]:
        """The gradients of a stage with a table [junction, sample] of masks, True where the branch is kept."""
        told = {"stage": stage, "table": table, "rows": table.shape[1]}
        self._alternation.load_state_dict(self._alternation.state_dict() | told)
        return self.of(self.staged, *rest)

    def draw(self, rows: int, by: torch.Generator, learns: str | None = None) -> Tensor:
        """Masks as an `Alternation` draws them; with `learns`, those with which that branch drops anything at all."""
        rates = [rate_at(self.rule.rate, self.rule.profile, seat) for seat in self.seats]
        drawn = [self._row(rate, rows, by) for rate in rates]
        for spot, (seat, rate) in enumerate(zip(self.seats, rates, strict=True)):
            while seat.name == learns and rate and bool(drawn[spot].all()):
                drawn[spot] = self._row(rate, rows, by)
        return torch.stack(drawn)

    def _row(self, rate: float, rows: int, by: torch.Generator) -> Tensor:
        coins = 1 if self.rule.mask == "batch" else rows
        return draw_keep(rate, coins, self.rule.draw, generator=by).expand(rows)

    def cosines(self, objective: Objective, batch: Labelled, draws: int, by: torch.Generator) -> dict[str, list[Value]]:
        """Cosines to the true gradient, one per part.

        `stage2`: mean over masks with which the part learns; `stage2_mean`: of the gradient averaged over all masks;
        `pair`: mean over masks of both stages together; `pair_mean`: of both stages together, averaged over the draws.
        """
        every, rows, asked = list(self.parts), len(batch[1]), (objective, batch)
        true = self.of(self.plain, *asked, every)
        mean = self.of(self.mean, *asked, every)
        pairs, alone = list[list[Tensor]](), list[Value]()
        for _ in range(draws):
            table = self.draw(rows, by)
            stages = [self.stage(stage, table, *asked, every) for stage in (1, 2)]
            pairs.append([first + second for first, second in zip(*stages, strict=True)])
        for spot, part in enumerate(every):
            tables = [self.draw(rows, by, part) for _ in range(draws)]
            found = [self.stage(2, table, *asked, [part])[0] for table in tables]
            alone.append(average(cosine(one, true[spot]) for one in found))
        spots = range(len(every))
        return {
            "stage2": alone,
            "stage2_mean": [cosine(mean[spot], true[spot]) for spot in spots],
            "pair": [average(cosine(pair[spot], true[spot]) for pair in pairs) for spot in spots],
            "pair_mean": [cosine(torch.stack([pair[spot] for pair in pairs]).mean(0), true[spot]) for spot in spots],
        }


def parts_of(net: nn.Module) -> dict[str, list[str]]:
    """Names of the parameters of the stem, all before the first branch, and of each branch that carries a rule."""
    names = {one: name for name, one in net.named_parameters()}
    staged = [junction for junction in wired(net) if junction.rule.staged]
    branches = {one.seat.name: [names[weight] for weight in branch_parameters(one)] for one in staged}
    first, order = set(next(iter(branches.values()))), list(names.values())
    return {STEM: order[: min(order.index(name) for name in first)], **branches}


def branch_parameters(junction: Junction) -> list[nn.Parameter]:
    """The parameters of a junction's branch, in a network of winze or in another."""
    slots = getattr(junction, "slots", None)
    found = list(junction.branch.parameters()) if slots is None else [owner._parameters[name] for owner, name in slots]
    return [one for one in dict.fromkeys(found) if one is not None]


def cosine(one: Tensor, other: Tensor) -> Value:
    """The cosine of the angle between two vectors; of a vector of zeros, NaN."""
    norms = float(one.norm()) * float(other.norm())
    return Value(float(one @ other) / norms) if norms else missing("a gradient is zero")


def average(values: Iterable[Value]) -> Value:
    """The mean of those values that are numbers."""
    known = [value for value in values if value == value]
    return Value(fmean(known)) if known else missing("every gradient is zero")


def work(study: Mechanism, bench: Bench) -> None:
    """Train one network, and compare gradients at its weights at every look."""
    rule = study.measured
    assert isinstance(rule, ResidualDropPath)
    itself = study.trained == "itself"
    prepared = prepare(replace(study, network=replace(study.network, rule=rule if itself else None)), bench)
    total = steps_of(study.training.length, len(prepared.dataset.train_labels), study.training)
    seen = StatesSeen(round(total * share) for share in study.looks)
    seen(prepared.net, 0)
    learn(prepared, bench, followers=[seen], shared=None if itself else ["looks", *map(str, sorted(seen.steps))])
    store_curve(prepared, bench)
    if bench.writes:
        read_gradients(prepared, rule, seen, bench)


def read_gradients(prepared: Prepared, rule: ResidualDropPath, seen: StatesSeen, bench: Bench) -> None:
    """Add the cosines at every look to the readings."""
    study: Any = prepared.study
    batches = list(_batches(prepared, bench))
    gradients = Gradients(prepared.net, rule, batches[0][0], study.network.where)
    places = [Place(index, len(gradients.parts), name) for index, name in enumerate(gradients.parts)]
    many = study.batches * study.draws
    for step, state in sorted(seen.states.items()):
        gradients.load(state)
        by = generator("cpu", bench.seed, "masks", step)
        found = [gradients.cosines(prepared.objective, batch, study.draws, by) for batch in batches]
        for name in found[0]:
            told: dict[str, Any] = {"data": study.data.name, "split": "train", "step": step, "n": many}
            values = [average(one[name][place.index] for one in found) for place in places]
            for place, value in zip(places, values, strict=True):
                bench.readings.add(f"{name}_cosine", value, place=place, note=value.note, **told)
            bench.readings.add(f"{name}_cosine_branches", average(values[1:]), **told)
    bench.readings.declare(
        network=study.network.name, data=study.data.name, layers={"block": list(range(len(places)))},
        notes=list(prepared.dataset.notes),
    )  # fmt: skip


def _batches(prepared: Prepared, bench: Bench) -> Iterable[Labelled]:
    """Training images in random order, without augmentation."""
    study: Any = prepared.study
    images, labels = prepared.dataset.train
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(mix(bench.seed, "gradients")))
    for rows in order[: study.batches * study.samples].split(study.samples):
        yield prepared.fed(images[rows]), labels[rows].to(bench.device)
