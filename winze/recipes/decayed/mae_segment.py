"""Unsupervised segmentation by the patch tokens of masked autoencoders (Zhang et al., 2024, arXiv 2404.10947, fig. 4).

    winze run decayed/mae_segment --scale cpu                                      # digits: ink against background
    winze run decayed/mae_segment --scale gpu --jobs 6 --set masks=FOLDER          # FOLDER/images and FOLDER/masks

Patch tokens of the last block are clustered by k-means into as many clusters as there are classes; clusters and classes
are matched one to one, and the mean intersection over union is reported.
"""

from __future__ import annotations

from dataclasses import fields, replace

from winze.lab import Axis, Claim, Data, Recipe, higher
from winze.lab.claims.quantities import Whole
from winze.recipes.decayed import _mae as use
from winze.recipes.decayed._segment import Segmented, work
from winze.report.experiment import over_setting

own = {"data": Data("tinyimagenet100", size=64), "network": replace(use.study.network, name="winze/mae_64")}
segmented = Segmented(**{one.name: getattr(use.study, one.name) for one in fields(use.study)} | own)
on_digits = "on digits, classes are pixels brighter and darker than the mean of their image"

recipe = Recipe(
    "decayed/mae_segment",
    **use.about("fig. 4", study=segmented, work=work, departures=(*use.DEPARTURES, on_digits))
    | {"measures": (*use.MEASURES, "segment_iou")},
    shows="patch tokens of a decayed encoder group pixels by class",
    axes={"alpha": Axis("network.rule.alpha_min", (1.0, 0.7))},
    scales=use.scales(masks="ink", protocols=()),
    claims=(
        Claim(
            "alpha_min = 0.7 raises the mean IoU of unsupervised segmentation",
            "section 4, COCO: 4.10 to 10.41",
            higher("segment_iou", {"alpha": 0.7}, than={"alpha": 1.0}),
            paper="+6.31 points",
        ),
    ),
    quantities={"segment_iou": Whole("segment_iou")},
    figures=(over_setting("segment_iou", x="alpha"),),
)
