"""The bench of one run: resumable training phases, readings, and stored networks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from winze.atomic import write_atomically
from winze.data import Dataset, Preprocess
from winze.lab.runs.job import digest, plain
from winze.lab.runs.store import LOCKS, METRICS, locked
from winze.observe.cut.network_file import pack
from winze.readings import Readings
from winze.train import Checkpoints, Classify, Hardware, History, StoreError, Training, Update, fit
from winze.train.hardware import device_of
from winze.train.seeds import mix, seed_all

PHASES, PHASE, SHARED = "phases", "phase.json", ".shared"
MetricRows = list[dict[str, Any]]


class Bench:
    """One run in its folder.

    After a kill the recipe's work starts again from the top: a finished training phase restores its weights and history
    at once, an unfinished one resumes from its newest checkpoint, and random numbers drawn between phases are the same.
    `readings` are stored when the work is done; with `readings_of` each seed of an ensemble has its own. Of several
    processes that share a run, only one `writes`.
    """

    def __init__(
        self,
        folder: Path,
        seed: int = 0,
        hardware: Hardware | None = None,
        progress: bool | None = None,
        writes: bool = True,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.seed, self.progress, self.writes = folder, seed, progress, writes
        self.about = dict(about or {})
        self.hardware = Hardware() if hardware is None else hardware
        self.readings = Readings()
        self.members: dict[int, Readings] = {}
        self.phases: dict[str, History] = {}
        self.shared: dict[str, str] = {}
        seed_all(mix(seed, "work"))

    @property
    def device(self) -> torch.device:
        """The device on which this run trains."""
        return device_of(self.hardware)

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """While open, networks are not compiled: a training of few steps ends before compilation pays off."""
        whole, self.hardware = self.hardware, replace(self.hardware, compile=False)
        try:
            yield
        finally:
            self.hardware = whole

    def readings_of(self, seed: int) -> Readings:
        """The readings of one seed of an ensemble, which counts as a run; `readings` belong to all seeds."""
        return self.members.setdefault(seed, Readings())

    def train(
        self,
        net: nn.Module | Update,
        data: Dataset | tuple[Tensor, Tensor] | Any,
        training: Training,
        *,
        name: str = "train",
        preprocess: Preprocess | None = None,
        tests: Mapping[str, Any] | None = None,
        followers: Mapping[str, Any] | Sequence[Any] = (),
        shared: Any = None,
    ) -> History:
        """One phase of training by `winze.train.fit`; of a data set, its test part is the test set.

        `shared` describes the network and the data of a phase that several runs have in common, such as the first task
        where runs differ in the second only: the runs of a folder that name the same network, data, training, seed and
        phase train it once, and all others start from the same weights.
        """
        if name in self.phases or not name.replace("-", "").replace("_", "").isalnum():
            why = "the run already has a phase of that name" if name in self.phases else "use letters, digits, - and _"
            raise ValueError(f"name={name!r} cannot name a training phase: {why}")
        if isinstance(data, Dataset):
            tests = {"test": data.test} if tests is None else tests
            data = data.train
        self._recognise(name, net, training)
        folder = self.folder / PHASES / name

        def fitted(where: Path) -> History:
            return fit(
                net,
                data,
                training,
                seed=mix(self.seed, name),
                tests=tests or {},
                preprocess=preprocess,
                followers=followers,
                hardware=self.hardware,
                checkpoints=Checkpoints(where, saved=lambda state: self._report({name: state["metrics"]})),
                progress=self.progress,
            )

        if shared is not None:
            told = [plain(shared, "shared"), plain(training, "training"), self.seed, name]
            told += [self.about, self.hardware.threads]  # other versions or another device make another checkpoint
            self.shared[name] = digest(told)[:16]
            if Checkpoints(folder).newest() is None:
                self._take_shared(self.folder.parent / SHARED / self.shared[name], folder, fitted)
        history = fitted(folder)
        self.phases[name] = history
        if self.writes:
            Checkpoints(folder).prune(1)
            self._report({})
        seed_all(mix(self.seed, f"after {name}"))
        return history

    def keep(self, net: nn.Module, spec: str | Mapping[str, Any] | None, name: str = "net") -> Path:
        """Store a network as `<name>.safetensors`, which `winze.load` reads; `spec` is what `networks.build` takes."""
        path = self.folder / f"{name}.safetensors"
        if self.writes:
            write_atomically(path, pack(net, spec))
        return path

    def _take_shared(self, store: Path, folder: Path, fitted: Callable[[Path], History]) -> None:
        """Train a shared phase, or wait while another run trains it, and copy its last checkpoint into this run."""
        with locked(store.parent / LOCKS / store.name, store) if self.writes else nullcontext():
            fitted(store)  # returns at once where it is finished, and resumes where its process was killed
            if self.writes:
                Checkpoints(store).prune(1)
                copy = folder.with_name(f".{folder.name}.{os.getpid()}")
                shutil.copytree(store, copy, dirs_exist_ok=True)
                shutil.copy2(folder / PHASE, copy / PHASE)
                shutil.rmtree(folder)
                copy.rename(folder)
            wait_for_all()  # no process may read the copy before it is complete

    def _recognise(self, name: str, net: nn.Module | Update, training: Training) -> None:
        """Raise unless the stored phase belongs to this network and training."""
        modules = {"": net} if isinstance(net, nn.Module) else net.modules
        state = {f"{part} {key}": one for part, module in modules.items() for key, one in module.state_dict().items()}
        shapes = {key.strip(): list(value.shape) for key, value in state.items() if isinstance(value, Tensor)}
        objective = training.objective
        named = {"objective": type(objective).__qualname__} if isinstance(objective, nn.Module) else {}
        stored = replace(training, objective=Classify()) if named else training
        told = {"training": plain(stored, "training"), "shapes": shapes, **named}
        path = self.folder / PHASES / name / PHASE
        if path.is_file():
            try:
                before = json.loads(path.read_bytes())
            except (ValueError, RecursionError) as error:
                raise StoreError(f"{path} was cut short or is not JSON ({error}); remove {path.parent}") from error
            if before != told:
                raise StoreError(
                    f"{path.parent} was trained with other settings than those requested: the recipe has changed since "
                    f"the run started; remove {self.folder} (or `winze runs clean`) to restart it"
                )
        elif self.writes:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(told).encode())

    def _report(self, running: Mapping[str, MetricRows]) -> None:
        """Write the metrics of finished phases, and of the current one up to its newest checkpoint."""
        rows = {name: list(history.metrics) for name, history in self.phases.items()} | dict(running)
        lines = [json.dumps({"phase": name, **row}) for name, metrics in rows.items() for row in metrics]
        write_atomically(self.folder / METRICS, "".join(line + "\n" for line in lines).encode())


def wait_for_all() -> None:
    """Wait for all processes of a run that torchrun distributes."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
