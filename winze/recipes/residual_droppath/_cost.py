"""What a training step costs, in time and in memory, against the plain step of the same network."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from winze.lab import Bench, Network
from winze.memory import saved_bytes
from winze.networks import build
from winze.shape import Alternation, Rule, rewire
from winze.train import Training
from winze.train.optimizers import make_optimizer
from winze.train.seeds import generator, mix, seed_all

WARM = 2  # pairs of steps before the first that is timed


@dataclass(frozen=True)
class StepCost:
    """A network, random images of `side` pixels, how it is trained, and how many pairs of measurements are taken."""

    network: Network
    training: Training
    side: int = 32
    classes: int = 10
    pairs: int = 15


class Trainee:
    """A network with its optimizer and one batch of images, which it trains on again and again."""

    def __init__(self, study: StepCost, rule: Rule | None, seed: int, device: torch.device) -> None:
        seed_all(mix(seed, "cost"))
        network, training, by = study.network, study.training, generator("cpu", seed, "images")
        net = build(network.name, study.classes, **network.options)
        layout = torch.channels_last if training.channels_last else torch.contiguous_format
        images = torch.randn(training.batch, 3, study.side, study.side, generator=by)
        self.labels = torch.randint(study.classes, (training.batch,), generator=by).to(device)
        if rule is not None:
            rewire(net, rule, network.where, example=images[:2])
        self.images = images.to(device, memory_format=layout)
        self.net: nn.Module = net.to(device, memory_format=layout).train()  # type: ignore[call-overload]
        staged = rule is not None and rule.staged
        self.stages = Alternation(self.net, rows=training.batch, seed=mix(seed, "alternation")) if staged else None
        self.optimizer = make_optimizer(self.net, training.optimizer, device)
        self.objective: Any = training.objective.build(1)
        self.half = training.precision == "bf16-mixed"

    def loss(self) -> Tensor:
        """The loss of the batch in the current stage."""
        with torch.autocast(self.images.device.type, torch.bfloat16, enabled=self.half):
            loss: Tensor = self.objective(self.net, self.images, self.labels)
        return loss

    def step(self) -> None:
        """One step of training: forward, backward, update, and with stages the draw of the next masks."""
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()
        if self.stages is not None:
            self.stages.step()

    def both(self) -> None:
        """Two steps: one of each stage, where there are stages."""
        self.step()
        self.step()


def seconds(work: Callable[[], None], device: torch.device) -> float:
    """The time of a call: of a GPU until all is done, of a CPU what this process had of it, whatever else ran."""
    if device.type != "cuda":
        begun = time.process_time()
        work()
        return time.process_time() - begun
    torch.cuda.synchronize()
    begun = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begun


def interleaved(tried: Trainee, plain: Trainee, pairs: int, device: torch.device) -> tuple[list[float], list[float]]:
    """The ratio of times of each pair of measurements, whose order alternates, and the plain network's times."""
    for _ in range(WARM):
        tried.both()
        plain.both()
    ratios, base = [], []
    for spot in range(pairs):
        order = (tried, plain) if spot % 2 else (plain, tried)
        spent = {one: seconds(one.both, device) for one in order}
        ratios.append(spent[tried] / spent[plain])
        base.append(spent[plain] / 2)
    return ratios, base


def saved(trainee: Trainee) -> int:
    """The bytes that the forward pass of one step saves for its backward pass, parameters left out."""
    found = saved_bytes(trainee.loss, trainee.net.parameters())
    trainee.step()
    return found


def peak(trainee: Trainee) -> int:
    """The most GPU memory of one step beyond what lies there at rest."""
    trainee.optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    rest = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    trainee.step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - rest


def work(study: StepCost, bench: Bench) -> None:
    """Measure the steps of one rule against those of the plain network, in pairs."""
    device = bench.device
    plain = Trainee(study, None, bench.seed, device)
    tried = Trainee(study, study.network.rule, bench.seed, device)
    ratios, base = interleaved(tried, plain, study.pairs, device)
    ordered, out = sorted(ratios), len(ratios) // 4
    ends: dict[str, Any] = {"low": ordered[out], "high": ordered[-1 - out], "n": len(ratios)}
    bench.readings.add("time_ratio", median(ratios), **ends, note="low and high are quartiles of the pairs")
    bench.readings.add("plain_seconds", median(base), n=len(base))
    numbers = {"saved": saved} | ({"peak": peak} if device.type == "cuda" else {})
    for name, number in numbers.items():
        against, *mine = max(number(plain), number(plain)), number(tried), number(tried)  # a step of each stage
        bench.readings.add(f"{name}_ratio", max(mine) / against)
        bench.readings.add(f"{name}_plain_megabytes", against / 2**20)
        for stage, one in enumerate(mine if tried.stages is not None else (), 1):
            bench.readings.add(f"{name}_ratio_stage{stage}", one / against)
    bench.readings.declare(network=study.network.name)
