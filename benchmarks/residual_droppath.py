"""What a training step costs under ResidualDroppath, against the plain step of the same network in the same run.

Goals on one H200, ViT-B/16 at 224, batch 256, bf16, rate .1 everywhere, mean of the two stages, masks drawn inside the
timing: at most 0.75x with a counted draw, 0.80x with coins, and 0.35x the memory in stage 2; ViT-S at most 0.85x;
ResNet50 at most 1.05x dense, and below 1x with one mask a batch.

    python benchmarks/residual_droppath.py [--networks resnet50] [--only count coins] [--how eager|captured|compiled]

`captured` replays each stage's whole step as a CUDA graph, `compiled` has torch.compile make the network; then both
sides of the ratio are. Small networks leave a GPU waiting for Python: there `captured` says what the method costs.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm
import torch
from timing import RESULTS, merge, ratio, seconds
from torch import nn

import winze

NETWORKS = ("vit_base_patch16_224", "vit_small_patch16_224", "resnet50")
BATCH = {"cpu": 32, "cuda": 256}


@dataclass(frozen=True)
class Way:
    """A way to train: the rule, or timm's own DropPath at a rate; None and 0 are the plain network."""

    rule: winze.ResidualDropPath | winze.DropPath | None = None
    timm_rate: float = 0.0
    only: str = ""


def ours(rate: float = 0.1, **settings: str) -> winze.ResidualDropPath:
    """ResidualDroppath with the same rate everywhere."""
    return winze.ResidualDropPath(rate=rate, profile="constant", **settings)


WAYS = {
    "dense": Way(ours(compute="dense")),
    "count": Way(ours(draw="count", compute="rows"), only="vit"),
    "coins": Way(ours(compute="rows"), only="vit"),
    "count .3": Way(ours(0.3, draw="count", compute="rows"), only="vit"),
    "coins .3": Way(ours(0.3, compute="rows"), only="vit"),
    "count weights": Way(ours(draw="count", compute="rows", frozen="weights"), only="vit"),
    "batch": Way(ours(mask="batch")),
    "droppath of timm": Way(timm_rate=0.1),
    "droppath dense": Way(winze.DropPath(0.1, profile="constant", compute="dense")),
    "droppath count": Way(winze.DropPath(0.1, profile="constant", draw="count", compute="rows"), only="vit"),
    "droppath coins": Way(winze.DropPath(0.1, profile="constant", compute="rows"), only="vit"),
}


def main() -> None:
    """Measure every way of every network, and merge the rows into results/residual_droppath.json as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--only", nargs="+", default=list(WAYS), choices=list(WAYS), metavar="WAY")
    parser.add_argument("--how", default="eager", choices=("eager", "captured", "compiled"))
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    for name in args.networks:
        plain = Trained(name, Way(), args.device, args.batch, args.how)
        if args.how != "eager":
            against = Trained(name, Way(), args.device, args.batch, "eager")
            keep({"network": name, "way": "standard", "how": args.how, "batch": plain.batch}, plain, against, args)
            del against
        for way in args.only:
            measure(name, way, plain, args)


def measure(name: str, way: str, plain: Trained, args: argparse.Namespace) -> None:
    """One way of one network: time and memory of both stages against the plain step."""
    if WAYS[way].only not in name:
        return
    tried = Trained(name, WAYS[way], args.device, args.batch, args.how)
    for _ in range(4 if args.device == "cpu" else 20):  # the allocator and the choice of kernels settle
        tried.step()
    row: dict[str, Any] = {"network": name, "way": way, "how": args.how, "batch": tried.batch}
    base = statistics.median(seconds(plain.step, args.device) for _ in range(5))
    if tried.alternation is not None:
        times: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(10):
            stage = tried.alternation.stage
            times[stage].append(seconds(tried.step, args.device))
        row |= {f"stage{stage}": round(statistics.median(all_) / base, 4) for stage, all_ in times.items()}
    if args.device == "cuda" and args.how == "eager":
        row |= memory(tried, plain)
    keep(row, tried, plain, args)
    del tried
    if args.device == "cuda":
        torch.cuda.empty_cache()


def keep(row: dict[str, Any], tried: Trained, against: Trained, args: argparse.Namespace) -> None:
    """Add the ratio of times to a row, print it, and put it into the file of results."""
    what = ", ".join(row[name] for name in ("network", "way", "how"))
    row = {"what": what, **row, **ratio(twice(tried.step), twice(against.step), args.device, args.pairs)}
    print(row, flush=True)
    merge("residual_droppath", [row], args.device, args.out, alike="what")


class Trained:
    """A network with its optimizer and one batch, which it sees again and again."""

    def __init__(self, name: str, way: Way, device: str, batch: int | None, how: str) -> None:
        torch.manual_seed(0)
        self.batch = batch or BATCH[device]
        rates = {"drop_path_rate": way.timm_rate} if way.timm_rate else {}
        self.net = timm.create_model(name, **rates).to(device)
        self.alternation = None
        if way.rule is not None:
            winze.rewire(self.net, way.rule)
        if isinstance(way.rule, winze.ResidualDropPath):
            self.alternation = winze.Alternation(self.net, rows=self.batch)
        self.device = device
        self.called: Callable[..., Any] = torch.compile(self.net) if how == "compiled" else self.net
        settings: dict[str, Any] = {"fused": device == "cuda"}
        self.optimizer = (
            torch.optim.AdamW(self.net.parameters(), 1e-4, capturable=how == "captured", **settings)
            if "vit" in name
            else torch.optim.SGD(self.net.parameters(), 1e-2, momentum=0.9, **settings)
        )
        self.captured = how == "captured"
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.images = torch.randn(self.batch, 3, 224, 224, device=device)
        self.labels = torch.randint(1000, (self.batch,), device=device)

    def step(self) -> None:
        """One step of training, with the draw of the next masks."""
        if self.captured:
            self.graph().replay()
        else:
            self.learn()
        if self.alternation is not None:
            self.alternation.step()

    def learn(self) -> None:
        """Forward, backward and update."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16):
            loss = nn.functional.cross_entropy(self.called(self.images), self.labels)
        loss.backward()
        self.optimizer.step()

    def graph(self) -> torch.cuda.CUDAGraph:
        """The step of this stage as a CUDA graph."""
        stage = 0 if self.alternation is None else self.alternation.stage
        if stage not in self.graphs:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.learn()
            torch.cuda.current_stream().wait_stream(stream)
            self.graphs[stage] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[stage]):
                self.learn()
        return self.graphs[stage]


def twice(step: Callable[[], None]) -> Callable[[], None]:
    """Two steps: one of each stage, where there are stages."""

    def run() -> None:
        step()
        step()

    return run


def memory(tried: Trained, plain: Trained) -> dict[str, float]:
    """The most memory that a step needs beyond what the two networks hold at rest, in GiB."""
    found = {"memory_plain": peak(plain)}
    if tried.alternation is None:
        return found | {"memory": peak(tried)}
    stages = [(tried.alternation.stage, peak(tried)) for _ in range(2)]
    return found | {f"memory_stage{stage}": most for stage, most in sorted(stages)}


def peak(trained: Trained) -> float:
    """The most memory of one step."""
    trained.optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    rest = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    trained.step()
    torch.cuda.synchronize()
    most = torch.cuda.max_memory_allocated() - rest
    trained.optimizer.zero_grad(set_to_none=True)
    return round(most / 2**30, 3)


if __name__ == "__main__":
    main()
