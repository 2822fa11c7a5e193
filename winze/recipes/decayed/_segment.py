"""Segments without labels from the patch tokens of a masked autoencoder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from winze.data import Preprocess
from winze.data.segmentation import load_segments
from winze.lab import Bench, Prepared
from winze.measure.segments import IGNORED, clusters, matched_iou
from winze.recipes.decayed._mae import Masked, trained

INK = "ink"


@dataclass(frozen=True)
class Segmented(Masked):
    """A masked autoencoder whose patch tokens are clustered, and compared with the classes of pixels.

    `masks`: a folder with images/ and masks/ (see `load_segments`), or "ink" for the test images themselves, whose
    classes are bright and dark pixels. `most` bounds the number of images.
    """

    masks: str = "coco"
    most: int = 1000


def work(config: Segmented, bench: Bench) -> None:
    """Train one masked autoencoder, cluster the patch tokens of all images together, and match clusters and classes."""
    if config.masks != INK:
        load_segments(config.masks, 8)  # a folder that is not there is named before hours of training
    prepared = trained(config, bench)
    if not bench.writes:
        return
    images, truth = _segments(config, prepared)
    known = truth[truth != IGNORED]
    classes = int(known.max()) + 1
    assert prepared.preprocess is not None
    encoder = prepared.objective.view(prepared.net).eval()
    found = predicted_segments(encoder, prepared.preprocess, images, classes, bench.seed)
    value = matched_iou(found, truth.long(), classes)
    bench.readings.add("segment_iou", value, split="test", n=len(images), note=value.note)


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
