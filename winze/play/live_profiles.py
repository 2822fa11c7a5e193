"""The depth profiles of a training, read piece by piece between its steps."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from winze.networks import SpiralMLP
from winze.play.depth_profile import Profile, stages
from winze.play.trainer import Trainer

SHARE = 0.08  # of the time, at most, that depth profiles take
FIRST_SHARE = 0.5  # of the first one, so that no panel stays empty for long


class Budget:
    """How long a kind of work took lately, and when it may run again so that it keeps to its share of the time."""

    def __init__(self, share: float, fastest: float = 0.0) -> None:
        self.share, self.fastest = share, fastest
        self.due = 0.0

    def spent(self, seconds: float) -> None:
        """Note work of so many seconds, which ends now."""
        self.due = time.monotonic() + max(self.fastest - seconds, seconds * (1 / self.share - 1))

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self.due


class LiveProfiles:
    """One profile per network, all of the same step; a new one replaces them when it is complete."""

    def __init__(self, count: int) -> None:
        self.found = [Profile() for _ in range(count)]
        self.budget = Budget(FIRST_SHARE)
        self._pieces: Iterator[None] | None = None

    @property
    def is_reading(self) -> bool:
        return self._pieces is not None

    def begin(self, trainer: Trainer, nets: Sequence[SpiralMLP], step: int) -> None:
        """Read these networks from the start, as soon as there is time."""
        self._pieces = self._read(trainer, nets, step)

    def piece(self) -> bool:
        """Read one piece; true when that was the last."""
        begun = time.monotonic()
        if self._pieces is not None and next(self._pieces, "done") == "done":
            self._pieces = None
        self.budget.spent(time.monotonic() - begun)
        return self._pieces is None

    def _read(self, trainer: Trainer, nets: Sequence[SpiralMLP], step: int) -> Iterator[None]:
        found = [Profile(step) for _ in nets]
        readings = [
            stages(one, net, trainer.train, trainer.test, trainer.setup.classes)
            for one, net in zip(found, nets, strict=True)
        ]
        for reading in readings:  # the first piece takes the features: of all networks at the same step
            next(reading, None)
        for reading in readings:
            yield
            yield from reading
        self.found, self.budget.share = found, SHARE
