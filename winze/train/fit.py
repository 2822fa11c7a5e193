"""The training loop, from the newest checkpoint to the end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from winze.data import Preprocess
from winze.modes import Modes, modes_of, rng_unchanged, set_modes
from winze.progress import Bar
from winze.train import captured
from winze.train.captured import CapturedStep, PlainStep
from winze.train.checkpoints import Checkpoints
from winze.train.followers import Followers
from winze.train.hardware import Hardware, HardwareError, make_fabric, switches
from winze.train.objectives.base import Objective, judged
from winze.train.optimizers import EMA, learning_rate, set_rates
from winze.train.seeds import mix, seed_quickly
from winze.train.sources import FitData, FromLoader, InputsAndLabels, MakeSource, OnDevice, in_order, source_of
from winze.train.state import Log, State
from winze.train.training import Goal, Length, Training, objective_of
from winze.train.update import Descend, Engine, Update, name_of

ABSURD = 1e4  # a row whose mean loss is so many times the first step's (at least 1) has diverged


class DivergedError(RuntimeError):
    """Training whose loss or weights are NaN, infinite or absurdly large."""


@dataclass(frozen=True)
class History:
    """The result of a training: rows of metrics, the number of steps, and the seconds since its last start.

    `lost` are the seeds of those networks of an ensemble that diverged.
    """

    metrics: tuple[dict[str, float], ...]
    steps: int
    seconds: float
    lost: tuple[int, ...] = ()

    @property
    def losses(self) -> tuple[float, ...]:
        """The mean loss of every row."""
        return tuple(row["loss"] for row in self.metrics)


def fit(
    net: nn.Module | Update,
    data: FitData | MakeSource,
    training: Training,
    *,
    seed: int = 0,
    tests: Mapping[str, FitData] | None = None,
    preprocess: Preprocess | None = None,
    hardware: Hardware | None = None,
    checkpoints: Checkpoints | None = None,
    followers: Mapping[str, Any] | Iterable[Any] = (),
    progress: bool | None = None,
) -> History:
    """Train a network, or the modules of an `Update`, in place.

    `data` are stored samples and labels (x, y), or x alone, which live on the device and are augmented and preprocessed
    there batch by batch, or a loader of ready batches. Each of `tests` is judged by the objective at every `evaluate`
    of the training. The order of samples, a DataLoader's too, their augmentation and dropout come from the seed and the
    number of the epoch or step alone: two calls agree bit for bit whatever else draws random numbers, and so do a call
    that was killed and its second start from `checkpoints`. A network that is wholly in eval mode is trained in train
    mode; otherwise each module trains in its own mode, so that a BatchNorm frozen by `.eval()` stays frozen.
    `followers` (by name, or in a sequence) are called after each step. `progress` None: only on a terminal.
    """
    hardware = Hardware() if hardware is None else hardware
    fabric = make_fabric(hardware, training.precision)
    fabric.launch()
    with switches(hardware, fabric.device):
        run = _Run(net, data, training, seed, tests or {}, preprocess, hardware, fabric, followers)
        return run.to_the_end(checkpoints, progress)


class _Run:
    """The parts of one training, put together."""

    def __init__(
        self,
        net: nn.Module | Update,
        data: FitData | MakeSource,
        training: Training,
        seed: int,
        tests: Mapping[str, FitData],
        preprocess: Preprocess | None,
        hardware: Hardware,
        fabric: Any,
        followers: Mapping[str, Any] | Iterable[Any],
    ) -> None:
        self.training, self.seed, self.fabric, self.preprocess = training, seed, fabric, preprocess
        self.tests = tests
        self.checkpoints: Checkpoints | None = None
        where = fabric.device, fabric.global_rank, fabric.world_size
        self.source = source_of(data, training, preprocess, seed, *where)
        self.per_epoch = self.source.steps - self.source.steps % training.repeat
        if not self.per_epoch:
            raise ValueError(
                f"an epoch of {self.source.steps} batches is too short to repeat each {training.repeat} times"
            )
        self.total = training.length.steps(self.per_epoch)
        self.rate = learning_rate(training, self.per_epoch)
        if training.schedule.warmup.steps(self.per_epoch) > self.total:
            raise ValueError(f"warmup must lie within the {self.total} steps, got {training.schedule.warmup}")
        self.update, about = self._updated(net)
        own = getattr(self.update, "net", None)
        self.net: nn.Module = nn.ModuleDict(dict(self.update.modules)) if own is None else own
        self.objective: Objective | None = getattr(self.update, "objective", None)
        if tests and self.objective is None:
            raise ValueError(f"test sets need an `objective` that judges them; {type(self.update).__name__} has none")
        if self.objective is not None:
            self.source.label(self.objective.labels)
        if training.channels_last:
            for module in self.update.modules.values():
                module.to(memory_format=torch.channels_last)
        captures = self._captures(hardware)
        example = lambda: self.source.make(*next(self._batches(0)))  # noqa: E731
        self._set_up(Engine(fabric, hardware, training, captures, example))
        self.ema = None if training.ema is None else EMA(self.net, training.ema)
        self.followers = Followers(followers, self.ema)
        for alternation in self.followers.alternations:
            alternation.to(fabric.device)
        self.log = Log(fabric)
        self.state = State(self.update, self.followers, self.log, fabric, about)
        plain = PlainStep(self.update, self.source, self.engine)
        stage = lambda: tuple(one.stage for one in self.followers.alternations)  # noqa: E731
        self.step = CapturedStep(plain, stage) if captures else plain

    def _updated(self, net: nn.Module | Update) -> tuple[Update, str]:
        """What takes the steps, and what a checkpoint must be of to be resumed."""
        if not isinstance(net, nn.Module | Update):
            raise TypeError(f"fit takes a network or an Update, not a {type(net).__name__}")
        if not isinstance(net, nn.Module):
            kinds = (f"{name} {type(one).__name__}" for name, one in net.modules.items())
            return net, f"{type(net).__name__} ({', '.join(kinds)})"
        goal = self.training.objective
        objective = objective_of(goal, self.total)
        about = repr(goal) if isinstance(goal, Goal) else getattr(goal, "__name__", type(goal).__name__)
        return Descend(net, objective, self.training.optimizer), f"{type(net).__name__} by {about}"

    def _set_up(self, engine: Engine) -> None:
        """Give the update its devices, or put one that asks for nothing onto them."""
        self.engine = engine
        if hasattr(self.update, "setup"):
            self.update.setup(engine)
            return
        if self.fabric.world_size > 1 or self.training.precision == "16-mixed":
            raise HardwareError(
                f"{type(self.update).__name__} needs a method setup(engine) for several processes or 16-mixed"
            )
        for module in self.update.modules.values():
            self.fabric.strategy.precision.convert_module(module).to(engine.device)

    def _captures(self, hardware: Hardware) -> bool:
        """Whether steps are captured: asked for, or possible and worth it."""
        update = self.update
        slow = isinstance(update, Descend) and not update.config.capturable
        reasons = {
            "there is no CUDA device": not captured.CudaGraph.works_on(self.fabric.device),
            "several processes share the run": self.fabric.world_size > 1,
            f"the optimizer {type(self.training.optimizer).__name__} cannot be captured": slow,
            f"{name_of(update)} does not set capturable = True": not update.capturable,
            "16-mixed scales losses by hand": self.training.precision == "16-mixed",
            "batches come from a loader": isinstance(self.source, FromLoader),
        }
        why = [reason for reason, true in reasons.items() if true]
        if hardware.step == "graph" and why:
            raise HardwareError(f'step="graph" is not possible: {why[0]}')
        return hardware.step == "graph" or (hardware.step == "auto" and not why)

    def to_the_end(self, checkpoints: Checkpoints | None, progress: bool | None) -> History:
        """Resume from the newest checkpoint and train to the last step."""
        begun, self.checkpoints = time.perf_counter(), checkpoints
        step = self.state.resume(checkpoints)
        modules = list(self.update.modules.values())
        before = [pair for module in modules for pair in modes_of(module)]
        if not step:
            self.followers.begin(self.net)
        self.modes = _training_modes(modules)
        set_modes(self.modes)
        try:
            with Bar(self.total, progress if self.fabric.is_global_zero else False, self.training.batch, step) as bar:
                self._train(step, bar)
        finally:
            set_modes(before)
        if self.ema is not None:
            self.ema.keep(self.net)
        return History(tuple(self.state.metrics), self.total, time.perf_counter() - begun)

    def _train(self, step: int, bar: Bar) -> None:
        device, rate = self.fabric.device, self.rate
        batches = self._batches(step)
        while step < self.total:
            first, second = next(batches)
            seed_quickly(mix(self.seed, f"step {self.fabric.global_rank}", step), device)
            for optimizer in self.update.optimizers.values():
                set_rates(optimizer, partial(rate, step))
            try:
                values = self.step(first, second)
            except (RuntimeError, ValueError) as error:
                self._check_inputs(first, second, error)
                raise
            self.log.add(self.step.names, values, len(first))
            if self.objective is not None:
                self.objective.advance()
            step += 1
            whole = step % self.per_epoch == 0
            if whole:
                next(batches, None)  # a loader notices here that it has more
            judges = self._is_due(step, self.training.evaluate)
            logs = whole or judges
            keeps = self.checkpoints is not None and self._is_due(step, self.training.checkpoint)
            if self.log.full or logs or keeps:
                self._check(step)
            self.followers.after_step(self.net, step)
            found = self.followers.after_epoch(self.net, step // self.per_epoch) if whole else []
            if self.followers.steps:
                set_modes(self.modes)
            bar.advance()
            if logs or keeps:
                self._check_weights(step)
            if logs:
                self.state.metrics.append(self._row(step, found, judges, bar))
            if keeps and self.checkpoints is not None:
                self.state.save(self.checkpoints, step)
            if whole and step < self.total:
                batches = self._batches(step)

    def _check_inputs(self, first: Tensor, second: Tensor | None, error: Exception) -> None:
        """Raise where the inputs are what the network cannot take, with the remedy."""
        x, _ = self.source.make(first, second)
        like = next((p.dtype for p in self.net.parameters() if p.is_floating_point()), x.dtype)
        if len(x) == 1 and "more than 1 value per channel" in str(error):
            raise ValueError(
                "BatchNorm cannot train on a batch of one sample: choose another batch size, or drop_last=True"
            ) from error
        converted = x.is_floating_point() and self.training.precision in ("64-true", "bf16-true")  # by Fabric
        if x.dtype != like and not converted and "dtype" in str(error):
            fix = "preprocess=" if x.dtype == torch.uint8 else f"x.to({like})"
            raise ValueError(f"the inputs are {x.dtype} and the network takes {like}: pass {fix}") from error

    def _is_due(self, step: int, every: Length) -> bool:
        return step % max(1, every.steps(self.per_epoch)) == 0 or step == self.total

    def _batches(self, step: int) -> Iterator[InputsAndLabels]:
        """The batches of this step's epoch, from this step on; each comes `repeat` times in a row, augmented once."""
        times = self.training.repeat
        epoch, done = divmod(step, self.per_epoch)
        batches = self.source.epoch(epoch, done // times)
        return islice((batch for batch in batches for _ in range(times)), done % times, None)

    def _row(self, step: int, found: list[Mapping[str, float]], judges: bool, bar: Bar) -> dict[str, float]:
        """The metrics since the last row: losses, learning rates, what the test sets and the followers say."""
        epoch = step // self.per_epoch if step % self.per_epoch == 0 else step / self.per_epoch
        row: dict[str, float] = {"epoch": epoch, "step": step}
        for name, optimizer in self.update.optimizers.items():
            lr = "lr" if len(self.update.optimizers) == 1 else f"lr.{name}"
            row[lr] = self.rate(step - 1, optimizer.param_groups[0]["initial_lr"])
        row |= self.log.row()
        self._check_loss(step, row["loss"], f"the mean loss of epoch {-(-step // self.per_epoch)}")
        judgements = [self._judged(name, step) for name in self.tests] if judges else []
        for more in (*judgements, *found):
            for name, value in more.items():
                if name in row:
                    raise ValueError(f"the metric {name!r} is reported twice in one row: rename one")
                row[name] = float(value)
        shown = f", accuracy {row['accuracy']:.3f}" if "accuracy" in row else ""
        bar.say(f"epoch {epoch:.4g}, loss {row['loss']:.4f}{shown}")
        return row

    def _judged(self, name: str, step: int) -> dict[str, float]:
        """The objective's metrics of one test set; names of all but the set called "test" begin with the set's."""
        assert self.objective is not None
        inside = nullcontext() if self.ema is None else self.ema.inside(self.net)
        world = 1 if self.state.is_sharded else self.fabric.world_size
        batches = in_order(self.tests[name], self.preprocess, self.fabric.device, self.fabric.global_rank, world)
        try:
            with rng_unchanged(), self.fabric.autocast(), inside:
                found = judged(self.net, batches, self.objective, self._summed)
        except ValueError as error:
            raise ValueError(f"test set {name!r}: {error}") from error
        if not math.isfinite(loss := found.get("test_loss", 0.0)):
            why = f"look for NaN or inf in the test set, or {self._advice(step)}"
            raise self._diverged(f"the test loss is {loss} after step {step}", why)
        if getattr(self.objective, "temperature", None) is None:  # the test loss has none: it grows with the logits
            self._check_loss(step, loss, f"the test loss after step {step}")
        return found if name == "test" else {f"{name}: {metric}": value for metric, value in found.items()}

    def _summed(self, sums: Tensor) -> Tensor:
        summed: Tensor = sums if self.fabric.world_size == 1 else self.fabric.all_reduce(sums, reduce_op="sum")
        return summed

    def _check(self, step: int) -> None:
        """Raise with the first step whose loss is NaN or infinite, the last good checkpoint, and a likely cause."""
        losses = self.log.fetch()
        if self.state.first_loss is None and len(losses):
            self.state.first_loss = float(losses[0, 0])
        lost = (~torch.isfinite(losses).all(1)).nonzero()
        if not len(lost):
            return
        i = int(lost[0])
        at = step - len(losses) + i + 1
        first = "inputs are finite at the very first step: look at the weights before training and at the objective"
        why = self._bad_inputs(at - 1) or (first if at == 1 else self._advice(at))
        raise self._diverged(f"the loss is {float(losses[i, 0])} at step {at}", why)

    def _check_weights(self, step: int) -> None:
        """Raise where an update made weights NaN or infinite."""
        lost = self.state.lost()
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            what = f"{lost[0]}{more} became NaN or infinite in epoch {-(-step // self.per_epoch)}, by step {step}"
            raise self._diverged(what, self._advice(step))

    def _check_loss(self, step: int, loss: float, what: str) -> None:
        """Raise where losses are finite but absurdly large."""
        first = self.state.first_loss or 0.0
        if loss > ABSURD * max(abs(first), 1.0):
            said = f"{what} is {loss:.3g}, that of the first step was {first:.3g}"
            raise self._diverged(said, self._advice(step))

    def _diverged(self, what: str, why: str) -> DivergedError:
        kept = None if self.checkpoints is None else self.checkpoints.newest()
        where = "" if kept is None else f"; the last good checkpoint is of step {kept.step}"
        return DivergedError(f"training diverged: {what}{where}; {why}")

    def _bad_inputs(self, step: int) -> str:
        """What is wrong with the batch of that step; empty where its inputs are finite."""
        with rng_unchanged():
            pair = next(self._batches(step), None)
        if pair is None:
            return ""
        parts = [part for part in self.source.make(*pair) if part is not None]
        bad = torch.stack([~torch.isfinite(part).reshape(len(part), -1).all(1) for part in parts]).any(0)
        if not bad.any():
            return ""
        numbered = isinstance(self.source, OnDevice) and pair[0].shape == bad.shape  # not those of an ensemble
        rows = pair[0][bad].tolist() if numbered else []
        which = f": number {', '.join(map(str, rows[:3]))}" if rows else ""
        return (
            f"its inputs or labels hold NaN or infinite values ({int(bad.sum())} of {len(bad)} samples{which}): look "
            "at the data and its preprocessing"
        )

    def _advice(self, at: int) -> str:
        lr = next(iter(self.update.optimizers.values())).param_groups[0]["initial_lr"]
        advice = f"try a lower lr than {lr:g}"
        if self.training.clip is None:
            advice += ", or clip=1.0"
        return advice + (
            ", or a warmup" if not self.training.schedule.warmup.count and at <= 5 * self.per_epoch else ""
        )


def _training_modes(modules: list[nn.Module]) -> Modes:
    """The mode in which each part trains: its own, but where a module is wholly in eval mode, train mode."""
    before = [modes_of(module) for module in modules]
    frozen = {one for modes in before if any(mode for _, mode in modes) for one, mode in modes if not mode}
    for module in modules:
        module.train()  # by each part's own `train`, which may keep it in eval mode
    return [(one, mode and one not in frozen) for module in modules for one, mode in modes_of(module)]
