"""The network inside the wrappers that train it: DataParallel, DDP, `torch.compile`, Fabric."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from winze.networks.network_error import NetworkError

INSIDE = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "AveragedModel": "module",
    "_FabricModule": "_original_module",
}
"""Wrappers by the name of their class, since Fabric and the compiler are not imported for this, and where they keep
the network."""
NAMES = frozenset({"module", "_orig_mod", "_forward_module", "_original_module"})
"""What wrappers add to the names of parameters."""


def unwrapped(net: Any) -> nn.Module:
    """The network itself; what has no forward that can be read, or is no network, raises in one line."""
    while (inside := _inside(net)) is not None:
        net = getattr(net, inside)
    if isinstance(net, str):
        raise NetworkError(f"{net!r} is a name, not a network: pass winze.networks.build({net!r})")
    if not isinstance(net, nn.Module):
        raise NetworkError(f"a network is a torch.nn.Module, not a {type(net).__name__}")
    if isinstance(net, torch.jit.ScriptModule):
        raise NetworkError(
            f"{net.original_name} is a TorchScript module, whose forward cannot be read: pass the network it was made "
            "from"
        )
    if isinstance(net, GraphModule) and isinstance(vars(net).get("train"), MethodType):  # which torch.export puts there
        raise NetworkError("the network was exported, and its modes are fixed: pass the network it was made from")
    if any(kind.__name__ == "FullyShardedDataParallel" for kind in type(net).__mro__):
        raise NetworkError(
            "the network is wrapped in FullyShardedDataParallel, which holds a part of its weights only: gather them "
            "(torch.distributed.checkpoint.state_dict.get_model_state_dict) into a plain copy of the network"
        )
    return net


@contextmanager
def interpreted(net: nn.Module) -> Iterator[None]:
    """While open, parts of a network that are compiled run as Python, so that hooks in them are called."""
    compiled = any(type(part).__name__ == "OptimizedModule" or part._compiled_call_impl for part in net.modules())
    with torch.compiler.set_stance("force_eager") if compiled else nullcontext():
        yield


def _inside(net: Any) -> str | None:
    """The attribute in which a wrapper keeps its network; None for whatever is no wrapper."""
    kinds = (kind for kind in type(net).__mro__ if kind.__module__.startswith(("torch.", "lightning")))
    return next((INSIDE[kind.__name__] for kind in kinds if kind.__name__ in INSIDE), None)
