"""What an ensemble saves: ten seeds of the spiral trained at once against one after the other.

Both train ten networks on the same batches to the same weights. The goal is at least 5x for each algorithm: on a CPU
with 6 layers of 6, whose time is overhead, on a GPU with 32 layers of 32 too.

    python benchmarks/spiral.py [--device cuda] [--only ours] [--epochs 10] [--pairs 6] [--out results]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, merge, ratio

from winze.data import spiral
from winze.networks import SpiralMLP
from winze.shape import Alternation, DropPath, ResidualDropPath, Rule, rewire
from winze.train import AdamW, Epochs, Hardware, Training, fit, fit_ensemble

SEEDS = range(10)
RULES: dict[str, Rule | None] = {"standard": None, "droppath": DropPath(), "ours": ResidualDropPath()}


def main() -> None:
    """Measure one device and merge the rows into results/spiral.json as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=(6, 32))
    parser.add_argument("--only", nargs="+", default=list(RULES), choices=list(RULES), metavar="ALGORITHM")
    parser.add_argument("--epochs", type=int, help="10 on a CPU, 40 on a GPU, where capturing the step takes a while")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    epochs = args.epochs or (40 if args.device == "cuda" else 10)
    for size in args.sizes:
        for name in args.only:
            found = row(size, name, RULES[name], args.device, epochs, args.pairs)
            print(found, flush=True)
            merge("spiral", [found], args.device, args.out, alike="network")


def row(size: int, name: str, rule: Rule | None, device: str, epochs: int, pairs: int) -> dict[str, Any]:
    """Time the training of ten networks both ways, in turns; each way goes on with its own."""
    data = spiral(2048)
    training = Training(Epochs(epochs), batch=256, optimizer=AdamW(1e-3))
    how: dict[str, Any] = {"hardware": Hardware(accelerator=device), "progress": False}
    ours, theirs = networks(size, rule), networks(size, rule)

    def together() -> None:
        fit_ensemble(ours[0], data, training, seeds=SEEDS, alternations=ours[1], **how)

    def in_turn() -> None:
        for net, seed, one in zip(theirs[0], SEEDS, theirs[1] or [None] * len(SEEDS), strict=True):
            fit(net, data, training, seed=seed, followers=[one] if one else [], **how)

    found = ratio(together, in_turn, device, pairs)
    steps = epochs * len(data[1]) // training.batch
    return {"network": f"winze/spiral{size}x{size}, {name}", "networks": len(SEEDS), "steps": steps} | found


def networks(size: int, rule: Rule | None) -> tuple[list[Any], list[Alternation] | None]:
    """Ten networks, and the alternations that steer them."""
    nets = [SpiralMLP(width=size, depth=size) for _ in SEEDS]
    if rule is None:
        return nets, None
    rewired = [rewire(net, rule) for net in nets]
    staged = [Alternation(net, rows=256, seed=seed) for net, seed in zip(nets, SEEDS, strict=True) if rule.staged]
    return rewired, staged or None


if __name__ == "__main__":
    main()
