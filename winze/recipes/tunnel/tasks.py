"""Tasks one after the other: a network with a head for each, and its weights after every task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from winze.data import Batches, Preprocess, Task, load, split_classes
from winze.lab.bench import Bench
from winze.lab.counting import WITHOUT, countings
from winze.lab.crossing import Weights, crossed, layer_of_each, weights_of
from winze.networks import Heads, build, give_heads, options_for
from winze.observe.places import find_spots
from winze.train import Training, evaluate
from winze.train.optimizers import shares

FORGETTING = "forgetting"


@dataclass(frozen=True)
class Continual:
    """One network and the numbers of classes of the tasks that it learns, one after the other, each in `training`."""

    network: str
    data: str
    training: Training
    tasks: tuple[int, ...] = (5, 5)
    options: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = None
    limit: int | None = None


@dataclass
class Learnt:
    """A network that has learnt its tasks. `after` has its weights after each, `layers` the layer of each weight."""

    net: nn.Module
    heads: Heads
    tasks: list[Task]
    preprocess: Preprocess
    after: list[Weights]
    layers: dict[str, int]
    names: list[str]
    """the places of the hidden layers, from layer 1 on"""

    def crossed(self, front: int, back: int, upto: int) -> dict[str, Tensor]:
        """Layers 1 to `upto` as after task `front`, the others as after task `back`, each head as after its own task.

        A head learns with its task only, so that after the last task each is as its own left it.
        """
        weights = crossed(self.after[front - 1], self.after[back - 1], self.layers, upto)
        hidden = len(self.names)
        return {name: value if self.layers[name] <= hidden else self.after[-1][name] for name, value in weights.items()}

    def accuracy(self, weights: Weights, task: int) -> float:
        """How often the network with these weights is right about a task, counted from 1, through that task's head."""
        self.net.load_state_dict(dict(weights))
        self.heads.use(task - 1)
        device = next(self.net.parameters()).device
        return evaluate(self.net, Batches(*self.tasks[task - 1].test, 1000, self.preprocess, device))


def learn(config: Continual, bench: Bench, later: Training | None = None) -> Learnt:
    """Train the network on one task after the other; tasks after the first in `later`, where it is given."""
    dataset = load(config.data, limit=config.limit, size=config.size, download=False)
    preprocess = Preprocess.of(dataset)
    tasks = split_classes(dataset, config.tasks)
    options = {**options_for(config.network, dataset.shape), **config.options}
    net = build(config.network, len(dataset.classes), **options)
    heads = give_heads(net, [len(task.classes) for task in tasks])
    after: list[Weights] = []
    for number, task in enumerate(tasks):
        heads.use(number)
        training = config.training if later is None or not number else later
        _hold_norms(net, training)
        bench.train(net, task, training, name=f"task-{number + 1}", preprocess=preprocess)
        after.append(weights_of(net))
    device = next(net.parameters()).device
    spots = find_spots(net, preprocess(dataset.test_images[:2].to(device)), "layers")
    names = [spot.place.name for spot in spots[:-1]]
    layers = layer_of_each(net)
    assert countings(net, names)[WITHOUT] == list(range(1, len(names) + 1))
    _tell(config, bench, tasks)
    return Learnt(net, heads, tasks, preprocess, after, layers, names)


class _Still(nn.BatchNorm2d):
    """A batch norm that normalises by what it has seen before, while the network learns too."""

    def train(self, mode: bool = True) -> _Still:
        return super().train(False)


def _hold_norms(net: nn.Module, training: Training) -> None:
    """Batch norms whose weights stand still keep their statistics too."""
    rates = shares(net, training)
    for name, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d) and rates.get(f"{name}.weight") == 0:
            module.__class__ = _Still


def remember(config: Continual, bench: Bench, later: Training | None = None) -> None:
    """Learn two tasks; how well each is known right after it, and at the end."""
    learnt = learn(config, bench, later)
    if not bench.writes:
        return
    for task in (1, 2):
        after, end = (learnt.accuracy(weights, task) for weights in (learnt.after[task - 1], learnt.after[-1]))
        for measure, value in (("learnt", after), ("kept", end), (FORGETTING, after - end)):
            n = len(learnt.tasks[task - 1].test_labels)
            bench.readings.add(measure, value, data=title(task), split="test", n=n)


def title(task: int) -> str:
    """What a task, counted from 1, is called in readings."""
    return f"task {task}"


def _tell(config: Continual, bench: Bench, tasks: list[Task]) -> None:
    bench.readings.conventions.update(
        network=config.network, data=config.data, notes=[note for task in tasks for note in task.notes[-1:]]
    )
