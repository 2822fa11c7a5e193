"""A run of a fraction of a second with all that a training may hold: dropout, BatchNorm, momentum, an average of the
weights, a staged rule with its alternation, a watch, a scan, and draws between the phases."""

import sys
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import nn

from winze import Alternation, ResidualDropPath, Watch, rewire, scan
from winze.lab.runs.job import Job
from winze.lab.runs.perform import perform
from winze.lab.runs.store import METRICS, RUN, Runs
from winze.networks import build, describe
from winze.readings import ARRAYS, MANIFEST, ROWS, Point
from winze.train import SGD, AdamW, Cosine, Epochs, Hardware, Training

OUTCOME = (ROWS, ARRAYS, MANIFEST, METRICS, "net.safetensors")


@dataclass(frozen=True)
class Config:
    first: Training
    second: Training


def spots():
    """Points in three heaps, in a draw of their own."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(60) % 3
    return torch.randn(60, 4, generator=generator) + labels[:, None], labels


def work(config, bench, onlooker=None):
    x, y = spots()
    plain = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    onlookers = [] if onlooker is None else [onlooker]
    first = bench.train(plain, (x, y), config.first, name="first", tests={"test": (x, y)}, followers=onlookers)
    for name, value in plain.state_dict().items():
        bench.readings.arrays[name] = value.numpy()
    spec = describe("winze/resmlp3x8", 3, ResidualDropPath(0.3), inputs=4)
    net = build(spec)
    watch = Watch(net, (x, y), every=5, measures=("rank", "weight_change"))
    stages = Alternation(net, rows=config.second.batch, seed=1)
    second = bench.train(net, (x, y), config.second, name="second", followers=[stages, watch])
    bench.readings.add("loss", first.losses[-1], data="first")
    bench.readings.add("loss", second.losses[-1], data="second")
    bench.readings.add("drawn", torch.rand(()), data="after")
    for read in (watch.readings, scan(net, (x, y), (x, y), measures=("rank", "probe")).readings):
        bench.readings.rows.extend(read.rows)
    bench.keep(rewire(net, ResidualDropPath(0.3)), spec)


RECIPE = SimpleNamespace(work=work)


def job(epochs=2, seed=0):
    first = Training(Epochs(epochs), 16, SGD(momentum=0.9), ema=0.9)
    second = Training(Epochs(epochs), 16, AdamW(0.01), Cosine())
    return Job("small/work", "smoke", Point(), seed, Config(first, second))


def outcome(folder):
    """All bytes that must not depend on how often a run was stopped."""
    return {name: (folder / name).read_bytes() for name in OUTCOME}


def names(folder):
    """What a folder holds."""
    return sorted(path.name for path in folder.iterdir())


def settled(folder):
    """Whether all that a finished run leaves is there: nothing half-written, no checkpoint."""
    return names(folder) == sorted((*OUTCOME, RUN))


if __name__ == "__main__":
    root, epochs, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    todo = job(epochs)
    sys.stdout.write("begin\n")
    sys.stdout.flush()
    perform(todo, Runs(root), hardware=Hardware(threads=threads, accelerator="cpu"), recipe=RECIPE)
    sys.stdout.write("end\n")
