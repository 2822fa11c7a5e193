"""Where in a network: the one word that shaping and measuring share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Place:
    """One spot in depth: the `index`-th of `total` (counted from 0), and its module name.

    >>> Place(3, 16, "layer2.0")
    Place(index=3, total=16, name='layer2.0')
    >>> Place(3, 16, "layer2.0").depth
    0.2
    """

    index: int
    total: int
    name: str

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.total:
            raise ValueError(f"place {self.name!r}: index {self.index} is not below total {self.total}")

    @property
    def depth(self) -> float:
        """Relative depth, 0 at the first place and 1 at the last; a place alone is the last."""
        return self.index / (self.total - 1) if self.total > 1 else 1.0
