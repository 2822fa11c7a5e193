"""Which network this is: a fingerprint of its architecture, its rules, its weights, and what it computes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from winze.modes import unchanged, written_by_switching
from winze.networks.trained_rules import rules_of
from winze.networks.unwrap import NAMES, unwrapped

CHANGED = {
    "architecture": "another architecture",
    "rules": "this network with other rules at its junctions: it was rewired after the scan, or the one scanned was",
    "weights": "this network with other weights: it was trained further, or other weights were loaded, after the scan",
}
ANSWERS = "answers"
SHOWN = 8
TOGETHER = 1 << 22
"""Bytes of tensors that are copied from a GPU and hashed together: each copy waits for the GPU."""
CLOSE, ROUNDED = 0.05, {torch.float16: 0.02, torch.bfloat16: 0.02}
"""Outputs are alike within this share of what tells two samples apart, and within the rounding of other devices."""


def fingerprint(net: nn.Module) -> dict[str, str]:
    """SHA-256 of a network's parts, the same on any device and for a network that DDP or `torch.compile` wraps.

    `architecture`: names and classes of its modules, names and shapes of its parameters and persistent buffers;
    `rules`: what stands at its junctions; `weights`: the dtypes and bytes of all parameters and persistent buffers.
    """
    return begun_fingerprint(net)()


def begun_fingerprint(net: nn.Module) -> Callable[[], dict[str, str]]:
    """The fingerprint of a network as it is now: threads hash the weights until it is called for.

    Meanwhile the network may run, in any mode, and move to another device: parameters are read where they are, and
    whatever a run may write is copied before.
    """
    net = unwrapped(net)
    state = sorted(((_plain(name), value) for name, value in net.state_dict().items()), key=lambda entry: entry[0])
    held = [(name, value) for name, value in state if isinstance(value, Tensor)]
    modules = {_plain(name): type(module).__name__ for name, module in net.named_modules()}  # inner after their wrapper
    known = {"architecture": _hash([modules, [(name, list(value.shape)) for name, value in held]])}
    known["rules"] = _hash(rules_of(net))
    digests = _begun_digests([value for _, value in held], _steady(net))

    def finished() -> dict[str, str]:
        told = [(str(value.dtype), digest) for (_, value), digest in zip(held, digests(), strict=True)]
        return {**known, "weights": _hash(told)}

    return finished


def answers(net: nn.Module, shape: Sequence[int]) -> str:
    """Some outputs of a network in eval mode for noise of this shape; empty where those are not the same each time.

    They tell apart what neither modules nor weights show: the code of a forward, and plain attributes that it reads.
    """
    like = next((p for p in net.parameters() if p.is_floating_point()), torch.empty(0))
    noise = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(like.device, like.dtype)
    found = []
    with torch.no_grad(), unchanged(net, training=False):
        for seed in (0, 1):
            torch.manual_seed(seed)
            try:
                leaves = pytree.tree_leaves(net(noise.clone()))
            except Exception:  # it takes something else than floats of a shape
                return ""
            outputs = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.ndim]
            if not outputs or not outputs[0].numel():
                return ""
            rows = outputs[0].double().cpu().reshape(len(outputs[0]), -1)[:2]
            found.append(rows[:, torch.linspace(0, rows.shape[1] - 1, SHOWN).long()].flatten())
    same = torch.equal(*found) and bool(found[0].isfinite().all())
    return " ".join(f"{value:.6g}" for value in found[0].tolist()) if same else ""


def difference(stored: Mapping[str, str], net: nn.Module, shape: Sequence[int] | None = None) -> str:
    """What a fingerprint is of, in words, where it is not of this network; empty where it is.

    `shape` is that of the noise for which its answers were taken.
    """
    own = fingerprint(net)
    changed = next((what for part, what in CHANGED.items() if stored.get(part) != own[part]), "")
    if changed or not shape or not stored.get(ANSWERS):
        return changed
    rounding = max((ROUNDED.get(p.dtype, 0.002) for p in net.parameters()), default=0.002)
    if _are_close(stored[ANSWERS], answers(net, shape), rounding):
        return ""
    return (
        "this network with another forward: it gives another output for the same input, so its code or an attribute "
        "of a module was changed after the scan"
    )


def _are_close(told: str, own: str, rounding: float) -> bool:
    try:
        before, now = (torch.tensor([float(word) for word in text.split()]).double() for text in (told, own))
    except ValueError:
        return False
    if before.shape != now.shape:
        return False
    one, other = before.tensor_split(2)
    apart = (one - other).norm() if len(one) == len(other) == SHOWN else 0.0
    return bool((before - now).norm() <= CLOSE * apart + rounding * before.norm())


def _plain(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in NAMES)


def _steady(net: nn.Module) -> set[int]:
    """The addresses of plain parameters that neither a run nor a switch of modes writes; the others are copied."""
    written = set(map(id, written_by_switching(net)))
    plain = (p for p in net.parameters() if type(p) is nn.Parameter and p.layout == torch.strided and not p.is_meta)
    return {parameter.data_ptr() for parameter in plain if id(parameter) not in written}


@torch.no_grad()
def _begun_digests(tensors: Sequence[Tensor], steady: set[int]) -> Callable[[], list[str]]:
    """The SHA-256 of each tensor; neighbours on one device are copied to the CPU at once and hashed by one thread."""
    parts: list[list[Tensor]] = []
    waiting = 0
    for tensor in tensors:
        waiting += tensor.numel() * tensor.element_size()
        if not parts or waiting > TOGETHER or tensor.device != parts[-1][0].device:
            parts.append([])
            waiting = tensor.numel() * tensor.element_size()
        parts[-1].append(tensor if _is_steady(tensor, steady) else _bytes(tensor).clone())
    threads = ThreadPoolExecutor()  # hashing lets other threads run
    found = [threads.submit(_digests_of, part) for part in parts]
    threads.shutdown(wait=False)
    return lambda: [digest for part in found for digest in part.result()]


def _is_steady(tensor: Tensor, steady: set[int]) -> bool:
    return type(tensor) is Tensor and tensor.layout == torch.strided and tensor.data_ptr() in steady


@torch.no_grad()
def _digests_of(tensors: Sequence[Tensor]) -> list[str]:
    if tensors[0].is_meta:
        return [""] * len(tensors)
    bodies = [_bytes(tensor) for tensor in tensors]
    if not bodies[0].is_cpu:
        bodies = list(torch.cat(bodies).cpu().split([len(body) for body in bodies]))
    return [hashlib.sha256(body.numpy().data).hexdigest() for body in bodies]


def _bytes(tensor: Tensor) -> Tensor:
    if hasattr(tensor, "full_tensor"):  # sharded over devices
        tensor = tensor.full_tensor()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    plain = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    return plain.resolve_conj().resolve_neg().contiguous().flatten().view(torch.uint8)


def _hash(told: Any) -> str:
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
