"""`winze demo`: the point of it all, on scikit-learn's digits, from nothing, in about two minutes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    import winze
    from winze.train import Training


@dataclass(frozen=True)
class Part:
    """One network of the demo: what it is, and how it learns."""

    name: str
    spec: str
    training: Training
    rule: winze.shape.Rule | None = None


@dataclass(frozen=True)
class Demo:
    """Train three small networks on digits, scan them, and compare them on one page (about two minutes on a laptop).

    All learn the digits 0-4, and every layer is asked for the digits 5-9 too. The late layers of an MLP of eight are a
    tunnel: they no longer tell other digits apart. A residual MLP of twelve layers learns once plain, once with decayed
    shortcuts, which lower the rank of its last features.
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
        with _one_thread():
            scans = {part.name: self._scanned(part) for part in parts}
        observe.compare(scans, page)
        ranks, accuracies = ({name: last(scans[name], what) for name in ("plain", "decayed")} for what in LAST)
        sys.stdout.write(
            f"Decayed shortcuts: rank {ranks['decayed']:.0f} instead of {ranks['plain']:.0f} at the last layer, "
            f"accuracy {accuracies['decayed']:.3f} instead of {accuracies['plain']:.3f}.\n{page}\n"
        )

    def _scanned(self, part: Part) -> winze.observe.Scan:
        """Train one network, read it, keep it, and say what was found."""
        import torch

        from winze import observe
        from winze.cli.folder import save
        from winze.cli.scan import splits
        from winze.data import Preprocess, load
        from winze.networks import build, describe
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
        sys.stdout.write(f"{part.name} ({history.steps} steps in {history.seconds:.0f} s)\n{scan.summary()}\n\n")
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


INPUTS = 64
DATA, OTHER = "digits[0-4]", "digits[5-9]"
LAST = ("numerical_rank", "accuracy")


def _parts() -> list[Part]:
    from winze.shape import DecayedIdentity
    from winze.train import SGD, AdamW, Epochs, Training

    # the tunnel: the small version of the thesis's MLPs. Shortcuts: over seeds 0, 1, 2 the last rank is 20, 21, 24
    # plain and 5, 7, 6 decayed at these steps; at a third of them 42, 38, 43 and 6, 8, 6
    steep = Training(Epochs(150), 128, SGD(0.03, momentum=0.9))
    even = Training(Epochs(60), 128, AdamW(3e-3))
    return [
        Part("mlp8", "winze/mlp8x256", steep),
        Part("plain", "winze/resmlp12x128", even),
        Part("decayed", "winze/resmlp12x128", even, rule=DecayedIdentity(alpha_min=0.6)),
    ]


def _hidden(net: torch.nn.Module) -> list[str]:
    """The hidden layers, as the thesis counts them: the logits are no place here."""
    return [f"layers.{i}" for i, _ in enumerate(net.get_submodule("layers").children())]


def _about(part: Part, dataset: winze.data.Dataset, preprocess: winze.data.Preprocess) -> dict[str, Any]:
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
