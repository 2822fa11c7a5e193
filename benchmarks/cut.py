"""What cutting off the tunnel saves on CIFAR-10: accuracy, weights, operations, and time against the whole network.

Each network is scanned on all of CIFAR-10, with ten classes of Tiny-ImageNet as other data, and cut where its tunnel
starts. The time of the cut network is a ratio to the whole one's, for single pictures and for batches of 256.

    python benchmarks/cut.py [--networks winze/resnet20 runs/3f2a.../net.safetensors] [--device cuda] [--limit 5000]

Networks are names of those that come with winze, or files that `winze.load` reads.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, merge, ratio
from torch import Tensor, nn

import winze
from winze.data import Batches, Preprocess, load
from winze.networks import all_trained, build

BATCHES = (1, 256)
OTHER = "tinyimagenet"


def main() -> None:
    """Measure the networks on one device and merge the rows into results/cut.json as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--networks", nargs="+", default=all_trained())
    parser.add_argument("--name", help="what a network from a file is called in the table")
    parser.add_argument("--pool", default="mean", help="as winze.scan takes it: mean, or the side of a grid")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.name and len(args.networks) > 1:
        parser.error("--name names one network")
    for name in args.networks:
        file = Path(name)
        net = winze.load(file) if file.suffix == ".safetensors" else build(name, pretrained=True)
        found = row(net.to(args.device).eval(), args)
        found = {"network": args.name or name, **found}
        print(found, flush=True)
        merge("cut", [found], args.device, args.out, alike="network")


def row(net: nn.Module, args: argparse.Namespace) -> dict[str, Any]:
    """Scan one network, cut it, and time both."""
    data, other = load("cifar10", limit=args.limit), load(OTHER, size=32)
    preprocess = Preprocess.of(load("cifar10"))

    def fed(part: tuple[Tensor, Tensor]) -> Batches:
        return Batches(*part, 500, preprocess, torch.device(args.device))

    scan = winze.scan(
        net,
        fed(data.train),
        fed(data.test),
        ood={OTHER: (fed(other.train), fed(other.test))},
        pool=int(args.pool) if args.pool.isdigit() else args.pool,
        costs=False,
        name="cifar10",
    )
    small = winze.truncate(net, scan).eval()
    assert small.cut is not None
    cut, best = small.cut, scan.best_for(OTHER)
    return {
        "images": len(data.train[1]),
        "pool": args.pool,
        "start": cut.place.index + 1,
        "places": len(scan.places),
        "place": cut.place.name,
        "accuracy": cut.accuracy_before,
        "accuracy_cut": cut.accuracy,
        "parameters": round(cut.parameters / cut.parameters_before, 4),
        "flops": round(cut.flops / cut.flops_before, 4),
        "best_for_other": best.place.index + 1,
        "other": best.accuracy,
        "other_last": best.last,
        **{f"time_{batch}": time(net, small, batch, args) for batch in BATCHES},
    }


def time(net: nn.Module, small: nn.Module, batch: int, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of the cut network against those of the whole one."""
    images = torch.randn(batch, 3, 32, 32, device=args.device)
    repeats = max(1, 256 // batch) if args.device == "cuda" else max(1, 32 // batch)

    def runs(tried: nn.Module) -> Any:
        def run() -> None:
            with torch.no_grad():
                for _ in range(repeats):
                    tried(images)

        return run

    found = ratio(runs(small), runs(net), args.device, args.pairs)
    return found | {"seconds": round(found["seconds"] / repeats, 6)}


if __name__ == "__main__":
    main()
