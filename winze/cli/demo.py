"""`winze demo`: the point of it all, on scikit-learn's digits, from nothing, in about two minutes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from winze.data import Dataset, Preprocess
    from winze.observe import Scan
    from winze.shape import Rule


@dataclass(frozen=True)
class Part:
    """One network of the demo: what it is, what it learns, how."""

    name: str
    spec: str
    data: str
    training: dict[str, Any]
    ood: str | None = None
    rule: Rule | None = None


@dataclass(frozen=True)
class Demo:
    """Train three small networks on digits, scan them, and compare them on one page (about two minutes on a laptop).

    An MLP of eight layers learns the digits 0-4: its late layers are a tunnel, which no longer knows the digits 5-9
    apart. A residual MLP of twelve layers learns all ten digits, once plain and once with decayed shortcuts.
    """

    out: Path = Path("demo")
    """the folder to write: mlp8, plain, decayed, and report.html"""
    seed: int = 0
    """seed of weights and order"""
    epochs: int | None = None
    """train so many epochs only (150 and 60)"""

    def run(self) -> None:
        from winze import observe
        from winze.cli.folder import writable_file, writable_folder

        parts = _parts()
        for part in parts:
            writable_folder(self.out / part.name)
        page = writable_file(self.out / "report.html")
        scans = {part.name: self._scanned(part) for part in parts}
        observe.compare(scans, page)
        ranks, accuracies = ({name: last(scans[name], what) for name in ("plain", "decayed")} for what in LAST)
        sys.stdout.write(
            f"Decayed shortcuts: rank {ranks['decayed']:.0f} instead of {ranks['plain']:.0f} at the last layer, "
            f"accuracy {accuracies['decayed']:.1%} instead of {accuracies['plain']:.1%}.\n{page}\n"
        )

    def _scanned(self, part: Part) -> Scan:
        """Train one network, read it, keep it, and say what was found."""
        import torch

        from winze import observe
        from winze.cli.folder import save
        from winze.cli.scan import splits
        from winze.data import Preprocess, load
        from winze.networks import build, describe
        from winze.train import fit

        dataset = load(part.data)
        preprocess = Preprocess.of(dataset)
        spec = describe(part.spec, len(dataset.classes), part.rule, inputs=INPUTS)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            net = build(spec)
        training = part.training | ({} if self.epochs is None else {"epochs": self.epochs})
        history = fit(net, *dataset.train, seed=self.seed, preprocess=preprocess, **training)
        train, test = splits(dataset, preprocess, 256)
        others = {part.ood: splits(load(part.ood), preprocess, 256)} if part.ood else {}
        scan = observe.scan(net, train, test, ood=others, places=_hidden(net), name=part.data, embed="pca", costs=True)
        _tell(scan, part, dataset, preprocess)
        save(scan, self.out / part.name, net, spec)
        sys.stdout.write(f"{part.name} ({history.steps} steps in {history.seconds:.0f} s)\n{scan.summary()}\n\n")
        sys.stdout.flush()
        return scan


INPUTS = 64
LAST = ("numerical_rank", "accuracy")


def _parts() -> list[Part]:
    from winze.shape import DecayedIdentity

    # the tunnel: FACTS' small version of the thesis's MLPs; shortcuts: any step size shows it, this one without noise
    steep = {"epochs": 150, "batch": 128, "lr": 0.05, "momentum": 0.9}
    even = {"epochs": 60, "batch": 128, "lr": 1e-3, "optimizer": "adamw"}
    return [
        Part("mlp8", "winze/mlp8x256", "digits[0-4]", steep, ood="digits[5-9]"),
        Part("plain", "winze/resmlp12x128", "digits", even),
        Part("decayed", "winze/resmlp12x128", "digits", even, rule=DecayedIdentity(alpha_min=0.6)),
    ]


def _hidden(net: nn.Module) -> list[str]:
    """The hidden layers, as the thesis counts them: the logits are no place here."""
    return [f"layers.{i}" for i, _ in enumerate(net.get_submodule("layers").children())]


def _tell(scan: Scan, part: Part, dataset: Dataset, preprocess: Preprocess) -> None:
    conventions = scan.readings.conventions
    conventions["network"] = part.spec if part.rule is None else f"{part.spec}, {part.rule}"
    conventions["preprocess"] = preprocess.to_dict()
    conventions["classes"] = list(dataset.classes)
    conventions["training"] = part.training
    conventions["notes"] = [*conventions.get("notes", []), *(f"{dataset.name}: {note}" for note in dataset.notes)]


def last(scan: Scan, measure: str) -> float:
    """A measure at the last place, or the one of the whole network."""
    rows = [row for row in scan.readings.rows if row.measure == measure and row.data in ("", scan.data)]
    return max(rows, key=lambda row: -1 if row.index is None else row.index).value
