"""Put the weights of finished runs into the package, in half precision, as `build(name, pretrained=True)` loads them.

    winze run tunnel/small --scale gpu --seeds 0
    python docs/generate/weights.py runs/3f2a... runs/91bc... runs/77e0...

Each network is judged on the test images by its weights in half precision, and that accuracy is stored with it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save

import winze
from winze.atomic import write_atomically
from winze.data import Batches, Dataset, Preprocess
from winze.networks import options_for
from winze.networks.own_weights import FOLDER, OwnWeights

TOLD = ("recipe", "scale", "seed", "commit", "device", "versions", "started", "seconds")


def main() -> None:
    """Pack the runs that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a finished run")
    for folder in parser.parse_args().runs:
        path, known = packed(folder)
        sys.stdout.write(
            f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {known.accuracy:.2%} of the test part of {known.data}\n"
        )


def packed(folder: Path) -> tuple[Path, OwnWeights]:
    """Write one run's network into the package."""
    run = json.loads((folder / "run.json").read_text())
    network, data, training = (run["config"][part] for part in ("network", "data", "training"))
    if network["rule"] is not None or not network["name"].startswith("winze/"):
        raise ValueError(f"{folder}: only plain networks of our own come with winze, not {network['name']}")
    dataset = winze.data.load(data["name"], size=data["size"])
    preprocess = Preprocess.of(dataset)
    net = winze.load(folder / "net.safetensors").half().float()
    weights = {name: value.half() if value.is_floating_point() else value for name, value in net.state_dict().items()}
    unbounded = [name for name, value in weights.items() if not value.isfinite().all()]
    if unbounded:
        raise ValueError(f"{folder}: beyond half precision are {', '.join(unbounded)}")
    known = OwnWeights(
        network=network["name"],
        classes=len(dataset.classes),
        options=options_for(network["name"], dataset.shape) | network["options"],
        data=data["name"],
        size=(dataset.shape[0], dataset.shape[1], dataset.shape[2]),
        mean=tuple(preprocess.mean),
        std=tuple(preprocess.std),
        accuracy=accuracy(net, dataset, preprocess),
        made={name: run.get(name) for name in TOLD} | {"epochs": training["length"]["count"]},
    )
    path = FOLDER / f"{known.network.removeprefix('winze/')}.safetensors"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, save({name: value.contiguous() for name, value in weights.items()}, known.metadata()))
    return path, known


def accuracy(net: torch.nn.Module, dataset: Dataset, preprocess: Preprocess) -> float:
    """The share of test images that a network gets right."""
    right = 0
    with torch.no_grad():
        for images, labels in Batches(*dataset.test, size=500, preprocess=preprocess):
            right += int((net(images).argmax(1) == labels).sum())
    return right / len(dataset.test_labels)


if __name__ == "__main__":
    main()
