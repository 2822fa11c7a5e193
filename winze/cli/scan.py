"""`winze scan`: read a network at every depth and store the readings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from winze.cli.exit_codes import printable, printable_lines
from winze.cli.network import Normalise
from winze.cli.option import option

if TYPE_CHECKING:
    import torch

    from winze.data import Batches, Dataset, Preprocess
    from winze.lab.workers.workers import Workers


@dataclass(frozen=True)
class ScanVerb:
    """Read what a network represents at every depth: probes, ranks, similarity, where its tunnel starts."""

    net: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NET")]
    """a timm name (resnet18), torchvision/NAME, winze/mlp8x256, or my_file.py:make_net"""
    data: Annotated[str, tyro.conf.arg(metavar="D")]
    """what the network was trained on: a name, or some of its classes (`winze data`), an image folder, an .npz file"""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """the folder to write: readings, report.html, a copy of the weights"""
    ood: Annotated[tuple[str, ...], option("D2 ...", "none")] = ()
    """out-of-distribution data: probes are fitted and evaluated on these too, at every place"""
    weights: Annotated[Path | None, option("F", "random weights")] = None
    """the network's weights: safetensors, or a torch checkpoint that holds tensors only"""
    pretrained: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """take the published weights of timm, torchvision or winze (vgg19x0.25, resnet20, vit6x128, trained on CIFAR-10)"""
    places: Annotated[tuple[str, ...], option("P ...", "blocks; layers where there are none")] = ()
    """where to read features: `layers`, or module names and globs such as 'layer3.*'"""
    pool: str = "mean"
    """how feature maps become features: mean, flatten, token (the class token), or K for a K x K grid"""
    probe: Literal["ridge", "adam"] = "ridge"
    """how probes are fitted: closed form in the same pass (ridge), or 30 epochs of Adam (adam)"""
    layout: Annotated[str | None, option("AXES", "found by a trial forward")] = None
    """order of the axes of feature maps: BCHW, BHWC, BCL or BLC; needed only where the scan asks for it"""
    limit: Annotated[int | None, option("N", "all")] = None
    """use at most this many training and this many test samples, spread over the classes"""
    batch: int = 256
    """samples per batch"""
    max_features: Annotated[int, tyro.conf.arg(metavar="N")] = 8000
    """at places with more features, this many random ones enter ranks, CKA and ridge probes; fewer take less memory"""
    memory: Annotated[float, tyro.conf.arg(metavar="GB")] = 4.0
    """gigabytes for the accumulators of all places; places that do not fit are read in further passes"""
    device: Annotated[str | None, option("DEVICE", "a GPU where there is one")] = None
    """cpu, cuda or cuda:1"""
    embed: Annotated[Literal["pca", "tsne", "umap"] | None, option("pca|tsne|umap", "none")] = None
    """also embed the test samples in two dimensions, at up to eight places"""
    costs: bool = True
    """measure parameters, FLOPs and seconds of the network cut after every place"""
    size: Annotated[int | None, option("PIXELS", "the network's size for published weights, else the data's")] = None
    """resize images to squares of this many pixels"""
    normalise: Annotated[
        Normalise | None, option("network|data", "that of the network for published weights, else of the data")
    ] = None
    """normalise inputs by this mean and standard deviation"""
    keep: bool = True
    """keep a copy of the weights in the folder, so that `winze truncate` needs nothing else"""
    seed: int = 0
    """seed of random weights"""
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """read the data in this many processes at once; with --on ray, in this many workers of the cluster"""
    on: Annotated[Literal["ray"] | None, option("ray", "this machine")] = None
    """run on a Ray cluster: the one at RAY_ADDRESS, else one started on this machine"""

    def run(self) -> None:
        from winze import observe
        from winze.cli.folder import claimed, save, writable_folder
        from winze.cli.network import Wish, device_named, make_ready
        from winze.data import load
        from winze.observe.scan import add_costs

        folder, pool = writable_folder(self.out), parse_pool(self.pool)
        _check_names(self.data, self.ood)
        if not 0 < self.memory < float("inf"):
            raise ValueError(f"--memory is a number of gigabytes above 0, not {self.memory:g}")
        device = device_named(self.device)
        dataset = load(self.data, limit=self.limit)
        others = [load(name, limit=self.limit) for name in self.ood]
        wish = Wish(self.net, self.weights, self.pretrained, self.size, self.normalise, self.seed)
        ready = make_ready(wish, dataset, device)
        for note in (*ready.notes, ready.input):
            sys.stderr.write(f"winze: {printable(note)}\n")
        train, test = splits(dataset, ready.preprocess, self.batch)
        names = [short_name(each.name) for each in (dataset, *others)]
        notes = [f"{name}: {note}" for name, each in zip(names, (dataset, *others), strict=True) for note in each.notes]
        about = {
            "network": ready.spec["name"],
            "preprocess": ready.preprocess.to_dict() if ready.preprocess else None,
            "classes": list(dataset.classes),
            "weights": ready.weights,
            "limit": self.limit,
            "notes": [*notes, *ready.notes],
        }
        with claimed(folder):
            with crew_of(self.jobs, self.on, device) as crew:
                scan = observe.scan(
                    ready.net,
                    train,
                    test,
                    ood={
                        name: splits(other, ready.preprocess, self.batch)
                        for name, other in zip(names[1:], others, strict=True)
                    },
                    places=self.places[0] if len(self.places) == 1 else (self.places or None),
                    probe=self.probe,
                    pool=pool,
                    name=names[0],
                    layout=self.layout,
                    about=about,
                    device=device,
                    batch=self.batch,
                    max_features=self.max_features,
                    memory=max(1, int(self.memory * (1 << 30))),
                    embed=self.embed,
                    seed=self.seed,
                    crew=crew,
                )
            costs = partial(add_costs, ready.net, scan, test) if self.costs else None
            save(scan, folder, ready.net if self.keep else None, ready.spec, costs)
        sys.stdout.write(f"{printable_lines(scan.summary())}\n{folder / 'report.html'}\n")


@contextmanager
def crew_of(jobs: int, on: Literal["ray"] | None, device: torch.device) -> Iterator[Workers | None]:
    """The workers that read shards of the data; None where one process reads all of it."""
    from winze.lab.workers.mps import mps
    from winze.lab.workers.processes import Processes
    from winze.lab.workers.ray import OnRay

    gpu = device.type == "cuda"
    if on is not None:
        with OnRay(jobs, gpu) as cluster:
            yield cluster
    elif jobs == 1:
        yield None
    else:
        with mps(gpu) as service, Processes(jobs, environments=[service]) as processes:
            yield processes


def splits(dataset: Dataset, preprocess: Preprocess | None, batch: int) -> tuple[Batches, Batches]:
    """Train and test as batches that a scan takes."""
    from winze.data import Batches

    train, test = (Batches(*part, size=batch, preprocess=preprocess) for part in (dataset.train, dataset.test))
    return train, test


def parse_pool(text: str) -> str | int:
    """`mean`, `flatten`, `token`, or the size of a grid."""
    if text in ("mean", "flatten", "token"):
        return text
    if text.isdigit() and int(text) > 0:
        return int(text)
    raise ValueError(f"--pool is mean, flatten, token or a grid size from 1, not {text!r}")


def short_name(data: str) -> str:
    """A data set as its readings call it: of a folder of this machine its own name."""
    path = Path(data)
    return path.name if path.is_absolute() and path.exists() else data


def _check_names(data: str, ood: tuple[str, ...]) -> None:
    names = [short_name(name) for name in (data, *ood)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"--data and --ood name {twice!r} twice")
