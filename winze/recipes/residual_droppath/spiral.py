"""The spiral: node maps of residual MLPs at every layer and epoch under three algorithms (figures 1 to 4).

    winze run residual_droppath/spiral --scale cpu               # 7 minutes on one core
    winze run residual_droppath/spiral --scale gpu --jobs 4      # 1000 epochs at learning rates that train
    winze run residual_droppath/spiral --scale paper --jobs 4    # the same at the paper's 0.1, 70 minutes of an H200

The paper shows maps of nodes and describes features that recur after several layers. Here its sentences are numbers on
a grid of 50 x 50 points. What a layer's features are is left open, so two readings are judged: the stream h after the
layer, and the branch f that the layer adds. A run trains an ensemble of ten networks; each counts as one seed.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from winze.lab import Axis, Claim, Data, Network, Question, Recipe, Scale, at_least, higher, several
from winze.lab.claims.claim import Several
from winze.lab.claims.quantities import DuringTraining, RunNumber, Whole, last
from winze.recipes.residual_droppath._settings import ABOUT, PAPER
from winze.recipes.residual_droppath._spiral import Spirals, work
from winze.report.experiment import over_depth
from winze.report.experiment.node_maps import distance_tables, node_maps, sample_points
from winze.shape import DropPath, ResidualDropPath
from winze.train import AdamW, Epochs, Training

RULES = {"standard": None, "droppath": DropPath(), "output_sample": ResidualDropPath(),
         "weights_sample": ResidualDropPath(frozen="weights")}  # fmt: skip
OURS, FEATURES = {"algorithm": "output_sample"}, {"streams": "", "branches": "_branches"}


def lowest(measure: str) -> RunNumber:
    """The lowest value of all looks at a network."""
    return DuringTraining(measure, np.min).named(f"lowest {measure} during training")


def both(measure: str, check: Any, number: Callable[[str], RunNumber] = Whole, **more: Any) -> Several:
    """A check of streams, and one of branches."""
    return several("features", {name: check(number(f"{measure}{end}"), **more) for name, end in FEATURES.items()})


adam = Training(Epochs(1000), batch=256, optimizer=AdamW(0.1), checkpoint=Epochs(50))
long, deep = {"training.optimizer.lr": 0.01, "looks": (1, 30)}, {"size": "32x32"}
kept = last("input_reconstruction").named("share of the input's variance")
drawn = ("standard", "output_sample")
shown = {"departure": "the paper shows images: the number and its bound are ours"}
three: dict[str, Any] = {"each": "algorithm", "only": ("standard", "droppath", "output_sample"), **shown}
each = {"each": ("size", "algorithm"), "only": [(size, name) for size in ("6x6", "32x32") for name in three["only"]]}

recipe = Recipe(
    "residual_droppath/spiral", **ABOUT, paper=f"{PAPER}, figures 1 to 4",
    shows="node maps of residual MLPs on a spiral: what recurs after several layers, and what is kept of the input",
    study=Spirals(Network("winze/spiral6x6"), Data("spiral"), adam),
    axes={
        "size": Axis("network.name", {size: f"winze/spiral{size}" for size in ("6x6", "32x32")}),
        "algorithm": Axis("", {name: {"network.rule": rule, "drawn": name in drawn} for name, rule in RULES.items()}),
    },
    scales={
        "smoke": Scale(
            {"training.length": Epochs(2), "training.optimizer.lr": 0.01, "networks": 2, "data.limit": 1024},
            {"size": ("6x6",), "algorithm": three["only"]},
            departures=("2 networks of 6 layers of 6 nodes, 2 epochs on 1024 points at a learning rate of 0.01",)),
        "cpu": Scale(
            long | {"training.length": Epochs(30), "training.checkpoint": Epochs(5), "looks": (1, 5)},
            at=((deep, {"training.length": Epochs(10), "training.optimizer.lr": 1e-3, "looks": ()}),),
            departures=("30 epochs at a learning rate of 0.01 for 6 layers, 10 at 0.001 for 32, not 1000 at 0.1",)),
        "gpu": Scale(long, at=((deep, {"training.optimizer.lr": 1e-3, "looks": ()}),),
                     departures=("learning rates of 0.01 for 6 layers and 0.001 for 32, not 0.1",)),
        "paper": Scale({"looks": (1, 30)}, at=((deep, {"looks": ()}),), departures=(
            "at this constant learning rate 37 of 40 networks of 32 layers end with a test loss above guessing; those "
            "below 75 % accuracy count as failed, a bound that was set after these readings were seen",)),
    },
    work=work,
    learned=("accuracy", 0.75),  # halfway between guessing and the truth
    claims=(
        Claim("similar maps recur after several layers with different ones between (a tenth of all maps)", "fig. 1",
              both("recurring_maps", at_least, value=0.1), at=deep, **three),
        Claim("the distance between layers falls and rises again (5 % of its change is a fall)", "fig. 3",
              both("non_monotonicity", at_least, value=0.05), at=deep, **three),
        Claim("similar maps recur during all of training (a tenth of all maps at every look)", "fig. 4",
              both("recurring_maps", at_least, lowest, value=0.1), at={"size": "6x6"}, **three),
        Claim("the last layer keeps the information of the input (90 % of its variance, linearly)", "section 3",
              at_least(kept, 0.9), **each, **shown),
        *(Claim(f"with ResidualDroppath more maps recur than with {name.capitalize()}", "conclusion",
                both("recurring_maps", higher, at=OURS, than={"algorithm": name}),
                at=deep, **shown) for name in ("standard", "droppath")),
    ),
    questions=(
        Question("Is a layer closer to one far before it than to all between (a tenth of the layers)?",
                 both("feature_reuse", at_least, value=0.1), at=deep, each="algorithm",
                 only=three["only"], departure="layers in random order would show 0.90"),
        *(Question(f"Do more layers come back to an earlier one with ResidualDroppath than with {name.capitalize()}?",
                   both("feature_reuse", higher, at=OURS, than={"algorithm": name}),
                   at=deep) for name in ("standard", "droppath")),
        Question("Does ResidualDroppath keep more of the input than Standard?",
                 higher(kept, OURS, than={"algorithm": "standard"}), each="size"),
    ),
    figures=(
        sample_points("Spiral"),
        *(node_maps({"algorithm": name, **deep}, f"Node maps, 32x32, {name.replace('_', ' ')}") for name in drawn),
        distance_tables("algorithm", deep, "Distances between layers"),
        *(node_maps({"algorithm": name, "size": "6x6"}, f"Node maps over training, 6x6, {name.replace('_', ' ')}", True)
          for name in drawn),
        *(over_depth(measure, colour="algorithm", panel="size", across="stream, from h₀ on")
          for measure in ("input_reconstruction", "cka_to_input", "alike_groups")),
    ),
    departures=(
        "the paper does not say how its MLP is wired: here h + gelu(W h + b), after a linear layer from 2 to H nodes",
        "the paper cites Adam, AdamW and NAdam: here AdamW without weight decay; drop rate 0.1, linear over depth",
        "each network has its own start, order of data and masks; the points are the same for all",
    ),
    measures=("accuracy", "lost", "feature_reuse*", "non_monotonicity*", "recurring_maps*", "cka_to_input",
              "input_reconstruction", "alike_*", "maps*", "weights*", "points*", "distances*"),
)  # fmt: skip
