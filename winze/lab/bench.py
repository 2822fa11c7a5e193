"""What a recipe's work is given: a place to train that survives being killed, to read, and to keep what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from winze.data import Dataset, Preprocess
from winze.files import write_atomically
from winze.lab.job import plain
from winze.lab.store import METRICS
from winze.observe import Watch
from winze.observe.files import pack
from winze.readings import Readings
from winze.shape import Alternation
from winze.train import Checkpoints, Hardware, History, Objective, StoreError, Training, fit
from winze.train.place import device_of
from winze.train.seeds import mix, seed_all

PHASES, PHASE = "phases", "phase.json"
Rows = list[dict[str, Any]]


class Bench:
    """One run at work in its folder.

    After a kill the recipe's work simply starts again from the top: a phase of training that was finished gives its
    weights and history at once, one that was not goes on from its newest checkpoint, and whatever draws random numbers
    between phases draws the same ones. `readings` are stored when the work is done. Only one of several processes that
    share a run `writes`.
    """

    def __init__(
        self,
        folder: Path,
        seed: int = 0,
        hardware: Hardware | None = None,
        progress: bool | None = None,
        writes: bool = True,
    ) -> None:
        self.folder, self.seed, self.progress, self.writes = folder, seed, progress, writes
        self.hardware = Hardware() if hardware is None else hardware
        self.readings = Readings()
        self.phases: dict[str, History] = {}
        seed_all(mix(seed, "work"))

    @property
    def device(self) -> torch.device:
        """Where this run's networks learn."""
        return device_of(self.hardware)

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """While open, networks are not compiled, as for trainings of few steps, which end before that pays."""
        whole, self.hardware = self.hardware, replace(self.hardware, compile=False)
        try:
            yield
        finally:
            self.hardware = whole

    def train(
        self,
        net: nn.Module,
        data: Dataset | tuple[Tensor, Tensor] | Any,
        training: Training,
        *,
        name: str = "train",
        preprocess: Preprocess | None = None,
        test: tuple[Tensor, Tensor] | Any = None,
        objective: Objective | None = None,
        watch: Watch | Callable[[nn.Module, int], Any] | None = None,
        alternation: Alternation | None = None,
    ) -> History:
        """One phase of training, as `winze.train.fit` does it; of a data set, its test part is the test."""
        if name in self.phases or not name.replace("-", "").replace("_", "").isalnum():
            why = "there was one before" if name in self.phases else "letters, digits, - and _ make a name"
            raise ValueError(f"name={name!r} cannot name a phase of training: {why}")
        if isinstance(data, Dataset):
            test = data.test if test is None else test
            data = data.train
        self._recognise(name, net, training)
        history = fit(
            net,
            data,
            training,
            seed=mix(self.seed, name),
            test=test,
            preprocess=preprocess,
            objective=objective,
            hardware=self.hardware,
            checkpoints=_Told(self.folder / PHASES / name, lambda rows: self._tell({name: rows})),
            alternation=alternation,
            watch=watch,
            progress=self.progress,
        )
        self.phases[name] = history
        if self.writes:
            Checkpoints(self.folder / PHASES / name).prune(1)
            self._tell({})
        seed_all(mix(self.seed, f"after {name}"))
        return history

    def keep(self, net: nn.Module, spec: str | Mapping[str, Any], name: str = "net") -> Path:
        """Store a network as `<name>.safetensors`, which `winze.load` reads; `spec` is what `networks.build` takes."""
        path = self.folder / f"{name}.safetensors"
        if self.writes:
            write_atomically(path, pack(net, spec))
        return path

    def _recognise(self, name: str, net: nn.Module, training: Training) -> None:
        """Make sure that what is stored of a phase belongs to this very network and training."""
        shapes = {key: list(value.shape) for key, value in net.state_dict().items()}
        told = {"training": plain(training, "training"), "shapes": shapes}
        path = self.folder / PHASES / name / PHASE
        if path.is_file():
            try:
                before = json.loads(path.read_bytes())
            except (ValueError, RecursionError) as error:
                raise StoreError(f"{path} was cut short or is no JSON ({error}); remove {path.parent}") from error
            if before != told:
                raise StoreError(
                    f"{path.parent} holds another training than the one asked for: the recipe has changed since the "
                    f"run was begun; remove {self.folder} (or `winze runs clean`) to start it anew"
                )
        elif self.writes:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(told).encode())

    def _tell(self, running: Mapping[str, Rows]) -> None:
        """Write the metrics of finished phases, and of the one at work as far as its newest checkpoint."""
        rows = {name: list(history.metrics) for name, history in self.phases.items()} | dict(running)
        lines = [json.dumps({"phase": name, **row}) for name, metrics in rows.items() for row in metrics]
        write_atomically(self.folder / METRICS, "".join(line + "\n" for line in lines).encode())


class _Told(Checkpoints):
    """Checkpoints that pass on the metrics they hold, once they are safe."""

    def __init__(self, folder: Path, tell: Callable[[Rows], None]) -> None:
        super().__init__(folder)
        self._tell = tell

    def save(self, step: int, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        super().save(step, weights, state)
        self._tell(state["metrics"])
