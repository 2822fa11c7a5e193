"""Run a network and leave it as it was: modes, buffers, attributes of its modules, and the global RNG state."""

from __future__ import annotations

import functools
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Undo = Callable[[], None]
RandomGenerator = random.Random | np.random.RandomState | np.random.Generator | torch.Generator
Modes = list[tuple[nn.Module, bool]]
DEEP = 2  # objects in objects; further away, they are not the network's
LIBRARIES = {
    *("builtins", "torch", "numpy", "functools", "logging"),
    *("threading", "queue", "concurrent", "multiprocessing", "asyncio"),  # what threads wait at must not be taken back
}
OF_EVERY_MODULE = frozenset(vars(nn.Module()))
ATOMS = (bool, int, float, str, type(None))
GENERATORS = (random.Random, np.random.RandomState, np.random.Generator, torch.Generator)
CONTAINERS = (Tensor, tuple, list, dict, set, deque)
COMPARED = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.bool}
SMALL = 1 << 16
"""Elements up to which tensors of these types are compared together: on a GPU each comparison waits."""


@contextmanager
def unchanged(
    *nets: nn.Module | None, training: bool | None = None, generators: Iterable[RandomGenerator] = ()
) -> Iterator[None]:
    """While open, networks may run, in the mode `training` (None: in theirs); afterwards they are as before.

    Modes are switched by the modules' own `train`, which some override (LoRA layers merge their weights in eval mode).
    Buffers come back as the same tensors with the same values, plain attributes (counters, caches) likewise, and the
    RNG of torch, NumPy and Python, and `generators`, go on where they were.
    """
    with ExitStack() as stack:
        stack.enter_context(rng_unchanged(generators))
        for net in nets:
            if net is not None:
                stack.enter_context(_at_rest(net, training))
        yield


@contextmanager
def rng_unchanged(generators: Iterable[RandomGenerator] = ()) -> Iterator[None]:
    """While open, anything may draw random numbers; afterwards the global RNG state is as before."""
    own = [_generator(each) for each in generators]
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    cpu, of_numpy, of_python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        np.random.set_state(of_numpy)
        random.setstate(of_python)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        for undo in own:
            undo()


def modes_of(net: nn.Module) -> Modes:
    """The mode of every module."""
    return [(module, module.training) for module in net.modules()]


def set_modes(modes: Modes) -> None:
    """Put every module into its mode again, by its own `train` where that does it."""
    for module, mode in modes:  # from the outside in: `train` reaches the children too
        if module.training != mode:
            module.train(mode)
    for module, mode in modes:  # where a module's own `train` does not follow
        if module.training != mode:
            module.training = mode


@contextmanager
def _at_rest(net: nn.Module, training: bool | None) -> Iterator[None]:
    modes = modes_of(net)
    switched = training is not None and any(mode != training for _, mode in modes)
    held = written_by_switching(net) if switched else []
    state = [undo for module in net.modules() for undo in (*_buffers(module, held), *_attributes(module, held))]
    values = _values(held)
    try:
        if switched:
            net.train(bool(training))
        yield
    finally:
        set_modes(modes)
        for undo in (*state, values):
            undo()


def written_by_switching(net: nn.Module) -> list[Tensor]:
    """The parameters that a module's own `train` or `eval` may write."""
    own = [m for m in net.modules() if type(m).train is not nn.Module.train or type(m).eval is not nn.Module.eval]
    foreign = [module for module in own if not type(module).__module__.startswith("torch.")]
    return list(dict.fromkeys(parameter for module in foreign for parameter in module.parameters()))


def _buffers(module: nn.Module, held: list[Tensor]) -> list[Undo]:
    """Put the same tensors back under the same names; those whose values are to come back join `held`."""
    if isinstance(module, torch.jit.ScriptModule):  # which does not let its buffers be replaced
        held += module.buffers(recurse=False)
        return []
    before = dict(module._buffers)
    held += [buffer for buffer in before.values() if buffer is not None]

    def undo() -> None:
        for name in set(module._buffers) - set(before):
            del module._buffers[name]
        for name, buffer in before.items():
            if name not in module._buffers or module._buffers[name] is not buffer:
                module._buffers[name] = buffer

    return [undo]


def _attributes(module: nn.Module, held: list[Tensor]) -> list[Undo]:
    """Put back what a forward may assign on its module, unless that has since become a parameter or a submodule.

    The tensors in it join `held`.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return []
    plain = {name: value for name, value in vars(module).items() if name not in OF_EVERY_MODULE}
    seen: set[int] = set()
    inside = [undo for value in plain.values() for undo in _contents(value, held, seen)]

    def undo() -> None:
        for name in [name for name in vars(module) if name not in plain and name not in OF_EVERY_MODULE]:
            del vars(module)[name]
        vars(module).update(
            {name: value for name, value in plain.items() if name not in {*module._parameters, *module._modules}}
        )

    return [undo, *inside]


def _contents(value: Any, held: list[Tensor], seen: set[int], depth: int = 0) -> list[Undo]:
    """Put back what plain containers and objects that a module holds have in them; tensors join `held`."""
    if isinstance(value, ATOMS) or id(value) in seen:
        return []
    if isinstance(value, GENERATORS):
        return [_generator(value)]
    if not isinstance(value, CONTAINERS):
        return _object(value, held, seen, depth) if depth < DEEP and _is_plain_object(value) else []
    seen.add(id(value))
    if isinstance(value, Tensor):
        held.append(value)
        return []
    before = value.copy() if isinstance(value, set) else dict(value) if isinstance(value, dict) else list(value)
    parts = before.values() if isinstance(before, dict) else before
    inside = [undo for each in parts for undo in _contents(each, held, seen, depth)]
    if isinstance(value, tuple):
        return inside
    fill: Callable[[Any], None] = value.update if isinstance(value, dict | set) else value.extend

    def undo() -> None:
        if _identities(value) != _identities(before):  # some containers cannot be changed, and need not be then
            value.clear()
            fill(before)

    return [undo, *inside]


def _generator(own: Any) -> Undo:
    """Let a generator that a module holds go on where it was."""
    if isinstance(own, np.random.Generator):
        before = own.bit_generator.state
        return lambda: setattr(own.bit_generator, "state", before)
    if isinstance(own, random.Random):
        return functools.partial(own.setstate, own.getstate())
    return functools.partial(own.set_state, own.get_state())


def _object(value: Any, held: list[Tensor], seen: set[int], depth: int) -> list[Undo]:
    """Put the attributes of an object back, and what they hold."""
    seen.add(id(value))
    own = vars(value)
    before = dict(own)

    def undo() -> None:
        if _identities(own) != _identities(before):
            own.clear()
            own.update(before)

    return [undo, *(each for part in before.values() for each in _contents(part, held, seen, depth + 1))]


def _is_plain_object(value: Any) -> bool:
    """An instance of a user's class: no module, and no part of a library with state of its own."""
    library = type(value).__module__.partition(".")[0] in LIBRARIES
    return not library and not isinstance(value, nn.Module | type) and type(getattr(value, "__dict__", None)) is dict


def _identities(value: Any) -> list[Any] | set[int]:
    if isinstance(value, dict):
        return [(key, id(each)) for key, each in value.items()]
    return set(map(id, value)) if isinstance(value, set) else list(map(id, value))


def _values(tensors: list[Tensor]) -> Undo:
    """Copy old values back where they differ: a tensor that is not written keeps its version for autograd."""
    known = {id(each): each for each in tensors}.values()
    plain = [each for each in known if each.layout == torch.strided and not (each.is_meta or each.is_nested)]
    groups = _groups((tensor,) for tensor in plain)
    saved: list[tuple[Tensor, ...]] = [(tensor, tensor.detach().clone()) for (tensor,) in groups.pop(None, [])]
    for group in groups.values():
        small = [tensor.detach() for (tensor,) in group]
        parts = _flat(small).split([tensor.numel() for tensor in small])
        saved += [(tensor, part.view(tensor.shape)) for (tensor,), part in zip(group, parts, strict=True)]

    def undo() -> None:
        with torch.no_grad():
            for tensor, value in _written(saved):
                if tensor.shape != value.shape:
                    tensor.data = value.clone()
                else:
                    tensor.data.copy_(value)

    return undo


def _written(saved: list[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
    """Those that differ from their copies."""
    groups = _groups(saved)
    yield from (pair for pair in groups.pop(None, []) if pair[0].shape != pair[1].shape or not torch.equal(*pair))
    for pairs in groups.values():
        now, before = (_flat(side) for side in zip(*pairs, strict=True))
        if not torch.equal(now, before):
            parts = (now != before).cpu().split([tensor.numel() for tensor, _ in pairs])
            yield from (pair for pair, part in zip(pairs, parts, strict=True) if bool(part.any()))


def _groups(rows: Iterable[tuple[Tensor, ...]]) -> dict[Any, list[tuple[Tensor, ...]]]:
    """Rows of small tensors that are alike, by type and device; under None the others, one at a time."""
    groups: dict[Any, list[tuple[Tensor, ...]]] = {}
    for row in rows:
        first = row[0]
        small = first.dtype in COMPARED and first.numel() <= SMALL and type(first) in (Tensor, nn.Parameter)
        alike = all((one.shape, one.dtype, one.device) == (first.shape, first.dtype, first.device) for one in row)
        groups.setdefault((first.dtype, first.device) if small and alike else None, []).append(row)
    return groups


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])
