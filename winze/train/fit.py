"""The loop: one epoch after the other, from the newest checkpoint to the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from winze.data import Batches, Preprocess
from winze.modes import modes_of, rng_unchanged, set_modes, unchanged
from winze.observe import Watch
from winze.shape import Alternation
from winze.train.average import Average
from winze.train.checkpoints import Checkpoints
from winze.train.config import Hardware, Training
from winze.train.evaluate import judge
from winze.train.objectives import Classify, Objective, class_labels, classes_of
from winze.train.optimizers import CAPTURABLE, make_optimizer, set_rate
from winze.train.place import HardwareError, make_fabric, switches
from winze.train.progress import Bar
from winze.train.schedules import learning_rate
from winze.train.seeds import mix, seed_all, seed_devices
from winze.train.source import FromLoader, Loader, OnDevice, Pair, Repeated, Source
from winze.train.state import State
from winze.train.steps import GraphStep, PlainStep

Onlooker = Callable[[nn.Module, int], Any]
"""Called as `watch(net, step)` before the first step and after every one; what it draws at random changes nothing."""

Feed = Callable[[torch.device], Source]
"""Makes a source of batches on the device where training runs."""

CHECK_EVERY = 50  # steps between two checks of the loss: a check waits for the device
ABSURD = 1e4  # an epoch whose mean loss is so many times the first step's (at least 1) has diverged


class DivergedError(RuntimeError):
    """Training whose loss or weights are NaN, infinite or absurdly large."""


@dataclass(frozen=True)
class History:
    """What a training left behind: the metrics of every epoch, the number of steps, and how long it took this time.

    `lost` are the seeds of those networks of an ensemble that diverged.
    """

    metrics: tuple[dict[str, float], ...]
    steps: int
    seconds: float
    lost: tuple[int, ...] = ()

    @property
    def losses(self) -> tuple[float, ...]:
        """The mean loss of every epoch."""
        return tuple(row["loss"] for row in self.metrics)


def fit(
    net: nn.Module,
    data: tuple[Tensor, Tensor] | Loader | Feed,
    training: Training,
    *,
    seed: int = 0,
    test: tuple[Tensor, Tensor] | Loader | None = None,
    preprocess: Preprocess | None = None,
    objective: Objective | None = None,
    hardware: Hardware | None = None,
    checkpoints: Checkpoints | None = None,
    alternation: Alternation | None = None,
    watch: Watch | Onlooker | None = None,
    progress: bool | None = None,
) -> History:
    """Train a network, in place.

    `data` are stored samples and labels, which live on the device and are augmented and preprocessed there batch by
    batch, a loader of ready batches, or a function that makes a source of them on a device. The order of samples, a
    DataLoader's too, their augmentation and dropout come from the seed and the number of the epoch or step alone: two
    calls agree bit for bit whatever else draws random numbers, and so do a call that was killed and its second start
    from `checkpoints`. A network that is wholly in eval mode is trained in train mode; otherwise each module trains in
    its own mode, so that a BatchNorm frozen by `.eval()` stays frozen. `objective` None: cross-entropy as `training`
    asks for. `alternation` and `watch` are stepped after the optimizer. `progress` None: only on a terminal.
    """
    hardware = Hardware() if hardware is None else hardware
    fabric = make_fabric(hardware, training)
    with switches(hardware, fabric.device):
        return _Loop(net, data, training, seed, test, preprocess, objective, hardware, fabric, alternation).run(
            checkpoints, watch, progress
        )


class _Loop:
    """The parts of one training, put together."""

    def __init__(
        self,
        net: nn.Module,
        data: tuple[Tensor, Tensor] | Loader | Feed,
        training: Training,
        seed: int,
        test: tuple[Tensor, Tensor] | Loader | None,
        preprocess: Preprocess | None,
        objective: Objective | None,
        hardware: Hardware,
        fabric: Any,
        alternation: Alternation | None,
    ) -> None:
        self.net, self.training, self.seed, self.fabric = net, training, seed, fabric
        self.alternation = alternation
        device: torch.device = fabric.device
        if training.channels_last:
            net.to(memory_format=torch.channels_last)
        if objective is None and isinstance(data, tuple):
            data = data[0], class_labels(data[1])
        self.source = self._source(data, preprocess, self._labelled if objective is None else None)
        self.objective = self._objective(objective, data)
        if isinstance(test, tuple):
            test = Batches(test[0], class_labels(test[1]), 1000, preprocess, device)
        self.test = test
        if alternation is not None:
            alternation.to(device)
        self.model = fabric.setup_module(self._compiled() if hardware.compile else net)
        optimizer = make_optimizer(net, training, device)
        average = None if training.ema is None else Average(net, training.ema)
        self.state = State(net, optimizer, fabric, average, alternation, self.objective)
        graph = self._captures(hardware, data)
        stepper = optimizer if graph else fabric.setup_optimizers(optimizer)
        plain = PlainStep(net, self.model, stepper, self.source, self.objective, training, average, fabric)
        self.step: Callable[[Tensor, Tensor], Tensor] = GraphStep(plain, alternation) if graph else plain

    def _source(
        self,
        data: tuple[Tensor, Tensor] | Loader | Feed,
        preprocess: Preprocess | None,
        labelled: Callable[[Tensor], Tensor] | None,
    ) -> Source:
        device, rank, world = self.fabric.device, self.fabric.global_rank, self.fabric.world_size
        source: Source
        if isinstance(data, tuple):
            source = OnDevice(data, self.training, preprocess, self.seed, device, rank, world)
        else:
            own = mix(self.seed, f"loader {rank}")
            source = data(device) if callable(data) else FromLoader(data, device, own, labelled)
        return source if self.training.repeat == 1 else Repeated(source, self.training.repeat)

    def _labelled(self, labels: Tensor) -> Tensor:
        """A loader's labels, checked; a network with fewer outputs is then noticed before a GPU would fault."""
        whole = class_labels(labels)
        if isinstance(self.objective, Classify):
            self.objective.classes = max(self.objective.classes, classes_of(whole))
        return whole

    def _objective(self, given: Objective | None, data: tuple[Tensor, Tensor] | Loader | Feed) -> Objective:
        if given is None:
            classes = classes_of(data[1]) if isinstance(data, tuple) else 0
            return Classify.of(self.training, self.source.steps, classes)
        if self.training.temperature != 1 and not hasattr(given, "temperature"):
            name = getattr(given, "__name__", type(given).__name__)
            raise ValueError(
                f"temperature={self.training.temperature!r} divides the logits of cross-entropy; the objective {name} "
                "has none: leave the temperature at 1"
            )
        return given

    def _compiled(self) -> Any:
        """The network as it is called, compiled by itself, for what was compiled for others counts against a limit.

        It runs once before, so that what winze reads of a foreign forward is read when the compiler comes.
        """
        net = self.fabric.to_device(self.net)
        with unchanged(net, training=True), torch.no_grad(), self.fabric.autocast():
            first = next(iter(self._batches(0)))
            self.objective(net, *self.source.make(*first))
        torch.compiler.reset()
        return torch.compile(net)

    def _captures(self, hardware: Hardware, data: object) -> bool:
        """Whether steps are captured: asked for, or possible and worth it."""
        reasons = {
            "there is no CUDA device": self.fabric.device.type != "cuda",
            "several processes share the run": self.fabric.world_size > 1,
            f"the optimizer {self.training.optimizer} cannot be captured": self.training.optimizer not in CAPTURABLE,
            "16-mixed scales losses by hand": self.training.precision == "16-mixed",
            "batches come from a loader": not isinstance(data, tuple) and not callable(data),
        }
        why = [reason for reason, true in reasons.items() if true]
        if hardware.step == "graph" and why:
            raise HardwareError(f'step="graph" is not possible: {why[0]}')
        return hardware.step == "graph" or (hardware.step == "auto" and not why)

    def run(self, checkpoints: Checkpoints | None, watch: Watch | Onlooker | None, progress: bool | None) -> History:
        """Go on from the newest checkpoint to the last epoch."""
        training, begun = self.training, time.perf_counter()
        first, metrics = self.state.resume(checkpoints, watch)
        total = training.epochs * self.source.steps
        shown = progress if self.fabric.is_global_zero else False
        before = modes_of(self.net)
        if not first:
            self._look(watch, 0)
        frozen = {module for module, mode in before if not mode} if any(mode for _, mode in before) else set()
        self.net.train()  # by each module's own `train`, which may keep it in eval mode
        self.modes = [(module, mode and module not in frozen) for module, mode in modes_of(self.net)]
        set_modes(self.modes)
        try:
            with Bar(total, shown, training.batch, first * self.source.steps) as bar:
                for epoch in range(first, training.epochs):
                    metrics.append(self._epoch(epoch, watch, bar, checkpoints))
                    if checkpoints is not None and self._is_due(epoch, training.checkpoint_every):
                        self.state.save(checkpoints, metrics, watch, (epoch + 1) * self.source.steps)
        finally:
            set_modes(before)
        if self.state.average is not None:
            self.net.load_state_dict(self.state.average.weights)
        return History(tuple(metrics), total, time.perf_counter() - begun)

    def _epoch(
        self, epoch: int, watch: Watch | Onlooker | None, bar: Bar, checkpoints: Checkpoints | None
    ) -> dict[str, float]:
        rate = learning_rate(self.training, self.source.steps)
        start, sizes = epoch * self.source.steps, []
        losses = torch.empty(self.source.steps, device=self.fabric.device)
        for i, (one, other) in enumerate(self._batches(epoch)):
            step = start + i
            seed_devices(mix(self.seed, f"step {self.fabric.global_rank}", step), self.fabric.device)
            set_rate(self.state.optimizer, rate(step))
            losses[i] = self.step(one, other)
            sizes.append(len(one))
            if self.alternation is not None:
                self.alternation.step()
            if hasattr(self.objective, "step"):
                self.objective.step()
            if (i + 1) % CHECK_EVERY == 0 or i + 1 == self.source.steps:
                self._check(losses[: i + 1], epoch, checkpoints)
            if watch is not None:
                self._look(watch, step + 1)
                set_modes(self.modes)
            bar.advance()
        weights = torch.tensor(sizes, dtype=torch.float64)
        loss = self._mean(torch.stack([losses.double().cpu() @ weights, weights.sum()]))
        if self.state.first_loss is None:
            self.state.first_loss = float(losses[0])
        self._check_epoch(epoch, loss, checkpoints)
        row = {"epoch": epoch + 1, "step": start + self.source.steps, "lr": rate(step), "loss": loss}
        if self.test is not None and self._is_due(epoch, self.training.evaluate_every):
            row |= self._judged(epoch, checkpoints)
        bar.say(
            f"epoch {epoch + 1}, loss {loss:.4f}" + (f", accuracy {row['accuracy']:.3f}" if "accuracy" in row else "")
        )
        return row

    def _is_due(self, epoch: int, every: int) -> bool:
        return (epoch + 1) % every == 0 or epoch + 1 == self.training.epochs

    def _mean(self, sums: Tensor) -> float:
        """The mean loss over all processes, from its sum and the number of samples in this one."""
        total, samples = sums if self.fabric.world_size == 1 else self.fabric.all_reduce(sums, reduce_op="sum")
        return float(total / samples)

    def _judged(self, epoch: int, checkpoints: Checkpoints | None) -> dict[str, float]:
        assert self.test is not None
        inside = nullcontext() if self.state.average is None else self.state.average.inside(self.net)
        with rng_unchanged(), self.fabric.autocast(), inside:
            found = judge(self.net, self.test)
        if not math.isfinite(found["test_loss"]) and isinstance(self.objective, Classify):
            at = (epoch + 1) * self.source.steps
            why = f"look for NaN or inf in the test set, or {self._advice(at)}"
            raise self._diverged(f"the test loss is {found['test_loss']} after step {at}", why, checkpoints)
        return found

    def _batches(self, epoch: int) -> Iterable[Pair]:
        """An epoch's batches; what a loader draws for them comes from the seed and the epoch's number alone."""
        seed_all(mix(self.seed, f"epoch {self.fabric.global_rank}", epoch))
        return self.source.epoch(epoch)

    def _check(self, losses: Tensor, epoch: int, checkpoints: Checkpoints | None) -> None:
        """Raise with the first step whose loss is NaN or infinite, the last good checkpoint, and a likely cause."""
        lost = (~torch.isfinite(losses)).nonzero()
        if not len(lost):
            return
        i = int(lost[0])
        at = epoch * self.source.steps + i + 1
        first = "inputs are finite at the very first step: look at the weights before training and at the objective"
        why = self._bad_inputs(epoch, i) or (first if at == 1 else self._advice(at))
        raise self._diverged(f"the loss is {float(losses[i])} at step {at}", why, checkpoints)

    def _check_epoch(self, epoch: int, loss: float, checkpoints: Checkpoints | None) -> None:
        """Raise where the last update spoiled the weights, or losses are finite and absurd."""
        at = (epoch + 1) * self.source.steps
        lost = self.state.lost()
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            what = f"{lost[0]}{more} became NaN or infinite in epoch {epoch + 1}, by step {at}"
            raise self._diverged(what, self._advice(at), checkpoints)
        assert self.state.first_loss is not None
        if loss > ABSURD * max(abs(self.state.first_loss), 1.0):
            what = f"the mean loss of epoch {epoch + 1} is {loss:.3g}, that of the first step was "
            raise self._diverged(f"{what}{self.state.first_loss:.3g}", self._advice(at), checkpoints)

    def _diverged(self, what: str, why: str, checkpoints: Checkpoints | None) -> DivergedError:
        kept = None if checkpoints is None else checkpoints.newest()
        where = "" if kept is None else f"; the last good checkpoint is of step {kept.step}"
        return DivergedError(f"training diverged: {what}{where}; {why}")

    def _bad_inputs(self, epoch: int, number: int) -> str:
        """What is wrong with the batch of that number; empty where its inputs are finite."""
        with rng_unchanged():
            pair = next(islice(self._batches(epoch), number, None), None)
        if pair is None:
            return ""
        each = [~torch.isfinite(part).reshape(len(part), -1).all(1) for part in self.source.make(*pair)]
        bad = torch.stack(each).any(0)
        if not bad.any():
            return ""
        rows = pair[0][bad].tolist() if isinstance(self.source, OnDevice) else []
        which = f": number {', '.join(map(str, rows[:3]))}" if rows else ""
        return (
            f"its inputs or labels hold NaN or infinite values ({int(bad.sum())} of {len(bad)} samples{which}): look "
            "at the data and its preprocessing"
        )

    def _advice(self, at: int) -> str:
        training = self.training
        advice = f"try a lower lr than {training.lr:g}"
        if training.clip is None:
            advice += ", or clip=1.0"
        return advice + (", or a warmup" if not training.warmup and at <= 5 * self.source.steps else "")

    def _look(self, watch: Watch | Onlooker | None, step: int) -> None:
        if watch is None:
            return
        with rng_unchanged():
            if not isinstance(watch, Watch):
                watch(self.net, step)
            elif step:  # it has read the start itself
                watch.step()
                if step % self.source.steps == 0:
                    watch.epoch()
