"""The work of the diffusion recipe: train a U-ViT, read it at several noise levels, draw images and judge them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
import torch
from torch import Tensor, nn

from winze.data import Preprocess
from winze.lab import Bench, Prepared, RunNumber, Study, learn, prepare, read, store_curve
from winze.measure import frechet_distance
from winze.networks import build
from winze.networks.inception import MissingWeightsError, inception
from winze.networks.models.uvit import AtTime
from winze.networks.sampling import draw
from winze.readings import Array, Readings, ReadingsError
from winze.report.experiment.image_sheets import image_sheets, tiled
from winze.train.fields import Count, Limits

SHOWN, SHEET = 64, 16  # images that are stored, and of these the ones in a figure
Times = Annotated[
    tuple[float, ...], Limits("one or more in [0, 1]", lambda times: times and 0 <= min(times) <= max(times) <= 1)
]
CIFAR10 = Preprocess(None, (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616))


@dataclass(frozen=True)
class Diffusion(Study):
    """A diffusion model, the times at which it is read, and how its images are drawn and judged.

    `features`: one of winze's trained networks, whose last hidden layer gives the features of the Fréchet distance;
    without one they are the pixels. It is no FID, whose features are Inception's: `fid` is read besides where these
    weights are on this machine. Class-conditional models draw a second time with `guidance`.
    """

    times: Times = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5)
    images: Annotated[int, Limits(f"a whole number of at least {SHEET}", lambda count: count >= SHEET)] = 5000
    steps: Count = 50
    features: str = "winze/vgg19x0.25"
    guidance: float = 0.4


def work(config: Diffusion, bench: Bench) -> None:
    """Train one diffusion model, probe every block at every time, and compare its images with the training set."""
    prepared = prepare(config, bench)
    judges = list(_judges(config))  # what is missing is said before hours of training
    learn(prepared, bench)
    store_curve(prepared, bench, ("noise_error",))
    if not bench.writes:
        return
    for t in config.times:
        tag = "" if t == config.times[0] else f"at t = {t:g}"
        read(prepared, bench, view=AtTime(prepared.net, t), tag=tag, layers=False)
    real = prepared.dataset.train_images
    for tag, guidance in {"": 0.0, "_guided": config.guidance}.items():
        if guidance and not getattr(prepared.net, "labels", 0):
            continue
        images = _drawn(config, prepared, bench, guidance)
        bench.readings.arrays[f"images{tag}"] = images[:SHOWN].cpu().numpy()
        for measure, judge, features in judges:
            distance = frechet_distance(*(_seen(features, one, images.device) for one in (images, real)))
            note = "; ".join(filter(None, (f"in {judge}", distance.note)))
            bench.readings.add(f"{measure}{tag}", distance, data=config.data.name, n=config.images, note=note)


def _drawn(config: Diffusion, prepared: Prepared, bench: Bench, guidance: float) -> Tensor:
    """Images as bytes; with labels, of all classes in turn."""
    every = torch.arange(config.images) % len(prepared.dataset.classes)
    labels = every if getattr(prepared.net, "labels", 0) else None
    shape, ready = (config.images, *prepared.dataset.shape), prepared.preprocess
    assert ready is not None
    drawn = draw(prepared.net, shape, steps=config.steps, labels=labels, guidance=guidance, seed=bench.seed)
    mean, std = (torch.tensor(one, device=drawn.device).view(1, -1, 1, 1) for one in (ready.mean, ready.std))
    return ((drawn * std + mean).clamp(0, 1) * 255).round().to(torch.uint8)


def _seen(features: Callable[[Tensor], Tensor], images: Tensor, device: torch.device) -> Tensor:
    """The features of images that are stored as bytes, some thousands at a time."""
    return torch.cat([features(part.to(device).float() / 255) for part in images.split(5000)])


def _judges(config: Diffusion) -> Iterator[tuple[str, str, Callable[[Tensor], Tensor]]]:
    """What images are compared in: the name of the reading, of the features, and images (0-1) to features."""
    own = partial(_hidden, build(config.features, pretrained=True)) if config.features else nn.Flatten()
    yield "frechet", f"features of {config.features}" if config.features else "pixels", own
    try:
        judge = inception()
    except MissingWeightsError:
        return
    yield "fid", f"features of {judge.name}", judge


@torch.no_grad()
def _hidden(net: nn.Module, images: Tensor) -> Tensor:
    """What goes into the last linear layer of a classifier of CIFAR-10, batch by batch."""
    kept: list[Tensor] = []
    last = [one for one in net.modules() if isinstance(one, nn.Linear)][-1]
    net.eval().to(images.device)
    with last.register_forward_pre_hook(lambda _, given: kept.append(given[0])):
        for batch in images.split(500):
            net(CIFAR10(batch))
    return torch.cat(kept)


@dataclass(frozen=True)
class BestProbe(RunNumber):
    """The highest probe accuracy over blocks and times."""

    measure: str = "probe"

    @property
    def measures(self) -> tuple[str, ...]:
        return ("probe", "probe at t = 0.1")

    def __call__(self, readings: Readings) -> float:
        rows = [row.value for row in readings.rows if row.measure.startswith("probe") and row.index is not None]
        if not rows:
            raise ReadingsError("no probe was read")
        return float(np.nanmax(rows))


def _sheet(arrays: Mapping[str, Array]) -> Array:
    """The first 16 images."""
    return tiled(arrays["images"][:SHEET].reshape(4, 4, *arrays["images"].shape[1:]))


sheets = image_sheets("Images drawn from the models", "images", _sheet)
