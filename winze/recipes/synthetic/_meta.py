"""A generator that is trained through a learner's training, what learners know after its images, and baselines."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from winze.data import Dataset, Preprocess
from winze.lab import Bench, Data, Network, Prepared, Scale, Study, prepare
from winze.networks import build
from winze.networks.models.generator import Critic, DenseGenerator, labelled
from winze.readings import Readings
from winze.report.experiment import Drawing, over_training
from winze.report.experiment.image_sheets import image_sheets, tiled
from winze.train import Adam, Adversarial, Cosine, Descend, Steps, Training, evaluate
from winze.train.fields import Count, Limits
from winze.train.objectives.teach import MetaLoss, Teach, check_classes, learner, picks, pools
from winze.train.seeds import mix, seed_all
from winze.train.unroll import Course, Unrolled

PAPER = "Reducing catastrophic forgetting with learning on synthetic data"
SEEN, BY_STEPS, BY_BATCH = "seen_accuracy", "final_by_steps", "final_by_batch"
NUMBERS = ("final_accuracy", "first_accuracy", "longest_accuracy", "lost_by_steps", "largest_batch_accuracy")
SHOWN = 8  # images per class that are stored
SYNTHETIC, REAL = {"source": "synthetic"}, {"source": "real"}

RATE = Adam(2e-4, betas=(0.5, 0.999))
GAN = Training(Steps(20_000), batch=128, optimizer=RATE, evaluate=Steps(500), checkpoint=Steps(2000))
MLP = Training(Steps(2000), batch=128, optimizer=Adam(1e-3))

Counts = Annotated[tuple[Count, ...], Limits("one whole number or more, from 1", bool)]


@dataclass(frozen=True)
class Meta(Study):
    """A generator, what the learners at the end are trained on, and how often.

    `source`: images of the generator, real ones, those of a conditional GAN, or ("mlp") all real images of a task for a
    plain MLP. `orders` random orders of tasks are averaged, `mlp_orders` for the MLP. `steps` per task and `batches`
    per class: how long and on how many images learners are trained in tests of robustness. `tested`: how the learner at
    the end differs from the one that the generator was trained with.
    """

    source: Literal["synthetic", "real", "gan", "mlp"] = "synthetic"
    tested: Literal["same", "narrower", "wider", "deeper", "other kind"] = "same"
    orders: Count = 16
    mlp_orders: Count = 4
    steps: Counts = (1, 5, 10, 25, 50, 75)
    batches: Counts = (5, 20, 100, 300)
    gan: Training = GAN
    mlp: Training = MLP


study = Meta(
    Network("winze/generator"),
    Data("mnist"),
    Training(
        Steps(2000),
        batch=256,
        optimizer=Adam(3e-3),
        schedule=Cosine(min_lr=3e-4),
        objective=Teach(),
        clip=5.0,
        evaluate=Steps(50),
        checkpoint=Steps(100),
    ),
)
on_digits = {
    "network.name": "winze/generator_dense",
    "network.options": {"noise": 16, "hidden": (128, 128), "norm": True, "scale": 2.0},
    "data": Data("digits"),
    "training.length": Steps(400),
    "training.objective": Teach("winze/learner_mlp", {"width": 64}, pool=40, batch=20, lr=0.05),
    "training.schedule": Cosine(min_lr=1e-3),
    "steps": (1, 5, 10, 40),
    "batches": (5, 20, 40),
    "gan.length": Steps(1500),
    "gan.batch": 64,
    "mlp.length": Steps(300),
    "mlp.batch": 32,
    "mlp_orders": 2,
}
tiny = {"training.length": Steps(3), "orders": 2, "gan.length": Steps(5), "mlp.length": Steps(5), "mlp_orders": 1}
tiny |= {"data": Data("digits", limit=600), "steps": (1, 5), "batches": (5, 20)}
scales = {
    "smoke": Scale(on_digits | tiny, departures=("digits, dense networks, 3 meta-iterations",)),
    "cpu": Scale(on_digits, seeds=3, departures=("digits, dense networks, 400 meta-iterations, pools of 40 images",)),
    "gpu": Scale(seeds=3),
    "paper": Scale({"training.optimizer.lr": 0.02, "training.schedule.min_lr": 0.002}, seeds=5),
}
DEPARTURES = (
    "the thesis gives no optimizer and length of meta-training: Adam 3e-3, cosine, 2,000 iterations, clipping at 5",
    "networks as in Generative Teaching Networks; one learning rate and one momentum for all inner steps",
    "learners draw from pools of 250 images per class with replacement; batch norms use the batch in evaluation too",
    "the conditional GAN, for which no network is given, is fully connected, with batch norms in its generator",
)


def work(config: Meta, bench: Bench) -> None:
    """Train the generator, then learners on a source of images, task by task in random orders."""
    prepared = prepare(config, bench)
    dataset, readings = prepared.dataset, bench.readings
    check_classes(_goal(config).tasks, len(dataset.classes))
    assert prepared.preprocess is not None
    readings.declare(network=config.network.name, data=config.data.name)
    if config.source == "mlp":
        curves = train_mlp(dataset, prepared.preprocess, config.mlp, _goal(config).tasks, config.mlp_orders, bench)
        _store_curves(readings, curves)
        readings.add("longest_accuracy", np.nan, note="the MLP has no inner steps")
        return
    meta = MetaLoss(_goal(config)).to(bench.device)
    net = prepared.net.to(bench.device)
    history = bench.train(
        Descend(net, meta, config.training.optimizer),
        dataset.train,
        config.training,
        name="meta",
        preprocess=prepared.preprocess,
        shared=[config.network, config.data, "meta"],
    )
    rates = [float(rate.detach()) for rate in meta.rates]
    gan = train_gan(dataset, config.gan, bench) if config.source == "gan" else None
    with torch.no_grad():
        _read(_School(config, prepared, bench, gan, rates), readings)
    for name, value in zip(("learner_lr", "learner_momentum"), rates, strict=True):
        readings.add(name, value)
    for row in history.metrics:
        readings.add("meta_loss", row["loss"], step=int(row["step"]))


def _goal(config: Meta) -> Teach:
    goal = config.training.objective
    if not isinstance(goal, Teach):
        raise ValueError(f"synthetic data are trained with Teach(...), not {goal!r}")
    return goal


class _School:
    """Learners that are trained task by task on one source of images, and tested on real ones."""

    def __init__(self, config: Meta, prepared: Prepared, bench: Bench, gan: Any, rates: list[float]) -> None:
        self.config, self.goal, self.net, self.gan = config, _goal(config), prepared.net, gan
        self.dataset: Dataset = prepared.dataset.to(bench.device)
        self.preprocess, self.seed, self.rates = prepared.preprocess, bench.seed, rates
        assert self.preprocess is not None
        self.x, self.y = self.preprocess(self.dataset.test_images), self.dataset.test_labels
        self.unrolled = Unrolled(learner(self.goal.learner, _changed(config), self.x[:1]))

    def pool(self, order: list[int]) -> tuple[Tensor, Tensor]:
        """Images of every task in this order, and their labels."""
        goal, images = self.goal, self.preprocess
        assert images is not None
        if self.config.source == "synthetic":
            return pools(self.net, order, goal.tasks, goal.pool, self.x)
        labels = torch.tensor(order, device=self.x.device).repeat_interleave(goal.pool)
        if self.config.source == "gan":
            return images(draw_gan(self.gan, labels)), labels
        rows = [(self.dataset.train_labels == one).nonzero()[:, 0] for one in order]
        chosen = torch.cat([one[torch.randint(len(one), (goal.pool,), device=one.device)] for one in rows])
        return images(self.dataset.train_images[chosen]), labels

    def lesson(self, number: int, steps: int, batch: int) -> list[float]:
        """The accuracy on the test images of all classes seen, after each task of one order."""
        seed_all(mix(self.seed, "order", number))  # all sources are taught in the same orders
        goal, unrolled = self.goal, self.unrolled
        order = torch.randperm(len(self.dataset.classes))[: sum(goal.tasks)].tolist()
        unrolled.learner.restart()  # type: ignore[operator]
        images, labels = self.pool(order)
        rows = picks(goal.tasks, goal.pool, batch, steps, images.device).split(steps)
        state, found, seen = unrolled.start(), [], 0
        for size, own in zip(goal.tasks, rows, strict=True):
            state = unrolled.steps(state, Course(images, labels, own), self.rates[0], self.rates[1], graph=False)
            seen += size
            known = torch.isin(self.y, torch.tensor(order[:seen], device=self.y.device))
            answers = [unrolled.logits(state, part).argmax(1) for part in self.x[known].split(500)]
            found.append(float((torch.cat(answers) == self.y[known]).double().mean()))
        return found

    def lessons(self, steps: int | None = None, batch: int | None = None) -> list[list[float]]:
        """The same for every order."""
        chosen = steps or self.goal.steps, batch or self.goal.batch
        return [self.lesson(number, *chosen) for number in range(self.config.orders)]


def _changed(config: Meta) -> dict[str, Any]:
    """The options of the learner at the end."""
    goal = _goal(config)
    kind = "mlp" if goal.learner.endswith("mlp") else "cnn"
    plain = {"kind": kind, "width": 64, "depth": 2, **goal.options}
    other = {"kind": "cnn", "width": 16} if plain["kind"] == "mlp" else {"kind": "mlp", "width": 256}
    changes: dict[str, dict[str, Any]] = {
        "same": {},
        "narrower": {"width": max(1, plain["width"] // 2)},
        "wider": {"width": 2 * plain["width"]},
        "deeper": {"depth": plain["depth"] + 1},
        "other kind": other,
    }
    return plain | changes[config.tested]


def _read(school: _School, readings: Readings) -> None:
    config, goal = school.config, school.goal
    _store_curves(readings, school.lessons())
    if config.tested != "same":
        return
    by_steps = {steps: _last(school.lessons(steps=steps)) for steps in config.steps}
    by_batch = {2 * batch: _last(school.lessons(batch=batch)) for batch in config.batches}
    longest = by_steps[max(config.steps)]
    readings.add("longest_accuracy", longest)
    readings.add("lost_by_steps", by_steps.get(goal.steps, np.nan) - longest)
    readings.add("largest_batch_accuracy", by_batch[2 * max(config.batches)])
    readings.arrays["samples"] = _samples(school)
    for measure, values in {BY_STEPS: by_steps, BY_BATCH: by_batch}.items():
        for setting, value in values.items():
            readings.add(measure, value, step=setting)


def _store_curves(readings: Readings, curves: list[list[float]]) -> None:
    for task, value in enumerate(np.mean(curves, 0), 1):
        readings.add(SEEN, value, step=task, n=len(curves))
    last = [curve[-1] for curve in curves]
    readings.add("final_accuracy", np.mean(last), n=len(curves))
    readings.add("final_deviation", np.std(last), n=len(curves))
    readings.add("first_accuracy", np.mean([curve[0] for curve in curves]), n=len(curves))


def _last(curves: list[list[float]]) -> float:
    return float(np.mean([curve[-1] for curve in curves]))


def _samples(school: _School) -> Any:
    """Images of each class [class, image, channel, side, side], each brought to the whole range of grey."""
    seed_all(mix(school.seed, "samples"))
    goal = school.goal
    images, _ = school.pool(list(range(sum(goal.tasks))))
    chosen = images.view(sum(goal.tasks), goal.pool, *images.shape[1:])[:, :SHOWN]
    low, high = (torch.as_tensor(end(chosen, (-2, -1), True)) for end in (torch.amin, torch.amax))
    return ((chosen - low) / (high - low).clamp(min=1e-6) * 255).round().to(torch.uint8).cpu().numpy()


def train_gan(dataset: Dataset, training: Training, bench: Bench) -> DenseGenerator:
    """A conditional GAN on images in [-1, 1], each given as one vector with its class behind it.

    Its generator has batch norms: without them it draws one image for all classes.
    """
    channels, side, _ = dataset.shape
    classes = len(dataset.classes)
    generator = DenseGenerator(channels, side, classes, norm=True).to(bench.device)
    critic = Critic(channels * side * side + classes).to(bench.device)
    pixels = dataset.train_images.float() / 127.5 - 1

    def sample(net: nn.Module, x: Tensor, y: Tensor | None) -> Tensor:
        assert y is not None
        return labelled(net(torch.randn(len(x), generator.noise, device=x.device), y), y, classes)

    data = labelled(pixels, dataset.train_labels, classes), dataset.train_labels
    update = Adversarial(generator, critic, sample, (RATE, RATE), capturable=True)
    bench.train(update, data, training, name="gan")
    return generator.eval()


def draw_gan(generator: DenseGenerator, labels: Tensor) -> Tensor:
    """Images of these classes on the scale 0-1."""
    noise = torch.randn(len(labels), generator.noise, device=labels.device)
    return ((generator(noise, labels) + 1) / 2).clamp(0, 1)


def train_mlp(
    dataset: Dataset, preprocess: Preprocess, training: Training, tasks: tuple[int, ...], orders: int, bench: Bench
) -> list[list[float]]:
    """The accuracy on all classes seen, after each task of real images, for each random order of the classes."""
    curves = []
    for number in range(orders):
        seed_all(mix(bench.seed, "order", number))
        order, seen = torch.randperm(len(dataset.classes)).tolist(), 0
        net, curve = build("winze/mlp2x400", len(dataset.classes), inputs=dataset.train_images[0].numel()), []
        for task, size in enumerate(tasks):
            own = torch.isin(dataset.train_labels, torch.tensor(order[seen : seen + size]))
            data = dataset.train_images[own], dataset.train_labels[own]
            bench.train(net, data, training, name=f"mlp-{number}-{task}", preprocess=preprocess)
            seen += size
            known = torch.isin(dataset.test_labels, torch.tensor(order[:seen]))
            tests = preprocess(dataset.test_images[known]), dataset.test_labels[known]
            curve.append(evaluate(net, zip(tests[0].split(500), tests[1].split(500), strict=True)))
        curves.append(curve)
    return curves


def over(measure: str, title: str, across: str, panel: str | None = None) -> Drawing:
    """An accuracy over tasks, steps or batches, a colour per source."""
    return over_training(measure, "source", panel, title=title, across=across, up="accuracy on seen classes")


sheets = image_sheets(
    "Images that learners are trained on",
    "samples",
    lambda arrays: tiled(arrays["samples"].swapaxes(0, 1)),  # a row per image, a column per class
    across=3,
    below="class, from 0",
)
ABOUT: Any = {"system": "S5", "url": "https://arxiv.org/abs/2004.14046", "departures": DEPARTURES}
ABOUT |= {"study": study, "scales": scales, "work": work, "learned": ("first_accuracy", 0.6)}
"""what both recipes say of themselves"""
