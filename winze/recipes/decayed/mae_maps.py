"""What masked autoencoders with decayed shortcuts see (Zhang et al., 2024, arXiv 2404.10947, fig. 1, 3, 4 and 6).

    winze run decayed/mae_maps --scale cpu             # digits, 2 points x 3 seeds, minutes on one core
    winze run decayed/mae_maps --scale gpu --jobs 6    # CIFAR-10 and Tiny-ImageNet, 400 epochs on an H200

t-SNE of class tokens, maps of the last block's patch tokens in the colours of three eigenvectors, and reconstructions
side by side. The loss is the squared error of plain pixels, as in the paper's reconstructions.
"""

from dataclasses import replace

from winze.lab import Axis, LastLook, Recipe, Whole, higher, lower
from winze.recipes.decayed import _mae as use
from winze.recipes.decayed._mae import DECAYED, PLAIN
from winze.recipes.decayed._maps import maps, plane, reconstructions, work
from winze.report.experiment import over_setting
from winze.train.objectives.reconstruct import MaskedReconstruct

pixels = replace(use.study, training=replace(use.study.training, objective=MaskedReconstruct(normalised=False)))
shown = "ten classes are the first ten; maps and reconstructions are of the first test images"
stored = (*use.MEASURES, "silhouette", "embedding/*", "map*", "reconstructions")

recipe = Recipe(
    "decayed/mae_maps",
    **use.about("fig. 1, 3, 4 and 6", study=pixels, work=work, departures=(*use.DEPARTURES, shown), measures=stored),
    shows="class tokens of decayed encoders form separate clusters, and images are reconstructed alike",
    axes={"data": use.DATA, "alpha": Axis("network.rule.alpha_min", (1.0, 0.6))},
    scales=use.scales({"data": ("digits",)}, {"data": ("cifar10", "tinyimagenet100")}, protocols=()),
    claims=(
        use.claim(
            "classes lie further apart in the class tokens of a decayed encoder",
            "fig. 3: clusters of the baseline merge",
            higher("silhouette", DECAYED, than=PLAIN),
            departure="clusters are judged by the mean silhouette of the features, not of their t-SNE",
        ),
    ),
    questions=(
        use.question(
            "do decayed shortcuts lower the error of reconstructions?",
            lower(LastLook("reconstruction"), DECAYED, than=PLAIN),
        ),
    ),
    quantities={"silhouette": Whole("silhouette")},
    figures=(plane, maps, reconstructions, over_setting("silhouette", x="alpha", panel="data")),
)
