"""Run a network once on an example and read the forward of every module in it, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from winze.shape.capture.program import Capture
from winze.shape.capture.example import Example
from winze.shape.junction import Junction
from winze.shape.capture.residual import Reading, Sum
from winze.shape.capture.trace import Recorder, UntraceableError, next_tick, where_it_failed


@dataclass
class Record:
    """One module's forward as it was read: its graph and sums, or why it could not be read."""

    graph: fx.Graph = field(default_factory=fx.Graph)
    sums: list[Sum] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    bound: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[Any, Any] = ((), {})
    contexts: set[str] = field(default_factory=set)
    open_sums: bool = False
    inlined: list[nn.Module] = field(default_factory=list)
    reason: str = ""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor in it, by node name."""
        return {n.name: n.meta["shape"] for n in self.graph.nodes if n.meta.get("tensor")}


@dataclass
class Survey:
    """What one run showed: a record for each module; when each native junction was called, and its sum's shape."""

    records: dict[nn.Module, Record] = field(default_factory=dict)
    natives: dict[Junction, tuple[int, tuple[int, ...]]] = field(default_factory=dict)


def survey(net: nn.Module, example: Example, training: bool) -> Survey:
    """Run the network in the given mode and read it; afterwards its buffers, modes and random state are as before."""
    result = Survey()
    with at_rest(net, training), torch.no_grad(), _read(net, result):
        net(*example.args, **example.kwargs)
    return result


def read_forward(
    module: nn.Module, args: Any, kwargs: Any, inline: Callable[[nn.Module], bool] = lambda module: False
) -> tuple[Record, Any]:
    """Run one module's own forward and read it; the record, and the result of the run."""
    forward = own_forward(module)
    recorder = Recorder(module, inline)
    result = recorder.record(forward, args, kwargs)
    reading = Reading(recorder.graph, module)
    record = Record(
        recorder.graph,
        reading.sums,
        recorder.constants,
        recorder.bound,
        (args, kwargs),
        recorder.contexts,
        reading.open_sums,
        recorder.inlined,
    )
    return record, result


def inlined(module: nn.Module, args: Any, kwargs: Any) -> Callable[[nn.Module], bool]:
    """Which children of a module have to be read as part of it, since they add two streams that it hands in."""
    result = Survey()
    with _read(module, result):
        module.forward(*args, **kwargs)
    return lambda child: child in result.records[module].inlined


def where(module: nn.Module) -> str:
    """`ClassName (file:line)` of a module's forward, for messages."""
    code = getattr(type(module).forward, "__code__", None)
    at = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{type(module).__name__}{at}"


def own_forward(module: nn.Module) -> Callable[..., Any]:
    """The forward that the module had before any of ours."""
    installed = vars(module).get("forward")
    if installed is None or isinstance(getattr(installed, "__self__", None), Capture):
        return type(module).forward.__get__(module)
    return getattr(installed, "winze_original", installed)


@contextmanager
def at_rest(net: nn.Module, training: bool) -> Iterator[None]:
    """Whatever happens inside, the network's buffers and modes and the random state are put back."""
    modes = [(module, module.training) for module in net.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in net.buffers()]
    devices = {p.device.index for p in net.parameters() if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(devices)):
        net.train(training)
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            with torch.no_grad():
                for buffer, saved in buffers:
                    buffer.copy_(saved)


@contextmanager
def _read(net: nn.Module, result: Survey) -> Iterator[None]:
    before: dict[nn.Module, Any] = {}
    handles = []
    for module in net.modules():
        if isinstance(module, Junction):
            handles.append(module.register_forward_pre_hook(_notice(result)))
            handles.append(module.register_forward_hook(_measure(result)))
        elif _may_hold_sums(module):
            before[module] = vars(module).get("forward")
            vars(module)["forward"] = _reader(module, own_forward(module), result)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module, forward in before.items():
            del vars(module)["forward"]
            if forward is not None:
                vars(module)["forward"] = forward


def _notice(result: Survey) -> Any:
    def hook(junction: Junction, args: Any) -> None:
        if junction not in result.natives:
            result.natives[junction] = next_tick(), ()

    return hook


def _measure(result: Survey) -> Any:
    def hook(junction: Junction, args: Any, output: Any) -> None:
        result.natives[junction] = result.natives[junction][0], tuple(output.shape)

    return hook


def _reader(module: nn.Module, original: Callable[..., Any], result: Survey) -> Callable[..., Any]:
    """A forward that reads the module the first time it is called."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        if module in result.records:
            return original(*args, **kwargs)
        result.records[module] = Record()
        try:
            record, output = _read_once(module, args, kwargs, result)
        except Exception as error:
            at = where_it_failed(error, original)
            reason = str(error) if isinstance(error, UntraceableError) else f"{type(error).__name__}: {error}"
            result.records[module] = Record(reason=f"{at}: {reason}")
            return original(*args, **kwargs)
        result.records[module] = record
        return output

    forward.winze_original = original  # type: ignore[attr-defined]
    return forward


def _read_once(module: nn.Module, args: Any, kwargs: Any, result: Survey) -> tuple[Record, Any]:
    """Read a module with those children inlined that add two streams it hands in, where that shows a new sum."""

    def inline(child: nn.Module) -> bool:
        return child in result.records and result.records[child].open_sums

    record, output = read_forward(module, args, kwargs, inline)
    if not record.inlined:
        return record, output
    known = sum(len(result.records[child].sums) for child in record.inlined)
    if sum(found.node.meta["inlined"] for found in record.sums) > known:
        for child in record.inlined:
            result.records[child].sums = []
        return record, output
    open_sums = record.open_sums
    record, output = read_forward(module, args, kwargs)
    record.open_sums = open_sums
    return record, output


def _may_hold_sums(module: nn.Module) -> bool:
    """Everything with parameters and a forward of its own; of torch's modules, the transformer layers."""
    if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        return True
    foreign = not type(module).__module__.startswith(("torch.nn.", "torch._dynamo", "torch.fx"))
    return foreign and any(True for _ in module.parameters())
