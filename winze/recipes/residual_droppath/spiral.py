"""The spiral: what residual MLPs show at every node, layer and epoch under three algorithms (figures 1 to 5).

    winze run residual_droppath/spiral --scale cpu               # minutes on one core
    winze run residual_droppath/spiral --scale gpu --jobs 4      # 1000 epochs
    winze run residual_droppath/spiral --scale paper --jobs 4    # the same at the paper's rate of .1

The paper looks at pictures of node maps and sees features that come back after several layers. Here its sentences are
numbers, read on a grid of 50 x 50 points: how often a layer is closer to one far before it than to those between, how
many maps are seen again, how much of the input each layer keeps. The paper does not say what a layer's features are,
so two readings are judged: the stream h after it, and the branch f that it adds. A run trains ten networks side by
side, each of its own seed, and each counts as one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from winze.data import load
from winze.lab import Claim, Recipe, Scale, at_least, higher
from winze.lab.bench import Bench
from winze.lab.members import together
from winze.lab.quantities import OverLooks, Whole, last
from winze.networks import SpiralMLP, build, describe
from winze.readings import Readings
from winze.recipes.residual_droppath.spiral_reading import (
    between,
    each_place,
    knowledge,
    pictures,
    recurring,
    scatter,
    tables,
)
from winze.report.blocks import block_diagrams
from winze.report.by_arm import depth_by_arm
from winze.report.distance_maps import distance_maps
from winze.report.node_maps import maps_over_training, node_maps, sample_points
from winze.shape import Alternation, DropPath, ResidualDropPath, Rule
from winze.train import Training, fit_side_by_side
from winze.train.members import spread
from winze.train.seeds import mix, seed_all

RULES: dict[str, Rule | None] = {
    "standard": None,
    "droppath": DropPath(),
    "ours": ResidualDropPath(),
    "weights": ResidualDropPath(frozen="weights"),
}
NAMES = {"standard": "plain training", "droppath": "drop path", "ours": "ResidualDroppath"}
SMALL, DEEP = "6x6", "32x32"
READINGS = {"": "streams", "_branches": "branches"}
SEEN_OFTEN, SEEN_BACK, KEPT, LEARNT = 0.1, 0.05, 0.9, 0.95
OURS = "the paper shows pictures: the number and its bound are ours"
CHANCE = f"{OURS}; layers in no order at all would show .90"


@dataclass(frozen=True)
class Spirals:
    """Networks of one make that learn the spiral side by side: how many, and after which epochs they are read.

    Of ten a run, run 0 has the networks 0 to 9, run 1 those from 10 to 19. The last epoch is always read. With `drawn`
    what the maps of the first one are drawn from is kept.
    """

    network: str
    training: Training
    rule: Rule | None = None
    side_by_side: int = 10
    looks: tuple[int, ...] = ()
    drawn: bool = True
    limit: int | None = None


class Looks:
    """Keeps the weights of all members at some steps; checkpoints hold what it has seen."""

    def __init__(self, steps: set[int]) -> None:
        self.steps, self.weights = steps, dict[int, Tensor]()

    def __call__(self, members: nn.Module, step: int) -> None:
        if step in self.steps:
            self.weights[step] = next(members.parameters()).detach().to("cpu", copy=True)

    def state_dict(self) -> dict[str, Any]:
        return {"weights": dict(self.weights)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights = dict(state["weights"])


def work(config: Spirals, bench: Bench) -> None:
    """Train all networks at once, and read each as it was at every look."""
    data = load("spiral", limit=config.limit, download=False)
    numbers = range(bench.seed * config.side_by_side, (bench.seed + 1) * config.side_by_side)
    spec = describe(config.network, 2, config.rule)
    nets = {number: _built(spec, number) for number in numbers}
    batch = config.training.batch
    an_epoch = -(-len(data.train[1]) // batch)
    looks = Looks({an_epoch * epoch for epoch in (*config.looks, config.training.epochs)})
    staged = config.rule is not None and config.rule.staged
    fit_side_by_side(
        list(nets.values()),
        data.train,
        config.training,
        seeds=[mix(number, "train") for number in numbers],
        alternations=[Alternation(net, 1, batch, mix(n, "alternation")) for n, net in nets.items()] if staged else None,
        by=bench.train,
        watch=looks,
    )
    if not bench.writes:
        return
    found = {number: Readings(conventions={"data": "spiral", "network": config.network}) for number in numbers}
    first, end = numbers[0], max(looks.weights)
    for step, weights in sorted(looks.weights.items()):
        for (number, net), own in zip(nets.items(), weights, strict=True):
            spread(own, net.eval())
            found[number].rows += recurring(net, step)
        if config.drawn:
            found[first].arrays |= pictures(nets[first], step)
    for number, net in nets.items():
        found[number].rows += knowledge(net, data.test, end) + between(net, end) + each_place(net, end)
        bench.keep(net, spec, f"net-{number}")
    found[first].arrays |= tables(nets[first]) | (scatter(data.train) if config.drawn else {})
    bench.readings.extend(together(found))


def _built(spec: dict[str, Any], number: int) -> SpiralMLP:
    seed_all(mix(number, "work"))
    net = build(spec)
    assert isinstance(net, SpiralMLP)
    return net


def claims() -> tuple[Claim, ...]:
    """What the paper says of its figures, for each algorithm and both readings; and that ours does more of it."""
    deep = {f"{DEEP}_{short}": name for short, name in NAMES.items()}
    small = {f"{SMALL}_{short}": name for short, name in NAMES.items()}
    made = [
        Claim(
            f"{name} learns the spiral with {arm.split('_')[0]} nodes (95 % of test points)",
            at_least("accuracy", arm, LEARNT),
            paper="learns",
        )
        for arm, name in {**small, **deep}.items()
    ]
    for reading, what in READINGS.items():
        for arm, name in deep.items():
            made += [
                _seen(
                    f"with {name}, maps of {what} recur after several layers with others between (a tenth of them)",
                    f"recurring_maps{reading}", arm, SEEN_OFTEN, "figure 1",
                ),
                _seen(
                    f"with {name}, {what} are closer to one far before than to all between (a tenth of them)",
                    f"feature_reuse{reading}", arm, SEEN_OFTEN, "figure 3", CHANCE,
                ),
                _seen(
                    f"with {name}, the distance between {what} falls and rises again (5 % of its change is a fall)",
                    f"non_monotonicity{reading}", arm, SEEN_BACK, "figure 3",
                ),
            ]  # fmt: skip
        made += [
            _seen(
                f"with {name}, maps of {what} recur during all of training (a tenth of them at every look)",
                f"recurring_through_training{reading}", arm, SEEN_OFTEN, "figure 4",
            )
            for arm, name in small.items()
        ]  # fmt: skip
        for quantity, more in (("recurring_maps", "more maps recur"), ("feature_reuse", "more layers come back")):
            made += [
                Claim(
                    f"with ResidualDroppath {more} than with {NAMES[other]} ({what})",
                    higher(f"{quantity}{reading}", f"{DEEP}_ours", than=f"{DEEP}_{other}"),
                    paper="reuses features",
                    departure=OURS,
                )
                for other in ("standard", "droppath")
            ]
    for size, arms in ((SMALL, small), (DEEP, deep)):
        made += [
            _seen(
                f"with {name}, the last of {size} layers keeps the input (90 % of its variance, linearly)",
                "input_kept", arm, KEPT, "information is kept",
            )
            for arm, name in arms.items()
        ]  # fmt: skip
        made.append(
            Claim(
                f"ResidualDroppath keeps more of the input than plain training ({size})",
                higher("input_kept", f"{size}_ours", than=f"{size}_standard"),
                paper="information is kept",
                departure=OURS,
            )
        )
    return tuple(made)


def _seen(text: str, quantity: str, arm: str, least: float, paper: str, departure: str = OURS) -> Claim:
    return Claim(text, at_least(quantity, arm, least), paper=paper, departure=departure)


ARMS: dict[str, dict[str, Any]] = {
    f"{size}_{short}": {"network": f"winze/spiral{size}", "rule": rule, "drawn": short in ("standard", "ours")}
    for size in (SMALL, DEEP)
    for short, rule in RULES.items()
}
PAPER = Training(epochs=1000, batch=256, optimizer="adamw", lr=0.1, checkpoint_every=50)
WHOLE = Spirals(f"winze/spiral{SMALL}", PAPER)
LOOKS = (1, 30)


def _deep(**fields: Any) -> dict[str, dict[str, Any]]:
    """Fields that only the deep networks have."""
    return {arm: fields for arm in ARMS if arm.startswith(DEEP)}


recipe = Recipe(
    name="residual_droppath/spiral",
    system="S1",
    shows="node maps of residual MLPs on a spiral: what comes back after several layers, and what is kept of the input",
    paper="ResidualDroppath: Enhancing Feature Reuse over Residual Connections",
    url="https://arxiv.org/abs/2411.09475",
    arms=ARMS,
    scales={
        "smoke": Scale(
            replace(WHOLE, training=replace(PAPER, epochs=2, lr=0.01), side_by_side=2, limit=1024),
            seeds=(0,),
            arms=tuple(f"{SMALL}_{short}" for short in NAMES),
            departures=("2 epochs on 1024 points at a rate of .01", "2 networks an arm, 6 layers of 6 nodes only"),
        ),
        "cpu": Scale(
            replace(WHOLE, training=replace(PAPER, epochs=30, lr=0.01, checkpoint_every=5), looks=(1, 5)),
            seeds=(0,),
            changes=_deep(**{"training.epochs": 10, "training.lr": 1e-3, "looks": ()}),
            departures=(
                "30 epochs at a rate of .01 for 6 layers, 10 at .001 for 32, instead of 1000 at .1",
            ),
        ),
        "gpu": Scale(
            replace(WHOLE, training=replace(PAPER, lr=0.01), looks=LOOKS),
            seeds=(0,),
            changes=_deep(**{"training.lr": 1e-3, "looks": ()}),
            departures=("a rate of .01 for 6 layers and .001 for 32 instead of .1",),
        ),
        "paper": Scale(
            replace(WHOLE, looks=LOOKS),
            seeds=(0,),
            changes=_deep(looks=()),
            departures=(
                "at this constant learning rate 37 of 40 networks of 32 layers end with a test loss above guessing, so "
                "most of their maps are those of networks that have not learnt the spiral",
            ),
        ),
    },
    work=work,
    quantities={
        "accuracy": Whole("accuracy"),
        "lost": Whole("lost"),
        **{f"recurring_maps{reading}": Whole(f"recurring_maps{reading}") for reading in READINGS},
        **{
            f"{name}{reading}": Whole(f"{name}{reading}")
            for name in ("feature_reuse", "non_monotonicity")
            for reading in ("", "_normalised", "_branches")
        },
        **{
            f"recurring_through_training{reading}": OverLooks(f"recurring_maps{reading}", np.min)
            for reading in READINGS
        },
        "input_kept": last("input_reconstruction"),
        "input_alike": last("cka_to_input"),
        "alike_nodes": Whole("alike_share"),
        "node_groups_at_the_end": last("alike_groups"),
    },
    claims=claims(),
    departures=(
        "the paper does not say how its MLP is wired: here h + gelu(W h + b), after a linear layer from 2 to H nodes",
        "the paper cites Adam, AdamW and NAdam: here AdamW without weight decay; drop rate .1, linear over depth",
        "10 networks an arm, each with its own start, order of data and masks; the points are the same for all",
        "what is claimed from pictures is judged by numbers on a grid of 50 x 50 points, whose bounds are ours",
    ),
    measures=(
        "accuracy", "lost", "feature_reuse*", "non_monotonicity*", "recurring_maps*", "cka_to_input",
        "input_reconstruction", "alike_*", "maps*", "weights*", "points*", "distances*",
    ),
    figures={
        "Blocks": block_diagrams,
        "Spiral": sample_points,
        **{f"Node maps, {arm}": partial(node_maps, arm=arm) for arm in (f"{DEEP}_standard", f"{DEEP}_ours")},
        "Distances between layers": distance_maps,
        **{
            f"Node maps over training, {arm}": partial(maps_over_training, arm=arm)
            for arm in (f"{SMALL}_standard", f"{SMALL}_ours")
        },
        "What each layer keeps of the input": partial(depth_by_arm, measure="input_reconstruction"),
        "How like the input each layer is": partial(depth_by_arm, measure="cka_to_input"),
        "Groups of nodes with similar maps": partial(depth_by_arm, measure="alike_groups"),
    },
)  # fmt: skip
