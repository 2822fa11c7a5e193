"""Hardware of a training: devices, processes, and torch's global switches while it runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

from winze.modes import rng_unchanged
from winze.train.fields import Checked, Count


@dataclass(frozen=True)
class Hardware(Checked):
    """Where training runs; it changes speed and rounding, not what is learned.

    `step="auto"` captures steps of fixed shape as CUDA graphs on one GPU, where the update says that it is
    `capturable`, and takes plain steps elsewhere; "graph" insists. `compile` fuses what the network does into fewer
    kernels, captured or not. With `deterministic` two runs on one GPU agree bit for bit; on a CPU they do with the same
    number of `threads`.
    """

    accelerator: str = "auto"
    """cpu, cuda, mps, or auto"""
    devices: Count = 1
    """more than one: start with torchrun --nproc-per-node N"""
    strategy: str = "auto"
    """ddp, fsdp..., as Lightning Fabric names them"""
    step: Literal["auto", "plain", "graph"] = "auto"
    compile: bool = False
    """by torch.compile, which takes its time at the start"""
    deterministic: bool = False
    threads: Count | None = None
    """of torch on the CPU; None leaves them as they are"""


class HardwareError(ValueError):
    """Requested devices that do not exist."""


def device_of(hardware: Hardware | None) -> torch.device:
    """The device on which a training of one process would run."""
    device: torch.device = make_fabric(hardware or Hardware()).device
    return device


def make_fabric(hardware: Hardware, precision: Any = "32-true") -> Any:
    """Lightning Fabric for one process, or for those that torchrun started; raises where training could not begin."""
    from lightning_fabric import Fabric

    world = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", str(world)))
    if hardware.accelerator in ("cuda", "gpu") and not torch.cuda.is_available():
        raise HardwareError("no GPU: this machine has none that torch can use; omit --accelerator, or pass cpu")
    if hardware.devices > 1 and world == 1:
        raise HardwareError(
            f"{hardware.devices} devices need as many processes: start with "
            f"`torchrun --nproc-per-node {hardware.devices} -m winze ...`"
        )
    if hardware.devices > 1 and hardware.devices != world:
        raise HardwareError(f"{hardware.devices} devices were asked for, torchrun started {world} processes")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it greets every GPU
    try:
        return Fabric(
            accelerator=hardware.accelerator,
            devices=local,
            num_nodes=max(1, world // local),
            strategy=hardware.strategy,
            precision=precision,
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise HardwareError(f"Lightning Fabric refuses these devices: {error}") from error


@contextmanager
def switches(hardware: Hardware, device: torch.device) -> Iterator[None]:
    """Threads, determinism and cuDNN's choice of kernels for a while; random state comes back as it was."""
    threads, cudnn = torch.get_num_threads(), torch.backends.cudnn.benchmark
    strict, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    devices = [device] if device.type == "cuda" else []
    if hardware.deterministic and devices:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        if hardware.threads is not None:
            torch.set_num_threads(hardware.threads)
        if hardware.deterministic:
            torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = bool(devices) and not hardware.deterministic
        with rng_unchanged(), torch.random.fork_rng(devices, device_type="cuda"):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict, warn_only=warns)
        torch.backends.cudnn.benchmark = cudnn
