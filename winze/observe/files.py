"""A trained or a cut network as one safetensors file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn

from winze.depth import Place
from winze.observe.features import Layout
from winze.observe.places import Spot
from winze.observe.prefix import prefix
from winze.observe.replay import alike
from winze.observe.truncate import Reading, Truncated
from winze.shape.capture.example import Example

KEY = "winze"


def save(net: Truncated, file: str | Path) -> Path:
    """Write a cut network: its weights, and in the metadata how to build it again."""
    from safetensors.torch import save_file

    path = Path(file)
    if net.spec["network"] is None:
        raise ValueError(
            'this network has no name by which to build it again: cut it with network="timm_name", '
            '"torchvision/name" or "my_file.py:function"'
        )
    if not isinstance(net.head, Reading | nn.Identity):
        raise ValueError("a head of your own cannot be built again from a file: save net.state_dict() instead")
    state = {key: value.contiguous() for key, value in net.state_dict().items()}
    head = list(net.head.linear.weight.shape) if isinstance(net.head, Reading) else None
    spec = {**net.spec, "head": head, "version": 1}
    metadata = {KEY: json.dumps(spec | {"alike": _is_built_again(spec, net)})}
    partial = path.with_name(path.name + ".partial")
    save_file(state, str(partial), metadata)
    partial.replace(path)
    return path


def _is_built_again(spec: dict[str, Any], net: Truncated) -> bool:
    """Whether its name builds this very network, which rules and options beside the name change; True if unknown."""
    own = deepcopy(net).cpu().eval()
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # building draws weights
        try:
            noise = torch.randn(spec["example"], dtype=_dtype(own))
            expected = own(noise)
        except Exception as error:
            raise ValueError(
                f"a file can tell of one input of floating numbers, which this cut does not take ({error}): save its "
                "state_dict() instead"
            ) from error
        try:
            whole = _build(spec)
        except Exception:  # a file that is elsewhere, say: whoever loads it will see
            return True
        with suppress(Exception):  # a network of other parts
            again = _rebuilt(spec, whole)
            again.load_state_dict(own.state_dict(), assign=True)
            return alike(again.eval()(noise), expected)
    return False


def pack(net: nn.Module, network: str | Mapping[str, Any]) -> bytes:
    """A whole network as the bytes of a file that `load` reads; `network` is what `networks.build` takes."""
    from safetensors.torch import save as to_bytes

    # tied weights share memory, which safetensors refuses: each name gets its own
    state = {key: value.detach().to("cpu", copy=True).contiguous() for key, value in net.state_dict().items()}
    return to_bytes(state, {KEY: json.dumps({"network": network, "version": 1})})


def load(file: str | Path, net: nn.Module | None = None) -> nn.Module:
    """A trained or cut network back from its file.

    `net` is built like the network where that cannot be built by its name; a copy of it takes the weights.
    """
    from safetensors import safe_open

    from winze.networks import read_weights

    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        with safe_open(str(path), "pt") as opened:  # type: ignore[no-untyped-call,unused-ignore]
            told = (opened.metadata() or {}).get(KEY)
            state = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    except Exception as error:
        read_weights(path)  # says what is wrong, unless it is a checkpoint of tensors
        raise ValueError(
            f"{path} is not a safetensors file: it holds weights, but not how to build the network; build it and call "
            "winze.networks.load_weights(net, file)"
        ) from error
    if told is None:
        raise ValueError(f"{path} holds weights, but not how to build the network: it was not written by winze")
    spec = json.loads(told)
    if net is None and not spec.get("alike", True):
        raise ValueError(
            f"{path}: {spec['network']!r} alone does not build this network, which was rewired or made with options: "
            "pass net=, made as it was"
        )
    whole = deepcopy(net) if net is not None else _build(spec)
    loaded = _rebuilt(spec, whole) if "place" in spec else whole
    loaded.load_state_dict(state, assign=True)  # in the precision of the file
    return loaded.eval()


def _build(spec: dict[str, Any]) -> nn.Module:
    from winze.networks import build

    return build(spec["network"])


def _rebuilt(spec: dict[str, Any], net: nn.Module) -> Truncated:
    layout = Layout(**spec["layout"])
    place = Place(spec["index"], spec["total"], spec["place"])
    spot = Spot(place, net.get_submodule(spec["place"]), 0, spec["output"], layout)
    body = prefix(net, spot, Example(torch.zeros(spec["example"], dtype=_dtype(net))))
    head: nn.Module = nn.Identity()
    if spec["head"] is not None:
        classes, features = spec["head"]
        head = Reading(classes, features, layout, spec["pool"], place.index, spec["most"], spec["output"])
    return Truncated(body, head, None, spec)


def _dtype(net: nn.Module) -> torch.dtype:
    return next((p.dtype for p in net.parameters() if p.is_floating_point()), torch.float32)
