"""What training costs: winze's loop against hand-written ones.

On a GPU: images/s of ResNet50 at 32x32, B=128, bf16, with crops, flips and colours on the device. Against the eager
loop with the same augmentation, channels-last and foreach SGD the goals are 4x in one process and 7x with several
processes under CUDA MPS. On a CPU: seconds of an epoch against a bare loop over the same batches; goal at most 1.05x.

    python benchmarks/train.py [--device cuda] [--processes 1 2 4 6] [--steps 600] [--out results]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torchvision
from timing import RESULTS, merge, ratio
from torch import Tensor, nn

from winze.data import Augment, ColourJitter, Flip, PadCrop, Preprocess, RandomResizedCrop
from winze.lab.workers.mps import mps
from winze.networks import build
from winze.train import SGD, CrossEntropy, Epochs, Hardware, Steps, Training, fit

BATCH, WARM = 128, 100
AUGMENT = (RandomResizedCrop(), Flip(), ColourJitter())
PREPROCESS = Preprocess(None, (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616))
RATE = {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 2e-5}


def main() -> None:
    """Measure one device and merge the rows into results/train.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--processes", type=int, nargs="+", default=(1, 2, 4, 6))
    parser.add_argument("--steps", type=int, default=600, help="timed steps on a GPU")
    parser.add_argument("--pairs", type=int, default=12, help="timed pairs on a CPU")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(window(args.worker, args.steps)))
        return
    rows = on_gpu(args.processes, args.steps) if args.device == "cuda" else [on_cpu(args.pairs)]
    print("written", merge("train", rows, args.device, args.out))


def on_gpu(processes: list[int], steps: int) -> list[dict[str, Any]]:
    """Images a second of each way, and how often the eager loop's."""
    rows = []
    for kind, count in [("eager", 1), ("plain", 1), *(("graph", count) for count in processes)]:
        rate = together(kind, count, steps)
        base = rate if kind == "eager" else rows[0]["images_per_second"]
        how = {"eager": "a hand-written eager loop", "plain": "winze, plain steps", "graph": "winze, captured steps"}
        rows.append(
            {
                "network": "torchvision resnet50, 32x32, bf16-mixed",
                "how": how[kind],
                "processes": count,
                "images_per_second": round(rate),
                "ratio": round(rate / base, 2),
            }
        )
        print(rows[-1], flush=True)
    return rows


def together(kind: str, count: int, steps: int) -> float:
    """Images a second of `count` processes: all their images between the first one's start and the last one's end."""
    with mps(count > 1) as service:
        words = [sys.executable, __file__, "--worker", kind, "--steps", str(steps)]
        environment = {**os.environ, **service, "OMP_NUM_THREADS": "1"}
        running = [subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        said = [worker.communicate()[0] for worker in running]
    windows = [json.loads(text.splitlines()[-1]) for text in said]
    begun, ended = min(start for start, _ in windows), max(end for _, end in windows)
    return count * steps * BATCH / (ended - begun)


def window(kind: str, steps: int) -> tuple[float, float]:
    """When the timed steps of one process began and ended."""
    net, data = torchvision.models.resnet50(num_classes=10), pictures(steps)
    if kind == "eager":
        return eager(net, data, steps)
    clock = Clock(steps)
    training = Training(
        Steps(WARM + steps), BATCH, SGD(**RATE), objective=clock, augment=AUGMENT, precision="bf16-mixed",
        channels_last=True,
    )  # fmt: skip
    hardware = Hardware(accelerator="cuda", step="graph" if kind == "graph" else "plain")
    fit(net, data, training, preprocess=PREPROCESS, hardware=hardware)
    return clock.begun, clock.ended


class Clock(CrossEntropy):
    """Smoothed cross-entropy that looks at the clock after the warm-up and at the end."""

    def __init__(self, steps: int) -> None:
        super().__init__(smoothing=0.1)
        self.left, self.steps, self.begun, self.ended = WARM, steps, 0.0, 0.0

    def advance(self) -> None:
        """Count one step."""
        self.left -= 1
        if self.left == 0 or self.left == -self.steps:
            torch.cuda.synchronize()
            self.begun, self.ended = (time.time(), 0.0) if self.left == 0 else (self.begun, time.time())


def eager(net: nn.Module, data: tuple[Tensor, Tensor], steps: int) -> tuple[float, float]:
    """The loop that a careful person writes: all on the device, channels-last, foreach SGD, no capture."""
    torch.backends.cudnn.benchmark = True
    net = net.cuda().to(memory_format=torch.channels_last).train()
    images, labels = (part.cuda() for part in data)
    augment = Augment(AUGMENT)
    draws = augment.draws(tuple(images.shape[1:]))
    optimizer = torch.optim.SGD(net.parameters(), foreach=True, **RATE)
    begun = 0.0
    for step in range(WARM + steps):
        if step == WARM:
            torch.cuda.synchronize()
            begun = time.time()
        rows = torch.randint(len(labels), (BATCH,), device="cuda")
        x = PREPROCESS(augment(images[rows], torch.rand(BATCH, draws, device="cuda")))
        with torch.autocast("cuda", torch.bfloat16):
            outputs = net(x.contiguous(memory_format=torch.channels_last))
        loss = F.cross_entropy(outputs.float(), labels[rows], label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    return begun, time.time()


def on_cpu(pairs: int) -> dict[str, Any]:
    """One epoch of ResNet-20 at 32x32 by `fit`, all set-up included, against a bare loop over the same batches."""
    data, augment = pictures(10), (PadCrop(4), Flip())
    net = build("winze/resnet20", 10)
    training = Training(Epochs(1), BATCH, SGD(0.05, momentum=0.9), augment=augment)
    draws = Augment(augment).draws(tuple(data[0].shape[1:]))

    def ours() -> None:
        fit(net, data, training, preprocess=PREPROCESS, hardware=Hardware(accelerator="cpu"))

    def bare() -> None:
        net.train()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        for rows in torch.randperm(len(data[1])).split(BATCH):
            x = PREPROCESS(Augment(augment)(data[0][rows], torch.rand(len(rows), draws)))
            loss = F.cross_entropy(net(x), data[1][rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

    row = {
        "network": "winze/resnet20, 32x32, float32",
        "how": "winze, plain steps; against a bare loop",
        "processes": 1,
    }
    row |= ratio(ours, bare, "cpu", pairs)
    print(row, flush=True)
    return row


def pictures(batches: int) -> tuple[Tensor, Tensor]:
    """Noise of CIFAR-10's shape, 100 batches at most."""
    draw = torch.Generator().manual_seed(0)
    count = BATCH * min(batches, 100)
    images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=draw)
    return images, torch.randint(10, (count,), generator=draw)


if __name__ == "__main__":
    main()
