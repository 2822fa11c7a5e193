"""Networks by name: timm's, torchvision's, our own, or a function in a file of the user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from inspect import signature
from math import prod
from typing import Any

from torch import nn

from winze import shape
from winze.hints import did_you_mean
from winze.networks.from_file import build_from_file
from winze.networks.models import autoencoder, generator, mae, uvit
from winze.networks.models.mlp import MLP, ResidualMLP
from winze.networks.models.resnet import ResNet
from winze.networks.models.spiral_mlp import SpiralMLP
from winze.networks.models.vgg import VGG
from winze.networks.models.vit import vit
from winze.networks.network_error import NetworkError, one_line
from winze.networks.own_weights import fill, trained
from winze.shape import Rule, rewire

SYNTAX = (
    "a network is a timm name (resnet18), torchvision/NAME, one of ours, or my_file.py:make_net; ours are winze/mlp8 "
    "(8 layers; winze/mlp8x256: 256 wide), winze/resmlp12, winze/spiral6x6, and for small images winze/vgg11 to "
    "vgg19, winze/resnet18, 20 and 34 (winze/vgg19x0.25: a quarter of the channels), winze/vit6x128, "
    "winze/mae12x192 and winze/uvit8x256"
)
Spec = str | Mapping[str, Any]
OWN = {
    "mlp": MLP,
    "resmlp": ResidualMLP,
    "spiral": SpiralMLP,
    "vgg": VGG,
    "resnet": ResNet,
    "vit": vit,
    "mae": mae.MaskedAutoencoder,
    "uvit": uvit.UViT,
    "discriminative": autoencoder.Discriminative,
    "autoencoder": autoencoder.Autoencoder,
    "vae": autoencoder.Variational,
    "generator": generator.Generator,
    "generator_dense": generator.DenseGenerator,
    "learner_cnn": generator.Learner,
    "learner_mlp": generator.Learner,
}
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"winze/{name}": ("mae", options) for name, options in mae.PRESETS.items()},
    **{f"winze/{name}": ("uvit", options) for name, options in uvit.PRESETS.items()},
    **{f"winze/{name}": (name, options) for name, options in autoencoder.PRESETS.items()},
    **{f"winze/{name}": (name, options) for name, options in generator.PRESETS.items()},
}
FOR_IMAGES = ("vgg", "resnet", "vit", "mae", "uvit", "generator", "learner")
OF_ONE_SIZE = ("winze/vit", "winze/mae", "winze/uvit", "winze/generator", "winze/learner")
BY_FACTOR = ("vgg", "resnet")  # whose width multiplies the number of channels
KNOWN = (
    *("winze/mlp8", "winze/mlp12", "winze/mlp8x256", "winze/resmlp12", "winze/spiral6x6", "winze/spiral32x32"),
    *(f"winze/vgg{depth}{wide}" for depth in (11, 13, 16, 19) for wide in ("", "x0.25", "x2")),
    *(f"winze/resnet{depth}{wide}" for depth in (18, 20, 34) for wide in ("", "x0.25", "x2")),
    "winze/vit6x128",
    *("winze/mae12x192", "winze/uvit8x256", *PRESETS),
)


def build(spec: Spec, classes: int | None = None, **options: Any) -> nn.Module:
    """Build a network by its name, with fresh weights and an output for `classes` (None: its own number).

        build("resnet18"), build("torchvision/vgg11_bn", 10), build("winze/mlp8x256", 5, inputs=64),
        build("winze/resnet18", 10, stem="thesis"), build("my_file.py:make_net")

    Options go to whatever makes the network. `pretrained=True` asks timm for its published weights, and torchvision
    for its default ones; some of ours come with weights (`all_trained`). What `describe` wrote down is built as it was.
    """
    if isinstance(spec, Mapping):
        classes = spec.get("classes") if classes is None else classes
        net = build(spec["name"], classes, **{**spec.get("options", {}), **options})
        rule = spec.get("rule")
        return net if rule is None else rewire(net, _rule(rule), spec.get("where"))
    name = spec.strip()
    if not name:
        raise NetworkError(f"no network was named: {SYNTAX}")
    if name.startswith("winze/"):
        return _own(name, classes, options)
    if name.startswith("torchvision/"):
        return _torchvision(name.removeprefix("torchvision/"), classes, options)
    if ".py" in name:
        return build_from_file(name, classes, options)
    return _timm(name.removeprefix("timm/"), classes, options)


def describe(
    name: str, classes: int | None = None, rule: Rule | None = None, where: str | None = None, **options: Any
) -> dict[str, Any]:
    """All that `build` needs to make a network again, as plain values that JSON can hold.

    A rule is one of winze's, at all junctions or at those whose names match the glob `where`. A rule from outside
    winze, a callable `Place -> rule` or a predicate cannot be stored and raises.

    >>> describe("resnet18", 10)
    {'name': 'resnet18', 'classes': 10, 'options': {}, 'rule': None}
    """
    spec: dict[str, Any] = {"name": name, "classes": classes, "options": options, "rule": None}
    if rule is None:
        return spec
    if getattr(shape, type(rule).__name__, None) is not type(rule):
        raise NetworkError(
            f"{rule!r} is not a rule of winze, so a file cannot describe it: save the network without a name"
        )
    if not (where is None or isinstance(where, str)):
        raise NetworkError(f"where={where!r} cannot be stored: give a glob on the names of junctions")
    stored = {"name": type(rule).__name__, **asdict(rule)}
    return spec | {"rule": stored} | ({} if where is None else {"where": where})


def _rule(told: Mapping[str, Any]) -> Rule:
    kind = getattr(shape, str(told.get("name")), None)
    if not (isinstance(kind, type) and issubclass(kind, Rule) and kind is not Rule):
        raise NetworkError(f"there is no rule {told.get('name')!r}")
    try:
        return kind(**{key: value for key, value in told.items() if key != "name"})
    except (TypeError, ValueError) as error:
        raise NetworkError(f"rule {told['name']}: {one_line(error)}") from error


def options_for(spec: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """The options by which one of our own networks takes samples of a shape; none for the networks of others.

    >>> options_for("winze/mlp8", (1, 8, 8)), options_for("winze/vgg19", (3, 32, 32))
    ({'inputs': 64}, {'channels': 3})
    """
    if not spec.startswith("winze/"):
        return {}
    if not spec.startswith(tuple(f"winze/{name}" for name in FOR_IMAGES)):
        return {"inputs": prod(shape)}
    if len(shape) != 3:
        raise NetworkError(f"{spec} takes images (channel, height, width), not samples of shape {shape}")
    if not spec.startswith(OF_ONE_SIZE):
        return {"channels": shape[0]}
    if shape[1] != shape[2]:
        raise NetworkError(f"{spec} takes square images, not {shape[1]} x {shape[2]}")
    return {"channels": shape[0], "side": shape[1]}


def _own(spec: str, classes: int | None, kwargs: dict[str, Any]) -> nn.Module:
    if spec in PRESETS:
        kind, options = PRESETS[spec]
        make: Any = OWN[kind]
        takes = classes is not None and "classes" in signature(make).parameters
        return _made(spec, make, options | ({"classes": classes} if takes else {}) | kwargs)
    match = re.fullmatch(r"winze/([a-z]+?)(\d+)(?:x(\d+(?:\.\d+)?))?", spec)
    if match is None or match[1] not in OWN:
        raise NetworkError(f"unknown network {spec!r}{did_you_mean(spec, KNOWN, _own_name) or f'; {SYNTAX}'}")
    factor = match[1] in BY_FACTOR
    if match[3] and "." in match[3] and not factor:
        raise NetworkError(f"{spec}: the width of {match[1]} is a whole number of units, not {match[3]}")
    width = {} if match[3] is None else {"width": float(match[3]) if factor else int(match[3])}
    rest = {key: value for key, value in kwargs.items() if key != "pretrained"}
    sizes = {"depth": int(match[2])} | width | ({} if classes is None else {"classes": classes})
    if not kwargs.get("pretrained"):
        return _made(spec, OWN[match[1]], sizes | rest)
    known = trained(spec)
    told = {} if known is None else {"classes": known.classes} | known.options
    return fill(_made(spec, OWN[match[1]], told | sizes | rest), spec)


def _own_name(spec: str) -> str:
    return spec.lower().removeprefix("winze/")


def _torchvision(name: str, classes: int | None, kwargs: dict[str, Any]) -> nn.Module:
    from torchvision import models

    if name not in models.list_models():
        known = (other for other in models.list_models() if not other.startswith("quantized"))
        raise NetworkError(f"torchvision has no network {name!r}{did_you_mean(name, known)}")
    given = dict(kwargs)
    if given.pop("pretrained", False):
        given["weights"] = "DEFAULT"
    given.setdefault("weights", None)
    if given["weights"] is None and "weights_backbone" in signature(models.get_model_builder(name)).parameters:
        given.setdefault("weights_backbone", None)  # which torchvision would fetch
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
        hint = did_you_mean(base, timm.list_models()) or f"; {SYNTAX}"
        raise NetworkError(f"unknown network {name!r}{hint}")
    given = kwargs | ({} if classes is None else {"num_classes": classes})
    return _made(name, lambda **options: timm.create_model(name, **options), given)


def _made(spec: str, make: Any, options: dict[str, Any]) -> nn.Module:
    """What `make` gives, with its errors reported in one line."""
    try:
        made = make(**options)
    except NetworkError as error:
        raise type(error)(f"{spec}: {error}") from error
    except Exception as error:
        how = " with pretrained weights" if options.get("pretrained") or options.get("weights") else ""
        raise NetworkError(f"{spec} could not be built{how}: {one_line(error)}") from error
    assert isinstance(made, nn.Module)
    return made
