"""Write down which tensor came from which, while a network runs as its author wrote it.

The network runs on real tensors, and nothing is put in their place: a torch function mode sees every operation, and
module calls are noted as they begin and end. The log is one flat account of the run, of which `graph_of` makes graphs.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures.thread import ThreadPoolExecutor, _worker
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._functorch import vmap
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from winze.shape.live.site import Site, site_here
from winze.shape.sums.blends import BLENDS
from winze.shape.sums.tensors import is_blend, shape_of, tensors_in, version_of

SUMS = {"add", "add_", "sub", "sub_", "rsub", "addcmul", "addcmul_"}

_lock = threading.RLock()
_state = threading.local()


@dataclass(eq=False)
class TensorValue:
    """One tensor at one moment: an operation that changes it in place makes another value of it."""

    shape: tuple[int, ...]
    from_input: bool = False
    parameter: bool = False
    path: str | None = None


@dataclass(eq=False)
class Operation:
    """One torch function: its name, and the values that went in and came out."""

    name: str
    call: Call
    inputs: list[TensorValue]
    outputs: list[TensorValue]
    tick: int
    scalars: dict[str, Any] = field(default_factory=dict)
    site: Site | None = None
    overwrites: list[TensorValue] = field(default_factory=list)


@dataclass(eq=False)
class Call:
    """One call of one module: the operations and calls in it, in order, what it was given and what it gave back."""

    module: nn.Module
    outer: Call | None
    tick: int
    items: list[Operation | Call] = field(default_factory=list)
    given: list[TensorValue] = field(default_factory=list)
    outputs: list[TensorValue] = field(default_factory=list)

    def inside(self) -> Iterator[Operation]:
        """Every operation below this call."""
        for item in self.items:
            if isinstance(item, Operation):
                yield item
            else:
                yield from item.inside()

    @functools.cached_property
    def overwritten(self) -> set[TensorValue]:
        """The values below this call that are changed in place."""
        return {value for operation in self.inside() for value in operation.overwrites}

    def calls(self) -> Iterator[Call]:
        """This call and every call below it, in the order in which they begin."""
        yield self
        for item in self.items:
            if isinstance(item, Call):
                yield from item.calls()


class Dataflow(TorchFunctionMode):
    """The account of one run of a network."""

    def __init__(self, net: nn.Module, inputs: list[Tensor]) -> None:
        super().__init__()
        self.net = net
        self.calls: list[Call] = []
        self.elsewhere: list[nn.Module] = []
        self._stack = threading.local()
        self._ticks = itertools.count()
        self._values = WeakTensorKeyDictionary()
        self._paths = dict(_tensors(net))
        for tensor in inputs:
            self._values[tensor] = TensorValue(shape_of(tensor), from_input=True)

    @property
    def _running(self) -> list[Call]:
        """The calls that have begun and not ended, in this thread."""
        if not hasattr(self._stack, "calls"):
            self._stack.calls = []
        calls: list[Call] = self._stack.calls
        return calls

    def in_thread(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` for another thread, where it is written down as part of the call that runs in this one."""
        around = self._running[-1:]

        def run(*args: Any, **kwargs: Any) -> Any:
            before, _state.flow = getattr(_state, "flow", None), self
            self._running[:] = around
            try:
                with self:
                    return function(*args, **kwargs)
            finally:
                self._running.clear()
                _state.flow = before

        return run if around else function

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._running:
            return func(*args, **kwargs)
        held = sys.getrefcount(args[0]) if args else 0
        tensors = tensors_in((args, kwargs))
        before = [(t, self.value(t), version_of(t)) for t in tensors]
        result = func(*args, **kwargs)
        made = tensors_in(result)
        writes = _name(func).endswith("_") or _name(func) == "setitem"
        changed = [
            (t, value)
            for t, value, version in before
            if version_of(t) != version or (t.is_inference() and (t is kwargs.get("out") or (writes and t is args[0])))
        ]
        known = {id(t) for t in tensors}
        fresh = [t for t in made if id(t) not in known or any(t is c for c, _ in changed)]
        fresh += [t for t, _ in changed if not any(t is f for f in fresh)]
        wholes = [t._base for t, _ in changed if t._base is not None]  # what is written into a view is in the whole too
        if _name(func) not in SUMS:
            fresh += [t for t in wholes if not any(t is f for f in fresh)]
        if fresh:
            inputs = [value for t, value, _ in before if t is not kwargs.get("out")]
            noted = self._note(_name(func), inputs, fresh, changed, args, kwargs)
            for whole in wholes if noted.name in SUMS else ():
                self._spread(changed[0][0], whole)
            if noted.site is not None and changed:
                noted.site.shared = held > _held_alone() or _is_viewed(changed[0][0])
        return result

    def _spread(self, part: Tensor, whole: Tensor) -> None:
        """A sum written into a view: what it is a view of has become the sum, or has it in some of its items."""
        before, now = self.value(whole), self._values[part]
        if part.shape == whole.shape:
            self._values[whole] = now
        elif part.numel() == whole.numel():
            self._note("view", [now], [whole], [], (), {})
        else:
            self._note("setitem", [before, now], [whole], [], (), {})

    def value(self, tensor: Tensor) -> TensorValue:
        """The value of a tensor; one that was not made during the run is a constant, or a view of a known tensor."""
        found: TensorValue | None = self._values.get(tensor)
        if found is not None:
            return found
        base = tensor._base
        if base is not None and base in self._values:
            found = self._values[base]
        elif self._running and is_functorch_wrapped_tensor(tensor):  # inside vmap: one sample of what is outside
            return self._note("view", [self.value(get_unwrapped(tensor))], [tensor], [], (), {}).outputs[0]
        else:
            path = self._paths.get(id(tensor))
            found = TensorValue(shape_of(tensor), parameter=isinstance(tensor, nn.Parameter), path=path)
        self._values[tensor] = found
        return found

    def _note(
        self,
        name: str,
        inputs: list[TensorValue],
        made: list[Tensor],
        changed: list[tuple[Tensor, TensorValue]],
        args: Any,
        kw: Any,
    ) -> Operation:
        scalars = {key: value for key, value in kw.items() if key in ("alpha", "value", "out", "accumulate")}
        if name in ("index_put", "index_put_") and len(args) > 3:
            scalars["accumulate"] = args[3]
        operation = Operation(name, self._running[-1], inputs, [], next(self._ticks), scalars)
        operation.overwrites = [value for _, value in changed]
        shaped = name.startswith("new_") or name.endswith("_like")
        carries = not shaped and any(value.from_input for value in inputs)
        for tensor in made:
            value = TensorValue(shape_of(tensor), carries)
            operation.outputs.append(value)
            self._values[tensor] = value
        if (name in SUMS and len(inputs) > 1) or name in BLENDS:
            operation.site = site_here(_is_ours)
        self._running[-1].items.append(operation)
        return operation

    def call(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Run a module, and note that it ran."""
        inner = getattr(module, "_orig_mod", None) if type(module).__name__ == "OptimizedModule" else None
        if inner is not None:
            return inner(*args, **kwargs)
        outer = self._running[-1] if self._running else None
        given = [self.value(t) for t in tensors_in((args, kwargs))]
        call = Call(module, outer, next(self._ticks), given=given)
        siblings: list[Any] = self.calls if outer is None else outer.items
        siblings.append(call)
        self._running.append(call)
        try:
            result = module._call_impl(*args, **kwargs)
        finally:
            self._running.pop()
        self._running.append(call)
        hidden = [t for t in tensors_in(result) if t not in self._values and id(t) not in self._paths]
        if hidden:  # made where no mode looks: TorchScript, or an extension
            self._note("opaque", given, hidden, [], (), {})
        self._running.pop()
        call.outputs = [self.value(t) for t in tensors_in(result)]
        return result

    def apply(self, original: Callable[..., Any], args: Any, kwargs: Any, adds: bool = False) -> Any:
        """An autograd function or a scripted one: its outputs come from its inputs; `adds`: it is known to add."""
        given = [self.value(t) for t in tensors_in((args, kwargs))]
        result = original(*args, **kwargs)
        hidden = [t for t in tensors_in(result) if t not in self._values]
        if self._running and hidden:
            tensors = tensors_in((args, kwargs))
            alike = [t for t in tensors if t.shape == hidden[0].shape]
            blends = len(hidden) == 1 and (adds or is_blend(hidden[0], alike))
            self._note("blend" if blends else "opaque", given, hidden, [], (), {})
        return result


def _call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    flow: Dataflow | None = getattr(_state, "flow", None)
    if flow is None:
        if _following and any(module is member for member in _following[-1].net.modules()):
            _following[-1].elsewhere.append(module)  # in a thread that was there before
        return _module_call(module, *args, **kwargs)
    return flow.call(module, args, kwargs)


_following: list[Dataflow] = []
_module_call = nn.Module.__call__
_thread_start, _submit, _unwrap_batched = threading.Thread.start, ThreadPoolExecutor.submit, vmap._unwrap_batched


@contextmanager
def recorded(net: nn.Module, inputs: list[Tensor]) -> Iterator[Dataflow]:
    """While open, what this thread, and those that it starts, run of the network is written down."""
    flow = Dataflow(net, inputs)
    function: Any = torch.autograd.Function
    own_apply, script = vars(function).get("apply"), torch.jit.ScriptFunction.__call__

    def applied(cls: Any, *args: Any, **kwargs: Any) -> Any:
        active: Dataflow | None = getattr(_state, "flow", None)
        original = super(function, cls).apply if own_apply is None else own_apply.__get__(None, cls)
        return original(*args, **kwargs) if active is None else active.apply(original, args, kwargs)

    def started(thread: threading.Thread) -> None:
        active: Dataflow | None = getattr(_state, "flow", None)
        if active is not None and getattr(thread, "_target", None) is not _worker:
            vars(thread)["run"] = active.in_thread(thread.run)
        _thread_start(thread)

    def submitted(pool: ThreadPoolExecutor, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        active: Dataflow | None = getattr(_state, "flow", None)
        return _submit(pool, function if active is None else active.in_thread(function), *args, **kwargs)

    def unbatched(outputs: Any, *rest: Any) -> Any:
        """Of vmap: its results are the tensors that it ran on, without their wrapping."""
        made = _unwrap_batched(outputs, *rest)
        active: Dataflow | None = getattr(_state, "flow", None)
        if active is not None and active._running:
            for inside, outside in zip(tensors_in(outputs), tensors_in(made), strict=True):
                active._note("view", [active.value(inside)], [outside], [], (), {})
        return made

    def scripted(called: Any, *args: Any, **kwargs: Any) -> Any:
        active: Dataflow | None = getattr(_state, "flow", None)
        original = script.__get__(called)
        adds = any(f"aten::{name}" in str(called.inlined_graph) for name in ("add", "sub"))
        return original(*args, **kwargs) if active is None else active.apply(original, args, kwargs, adds)

    patches: list[tuple[Any, str, Any, Any]] = [
        (nn.Module, "__call__", _call, _module_call),
        (function, "apply", classmethod(applied), own_apply),
        (torch.jit.ScriptFunction, "__call__", scripted, script),
        (threading.Thread, "start", started, _thread_start),
        (ThreadPoolExecutor, "submit", submitted, _submit),
        (vmap, "_unwrap_batched", unbatched, _unwrap_batched),
    ]
    with _lock:
        for owner, name, new, _ in patches:
            setattr(owner, name, new)
        _state.flow = flow
        _following.append(flow)
        try:
            with flow:
                yield flow
        finally:
            _state.flow = None
            _following.pop()
            for owner, name, _, old in patches:
                if old is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, old)


def _tensors(net: nn.Module) -> Iterator[tuple[int, str]]:
    for path, module in net.named_modules():
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                yield id(tensor), f"{path}.{name}" if path else name


def _name(func: Any) -> str:
    name = str(getattr(func, "__name__", func)).partition(".")[0]  # `add` of `aten.add.Tensor`
    if name == "__get__":
        return "getattr"
    return name.removeprefix("__").removesuffix("__")


def _is_ours(frame: FrameType) -> bool:
    """A frame of this file, or of a type checker wrapped around its functions."""
    return frame.f_code.co_filename == __file__ or frame.f_code.co_filename.startswith("<@")


def _is_viewed(tensor: Tensor) -> bool:
    return bool(torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) > 2)


@functools.cache
def _held_alone() -> int:
    """How many references to a tensor a function mode sees where one local variable alone holds it."""
    seen = []

    class Counting(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            seen.append(sys.getrefcount(args[0]) if args else 0)
            return func(*args, **kwargs)

    def alone() -> None:
        tensor = torch.zeros(1)
        tensor += tensor_of_another

    tensor_of_another = torch.zeros(1)
    with Counting():
        alone()
    return seen[-1]
