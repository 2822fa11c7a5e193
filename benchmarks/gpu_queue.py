"""The recipe runs that are still missing on a GPU, most valuable first, as far as the time of a machine allows.

    python benchmarks/gpu_queue.py --list                                             # what is missing, in minutes
    python benchmarks/gpu_queue.py --items 1-4 --hold 25 --minutes 25 --pack out      # on the GPU
    python benchmarks/gpu_queue.py --unpack out && winze runs keep                    # back home
    python benchmarks/gpu_queue.py --mini --items 1-8 --hold 9 --pack out             # two tiny runs per item on a CPU

`--hold`: the minutes for which the machine is at hand, counted from the first command; only runs that end within them
are started. `--minutes` ends this command; the same command resumes from checkpoints, which need not leave the machine,
but every interruption loses up to two minutes. Where commands end after ten minutes, run this one under `setsid` and
wait for it in the others; `--list --pack` packs what has finished by then and runs nothing. `--pack` writes what
finished runs read, without weights, into at most 8 archives of less than 16 MiB, 64 MiB together. Runs that are kept in
results/ or finished in --out are skipped, and runs whose data is absent ($WINZE_DATA) are named. Runs with the same
flags share one pool of processes under MPS. Needs torch, timm, Lightning Fabric and what figures and probes import.

The first items are planned for machines of 25 minutes each (`MACHINES`), so that each closes whole questions:

    --items    minutes    what it decides                                                          runs
    1-4             24    masked autoencoders, alpha 1 or 0.6; generative features of grey images    58
    5-8             24    table 1 of ResidualDroppath with three seeds; synthetic data               47
    9-16            24    feature erosion; what temperature and rank have to do with forgetting      68

They read tinyimagenet100 (and tinyimagenet), mnist and fashion_mnist; cifar10, tinyimagenet and mnist; cifar10.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import tarfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from winze.atomic import write_atomically
from winze.lab import Job, Recipe, recipe
from winze.lab.runs.job import plain
from winze.lab.runs.results import load
from winze.lab.runs.store import Runs
from winze.lab.runs.sweep import sweep
from winze.train import Hardware, StoreError

THREADS = 1  # of every process, so that runs in pools of other sizes share trainings too
ARCHIVES, ROOM, TOGETHER = 8, 15 << 20, 62 << 20  # archives, bytes of files in each and in all, uncompressed
RESERVE = 45.0  # seconds that stay free at the end


@dataclass(frozen=True)
class Line:
    """Some runs of a recipe.

    `cost`: the seconds of a full GPU that one run takes, `again` those where its training is already in the folder,
    `alone` the seconds of a run that has the GPU to itself. `weights`: whether the weights come back too.

    Costs of convolutional networks and of generative/ follow from kept runs, whose time is divided among all that ran
    beside them: 12 to 15 s per 20 epochs of VGG-19 or ResNet-18 on CIFAR-10, 150 to 200 s per 300 epochs of ResNet50d
    beside seven others (533 s alone). Those of masked autoencoders and diffusion follow from the steps of one process
    (results/generative.json), which others may fill better; those of synthetic/ from its 11,000 kernels per step.
    """

    recipe: str
    cost: float
    alone: float
    at: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    again: float | None = None
    seeds: tuple[int, ...] | None = None
    scale: str = "gpu"
    settings: Mapping[str, Any] = field(default_factory=dict)
    processes: int = 12
    compiled: bool = False
    weights: bool = False

    def __str__(self) -> str:
        parts = [f"{name}={','.join(map(str, labels))}" for name, labels in self.at.items()]
        parts += [f"{name}={value}" for name, value in self.settings.items()]
        parts += [] if self.seeds is None else [f"seeds {','.join(map(str, self.seeds))}"]
        return " ".join([self.recipe, *([] if self.scale == "gpu" else [self.scale]), *parts])


def masked(name: str, at: Mapping[str, tuple[Any, ...]], **how: Any) -> Line:
    """Runs of a masked autoencoder: 400 epochs, compiled, at most 7 at once."""
    whole: dict[str, Any] = {"cost": 300, "alone": 480, "again": 40, "processes": 7, "compiled": True}
    return Line(f"decayed/{name}", at=at, **whole | how)


def table1(at: Mapping[str, tuple[Any, ...]], seeds: tuple[int, ...]) -> Line:
    """Runs of table 1 of ResidualDroppath for 300 epochs; beside more than seven others they would not end in time."""
    return Line("residual_droppath/table1", 180, 900, at, seeds=seeds, scale="paper", processes=8)


DROPPATH: dict[str, Any] = {"network": ("resnet50d",), "data": ("cifar10",), "profile": ("linear",)}
DROPPATH |= {"repeat": (1,), "junctions": ("all",)}
CIFAR, TINY, GREY = {"data": ("cifar10",)}, {"data": ("tinyimagenet100",)}, {"data": ("mnist", "fashion_mnist")}
PAIR: dict[str, Any] = {"alpha": (1.0, 0.6)}
SMALLER: dict[str, Any] = {"cost": 190, "alone": 330}
DIFFUSION: dict[str, Any] = {"cost": 480, "alone": 700, "again": None}
PLAN = (
    # masked autoencoders: the main contrast with three seeds; generative features on grey images
    masked("mae_alpha", TINY | PAIR, **SMALLER),
    Line("generative/drift", 8, 75, GREY, again=2),
    Line("generative/forgetting", 8, 75, GREY, again=2),
    Line("generative/reconstruction", 5, 45, GREY, again=3),
    # ResidualDroppath: table 1 with three seeds; synthetic data, whose small kernels fit beside it
    table1(DROPPATH | {"algorithm": ("output_sample", "weights_sample")}, (0, 1, 2)),
    Line("synthetic/meta", 100, 480, {"source": ("synthetic",)}, again=12, processes=8),
    Line("synthetic/meta", 100, 480, {"source": ("real", "gan", "mlp")}, again=12, processes=8),
    Line("synthetic/other_learners", 100, 480, again=4, processes=8),
    # feature erosion, whose runs share their first task, and forgetting
    Line("erosion/similarity", 28, 210),
    Line("erosion/plasticity", 36, 260, {"first": ("none",)}),
    Line("erosion/plasticity", 40, 260, {"first": ("random",)}, again=12),
    Line("erosion/needs", 28, 160, again=12),
    Line("erosion/ratio", 12, 160),
    Line("erosion/rules", 40, 260),
    Line("tunnel/swap_temperature", 28, 200),
    Line("tunnel/collapse_forgetting", 30, 200),
    # masked autoencoders on CIFAR-10, and what else is read of the same networks; diffusion
    masked("mae_alpha", CIFAR | PAIR),
    masked("mae_rank", PAIR),
    masked("mae_skips", CIFAR | {"skips": ("with",)}),
    masked("mae_skips", CIFAR | {"skips": ("without",)}),
    masked("diffusion", {"labels": ("none",)} | PAIR, **DIFFUSION),
    # more of all these
    Line("generative/drift", 24, 110, again=2),
    Line("generative/forgetting", 24, 110, again=2),
    Line("generative/reconstruction", 6, 45, again=3),
    Line("generative/transfer", 4, 45),
    Line("erosion/layers", 28, 220),
    masked("mae_alpha", CIFAR | {"alpha": (0.8, 0.7, 0.5)}),
    masked("mae_rank", {}),
    masked("mae_rules", {}, seeds=(0,)),
    # ResidualDroppath and the tunnel effect: what they still lack
    Line("residual_droppath/gradients", 30, 200),
    Line("tunnel/protocol", 90, 600, {"pool": ("mean",), "probe": ("ridge",)}, again=10),
    Line("tunnel/protocol", 90, 600, again=15),
    Line("tunnel/learning_rate", 45, 300),
    Line("tunnel/neural_collapse", 18, 200),
    Line("residual_droppath/freezing", 45, 300),
    Line("residual_droppath/table1", 45, 300, {"data": ("cifar10",)}, seeds=(0,)),
    table1(DROPPATH | {"algorithm": ("standard", "droppath"), "repeat": (2,)}, (0,)),
    table1(DROPPATH | {"network": ("resnet50",)}, (0,)),
    Line("residual_droppath/cost", 15, 15, processes=1),
    Line("tunnel/rules", 16, 200),
    Line("tunnel/capacity", 12, 150),
    Line("tunnel/substitution", 11, 120),
    Line("tunnel/shorter", 6, 80),
    Line("tunnel/held", 6, 80),
    Line("residual_droppath/ablation", 6, 60),
    # temperature and supervised decayed shortcuts at length
    Line("temperature/training", 130, 600, {"network": ("resnet20",), "temperature": (1, 1000)}, scale="paper"),
    Line("decayed/supervised", 300, 900, {"blocks": (8, 12, 16), "alpha": (1.0, 0.7, 0.4)}, scale="paper"),
    # more data, settings and length for masked autoencoders and diffusion
    masked("mae_skips", TINY, seeds=(0,), **SMALLER),
    masked("mae_maps", {}, seeds=(0,)),
    masked("diffusion", {"labels": ("none",), "alpha": (0.8, 0.7)}, seeds=(0,), **DIFFUSION),
    masked("diffusion", {"labels": ("classes",)}, seeds=(0,), **DIFFUSION),
    masked("mae_settings", {}, seeds=(0,)),
    masked("mae_alpha", CIFAR | PAIR, seeds=(0,), settings={"network.name": "winze/mae8x128"}, weights=True),
    masked("mae_alpha", CIFAR | PAIR, scale="paper", cost=580, alone=900),
)
"""What is run; the last two give encoders small enough to come with the package, and 800 epochs."""
MACHINES = ("1-4", "5-8", "9-16")
"""the items for one machine each"""
MINUTES = 25.0
"""the minutes of a machine that are left for runs"""

BRIEF = {"data.limit": 128, "training.batch": 64, "training.length.count": 1, "training.schedule.warmup.count": 0}
BRIEF |= {"training.precision": "32-true", "training.channels_last": False}
SMALL_NET = {"depth": 4, "width": 32, "decoder_depth": 2, "decoder_width": 32}
MINI: Mapping[str, dict[str, Any]] = {
    "decayed/mae": BRIEF
    | {f"network.options.{name}": value for name, value in SMALL_NET.items()}
    | {"watching.every.count": 1, "watching.probe_samples": 128},
    "decayed/diffusion": BRIEF
    | {"training.length.count": 8, "network.name": "winze/uvit2x32"}
    | {"times": (0.01, 0.1), "images": 64, "steps": 3},
    "generative/": {"data.limit": 400, "training.length.count": 2, "iterations": 5},
    "synthetic/": {"data.limit": 600, "training.length.count": 2, "orders": 2, "steps": (1, 2), "batches": (5, 20)}
    | {"gan.length.count": 3, "mlp.length.count": 3, "mlp_orders": 1, "training.objective.pool": 20}
    | {"training.objective.steps": 2},
    "residual_droppath/cost": {"pairs": 2, "training.batch": 4, "network.name": "winze/resnet20x0.25"}
    | {"training.precision": "32-true", "training.channels_last": False},
    "": BRIEF,
}
"""Settings of tiny runs, by the beginning of a recipe's name."""


@dataclass(frozen=True)
class Item:
    """A line of the plan: its recipe, and the runs of it that are not kept in results/ yet."""

    number: int
    line: Line
    recipe: Recipe
    jobs: tuple[Job, ...]
    kept: int

    @classmethod
    def of(cls, number: int, mini: bool = False) -> Item:
        """The item of a number; `mini`: its first and last run with settings that make them tiny."""
        line = PLAN[number - 1]
        if mini:
            own = next(settings for start, settings in MINI.items() if line.recipe.startswith(start))
            line = replace(line, settings={**line.settings, **own}, cost=5, alone=5, again=None, processes=2)
        made = recipe(line.recipe).with_settings(line.settings, line.scale)
        jobs = made.jobs(line.scale, line.at, line.seeds)
        if mini:
            return cls(number, line, made, tuple({job.key: job for job in (jobs[0], jobs[-1])}.values()), 0)
        kept = load(made).get(line.scale, {})
        left = tuple(job for job in jobs if job.seed not in kept.get(job.point, {}))
        return cls(number, line, made, left, len(jobs) - len(left))

    def ahead(self, runs: Runs, trained: set[str]) -> list[float]:
        """The seconds that each run will take that is not done; their trainings join `trained`."""
        seconds = []
        for job in self.jobs:
            if not is_done(runs, job):
                seconds.append(cost(self.line, job, trained))
                trained.add(training_of(job))
        return seconds

    def told(self, runs: Runs, trained: set[str]) -> str:
        """How many runs are done, how long the others take, and the line."""
        whole, ahead = self.kept + len(self.jobs), self.ahead(runs, trained)
        done = f"{whole - len(ahead):3d} of {whole:3d}  {sum(ahead) / 60:6.1f} min"
        return f"{self.number:2d}  {done}  {PLAN[self.number - 1]}"


def main() -> None:
    """Run the items, as far as the time allows; or list, or unpack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of runs")
    parser.add_argument("--minutes", type=float, default=1e6, help="time limit of this command")
    parser.add_argument("--hold", type=float, help="minutes of the machine, from the first command on")
    parser.add_argument("--items", default=f"1-{len(PLAN)}", help="numbers and ranges, in the order in which they run")
    parser.add_argument("--pack", type=Path, help="folder for archives of what finished runs read")
    parser.add_argument("--unpack", type=Path, help="folder of such archives, which go into --out")
    parser.add_argument("--list", action="store_true", help="print the items and end")
    parser.add_argument("--mini", action="store_true", help="two tiny runs of each item on the CPU, in OUT/mini")
    args = parser.parse_args()
    out = (args.out / "mini" if args.mini else args.out).absolute()
    if args.unpack is not None:
        print(f"{unpack(args.unpack, out)} runs unpacked into {out}")
        return
    try:
        items = [Item.of(number, args.mini) for number in numbers(args.items)]
    except ValueError as error:
        parser.error(str(error))
    if not args.list:
        begun = time.monotonic()
        left = math.inf if args.hold is None else held(out, args.hold)
        print(f"minutes of the machine: {left / 60:.1f}", flush=True)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 60 * args.minutes)
        try:
            perform(items, out, left, Hardware("cpu" if args.mini else "auto", threads=THREADS))
        except KeyboardInterrupt:
            print("the time of this command is over: the same command resumes")
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(f"{(time.monotonic() - begun) / 60:.1f} minutes")
    if args.pack is not None:
        print(pack(items, Runs(out), args.pack))
    trained: set[str] = set()
    print("\n".join(item.told(Runs(out), trained) for item in items))


def held(out: Path, minutes: float) -> float:
    """The seconds for which the machine is still at hand; the first command stores when they end."""
    file = out / ".until"
    left = float(json.loads(file.read_bytes())) - time.time() if file.is_file() else 0.0
    if left > 0:
        return left
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(time.time() + 60 * minutes).encode())
    return 60 * minutes


def perform(items: list[Item], out: Path, left: float, hardware: Hardware) -> None:
    """Run what fits, items with the same flags in one pool, until nothing fits; a run that fails is named."""
    ends, runs, failed = time.monotonic() + left - RESERVE, Runs(out), set[str]()
    while batch := fitting(items, runs, failed, ends - time.monotonic()):
        line = batch[0][0]
        how = replace(hardware, compile=line.compiled and hardware.accelerator != "cpu")
        jobs = [job for _, job in batch]
        print(f"{len(jobs)} runs of {', '.join(dict.fromkeys(one.recipe for one, _ in batch))}", flush=True)
        for done in sweep(jobs, out, jobs_at_once=line.processes, on="processes", hardware=how):
            if done.error is not None:
                failed.add(done.job.key)
                print(f"failed: {done.job}: {type(done.error).__name__}: {done.error}", flush=True)


def fitting(items: list[Item], runs: Runs, failed: set[str], left: float) -> list[tuple[Line, Job]]:
    """The next runs for one pool: those that were begun, then in order, as many as end within `left` seconds.

    Of runs that share a training, the first one trains; the others, which wait for it, come last.
    """
    open_: dict[str, tuple[Line, Job]] = {}
    trained, chosen, waiting = set[str](), list[tuple[Line, Job]](), list[tuple[Line, Job]]()
    for line, job in ((item.line, job) for item in items for job in item.jobs):
        if is_done(runs, job):
            trained.add(training_of(job))
        elif job.key not in failed:
            open_.setdefault(job.key, (line, job))
    total, begun = 0.0, set[str]()
    for line, job in sorted(open_.values(), key=lambda one: not runs.folder(one[1]).is_dir()):
        training = training_of(job)
        own = cost(line, job, trained | begun)
        longest = own if training in trained else max(own, line.alone)
        same = not chosen or (line.processes, line.compiled) == (chosen[0][0].processes, chosen[0][0].compiled)
        if same and total + own <= left and longest <= left:
            (waiting if training in begun else chosen).append((line, job))
            begun.add(training)
            total += own
    return chosen + waiting


def is_done(runs: Runs, job: Job) -> bool:
    """Whether a run is finished; a damaged one is not, and `sweep` names it."""
    try:
        return runs.is_done(job)
    except StoreError:
        return False


def cost(line: Line, job: Job, trained: set[str]) -> float:
    """The seconds of a full GPU that a run takes."""
    return line.again if line.again is not None and training_of(job) in trained else line.cost


def training_of(job: Job) -> str:
    """What runs have in common that share a training."""
    config = job.config
    own = [getattr(config, name, None) for name in ("network", "data", "training", "watching", "first", "square")]
    return json.dumps([job.recipe.partition("/")[0], job.seed, plain(own)], sort_keys=True)


def pack(items: Iterable[Item], runs: Runs, folder: Path) -> str:
    """Write what finished runs read into archives, runs in the order of the plan; says what did not fit."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {job.key: item.line for item in items for job in item.jobs if is_done(runs, job)}
    groups: list[list[Path]] = []
    rest, room, whole = 0, 0, TOGETHER
    for key, line in done.items():
        files = [one for one in sorted((runs.root / key).rglob("*")) if one.is_file()]
        files = [one for one in files if line.weights or one.suffix != ".safetensors"]
        size = sum(one.stat().st_size for one in files)
        if size > min(ROOM, whole) or (size > room and len(groups) == ARCHIVES):
            rest += 1
            continue
        if size > room:
            groups.append([])
            room = ROOM
        groups[-1] += files
        room, whole = room - size, whole - size
    for number, files in enumerate(groups, 1):
        with tarfile.open(folder / f"runs-{number}.tar.gz", "w:gz") as archive:
            for one in files:
                archive.add(one, one.relative_to(runs.root))
    said = f"{len(done) - rest} finished runs in {len(groups)} archives in {folder}"
    return f"{said}; {rest} did not fit" if rest else said


def unpack(folder: Path, out: Path) -> int:
    """Extract all archives of a folder; returns the number of runs."""
    out.mkdir(parents=True, exist_ok=True)
    keys: set[str] = set()
    for file in sorted(folder.rglob("runs-*.tar.gz")):
        with tarfile.open(file) as archive:
            keys |= {name.partition("/")[0] for name in archive.getnames()}
            archive.extractall(out, filter="data")
    return len(keys)


def numbers(text: str) -> list[int]:
    """The numbers of items in a text such as 9-14,3."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit() and 1 <= int(first) <= int(last or first) <= len(PLAN)):
            raise ValueError(f"--items are numbers and ranges from 1 to {len(PLAN)}, not {part!r}")
        found += range(int(first), int(last or first) + 1)
    return found


if __name__ == "__main__":
    main()
