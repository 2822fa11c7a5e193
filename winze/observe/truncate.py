"""Cut off what does not help: keep a network up to a place and put the probe on top."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from winze.depth import Place
from winze.memory import is_out_of_memory
from winze.observe.costs import SAMPLES, costs
from winze.observe.features import Layout, Pool, pooled, sampled
from winze.observe.places import Spot, find_spots
from winze.observe.prefix import CutError, prefix
from winze.observe.result import Scan
from winze.report.names import percent, speed
from winze.shape.capture.example import Example, accepted


@dataclass(frozen=True)
class Cut:
    """What cutting at `place` costs and saves; accuracies are those of the scan's test data.

    Operations and seconds are of one batch of so many `samples`.
    """

    place: Place
    accuracy: float
    accuracy_before: float
    parameters: int
    parameters_before: int
    flops: int
    flops_before: int
    seconds: float
    seconds_before: float
    samples: int

    def __str__(self) -> str:
        parts = []
        if isfinite(self.accuracy) and self.accuracy_before > 0:
            both = f"{percent(self.accuracy)}, before {percent(self.accuracy_before)}"
            parts = [f"{percent(self.accuracy / self.accuracy_before)} of the accuracy ({both})"]
        parts.append(f"{speed(self.seconds / self.seconds_before)} on {self.samples} samples")
        for name, left, whole in (
            ("parameters", self.parameters, self.parameters_before),
            ("FLOPs", self.flops, self.flops_before),
        ):
            parts += [f"{100 * left / whole:.0f} % of the {name}"] if whole else []
        where = f"layer {self.place.index + 1} of {self.place.total}, `{self.place.name}`"
        return f"Cut after {where}: {', '.join(parts)}."


class Reading(nn.Module):
    """Features of a place as the scan took them, and a linear head on them."""

    def __init__(
        self, classes: int, features: int, layout: Layout, pool: Pool, seed: int, most: int, output: int
    ) -> None:
        super().__init__()
        self.layout, self.pool, self.seed, self.most, self.output = layout, pool, seed, most, output
        self.linear = nn.Linear(features, classes)

    def forward(self, output: Any) -> Tensor:
        if not isinstance(output, Tensor):
            output = [t for t in torch.utils._pytree.tree_leaves(output) if isinstance(t, Tensor)][self.output]
        features = pooled(output, self.layout, self.pool)
        if features.shape[1] > self.linear.in_features:
            features = sampled(features, self.most, self.seed)
        return self.linear(features.to(self.linear.weight.dtype))  # type: ignore[no-any-return,unused-ignore]


class Truncated(nn.Module):
    """A network up to a place with a head on top: an ordinary module that saves, loads and exports.

    `cut` says what it costs and saves, `spec` how to build it again.
    """

    def __init__(self, body: nn.Module, head: nn.Module, cut: Cut | None, spec: dict[str, Any]) -> None:
        super().__init__()
        self.body, self.head = body, head
        self.cut, self.spec = cut, spec

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.head(self.body(*args, **kwargs))


def truncate(
    net: nn.Module,
    scan: Scan,
    at: str | int | Place | None = None,
    head: str | nn.Module | None = "probe",
    *,
    threshold: float = 0.95,
    example: Any = None,
    network: str | None = None,
    measure: bool = True,
    copy: bool = True,
) -> Truncated:
    """Keep a network up to a place and put the scan's probe on top.

    `at` is a place, its name or its number from 0; left out, the start of the tunnel at `threshold`. `head` is
    `"probe"`, a module of your own that takes the place's output, or None for the bare output. `network` is the name
    or `file.py:function` by which `winze.load` builds the network again. Accuracy is the probe's on the scan's test
    data; parameters, operations and seconds are measured on `example` (left out: 32 samples of
    noise of the shape scanned).

    The result has weights of its own: training it leaves the network as it is. With `copy=False` it is made of the
    network's own modules, which takes no memory, and training the one trains the other.
    """
    place = _place(scan, at, threshold)
    given = example if example is not None else _noise(net, scan)
    sample = accepted(net, given, lambda example: example)
    batch = sample.kwargs or sample.args
    try:
        spot = _spot(net, scan, place, batch)
    except (TypeError, RuntimeError, IndexError) as error:
        if example is not None or isinstance(error, CutError) or is_out_of_memory(error):
            raise
        raise ValueError(f"the network does not take noise of the shape scanned, pass example=: {error}") from error
    body = prefix(net, spot, sample)
    spec = _spec(net, scan, spot, network)
    top = _head(scan, spot, head)
    like = next((p for p in net.parameters()), None)
    modes = [(module, module.training) for module in net.modules()]
    small = Truncated(body, top.to(like.device) if like is not None else top, None, spec).train(net.training)
    for module, mode in modes:  # it is made of the network's own modules so far
        module.training = mode
    if copy:
        small.body = _copied(body)
    _check_batches(small, sample)
    if measure:
        small.cut = _cost(net, small, scan, place, sample if example is not None else sample.with_batch(SAMPLES))
    return small


def _copied(body: nn.Module) -> nn.Module:
    try:
        own = deepcopy(body)
    except Exception as error:
        raise CutError(f"the kept part cannot be copied, cut with copy=False: {error}") from error
    own.zero_grad()
    return own


def _place(scan: Scan, at: str | int | Place | None, threshold: float) -> Place:
    places = scan.places
    if at is None:
        found = scan.tunnel(threshold)
        if found.start is None:
            raise ValueError(f"no place to cut at: {found.reason}; name one with at= (--at)")
        return found.start
    if isinstance(at, int) and 0 <= at < len(places):
        return places[at]
    name = at.name if isinstance(at, Place) else at
    for place in places:
        if place.name == name:
            return place
    import difflib

    near = difflib.get_close_matches(str(name), [place.name for place in places], n=3, cutoff=0.0)
    raise ValueError(f"no place {at!r} in this scan; the nearest names: {', '.join(near)}")


def _noise(net: nn.Module, scan: Scan) -> Tensor | None:
    shape = scan.readings.conventions.get("example")
    like = next((p for p in net.parameters() if p.is_floating_point()), None)
    if shape is None or like is None:
        return None
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(like.device, like.dtype)


def _spot(net: nn.Module, scan: Scan, place: Place, batch: Any) -> Spot:
    name, _, call = place.name.partition(":")
    if call:
        raise CutError(f"place {place.name!r} is a later call of a module that the network uses again: cut elsewhere")
    found = find_spots(net, batch, [name])[0]
    channels, scale = scan.readings.conventions["layouts"][place.index]
    return Spot(place, found.module, 0, found.output, Layout(channels, scale))


def _head(scan: Scan, spot: Spot, head: str | nn.Module | None) -> nn.Module:
    if isinstance(head, nn.Module):
        return head
    if head is None:
        return nn.Identity()
    if head != "probe":
        raise ValueError(f'head must be "probe", a module or None, got {head!r}')
    arrays, told = scan.readings.arrays, scan.readings.conventions
    key = f"probe/{scan.data}/{spot.place.index}"
    if f"{key}/weight" not in arrays:
        raise ValueError("this scan has no probes: scan with train data and measure 'probe', or pass head=")
    weight = torch.from_numpy(arrays[f"{key}/weight"])
    assert spot.layout is not None
    classes, features = weight.shape
    most = int(told["rank"]["max_features"])
    top = Reading(classes, features, spot.layout, told["pool"], spot.place.index, most, spot.output)
    with torch.no_grad():
        top.linear.weight.copy_(weight)
        top.linear.bias.copy_(torch.from_numpy(arrays[f"{key}/bias"]))
    return top


def _spec(net: nn.Module, scan: Scan, spot: Spot, network: str | None) -> dict[str, Any]:
    told = scan.readings.conventions
    return {
        "network": network or told.get("spec") or _timm_spec(net, told.get("example")),
        "place": spot.place.name,
        "index": spot.place.index,
        "total": spot.place.total,
        "output": spot.output,
        "layout": asdict(spot.layout) if spot.layout else None,
        "pool": told["pool"],
        "most": told["rank"]["max_features"],
        "example": told.get("example"),
        "preprocess": told.get("preprocess"),
    }


def _timm_spec(net: nn.Module, example: list[int] | None) -> dict[str, Any] | None:
    """How timm would build this network again: its architecture, number of classes and of input channels."""
    config = getattr(net, "pretrained_cfg", None)
    name = config.get("architecture") if isinstance(config, dict) else None
    if name is None:
        return None
    channels = {"in_chans": example[1]} if example is not None and len(example) == 4 and example[1] != 3 else {}
    return {"name": name, "classes": getattr(net, "num_classes", None), "options": channels}


def _check_batches(small: nn.Module, sample: Example) -> None:
    """A cut whose numbers are bound to one batch size is no network: find out now."""
    larger = sample.with_batch(sample.batch + 1)
    modes = [(m, m.training) for m in small.modules()]
    small.eval()
    try:
        with torch.no_grad():
            rows = len(small(*larger.args, **larger.kwargs))
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise CutError(f"the cut network runs at one batch size only: {error}") from error
    finally:
        for module, mode in modes:
            module.training = mode
    if rows % (sample.batch + 1):
        raise CutError("the cut network does not follow the batch size")


def _cost(net: nn.Module, small: nn.Module, scan: Scan, place: Place, sample: Example) -> Cut:
    before, after = costs([net, small], sample.kwargs or sample.args)
    own = scan.readings.select(measure="accuracy").rows
    probed = "probe" in scan.readings.conventions["measures"]
    curve = scan.curve("probe").tolist() if probed else [float("nan")] * len(scan.places)
    reference = own[0].value if own and own[0].value == own[0].value else curve[-1]
    return Cut(
        place,
        curve[place.index],
        reference,
        after.parameters,
        before.parameters,
        after.flops,
        before.flops,
        after.seconds,
        before.seconds,
        sample.batch,
    )
