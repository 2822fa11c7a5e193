"""How similar the layers are: CKA and mean L1 distances between all pairs (figures 5.2.3 and 5.12.1).

    winze run tunnel/similarity --scale cpu    # MLP-8 on digits, 4 run-minutes
    winze run tunnel/similarity --scale gpu    # MLP-12, VGG-19 and ResNet-34 on CIFAR-10, 3 seeds, 32 run-minutes

CKA is the unbiased one of minibatches. The L1 distance of two layers of one width p is the mean over samples of
‖h_i - h_j‖₁ / p; it is read of MLPs, whose layers are equally wide. In these numbers the tunnel is the last two thirds
of the hidden layers: layers 5 to 12 of MLP-12, as in the thesis. The maps mark where probes find its start.
"""

import numpy as np

from winze.lab import Axis, Claim, Data, Network, Question, Reading, Recipe, Scale, at_least, at_most
from winze.lab.claims.quantities import OverMatrix
from winze.readings import Array
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._work import Likeness, read_distances
from winze.report.experiment import of_scans
from winze.report.scan.cka_map import cka_map, distance_map
from winze.train import Epochs


def within_over_across(matrix: Array) -> float:
    """How much more similar layers of the last two thirds are to each other than to those of the first."""
    late = matrix[_third(matrix) :, _third(matrix) :]
    return float(late[np.triu_indices(len(late), 1)].mean() - matrix[_third(matrix) :, : _third(matrix)].mean())


def late_over_early(matrix: Array) -> float:
    """The mean step from layer to layer in the last two thirds, over that in the first."""
    steps = np.diagonal(matrix, 1)
    return float(steps[_third(matrix) - 1 :].mean() / steps[: _third(matrix) - 1].mean())


def _third(matrix: Array) -> int:
    return max(2, len(matrix) // 3)


reading = Reading(measures=("probe", "rank", "cka"))
networks: use.Settings = {"mlp8": {}} | {
    name: {**one, "distances": name[0] == "m"} for name, one in use.NETWORKS.items()
}
large = {"network": tuple(use.NETWORKS)}
cpu = Scale(
    {"data.name": "digits"},
    axes={"network": ("mlp8",)},
    seeds=5,
    departures=("MLP-8 of 256 units, momentum 0.9, learning rate 0.03, 150 epochs on digits",),
)
recipe = Recipe(
    "tunnel/similarity",
    **use.scanned("cka", "l1"),
    shows="the layers of the tunnel are similar to each other",
    study=Likeness(Network("winze/mlp8x256"), Data("cifar10"), use.SMALL, reading, distances=True),
    axes={"network": Axis("", networks)},
    scales=use.scales(
        cpu,
        Scale(
            use.GRID,
            axes=large,
            seeds=3,
            at=(
                ({"network": "mlp12"}, {"training.length": Epochs(60), "reading.pool": "flatten"}),
                ({"network": "vgg19"}, {"training": use.gentle(use.VGG, 16)}),
                ({"network": "resnet34"}, {"training": use.gentle(use.RESNET, 16), "reading.pool": use.POOLED}),
            ),
            departures=(use.GENTLE, use.ON_GRID, "60 epochs of MLP-12, 16 of the others, in bf16"),
        ),
        Scale(use.FLAT, axes=large, seeds=3),
    ),
    work=read_distances,
    claims=(
        Claim(
            "layers of the tunnel are more similar to each other than to the extractor (mean CKA, by 0.1 or more)",
            "figs. 5.2.3 and 5.12.1",
            at_least(OverMatrix("cka", within_over_across).named("CKA in the tunnel above that to the extractor"), 0.1),
            each="network",
            paper="bright block",
            departure="the thesis shows maps alone, of ResNets perhaps of 18 layers; ours are of blocks",
            post_hoc="the margin is ours; the cell of ResNet-34 was added after its readings were seen",
        ),
    ),
    questions=(
        Question(
            "do features change less from layer to layer in the tunnel (less than half as far in L1)?",
            at_most(OverMatrix("l1", late_over_early).named("L1 step in the tunnel over that in the extractor"), 0.5),
            each="network",
            only=("mlp8", "mlp12"),
            paper="small in the tunnel",
        ),
    ),
    figures=(
        of_scans("CKA", cka_map),
        of_scans("L1 distance", distance_map, said="mean L1 distance per feature"),
    ),
)
