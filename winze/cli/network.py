"""A network made ready for data: built by name, filled with weights, with the preprocessing of its input."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

    import winze

Normalise = Literal["network", "data"]


@dataclass(frozen=True)
class Wish:
    """What the command line says about the network and its input."""

    spec: str
    weights: Path | None = None
    pretrained: bool = False
    size: int | None = None
    normalise: Normalise | None = None
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Ready:
    """A network in evaluation mode, its preprocessing, how to build it again, and what the user should know.

    `weights` says where those come from.
    """

    net: torch.nn.Module
    preprocess: winze.data.Preprocess | None
    spec: dict[str, Any]
    input: str
    weights: dict[str, str] | str
    notes: list[str] = field(default_factory=list)


def make_ready(wish: Wish, dataset: winze.data.Dataset, device: torch.device) -> Ready:
    """Build, fill, prepare, and try on two samples."""
    from winze.networks import NetworkError, describe, load_weights, published

    if wish.weights is not None and wish.pretrained:
        raise NetworkError("--weights and --pretrained exclude each other")
    options = _options(wish, dataset)
    net, classes = _built(wish, dataset, options)
    notes = []
    if wish.weights is not None:
        load_weights(net, wish.weights)
    weights = _weights(wish)
    if weights == "random":
        notes.append("the network has random weights: neither --weights nor --pretrained was given")
    known = published(wish.spec, net, wish.pretrained)
    as_published = known is not None and (
        wish.pretrained or (wish.weights is not None and classes in (None, known.classes))
    )
    normalise = wish.normalise or ("network" if as_published else "data")
    preprocess = _preprocess(wish, dataset, net, known, as_published, normalise)
    net.to(device).eval()
    _try(net, wish.spec, dataset, preprocess, device)
    spec = describe(_without_machine(wish.spec), classes, **options)
    return Ready(net, preprocess, spec, _input(preprocess, normalise), weights, notes)


def _weights(wish: Wish) -> dict[str, str] | str:
    """Where the weights come from; a function in a file may load its own."""
    from winze.atomic import sha256

    if wish.weights is not None:
        return {"file": wish.weights.name, "sha256": sha256(wish.weights)}
    if wish.pretrained:
        return "published"
    return f"as {_without_machine(wish.spec)} made them" if ".py" in wish.spec else "random"


def _without_machine(spec: str) -> str:
    """A `file.py:function` as seen from this folder; of one outside it the file's name, without the folders above."""
    file, _, function = spec.rpartition(":")
    if not file.endswith(".py"):
        return spec
    path, here = Path(file).expanduser().resolve(), Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path.name}:{function}"


def _options(wish: Wish, dataset: winze.data.Dataset) -> dict[str, Any]:
    """Our own networks take their number of inputs or of channels from the data, where weights do not settle it."""
    from winze.networks import options_for, trained

    if wish.pretrained:
        known = trained(wish.spec)
        return {} if known is None else known.options
    shape = dataset.shape if wish.size is None or not dataset.holds_images else (dataset.shape[0], wish.size, wish.size)
    return options_for(wish.spec, shape)


def _built(wish: Wish, dataset: winze.data.Dataset, options: dict[str, Any]) -> tuple[torch.nn.Module, int | None]:
    """The network, and its number of classes where it is not its own: what the weights hold, else the data's."""
    import torch

    from winze.networks import build, head_of, read_weights
    from winze.networks.weights import without_prefix

    torch.manual_seed(wish.seed)
    if wish.pretrained:
        return build(wish.spec, None, **options, pretrained=True), None
    if wish.weights is None:
        return build(wish.spec, len(dataset.classes), **options), len(dataset.classes)
    net = build(wish.spec, None, **options)
    held = without_prefix(read_weights(wish.weights), net.state_dict(), wish.weights)
    head = head_of(net)
    weight = held.get(f"{head}.weight")
    if weight is None or weight.ndim < 2 or weight.shape == net.state_dict()[f"{head}.weight"].shape:
        return net, None
    return build(wish.spec, len(weight), **options), len(weight)


def _preprocess(
    wish: Wish,
    dataset: winze.data.Dataset,
    net: torch.nn.Module,
    known: winze.networks.Published | None,
    as_published: bool,
    normalise: Normalise,
) -> winze.data.Preprocess | None:
    """The published network's way for published weights; for others the data's own size and statistics."""
    from winze.data import Preprocess
    from winze.networks import NetworkError

    if not dataset.holds_images:
        return None
    if normalise == "network" and known is None:
        raise NetworkError(f"{wish.spec} does not say how its input is normalised; use --normalise data")
    height, width = dataset.shape[1:]
    if wish.size is not None:
        height = width = wish.size
    elif known is not None and (as_published or known.fixed):
        height, width = known.input_size[1:]
    channels = known.input_size[0] if known is not None else _channels(net, dataset)
    if normalise == "network" and known is not None:
        return Preprocess((height, width), known.mean, known.std, channels)
    return Preprocess.of(dataset, (height, width), channels)


def _input(preprocess: winze.data.Preprocess | None, normalise: Normalise) -> str:
    """What goes into the network, in one sentence."""
    if preprocess is None or preprocess.size is None:
        return "samples go in as they are stored"
    shape = "x".join(map(str, (preprocess.channels, *preprocess.size)))
    return f"input {shape}, normalised by the {normalise}'s statistics (change with --size, --normalise)"


def _channels(net: torch.nn.Module, dataset: winze.data.Dataset) -> int:
    """What the first layer takes, where that is a convolution of grey or colour images; else what the data has."""
    from torch.nn import Conv2d, Linear

    first = next((m for m in net.modules() if isinstance(m, Conv2d | Linear)), None)
    return first.in_channels if isinstance(first, Conv2d) and first.in_channels in (1, 3) else dataset.shape[0]


def _try(
    net: torch.nn.Module,
    spec: str,
    dataset: winze.data.Dataset,
    preprocess: winze.data.Preprocess | None,
    device: torch.device,
) -> None:
    import torch

    from winze.memory import enough_memory
    from winze.networks import NetworkError

    x = dataset.test_images[:2].to(device)
    x = x if preprocess is None else preprocess(x)
    try:
        with torch.no_grad(), enough_memory(f"{spec}, two samples of {dataset.name}", "make them smaller by --size"):
            net(x)
    except MemoryError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())
        shape = "x".join(map(str, x.shape[1:]))
        raise NetworkError(f"{spec} does not take {dataset.name} as {shape} (try --size): {said}") from error


def device_named(name: str | None) -> torch.device:
    """The device of that name; None: a GPU where there is one, else the CPU."""
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        why = "write cpu, cuda or cuda:1" if first.startswith("Expected one of") else first
        raise ValueError(f"device {name!r} cannot be used: {why}") from error
    return device
