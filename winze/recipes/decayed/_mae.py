"""What the masked-autoencoder recipes share: the study, its scales, and what is read of the encoder."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal

from winze.data import Flip, RandomResizedCrop
from winze.lab import Axis, Bench, Claim, Data, Network, Prepared, Question, Reading, Scale, Study, Watching, higher
from winze.lab.axes import AxisValues
from winze.lab.claims.quantities import Whole, last
from winze.lab.study import learn, prepare, read, store_curve
from winze.report.experiment import Drawing, over_training
from winze.shape import DecayedIdentity
from winze.train import AdamW, CosineAfterWarmup, Epochs, Training
from winze.train.objectives.reconstruct import MaskedReconstruct
from winze.train.protocols import LINEAR, FineTune, TokenPool, neighbours

PAPER = "Residual Connections Harm Generative Representation Learning"
URL = "https://arxiv.org/abs/2404.10947"
MEAN = "mean"  # the tag of what is read of the mean of all patch tokens
READ = ("probe*", "cka", "effective_rank*", "numerical_rank*", "rank_while_training*", "probe_while_training*")
MEASURES = (*READ, "linear_*", "neighbours*", "fine_tuned*", "loss", "reconstruction", "accuracy", "epoch_steps")
DEPARTURES = (
    "CIFAR-10 (32 x 32, patches of 4) and 100 classes of Tiny-ImageNet (64 x 64, patches of 8) with an encoder of "
    "12 x 192 and a decoder of 6 x 128, instead of ImageNet",
    "probes at every block and while training are ridge regressions on standardised features, of the class token and "
    "of the mean of all tokens",
    "random crops are stretched bilinearly instead of bicubically",
)
probe, rank = last("probe"), last("effective_rank")
linear = Whole("linear_imagenet100").named("linear probe, ImageNet-100 protocol")
mean_probe, mean_rank = last(f"probe {MEAN}"), last(f"effective_rank {MEAN}")
DECAYED, PLAIN = {"alpha": 0.6}, {"alpha": 1.0}
claim, question = partial(Claim, each="data"), partial(Question, each="data")


@dataclass(frozen=True)
class Masked(Study):
    """A masked autoencoder, and the protocols by which its encoder is evaluated besides the ridge probes."""

    protocols: tuple[Literal["imagenet1k", "imagenet100", "neighbours", "fine_tuned"], ...] = (
        "imagenet100",
        "neighbours",
    )


DATA = Axis(
    "",
    {
        "cifar10": {},
        "tinyimagenet100": {"data": Data("tinyimagenet100", size=64), "network.name": "winze/mae_64"},
        "digits": {},  # which the scales smoke and cpu train on
        "mnist": {},  # which the scale small trains on
    },
)
study = Masked(
    Network("winze/mae_32", rule=DecayedIdentity(0.6), where="encoder.*"),
    Data("cifar10", size=32),
    Training(
        Epochs(800),
        batch=1024,
        optimizer=AdamW(6e-4, betas=(0.9, 0.95), weight_decay=0.05, decay_vectors=False),
        schedule=CosineAfterWarmup(warmup=Epochs(40)),
        objective=MaskedReconstruct(),
        augment=(RandomResizedCrop((0.2, 1.0)), Flip()),
        precision="bf16-mixed",
        drop_last=True,
        evaluate=Epochs(10),
        checkpoint=Epochs(25),
    ),
    Reading("blocks", ("probe", "rank", "cka"), pool="token"),
    Watching(
        ("rank", "probe"),
        Epochs(10),
        "last",
        probe_samples=10_000,
        pool="token",
        names={"effective_rank": "rank_while_training", "probe": "probe_while_training"},
    ),
)
digits: dict[str, Any] = {
    "network.name": "winze/mae6x32",
    "network.options": {"patch": 2, "decoder_depth": 3, "decoder_width": 32},
    "data": Data("digits"),
    "training.length": Epochs(24),
    "training.batch": 64,
    "training.optimizer.lr": 1e-3,
    "training.schedule.warmup": Epochs(2),
    "training.augment": (),
    "training.precision": "32-true",
    "training.evaluate": Epochs(2),
    "training.checkpoint": Epochs(24),
    "watching.every": Epochs(2),
    "watching.probe_samples": 500,
}
smoke = digits | {"data": Data("digits", limit=128), "training.length": Epochs(2), "protocols": ()}
smoke |= {"training.schedule.warmup": Epochs(1), "watching.every": Epochs(1), "training.evaluate": Epochs(1)}
smoke |= {"network.name": "winze/mae3x16"}
smoke |= {"network.options": {"patch": 2, "decoder_depth": 1, "decoder_width": 16}}
mnist = digits | {
    "network.name": "winze/mae6x64",
    "network.options": {"patch": 7, "decoder_depth": 3, "decoder_width": 48},
    "data": Data("mnist", limit=4000),
    "training.batch": 128,
    "training.length": Epochs(16),
    "training.checkpoint": Epochs(8),
    "watching.probe_samples": 2000,
    "protocols": ("neighbours",),
}
ON_MNIST = "4,000 training and 4,000 test images of MNIST with patches of 7, encoder 6 x 64, decoder 3 x 48, 16 epochs"
ON_FEW_DIGITS = "128 digits of 8 x 8 with patches of 2, encoder 3 x 16, decoder 1 x 16, 2 epochs"
ON_DIGITS = "digits of 8 x 8 with patches of 2, encoder 6 x 32, decoder 3 x 32"


def scales(axes: AxisValues | None = None, large: AxisValues | None = None, **more: Any) -> dict[str, Scale]:
    """The scales of every masked-autoencoder recipe; `axes`: what digits and MNIST run, `large` what all others do."""
    on_mnist: AxisValues = {**(axes or {}), **({"data": ("mnist",)} if axes and "data" in axes else {})}
    short = {"training.length": Epochs(400), "training.schedule.warmup": Epochs(20)}
    return {
        "smoke": Scale(smoke | more, axes or {}, departures=(ON_FEW_DIGITS,)),
        "cpu": Scale(digits | more, axes or {}, seeds=3, departures=(f"{ON_DIGITS}, 24 epochs",)),
        "small": Scale(more | mnist, on_mnist, seeds=3, departures=(ON_MNIST,)),
        "gpu": Scale(short, large or {}, seeds=3, departures=("400 epochs",)),
        "paper": Scale(axes=large or {}, seeds=3),
    }


def trained(config: Masked, bench: Bench) -> Prepared:
    """Train a masked autoencoder and read its encoder, by class token and by the mean of all tokens.

    Recipes whose runs lie in one folder train equal networks once.
    """
    prepared, by_mean = prepare(config, bench), []
    if (own := config.watching) is not None:
        by_mean = [replace(own, pool="mean", names={name: f"{one} {MEAN}" for name, one in own.names.items()})]
    learn(prepared, bench, watching=by_mean, shared={"watching": own})
    store_curve(prepared, bench, ("reconstruction",))
    read(prepared, bench, layers=False)
    read(prepared, bench, reading=replace(config.reading, pool="mean"), tag=MEAN, layers=False)
    pools: dict[str, TokenPool] = {"": "token", f" {MEAN}": "mean"}
    for name, (tag, pool) in product(config.protocols if bench.writes else (), pools.items()):
        bench.readings.add(*_accuracy(name, pool, prepared, bench, tag), data=config.data.name, split="test")
    return prepared


def _accuracy(name: str, pool: TokenPool, prepared: Prepared, bench: Bench, tag: str) -> tuple[str, float]:
    """The name of a reading, and the test accuracy by a protocol."""
    encoder, parts = prepared.objective.view(prepared.net), (prepared.dataset.train, prepared.dataset.test)
    told: dict[str, Any] = {"preprocess": prepared.preprocess, "pool": pool}
    if name == "neighbours":
        return f"neighbours{tag}", float(neighbours(encoder, *parts, **told))
    protocol: Any = FineTune() if name == "fine_tuned" else LINEAR[name]
    with bench.uncompiled():
        own: dict[str, Any] = {"seed": bench.seed, "hardware": bench.hardware, "progress": bench.progress}
        history = protocol.fit(encoder, *parts, **own, **told)
    stored = name if name == "fine_tuned" else f"linear_{name}"
    return f"{stored}{tag}", float(history.metrics[-1]["accuracy"])


def other_probes(each: str) -> tuple[Question, ...]:
    """Whether decayed shortcuts also help by the mean token, and by the paper's protocol for ImageNet-100."""
    gains = {
        "the probe accuracy of the mean token": mean_probe,
        "linear-probe accuracy by the ImageNet-100 protocol": linear,
    }
    return tuple(
        Question(f"does alpha_min = 0.6 raise {what}?", higher(number, DECAYED, than=PLAIN), each=each)
        for what, number in gains.items()
    )


def during_training(measure: Literal["probe", "rank"], tag: str = "", **how: Any) -> Drawing:
    """What was read of the last block at intervals: of the class token, or with the tag MEAN of the mean of all."""
    name, token = {"probe": "probe accuracy", "rank": "effective rank"}[measure], tag or "class"
    title = f"{name.capitalize()} of the {token} token during training"
    return over_training(f"{measure}_while_training {tag}".strip(), title=title, up=name, **how)


def about(where: str, **own: Any) -> dict[str, Any]:
    """What every masked-autoencoder recipe says of itself; `where` in the paper, and `own` in place of the rest."""
    shared = {"study": study, "work": trained, "departures": DEPARTURES, "measures": MEASURES, "learned": (probe, 0.2)}
    return {"system": "S2", "paper": f"{PAPER}, {where}", "url": URL} | shared | own
