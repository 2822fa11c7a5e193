"""Networks that come with winze, trained: small networks trained on CIFAR-10, in half precision.

`build("winze/resnet20", pretrained=True)` loads one. Each is one file whose metadata say how the network is built, what
it was trained on, its preprocessing, and its test accuracy. `docs/generate/weights.py` makes the files from runs of
the recipe `tunnel/small`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from winze.networks.network_error import NetworkError
from winze.networks.weights import load_weights

FOLDER = Path(__file__).with_name("files")
KEY = "trained"


@dataclass(frozen=True)
class OwnWeights:
    """What is known of a network that comes with winze; `made` tells of the run that it is from."""

    network: str
    classes: int
    options: dict[str, Any]
    data: str
    size: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    accuracy: float
    made: dict[str, Any]

    def metadata(self) -> dict[str, str]:
        """The same as a safetensors file holds it."""
        return {KEY: json.dumps(asdict(self))}


def trained(spec: str) -> OwnWeights | None:
    """What is known of a network of that name; None where it does not come trained."""
    from safetensors import safe_open

    path = _file(spec)
    if path is None:
        return None
    with safe_open(str(path), "pt") as opened:  # type: ignore[no-untyped-call,unused-ignore]
        told = json.loads(opened.metadata()[KEY])
    return OwnWeights(**told | {name: tuple(told[name]) for name in ("size", "mean", "std")})


def all_trained() -> list[str]:
    """The names of all networks that come trained."""
    return sorted(f"winze/{path.stem}" for path in FOLDER.glob("*.safetensors"))


def fill(net: nn.Module, spec: str) -> nn.Module:
    """Put the weights that come with winze into a network, in place and in its own precision."""
    path = _file(spec)
    if path is None:
        raise NetworkError(f"{spec} has no published weights; those that come with winze: {', '.join(all_trained())}")
    return load_weights(net, path)


def _file(spec: str) -> Path | None:
    path = FOLDER / f"{spec.removeprefix('winze/')}.safetensors"
    return path if spec.startswith("winze/") and path.is_file() else None
