"""Parts of a network that do not move at all in stage 2, whatever the optimizer's momentum and weight decay."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from winze.lab import Bench, Study, learn, prepare, store_curve
from winze.shape.find import wired

PROJECTIONS = ("downsample.", "shortcut.")  # as timm and winze name them
Freeze = Literal["gradient", "branches", "all"]


@dataclass(frozen=True)
class Freezing(Study):
    """A study whose stage 2 stops gradients of kept branches, moves them not at all, or moves dropped branches alone.

    `freeze="gradient"` is the rule by itself. With "branches", the weights and BatchNorm statistics of kept branches
    are the same after stage 2 as before it; with "all", so are those of stem, projections and head.
    """

    freeze: Freeze = "gradient"


class PutBack:
    """Follows an `Alternation` of per-batch masks, and undoes what stage 2 did to frozen parts of the network.

    Momentum and weight decay move weights whose gradient is 0. What they, and BatchNorm, changed is put back after each
    step of stage 2; the momentum itself goes on to decay.
    """

    def __init__(self, net: nn.Module, freeze: Freeze = "branches") -> None:
        staged = [junction for junction in wired(net) if junction.rule.staged]
        if not staged or any(getattr(one.rule, "mask", "") != "batch" for one in staged):
            raise ValueError('PutBack needs ResidualDropPath(mask="batch"): a per-sample mask freezes no whole branch')
        self._junctions = staged
        state = {name: one for name, one in net.state_dict(keep_vars=True).items() if isinstance(one, Tensor)}
        inside = [[name for name in state if self._is_branch(name, one.seat.name)] for one in staged]
        known = {name for names in inside for name in names}
        self._branches, self._rest = inside, [name for name in state if name not in known] if freeze == "all" else []
        self._before: dict[str, Tensor] = {}

    @staticmethod
    def _is_branch(name: str, junction: str) -> bool:
        return name.startswith(f"{junction}.") and not name.removeprefix(f"{junction}.").startswith(PROJECTIONS)

    @torch.no_grad()
    def after_step(self, net: nn.Module, step: int) -> None:
        """Put frozen parts back after a step of stage 2, and remember them before one."""
        state = {name: one.detach() for name, one in net.state_dict(keep_vars=True).items() if isinstance(one, Tensor)}
        if self._before:
            torch._foreach_copy_([state[name] for name in self._before], list(self._before.values()))
        moment = self._junctions[0].moment
        alternation: Any = moment.alternation
        self._before = {}
        if alternation.stage == 2:
            kept = (names for row, names in enumerate(self._branches) if alternation.kept_whole(row, 1))
            self._before = {name: state[name].clone() for names in (*kept, self._rest) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """The frozen parts as they were before the stage 2 under way."""
        return {"before": {name: one.clone() for name, one in self._before.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to where `state_dict` was taken."""
        self._before = dict(state["before"])


def train(study: Study, bench: Bench) -> None:
    """Train one network, with `Freezing` put back what stands still, and keep its accuracy over training."""
    prepared, followers = prepare(study, bench), []
    if isinstance(study, Freezing) and study.freeze != "gradient":
        followers = [PutBack(prepared.net.to(bench.device), study.freeze)]
    learn(prepared, bench, followers=followers)
    store_curve(prepared, bench)
    name, data = study.data.name, prepared.dataset
    samples = {"train": len(data.train_labels), "test": len(data.test_labels)}
    bench.readings.declare(network=study.network.name, data=name, samples={name: samples}, notes=list(data.notes))
