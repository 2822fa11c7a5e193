"""Networks by name: timm's, torchvision's, our own, or a function in somebody's file."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from winze.networks.errors import NetworkError, nearest, one_line
from winze.networks.from_file import build_from_file
from winze.networks.mlp import MLP, ResidualMLP

SYNTAX = (
    "a network is a timm name (resnet18), torchvision/NAME, winze/mlp8 (8 layers; winze/mlp8x256: 256 wide; "
    "winze/resmlp12: residual), or my_file.py:make_net"
)
OWN = {"mlp": MLP, "resmlp": ResidualMLP}


def build(spec: str, classes: int | None = None, **kwargs: Any) -> nn.Module:
    """Build a network by its name, with fresh weights and an output for `classes` (None: its own number).

        build("resnet18"), build("torchvision/vgg11_bn", 10), build("winze/mlp8x256", 5, inputs=64),
        build("my_file.py:make_net")

    Further arguments go to whatever makes the network. `pretrained=True` asks timm for its published weights, and
    torchvision for its default ones.
    """
    spec = spec.strip()
    if not spec:
        raise NetworkError(f"no network was named: {SYNTAX}")
    if spec.startswith("winze/"):
        return _own(spec, classes, kwargs)
    if spec.startswith("torchvision/"):
        return _torchvision(spec.removeprefix("torchvision/"), classes, kwargs)
    if ".py" in spec:
        return build_from_file(spec, classes, kwargs)
    return _timm(spec.removeprefix("timm/"), classes, kwargs)


def _own(spec: str, classes: int | None, kwargs: dict[str, Any]) -> nn.Module:
    match = re.fullmatch(r"winze/([a-z]+?)(\d+)(?:x(\d+))?", spec)
    if match is None or match[1] not in OWN:
        hint = nearest(spec, ["winze/mlp8", "winze/mlp12", "winze/resmlp12", "winze/mlp8x256"])
        raise NetworkError(f"unknown network {spec!r}{hint or '; there are winze/mlp8 and winze/resmlp12'}")
    sizes = {"depth": int(match[2])} | ({"width": int(match[3])} if match[3] else {})
    if kwargs.get("pretrained"):
        raise NetworkError(f"{spec} has no published weights")
    rest = {key: value for key, value in kwargs.items() if key != "pretrained"}
    return _made(spec, OWN[match[1]], sizes | ({} if classes is None else {"classes": classes}) | rest)


def _torchvision(name: str, classes: int | None, kwargs: dict[str, Any]) -> nn.Module:
    from torchvision import models

    if name not in models.list_models():
        known = (other for other in models.list_models() if not other.startswith("quantized"))
        raise NetworkError(f"torchvision has no network {name!r}{nearest(name, known)}")
    given = dict(kwargs)
    if given.pop("pretrained", False):
        given["weights"] = "DEFAULT"
    given.setdefault("weights", None)
    if name in ("googlenet", "inception_v3"):
        given.setdefault("init_weights", False)  # what torchvision will do by itself, without its warning
    if name in ("googlenet", "inception_v3") and given["weights"] is None:
        given.setdefault("aux_logits", False)
    if classes is not None and given["weights"] is None:
        given["num_classes"] = classes
    return _made(f"torchvision/{name}", lambda **options: models.get_model(name, **options), given)


def _timm(name: str, classes: int | None, kwargs: dict[str, Any]) -> nn.Module:
    import timm

    base = name.split(".")[0]
    if not timm.is_model(base):
        hint = nearest(base, timm.list_models()) or f"; {SYNTAX}"
        raise NetworkError(f"unknown network {name!r}{hint}")
    given = kwargs | ({} if classes is None else {"num_classes": classes})
    return _made(name, lambda **options: timm.create_model(name, **options), given)


def _made(spec: str, make: Any, options: dict[str, Any]) -> nn.Module:
    """What `make` gives, with whatever goes wrong in it told in one line."""
    try:
        made = make(**options)
    except NetworkError as error:
        raise NetworkError(f"{spec}: {error}") from error
    except Exception as error:
        how = " with pretrained weights" if options.get("pretrained") or options.get("weights") else ""
        raise NetworkError(f"{spec} could not be built{how}: {one_line(error)}") from error
    assert isinstance(made, nn.Module)
    return made
