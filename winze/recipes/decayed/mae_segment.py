"""Unsupervised segmentation by the patch tokens of masked autoencoders (Zhang et al., 2024, arXiv 2404.10947, fig. 4).

    winze run decayed/mae_segment --scale cpu                                      # digits: ink against background
    winze run decayed/mae_segment --scale gpu --jobs 6 --set masks=FOLDER          # FOLDER/images and FOLDER/masks

Patch tokens of the last block are clustered by k-means into as many clusters as there are classes; clusters and classes
are matched one to one, and the mean intersection over union is reported.
"""

from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.data import DataError, Preprocess
from winze.data.segmentation import load_segments
from winze.lab import Axis, Bench, Claim, Data, Prepared, Recipe, Whole, higher
from winze.measure.segments import IGNORED, clusters, matched_iou
from winze.recipes.decayed import _mae as use
from winze.report.experiment import over_setting

INK = "ink"
iou = Whole("segment_iou").named("mean IoU of segments")


@dataclass(frozen=True)
class Segmented(use.Masked):
    """A masked autoencoder whose patch tokens are clustered, and compared with the classes of pixels.

    `masks`: a folder with images/ and masks/ (see `load_segments`), or "ink" for the test images themselves, whose
    classes are bright and dark pixels. `most` bounds the number of images.
    """

    masks: str = "coco"
    most: int = 1000


def work(config: Segmented, bench: Bench) -> None:
    """Train one masked autoencoder, cluster the patch tokens of all images together, and match clusters and classes."""
    if config.masks != INK:  # what is wrong with a folder is said before hours of training
        _classes(load_segments(config.masks, config.data.size or 8)[1], config.masks)
    prepared = use.trained(config, bench)
    if not bench.writes:
        return
    images, truth = _segments(config, prepared)
    classes = _classes(truth, config.masks)
    assert prepared.preprocess is not None
    encoder = prepared.objective.view(prepared.net).eval()
    found = predicted_segments(encoder, prepared.preprocess, images, classes, bench.seed)
    value = matched_iou(found, truth.long(), classes)
    bench.readings.add("segment_iou", value, split="test", n=len(images), note=value.note)


def _classes(truth: Tensor, masks: str) -> int:
    """How many classes masks hold."""
    counted = truth[truth != IGNORED]
    if len(counted.unique()) < 2:
        raise DataError(f"{masks}: segmentation needs two classes or more, and all labelled pixels have the same one")
    return int(counted.max()) + 1


def _segments(config: Segmented, prepared: Prepared) -> tuple[Tensor, Tensor]:
    if config.masks != INK:
        images, truth = load_segments(config.masks, prepared.dataset.shape[1])
        return images[: config.most], truth[: config.most]
    images = prepared.dataset.test_images[: config.most]
    grey = images.float().mean(1)
    return images, (grey > grey.mean((1, 2), keepdim=True)).byte()


@torch.no_grad()
def predicted_segments(encoder: nn.Module, preprocess: Preprocess, images: Tensor, classes: int, seed: int) -> Tensor:
    """The cluster of every pixel [image, height, width]: that of its patch."""
    device = next(encoder.parameters()).device
    tokens = torch.cat([encoder(preprocess(one.to(device)))[:, 1:].float().cpu() for one in images.split(250)])
    grid = int(tokens.shape[1] ** 0.5)
    own = clusters(tokens.flatten(0, 1), classes, seed).view(len(images), 1, grid, grid)
    return F.interpolate(own.float(), images.shape[-2:], mode="nearest").long()[:, 0]


own = {"data": Data("tinyimagenet100", size=64), "network": replace(use.study.network, name="winze/mae_64")}
segmented = Segmented(**{one.name: getattr(use.study, one.name) for one in fields(use.study)} | own)
by_kmeans = "the paper does not state its clustering: k-means on the patch tokens of all images, scaled to length 1"
on_digits = "on digits, classes are pixels brighter and darker than the mean of their image"

recipe = Recipe(
    "decayed/mae_segment",
    **use.about("fig. 4", study=segmented, work=work, departures=(*use.DEPARTURES, by_kmeans, on_digits))
    | {"measures": (*use.MEASURES, "segment_iou")},
    shows="patch tokens of a decayed encoder group pixels by class",
    axes={"alpha": Axis("network.rule.alpha_min", (1.0, 0.7))},
    scales=use.scales(masks="ink", protocols=()),
    claims=(
        Claim(
            "alpha_min = 0.7 raises the mean IoU of unsupervised segmentation",
            "section 4, COCO: 4.10 to 10.41",
            higher(iou, {"alpha": 0.7}, than={"alpha": 1.0}),
            paper="+6.31 points",
        ),
    ),
    figures=(over_setting(iou, x="alpha"),),
)
