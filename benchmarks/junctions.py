"""What a rewired junction costs: forward + backward under Scaled(1, 1) against the untouched network.

Goal: at most 1.02x on CPU and GPU, and capture below 2 s for resnet50 and vit_b_16 on 2 cores.

    python benchmarks/junctions.py [--device cuda] [--pairs 12] [--networks resnet50 vit_b_16] [--out results]
"""

from __future__ import annotations

import argparse
import copy
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
import torchvision
from timing import RESULTS, merge, ratio, seconds

import winze

NETWORKS = ("resnet18", "resnet50", "vit_b_16", "convnext_tiny", "swin_t")
BATCH = {"cpu": 4, "cuda": 128}


def main() -> None:
    """Measure every network on one device and merge the rows into results/junctions.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows = [measure(name, args.device, args.pairs) for name in args.networks]
    print("written", merge("junctions", rows, args.device, args.out))


def measure(name: str, device: str, pairs: int) -> dict[str, object]:
    """One network: the ratio with its interval, and the seconds that capture takes (median of three)."""
    torch.manual_seed(0)
    plain = torchvision.models.get_model(name).to(device).train()
    captured = copy.deepcopy(plain)
    captures = [seconds(lambda: winze.rewire(copy.deepcopy(plain), winze.Scaled(1, 1)), device) for _ in range(3)]
    winze.rewire(captured, winze.Scaled(1, 1))
    images = torch.randn(BATCH[device], 3, 224, 224, device=device)
    labels = torch.randint(1000, (BATCH[device],), device=device)
    row = {
        "network": name,
        "junctions": len(winze.junctions(plain)),
        "batch": BATCH[device],
        **ratio(step(captured, images, labels), step(plain, images, labels), device, pairs),
        "capture_seconds": round(statistics.median(captures), 2),
    }
    print(row, flush=True)
    return row


def step(net: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    """One forward and backward, without an optimizer."""

    def run() -> None:
        net.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(net(images), labels).backward()

    return run


if __name__ == "__main__":
    main()
