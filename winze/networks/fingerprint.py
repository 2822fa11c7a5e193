"""Which network this is: a fingerprint of its architecture, of its rules and of its weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from winze.networks.trained_rules import rules_of
from winze.networks.unwrap import NAMES, unwrapped

CHANGED = {
    "architecture": "another architecture",
    "rules": "this network with other rules at its junctions: it was rewired after the scan, or the one scanned was",
    "weights": "this network with other weights: it was trained further, or other weights were loaded, after the scan",
}


def fingerprint(net: nn.Module) -> dict[str, str]:
    """SHA-256 of a network's parts, the same on any device and for a network that DDP or `torch.compile` wraps.

    `architecture`: names and classes of its modules, names and shapes of its parameters and persistent buffers;
    `rules`: what stands at its junctions; `weights`: the dtypes and bytes of all parameters and persistent buffers.
    """
    net = unwrapped(net)
    state = sorted(((_plain(name), value) for name, value in net.state_dict().items()), key=lambda entry: entry[0])
    held = [(name, value) for name, value in state if isinstance(value, Tensor)]
    modules = {_plain(name): type(module).__name__ for name, module in net.named_modules()}  # inner after their wrapper
    with ThreadPoolExecutor() as threads:  # hashing lets other threads run
        digests = list(threads.map(_digest, (value for _, value in held)))
    return {
        "architecture": _hash([modules, [(name, list(value.shape)) for name, value in held]]),
        "rules": _hash(rules_of(net)),
        "weights": _hash([(str(value.dtype), digest) for (_, value), digest in zip(held, digests, strict=True)]),
    }


def difference(stored: Mapping[str, str], net: nn.Module) -> str:
    """What a fingerprint is of, in words, where it is not of this network; empty where it is."""
    own = fingerprint(net)
    return next((what for part, what in CHANGED.items() if stored.get(part) != own[part]), "")


def _plain(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in NAMES)


@torch.no_grad()
def _digest(tensor: Tensor) -> str:
    if hasattr(tensor, "full_tensor"):  # sharded over devices
        tensor = tensor.full_tensor()
    if tensor.is_meta:
        return ""
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    plain = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    body = plain.resolve_conj().resolve_neg().cpu().contiguous().flatten().view(torch.uint8)
    return hashlib.sha256(body.numpy().data).hexdigest()


def _hash(told: Any) -> str:
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
