"""What a published network expects to be fed: size, normalisation, number of classes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from winze.networks.own_weights import trained


@dataclass(frozen=True)
class Published:
    """The input and output that a network's published weights were made for; `fixed`: it takes no other size."""

    input_size: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    classes: int
    fixed: bool = False


def published(spec: str, net: nn.Module, pretrained: bool = False) -> Published | None:
    """From timm's or torchvision's configuration of a network; None where there is none.

    With `pretrained` also from the file of one that comes with winze: without these weights it takes any input.
    """
    known = trained(spec) if pretrained else None
    if known is not None:
        return Published(known.size, known.mean, known.std, known.classes, fixed=hasattr(net, "patch_embed"))
    if spec.startswith("torchvision/"):
        return _torchvision(spec.removeprefix("torchvision/"), net)
    config = getattr(net, "pretrained_cfg", None)
    if not isinstance(config, dict) or any(config.get(key) is None for key in ("input_size", "mean", "std")):
        return None
    channels, height, width = config["input_size"]
    mean, std = tuple(map(float, config["mean"])), tuple(map(float, config["std"]))
    fixed = bool(config.get("fixed_input_size"))
    return Published((channels, height, width), mean, std, int(config.get("num_classes") or 0), fixed)


def _torchvision(name: str, net: nn.Module) -> Published | None:
    from torchvision.models import get_model_weights

    entries = list(get_model_weights(name))
    if not entries:
        return None
    weights = entries[-1]  # torchvision lists the default last
    transforms = weights.transforms()
    crop = getattr(transforms, "crop_size", None)
    if not crop:
        return None
    mean, std = (tuple(map(float, getattr(transforms, key))) for key in ("mean", "std"))
    return Published((3, crop[0], crop[0]), mean, std, len(weights.meta["categories"]), hasattr(net, "image_size"))


def head_of(net: nn.Module) -> str | None:
    """The name of the layer that gives the outputs: the last linear or convolution that was registered."""
    names = [name for name, module in net.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    config = getattr(net, "pretrained_cfg", None)
    told = config.get("classifier") if isinstance(config, dict) else None
    return told if isinstance(told, str) and told in names else (names[-1] if names else None)
