"""The first part of a network: its own forward, ended at one call of one module. Nothing is traced or rewritten: a hook
on the module raises, and the module's output is the result. Parts that were not used up to there are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from winze.modes import unchanged
from winze.observe.passes.cuda_graph import alike
from winze.observe.places.calls import tensors_of
from winze.observe.places.chosen_calls import BEFORE
from winze.shape.sums.example import Example

OF_EVERY_MODULE = {*dir(nn.Module), *vars(nn.Module())}


class CutError(RuntimeError):
    """A network that cannot be cut at a place; `part` is the left-out part that was accessed, if any."""

    def __init__(self, message: str, part: str | None = None) -> None:
        super().__init__(message)
        self.part = part


class Reached(BaseException):
    """Ends a forward; not an `Exception`, so that no handler in a network catches it."""

    def __init__(self, stop: Stop, output: Any) -> None:
        super().__init__()
        self.stop, self.output = stop, output


@dataclass
class Stop:
    """A hook that ends the forward after the `call`-th call of its module, counted from 0."""

    call: int = 0
    seen: int = 0

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if self.call:  # stateless where possible, for the sake of compilers
            self.seen += 1
            if self.seen <= self.call:
                return
        raise Reached(self, output)

    def before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """The same before the module runs: the result is the module's input."""
        given = tensors_of((args, kwargs))
        self(module, args, given[0] if len(given) == 1 else (args, kwargs))

    def at(self, net: nn.Module, name: str) -> RemovableHandle:
        """Register it on the module of a place."""
        if name.startswith(BEFORE):
            module = net.get_submodule(name.removeprefix(BEFORE))
            return module.register_forward_pre_hook(self.before, prepend=True, with_kwargs=True)
        return net.get_submodule(name).register_forward_hook(self)


class LeftOut(nn.Module):
    """Replaces a module or a parameter that is not needed up to the place."""

    def __init__(self, path: str, part: Any) -> None:
        super().__init__()
        self.path = path
        self.names = set(dir(part)) - OF_EVERY_MODULE

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise self._error()

    def __getattr__(self, name: str) -> Any:
        if name in vars(self).get("names", ()):
            raise self._error()
        return super().__getattr__(name)

    def __len__(self) -> int:
        raise self._error()

    def __iter__(self) -> Iterator[Any]:
        raise self._error()

    def __getitem__(self, key: Any) -> Any:
        raise self._error()

    def __bool__(self) -> bool:
        return True

    def _error(self) -> CutError:
        return CutError(
            f"{self.path!r} was left out of the cut network, since the example it was cut with did not use it: cut "
            "with an example= like this input",
            self.path,
        )


class Prefix(nn.Module):
    """A network up to one call of one of its modules; takes the network's inputs and returns the module's output."""

    def __init__(self, net: nn.Module, name: str, call: int = 0) -> None:
        super().__init__()
        self.net, self.name, self.stop = net, name, Stop(call)
        self.stop.at(net, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling():
            with _plain_calls():
                return self._run(*args, **kwargs)
        return self._run(*args, **kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        if self.stop.call:
            self.stop.seen = 0
        try:
            self.net(*args, **kwargs)
        except Reached as reached:
            if reached.stop is not self.stop:  # of a cut around this one
                raise
            return reached.output
        raise CutError(f"the network did not call {self.name!r}, where it is cut, for this input")


@dataclass
class Use:
    """What a network had used when it reached a place, and the place's output."""

    output: Any = None
    called: set[nn.Module] = field(default_factory=set)
    finished: set[nn.Module] = field(default_factory=set)
    storages: set[int] = field(default_factory=set)

    def of(self, part: nn.Module | Tensor) -> bool:
        """Whether a parameter, or any part of a module, was used."""
        if isinstance(part, Tensor):
            return _storage(part) in self.storages
        held = (*part.parameters(), *part.buffers())
        return not held or not self.called.isdisjoint(part.modules()) or any(map(self.of, held))


def prefix(
    net: nn.Module, name: str, call: int, example: Example, *, copy: bool, use: Use | None = None
) -> tuple[Prefix, list[str]]:
    """The network up to a place, with copies of its weights or its own, and the names of the parts left out.

    `use`: what the network had used there for this example, where `uses` has seen it.
    """
    use = _use(net, name, call, example) if use is None else use
    left_out = list(_unused(net, "", use))
    while True:
        cut = prefix_of(net, name, call, left_out, copy=copy)
        try:
            with torch.no_grad(), unchanged(cut, training=False):
                output = cut(*example.args, **example.kwargs)
        except CutError as error:
            if error.part not in left_out:
                raise
            left_out.remove(error.part)  # its class or its shape may be read although it is not run
            continue
        if not alike(output, use.output):
            raise CutError(f"{type(net).__name__} copied and cut after {name!r} gives other values there than it does")
        return cut, left_out


def prefix_of(net: nn.Module, name: str, call: int, left_out: list[str], *, copy: bool) -> Prefix:
    """A copy of a network up to a place without some parts; with `copy=False` its tensors are the network's own."""
    parts = {path: _part(net, path) for path in left_out}
    stands = {path: LeftOut(path, part) for path, part in parts.items()}
    memo: dict[int, Any] = {id(part): stands[path] for path, part in parts.items() if isinstance(part, nn.Module)}
    if not copy:
        for module in net.modules():
            held = (*module._parameters.values(), *module._buffers.values(), *vars(module).values())
            memo |= {id(tensor): tensor for tensor in held if isinstance(tensor, Tensor)}
    try:
        own = deepcopy(net, memo)
    except Exception as error:
        instead = ", cut with copy=False" if copy else ""
        raise CutError(f"{type(net).__name__} cannot be copied{instead}: {error}") from error
    for path, stand in stands.items():
        owner, _, key = path.rpartition(".")
        holder = own.get_submodule(owner)
        holder._parameters.pop(key, None)
        holder._modules[key] = stand
    if copy:
        own.zero_grad()
    return Prefix(own, name, call)


def _part(net: nn.Module, path: str) -> nn.Module | Tensor:
    owner, _, key = path.rpartition(".")
    holder = net.get_submodule(owner)
    part = holder._parameters.get(key)
    return net.get_submodule(path) if part is None else part


@dataclass
class Snapshot(Stop):
    """A hook that stores what a network has used when it reaches a place, and lets it continue."""

    use: Use = field(default_factory=Use)
    found: Use | None = None

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        if self.seen == self.call:
            seen = (set(self.use.called), set(self.use.finished), set(self.use.storages))
            held = pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, output)
            self.found = Use(held, *seen)
        self.seen += 1


def uses(net: nn.Module, places: Sequence[tuple[str, int]], example: Example) -> list[Use | None]:
    """What a network has used at each of several places (name and call), from one run; None where it is not reached."""
    use = Use()
    stops = [Snapshot(call, use=use) for _, call in places]
    with _followed(net, use, zip(stops, (name for name, _ in places), strict=True)):
        net(*example.args, **example.kwargs)
    return [stop.found for stop in stops]


def _use(net: nn.Module, name: str, call: int, example: Example) -> Use:
    """Run a network up to a place and return what it uses."""
    use, stop = Use(), Stop(call)
    try:
        with _followed(net, use, [(stop, name)]):
            net(*example.args, **example.kwargs)
    except Reached as reached:
        if reached.stop is not stop:
            raise
        use.output = reached.output
        return use
    raise CutError(f"{type(net).__name__} does not call {name!r} for this example: it cannot be cut there")


@contextmanager
def _followed(net: nn.Module, use: Use, stops: Iterable[tuple[Stop, str]]) -> Iterator[None]:
    """While open, `use` tracks what the network runs in eval mode, and the stops are registered at their places."""
    handles = []
    for module in net.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            handles.append(module.register_forward_pre_hook(lambda module, args: use.called.add(module)))
            handles.append(module.register_forward_hook(lambda module, args, output: use.finished.add(module)))
    handles += [stop.at(net, name) for stop, name in stops]
    try:
        with torch.no_grad(), unchanged(net, training=False), _Watched(use.storages):
            yield
    finally:
        for handle in handles:
            handle.remove()


def _unused(module: nn.Module, path: str, use: Use) -> Iterator[str]:
    """The unused parts of modules that were running or are containers; modules that had finished are kept whole."""
    for key, parameter in module._parameters.items():
        if parameter is not None and not use.of(parameter):
            yield f"{path}{key}"
    for key, child in module.named_children():
        if not use.of(child):
            yield f"{path}{key}"
        elif child not in use.finished:
            yield from _unused(child, f"{path}{key}.", use)


class _Watched(TorchDispatchMode):
    """Notes the storages of all tensors that go into an operation, however a forward accesses them."""

    supports_higher_order_operators = True

    def __init__(self, storages: set[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.storages = storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        self.storages.update(_storage(leaf) for leaf in leaves if isinstance(leaf, Tensor))
        return func(*args, **(kwargs or {}))


def _storage(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return id(tensor)


@contextmanager
def _plain_calls() -> Iterator[None]:
    """While open, the tracer of `torch.export` does not see calls of modules: an exception cannot leave it."""
    traced = nn.Module.__call__
    nn.Module.__call__ = nn.Module._wrapped_call_impl  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__call__ = traced  # type: ignore[method-assign]
