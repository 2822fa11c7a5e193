"""What a junction knows about the moment of training: the thread from it to its `Alternation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from winze.shape.alternation import Alternation
    from winze.shape.rowwise.rows import Rows


class Moment:
    """The `Alternation` that steers a junction, and the junction's row in its table; nothing until one is made.

    A copy of a network is not steered by the original's alternation, so copying and pickling cut the thread.
    """

    def __init__(self) -> None:
        self.alternation: Alternation | None = None
        self.row = 0

    @property
    def stage(self) -> int | None:
        """1 or 2, None without an alternation."""
        return None if self.alternation is None else self.alternation.stage

    def keep(self, samples: int) -> Tensor:
        """The mask of this junction for a batch of `samples`."""
        assert self.alternation is not None
        return self.alternation.keep(self.row, samples)

    def kept_whole(self, samples: int) -> bool:
        """The one coin of this junction, where the whole batch shares it."""
        assert self.alternation is not None
        return self.alternation.kept_whole(self.row, samples)

    def parted(self, samples: int) -> tuple[Rows, Rows]:
        """The kept and the dropped samples."""
        assert self.alternation is not None
        return self.alternation.parted(self.row, samples)

    def __deepcopy__(self, memo: dict[int, Any]) -> Moment:
        return Moment()

    def __reduce__(self) -> tuple[type[Moment], tuple[()]]:
        return Moment, ()
