"""Change the shortcuts of any network in one line."""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from winze.depth import Place
from winze.shape.capture.program import Capture, CapturedJunction, gate_name
from winze.shape.find import Discovery, branch_modules, capture_of, discover
from winze.shape.junction import Junction
from winze.shape.capture.plans import CaptureError, make_plan, plan_of, scales_between
from winze.shape.rule import Rule
from winze.shape.rules.standard import Standard

Where = str | Callable[[Place], bool]


def rewire(
    net: nn.Module, rule: Rule | Callable[[Place], Rule], where: Where | None = None, example: Any = None
) -> nn.Module:
    """Put a rule at the junctions of a network, in place, and return the network.

        winze.rewire(net, winze.DecayedIdentity(alpha_min=0.6))
        winze.rewire(net, winze.NoShortcut(), where="layer3.*")
        winze.rewire(net, lambda place: winze.Scaled(0.5) if "attn" in place.name else winze.Standard())
        winze.rewire(net, winze.Standard())  # undoes it

    `where` picks junctions by a glob on their names or a predicate on their places. One rule counts depth over the
    junctions picked; a callable `Place -> rule` over all. Parameters keep their `state_dict` keys. On an error nothing
    has changed.
    """
    if not (isinstance(rule, Rule) or callable(rule)) or isinstance(rule, type):
        raise TypeError(f"rewire takes a rule such as Scaled(0.5), or a callable Place -> rule, got {rule!r}")
    if not (where is None or isinstance(where, str) or callable(where)):
        raise TypeError(f"where takes a glob on names or a predicate on places, got {where!r}")
    found = discover(net, example)
    _check_read(net, found, where)
    picked = _pick(found, where)
    chosen = {
        junction: (rule, Place(i, len(picked), junction.place.name))
        if isinstance(rule, Rule)
        else (_called(rule, junction.place), junction.place)
        for i, junction in enumerate(picked)
    }
    for junction, (new, _) in chosen.items():
        _check(found, junction, new)
    gates = {junction: _gate(found, junction, new) for junction, (new, _) in chosen.items()}
    captures = _captures(found, chosen)
    for junction, (new, seat) in chosen.items():
        junction.rule, junction.seat = new, seat
        junction.moment.alternation = None
        _hang(junction, gates[junction])
    for capture in captures:
        _install(capture)
    return net


def _pick(found: Discovery, where: Where | None) -> list[Junction]:
    if where is None:
        return list(found.junctions)
    wanted = (lambda place: fnmatchcase(place.name, where)) if isinstance(where, str) else where
    picked = [j for j in found.junctions if wanted(j.place)]
    if not picked:
        names = [j.place.name for j in found.junctions]
        near = difflib.get_close_matches(where, names, n=3, cutoff=0.0) if isinstance(where, str) else names[:3]
        said = "the nearest names" if isinstance(where, str) else "the first"
        raise ValueError(f"where={where!r} picks none of {len(names)} junctions; {said}: {', '.join(near)}")
    return picked


def _called(rule: Callable[[Place], Rule], place: Place) -> Rule:
    new = rule(place) if callable(rule) else None
    if not isinstance(new, Rule):
        raise TypeError(f"rewire takes a rule or a callable Place -> rule; at {place.name!r} it gave {new!r}")
    return new


def _check(found: Discovery, junction: Junction, rule: Rule) -> None:
    if not rule.drops:
        return
    for module in _branch_of(found, junction):
        for part in module.modules():
            name = type(part).__name__.lower()
            rate = getattr(part, "drop_prob", None) if "droppath" in name else None
            rate = getattr(part, "p", None) if "stochasticdepth" in name else rate
            if rate:
                raise ValueError(
                    f"junction {junction.place.name!r} already has an active {type(part).__name__} (rate {rate:.3g}), "
                    f"and {type(rule).__name__} would drop on top of it: build the network with drop_path_rate=0 "
                    "(torchvision: stochastic_depth_prob=0)"
                )


def _branch_of(found: Discovery, junction: Junction) -> list[nn.Module]:
    if junction not in found.sites:
        return [junction.branch]
    site = found.sites[junction]
    return [site.holder.get_submodule(str(n.target)) for n in branch_modules(site)]


def _gate(found: Discovery, junction: Junction, rule: Rule) -> nn.Module | None:
    if type(rule).gate is Rule.gate:
        return None
    branch = _branch_of(found, junction)
    layers = [m for module in branch for m in module.modules() if isinstance(m, nn.Conv2d | nn.Linear | nn.LayerNorm)]
    shape = found.shapes[junction]
    first = len(shape) == 4 and bool(layers) and isinstance(layers[0], nn.Conv2d)
    channels, pointwise = (shape[1], nn.Conv2d) if first else (shape[-1], nn.Linear)
    gate = rule.gate(channels, pointwise)
    like = next((p for module in branch for p in module.parameters()), None)
    return gate.to(like.device, like.dtype) if gate is not None and like is not None else gate


def _hang(junction: Junction, gate: nn.Module | None) -> None:
    if not isinstance(junction, CapturedJunction):
        junction.gate = gate
        return
    name = gate_name(junction.i)
    if gate is not None:
        junction.holder.add_module(name, gate)
    elif capture_of(junction.holder) is not None:
        junction.holder._modules.pop(name, None)


def _captures(found: Discovery, chosen: dict[Junction, Any]) -> list[Capture]:
    """The captures that the change needs, read in both modes but not yet in place."""
    holders: dict[nn.Module, list[CapturedJunction]] = {}
    for junction, site in found.sites.items():
        assert isinstance(junction, CapturedJunction)
        holders.setdefault(site.holder, []).append(junction)
    touched = {found.sites[j].holder for j in chosen if j in found.sites}
    return [_capture(found, h, sorted(own, key=lambda j: j.i)) for h, own in holders.items() if h in touched]


def _capture(found: Discovery, holder: nn.Module, own: list[CapturedJunction]) -> Capture:
    existing = capture_of(holder)
    if existing is not None:
        return existing
    batch = found.example.batch
    here = found.evaluating.records[holder]
    there = found.training.records.get(holder) if found.training else None
    matching = there is not None and len(there.sums) == len(here.sums)
    scales = scales_between(here, batch, there, batch + 1) if there is not None and matching else {}
    batch_free = there is not None and here.bound == there.bound
    capture = Capture(holder, own, scales, here.bound if batch_free else None, make_plan)
    modes = [(False, here, batch)]
    if there is not None and matching:
        modes.append((True, there, batch + 1))
    before = holder.training
    for holder.training, record, size in modes:
        capture.add(*record.arguments, plan_of(holder, record, scales, size, batch_free))
    holder.training = before
    return capture


def _install(capture: Capture) -> None:
    plain = all(type(junction.rule) is Standard for junction in capture.junctions)
    if plain:
        vars(capture.holder).pop("forward", None)
    else:
        vars(capture.holder)["forward"] = capture.forward


def _check_read(net: nn.Module, found: Discovery, where: Where | None) -> None:
    """Raise where there is nothing to rewire, or where a module that could not be read may hold a sum."""
    names = dict(net.named_modules())
    doubtful = {name: why for name, why in found.junctions.unread.items() if _adds(names[name])}
    if doubtful and (where is None or not found.junctions):
        listed = "; ".join(f"{name or 'the network itself'}, a {why}" for name, why in list(doubtful.items())[:3])
        raise CaptureError(
            f"{len(doubtful)} modules of {type(net).__name__} add something in a forward that cannot be read: "
            f"{listed}. "
            "Write the sum there with a native winze.Junction, pass an example= that takes another way through it, or "
            "leave it out with where="
        )
    if not found.junctions:
        raise CaptureError(f"{type(net).__name__} has no junction: no forward in it adds a shortcut to a branch")


def _adds(module: nn.Module) -> bool:
    """Whether the source of a forward holds a sum at all."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(type(module).forward)))
    except (OSError, TypeError, SyntaxError):
        return True
    sums = (node.op for node in ast.walk(tree) if isinstance(node, ast.BinOp | ast.AugAssign))
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    named = (getattr(function, "attr", "") for function in calls)
    return any(isinstance(op, ast.Add) for op in sums) or any(name in ("add", "add_") for name in named)
