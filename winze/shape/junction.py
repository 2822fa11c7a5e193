"""A junction: the point at which a shortcut meets its branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from winze.place import Place
from winze.shape.branch import Branch, ShapeError, Shortcut
from winze.shape.rule import Rule
from winze.shape.rules.standard import Standard

if TYPE_CHECKING:
    from winze.shape.alternation import Alternation
    from winze.shape.rowwise.gather import Rows


class Moment:
    """The `Alternation` that steers a junction, and the junction's row in its table; empty until an Alternation is
    made. A copied or unpickled network is not steered by the original's alternation. `writes`: whether a run of the
    branch in train mode writes into buffers; None until one has run.
    """

    def __init__(self) -> None:
        self.alternation: Alternation | None = None
        self.row = 0
        self.writes: bool | None = None

    @property
    def stage(self) -> int | None:
        """1 or 2, None without an alternation."""
        return None if self.alternation is None else self.alternation.stage

    def keep(self, samples: int) -> Tensor:
        """The mask of this junction for a batch of `samples`."""
        assert self.alternation is not None
        return self.alternation.keep(self.row, samples)

    def kept_whole(self, samples: int) -> bool:
        """The per-batch mask of this junction."""
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


class Junction(nn.Module):
    """`y = rule(x, f)` as a module: in a network built from these, every rule works without reading the source.

        block = winze.Junction(nn.Sequential(nn.Linear(8, 8), nn.GELU()))

    `branch` is f; `shortcut` is the module on the shortcut (None: the identity). Further arguments of a call go to
    the branch. `place` is its index among all junctions of its network, `seat` its index among those that share its
    rule.
    """

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None = None, rule: Rule | None = None) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut
        self.gate: nn.Module | None = None
        self.rule: Rule = rule or Standard()
        self.place = self.seat = Place(0, 1, "junction")
        self.moment = Moment()

    @property
    def kind(self) -> str:
        """`identity`, or `projection` where the shortcut is more than the stream itself."""
        return "identity" if self.shortcut is None else "projection"

    @property
    def holds(self) -> str:
        """A short description of the branch."""
        return describe([self.branch])

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        def shortcut() -> Tensor:
            return x if self.shortcut is None else self.shortcut(x)

        def run(stream: Tensor, *rest: Any) -> Any:
            return self.branch(stream, *rest, **kwargs)

        scales = [1, *(int(isinstance(a, Tensor) and a.ndim > 0 and len(a) == len(x)) for a in args)]
        owned = lambda: ((self.branch,), ())  # noqa: E731
        branch = Branch(run, (x, *args), scales, owned, self.moment, training=self.training, gate=self.gate)
        return self.join(shortcut, branch)

    def join(self, shortcut: Shortcut, branch: Branch) -> Tensor:
        """The sum by this junction's rule; a mismatch of shapes raises an error that names them."""
        try:
            return self.rule.join(self.seat, shortcut, branch)
        except ShapeError as error:
            raise ValueError(f"junction {self.place.name!r}: {error}") from None

    def extra_repr(self) -> str:
        return f"rule={self.rule}"


def describe(modules: list[nn.Module]) -> str:
    """`3 Conv2d, 3 BatchNorm2d, 2 ReLU`: the leaf modules, counted by class."""
    counts: dict[str, int] = {}
    for module in modules:
        for leaf in module.modules():
            if not any(True for _ in leaf.children()) and not isinstance(leaf, nn.Identity):
                counts[type(leaf).__name__] = counts.get(type(leaf).__name__, 0) + 1
    return ", ".join(f"{n} {name}" for name, n in counts.items()) or "no layers"
