"""What training and sampling generative models cost on a GPU: plain, captured, and captured and compiled steps.

Images per second of the masked autoencoder for CIFAR-10 (winze/mae_32, B=1024) and of a U-ViT (winze/uvit_tiny, B=256)
in bf16, with augmentation on the device; the seconds of 10,000 images by 50 steps of DPM-Solver. Goals: the captured
and compiled step of the autoencoder at least 5 times the speed of the plain one, an epoch of 50,000 images below 0.6 s.

    python benchmarks/generative.py [--steps 200] [--images 10000] [--out results]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, merge
from torch import nn

from winze.data import Flip, Preprocess, RandomResizedCrop
from winze.networks import build
from winze.networks.sampling import draw
from winze.shape import DecayedIdentity, rewire
from winze.train import AdamW, Hardware, Steps, Training, fit
from winze.train.objectives.denoise import Denoise
from winze.train.objectives.reconstruct import MaskedReconstruct

WARM = 30
PREPROCESS = Preprocess(None, (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616))
WAYS = {
    "plain steps": Hardware(accelerator="cuda", step="plain"),
    "captured steps": Hardware(accelerator="cuda", step="graph"),
    "captured and compiled steps": Hardware(accelerator="cuda", step="graph", compile=True),
}
MODELS: dict[str, dict[str, Any]] = {
    "winze/mae_32": {
        "batch": 1024,
        "objective": MaskedReconstruct(),
        "augment": (RandomResizedCrop((0.2, 1.0)), Flip()),
    },
    "winze/uvit_tiny": {"batch": 256, "objective": Denoise(), "augment": (Flip(),)},
}


class Clock:
    """Follows the steps and notes the time after the warm-up and at the end."""

    def __init__(self, steps: int) -> None:
        self.steps, self.begun, self.ended = steps, 0.0, 0.0

    def after_step(self, net: nn.Module, step: int) -> None:
        """Look at the clock where it is time."""
        if step in (WARM, WARM + self.steps):
            torch.cuda.synchronize()
            self.begun, self.ended = (time.perf_counter(), 0.0) if step == WARM else (self.begun, time.perf_counter())

    def after_epoch(self, net: nn.Module, epoch: int) -> None:
        """Nothing to report."""


def main() -> None:
    """Measure every model every way, and merge the rows into results/generative.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="timed steps")
    parser.add_argument("--images", type=int, default=10_000, help="images to draw")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows = [row for name in MODELS for row in trained(name, args.steps)]
    rows.append(sampled(args.images))
    print(rows[-1], flush=True)
    print("written", merge("generative", rows, "cuda", args.out))


def trained(name: str, steps: int) -> list[dict[str, Any]]:
    """Images per second of every way to take steps, and the ratio to plain ones."""
    images = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    rows: list[dict[str, Any]] = []
    for way, hardware in WAYS.items():
        net = build(name)
        rewire(net, DecayedIdentity(0.7), "encoder.*" if "mae" in name else None, example=torch.zeros(2, 3, 32, 32))
        clock, own = Clock(steps), MODELS[name]
        training = Training(
            Steps(WARM + steps),
            optimizer=AdamW(6e-4, betas=(0.9, 0.95)),
            precision="bf16-mixed",
            drop_last=True,
            evaluate=Steps(WARM + steps),
            **own,
        )
        fit(net, images, training, preprocess=PREPROCESS, hardware=hardware, followers=[clock], progress=False)
        rate = steps * own["batch"] / (clock.ended - clock.begun)
        base = rows[0]["images_per_second"] if rows else rate
        row = {"network": f"{name}, 32x32, bf16-mixed, B={own['batch']}", "how": way, "images_per_second": round(rate)}
        rows.append(row | {"ratio": round(rate / base, 2), "seconds_per_50k": round(50_000 / rate, 3), "steps": steps})
        print(rows[-1], flush=True)
    return rows


def sampled(images: int) -> dict[str, Any]:
    """The seconds of so many images, after a short warm-up."""
    net = build("winze/uvit_tiny").cuda()
    with torch.autocast("cuda", torch.bfloat16):
        draw(net, (500, 3, 32, 32), steps=3, batch=500)
        torch.cuda.synchronize()
        start = time.perf_counter()
        draw(net, (images, 3, 32, 32), steps=50, batch=1000)
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return {
        "network": "winze/uvit_tiny, 32x32, bf16-mixed",
        "how": "DPM-Solver-3, 50 steps",
        "images": images,
        "seconds": round(seconds, 2),
    }


if __name__ == "__main__":
    main()
