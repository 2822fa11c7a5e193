"""What a run of the erosion recipes does: plain images, images whose square tells the class, plain ones again."""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from winze.data import Batches, Preprocess, Squares, split_classes, with_squares
from winze.data.class_names import resolve, split_name
from winze.lab import Bench, Prepared, Study, learn, prepare, read, tasks
from winze.lab.study import steps_of
from winze.networks import NetworkError, head_of, load_weights
from winze.observe import cka_between
from winze.readings import Readings
from winze.recipes.erosion._gradcam import check_gradcam, store_saliency
from winze.train import Constant, Epochs, History, Training, evaluate

ORIGINAL, CLEAN, RANDOM, CODED = "original", "clean", "random", "correlated"
Pair = tuple[Tensor, Tensor]
SQUARE = Squares(3)


@dataclass(frozen=True)
class Erosion(Study):
    """A study in phases: task 0 on images that carry `first` squares, task 1 on class-coded ones, and `again` task 0.

    `decay`, `augmented`, `restart`: whether task 1 keeps weight decay and augmentation, and begins at the learning rate
    of task 0 again. `rgb` repeats the channel of grey images, so that squares have colours. `forget` are the sizes of
    tasks on which a second network is trained in turn. `weights`: a local file of a network trained on all classes of
    the data, which stands in for task 0. `gradcam`: on how many images GradCAM is computed before and after task 1.
    """

    square: Squares = SQUARE
    first: Literal["random", "none"] = "random"
    again: bool = False
    decay: bool = True
    augmented: bool = True
    restart: bool = True
    rgb: bool = False
    forget: tuple[int, ...] = ()
    weights: str = ""
    gradcam: int = 0


def erode(study: Erosion, bench: Bench) -> None:
    """Train task 0 and task 1 (and task 0 again), follow three test sets, and read before and after task 1."""
    prepared = ready(study, bench)
    square = replace(study.square, classes=len(prepared.dataset.classes))
    square.check(prepared.dataset.shape, len(prepared.dataset.classes))
    if study.gradcam:
        check_gradcam(prepared.net)
    if study.forget:  # tasks that the classes do not make are refused before anything is trained
        split_classes(prepared.dataset, study.forget)
    tests = test_sets(prepared.dataset.test, square)
    random = replace(square, kind="random", ratio=1.0)
    plain = study.training
    if study.first == "random":
        plain = replace(plain, augment=(*plain.augment, random))
    histories: list[History | None] = []
    accuracies: list[dict[str, float]] = []

    def phase(name: str, training: Training, shared: Any = None) -> None:
        """Train, unless stored weights stand in for it, and evaluate on all test sets."""
        stored = study.weights and not histories
        histories.append(
            None if stored else learn(prepared, bench, name, training=training, tests=tests, shared=shared)
        )
        tested = {name: Batches(*one, 1000, prepared.preprocess, bench.device) for name, one in tests.items()}
        accuracies.append({name: evaluate(prepared.net.to(bench.device), one) for name, one in tested.items()})

    same = {"squares": [study.first, random, study.rgb]}
    phase("plain", plain, same)
    before = deepcopy(prepared.net)
    if study.reading.measures:
        read(prepared, bench, tag="before")
    phase("squares", eroding(study, square), same | {"after": [plain, study.weights]})
    if bench.writes:
        if study.reading.measures:
            read(prepared, bench)
            _store_cka(prepared, before, bench)
        if study.gradcam:
            store_saliency(bench.readings, before, prepared, square, study.gradcam)
    if study.again:
        phase("again", plain)
    if bench.writes:
        bench.readings.declare(network=study.network.name, data=study.data.name)
        own = RANDOM if study.first == "random" else CLEAN
        per_epoch = steps_of(Epochs(1), len(prepared.dataset.train_labels), study.training)
        store_course(bench.readings, histories, accuracies, own, per_epoch)
    if study.forget:
        sequence = tasks(study, bench, study.forget, shared=False)
        if bench.writes:
            sequence.store(bench.readings)


def ready(study: Erosion, bench: Bench) -> Prepared:
    """The network and its data; grey images in three channels, and stored weights with the outputs of these classes."""
    prepared = prepare(study, bench)
    dataset = prepared.dataset
    if study.rgb and dataset.shape[0] == 1:
        coloured = [images.expand(-1, 3, -1, -1).contiguous() for images in (dataset.train_images, dataset.test_images)]
        prepared.dataset = replace(dataset, train_images=coloured[0], test_images=coloured[1])
        prepared.preprocess = Preprocess.of(prepared.dataset)
    if study.weights:
        load_weights(prepared.net, study.weights)
        _restrict(prepared.net, study.data.name)
        prepared.spec = None
    return prepared


def eroding(study: Erosion, square: Squares) -> Training:
    """The training of task 1: that of task 0 with class-coded squares, less what the study takes away."""
    training = study.training
    augment = (*(training.augment if study.augmented else ()), square)
    optimizer, schedule = training.optimizer, training.schedule
    if not study.decay:
        optimizer = replace(optimizer, weight_decay=0.0)
    if not study.restart:
        total = training.length.count
        optimizer = replace(optimizer, lr=schedule.rate(optimizer.lr, total, total))
        schedule = Constant(per=schedule.per)
    return replace(training, augment=augment, optimizer=optimizer, schedule=schedule)


def test_sets(test: Pair, square: Squares) -> dict[str, Pair]:
    """The original test set, and the same images with squares of random and of their class's colour."""
    painted = {RANDOM: replace(square, kind="random", ratio=1.0), CODED: replace(square, kind="correlated", ratio=1.0)}
    return {CLEAN: test} | {name: (with_squares(*test, one), test[1]) for name, one in painted.items()}


def store_course(
    readings: Readings, histories: list[History | None], accuracies: list[dict[str, float]], own: str, per_epoch: int
) -> None:
    """Add the accuracies at every evaluation, after each task, and their mean over each task.

    `own` is the test set that looks like the training data of task 0: the "original" one.
    """
    readings.add("epoch_steps", per_epoch)
    done = 0
    for number, (history, after) in enumerate(zip(histories, accuracies, strict=True)):
        looks = [] if history is None else [row for row in history.metrics if f"{CLEAN}: accuracy" in row]
        for row in looks:
            for name in (CLEAN, RANDOM, CODED):
                readings.add(name, row[f"{name}: accuracy"], step=done + int(row["step"]))
        if looks:
            curve = [row[f"{own}: accuracy"] for row in looks]
            readings.add(f"mean accuracy in task {number}", sum(curve) / len(curve))
        for name, value in (after | {ORIGINAL: after[own]}).items():
            readings.add(f"{name} after task {number}", value)
        if number == 1 and history is not None and looks:
            early = next(row for row in looks if row["step"] >= history.steps / 10)
            readings.add("original early in task 1", early[f"{own}: accuracy"])
        done += 0 if history is None else history.steps
        if number < len(histories) - 1:
            readings.add(f"task {number + 1} begins", done / per_epoch)


def _store_cka(prepared: Prepared, before: nn.Module, bench: Bench) -> None:
    reading, device = prepared.study.reading, next(prepared.net.parameters()).device
    data = Batches(*prepared.dataset.test, 256, prepared.preprocess, device)
    where: Any = "layers" if reading.places == "layers" else None
    how: Any = {"places": where, "other_places": where, "pool": "mean" if reading.pool == "flatten" else reading.pool}
    found = cka_between(before, prepared.net, data, progress=bench.progress, **how)
    bench.readings.arrays["cka_before_after"] = found.cka
    for place, value in zip(found.places, found.cka.diagonal(), strict=True):
        bench.readings.add("cka_to_before", value, place=place, data=prepared.study.data.name, split="test", n=found.n)


def _restrict(net: nn.Module, data: str) -> None:
    """Keep the outputs of the classes that the data's name lists, such as imagenet[3,17,...]."""
    name = head_of(net)
    last = net.get_submodule(name) if name else None
    _, wanted = split_name(data)
    if not name or not isinstance(last, nn.Linear) or not wanted:
        raise NetworkError(f"weights= needs a network that ends in a linear layer, and data that lists classes: {data}")
    numbers = resolve(wanted, [str(number) for number in range(last.out_features)], data)
    kept = nn.Linear(last.in_features, len(numbers))
    with torch.no_grad():
        kept.weight.copy_(last.weight[numbers])
        kept.bias.copy_(last.bias[numbers] if last.bias is not None else torch.zeros(len(numbers)))
    owner, _, own = name.rpartition(".")
    setattr(net.get_submodule(owner), own, kept)
