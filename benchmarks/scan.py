"""What a scan costs against the plain forward, how much memory it takes, and how exact it is; peers beside it.

The network is timm's resnet18 with channels (32, 64, 128, 256) on 32x32 images, read at its 20 convolutions. So that it
is 32 wide from its first layer on and reads small images as such networks do, its stem is one 3x3 convolution without
max pooling; the row `timm's own stem` keeps the 7x7 stem with 64 channels (21 convolutions). Weights are random.

Goals on CPU and GPU with pool="mean": CKA of all pairs at most 1.15x the plain forward over the same data; everything
at most 2.0x the plain forward over train and test; at most 64 MB of memory beyond one batch's features.

    python benchmarks/scan.py [--device cuda] [--pairs 10] [--images 1024] [--only winze,delve] [--out results]
    python benchmarks/scan.py --networks all --device cuda     # networks of timm: see scan_networks.py

About half an hour on 2 cores, most of it the peers. `make peers` installs the tools of `peers.py` in an environment of
their own; those that are missing get a row that says so. Each row is measured in one process, and its memory in
several others; a peer's CKA is also timed beside winze's, in several processes, since how memory happens to lie in one
shifts all of its pairs.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, median, merge, ratio, seconds
from torch import Tensor, nn

HERE = Path(__file__).parent
PEERS = ("pytorch-cka", "cka-pytorch", "torch-cka", "delve")
PEERS_PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"
CHANNELS = (32, 64, 128, 256)
PROCESSES = 6
"""In how many a peer is timed beside winze."""
WEIGHED = 3
"""In how many its memory is measured."""
TIDY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""With these the C library gives memory back as soon as it is free, and what is resident is what is held."""
TIMES = 100
"""How many times the spread of its features a place's mean is, in the second measure of the error."""


@dataclass(frozen=True)
class Setting:
    """What all rows share: where, on how much, how often."""

    device: str
    images: int
    batch: int
    pairs: int

    def less(self, parts: int, pairs: int) -> Setting:
        """A part of the images, though two batches where there are, and not more than so many pairs."""
        images = min(self.images, max(2 * self.batch, self.images // parts))
        return Setting(self.device, images, self.batch, min(self.pairs, pairs))


@dataclass(frozen=True)
class Case:
    """One row: a tool at work on a network, and what its CKA is held against."""

    tool: str
    how: str
    run: Callable[[nn.Module, Any, Any, list[str]], Any]  # network, train, test, places
    train: bool = False
    pool: str | None = "mean"  # of the features that the reference sees; None: no error is measured
    stem: str = "3x3"
    parts: int = 1
    pairs: int = 10
    only: tuple[str, ...] = ()  # read at these places only, and time one run


class Batches:
    """Images and labels as batches on the device; looks to each tool like the loader it wants."""

    def __init__(self, x: Tensor, y: Tensor, batch: int) -> None:
        self.x, self.y, self.batch, self.dataset = x, y, batch, "random images"

    def __len__(self) -> int:
        return (len(self.x) + self.batch - 1) // self.batch

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self.x.split(self.batch), self.y.split(self.batch), strict=True)


def network(device: str, stem: str = "3x3") -> nn.Module:
    """PEERS' network, or torchvision's (twice as wide) where timm is not installed."""
    torch.manual_seed(0)
    try:
        import timm
    except ImportError:
        import torchvision

        print("timm is not installed: torchvision's resnet18, 64 wide, stands in", file=sys.stderr)
        net, width = torchvision.models.resnet18(num_classes=10), 64
    else:
        net, width = timm.create_model("resnet18", channels=CHANNELS, num_classes=10, zero_init_last=False), CHANNELS[0]
    if stem == "3x3":
        net.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        net.bn1 = nn.BatchNorm2d(width)
        net.maxpool = nn.Identity()
        net.layer1[0].conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        if net.layer1[0].downsample is not None:
            del net.layer1[0].downsample  # None in its place would stay among the child modules
            net.layer1[0].downsample = None
    return net.to(device).eval()


def convolutions(net: nn.Module) -> list[str]:
    """Their names, in order."""
    return [name for name, module in net.named_modules() if isinstance(module, nn.Conv2d)]


def data(images: int, batch: int, device: str, seed: int) -> Batches:
    """Random images around one pattern for each of ten classes."""
    x = torch.randn(images, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    patterns = torch.randn(10, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    y = torch.arange(images) % 10
    return Batches((x + patterns[y] / 2).to(device), y, batch)


@torch.no_grad()
def plain(net: nn.Module, *splits: Iterable[tuple[Tensor, Tensor]]) -> None:
    """The forward that everything is compared with."""
    for split in splits:
        for x, _ in split:
            net(x)


@torch.no_grad()
def features(net: nn.Module, places: list[str], batches: Batches, pool: str) -> Iterator[list[Tensor]]:
    """What each batch leaves at each place, as the network computes it."""
    found: dict[str, Tensor] = {}

    def keep(name: str, module: nn.Module, args: Any, output: Tensor) -> None:
        found[name] = output.mean((2, 3)) if pool == "mean" else output.flatten(1)

    handles = [net.get_submodule(name).register_forward_hook(partial(keep, name)) for name in places]
    try:
        for x, _ in batches:
            net(x)
            yield [found.pop(name) for name in places]
    finally:
        for handle in handles:
            handle.remove()


def reference(net: nn.Module, places: list[str], batches: Batches, pool: str) -> Tensor:
    """Unbiased minibatch CKA of all pairs in float64: HSIC as written down by Song et al., on centred features."""
    total = torch.zeros(len(places), len(places), dtype=torch.float64)
    for batch in features(net, places, batches, pool):
        n = len(batch[0])
        grams = torch.stack([_gram(x) for x in batch])
        rows, sums = grams.sum(2), grams.sum((1, 2))
        trace = torch.einsum("aij,bij->ab", grams, grams)
        hsic = trace + torch.outer(sums, sums) / ((n - 1) * (n - 2)) - 2 / (n - 2) * rows @ rows.T
        total += n * (hsic / (n * (n - 3))).cpu()
    size = total.diagonal().sqrt()
    return total / torch.outer(size, size)


def _gram(x: Tensor) -> Tensor:
    x = x.double()
    x = x - x.mean(0)
    return (x @ x.T).fill_diagonal_(0)


def offset(net: nn.Module, places: list[str], batches: Batches, pool: str) -> nn.Module:
    """The same function, but each convolution's output has a mean of 100x the spread of its features.

    The convolution gets that mean as its bias, and the norm behind it takes it off again.
    """
    net = copy.deepcopy(net)
    first = Batches(*next(iter(batches)), batches.batch)
    spreads = [float(x.std(0).mean()) for x in next(features(net, places, first, pool))]
    modules = list(net.modules())
    for name, spread in zip(places, spreads, strict=True):
        convolution = net.get_submodule(name)
        behind = modules[modules.index(convolution) :]
        norm = next(module for module in behind if isinstance(module, nn.BatchNorm2d))
        mean = torch.full_like(norm.running_mean, TIMES * spread)
        convolution.bias = nn.Parameter(mean)
        norm.running_mean += mean
    return net


def fed(tool: str, net: nn.Module, batches: Batches) -> Batches:
    """The images as a tool gives them to the network, so that the reference sees the very same features."""
    if not tool.startswith("winze"):
        return batches
    from winze.observe.places.memory_format import by_pixel, is_quicker_by_pixel

    turned = is_quicker_by_pixel(net, batches.x.device, "mean")
    return Batches(by_pixel(batches.x), batches.y, batches.batch) if turned else batches


def apart(matrix: Any, exact: Tensor) -> float:
    """The largest difference; raises where there is no number."""
    gap = (torch.as_tensor(matrix).cpu().double() - exact).abs()
    if not gap.isfinite().all():
        raise ValueError(f"NaN or inf in {int((~gap.isfinite()).sum())} of {gap.numel()} values")
    return float(gap.max())


def measure(case: Case, setting: Setting) -> dict[str, Any]:
    """Time against the plain forward, and error against float64 of the same definition."""
    part, net, places, train, test = _ready(case, setting)
    splits = [train, test] if case.train else [test]
    found: list[Any] = []

    def work() -> None:
        found[:] = [case.run(net, train, test, places)]

    if case.only:
        timed: dict[str, Any] = {"pairs": 1}
    else:
        timed = ratio(work, lambda: plain(net, *splits), part.device, part.pairs)
    row = {"images": part.images, "batch": part.batch, "places": len(places), **timed}
    if case.pool is None:
        return row
    shifted = offset(net, places, test, case.pool)
    one = Batches(test.x[: 2 * part.batch], test.y[: 2 * part.batch], part.batch)
    notes = []
    for key, on, of, batches in (
        ("error", "", net, test),
        ("error_offset", f"mean {TIMES}x the spread: ", shifted, one),
    ):
        row[key] = None
        try:
            matrix = found[0] if of is net else case.run(of, train, batches, places)
            row[key] = apart(matrix, reference(of, places, fed(case.tool, of, batches), case.pool))
        except Exception as error:  # a tool's crash is a result
            notes.append(on + words(error))
    return {**row, "note": "; ".join(notes)}


def memory(case: Case, setting: Setting) -> dict[str, Any]:
    """The peak beyond the plain forward's peak in the same process, in MB of 10^6 bytes, and one batch's features."""
    part, net, places, train, test = _ready(case, setting.less(2, 1))
    few = Batches(test.x[:16], test.y[:16], 16)
    if not case.only:
        case.run(net, few, few, places)  # what it imports on its first call is not counted; what it held is let go
    splits = [train, test] if case.train else [test]
    plain(net, *splits)
    base, forward = peak(lambda: plain(net, *splits), part.device)
    reserved = torch.cuda.max_memory_reserved() if part.device == "cuda" else 0
    most, took = peak(lambda: case.run(net, train, test, places), part.device)
    first = next(features(net, places, test, "mean"))
    row = {"extra_mb": round((most - base) / 1e6, 1), "features_mb": round(sum(4 * x.numel() for x in first) / 1e6, 1)}
    if part.device == "cuda":  # what PyTorch holds of the GPU, free or not: recordings have memory of their own
        row["reserved_mb"] = round((torch.cuda.max_memory_reserved() - reserved) / 1e6, 1)
    if case.only:
        row |= {"ratio": round(took / forward, 1), "low": None, "high": None, "seconds": round(forward, 3)}
    return row


def _ready(case: Case, setting: Setting) -> tuple[Setting, nn.Module, list[str], Batches, Batches]:
    part = setting.less(case.parts, case.pairs)
    net = network(part.device, case.stem)
    places = list(case.only) or convolutions(net)
    splits = (data(part.images, part.batch, part.device, seed) for seed in (1, 2))
    return part, net, places, *splits


def peak(work: Callable[[], Any], device: str) -> tuple[int, float]:
    """The most bytes held during a call, allocated on CUDA or resident on CPU, and its seconds.

    The mark that the kernel keeps is set back first, after free memory has gone back to it: else what an earlier call
    held would hide what this one takes. Linux only.
    """
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        took = seconds(work, device)
        return torch.cuda.max_memory_allocated(), took
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    took = seconds(work, device)
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0]), took


def words(error: BaseException) -> str:
    """One line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _scan(net: nn.Module, train: Any, test: Any, places: list[str], **options: Any) -> Any:
    import winze

    scan = winze.scan(net, train, test, places=places, progress=False, **options)
    return scan.cka if "cka" in scan.readings.conventions["measures"] else None


def _cka(net: nn.Module, train: Any, test: Any, places: list[str], **options: Any) -> Any:
    return _scan(net, None, test, places, measures=["cka"], **options)


def _rank(net: nn.Module, train: Any, test: Any, places: list[str]) -> Any:
    return _scan(net, None, test, places, measures=["rank"], pool="flatten")


def flattened(net: nn.Module, train: Any, test: Any, places: list[str]) -> Any:
    """CKA of all features, as the peers take it."""
    return _cka(net, None, test, places, pool="flatten", max_features=1 << 30)


CASES = (
    Case("winze: CKA", 'measures=["cka"]; pooled, unbiased, by batch', _cka),
    Case("winze: everything", "probe, ranks, CKA, variances, collapse, norms; train and test", _scan, train=True),
    Case(
        "winze: CKA of flattened features",
        'pool="flatten" without a bound: the work of the peers',
        flattened,
        pool="flatten",
        parts=2,
    ),
    Case(
        "winze: CKA, the thesis's features",
        'pool="flatten", at most 8000 random features',
        partial(_cka, pool="flatten"),
        pool=None,
        parts=2,
        pairs=5,
    ),
    Case(
        "winze: rank, the thesis's features",
        'pool="flatten", at most 8000, at one place, layer3.1.conv2; timed once: most is one spectrum of 8000 x 8000',
        _rank,
        pool=None,
        parts=2,
        only=("layer3.1.conv2",),
    ),
    Case("winze: CKA, timm's own stem", "7x7 stem of 64 channels: a forward of a quarter the time", _cka, stem="7x7"),
)


def choices(device: str) -> None:
    """Print what a scan chooses by itself: places, and the groups that it reads them in."""
    import torchvision

    import winze
    from winze.observe.scan import _groups

    few = data(16, 16, device, 1)
    networks = {"the benchmark's": network(device), "torchvision resnet18": torchvision.models.resnet18().to(device)}
    for name, net in networks.items():
        for pool in ("mean", "flatten"):
            scan = winze.scan(net, None, few, measures=["cka"], pool=pool, progress=False)
            widths = [min(int(width), 8000) for width in scan.curve("features")]
            groups = [len(group) for group in _groups(widths, 4 << 30)]
            chosen = ", ".join(place.name for place in scan.places)
            print(f"{name}, pool={pool}: {len(widths)} places ({chosen}), in groups of {groups}", flush=True)


def child(python: Path | str, file: str, tool: str, setting: Setting, what: str) -> dict[str, Any]:
    """Run one row, or its memory, in a process of its own; a crash becomes the row's note."""
    options = [f"--{key}={getattr(setting, key)}" for key in ("device", "images", "batch", "pairs")]
    done = subprocess.run(
        [str(python), str(HERE / file), *options, f"--row={tool}", f"--what={what}"],
        capture_output=True,
        text=True,
        env=os.environ | (TIDY if what == "memory" else {}),
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ROW ")]
    if lines:
        return json.loads(lines[-1].removeprefix("ROW "))
    last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
    return {"note": f"{what}: {' '.join(last)[:200] or f'exit code {done.returncode}'}"}


def weighed(python: Path | str, file: str, tool: str, setting: Setting) -> dict[str, Any]:
    """The memory of one row: the middle one of several processes, with the least and the most."""
    held = [child(python, file, tool, setting, "memory") for _ in range(WEIGHED if setting.device == "cpu" else 1)]
    known = sorted((each for each in held if "extra_mb" in each), key=lambda each: each["extra_mb"])
    if not known:
        return held[0]
    return known[len(known) // 2] | {"extra_low": known[0]["extra_mb"], "extra_high": known[-1]["extra_mb"]}


def row_of(python: Path | str, file: str, tool: str, setting: Setting) -> dict[str, Any]:
    """All processes of one row, merged."""
    row = child(python, file, tool, setting, "time")
    held = weighed(python, file, tool, setting)
    if file == "peers.py":
        beside = [child(python, file, tool, setting, "beside").get("ratios", []) for _ in range(PROCESSES)]
        ratios = [each for process in beside for each in process]
        row["beside"] = median(ratios) if ratios else None
    notes = [part["note"] for part in (row, held) if part.get("note")]
    if "ratio" in held:  # timed once, there
        row |= held
    row = {"tool": tool, **held, **row, "note": "; ".join(dict.fromkeys(notes))}
    print(row, flush=True)
    return row


def arguments(text: str | None) -> tuple[argparse.Namespace, Setting]:
    """What this file and `peers.py` understand."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--images", type=int, help="1024, or with --networks 2560 and 10240")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--only", default="", help="comma-separated parts of tool names")
    parser.add_argument("--networks", default="", help="all, or names: networks of timm instead (scan_networks.py)")
    parser.add_argument("--seconds", type=float, default=6.0, help="with --networks: for the pairs of one row")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--what", choices=("time", "memory", "beside"), default="time", help=argparse.SUPPRESS)
    args = parser.parse_args()
    return args, Setting(args.device, args.images or 1024, args.batch, args.pairs)


def answer(cases: Iterable[Case], args: argparse.Namespace, setting: Setting) -> None:
    """Measure the row that a child was started for, and print it."""
    case = next(case for case in cases if case.tool == args.row)
    row = {"how": case.how, **(measure if args.what == "time" else memory)(case, setting)}
    print("ROW " + json.dumps(row), flush=True)


def main() -> None:
    """Measure every tool on one device and merge the rows into results/scan.json."""
    args, setting = arguments(__doc__)
    if args.row:
        answer(CASES, args, setting)
        return
    if args.networks:
        from scan_networks import measure_networks

        measure_networks(args)
        return
    choices(args.device)
    python = PEERS_PYTHON if PEERS_PYTHON.exists() else sys.executable
    todo = [(sys.executable, "scan.py", case.tool) for case in CASES] + [(python, "peers.py", tool) for tool in PEERS]
    todo = [entry for entry in todo if any(part in entry[2] for part in args.only.split(","))]
    for entry in todo:  # each row is kept as it comes
        print("written", merge("scan", [row_of(*entry, setting)], args.device, args.out, alike="tool"))


if __name__ == "__main__":
    main()
