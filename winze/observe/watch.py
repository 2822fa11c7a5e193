"""The measures of a scan during training: every few steps or epochs, on a fixed set of batches."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from winze.measure import weight_change
from winze.measure.registry import OF_MOMENTS, chosen, measures_for
from winze.modes import unchanged
from winze.networks import unwrapped
from winze.observe.between import cka_of, twice
from winze.observe.passes.feed import Feed, pair
from winze.observe.passes.gathered import KEPT, Store
from winze.observe.passes.inputs import AnyData, generators, measure_names
from winze.observe.passes.probes import fitted, ridge_moments
from winze.observe.passes.reader import Reader
from winze.observe.passes.test_pass import read_test
from winze.observe.places.chosen_calls import PlaceNames
from winze.observe.places.memory_format import spots_and_order
from winze.observe.places.pooling import Pool, check_pool
from winze.readings import Readings, Row


class Watch:
    """Scans a network during training; call `step()` after each step of any loop.

        watch = winze.Watch(net, test, every=100, train=train)
        ...
        optimizer.step(); watch.step()
        watch.readings.curve("numerical_rank", step=500)

    `test` is scanned once at the start and every `every` steps; or, by calling `epoch()` after each epoch, every
    `every_epoch` epochs; or both. The default is 100 steps. With `train` there are ridge probes too. `"cka"` is the CKA
    of each place with the same place of the `reference` network (by default a copy of the network as it is now),
    `"weight_change"` the RMS change of each weight tensor since its last reading, every `weights_every` steps (None:
    like all other measures). Modes, buffers, the RNG and the order of data loaders are as without a Watch.
    """

    def __init__(
        self,
        net: nn.Module,
        test: AnyData,
        every: int | None = None,
        train: AnyData = None,
        places: PlaceNames = None,
        measures: str | Sequence[str] = ("rank", "norm"),
        pool: Pool = "mean",
        reference: nn.Module | None = None,
        *,
        name: str = "data",
        batch: int = 256,
        max_features: int = 8000,
        weights_every: int | None = None,
        every_epoch: int | None = None,
    ) -> None:
        wanted = measure_names(measures, measures_for(watch=True))
        if every is None and every_epoch is None:
            every = 100
        for option, number in (("every", every), ("every_epoch", every_epoch)):
            if number is not None and number < 1:
                raise ValueError(f"{option} must be at least 1, got {number}")
        if weights_every is not None and (every is None or weights_every < 1 or weights_every % every):
            raise ValueError(f"weights_every is a multiple of every, {every}, not {weights_every}")
        check_pool(pool)
        net, reference = unwrapped(net), None if reference is None else unwrapped(reference)
        self.net, self.every, self.every_epoch, self.steps, self.epochs = net, every, every_epoch, 0, 0
        self._weights_every = 1 if weights_every is None else weights_every
        self.readings = Readings()
        self._wanted = wanted | ({"probe"} if train is not None else set())
        if "probe" in self._wanted and train is None:
            raise ValueError("probes need train data: pass train=")
        self._name, self._own_reference = name, reference is None
        self._train: Feed | None = None
        self._reference: Reader | None = None
        self._generators = generators(train, test)
        with unchanged(net, reference, training=False, generators=self._generators):
            self._begin(train, test, places, pool, reference, batch, max_features)
        self.read()

    def _begin(
        self,
        train: AnyData,
        test: AnyData,
        places: PlaceNames,
        pool: Pool,
        reference: nn.Module | None,
        batch: int,
        max_features: int,
    ) -> None:
        """Read the data and find the places."""
        net, name, device = self.net, self._name, self._device()
        if train is not None:
            self._train, self._test, self._classes = pair(train, test, name, batch, device, net)
        else:
            self._test = Feed.of(test, f"{name} test", batch, device, net)
            self._classes = int(self._test.classes().max()) + 1
        spots, turned = spots_and_order(net, self._test.checked_example(net), device, pool, places)
        self._reader = Reader(net, spots, pool, max_features, by_pixel=turned)
        self._widths = [min(spot.width(pool), max_features) for spot in spots]
        if "cka" in self._wanted:
            other = copy.deepcopy(net) if reference is None else reference
            own = [spot.place.name for spot in spots]
            known, turned = spots_and_order(other, self._test.example(), device, pool, own)
            self._reference = Reader(other, known, pool, max_features, by_pixel=turned)
        self._weights = self._snapshot()
        self.readings.declare(
            network=type(net).__name__,
            data=name,
            ood=[],
            places=[spot.place.name for spot in spots],
            pool=pool,
            probe="ridge",
            measures=sorted(self._wanted),
            every=self.every,
            every_epoch=self.every_epoch,
        )

    def step(self) -> None:
        """Count one training step, and scan the network if that is due."""
        self.steps += 1
        if self.every is not None and self.steps % self.every == 0:
            self.read()

    def epoch(self) -> None:
        """Count one epoch, after its last step, and scan the network if that is due and this step was not scanned."""
        self.epochs += 1
        if self.every_epoch is None or self.epochs % self.every_epoch:
            return
        if self.readings.rows[-1].step != self.steps:
            self.read()

    @torch.no_grad()
    def read(self) -> None:
        """Scan the network now; training continues as if it had not been scanned."""
        self._follow()
        reference = self._reference.net if self._reference is not None else None
        with unchanged(self.net, reference, training=False, generators=self._generators):
            now = self._read()
        self.readings.rows.extend(replace(row, step=self.steps) for row in now.rows)

    def _read(self) -> Readings:
        now = Readings()
        store = Store(now, self._name, self._wanted - {"cka"})
        probes = centres = None
        ends = any(one.of_last_layer for one in chosen(self._wanted))
        if self._train is not None:
            kept, held, centres = ridge_moments(self._reader, self._train, self._classes, self._widths, ends)
            probes = fitted(kept, held)
        moments = bool(chosen(self._wanted, [*OF_MOMENTS, "spectrum"]))
        keep = KEPT if chosen(self._wanted, ["samples"]) else 0
        result = read_test(
            self._reader, self._test, self._classes, self._widths, probes, None, moments, keep, ends, centres
        )
        store.places(self._reader.spots, result, probes)
        store.network(self.net, result, self._classes, renumbered=self._test.kept is not None)
        self._read_cka(now)
        self._read_weights(now)
        return now

    def state_dict(self) -> dict[str, Any]:
        """The readings so far, and the state of the next ones, as tensors, numbers, strings, lists and dicts. A
        `reference` that was passed in is not part of it: pass the same one again.
        """
        weights = self._weights if "weight_change" in self._wanted else {}
        reference = self._reference.net.state_dict() if self._reference is not None and self._own_reference else {}
        return {
            "steps": self.steps,
            "epochs": self.epochs,
            "rows": [list(astuple(row)) for row in self.readings.rows],
            "weights": {name: value.clone() for name, value in weights.items()},
            "reference": {name: value.clone() for name, value in reference.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.steps, self.epochs = state["steps"], state.get("epochs", 0)  # older states have steps alone
        self.readings.rows[:] = [Row(*row) for row in state["rows"]]
        here = self._weights
        self._weights |= {name: value.to(here[name], copy=True) for name, value in state["weights"].items()}
        if self._reference is not None and self._own_reference:
            self._reference.net.load_state_dict(state["reference"])

    def save(self, folder: str | Path) -> None:
        """Save the readings so far."""
        self.readings.save(Path(folder))

    def callback(self) -> Any:
        """This watch as a Lightning callback: `Trainer(callbacks=[watch.callback()])`."""
        watch = self
        base: Any = _lightning().Callback

        class WatchCallback(base):  # type: ignore[misc,unused-ignore]
            """Counts the optimizer's steps and the epochs of training."""

            def on_train_batch_start(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
                """Store the optimizer's step before the batch."""
                self.before = trainer.global_step

            def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
                """Count the step, which several batches share under gradient accumulation."""
                if trainer.global_step > self.before:
                    watch.step()

            def on_train_epoch_end(self, *args: Any, **kwargs: Any) -> None:
                """Count the epoch."""
                watch.epoch()

            def state_dict(self) -> dict[str, Any]:
                """The state that Lightning's checkpoints store."""
                return watch.state_dict()

            def load_state_dict(self, state_dict: dict[str, Any]) -> None:
                """Resume from a checkpoint."""
                watch.load_state_dict(state_dict)

        return WatchCallback()

    def _device(self) -> torch.device:
        return next((p.device for p in self.net.parameters()), torch.device("cpu"))

    def _follow(self) -> None:
        """Scan on the network's device, since a trainer may have moved it. A `reference` passed in is not moved."""
        device = self._device()
        if device == self._test.device:
            return
        for feed in (self._train, self._test):
            if feed is not None:
                feed.device = device
        if self._reference is not None and self._own_reference:
            self._reference.net.to(device)
        self._weights = {name: value.to(device) for name, value in self._weights.items()}

    def _read_cka(self, now: Readings) -> None:
        if self._reference is None:
            return
        cka = cka_of(self._reader, self._reference, twice(self._test), self._test.name)
        notes, count = cka.notes(), len(self._reader.spots)
        for at, (spot, value) in enumerate(zip(self._reader.spots, cka.matrix().diagonal().tolist(), strict=True)):
            note = notes[at] or notes[count + at]  # its own, or the reference's
            now.add("cka_to_reference", value, place=spot.place, data=self._name, split="test", n=cka.n, note=note)

    def _read_weights(self, now: Readings) -> None:
        if "weight_change" not in self._wanted or self.steps % self._weights_every:
            return
        current = self._snapshot()
        for name, value in weight_change(self._weights, current).items():
            now.add("weight_change", float(value), place=name, data=self._name)
        self._weights = current

    def _snapshot(self) -> dict[str, Tensor]:
        return {name: p.detach().clone() for name, p in self.net.named_parameters()}


def _lightning() -> Any:
    """Lightning's callback class, from whichever of its two packages is imported, or else installed."""
    for package in sorted(("lightning.pytorch", "pytorch_lightning"), key=lambda name: name not in sys.modules):
        with suppress(ImportError):
            return import_module(f"{package}.callbacks")
    raise ImportError("Watch.callback() needs Lightning: pip install lightning")
