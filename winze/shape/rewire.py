"""Change the shortcuts of any network in one line."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from types import CodeType
from typing import Any

import torch
from torch import nn

from winze.hints import nearest
from winze.place import Place
from winze.shape.capture.program import Program, make_program
from winze.shape.capture.survey import survey
from winze.shape.capture.survey import where as told_where
from winze.shape.find import Discovery, branch_modules, discover
from winze.shape.gates import branch_of, gate_of, hang
from winze.shape.junction import Junction
from winze.shape.live.definition import CaptureError, Position, codes_in
from winze.shape.live.foreign_junction import ForeignJunction
from winze.shape.live.live import Live, live_of
from winze.shape.rule import Rule
from winze.shape.rules.no_shortcut import NoShortcut
from winze.shape.rules.standard import Standard
from winze.shape.sums.samples import find_mixing, find_samples, rules_asked
from winze.shape.sums.sum_search import Found

Where = str | Callable[[Place], bool]
Assigned = dict[Junction, tuple[Rule, Place]]


def rewire(
    net: nn.Module, rule: Rule | Callable[[Place], Rule], where: Where | None = None, example: Any = None
) -> nn.Module:
    """Put a rule at the junctions of a network, in place, and return the network.

        winze.rewire(net, winze.DecayedIdentity(alpha_min=0.6))
        winze.rewire(net, winze.NoShortcut(), where="layer3.*")
        winze.rewire(net, lambda place: winze.Scaled(0.5) if "attn" in place.name else winze.Standard())
        winze.rewire(net, winze.Standard())  # undoes it

    `where` picks junctions by a glob on their names or a predicate on their places. One rule counts depth over the
    junctions picked; a callable `Place -> rule` over all. Parameters keep their `state_dict` keys. The network's own
    forward keeps running, with its sums replaced by the rule. On an error nothing has changed.
    """
    if not (isinstance(rule, Rule) or callable(rule)) or isinstance(rule, type):
        raise TypeError(f"rewire takes a rule such as Scaled(0.5), or a callable Place -> rule, got {rule!r}")
    if not (where is None or isinstance(where, str) or callable(where)):
        raise TypeError(f"where takes a glob on names or a predicate on places, got {where!r}")
    _check_uncovered(net)
    found = discover(net, example)
    _check_read(net, found, where)
    picked = _pick(found, where)
    chosen: Assigned = {
        junction: (rule, Place(i, len(picked), junction.place.name))
        if isinstance(rule, Rule)
        else (_called(rule, junction.place), junction.place)
        for i, junction in enumerate(picked)
    }
    for junction, (new, _) in chosen.items():
        _check(found, junction, new)
    gates = {junction: gate_of(found, junction, new) for junction, (new, _) in chosen.items()}
    before = [(j, j.rule, j.seat) for j in found.junctions]
    for junction, (new, seat) in chosen.items():
        junction.rule, junction.seat = new, seat
    try:
        _install(found, chosen)
    except BaseException:
        for junction, old, seat in before:
            junction.rule, junction.seat = old, seat
        _install(found, chosen)
        raise
    for junction in chosen:
        junction.moment.alternation = None
        hang(junction, gates[junction])
    _forget_compiled(net)
    return net


def _install(found: Discovery, chosen: Assigned) -> None:
    """Connect the chosen sums to their junctions: live, or by a program where a rule needs one."""
    _wire(found, chosen)
    _check_reached(found, chosen)
    masked = [j for j in chosen if isinstance(j, ForeignJunction) and _masks_samples(j.rule)]
    if masked:
        find_samples(found.net, found.example, masked)
    programs = _programs(found, chosen)
    for program in programs:
        live = live_of(program.holder)
        assert live is not None
        live.hang("forward", program.forward)
    parted = [j for p in programs for j in p.junctions if j in chosen and _masks_samples(j.rule)]
    if parted:
        find_mixing(found.net, found.example.with_batch(found.example.batch + 1), parted)


def _check_reached(found: Discovery, chosen: Assigned) -> None:
    """Raise where a sum runs without its rule because the network does not look its function up on the module.

    Train mode is run where it calls that function in another way than eval mode does.
    """
    ruled = {
        site.identity: j
        for j, site in (*found.sites.items(), *found.also.items())
        if isinstance(j, ForeignJunction) and j in chosen and type(j.rule) is not Standard
    }
    ways: set[Any] = set()
    for search, training in ((found.evaluating, False), (found.training, True)):
        runs = [one for one in search.sums if not one.reason and one.identity in ruled] if search else []
        new = [one for one in runs if (one.identity, one.way) not in ways]
        ways |= {(one.identity, one.way) for one in runs}
        example = found.example.with_batch(found.example.batch + training)
        asked = rules_asked(found.net, example, list(ruled.values()), training) if new else Counter()
        for one in new:
            junction = ruled[one.identity]
            if asked[junction.place.name] < (1 if training else sum(each.identity == one.identity for each in runs)):
                raise CaptureError(
                    f"junction {junction.place.name!r} ({one.operation.site}): the network does not look up the "
                    f"function with this sum on its {type(_owner(one)).__name__}, so no rule can stand there. Make the "
                    "sum in forward or in a plain method, or leave the junction out with where="
                )


def _check_uncovered(net: nn.Module) -> None:
    """Raise where a rewired function has been wrapped or replaced since: to rewire would take that away."""
    for path, module in net.named_modules():
        live = live_of(module)
        name = live.covered if live is not None else None
        if name is not None:
            raise CaptureError(
                f"{name} of {path or 'the network itself'} ({type(module).__name__}) has been wrapped or replaced "
                "since the network was rewired (by accelerate, for example): remove the "
                "wrapper, rewire the network, and wrap it again"
            )


def _masks_samples(rule: Rule) -> bool:
    return rule.drops and getattr(rule, "mask", "sample") == "sample"


def _wire(found: Discovery, chosen: Assigned) -> None:
    """Give every module with a chosen sum functions that call `join` there; none where all rules are `Standard`."""
    owners: dict[nn.Module, dict[Any, list[tuple[Junction, Found]]]] = {}
    written = [*found.sites.items(), *found.also.items()]
    touched = {_owner(site) for junction, site in written if junction in chosen}
    for holder in {site.holder for junction, site in written if junction in chosen} - touched:
        old = live_of(holder)
        if old is not None and not old.junctions:  # present only for a program
            old.remove()
    for junction, site in written:
        if _owner(site) in touched:
            owners.setdefault(_owner(site), {}).setdefault(site.spot.path, []).append((junction, site))
    written_to = found.written_to
    for owner, positions in owners.items():
        old = live_of(owner)
        if old is not None:
            old.remove()
        live = Live(owner)
        for own in positions.values():
            if all(type(j.rule) is Standard for j, _ in own):
                continue
            site = own[0][1]
            assert site.anchored is not None
            spot = replace(site.spot, number=len(live.junctions))
            runs: dict[Any, Any] = dict.fromkeys(site.others)
            for junction, each in own:
                shared, overwritten = written_to[each.identity]
                runs[each.key] = junction, replace(each.form, shared=shared, overwritten=overwritten)
            live.add(site.anchored, spot, runs, _seen(found, site.anchored.code))
        if live.junctions:
            live.install()
        _fast_paths(found.net, owner, plain=not live.junctions)


def _seen(found: Discovery, code: CodeType) -> frozenset[Position]:
    """The positions at which a function made sums, in either mode."""
    inside = set(codes_in(code))
    ran = (*found.evaluating.seen, *(found.training.seen if found.training else ()))
    return frozenset(position for one, position in ran if one in inside)


def _owner(site: Found) -> nn.Module:
    assert site.anchored is not None
    return site.anchored.owner


def _programs(found: Discovery, chosen: Assigned) -> list[Program]:
    """Programs for the modules whose rule needs one, where one is possible."""
    holders: dict[nn.Module, list[ForeignJunction]] = {}
    for junction, site in found.sites.items():
        assert isinstance(junction, ForeignJunction)
        holders.setdefault(site.holder, []).append(junction)
    wanted = {h: own for h, own in holders.items() if any(j in chosen for j in own) and any(map(_needs_program, own))}
    if not wanted:
        return []
    inlined = {holder: _inside(holder, [found.sites[j] for j in own]) for holder, own in wanted.items()}
    evaluating = survey(found.net, found.example, training=False, only=inlined).records
    larger = found.example.with_batch(found.example.batch + 1)
    training = survey(found.net, larger, training=True, only=inlined).records if found.training else {}
    programs: list[Program] = []
    verified: set[Any] = set()
    for holder, own in wanted.items():
        try:
            elsewhere = next((j for j in own if _owner(found.sites[j]) not in (holder, *inlined[holder])), None)
            if elsewhere is not None:
                maker = type(_owner(found.sites[elsewhere])).__name__
                raise CaptureError(
                    f"{told_where(holder)} makes its sum in a function of a {maker}, which does not run inside it: its "
                    "parts cannot be run apart"
                )
            if holder not in evaluating:
                raise CaptureError(f"{told_where(holder)} was not called through its forward")
            read, there = evaluating[holder], training.get(holder)
            made = make_program(holder, inlined[holder], own, read, there, found.example.batch, verified)
            if live_of(holder) is None:
                Live(holder).install()
            programs.append(made)
        except CaptureError as error:
            _fall_back(own, error)
    return programs


def _inside(holder: nn.Module, sites: list[Found]) -> tuple[nn.Module, ...]:
    """The modules between a holder and the functions that make its sums."""
    found: dict[nn.Module, None] = {}
    for site in sites:
        call: Any = site.operation.call
        while call is not None and call is not site.call:
            found[call.module] = None
            call = call.outer
    return tuple(found)


def _needs_program(junction: Junction) -> bool:
    if isinstance(junction.rule, NoShortcut) and junction.kind == "identity":
        return False  # the rule would skip nothing
    return junction.rule.needs == "program"


def _fall_back(own: list[ForeignJunction], error: CaptureError) -> None:
    """Run live if every rule here can; a projection whose result is unused is reported by a warning."""
    needing = [j for j in own if _needs_program(j)]
    if not all(j.rule.optional for j in needing):
        rule = next(j.rule for j in needing if not j.rule.optional)
        way = 'frozen="output" takes the live forward' if getattr(rule, "frozen", "output") == "weights" else ""
        way = 'compute="auto" takes the live forward' if getattr(rule, "compute", "auto") == "rows" else way
        raise CaptureError(
            f"junction {own[0].place.name!r} under {rule}: {error}. {way}; or leave the junction out with where="
        ) from error
    if any(isinstance(j.rule, NoShortcut) for j in needing):
        warnings.warn(
            f"junction {own[0].place.name!r}: the projection on its shortcut runs, its result is not used ({error})",
            stacklevel=4,
        )


def _fast_paths(net: nn.Module, owner: nn.Module, plain: bool) -> None:
    """Disable the fused kernels of torch's transformer layers, which skip the layers' own sums in eval mode."""
    if not isinstance(owner, nn.TransformerEncoderLayer):
        return
    hook = vars(owner).pop("_winze_slow", None)
    if hook is not None:
        hook.remove()
    if not plain:
        vars(owner)["_winze_slow"] = owner.register_forward_pre_hook(_nothing)
    for module in net.modules():
        if isinstance(module, nn.TransformerEncoder) and any(layer is owner for layer in module.layers):
            rewired = any(live_of(layer) is not None for layer in module.layers)
            if rewired and module.use_nested_tensor:
                module.use_nested_tensor = vars(module)["_winze_nested"] = False
            elif not rewired and vars(module).pop("_winze_nested", None) is False:
                module.use_nested_tensor = True


def _nothing(module: nn.Module, args: Any) -> None:
    return None


def _forget_compiled(net: nn.Module) -> None:
    """Discard what was compiled of the network before it was rewired."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None and any(
        type(m).__name__ == "OptimizedModule" or getattr(m, "_compiled_call_impl", None) is not None
        for m in net.modules()
    ):
        torch.compiler.reset()


def _pick(found: Discovery, where: Where | None) -> list[Junction]:
    if where is None:
        return list(found.junctions)
    picked = [j for j in found.junctions if _matches(where, j.place)]
    if not picked:
        names = [j.place.name for j in found.junctions]
        near = nearest(where, names) if isinstance(where, str) else names[:3]
        said = "the nearest names" if isinstance(where, str) else "the first"
        raise ValueError(f"where={where!r} picks none of {len(names)} junctions; {said}: {', '.join(near)}")
    return picked


def _matches(where: Where, place: Place) -> bool:
    return fnmatchcase(place.name, where) if isinstance(where, str) else bool(where(place))


def _called(rule: Callable[[Place], Rule], place: Place) -> Rule:
    new = rule(place) if callable(rule) else None
    if not isinstance(new, Rule):
        raise TypeError(f"rewire takes a rule or a callable Place -> rule; at {place.name!r} it gave {new!r}")
    return new


def _check(found: Discovery, junction: Junction, rule: Rule) -> None:
    if type(rule).join is Rule.join:
        raise TypeError(f"{type(rule).__name__} has no join(self, place, shortcut, branch), which gives the sum")
    if not rule.drops:
        return
    trained = branch_modules(found.trained[junction]) if junction in found.trained else []
    for module in [*branch_of(found, junction), *trained]:
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


def _check_read(net: nn.Module, found: Discovery, where: Where | None) -> None:
    """Raise where there is nothing to rewire, or where a sum that `where` picks cannot take a rule."""
    total = len(found.junctions) + len(found.junctions.unread)
    unread = {
        name: why
        for i, (name, why) in enumerate(found.junctions.unread.items())
        if where is None or _matches(where, Place(len(found.junctions) + i, total, name))
    }
    if unread:
        listed = "; ".join(f"{name or 'the network itself'}, {why}" for name, why in list(unread.items())[:3])
        sums = "sum" if len(unread) == 1 else "sums"
        raise CaptureError(
            f"{len(unread)} residual {sums} of {type(net).__name__} cannot be handed to a rule: {listed}. "
            "Write the sum as `x + f(x)` in a method, use a native winze.Junction, or leave it out with where="
        )
    if not found.junctions:
        raise CaptureError(f"{type(net).__name__} has no junction: no forward in it adds a shortcut to a branch")
