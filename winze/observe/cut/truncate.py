"""Cut a network: keep it up to a place and put the probe on top."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite, nan
from typing import Any

import torch
from torch import Tensor, nn

from winze.hints import nearest
from winze.memory import is_out_of_memory
from winze.modes import unchanged
from winze.networks import difference, interpreted, unwrapped
from winze.observe.cut.costs import SAMPLES, SpeedUp, costs
from winze.observe.cut.prefix import CutError, Prefix, Use, prefix
from winze.observe.passes.feed import Feed
from winze.observe.passes.inputs import AnyData, generators
from winze.observe.passes.last_layer import logits_of
from winze.observe.places.pooling import Layout, Pool, pooled, sampled
from winze.observe.result import Scan
from winze.place import Place
from winze.readings import facts
from winze.readings.wording import percent, points
from winze.shape.sums.example import Example, accepted

BATCH = 256
"""Samples per batch where an accuracy is measured."""
NEEDED = ("data", "places", "layouts", "pool", "measures", "rank", "class_count")
"""The conventions that a scan must hold for a cut."""


@dataclass(frozen=True)
class Cut:
    """The costs and savings of a cut at `place`.

    `accuracy` and `accuracy_before` were measured on `measured` samples; where that is 0, they are the scan's
    estimates. `accuracy_before` is that of the whole network (`own`), or of the scan's last probe where the network's
    outputs do not match the labels. Operations and seconds are those of one batch of `samples`. `note` holds warnings.
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
    speed_up: SpeedUp
    measured: int = 0
    own: bool = True
    note: str = ""

    def __str__(self) -> str:
        parts = [] if not isfinite(self.accuracy) else [self._accuracy()]
        parts.append(f"{self.speed_up} on {self.samples} samples")
        for name, left, whole in (
            ("parameters", self.parameters, self.parameters_before),
            ("FLOPs", self.flops, self.flops_before),
        ):
            parts += [f"{100 * left / whole:.0f} % of the {name}"] if whole else []
        where = f"layer {self.place.index + 1} of {self.place.total}, `{self.place.name}`"
        note = f" {self.note[0].upper()}{self.note[1:]}." if self.note else ""
        return f"Cut after {where}: {', '.join(parts)}.{note}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Cut:
        """The inverse of `to_dict`; raises a ValueError for other values."""
        numbers = {key: value for key, value in values.items() if key not in ("place", "speed_up", "note")}
        note = values.get("note")
        try:
            place, faster = Place(**values["place"]), SpeedUp(**values["speed_up"])
            told = [place.index, place.total, faster.value, faster.low, faster.high, *numbers.values()]
            texts = place.name, note
            if not all(type(each) in (int, float, bool) for each in told) or not all(
                isinstance(each, str) for each in texts
            ):
                raise TypeError("a value of another type")
            return cls(**{**numbers, "place": place, "speed_up": faster, "note": note})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a stored cut: {error}") from error

    def _accuracy(self) -> str:
        how = f"measured on {self.measured} samples" if self.measured else "estimated by the scan"
        if not isfinite(self.accuracy_before):
            return f"{percent(self.accuracy)} accuracy ({how})"
        before = "before" if self.own else "last probe"
        both = f"({how}: {percent(self.accuracy)}, {before} {percent(self.accuracy_before)})"
        if self.accuracy > self.accuracy_before or not self.accuracy_before:
            return f"{points(self.accuracy - self.accuracy_before)} points of accuracy {both}"
        return f"{percent(self.accuracy / self.accuracy_before)} of the accuracy {both}"


class PooledHead(nn.Module):
    """Features of a place as the scan pooled them, and a linear head on them."""

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
    """A network up to a place with a head on top: an ordinary module that can be saved, loaded and exported. `cut`
    holds its costs and savings, `spec` how to build it again.
    """

    def __init__(self, body: Prefix, head: nn.Module, cut: Cut | None, spec: dict[str, Any]) -> None:
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
    data: AnyData = None,
    example: Any = None,
    network: str | None = None,
    measure: bool = True,
    copy: bool = True,
    force: bool = False,
) -> Truncated:
    """Keep a network up to a place and put the scan's probe on top.

    `at` is a place, its name or its number from 0; by default, the start of the tunnel at `threshold`. `head` is
    `"probe"`, a module of your own that takes the place's output, or None for the bare output. `network` is the name
    or `file.py:function` by which `winze.load` builds the network again.

    The result's `cut` has the accuracy on `data`, test data as `scan` takes them, with the number of samples; without
    data it is the probe's accuracy in the scan, an estimate. Parameters, operations and seconds are measured on
    `example` (by default 32 samples of the data, or noise of the scanned shape).

    The scan must be of this network: its architecture, rules and weights are compared with the fingerprint that the
    scan holds. `force=True` cuts regardless, and `cut.note` says so.

    The result has weights of its own: training it leaves the network as it is. With `copy=False` it shares the
    network's tensors: that takes no memory, and training one trains the other.
    """
    net = unwrapped(net)
    note = check_scan(net, scan, force)
    place = _place(scan, at, threshold)
    with interpreted(net), unchanged(net, generators=generators(data)):
        feed = None if data is None else Feed.of(data, "data", BATCH, _device(net), net)
        sample = _example(net, scan, example if feed is None or example is not None else feed.example(SAMPLES))
        try:
            small = cut_at(net, scan, place, sample, head, copy=copy, network=network, note=note)
        except (TypeError, RuntimeError, IndexError) as error:
            if isinstance(error, CutError) or example is not None or is_out_of_memory(error):
                raise
            raise ValueError(f"the network does not take noise of the scanned shape, pass example=: {error}") from error
        if measure:
            timed = sample if example is not None else sample.with_batch(SAMPLES)
            small.cut = _cut(net, small, scan, place, timed, feed)
    return small


def check_scan(net: nn.Module, scan: Scan, force: bool = False) -> str:
    """Raise unless a scan is of this network; with `force`, return the reason instead (empty where there is none)."""
    if not isinstance(scan, Scan):
        raise TypeError(f"scan= takes what winze.scan or winze.Scan.load gives, not a {type(scan).__name__}")
    told = scan.readings.conventions
    if lacking := [name for name in NEEDED if name not in told]:
        raise ValueError(f"these are not the readings of a scan: they lack {', '.join(lacking)}")
    stored = told.get("fingerprint")
    if not isinstance(stored, dict):
        note = "the scan has no fingerprint of its network: an older winze wrote it"
    elif wrong := difference(stored, net, told.example):
        note = f"the scan is of {wrong}"
    else:
        return ""
    if not force:
        raise ValueError(
            f"{note}: scan this network again (winze.scan, `winze scan`), or use the scan all the same with force=True "
            "(--force)"
        )
    return f"forced: {note}"


def cut_at(
    net: nn.Module,
    scan: Scan,
    place: Place,
    sample: Example,
    head: str | nn.Module | None = "probe",
    *,
    copy: bool,
    network: str | None = None,
    note: str = "",
    use: Use | None = None,
) -> Truncated:
    """A network up to a place of its scan with a head on top, in the modes of the network; no costs are measured.

    `use`: what the network has used at the place for this sample, where that is known.
    """
    told = scan.readings.conventions
    name, call = called(place)
    layout = Layout(*told["layouts"][place.index])
    output = told["outputs"][place.index] if "outputs" in told else 0
    top = _head(scan, place, layout, output, head)
    body, left_out = prefix(net, name, call, sample, copy=copy, use=use)
    spec = {
        "network": network or told.get("spec") or _timm_spec(net, told.get("example")),
        "place": name,
        "call": call,
        "index": place.index,
        "total": place.total,
        "output": output,
        "layout": asdict(layout),
        "pool": told["pool"],
        "most": told["rank"]["max_features"],
        "left_out": left_out,
        "example": told.get("example"),
        "preprocess": told.get("preprocess"),
        "note": note,
    }
    small = Truncated(body, top.to(_device(net)), None, spec)
    for module in (small, body, *top.modules()):
        module.training = net.training
    _check_batches(small, sample, output)
    return small


def called(place: Place) -> tuple[str, int]:
    """The module of a place, and the number of its call from 0."""
    name, _, number = place.name.partition(":")
    return name, int(number) - 1 if number else 0


def _place(scan: Scan, at: str | int | Place | None, threshold: float) -> Place:
    places = scan.places
    if at is None:
        found = scan.tunnel(threshold)
        if found is None or found.start is None:
            why = "there is no tunnel" if found is None else found.reason
            raise ValueError(f"no place to cut at: {why}; name one with at= (--at)")
        return found.start
    if isinstance(at, int) and 0 <= at < len(places):
        return places[at]
    name = at.name if isinstance(at, Place) else at
    for place in places:
        if place.name == name:
            return place
    near = nearest(str(name), [place.name for place in places])
    raise ValueError(f"no place {at!r} in this scan; the nearest names: {', '.join(near)}")


def _example(net: nn.Module, scan: Scan, given: Any) -> Example:
    if given is not None:
        return Example(given)
    shape = scan.readings.conventions.example
    like = next((p for p in net.parameters() if p.is_floating_point()), None)
    if shape is not None and like is not None:
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        return Example(noise.to(like.device, like.dtype))
    return accepted(net, None, _taken_by(net))


def _taken_by(net: nn.Module) -> Callable[[Example], Example]:
    def tried(example: Example) -> Example:
        with torch.no_grad(), unchanged(net, training=False):
            net(*example.args, **example.kwargs)
        return example

    return tried


def _head(scan: Scan, place: Place, layout: Layout, output: int, head: str | nn.Module | None) -> nn.Module:
    if isinstance(head, nn.Module):
        return head
    if head is None:
        return nn.Identity()
    if head != "probe":
        raise ValueError(f'head must be "probe", a module or None, got {head!r}')
    arrays, told = scan.readings.arrays, scan.readings.conventions
    key = f"probe/{scan.data}/{place.index}"
    if f"{key}/weight" not in arrays:
        raise ValueError("this scan has no probes: scan with train data and measure 'probe', or pass head=")
    weight = torch.from_numpy(arrays[f"{key}/weight"])
    classes, features = weight.shape
    most = int(told["rank"]["max_features"])
    top = PooledHead(classes, features, layout, told["pool"], place.index, most, output)
    with torch.no_grad():
        top.linear.weight.copy_(weight)
        top.linear.bias.copy_(torch.from_numpy(arrays[f"{key}/bias"]))
    return top


def _timm_spec(net: nn.Module, example: list[int] | None) -> dict[str, Any] | None:
    """How timm would build this network again: its architecture, number of classes and of input channels."""
    config = getattr(net, "pretrained_cfg", None)
    name = config.get("architecture") if isinstance(config, dict) else None
    if name is None:
        return None
    channels = {"in_chans": example[1]} if example is not None and len(example) == 4 and example[1] != 3 else {}
    return {"name": name, "classes": getattr(net, "num_classes", None), "options": channels}


def _device(net: nn.Module) -> torch.device:
    return next((p.device for p in net.parameters()), torch.device("cpu"))


def _check_batches(small: Truncated, sample: Example, output: int) -> None:
    """Raise where a cut network does not run, or runs at one batch size only; its body has run on the sample before."""
    found, errors = None, []
    for each in (sample.with_batch(sample.batch + 1), sample):
        try:
            with torch.no_grad(), unchanged(small, training=False):
                found = small(*each.args, **each.kwargs)
            break
        except Exception as error:
            if is_out_of_memory(error):
                raise
            errors.append(error)
    if errors:
        wrong = "runs at one batch size only" if len(errors) == 1 else "does not run"
        raise CutError(f"the cut network {wrong}: {errors[-1]}") from errors[-1]
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(found) if isinstance(leaf, Tensor)]
    first = tensors[output if output < len(tensors) else 0] if tensors else None
    if first is None or first.ndim == 0 or len(first) % (sample.batch + 1):
        raise CutError("the cut network does not follow the batch size")


def _cut(net: nn.Module, small: Truncated, scan: Scan, place: Place, timed: Example, feed: Feed | None) -> Cut:
    before, after = costs([net, small], timed.kwargs or timed.args)
    n, accuracy = 0, nan
    reference = facts.reference(scan.readings) if facts.has(scan.readings, "probe") else facts.Reference(nan, own=True)
    if feed is not None and not isinstance(small.head, nn.Identity):
        n, accuracy, own = _measured(net, small, scan, feed)
        reference = replace(reference, accuracy=own if reference.own else nan)
    elif isinstance(small.head, PooledHead) and not small.spec["note"]:
        accuracy = float(scan.curve("probe")[place.index])
    return Cut(
        place,
        accuracy,
        reference.accuracy,
        after.parameters,
        before.parameters,
        after.flops,
        before.flops,
        after.seconds,
        before.seconds,
        timed.batch,
        SpeedUp.of(before, after),
        n,
        reference.own,
        small.spec["note"],
    )


@torch.no_grad()
def _measured(net: nn.Module, small: nn.Module, scan: Scan, feed: Feed) -> tuple[int, float, float]:
    """Number of samples, accuracy of the cut and of the network; NaN where the network's outputs are other classes."""
    told = scan.readings.conventions
    feed.kept = None if told.get("labels") is None else torch.tensor(told["labels"])
    right = {small: 0.0, net: 0.0}
    with unchanged(*right, training=False):
        for batch in feed:
            if int(batch.labels.max()) >= told["class_count"]:
                raise ValueError(
                    f"{feed.name}: label {int(batch.labels.max())} is none of the scan's {told['class_count']} classes"
                )
            for each in right:
                logits = logits_of(each(*batch.args, **batch.kwargs), len(batch))
                if logits is not None and not logits.isfinite().all():
                    lost = int((~logits.isfinite().all(1)).sum())
                    raise ValueError(f"{feed.name}: outputs are NaN or infinite for {lost} of {len(batch)} samples")
                if logits is None or (
                    each is net and (feed.kept is not None or logits.shape[1] != told["class_count"])
                ):
                    right[each] = nan
                else:
                    right[each] += float((logits.argmax(1).cpu() == batch.labels).sum())
    return feed.samples, right[small] / feed.samples, right[net] / feed.samples
