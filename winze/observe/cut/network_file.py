"""Save and load a trained or cut network as one file: safetensors, or ONNX and `torch.export` to run elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from winze.atomic import check_target, write_atomically
from winze.modes import rng_unchanged, unchanged
from winze.networks import NetworkError, build_stored, fingerprint, read_weights, unwrapped
from winze.networks.stored import is_file
from winze.networks.trained_rules import is_rules, rules_of, warn_of_rules
from winze.networks.weights import KEY, check_fit, check_kinds
from winze.observe.cut.export import to_onnx, to_pt2
from winze.observe.cut.prefix import CutError, prefix_of
from winze.observe.cut.truncate import Cut, PooledHead, Truncated
from winze.observe.passes.cuda_graph import alike
from winze.observe.places.pooling import Layout, check_pool
from winze.shape.sums.example import Example, accepted

VERSION = 2
SUFFIXES = (".safetensors", ".onnx", ".pt2")


def check_file(file: str | Path) -> Path:
    """The path, if a network can be saved there; else an error before any work."""
    path = check_target(Path(file))
    if path.suffix not in SUFFIXES:
        raise ValueError(
            f"{path}: the suffix must be .safetensors (for winze.load), .onnx or .pt2 (torch.export), not "
            f"{path.suffix or 'none'!r}"
        )
    return path


def save(
    net: nn.Module, file: str | Path, *, network: str | Mapping[str, Any] | None = None, example: Any = None
) -> Path:
    """Write a network, cut or whole; the file appears complete or not at all.

    `.safetensors` holds its weights, its rules, its `cut`, and how to build it again, for `winze.load`: `network`, a
    name or what `winze.networks.describe` gives. A network without a name is loaded with `net=`. `.onnx` (extra
    `onnx`) and `.pt2` (`torch.export`) hold a program in eval mode that takes batches of any size; `example` is a
    batch that the network takes, where none can be derived.
    """
    path, net = check_file(file), unwrapped(net)
    if path.suffix == ".safetensors":
        content = _packed(net) if isinstance(net, Truncated) else _whole(net, network)
    else:
        content = (to_onnx if path.suffix == ".onnx" else to_pt2)(net, _example(net, example))
    write_atomically(path, content)
    return path


def pack(net: nn.Module, network: str | Mapping[str, Any] | None) -> bytes:
    """A whole network as the bytes of a file that `load` reads; `network` is what `networks.build` takes."""
    net = unwrapped(net)
    return _bytes(net, {"network": network, "rules": rules_of(net), "version": VERSION})


def load(file: str | Path, net: nn.Module | None = None, trust: bool = False) -> nn.Module:
    """Load a trained or cut network from its file, in eval mode.

    The file is data: it can only name networks of winze, timm and torchvision to build. `net` is a
    network like the one saved, of which a copy takes the weights; it is needed where the file has no such name. A
    `file.py:function` in the file is run only with `trust=True`.
    """
    path = Path(file)
    told, shapes = _header(path)
    if net is None and told["network"] is None:
        raise NetworkError(f"{path} does not name its network: pass net=, made as it was")
    if net is None and not told["alike"]:
        raise NetworkError(
            f"{path}: {told['network']!r} alone does not build this network, which was rewired or made with options: "
            "pass net=, made as it was"
        )
    with rng_unchanged():
        whole = build_stored(told["network"], path, trust=trust) if net is None else deepcopy(unwrapped(net))
        loaded = _rebuilt(told, whole, shapes, path) if "place" in told else whole
    check_fit(shapes, loaded, path)
    state = read_weights(path, strip=False)
    check_kinds(state, loaded, path)
    _fill(loaded, state)
    if told["rules"] is not None:  # files of older versions do not store it
        warn_of_rules(told["rules"], loaded, path)
    return loaded.eval()


def _whole(net: nn.Module, network: str | Mapping[str, Any] | None) -> bytes:
    if network is not None and not is_file(network):
        built, own = fingerprint(build_stored(network, "network=")), fingerprint(net)
        if built["architecture"] != own["architecture"]:
            raise ValueError(
                f"network={network!r} builds another network than this {type(net).__name__}: leave it out and load "
                "the file with net="
            )
    return pack(net, network)


def _packed(net: Truncated) -> bytes:
    if not isinstance(net.head, PooledHead | nn.Identity):
        raise ValueError("a head of your own cannot be built again from a file: save net.state_dict() instead")
    told = {**net.spec, "rules": rules_of(net), "cut": net.cut and net.cut.to_dict(), "version": VERSION}
    return _bytes(net, told | {"alike": _is_built_again(told, net)})


def _bytes(net: nn.Module, told: Mapping[str, Any]) -> bytes:
    from safetensors.torch import save as to_bytes

    # tied weights share memory, which safetensors refuses: each name gets its own
    state = {key: value.detach().to("cpu", copy=True).contiguous() for key, value in net.state_dict().items()}
    return to_bytes(state, {KEY: json.dumps(told)})


def _is_built_again(told: dict[str, Any], net: Truncated) -> bool:
    """Whether its name alone builds this network, without rules or options; True if unknown."""
    if told["network"] is None or is_file(told["network"]):
        return True
    own = deepcopy(net).cpu().eval()
    shapes = {name: tuple(value.shape) for name, value in own.state_dict().items()}
    with rng_unchanged(), torch.no_grad():
        try:
            again = _rebuilt(told, build_stored(told["network"], "the scan"), shapes, "the scan").eval()
            check_fit(shapes, again, "the cut")
        except ValueError:
            return False
        _fill(again, own.state_dict())
        if any(fingerprint(again)[part] != fingerprint(own)[part] for part in ("architecture", "rules")):
            return False
        with suppress(Exception):  # for inputs other than floats of one shape, nothing else can be compared
            noise = torch.randn(told["example"], dtype=_dtype(own))
            return alike(again(noise), own(noise))
    return True


def _header(path: Path) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """The checked description of a file's network, and the shapes of its tensors; no tensor is read."""
    from safetensors import safe_open

    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        with safe_open(str(path), "pt") as opened:  # type: ignore[no-untyped-call,unused-ignore]
            text = (opened.metadata() or {}).get(KEY)
            shapes = {key: tuple(opened.get_slice(key).get_shape()) for key in opened.keys()}  # noqa: SIM118
    except Exception as error:
        if path.suffix in (".onnx", ".pt2"):
            how = "torch.export.load" if path.suffix == ".pt2" else "onnxruntime"
            raise ValueError(f"{path} is a program, not weights: read it with {how}") from error
        read_weights(path)  # raises, unless it is a checkpoint of tensors
        raise ValueError(
            f"{path} is not a safetensors file: it holds weights, but not how to build the network; build it and call "
            "winze.networks.load_weights(net, file)"
        ) from error
    if text is None:
        raise ValueError(f"{path} holds weights, but not how to build the network: it was not written by winze")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: its description of the network is not JSON: {error}") from error
    return _checked(told, path), shapes


def _checked(told: Any, path: Path) -> dict[str, Any]:
    """The description of a file's network, if winze can have written it."""
    if not isinstance(told, dict) or told.get("version") not in (1, VERSION):
        version = told.get("version") if isinstance(told, dict) else None
        raise ValueError(f"{path} has format {version!r} of a network; this winze reads {VERSION}")
    told = {"network": None, "rules": None, "alike": True} | told
    checks: dict[str, Callable[[Any], bool]] = {
        "rules": lambda value: is_rules(value) or (value is None and told["version"] == 1),
        "alike": lambda value: isinstance(value, bool),
    }
    if "place" in told:
        if told["version"] == 1:
            raise ValueError(f"{path} was cut by an older winze: cut the network again, or load it with that version")
        checks |= _OF_CUTS
    for name, check in checks.items():
        if not check(told.get(name)):
            raise ValueError(f"{path} was not written by winze: {name} of its network is {str(told.get(name))[:80]!r}")
    return told


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _is_layout(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"channels", "scale"} and all(map(_is_count, value.values()))


def _is_pool(value: Any) -> bool:
    with suppress(ValueError, TypeError):
        check_pool(value)
        return True
    return False


def _is_cut(value: Any) -> bool:
    with suppress(ValueError):
        return value is None or (isinstance(value, dict) and bool(Cut.from_dict(value)))
    return False


_OF_CUTS: dict[str, Callable[[Any], bool]] = {
    "place": lambda value: isinstance(value, str),
    **dict.fromkeys(("call", "index", "total", "output", "most"), _is_count),
    "layout": _is_layout,
    "pool": _is_pool,
    "left_out": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    "example": lambda value: (
        value is None or (isinstance(value, list) and all(map(_is_count, value)) and math.prod(value) < 1 << 31)
    ),
    "note": lambda value: isinstance(value, str),
    "cut": _is_cut,
}


def _rebuilt(told: dict[str, Any], net: nn.Module, shapes: Mapping[str, Any], source: object) -> Truncated:
    """The network cut again at the same place, without running it; the head is as large as the file's."""
    try:
        body = prefix_of(net, told["place"], told["call"], told["left_out"], copy=False)
    except (AttributeError, CutError) as error:
        raise NetworkError(f"{source} is not of {type(net).__name__}: {error}") from error
    head: nn.Module = nn.Identity()
    size = shapes.get("head.linear.weight", ())
    if len(size) == 2:
        classes, features = size
        layout = Layout(**told["layout"])
        head = PooledHead(classes, features, layout, told["pool"], told["index"], told["most"], told["output"])
    cut = told.get("cut")
    kept = {key: value for key, value in told.items() if key not in ("rules", "cut", "version", "alike")}
    return Truncated(body, head, cut and Cut.from_dict(cut), kept)


def _fill(net: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Replace a network's tensors, in the precision of the file; tied weights stay tied."""
    shared: dict[int, list[tuple[nn.Module, str]]] = {}
    for module in net.modules():
        for key, parameter in module._parameters.items():
            shared.setdefault(id(parameter), []).append((module, key))
    net.load_state_dict(state, assign=True)
    for (first, name), *others in shared.values():
        for module, key in others:
            module._parameters[key] = first._parameters[name]


def _example(net: nn.Module, given: Any) -> Example:
    """A batch that a network takes: the one given, noise of the shape that a cut was scanned with, or a guess."""
    shape = net.spec.get("example") if isinstance(net, Truncated) else None
    if given is None and shape is not None:
        given = torch.randn(shape, dtype=_dtype(net), generator=torch.Generator().manual_seed(0))
        given = given.to(next((p.device for p in net.parameters()), torch.device("cpu")))

    def tried(example: Example) -> Example:
        with torch.no_grad(), unchanged(net, training=False):
            net(*example.args, **example.kwargs)
        return example

    return accepted(net, given, tried)


def _dtype(net: nn.Module) -> torch.dtype:
    return next((p.dtype for p in net.parameters() if p.is_floating_point()), torch.float32)
