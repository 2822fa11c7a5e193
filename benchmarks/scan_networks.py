"""What a scan of networks that people have costs, against the best plain forward over the same batches.

    python benchmarks/scan.py --networks all --device cuda                 # 2,560 and 10,240 images; 5 minutes
    python benchmarks/scan.py --networks all --device cpu --batch 32       # 256 images; half an hour on 2 cores
    python benchmarks/scan.py --networks shell --device cuda               # the command alone; a minute

timm's resnet50, vit_base_patch16_224 and convnext_tiny at 224 pixels, read at their blocks, and its plain resnet18 at
32 pixels on ten times as many images. Weights are random. The plain forward runs in inference mode, in the memory
format that is fastest here (as given, images channels-last, or images and weights). Goals on an H200 with 10,240
images: everything at most 1.25x, CKA alone at most 1.1x; with 2,560 at most 1.6x; at most 256 MB beyond the plain
forward's peak; `winze scan` from the shell, cuts and page included, at most 2.0x plus 15 s.

Each row takes as many interleaved pairs as fit into `--seconds` (6), between 1 and `--pairs`. `phases` has the seconds
of the parts of one more scan of the small size, each measured with the device synchronised. Rows go to
results/scan_networks.json: one per network, measure, number of images and device.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scan import peak
from timing import median, merge, seconds
from torch import Tensor, nn

IMAGES = {"cuda": (2560, 10240), "cpu": (256,)}
"""At 224 pixels; the small number first, so that a run that is stopped has a row of every network."""
TRIED = {"cuda": 4, "cpu": 1}
"""Batches on which the fastest plain forward is found."""

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


def timed(work: Callable[[], Any], against: Callable[[], Any], device: str, most: int, room: float) -> dict[str, Any]:
    """The ratio over as many interleaved pairs as fit into `room` seconds, at least one, and the extra memory."""
    ratios, base, extra = [], [], []
    begun = time.perf_counter()
    while not ratios or (len(ratios) < most and (time.perf_counter() - begun) * (1 + 1 / len(ratios)) < room):
        pair = (work, against) if len(ratios) % 2 else (against, work)
        held = {each: peak(each, device) for each in pair}
        ratios.append(held[work][1] / held[against][1])
        base.append(held[against][1])
        extra.append(held[work][0] - held[against][0])
    return {**median(ratios), "seconds": round(statistics.median(base), 5), "extra_mb": round(max(extra) / 1e6, 1)}


PHASES = {
    "beginning the fingerprint": "winze.observe.scan.begun_fingerprint",
    "finding places": "winze.observe.scan.spots_and_order",
    "train pass": "winze.observe.scan.ridge_moments",
    "fitting probes": "winze.observe.scan.fitted",
    "test pass": "winze.observe.scan.read_test",
    "ranks and other numbers": "winze.observe.passes.gathered.Store.places",
    "CKA": "winze.observe.passes.gathered.Store.pairs",
    "answers": "winze.observe.scan.answers",
}


def phases(work: Callable[[], Any], device: str) -> dict[str, float]:
    """Seconds of the parts of one scan, and of the whole."""
    taken: dict[str, float] = {}

    def clocked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            found: list[Any] = []
            spent = seconds(lambda: found.append(function(*args, **kwargs)), device)
            taken[name] = round(taken.get(name, 0) + spent, 4)
            return found[0]

        return run

    with ExitStack() as stack:
        for name, path in PHASES.items():
            stack.enter_context(patch(path, clocked(name, resolve_name(path))))
        return {"whole": round(seconds(work, device), 4), **taken}


def rows(one: Published, args: argparse.Namespace, images: int) -> Iterator[dict[str, Any]]:
    """CKA alone on the test images, then everything on train and test images."""
    import timm

    import winze

    torch.manual_seed(0)
    net = timm.create_model(one.name, num_classes=10).to(args.device).eval()
    images *= one.times
    train, test = (Cycled(images, one.pixels, args.batch, args.device, seed) for seed in (1, 2))
    few = Cycled(min(images, TRIED[args.device] * args.batch), one.pixels, args.batch, args.device, 3)
    format_, forward = best_plain(net, few, args.device)
    runs: dict[str, tuple[Callable[..., Any], tuple[Cycled, ...]]] = {
        "CKA": (lambda test: winze.scan(net, None, test, measures="cka", progress=False), (test,)),
        "everything": (lambda train, test: winze.scan(net, train, test, progress=False), (train, test)),
    }
    for what, (work, splits) in runs.items():
        places = len(work(*[few] * len(splits)).places)
        row = {
            "row": f"{one.name} at {one.pixels}, {what}, {images} images",
            "images": images,
            "batch": args.batch,
            "places": places,
            "plain": format_,
        }
        row |= timed(lambda: work(*splits), lambda: forward(*splits), args.device, args.pairs, args.seconds)  # noqa: B023
        if images == min(args.sizes) * one.times:
            row["phases"] = phases(lambda: work(*splits), args.device)  # noqa: B023
        yield row


def from_the_shell(args: argparse.Namespace) -> dict[str, Any]:
    """`winze scan` of resnet50 at 224 pixels on images in a file, cuts and page included, beside its plain forward."""
    import timm

    images = min(args.sizes)
    net = timm.create_model("resnet50", num_classes=10).to(args.device).eval()
    test = Cycled(images, 224, args.batch, args.device, 2)
    format_, forward = best_plain(net, Cycled(min(images, args.batch), 224, args.batch, args.device, 3), args.device)
    plain = seconds(lambda: forward(test, test), args.device)
    with TemporaryDirectory() as folder:
        file, out = Path(folder) / "images.npz", Path(folder) / "scan"
        draw = np.random.default_rng(0)
        arrays = {f"x_{part}": draw.integers(0, 256, (images, 32, 32, 3), np.uint8) for part in ("train", "test")}
        np.savez(file, **arrays, **{f"y_{part}": np.arange(images) % 10 for part in ("train", "test")})
        options = ["--data", str(file), "--out", str(out), "--size", "224", "--batch", str(args.batch)]
        command = [sys.executable, "-m", "winze", "scan", "resnet50", *options, "--device", args.device]
        whole = seconds(lambda: subprocess.run(command, check=True, capture_output=True), args.device)
        assert (out / "report.html").exists()
    over = (whole - 15) / plain
    row = {"row": f"resnet50 at 224, winze scan from the shell, {images} images", "images": images, "batch": args.batch}
    return row | {"plain": format_, "seconds": round(plain, 3), "whole": round(whole, 2), "less_15_s": round(over, 3)}


def measure_networks(args: argparse.Namespace) -> None:
    """Measure the networks that were asked for, one row after the other, and keep each as it comes."""
    asked = args.networks.split(",")
    chosen = [one for one in NETWORKS if args.networks == "all" or one.name in asked]
    known = ["all", "shell", *(one.name for one in NETWORKS)]
    if unknown := set(asked) - set(known):
        raise SystemExit(f"--networks takes {', '.join(known)}, not {', '.join(unknown)}")
    args.sizes = IMAGES[args.device] if args.images is None else (args.images,)

    def kept(row: dict[str, Any]) -> None:
        print(row, flush=True)
        print("written", merge("scan_networks", [row], args.device, args.out, alike="row"), flush=True)

    for images in args.sizes:
        for one in chosen:
            for row in rows(one, args, images):
                kept(row)
    if {"all", "shell"} & set(asked):
        kept(from_the_shell(args))
