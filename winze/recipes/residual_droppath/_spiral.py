"""An ensemble that is trained on the spiral and read at some epochs."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from winze.data import load
from winze.lab import Bench, Study
from winze.measure import distances
from winze.networks import build, describe
from winze.recipes.residual_droppath._reading import branches, grid, pictures, read_end, read_maps, streams
from winze.shape import Alternation
from winze.train import Epochs, fit_ensemble
from winze.train.ensemble import spread
from winze.train.seeds import mix, seed_all

SHOWN = 400  # training points in a figure


@dataclass(frozen=True)
class Spirals(Study):
    """An ensemble on the spiral: how many networks, after which epochs they are read besides the last.

    Of ten per run, run 0 has networks 0 to 9, run 1 those from 10 on. With `drawn` the maps of the first are kept.
    """

    networks: int = 10
    looks: tuple[int, ...] = ()
    drawn: bool = True


class Looks:
    """Keeps the weights of all networks at some steps; checkpoints hold what it has seen."""

    def __init__(self, steps: set[int]) -> None:
        self.steps, self.weights = steps, dict[int, Tensor]()

    def __call__(self, ensemble: nn.Module, step: int) -> None:
        if step in self.steps:
            self.weights[step] = next(ensemble.parameters()).detach().to("cpu", copy=True)

    def state_dict(self) -> dict[str, Any]:
        return {"weights": dict(self.weights)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights = dict(state["weights"])


def work(study: Spirals, bench: Bench) -> None:
    """Train all networks at once, and read each as it was at every look."""
    data, training, rule = load("spiral", limit=study.data.limit, download=False), study.training, study.network.rule
    numbers = range(bench.seed * study.networks, (bench.seed + 1) * study.networks)
    spec, nets = describe(study.network.name, 2, rule), dict[int, Any]()
    for number in numbers:
        seed_all(mix(number, "work"))
        nets[number] = build(spec)
    per_epoch = -(-len(data.train[1]) // training.batch)
    looks = Looks({one.steps(per_epoch) for one in (*map(Epochs, study.looks), training.length)})
    staged = nets if rule is not None and rule.staged else {}
    stages = [Alternation(net, 1, training.batch, mix(number, "alternation")) for number, net in staged.items()]
    fit_ensemble(
        list(nets.values()),
        data.train,
        training,
        seeds=[mix(number, "train") for number in numbers],
        alternations=stages or None,
        by=bench.train,
        followers={"looks": looks},
    )
    if not bench.writes:
        return
    first = bench.readings_of(numbers[0])
    for step, weights in sorted(looks.weights.items()):
        for (number, net), own in zip(nets.items(), weights, strict=True):
            spread(own, net.eval())
            read_maps(net, step, bench.readings_of(number))
        first.arrays |= pictures(nets[numbers[0]], step) if study.drawn else {}
    for number, net in nets.items():
        read_end(net, data.test, max(looks.weights), bench.readings_of(number))
        bench.readings_of(number).declare(data="spiral", network=study.network.name)
        bench.keep(net, spec, f"net-{number}")
    seen = streams(nets[numbers[0]], grid())
    tables = {"distances": distances(seen), "distances_branches": distances(branches(seen))}
    points = {"points": data.train[0][:SHOWN].half(), "points_labels": data.train[1][:SHOWN].to(torch.uint8)}
    first.arrays |= {name: table.half().numpy() for name, table in tables.items()}
    first.arrays |= {name: one.numpy() for name, one in points.items()} if study.drawn else {}
