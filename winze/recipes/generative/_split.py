"""What the four recipes share: networks on one trunk, trained on one pair of classes after the other, and readings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from winze.data import Task, split_classes
from winze.lab import Axis, Bench, Data, Network, Prepared, Scale, Study, Whole, learn, prepare
from winze.measure import linear_cka
from winze.measure.probes.probe import regression_accuracy, softmax_regression
from winze.networks import NetworkError
from winze.networks.models.autoencoder import Discriminative
from winze.readings import Array, Readings
from winze.report.experiment import Drawing, over_setting, over_training
from winze.train import Adam, Classify, Epochs, History, Training
from winze.train.fields import Count
from winze.train.objectives.elbo import Elbo
from winze.train.objectives.reconstruct import Reconstruct

PAPER = "On robustness of generative representations against catastrophic forgetting"
BATCH = 5000
Labelled = tuple[Tensor, Tensor]
"""preprocessed images and labels from 0"""
TASKS = tuple(f"task {number}" for number in range(1, 6))
D, AE, VAE = ({"model": name} for name in ("discriminative", "autoencoder", "vae"))


@dataclass(frozen=True)
class Split(Study):
    """A network that is trained on tasks of so many classes each.

    `iterations` of L-BFGS fit each softmax regression; `samples` test images of each task enter CKA.
    """

    tasks: tuple[int, ...] = (2, 2, 2, 2, 2)
    iterations: Count = 50
    samples: Count = 2000


study = Split(
    Network("winze/autoencoder"),
    Data("mnist", normalise="unit"),
    Training(Epochs(20), batch=128, optimizer=Adam(1e-3), objective=Reconstruct(), checkpoint=Epochs(10)),
)
DATA = {
    "mnist": {},
    "fashion_mnist": {"data.name": "fashion_mnist"},
    "cifar10": {
        "data.name": "cifar10",
        "network.options": {"hidden": (512, 256, 128, 256, 512)},
        "training.length": Epochs(50),
    },
    "digits": {
        "data.name": "digits",
        "network.options": {"hidden": (64, 32, 8, 32, 64)},
        "training.length": Epochs(60),
        "training.batch": 32,
    },
}
MODELS = {
    "discriminative": {"network.name": "winze/discriminative", "training.objective": Classify()},
    "autoencoder": {},
    "vae": {"network.name": "winze/vae", "training.objective": Elbo()},
}
axes = {"data": Axis("", DATA), "model": Axis("", MODELS)}
GENERATIVE = ("autoencoder", "vae")
GREY = [(data, model) for data in ("mnist", "fashion_mnist") for model in GENERATIVE]
ON_DIGITS = "digits of 8 x 8, hidden layers of 64, 32, 8, 32, 64"
DEPARTURES = (
    "the thesis states no optimizer, batch and length: Adam 1e-3, batches of 128, 20 epochs per task (CIFAR-10: 50)",
    "softmax regression by L-BFGS, 50 iterations from the classifier of the epoch before",
    "tasks are the classes in order, two at a time; CKA is centred and read on the test images of a task",
)


def scales(**axes: tuple[str, ...]) -> dict[str, Scale]:
    """The scales of every recipe; `axes`: the models that run."""
    brief = {"training.length": Epochs(2), "data.limit": 600, "iterations": 10}
    chosen: Any = axes
    on_digits = chosen | {"data": ("digits",)}
    whole = chosen | {"data": ("mnist", "fashion_mnist", "cifar10")}
    few = ("6,000 training and 6,000 test images, 10 epochs per task with batches of 32",)
    return {
        "smoke": Scale(axes=on_digits, at=(({}, brief),), departures=(f"{ON_DIGITS}, 2 epochs on 600 images",)),
        "cpu": Scale(axes=on_digits, seeds=3, departures=(f"{ON_DIGITS}, 60 epochs per task, batches of 32",)),
        "small": Scale(
            {"data.limit": 6000, "training.batch": 32},
            whole,
            seeds=3,
            at=(({}, {"training.length": Epochs(10)}),),
            departures=few,
        ),
        "gpu": Scale(axes=whole, seeds=5),
        "paper": Scale({"iterations": 200}, whole, seeds=5),
    }


@torch.no_grad()
def features_of(net: nn.Module, images: Tensor) -> Tensor:
    """The features of all images, batch by batch."""
    inner: Any = net
    return torch.cat([inner.features(batch) for batch in images.split(BATCH)])


class Refit:
    """A follower that fits the classifier of the active `task` after every epoch, and evaluates all so far.

    A classifier starts from that of the epoch before; those of earlier tasks stay as they are, so that any loss of
    accuracy is due to features that have changed.
    """

    def __init__(self, train: Sequence[Labelled], tests: Sequence[Labelled], iterations: int) -> None:
        self.train, self.tests, self.iterations, self.task = train, tests, iterations, 0
        self.classifiers: dict[str, Tensor] = {}

    def after_epoch(self, net: nn.Module, epoch: int) -> Mapping[str, float]:
        images, labels = self.train[self.task]
        own, known = name_of(self.task), int(labels.max()) + 1
        start = self.classifiers.get(own)
        self.classifiers[own] = softmax_regression(features_of(net, images), labels, known, self.iterations, start)
        return {
            f"accuracy of {name_of(task)}": regression_accuracy(
                self.classifiers[name_of(task)], features_of(net, self.tests[task][0]), self.tests[task][1]
            )
            for task in range(self.task + 1)
        }

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.classifiers)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        device = self.train[0][0].device
        self.classifiers = {name: weights.to(device) for name, weights in state.items()}


def name_of(task: int) -> str:
    """How a task, counted from 0, is called."""
    return f"task {task + 1}"


@dataclass
class Trained:
    """A network after each task: what it was trained on, and the metrics of each phase."""

    prepared: Prepared
    parts: list[Task]
    refit: Refit
    histories: list[History] = field(default_factory=list)

    def features(self, task: int, samples: int | None = None) -> Any:
        """The features of a task's test images as they are now."""
        return features_of(self.prepared.net, self.refit.tests[task][0][:samples])


def train_tasks(config: Split, bench: Bench, count: int | None = None) -> Iterator[Trained]:
    """Train on one task after the other, or on the first `count`; what comes after each is the network at that time.

    Recipes whose runs lie in one folder share these phases: each is trained once.
    """
    prepared = prepare(config, bench)
    parts = split_classes(prepared.dataset, config.tasks)
    net = prepared.net.to(bench.device)
    if isinstance(net, Discriminative):
        heads = tuple(head.out_features for head in net.output.heads)
        if heads != tuple(config.tasks):
            wanted = f"set network.options.heads={config.tasks}"
            raise NetworkError(
                f"the network has heads of {heads} outputs, the tasks have {config.tasks} classes: {wanted}"
            )
    train, test = (
        [(prepared.fed(images), labels.to(bench.device)) for images, labels in sets]
        for sets in ([part.train for part in parts], [part.test for part in parts])
    )
    refit = Refit(train, test, config.iterations)
    trained = Trained(prepared, parts, refit)
    tests = {} if isinstance(net, Discriminative) else {name_of(part.number): part.test for part in parts}
    for part in parts[:count]:
        refit.task = part.number
        if isinstance(net, Discriminative):
            net.output.use(part.number)
        told = {"tasks": config.tasks, "number": part.number, "iterations": config.iterations}
        phase: Any = {"data": part.train, "tests": tests, "followers": [refit], "shared": told}
        trained.histories.append(learn(prepared, bench, f"task-{part.number + 1}", **phase))
        yield trained
    notes = [note for part in parts for note in part.notes[-1:]]
    bench.readings.declare(network=config.network.name, data=config.data.name, notes=notes)


def sequence(config: Split, bench: Bench) -> None:
    """Experiments 1 and 2: accuracies of frozen classifiers over all epochs, and CKA to the reference of each task."""
    references: list[Any] = []
    similar = np.full((len(config.tasks),) * 2, np.nan)  # CKA of task k's features after task t, as [t, k]
    trained = None
    for now, trained in enumerate(train_tasks(config, bench)):
        references.append(trained.features(now, config.samples))
        for task, reference in enumerate(references):
            similar[now, task] = 1.0 if task == now else linear_cka(reference, trained.features(task, config.samples))
    assert trained is not None
    if bench.writes:
        _store_accuracies(bench.readings, trained)
        _store_cka(bench.readings, similar)


def _store_accuracies(readings: Readings, trained: Trained) -> None:
    last: dict[str, float] = {}
    learned: dict[str, float] = {}
    epochs = 0
    readings.add("epoch_steps", 1)  # steps are epochs here, over all tasks
    for history in trained.histories:
        for epoch, row in enumerate(history.metrics, epochs + 1):
            found = {name: value for name, value in row.items() if name.startswith("accuracy of ")}
            for name, value in found.items():
                readings.add(name, value, split="test", step=epoch)
            last = found
        epochs += len(history.metrics)
        learned |= {name: value for name, value in last.items() if name not in learned}
    gone = [learned[name] - last[name] for name in learned]
    readings.add("average_accuracy", np.mean(list(last.values())))
    readings.add("learned_accuracy", np.mean(list(learned.values())))
    readings.add("forgetting", np.mean(gone[:-1]))
    readings.add("earlier_accuracy", np.mean(list(last.values())[:-1]))


def _store_cka(readings: Readings, similar: Array) -> None:
    count = len(similar)
    curves = [similar[task:, task] for task in range(count)]
    for task, curve in enumerate(curves):
        for after, value in enumerate(curve, task + 1):
            readings.add(f"cka of {name_of(task)}", value, step=after)
    readings.add("mean_cka", np.mean(np.concatenate([curve[1:] for curve in curves])))
    readings.add("first_task_cka", curves[0][-1])
    readings.add("first_switch_cka", np.mean([curve[1] for curve in curves[:-1]]))
    readings.add("largest_rise", max(float(np.diff(curve).max()) for curve in curves[:-1]))


def transfer(config: Split, bench: Bench) -> None:
    """Experiment 3: a two-way classifier per task and one of all classes on the features of a network of task 1."""
    (trained,) = train_tasks(config, bench, 1)
    refit, net = trained.refit, trained.prepared.net
    found, features = [], []
    for task, ((images, labels), (tests, answers)) in enumerate(zip(refit.train, refit.tests, strict=True)):
        both = features_of(net, images), features_of(net, tests)
        weights = softmax_regression(both[0], labels, config.tasks[task], 4 * config.iterations)
        found.append(regression_accuracy(weights, both[1], answers))
        bench.readings.add("two_way", found[-1], data=name_of(task), split="test", n=len(answers))
        numbers = trained.parts[task].numbers
        features.append((*both, *(labels.new_tensor(numbers)[one] for one in (labels, answers))))
    train, test, labels, answers = (torch.cat(one) for one in zip(*features, strict=True))
    weights = softmax_regression(train, labels, sum(config.tasks), 4 * config.iterations)
    bench.readings.add("two_way_accuracy", np.mean(found))
    bench.readings.add("two_way_deviation", np.std(found, ddof=1))
    bench.readings.add("unseen_accuracy", np.mean(found[1:]))
    bench.readings.add("ten_way_accuracy", regression_accuracy(weights, test, answers), n=len(answers))


def reconstruction(config: Split, bench: Bench) -> None:
    """Experiment 4: reconstruction errors of all tasks after each epoch on task 1."""
    (trained,) = train_tasks(config, bench, 1)
    rows = trained.histories[0].metrics
    readings, curves = bench.readings, []
    readings.add("epoch_steps", 1)
    for part in trained.parts:
        name = name_of(part.number)
        curves.append([row[f"{name}: reconstruction"] for row in rows])
        for epoch, value in enumerate(curves[-1], 1):
            readings.add(f"reconstruction of {name}", value, split="test", step=epoch)
    own, *others = (np.array(curve) for curve in curves)
    readings.add("own_error", own[-1])
    readings.add("unseen_error", np.mean([one[-1] for one in others]))
    readings.add("gap", np.mean([one[-1] for one in others]) / own[-1])
    readings.add("worst_ratio", max(float(one[-1] / one[0]) for one in others))


def about(
    where: str, work: Callable[[Any, Bench], None], numbers: tuple[str, ...], *kept: str, **models: tuple[str, ...]
) -> dict[str, Any]:
    """What every recipe says of itself; `where` in the thesis, the `numbers` of a run, and what else is `kept`."""
    told = {"system": "S6", "paper": f"{PAPER}, {where}", "url": "https://arxiv.org/abs/2109.01844"}
    runs = {"study": study, "axes": axes, "scales": scales(**models), "work": work}
    read = {"quantities": {name: Whole(name) for name in numbers}, "measures": (*numbers, *kept)}
    return told | runs | read | {"departures": DEPARTURES, "learned": ("learned_accuracy", 0.6)}


def by_task(measure: str, title: str, up: str, **how: Any) -> Drawing:
    """A number of each task over training, one panel per network."""
    lines = {name: f"{measure} of {name}" for name in TASKS}
    return over_training(lines, panel=("data", "model"), title=title, up=up, **how)


by_model = partial(over_setting, x="model", panel="data")
