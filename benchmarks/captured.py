"""Captured steps against plain ones for every objective: is a CUDA graph's training the plain one, bit for bit?

Each objective of tests/train/objectives.py, and the GAN of tests/train/learners, trains twice from one start on one
GPU with deterministic kernels: once captured (the first steps are compared inside `fit`), once plainly. The row has the
largest difference between the two in any parameter, buffer or metric at the end.

    python benchmarks/captured.py [--steps 60] [--out results]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, machine, save
from torch import Tensor

from winze import __version__
from winze.train import AdamW, Hardware, History, Steps, Training, fit

TESTS = Path(__file__).parent.parent / "tests" / "train"
sys.path[:0] = [str(TESTS), str(TESTS / "learners")]

Learn = Callable[[Hardware], tuple[History, dict[str, torch.nn.Module]]]


def main() -> None:
    """Measure every objective and write results/captured.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("CUDA graphs need a GPU")
    rows = [row(name, learn, args.steps) for name, learn in learners(args.steps).items()]
    where = {**machine("cuda"), "cuda": torch.version.cuda, "winze": __version__}
    print("written", save("captured", {"machine": where, "steps": args.steps, "rows": rows}, args.out))
    if not all(one["identical"] for one in rows):
        sys.exit("a captured training ended otherwise than a plain one")


def learners(steps: int) -> dict[str, Learn]:
    """A training of every objective, by name."""
    import gan
    from objectives import CASES

    def of(case: Any) -> Learn:
        def learn(hardware: Hardware) -> tuple[History, dict[str, torch.nn.Module]]:
            net = case.net()
            training = Training(Steps(steps), 16, AdamW(0.01), objective=case.objective)
            return fit(net, case.data, training, hardware=hardware, progress=False), {"net": net}

        return learn

    return {name: of(case) for name, case in CASES.items()} | {"gan": lambda on: gan.learn(steps, hardware=on)}


def row(name: str, learn: Learn, steps: int) -> dict[str, Any]:
    """How far the two trainings of one objective are apart at the end."""
    ends = [outcome(learn, step) for step in ("graph", "plain")]
    apart = {key: float((ends[0][key] - ends[1][key]).abs().max()) for key in ends[1] if ends[1][key].numel()}
    worst = max(apart, key=lambda key: apart[key])
    found = {"objective": name, "identical": not any(apart.values()), "difference": apart[worst], "steps": steps}
    print(found | {"where": worst} if apart[worst] else found, flush=True)
    return found


def outcome(learn: Learn, step: str) -> dict[str, Tensor]:
    """Parameters, buffers and metrics at the end of a training."""
    torch.manual_seed(0)
    history, nets = learn(Hardware("cuda", step=step, deterministic=True))
    states = {f"{of}.{key}": value for of, net in nets.items() for key, value in net.state_dict().items()}
    metrics = {f"row {i}": torch.tensor(list(one.values())) for i, one in enumerate(history.metrics)}
    return {key: value.detach().double().cpu() for key, value in {**states, **metrics}.items()}


if __name__ == "__main__":
    main()
