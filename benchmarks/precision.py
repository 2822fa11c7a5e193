"""Every precision, with and without clipping, in one minute on a GPU: does it learn, go as far as float32, and resume?

Per precision and clip one row: the accuracy at the end by `fit` and by `evaluate`; how far clipped steps moved the
weights, as a share of float32's; and whether a training that was stopped between two checkpoints and resumed ends with
the same bits, gradient scaler included, as plain steps and, where they can be captured, as CUDA graphs. The losses of
the resumed trainings are so steep that a gradient scaler skips steps. Needs neither pytest nor data. A CPU has no
16-mixed: its rows are for a GPU alone.

    python benchmarks/precision.py [--device cuda] [--out results]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from timing import RESULTS, machine, save
from torch import Tensor, nn

from winze import __version__
from winze.networks import MLP
from winze.train import SGD, AdamW, Checkpoints, Classify, Epochs, Hardware, History, Training, evaluate, fit
from winze.train.training import Precision

POINTS = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
DATA = POINTS, (POINTS.sum(1) > 0).long()
SCALE = 65536.0  # that a gradient scaler starts from
STOP = 20  # a step between two checkpoints, which lie 8 steps apart


def main() -> None:
    """Measure every precision and write results/precision.json; rows of other devices are left as they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no GPU; a dry run: --device cpu --out /tmp/dry")
    known = [one for one in get_args(Precision) if one != "16-mixed" or args.device == "cuda"]
    rows = [row(args.device, precision, clip) for precision in known for clip in (None, 0.1)]
    print("written", keep(rows, args.device, args.out))
    if not all(one["holds"] for one in rows):
        sys.exit("a precision does not hold: see the rows")


def row(device: str, precision: Precision, clip: float | None) -> dict[str, Any]:
    """What one precision does, and whether all of it is as it should be."""
    _, history = trained(device, precision, clip and 0.5, tests={"test": DATA})
    net, _ = trained(device, precision, clip and 0.5)
    found: dict[str, Any] = {
        "precision": precision,
        "clip": clip is not None,
        "accuracy": round(history.metrics[-1]["accuracy"], 4),
        "evaluated": round(evaluate(net, [DATA]), 4),
    }
    moved = []
    for optimizer in (SGD(0.2), AdamW(0.2)):
        ends = [moved_by(device, one, clip, optimizer) for one in (precision, "32-true")]
        moved.append(round(ends[0] / ends[1], 3))
    found["moved_against_float32"] = moved
    forms = ["plain", *(["auto"] if device == "cuda" and precision != "16-mixed" else [])]
    found["resumed"] = {form: resumed(device, precision, clip, form) for form in forms}
    learns = found["accuracy"] > 0.9 and abs(found["accuracy"] - found["evaluated"]) < 0.02
    same = all(one["identical"] and one["scaled"] == (precision == "16-mixed") for one in found["resumed"].values())
    found["holds"] = learns and same and all(abs(one - 1) < 0.4 for one in moved)
    print(found, flush=True)
    return found


def trained(
    device: str,
    precision: Any,
    clip: float | None,
    epochs: int = 10,
    step: Any = "auto",
    checkpoints: Checkpoints | None = None,
    followers: Sequence[Any] = (),
    tests: Any = None,
    **settings: Any,
) -> tuple[nn.Module, History]:
    """A small training with momentum and dropout, from the same start each time."""
    torch.manual_seed(0)
    net = nn.Sequential(MLP(4, 16, 2, 2), nn.Dropout(0.0))
    training = Training(
        Epochs(epochs), 32, **{"optimizer": SGD(0.2, momentum=0.9), "precision": precision, "clip": clip, **settings}
    )
    on = Hardware(device, deterministic=True, step=step)
    how: Any = {"checkpoints": checkpoints, "followers": followers, "tests": tests, "progress": False}
    return net, fit(net, DATA, training, hardware=on, **how)


def moved_by(device: str, precision: Any, clip: float | None, optimizer: Any) -> float:
    """The distance from the start after two epochs."""
    torch.manual_seed(0)
    start = weights(MLP(4, 16, 2, 2))
    net, _ = trained(device, precision, clip, epochs=2, optimizer=optimizer)
    return float((weights(net) - start).norm())


def resumed(device: str, precision: Any, clip: float | None, step: str) -> dict[str, Any]:
    """Whether a training that is stopped and resumed ends as the one that is not, and whether a scaler skipped steps
    before."""

    def stop(net: nn.Module, number: int) -> None:
        if number == STOP:
            raise KeyboardInterrupt

    ema = None if precision == "bf16-true" else 0.5
    hot: Any = {"objective": Classify(temperature=1e-3), "optimizer": SGD(1e-4, momentum=0.9), "ema": ema}
    whole, history = trained(device, precision, clip, step=step, **hot)
    with tempfile.TemporaryDirectory() as folder:
        try:
            trained(device, precision, clip, step=step, checkpoints=Checkpoints(folder), followers=[stop], **hot)
        except KeyboardInterrupt:
            at = Checkpoints(folder).newest()
        assert at is not None
        net, again = trained(device, precision, clip, step=step, checkpoints=Checkpoints(folder), **hot)
    same = torch.equal(weights(net), weights(whole)) and again.metrics == history.metrics
    scaler = at.state["scaler"]
    return {"identical": same, "from_step": at.step, "scaled": scaler is not None and scaler["scale"] < SCALE}


def weights(net: nn.Module) -> Tensor:
    """All parameters in one row."""
    return torch.cat([value.detach().double().cpu().flatten() for value in net.parameters()])


def keep(rows: list[dict[str, Any]], device: str, folder: Path) -> Path:
    """Write the rows after those that other devices and versions of torch gave."""
    where = {**machine(device), "winze": __version__}
    file, own = folder / "precision.json", {key: where[key] for key in ("device", "torch", "date")}
    before = json.loads(file.read_text()) if file.exists() else {"machine": {}, "rows": []}
    rows = [{**own, **one} for one in rows]
    machines = {**before["machine"], f"{where['device']}, {where['date']}": where}
    return save("precision", {"machine": machines, "rows": [*before["rows"], *rows]}, folder)


if __name__ == "__main__":
    main()
