"""What training and sampling generative models cost on a GPU: plain, captured, and captured and compiled steps.

Images per second of masked autoencoders (winze/mae_32 and mae_64, B=1024; once with a residual stream of 16 bits) and
of a U-ViT (winze/uvit_tiny, B=256) in bf16, with augmentation on the device; a bare compiled and captured loop over
timm's blocks without rules, augmentation or data; the seconds of 10,000 images by 50 steps of DPM-Solver. Goals: the
captured and compiled step of mae_32 at least 5 times the speed of the plain one, an epoch of 50,000 images below 0.6 s;
that of mae_64 at most 1.05 times the bare one.

    python benchmarks/generative.py [--steps 200] [--images 10000] [--only mae_64] [--out results]
    python benchmarks/generative.py --device cpu --batch 8 --steps 1 --images 2 --out /tmp    # whether it runs at all
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
WAYS: dict[str, dict[str, Any]] = {
    "plain steps": {"step": "plain"},
    "captured steps": {"step": "graph"},
    "captured and compiled steps": {"step": "graph", "compile": True},
}
ON_CPU: dict[str, dict[str, Any]] = {"plain steps": {}, "compiled steps": {"compile": True}}
CROPS = (RandomResizedCrop((0.2, 1.0)), Flip())
MASKED: dict[str, Any] = {"batch": 1024, "objective": MaskedReconstruct(), "augment": CROPS}
MODELS: dict[str, tuple[str, int, dict[str, Any], dict[str, Any]]] = {
    "mae_32": ("winze/mae_32", 32, {}, MASKED),
    "mae_32, stream of 16 bits": ("winze/mae_32", 32, {"half_stream": True}, MASKED),
    "mae_64": ("winze/mae_64", 64, {}, MASKED),
    "uvit_tiny": ("winze/uvit_tiny", 32, {}, {"batch": 256, "objective": Denoise(), "augment": (Flip(),)}),
}
"""A network, the side of its images, its options, and how it is trained."""


class Clock:
    """Follows the steps and notes the time after the warm-up and at the end."""

    def __init__(self, steps: int, warm: int) -> None:
        self.steps, self.warm, self.begun, self.ended = steps, warm, 0.0, 0.0

    def after_step(self, net: nn.Module, step: int) -> None:
        """Look at the clock where it is time."""
        if step in (self.warm, self.warm + self.steps):
            now = at_rest()
            self.begun, self.ended = (now, 0.0) if step == self.warm else (self.begun, now)

    def after_epoch(self, net: nn.Module, epoch: int) -> None:
        """Nothing to report."""


def at_rest() -> float:
    """The time when the GPU, if there is one, has done all its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    """Measure every model every way, and merge the rows into results/generative.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="timed steps")
    parser.add_argument("--images", type=int, default=10_000, help="images to draw")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, help="another batch than that of the goals")
    parser.add_argument("--only", choices=[*MODELS, "sampling"], help="measure one of them")
    args = parser.parse_args()
    for name in MODELS:  # each is written when it is there, so that a time limit costs no more than one
        if args.only in (None, name):
            rows = trained(name, args.steps, args.device, args.batch)
            if name.startswith("mae") and args.device == "cuda":
                rows.append(bare(name, args.steps, rows[-1]["images_per_second"]))
                print(rows[-1], flush=True)
            print("written", merge("generative", rows, args.device, args.out), flush=True)
    if args.only in (None, "sampling"):
        print("written", merge("generative", [sampled(args.images, args.device)], args.device, args.out))


def trained(label: str, steps: int, device: str = "cuda", batch: int | None = None) -> list[dict[str, Any]]:
    """Images per second of every way to take steps, and the ratio to plain ones."""
    name, side, options, own = MODELS[label]
    own = own if batch is None else own | {"batch": batch}
    ways, warm = (WAYS, WARM) if device == "cuda" else (ON_CPU, 1)
    images = torch.randint(0, 256, (50_000, 3, side, side), dtype=torch.uint8)
    rows: list[dict[str, Any]] = []
    for way, how in ways.items():
        net = build(name, **options)
        rewire(net, DecayedIdentity(0.7), "encoder.*" if "mae" in name else None, example=torch.zeros(2, 3, side, side))
        clock = Clock(steps, warm)
        training = Training(
            Steps(warm + steps),
            optimizer=AdamW(6e-4, betas=(0.9, 0.95)),
            precision="bf16-mixed",
            drop_last=True,
            evaluate=Steps(warm + steps),
            **own,
        )
        hardware = Hardware(accelerator=device, **how)
        fit(net, images, training, preprocess=PREPROCESS, hardware=hardware, followers=[clock], progress=False)
        rate = steps * own["batch"] / (clock.ended - clock.begun)
        base = rows[0]["images_per_second"] if rows else rate
        row = {"network": _named(label, side, own["batch"]), "how": way, "images_per_second": round(rate)}
        rows.append(row | {"ratio": round(rate / base, 2), "seconds_per_50k": round(50_000 / rate, 3), "steps": steps})
        print(rows[-1], flush=True)
    return rows


def bare(label: str, steps: int, ours: float) -> dict[str, Any]:
    """A compiled network without rules in a captured loop of one batch; `ratio`: our time per step against it."""
    name, side, options, own = MODELS[label]
    net, batch = build(name, **options).cuda(), own["batch"]
    step_of, x = torch.compile(net), torch.randn(batch, 3, side, side, device="cuda")
    objective = MaskedReconstruct().build(1)
    optimizer = torch.optim.AdamW(net.parameters(), 6e-4, (0.9, 0.95), fused=True, capturable=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = objective(step_of, x, None)
        loss.backward()
        optimizer.step()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for turns in (WARM, steps):
        start = at_rest()
        for _ in range(turns):
            graph.replay()
    rate = steps * batch / (at_rest() - start)
    row = {"network": _named(label, side, batch), "how": "bare compiled and captured loop, no rules, no data"}
    return row | {"images_per_second": round(rate), "ratio": round(rate / ours, 3), "steps": steps}


def _named(label: str, side: int, batch: int) -> str:
    return f"winze/{label}, {side}x{side}, bf16-mixed, B={batch}"


def sampled(images: int, device: str = "cuda") -> dict[str, Any]:
    """The seconds of so many images, after a short warm-up."""
    net = build("winze/uvit_tiny").to(device)
    with torch.autocast(device, torch.bfloat16):
        draw(net, (min(images, 500), 3, 32, 32), steps=3, batch=500)
        start = at_rest()
        draw(net, (images, 3, 32, 32), steps=50, batch=1000)
        seconds = at_rest() - start
    return {
        "network": "winze/uvit_tiny, 32x32, bf16-mixed",
        "how": "DPM-Solver-3, 50 steps",
        "images": images,
        "seconds": round(seconds, 2),
    }


if __name__ == "__main__":
    main()
