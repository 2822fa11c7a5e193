"""`winze demo`: the point of it all on sums of two digits, from nothing, in about a minute."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from winze.cli.option import option

if TYPE_CHECKING:
    import torch

    import winze
    from winze.train import Training


@dataclass(frozen=True)
class DemoNetwork:
    """One network of the demo and how it is trained."""

    name: str
    spec: str
    training: Training
    rule: winze.shape.Rule | None = None


@dataclass(frozen=True)
class DemoVerb:
    """Train three small networks on sums of two digits, scan them, and compare them on one page (about a minute).

    An image shows two digits, and its class is the last digit of their sum: a task that needs several layers. The
    networks are trained on the sums 0-4, and every layer is probed on the sums 5-9 as well. The later layers of an MLP
    form a tunnel: they add no accuracy and lose OOD accuracy, so half of the network can be cut off. A residual MLP is
    trained twice, with plain and with decayed shortcuts, which lower the rank of its last features.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("demo")
    """the folder to write: mlp, plain, decayed, and report.html"""
    seed: int = 0
    """seed of the weights and of the order of the samples"""
    epochs: Annotated[int | None, option("N", "30 for mlp, 15 for plain and decayed")] = None
    """epochs of training"""

    def run(self) -> None:
        from winze import observe
        from winze.cli.folder import writable_file, writable_folder

        parts = _parts()
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"--epochs is at least 1, not {self.epochs}")
        ours = {"report.html", "report_figures", *(part.name for part in parts)}
        if self.out.is_dir() and (strange := {path.name for path in self.out.iterdir()} - ours):
            raise ValueError(f"{self.out} holds other files, such as {min(strange)}; give --out a new folder")
        for part in parts:
            writable_folder(self.out / part.name)
        page = writable_file(self.out / "report.html")
        with _one_thread():
            scans = {part.name: self._scanned(part) for part in parts}
        observe.compare(scans, page)
        ranks, accuracies = ({name: last(scans[name], what) for name in ("plain", "decayed")} for what in LAST)
        sys.stdout.write(
            f"Decayed shortcuts: rank {ranks['decayed']:.0f} instead of {ranks['plain']:.0f} at the last layer, "
            f"accuracy {100 * accuracies['decayed']:.1f} % instead of {100 * accuracies['plain']:.1f} %.\n{page}\n"
        )

    def _scanned(self, part: DemoNetwork) -> winze.observe.Scan:
        """Train one network, scan it, store both, and print the findings."""
        import torch

        from winze import observe
        from winze.cli.folder import save
        from winze.cli.scan import splits
        from winze.data import Preprocess, load
        from winze.networks import build, describe
        from winze.report.scan.summary import findings
        from winze.train import Epochs, fit

        dataset = load(DATA)
        preprocess = Preprocess.of(dataset)
        spec = describe(part.spec, len(dataset.classes), part.rule, inputs=INPUTS)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            net = build(spec)
        training = part.training if self.epochs is None else replace(part.training, length=Epochs(self.epochs))
        history = fit(net, dataset.train, training, seed=self.seed, preprocess=preprocess)
        train, test = splits(dataset, preprocess, 256)
        others = {OTHER: splits(load(OTHER), preprocess, 256)}
        how: Any = {"places": _hidden(net), "name": DATA, "embed": "pca", "costs": True}
        scan = observe.scan(net, train, test, ood=others, about=_about(part, dataset, preprocess), **how)
        save(scan, self.out / part.name, net, spec)
        said = "\n".join(findings(scan.readings))
        sys.stdout.write(f"{part.name} ({history.steps} steps in {history.seconds:.0f} s)\n{said}\n\n")
        sys.stdout.flush()
        return scan


@contextmanager
def _one_thread() -> Iterator[None]:
    """While open, torch works on one core: these networks are so small that threads only wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


INPUTS = 128
DATA, OTHER = "digit_sums[0-4]", "digit_sums[5-9]"
LAST = ("numerical_rank", "accuracy")


def _parts() -> list[DemoNetwork]:
    from winze.shape import DecayedIdentity
    from winze.train import SGD, AdamW, Epochs, Training

    steep = Training(Epochs(30), 128, SGD(0.05, momentum=0.9, weight_decay=5e-4))
    even = Training(Epochs(15), 128, AdamW(3e-3))
    return [
        DemoNetwork("mlp", "winze/mlp8x32", steep),
        DemoNetwork("plain", "winze/resmlp8x64", even),
        DemoNetwork("decayed", "winze/resmlp8x64", even, rule=DecayedIdentity(alpha_min=0.4)),
    ]


def _hidden(net: torch.nn.Module) -> list[str]:
    """The hidden layers, as the thesis counts them: the logits are no place here."""
    return [f"layers.{i}" for i, _ in enumerate(net.get_submodule("layers").children())]


def _about(part: DemoNetwork, dataset: winze.data.Dataset, preprocess: winze.data.Preprocess) -> dict[str, Any]:
    return {
        "network": part.spec if part.rule is None else f"{part.spec}, {part.rule}",
        "preprocess": preprocess.to_dict(),
        "classes": list(dataset.classes),
        "training": asdict(part.training),
        "notes": [f"{dataset.name}: {note}" for note in dataset.notes],
    }


def last(scan: winze.observe.Scan, measure: str) -> float:
    """A measure at the last place, or the one of the whole network."""
    rows = [row for row in scan.readings.rows if row.measure == measure and row.data in ("", scan.data)]
    return max(rows, key=lambda row: -1 if row.index is None else row.index).value
