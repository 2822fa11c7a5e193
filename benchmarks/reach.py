"""How far winze reaches: one network of every timm family, torchvision's classifiers, some transformers.

For each network: the junctions found, beside a count made by hand from its source; whether outputs and gradients of the
rewired forward (under Scaled(1, 1), so that its sums really are joins) are bit-identical to the untouched network's;
the seconds that finding them takes; whether it takes a training step under every rule, in train mode; whether
the rewired network goes through torch.export; whether a scan reads it; and whether it can be cut in the middle, with
the cut network answering as the scan's probe did. Or the reason why not.

    python benchmarks/reach.py [--jobs 2] [--only resnet,vit] [--more] [--out results]

About an hour on 2 cores, ten minutes on 16. Each network runs in a process of its own. `--more` keeps the rows that are
there and measures what is missing; `--since 2026-11-18` measures rows of earlier days again.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, machine, save
from torch import nn

import winze
from winze.shape.find import discover

COUNTS = Path(__file__).parent.parent / "tests" / "shape" / "counts.json"
LIMIT = 900
SIDE = 96
RULES: dict[str, Callable[[], winze.Rule]] = {
    "DecayedIdentity": lambda: winze.DecayedIdentity(0.6),
    "Scaled": lambda: winze.Scaled(0.5, 0.5),
    "NoShortcut": winze.NoShortcut,
    "Highway": winze.Highway,
    "DropPath": lambda: winze.DropPath(0.5),
    "ResidualDropPath output/sample": lambda: winze.ResidualDropPath(0.5),
    "ResidualDropPath weights/sample": lambda: winze.ResidualDropPath(0.5, frozen="weights"),
    "ResidualDropPath output/batch": lambda: winze.ResidualDropPath(0.5, mask="batch"),
}


def main() -> None:
    """Measure all networks, each in its own process, and write results/reach.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="comma-separated parts of network names")
    parser.add_argument("--more", action="store_true", help="keep the rows of an earlier run, add the missing ones")
    parser.add_argument("--since", default="", help="with --more: rows measured before this day are measured again")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print("ROW " + json.dumps(measure(json.loads(args.one))), flush=True)
        return
    everything = list(networks())
    entries = [e for e in everything if any(part in e["network"] for part in args.only.split(","))]
    import timm
    import torchvision
    import transformers

    versions = {m.__name__: m.__version__ for m in (timm, torchvision, transformers)}
    before = json.loads((args.out / "reach.json").read_text()) if args.more else {"machine": {}, "rows": []}
    rows: list[dict[str, Any]] = before["rows"]
    machines = {**before["machine"], machine("cpu")["device"]: {**machine("cpu"), **versions}}
    order = [(entry["source"], entry["network"]) for entry in everything]
    known = {(row["source"], row["network"]) for row in rows if row.get("date", "") >= args.since}
    with ThreadPoolExecutor(args.jobs) as pool:
        missing = [entry for entry in entries if (entry["source"], entry["network"]) not in known]
        started = [pool.submit(in_its_own_process, entry) for entry in missing]
        for done in as_completed(started):  # written as it comes: a stopped run keeps what it has
            new = done.result()
            rows[:] = [row for row in rows if (row["source"], row["network"]) != (new["source"], new["network"])]
            rows.append(new)
            rows.sort(key=lambda row: order.index((row["source"], row["network"])))
            content = {"machine": machines, "summary": summary(rows), "rows": list(rows)}
            save("reach", content, args.out)
    print(json.dumps(summary(rows), indent=1))


def networks() -> Iterator[dict[str, Any]]:
    """The smallest counted network of each timm family, all counted ones of torchvision and transformers."""
    import timm

    counted = [e for e in json.loads(COUNTS.read_text()) if "network" in e]
    yield from ({**e, "family": _family(e)} for e in counted if e["source"] == "transformers")
    by_name = {e["network"]: e for e in counted if e["source"] == "timm"}
    smallest = {}
    for family in timm.list_modules():
        names = [n for n in timm.list_models(module=family) if n in by_name] or timm.list_models(module=family)[:1]
        smallest[family] = min((_size(name), name) for name in names)
    for family, (_, name) in sorted(smallest.items(), key=lambda item: item[1]):
        unknown = {"source": "timm", "network": name, "junctions": None}
        yield {**by_name.get(name, unknown), "family": family}
    yield from ({**e, "family": _family(e)} for e in counted if e["source"] == "torchvision")


def _size(name: str) -> int:
    import timm

    with torch.device("meta"):
        return sum(p.numel() for p in timm.create_model(name).parameters())


def _family(entry: dict[str, Any]) -> str:
    return (
        str(entry["network"]).rstrip("0123456789_").split("_")[0]
        if entry["source"] == "torchvision"
        else "transformers"
    )


def in_its_own_process(entry: dict[str, Any]) -> dict[str, Any]:
    """Run `measure` apart, so that a crash or a hang costs one row."""
    command = [sys.executable, __file__, "--one", json.dumps(entry)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=env, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("ROW ")]
        reason = done.stderr.strip().splitlines()[-1:] or ["no output"]
        row = json.loads(lines[0][4:]) if lines else {**blank(entry), "reason": f"crashed: {reason[0]}"}
    except subprocess.TimeoutExpired:
        row = {**blank(entry), "reason": f"took longer than {LIMIT} s"}
    print(row["network"], row["junctions"], row["expected"], row["identical"], row["export"], row["reason"], flush=True)
    return row


def blank(entry: dict[str, Any]) -> dict[str, Any]:
    """A row before anything is known."""
    return {
        **{key: entry[key] for key in ("source", "family", "network")},
        "junctions": None,
        "unread": None,
        "expected": entry["junctions"],
        "identical": None,
        "seconds": None,
        "rules": {},
        "export": "-",
        "scan": "-",
        "truncate": "-",
        "reason": "",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "torch": torch.__version__,
    }


def measure(entry: dict[str, Any]) -> dict[str, Any]:
    """Everything about one network."""
    warnings.simplefilter("ignore")
    row = blank(entry)
    try:
        net = build(entry)
        small = example(net, entry)
        start = time.perf_counter()
        found = discover(net, small)
        row["seconds"] = round(time.perf_counter() - start, 2)
        row["junctions"], row["unread"] = len(found.junctions), len(found.junctions.unread)
        read = where(found.junctions.unread)
        given = found.example.kwargs or found.example.args
        if found.junctions:
            rewired = winze.rewire(copy.deepcopy(net), winze.Scaled(1, 1), read, given)
            row["rules"] = {name: attempt(lambda r=rule: train(net, r(), given, read)) for name, rule in RULES.items()}
            row["identical"], row["reason"] = identical(copy.deepcopy(net), rewired, given)
            row["export"] = attempt(lambda: export(net, given, read))
        scans: list[winze.Scan] = []
        row["scan"] = attempt(lambda: scans.append(scan(net, given)))
        if scans:
            row["truncate"] = attempt(lambda: cut(net, scans[0], given))
    except Exception as error:
        row["reason"] = said(error)
    return row


def where(unread: dict[str, str]) -> Callable[[winze.Place], bool] | None:
    """All junctions, and where some sums cannot be handed to a rule, those that can."""
    return (lambda place: place.name not in unread) if unread else None


def example(net: nn.Module, entry: dict[str, Any]) -> Any:
    """Images of 96 pixels where the network takes them in both modes; else None, for its own size."""
    if entry["source"] == "transformers":
        return None
    images = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    try:
        for training in (False, True):
            with torch.no_grad():
                net.train(training)(images)
    except Exception:
        return None
    return (images,)


def build(entry: dict[str, Any]) -> nn.Module:
    """The network with random weights, its own stochastic depth off."""
    torch.manual_seed(0)
    net = _built(entry)
    for module in net.modules():
        name = type(module).__name__.lower()
        if "droppath" in name and hasattr(module, "drop_prob"):
            module.drop_prob = 0.0
        elif "stochasticdepth" in name:
            module.p = 0.0
    return net


def _built(entry: dict[str, Any]) -> nn.Module:
    name = entry["network"]
    if entry["source"] == "timm":
        import timm

        return timm.create_model(name)
    if entry["source"] == "torchvision":
        import torchvision

        return torchvision.models.get_model(name)
    import transformers

    kind = getattr(transformers, name)
    return kind(kind.config_class(**{**entry["config"], "use_cache": False}))


def identical(net: nn.Module, rewired: nn.Module, given: Any) -> tuple[bool, str]:
    """Whether outputs and gradients in both modes are the same bit for bit, and if not, how far they are apart."""
    for training in (False, True):
        results = []
        for model in (net, rewired):
            model.train(training)
            model.zero_grad()
            torch.manual_seed(1)
            outputs = tensors(call(model, given))
            loss(outputs).backward()
            results.append((outputs, [p.grad for p in model.parameters()]))
        (a, ga), (b, gb) = results
        if not all(map(torch.equal, a, b)):
            return False, f"outputs differ by up to {apart(a, b):.0e} of their size"
        if not all(
            (g is None) == (h is None) and (g is None or torch.equal(g, h)) for g, h in zip(ga, gb, strict=True)
        ):
            return False, f"outputs are identical, gradients differ by up to {apart(ga, gb):.0e} of their size"
    return True, ""


def loss(outputs: list[torch.Tensor]) -> torch.Tensor:
    """Something whose gradient is nowhere zero, not even at the zeros that a new head puts out."""
    return sum((o.float() + 1).square().mean() for o in outputs if o.is_floating_point())  # type: ignore[return-value]


def apart(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference between tensors, relative to the largest number in them."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    size = max(float(a.abs().max()) for a, _ in pairs)
    return max(float((a - b).abs().max()) for a, b in pairs) / max(size, 1e-30)


def train(net: nn.Module, rule: winze.Rule, given: Any, read: Any) -> None:
    """One step in train mode, two for staged rules; every gradient finite, some not zero."""
    model = winze.rewire(copy.deepcopy(net), rule, read, given).train()
    alternate = winze.Alternation(model) if rule.staged else None
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(2 if rule.staged else 1):
        optimizer.zero_grad()
        outputs = tensors(call(model, given))
        loss(outputs).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if not gradients or not any(g.any() for g in gradients):
            raise RuntimeError("no gradient reaches the parameters")
        optimizer.step()
        if alternate is not None:
            alternate.step()


def export(net: nn.Module, given: Any, read: Any) -> None:
    """torch.export of the rewired network in eval mode, with the same outputs."""
    model = winze.rewire(copy.deepcopy(net), winze.DecayedIdentity(0.6), read, given).eval()
    args, kwargs = ((), given) if isinstance(given, dict) else (tuple(given), {})
    program = torch.export.export(model, args, kwargs, strict=False).module()
    with torch.no_grad():
        for a, b in zip(tensors(call(model, given)), tensors(call(program, given)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def data(given: Any, samples: int, seed: int) -> list[tuple[Any, torch.Tensor]]:
    """Batches like the example: noise in two classes that differ by a shift, or the example's own tokens."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(samples // 4):
        labels = torch.tensor([0, 1, 0, 1])

        def like(t: Any, labels: torch.Tensor = labels) -> Any:
            if not isinstance(t, torch.Tensor) or t.ndim == 0:
                return t
            rows = t[torch.arange(4) % len(t)]
            if not t.is_floating_point():
                return (rows + torch.randint(8, rows.shape, generator=generator)) % (int(t.max()) + 1)
            return torch.randn(rows.shape, generator=generator) + labels.view(-1, *(1,) * (t.ndim - 1))

        batches.append((torch.utils._pytree.tree_map(like, given), labels))
    return batches


def scan(net: nn.Module, given: Any) -> winze.Scan:
    """A small scan of everything, at the network's own places."""
    found = winze.scan(net, data(given, 16, 0), data(given, 8, 1), example=given, progress=False)
    if not len(found.curve("probe")) or not all(value == value for value in found.curve("probe")):
        raise RuntimeError("a place has no probe")
    return found


def cut(net: nn.Module, scan: winze.Scan, given: Any) -> None:
    """The network cut in the middle answers as the scan's probe did."""
    middle = len(scan.places) // 2
    small = winze.truncate(net, scan, at=middle, example=given, measure=False).eval()
    with torch.no_grad():
        right = torch.cat([call(small, x).argmax(1) == y for x, y in data(given, 8, 1)])
    if right.tolist() != scan.readings.arrays["correct/data"][middle].tolist():
        raise RuntimeError("the cut network answers otherwise than the probe")


def call(net: Callable[..., Any], given: Any) -> Any:
    """The network on its example."""
    return net(**given) if isinstance(given, dict) else net(*given)


def tensors(output: Any) -> list[torch.Tensor]:
    """All tensors of an output, whatever it is made of."""
    leaves = torch.utils._pytree.tree_leaves(dict(output) if hasattr(output, "to_tuple") else output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def attempt(work: Callable[[], Any]) -> str:
    """`ok`, or what went wrong, in one line."""
    try:
        work()
    except Exception as error:
        if os.environ.get("REACH_DEBUG"):
            traceback.print_exc()
        return said(error)
    return "ok"


def said(error: Exception) -> str:
    """The first line of an error, with local paths cut short."""
    return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "…/", f"{type(error).__name__}: {error}".splitlines()[0])[:200]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many networks of each source are fully handled: the count is right, the path identical, every rule trains."""
    result = {}
    for source in dict.fromkeys(row["source"] for row in rows):
        own = [row for row in rows if row["source"] == source]
        result[source] = {
            "networks": len(own),
            "right count": sum(row["junctions"] == row["expected"] for row in own),
            "found or listed as unread": sum(found_or_listed(row) == row["expected"] for row in own),
            "handled": sum(handled(row) for row in own),
            "bit-identical": sum(bool(row["identical"]) for row in own),
            "every rule": sum(handled(row) and all(v == "ok" for v in row["rules"].values()) for row in own),
            "export": sum(row["export"] == "ok" for row in own if row["junctions"]),
            "scan": sum(row["scan"] == "ok" for row in own),
            "truncate": sum(row["truncate"] == "ok" for row in own),
            "with junctions": sum(bool(row["junctions"]) for row in own),
        }
    return result


def found_or_listed(row: dict[str, Any]) -> int:
    """Junctions, and sums that `.unread` names."""
    return (row["junctions"] or 0) + (row.get("unread") or 0)


def handled(row: dict[str, Any]) -> bool:
    """Junctions found as counted by hand, and the path identical, or equal to rounding where sums have three terms."""
    equal = row["identical"] or ("differ by up to" in row["reason"] and float(row["reason"].split()[-4]) < 1e-6)
    return row["junctions"] == row["expected"] and (row["junctions"] == 0 or bool(equal))


if __name__ == "__main__":
    main()
