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

PACKAGE = Path(__file__).parents[2]


def device(hardware: Hardware) -> str:
    """The GPU by name, or the processor."""
    if hardware.accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available():
        many = f"{hardware.devices} x " if hardware.devices > 1 else ""
        return many + torch.cuda.get_device_name()
    if hardware.accelerator in ("auto", "mps") and torch.backends.mps.is_available():
        return f"{platform.machine()} GPU (MPS)"
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def versions() -> dict[str, str]:
    """Python, torch and winze."""
    from winze import __version__

    return {"python": platform.python_version(), "torch": str(torch.__version__), "winze": __version__}


def circumstances(hardware: Hardware, file: str = "") -> dict[str, Any]:
    """Everything that numbers depend on besides the job and the number of threads, as stored in `run.json`."""
    flags = {name: getattr(hardware, name) for name in ("devices", "strategy", "step", "compile", "deterministic")}
    return {"versions": versions(), "source": source(file), "device": device(hardware), "flags": flags}


def source(file: str = "") -> str:
    """16 hexadecimal digits of the SHA-256 of winze's code, committed or not, and of a recipe's file outside it."""
    own = Path(file).read_bytes() if file else b""  # which may change while this process lives
    return hashlib.sha256(_code() + own).hexdigest()[:16]


@cache
def _code() -> bytes:
    """The name and the hash of each of winze's files."""
    files = sorted(PACKAGE.rglob("*.py"))
    return "".join(f"{path.relative_to(PACKAGE).as_posix()} {sha256(path)}\n" for path in files).encode()


@cache
def commit(package: Path = PACKAGE) -> str | None:
    """The commit of the running source; None outside its repository.

    A `+` follows where the package differs from that commit: a tracked file changed, or Python files that git neither
    tracks nor ignores.
    """
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")  # else it is installed in another repository
        head = _git(package, "rev-parse", "HEAD").strip()
        lines = _git(package, "status", "--porcelain", "--untracked-files=all", "--", ".").splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    differs = any(not line.startswith("??") or line.strip('"').endswith(".py") for line in lines)
    return head + "+" if differs else head


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout
