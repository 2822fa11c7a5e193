"""Decoding many images at once: Pillow lets go of the interpreter lock while it decodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`work` on every item, in order; the first error stops the rest and is raised."""
    pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1))
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
