"""From what was read of a module to the plan of its rewritten forward."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from winze.shape.capture.program import Capture
from winze.shape.capture.split import Plan, split
from winze.shape.capture.survey import Record, at_rest, inlined, read_forward, where


class CaptureError(RuntimeError):
    """A network, or one module of it, whose forward winze cannot read or rewrite."""


def scales_between(one: Record, batch_one: int, two: Record, batch_two: int) -> dict[str, int]:
    """Rows per sample of each tensor: the k for which its first axis is k x batch at both batch sizes, else 0."""
    found = {}
    for name, shape in one.shapes.items():
        other = two.shapes.get(name)
        if not shape or not other:
            continue
        scale = shape[0] // batch_one
        found[name] = scale if (scale * batch_one, scale * batch_two) == (shape[0], other[0]) else 0
    return found


def plan_of(holder: nn.Module, record: Record, scales: dict[str, int], batch: int, batch_free: bool) -> Plan:
    """Cut a record at its sums; tensors whose name the two batch sizes did not show are told by their first axis."""
    if record.contexts:
        raise CaptureError(
            f"{where(holder)} has {', '.join(sorted(record.contexts))} in a forward that holds a junction: "
            "write the sum with a native winze.Junction"
        )
    for node in record.graph.nodes:
        if node.meta.get("tensor"):
            node.meta["scale"] = scales[node.name] if node.name in scales else _guess(node, batch)
    return split(record.graph, record.sums, record.constants, bound=bool(record.bound), apart=batch_free)


def _guess(node: fx.Node, batch: int) -> int:
    shape = node.meta["shape"]
    return shape[0] // batch if shape and shape[0] % batch == 0 else 0


def make_plan(capture: Capture, args: Any, kwargs: Any) -> Plan:
    """Read a captured module anew for a call that none of its plans fits."""
    holder = capture.holder
    with at_rest(holder, holder.training), torch.no_grad():
        try:
            record, _ = read_forward(holder, args, kwargs, inlined(holder, args, kwargs))
        except Exception as error:
            raise CaptureError(f"{where(holder)} cannot be read when called like this: {error}") from error
    if len(record.sums) != len(capture.junctions):
        raise CaptureError(
            f"{where(holder)} holds {len(record.sums)} junctions when called like this, but {len(capture.junctions)} "
            "when it was rewired: rewire it with an example= of this kind"
        )
    stream = record.sums[0].stream
    scale = capture.scales.get(stream.name) or 1
    batch_free = not record.bound or record.bound == capture.numbers
    return plan_of(holder, record, capture.scales, stream.meta["shape"][0] // scale or 1, batch_free)
