"""How sure a share of samples is."""

from __future__ import annotations


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of n samples (Wilson, 1927)."""
    z = 1.959963984540054
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)
