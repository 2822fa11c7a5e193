"""What a scan of networks that people have costs, against the best plain forward over the same batches.

    python benchmarks/scan.py --networks all --device cuda --images 10240    # and 2560: fixed costs weigh more there
    python benchmarks/scan.py --networks resnet50,convnext_tiny --images 64 --batch 16 --pairs 3

timm's resnet50, vit_base_patch16_224 and convnext_tiny at 224 pixels, read at their blocks, and its plain resnet18 at
32 pixels on ten times as many images. Weights are random. The plain forward runs in inference mode, in the memory
format that is fastest here (as given, images channels-last, or images and weights). Goals on an H200 with 10,240
images: everything at most 1.25x, CKA alone at most 1.1x; with 2,560 at most 1.6x; at most 256 MB beyond the plain
forward's peak. Rows go to results/scan_networks.json: one per network, measure, number of images and device.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from scan import peak
from timing import merge, ratio, seconds
from torch import Tensor, nn

DISTINCT = 1024
"""Images in memory; more are these again, since time does not depend on what they show."""


@dataclass(frozen=True)
class Published:
    """A network by its name in timm, and how large and how many its images are."""

    name: str
    pixels: int = 224
    times: int = 1


NETWORKS = (
    Published("resnet50"),
    Published("vit_base_patch16_224"),
    Published("convnext_tiny"),
    Published("resnet18", pixels=32, times=10),
)


class Cycled:
    """Batches on the device that repeat some images until there are enough."""

    def __init__(self, images: int, pixels: int, batch: int, device: str, seed: int, classes: int = 10) -> None:
        own = min(images, max(batch, DISTINCT // batch * batch))
        self.x = torch.randn(own, 3, pixels, pixels, generator=torch.Generator().manual_seed(seed)).to(device)
        self.y = torch.arange(own) % classes
        self.images, self.batch = images, batch

    def __len__(self) -> int:
        return (self.images + self.batch - 1) // self.batch

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, self.images, self.batch):
            at, count = start % len(self.x), min(self.batch, self.images - start)
            yield self.x[at : at + count], self.y[at : at + count]


Forward = Callable[..., None]


def plain(net: nn.Module, by_pixel: bool) -> Forward:
    """The forward over all batches of some splits, with images channels-last or as given."""

    @torch.inference_mode()
    def run(*splits: Cycled) -> None:
        for split in splits:
            for x, _ in split:
                net(x.contiguous(memory_format=torch.channels_last) if by_pixel else x)

    return run


def best_plain(net: nn.Module, few: Cycled, device: str) -> tuple[str, Forward]:
    """The fastest way to run a network plainly, and its name."""
    turned = copy.deepcopy(net).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    ways = {
        "as given": plain(net, False),
        "images channels-last": plain(net, True),
        "images and weights channels-last": plain(turned, True),
    }
    for run in ways.values():
        run(few)
    taken = {name: min(seconds(lambda run=run: run(few), device) for _ in range(3)) for name, run in ways.items()}
    name = min(taken, key=lambda each: taken[each])
    return name, ways[name]


def rows(one: Published, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """CKA alone on the test images, then everything on train and test images."""
    import timm

    import winze

    torch.manual_seed(0)
    net = timm.create_model(one.name, num_classes=10).to(args.device).eval()
    images = args.images * one.times
    train, test = (Cycled(images, one.pixels, args.batch, args.device, seed) for seed in (1, 2))
    few = Cycled(min(images, 4 * args.batch), one.pixels, args.batch, args.device, 3)
    format_, forward = best_plain(net, few, args.device)
    runs: dict[str, tuple[Callable[[], Any], tuple[Cycled, ...]]] = {
        "CKA": (lambda: winze.scan(net, None, test, measures="cka", progress=False), (test,)),
        "everything": (lambda: winze.scan(net, train, test, progress=False), (train, test)),
    }
    for what, (work, splits) in runs.items():
        places = len(work().places)
        base, _ = peak(lambda splits=splits: forward(*splits), args.device)
        most, _ = peak(work, args.device)
        timed = ratio(work, lambda splits=splits: forward(*splits), args.device, args.pairs)
        row = f"{one.name} at {one.pixels}, {what}, {images} images"
        yield {
            "row": row,
            "images": images,
            "batch": args.batch,
            "places": places,
            "plain": format_,
            "extra_mb": round((most - base) / 1e6, 1),
            **timed,
        }


def measure_networks(args: argparse.Namespace) -> None:
    """Measure the networks that were asked for, one row after the other, and keep each as it comes."""
    asked = args.networks.split(",")
    chosen = [one for one in NETWORKS if args.networks == "all" or one.name in asked]
    if unknown := set(asked) - {"all", *(one.name for one in NETWORKS)}:
        raise SystemExit(f"--networks takes all or {', '.join(one.name for one in NETWORKS)}, not {', '.join(unknown)}")
    for one in chosen:
        for row in rows(one, args):
            print(row, flush=True)
            print("written", merge("scan_networks", [row], args.device, args.out, alike="row"), flush=True)
