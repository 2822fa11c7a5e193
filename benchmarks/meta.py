"""What one meta-iteration costs: memory and seconds of 25 to 200 unrolled steps, with the plain graph and recomputed.

Memory is the most that graphs held at one moment: on a CPU the bytes of tensors that autograd stored, on a GPU what
CUDA allocated. Goals: recomputed memory grows with the square root of the steps or less (a factor of at most 2.83 from
25 to 200), and the prediction that `Teach` makes before it starts lies within a factor of 1.5 of what was measured.

    python benchmarks/meta.py [--device cpu|cuda] [--out results]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timing import RESULTS, merge
from torch import Tensor

from winze.networks import build
from winze.train.objectives.teach import Teach, learner, picks, pools
from winze.train.unroll import Course, Unrolled, root, step_bytes, unrolled_bytes

STEPS = (25, 50, 100, 200)
TASKS = (2, 2, 2, 2, 2)
WIDTHS = {"cpu": 8, "cuda": 64}  # channels of the learner's first convolution; 64 is the published one


def main() -> None:
    """Measure every number of steps both ways, and merge the rows into results/meta.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows = []
    for recompute in (False, True):
        for steps in STEPS:
            rows.append(measured(steps, recompute, args.device))
            print(rows[-1], flush=True)
    print("written", merge("meta", rows, args.device, args.out))


def measured(steps: int, recompute: bool, device: str) -> dict[str, Any]:
    """One forward and backward pass of the meta-loss: megabytes, those that were predicted, and seconds."""
    torch.manual_seed(0)
    goal, x = Teach(), torch.randn(256, 1, 28, 28, device=device)
    y = torch.arange(256, device=device) % 10
    generator = build("winze/generator").to(device)
    unrolled = Unrolled(learner(goal.learner, {"width": WIDTHS[device]}, x), root(steps) if recompute else 0)
    images, labels = pools(generator, list(range(10)), TASKS, goal.pool, x)
    course = Course(images, labels, picks(TASKS, goal.pool, goal.batch, steps // len(TASKS), x.device))
    lr, momentum = (torch.tensor(value, device=device, requires_grad=True) for value in (goal.lr, goal.momentum))
    state = unrolled.start()
    one = step_bytes(unrolled, state, course, lr, momentum)
    predicted = unrolled_bytes(one, state, steps, unrolled.segment)
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    peak = graph_bytes(lambda: F.cross_entropy(unrolled.logits(unrolled(state, course, lr, momentum), x), y).backward())
    if device == "cuda":
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
    return {
        "name": f"{steps} steps, {'recomputed' if recompute else 'plain'}",
        "steps": steps,
        "segment": unrolled.segment,
        "megabytes": round(peak / 1e6, 2),
        "predicted": round(predicted / 1e6, 2),
        "seconds": round(time.perf_counter() - start, 3),
        "width": WIDTHS[device],
    }


def graph_bytes(run: Callable[[], Any]) -> int:
    """The largest number of bytes that autograd's graphs held at one moment of a call."""
    held: dict[int, tuple[int, int]] = {}
    peak = [0]

    class Stored:
        def __init__(self, tensor: Tensor) -> None:
            self.tensor, self.storage = tensor.detach(), tensor.untyped_storage().data_ptr()
            count, size = held.get(self.storage, (0, tensor.untyped_storage().nbytes()))
            held[self.storage] = count + 1, size
            peak[0] = max(peak[0], sum(size for _, size in held.values()))

        def __del__(self) -> None:
            count, size = held.pop(self.storage)
            if count > 1:
                held[self.storage] = count - 1, size

    with torch.autograd.graph.saved_tensors_hooks(Stored, lambda stored: stored.tensor):
        run()
    return peak[0]


if __name__ == "__main__":
    main()
