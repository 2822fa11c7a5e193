"""Seeds for everything that a training draws, from its own seed, a word and a count.

Each draw depends on these alone, never on how many numbers were drawn before. So a training that was killed resumes
exactly, without stored generator states, and nothing that others draw can change it.
"""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy as np
import torch

from winze.modes import RandomGenerator


def mix(seed: int, word: str, count: int = 0) -> int:
    """A seed of 63 bits.

    >>> mix(0, "order", 1) == mix(0, "order", 1), mix(0, "order", 1) == mix(0, "order", 2)
    (True, False)
    """
    digest = hashlib.sha256(f"{seed} {word} {count}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(device: torch.device | str, seed: int, word: str, count: int = 0) -> torch.Generator:
    """A generator of its own, freshly seeded."""
    return torch.Generator(device).manual_seed(mix(seed, word, count))


def seed_all(seed: int) -> None:
    """Seed the global generators of torch, NumPy and Python."""
    torch.manual_seed(seed)
    seed_quickly(seed)


def seed_quickly(seed: int, device: torch.device | None = None) -> None:
    """Seed the same generators, but of devices only this one.

    `torch.manual_seed` would do, at half a millisecond per call on a machine without a GPU.
    """
    torch.default_generator.manual_seed(seed)
    if device is not None and device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def reseed(generator: RandomGenerator, seed: int) -> None:
    """Seed a generator that others hold, in place."""
    if isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
        bits.state = type(bits)(seed).state
    else:
        generator.seed(seed % 2**32)
