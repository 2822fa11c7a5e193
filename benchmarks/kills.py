"""Real kills: a run (digits MLP, trained and scanned) is killed with SIGKILL at random moments and taken up again.

Goal: after 25 kills and more, weights, metrics and readings of every run equal, byte for byte, those of a run that was
never stopped. A kill counts where the process was at work (after its imports), and wherever it came: while training,
while scanning, or in the middle of a file.

    python benchmarks/kills.py [--kills 30] [--seed 0] [--epochs 80] [--out results]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from timing import RESULTS, machine, save

from winze import __version__, scan
from winze.data import Preprocess, load
from winze.lab.bench import Bench
from winze.lab.runs.job import Job
from winze.lab.runs.perform import perform
from winze.lab.runs.store import METRICS, Runs, read
from winze.networks import build, describe
from winze.readings import ARRAYS, MANIFEST, ROWS, Point
from winze.train import SGD, Epochs, Hardware, Steps, Training

OUTCOME = ("net.safetensors", METRICS, ROWS, ARRAYS, MANIFEST)
MOST = 3  # kills a run


@dataclass(frozen=True)
class Digits:
    """What the run is: an MLP on digits 0-4, read with digits 5-9 too."""

    training: Training
    network: str = "winze/mlp4x256"


def work(config: Digits, bench: Bench) -> None:
    """Train, scan, keep."""
    digits, others = load("digits[0-4]"), load("digits[5-9]")
    preprocess = Preprocess.of(digits)
    spec = describe(config.network, len(digits.classes), inputs=64)
    net = build(spec)
    bench.train(net, digits, config.training, preprocess=preprocess)
    train, test = ((preprocess(x), y) for x, y in (digits.train, digits.test))
    ood = {others.name: tuple((preprocess(x), y) for x, y in (others.train, others.test))}
    bench.readings.extend(scan(net, train, test, ood=ood, name=digits.name, costs=False).readings)
    bench.keep(net, spec)


def job(epochs: int) -> Job:
    """The one run of this benchmark."""
    training = Training(Epochs(epochs), 128, SGD(0.05, momentum=0.9), checkpoint=Steps(3))
    return Job("benchmarks/kills", "cpu", Point(), 0, Digits(training))


def main() -> None:
    """Kill and take up again until there are enough kills; write results/kills.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work is not None:
        import lightning_fabric  # noqa: F401

        load("digits")  # and with it scikit-learn: kills should meet the run, not its imports
        print("begin", flush=True)
        perform(job(args.epochs), Runs(args.work), hardware=HARDWARE, recipe=SimpleNamespace(work=work))
        print("end", flush=True)
        return
    start, moments = time.perf_counter(), random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = Runs(Path(folder) / "whole")
        finish(whole, args.epochs)
        expected, rows = outcome(whole, args.epochs), []
        length = float((read(whole.folder(job(args.epochs))) or {})["seconds"])
        while sum(len(row["kills"]) for row in rows) < args.kills:
            runs = Runs(Path(folder) / f"run{len(rows)}")
            kills = kill_some(runs, args.epochs, length, moments, args.kills - sum(len(row["kills"]) for row in rows))
            finish(runs, args.epochs)
            found = outcome(runs, args.epochs)
            differ = [name for name in OUTCOME if found[name] != expected[name]]
            if kills:  # else it was done before its first kill
                rows.append({"identical": not differ, "differ": differ, "kills": kills})
                print(rows[-1], flush=True)
    kills = [kill for row in rows for kill in row["kills"]]
    content = {
        "machine": {**machine("cpu"), "threads": HARDWARE.threads, "winze": __version__},
        "kills": len(kills),
        "kills_while_training": sum(kill["at"] == "training" for kill in kills),
        "kills_in_the_middle_of_a_file": sum(kill["half_written"] for kill in kills),
        "killed_runs": len(rows),
        "identical_runs": sum(row["identical"] for row in rows),
        "compared": list(OUTCOME),
        "epochs": args.epochs,
        "seconds_of_one_run": round(length, 2),
        "seconds": round(time.perf_counter() - start, 1),
        "rows": rows,
    }
    print("written", save("kills", content, args.out))
    if not all(row["identical"] for row in rows):
        sys.exit("a killed run ended otherwise than one that was never stopped")


HARDWARE = Hardware(accelerator="cpu", threads=1)


def kill_some(runs: Runs, epochs: int, length: float, moments: random.Random, most: int) -> list[dict[str, Any]]:
    """Start a run and kill it, again and again, each time at a moment of its own; what each kill met."""
    kills: list[dict[str, Any]] = []
    while len(kills) < min(most, MOST):
        with started(runs, epochs) as process:
            wait = moments.uniform(0, length / 2)
            try:
                process.wait(wait)
                break  # it was done before
            except subprocess.TimeoutExpired:
                process.kill()
        kills.append({"after_seconds": round(wait, 3), **met(runs.folder(job(epochs)), epochs)})
    return kills


def met(folder: Path, epochs: int) -> dict[str, Any]:
    """How far a killed run had come."""
    path = folder / METRICS
    lines = len(path.read_text().splitlines()) if path.is_file() else 0
    half = any(file.name.startswith(".") and file.is_file() for file in folder.rglob("*")) if folder.exists() else False
    return {"epochs": lines, "at": "training" if lines < epochs else "after training", "half_written": half}


def finish(runs: Runs, epochs: int) -> None:
    """Let a run come to its end."""
    with started(runs, epochs) as process:
        if process.wait() != 0:
            sys.exit(f"the run failed: {(read(runs.folder(job(epochs))) or {}).get('error')}")


def started(runs: Runs, epochs: int) -> subprocess.Popen[str]:
    """A process at work on the run, its imports behind it."""
    command = [sys.executable, __file__, "--work", str(runs.root), "--epochs", str(epochs)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n"
    return process


def outcome(runs: Runs, epochs: int) -> dict[str, bytes]:
    """All that must not depend on kills."""
    folder = runs.folder(job(epochs))
    return {name: (folder / name).read_bytes() for name in OUTCOME}


if __name__ == "__main__":
    main()
