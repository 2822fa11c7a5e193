"""Memory: what there is, what a backward pass needs, and errors where it runs out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

LOWER = "lower batch=, max_features= or memory= (--batch, --max-features, --memory), or pool more"
SAID = ("out of memory", "allocate memory", "not enough memory", "alloc_failed", "bad_alloc", "memory may have run out")
"""How errors that are no MemoryError say it: CUDA, the CPU, cuBLAS and cuDNN, C++, a crew whose worker was killed."""


class NoRoomError(MemoryError):
    """Memory ran out, and the text says where and what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be had."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError | OSError) and any(words in text for words in SAID)


@contextmanager
def enough_memory(where: str | Callable[[], str], lower: str = LOWER) -> Iterator[None]:
    """While open, an out-of-memory error names `where` it was and what to `lower`; the innermost call decides."""
    try:
        yield
    except NoRoomError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        place = where if isinstance(where, str) else where()
        raise NoRoomError(f"{place}: memory ran out{_detail(str(error))}; {lower}") from error


def _detail(text: str) -> str:
    """How much was asked for, else the first line of what was said."""
    asked = re.search(r"allocate ([\d.]+ \w+)", text)
    first = f"asked for {asked[1]}" if asked else "".join(text.splitlines()[:1])
    return f" ({first})" if first else ""


def saved_bytes(work: Callable[[], object], known: Iterable[Tensor] = ()) -> int:
    """The bytes that a call saves for its backward pass, each piece of memory once and without that of `known`."""
    own = {one.untyped_storage().data_ptr() for one in known}
    found: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        kept = work()  # it keeps the graph alive while it is counted, so that no address is used twice
        total = sum(found.values())
    del kept
    return total


def available(device: torch.device) -> int | None:
    """The bytes that can still be had on a device; None where the system does not say."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + cached
    try:
        told = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(told[1]) * 1024 if told else None
