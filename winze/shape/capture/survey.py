"""Run a network once on an example and write the forward of some of its modules down as graphs, each by itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from winze.shape.capture.trace import Recorder, UntraceableError, where_it_failed
from winze.shape.capture.traced import PLAIN
from winze.shape.capture.watched import Functions
from winze.shape.live.definition import CaptureError
from winze.shape.sums.bare_run import plain, without_hooks
from winze.shape.sums.example import Example
from winze.shape.sums.residual import ResidualSums, Sum
from winze.shape.sums.surroundings import at_rest

Inlined = dict[nn.Module, tuple[nn.Module, ...]]
"""Modules to read, each with the modules inside it whose forwards are read as part of its own."""


@dataclass
class Record:
    """One module's forward as it was read: its graph and sums, or why it could not be read."""

    graph: fx.Graph = field(default_factory=fx.Graph)
    sums: list[Sum] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    bound: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[Any, Any] = ((), {})
    contexts: set[str] = field(default_factory=set)
    functions: Functions = field(default_factory=dict)
    reason: str = ""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor in it, by node name."""
        return {n.name: n.meta["shape"] for n in self.graph.nodes if n.meta.get("tensor")}


@dataclass
class Survey:
    """What one run showed: a record for each module."""

    records: dict[nn.Module, Record] = field(default_factory=dict)


def survey(net: nn.Module, example: Example, training: bool, only: Inlined) -> Survey:
    """Run the network in the given mode and read some of its modules; afterwards it is as before."""

    def read(reuse: bool) -> Survey:
        result = Survey()
        args, kwargs = example.copied()
        with at_rest(net, training), plain(net), torch.no_grad(), _read(net, result, only, reuse):
            net(*args, **kwargs)
        return result

    try:
        return without_hooks(net, lambda: read(reuse=True))
    except Exception:  # a module may leave something behind for another, which a reading takes back
        return without_hooks(net, lambda: read(reuse=False))


def read_forward(
    module: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any, inlined: tuple[nn.Module, ...]
) -> tuple[Record, Any]:
    """Run one module's own forward and read it, those `inlined` as part of it; the record, and the run's result."""
    recorder = Recorder(module, inlined=frozenset(inlined))
    result = recorder.record(forward, args, kwargs)
    sums = [_from_a_tensor(found) for found in ResidualSums(recorder.graph, module).sums]
    noted = recorder.constants, recorder.bound, (args, kwargs), recorder.contexts, recorder.functions
    return Record(recorder.graph, sums, *noted), result


def _from_a_tensor(found: Sum) -> Sum:
    """The same sum with a tensor as its stream: of a tuple, the item that is the shortcut."""
    if not found.stream.meta["holds_tensors"]:
        return found
    if found.kind != "identity":
        raise CaptureError("a shortcut with a projection and its branch start from a tuple of tensors")
    return replace(found, stream=found.shortcut)


def where(module: nn.Module) -> str:
    """`ClassName (file:line)` of a module's forward, for messages."""
    code = getattr(type(module).forward, "__code__", None)
    at = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{type(module).__name__}{at}"


def copied(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments that may be used up: tensors without their history, and copies of whatever else they hold."""
    try:
        leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        return copy.deepcopy((args, kwargs), {id(t): t.detach().clone() for t in leaves})
    except Exception as error:
        raise CaptureError(f"an argument cannot be copied: {error}") from error


@contextmanager
def _read(net: nn.Module, result: Survey, only: Inlined, reuse: bool) -> Iterator[None]:
    before: dict[nn.Module, Any] = {}
    for module in net.modules():
        if module in only:
            before[module] = vars(module).get("forward")
            vars(module)["forward"] = _reader(module, module.forward, result, only[module], reuse)
    try:
        yield
    finally:
        for module, forward in before.items():
            del vars(module)["forward"]
            if forward is not None:
                vars(module)["forward"] = forward


def _reader(
    module: nn.Module, original: Callable[..., Any], result: Survey, inlined: tuple[nn.Module, ...], reuse: bool
) -> Callable[..., Any]:
    """A forward that reads the module, on copies, the first time it is called.

    The reading is the run where it can be: where the module is handed tensors and plain values only, and writes into
    none of them. Elsewhere (a cache that it fills, say) the module runs once more, on what it was given.
    """

    def forward(*args: Any, **kwargs: Any) -> Any:
        if module in result.records:
            return original(*args, **kwargs)
        result.records[module] = Record()
        try:
            given, used = copied(args, kwargs), copied(args, kwargs)
            leaves = pytree.tree_leaves(used)
            before = [leaf._version for leaf in leaves if isinstance(leaf, Tensor)]
            with at_rest(module):
                record, made = read_forward(module, original, *used, inlined)
            record.arguments = given
            written = before != [leaf._version for leaf in leaves if isinstance(leaf, Tensor)]
            handed_objects = bool(record.contexts) or not all(isinstance(leaf, (Tensor, *PLAIN)) for leaf in leaves)
            if reuse and not written and not handed_objects:
                result.records[module] = record
                return made
        except Exception as error:
            at = where_it_failed(error, original)
            plainly = isinstance(error, UntraceableError | CaptureError)
            record = Record(reason=f"{at}: {error}" if plainly else f"{at}: {type(error).__name__}: {error}")
        result.records[module] = record
        return original(*args, **kwargs)

    return forward
