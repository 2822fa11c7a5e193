"""The device, versions and source code of a run."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch

from winze.atomic import sha256
from winze.train import Hardware


def device(hardware: Hardware) -> str:
    """The GPU by name, or the processor."""
    if hardware.accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available():
        many = f"{hardware.devices} x " if hardware.devices > 1 else ""
        return many + torch.cuda.get_device_name()
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def versions() -> dict[str, str]:
    """Python, torch and winze."""
    from winze import __version__

    return {"python": platform.python_version(), "torch": str(torch.__version__), "winze": __version__}


def circumstances(hardware: Hardware, file: str = "") -> dict[str, Any]:
    """All that numbers depend on besides the job and the number of threads, as `run.json` stores it."""
    return {"versions": versions(), "source": source(file), "device": device(hardware), "flags": flags(hardware)}


def flags(hardware: Hardware) -> dict[str, Any]:
    """The settings of the hardware that may change numbers beyond the device and the number of threads."""
    return {name: getattr(hardware, name) for name in ("devices", "strategy", "step", "compile", "deterministic")}


@cache
def source(file: str = "") -> str:
    """16 hexadecimal digits of the SHA-256 of winze's own code, committed or not, and of a recipe's own file."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()} {sha256(path)}\n".encode())
    digest.update(Path(file).read_bytes() if file else b"")
    return digest.hexdigest()[:16]


@cache
def commit() -> str | None:
    """The commit of the source that runs, with a `+` where files differ from it; None outside its repository."""
    here = Path(__file__).parent
    try:
        _git(here, "ls-files", "--error-unmatch", __file__)  # else it is installed inside somebody else's
        head = _git(here, "rev-parse", "HEAD").strip()
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", str(here.parents[1]))
    except (OSError, subprocess.SubprocessError):
        return None
    return head + "+" if changed.strip() else head


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout
