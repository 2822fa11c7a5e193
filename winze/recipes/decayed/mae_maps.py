"""What masked autoencoders with decayed shortcuts see (Zhang et al., 2024, arXiv 2404.10947, fig. 1, 3, 4 and 6).

    winze run decayed/mae_maps --scale cpu             # digits, 2 points x 3 seeds, minutes on one core
    winze run decayed/mae_maps --scale gpu --jobs 6    # CIFAR-10 and Tiny-ImageNet, 400 epochs on an H200

t-SNE of class tokens, maps of the last block's patch tokens in the colours of three eigenvectors, and reconstructions
side by side. The loss is the squared error of plain pixels, as in the paper's reconstructions.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from winze.data import Preprocess
from winze.lab import Axis, Bench, DuringTraining, Prepared, Recipe, Whole, higher, lower
from winze.measure.segments import spectral_colours
from winze.observe.passes.embedding import embed_places
from winze.readings import Array
from winze.recipes.decayed import _mae as use
from winze.recipes.decayed._mae import DECAYED, PLAIN
from winze.report.experiment import first_seeds, of_scans, over_setting
from winze.report.experiment.image_sheets import image_sheets, tiled
from winze.report.scan.embedding_plot import embedding
from winze.train.objectives.reconstruct import MaskedReconstruct
from winze.train.protocols import features_of

POINTS, MAPS, SHOWN = 500, 16, 6  # samples in the plane, images with maps, images with reconstructions


def work(config: use.Masked, bench: Bench) -> None:
    """Train one masked autoencoder, and store what the figures show of its first test images."""
    from sklearn.metrics import silhouette_score

    prepared = use.trained(config, bench)
    if not bench.writes:
        return
    net: Any = prepared.net.eval()
    images, labels = prepared.dataset.test
    few = labels < 10
    tokens = features_of(net.encoder, images[few][:POINTS], preprocess=prepared.preprocess).cpu()
    kept = labels[few][:POINTS]
    apart = float(silhouette_score(tokens.numpy(), kept.numpy()))  # how far classes lie apart, from -1 to 1
    bench.readings.add("silhouette", apart, data=config.data.name, split="test", n=len(tokens))
    arrays = bench.readings.arrays
    last = len(bench.readings.conventions["places"]) - 1
    arrays[f"embedding/{last}"], arrays["embedding/labels"] = embed_places([0], [tokens], "tsne")[0], kept.numpy()
    arrays["map_images"] = images[:MAPS].numpy()
    arrays["maps"] = _maps(net, prepared.fed(images[:MAPS]))
    arrays["reconstructions"] = _reconstructed(net, prepared, images[:SHOWN], bench.seed)


@torch.no_grad()
def _maps(net: Any, inputs: Tensor) -> Array:
    """The colours [image, row, column, 3] of patches as bytes, from one decomposition of all images."""
    tokens = net.encoder(inputs)[:, 1:]
    grid = int(tokens.shape[1] ** 0.5)
    colours = spectral_colours(tokens.flatten(0, 1).float().cpu())
    return (255 * colours.view(len(tokens), grid, grid, 3)).round().byte().numpy()


@torch.no_grad()
def _reconstructed(net: Any, prepared: Prepared, images: Tensor, seed: int) -> Array:
    """Images, what is visible of them, and hidden patches as predicted, as bytes [image, 3, channel, height, width]."""
    inputs = prepared.fed(images)
    with torch.random.fork_rng(devices=[inputs.device] if inputs.is_cuda else []):
        torch.manual_seed(seed)
        predicted, mask = net(inputs)
    own = net.patches(inputs)
    hidden = mask[:, :, None].bool()
    visible = own.masked_fill(hidden, 0.0)
    whole = torch.where(hidden, predicted.float(), own)
    preprocess = prepared.preprocess
    assert isinstance(preprocess, Preprocess)
    mean, std = (inputs.new_tensor(one).view(1, -1, 1, 1) for one in (preprocess.mean, preprocess.std))
    shown = [net.images(one) * std + mean for one in (own, visible, whole)]
    return (255 * torch.stack(shown, 1).clamp(0, 1)).round().byte().cpu().numpy()


def _beside_maps(arrays: Mapping[str, Array]) -> Array:
    """Images, and below each its patches in colour."""
    images, colours = arrays["map_images"][:8], arrays["maps"][:8].transpose(0, 3, 1, 2)
    scale = images.shape[2] // colours.shape[2]
    return tiled(
        np.stack(
            [np.broadcast_to(images, (len(images), 3, *images.shape[2:])), colours.repeat(scale, 2).repeat(scale, 3)]
        )
    )


plane = of_scans("Class tokens of ten classes (t-SNE)", embedding, first_seeds)
maps = image_sheets("Images and their patch tokens in colour", "maps", _beside_maps)
reconstructions = image_sheets(
    "Images, visible patches, reconstructions",
    "reconstructions",
    lambda all: tiled(all["reconstructions"].swapaxes(0, 1)),
)
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
            lower(DuringTraining("reconstruction"), DECAYED, than=PLAIN),
        ),
    ),
    quantities={"silhouette": Whole("silhouette")},
    figures=(plane, maps, reconstructions, over_setting("silhouette", x="alpha", panel="data")),
)
