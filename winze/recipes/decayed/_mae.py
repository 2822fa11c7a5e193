"""What the masked-autoencoder recipes share: the study, its scales, and the reading of class and mean tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from winze.data import Flip, RandomResizedCrop
from winze.lab import Bench, Data, Network, Reading, Scale, Study, Watching, learn, prepare, read, store_curve
from winze.lab.claims.quantities import last
from winze.shape import DecayedIdentity
from winze.train import AdamW, Cosine, Epochs, Training
from winze.train.objectives.reconstruct import MaskedReconstruct

PAPER = "Residual Connections Harm Generative Representation Learning"
URL = "https://arxiv.org/abs/2404.10947"
MEAN = "mean"  # the tag of what is read of the mean of all patch tokens
MEASURES = (
    "probe*",
    "effective_rank*",
    "numerical_rank*",
    "rank_while_training",
    "probe_while_training",
    "loss",
    "reconstruction",
    "epoch_steps",
)
DEPARTURES = (
    "CIFAR-10 (32 x 32, patches of 4, encoder 12 x 192, decoder 6 x 128) instead of ImageNet",
    "probes are ridge regressions on standardised features, of the class token and of the mean of all patch tokens",
)
probe, rank = last("probe"), last("effective_rank")
mean_probe, mean_rank = last(f"probe {MEAN}"), last(f"effective_rank {MEAN}")

study = Study(
    Network("winze/mae_32", rule=DecayedIdentity(0.6), where="encoder.*"),
    Data("cifar10", size=32),
    Training(
        Epochs(800),
        batch=1024,
        optimizer=AdamW(6e-4, betas=(0.9, 0.95), weight_decay=0.05, decay_vectors=False),
        schedule=Cosine(warmup=Epochs(40)),
        objective=MaskedReconstruct(),
        augment=(RandomResizedCrop((0.2, 1.0)), Flip()),
        precision="bf16-mixed",
        drop_last=True,
        evaluate=Epochs(50),
        checkpoint=Epochs(50),
    ),
    Reading("blocks", pool="token"),
    Watching(
        ("rank", "probe"),
        Epochs(50),
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
    "training.evaluate": Epochs(8),
    "training.checkpoint": Epochs(24),
    "watching.every": Epochs(8),
    "watching.probe_samples": 500,
}
smoke = digits | {
    "data": Data("digits", limit=128),
    "training.length": Epochs(2),
    "training.schedule.warmup": Epochs(1),
}
smoke |= {"watching.every": Epochs(1), "training.evaluate": Epochs(1)}
ON_DIGITS = "digits of 8 x 8 with patches of 2, encoder 6 x 32, decoder 3 x 32"


def scales(axes: dict[str, tuple[Any, ...]] | None = None) -> dict[str, Scale]:
    """The four scales of every masked-autoencoder recipe; `axes`: what digits run."""
    return {
        "smoke": Scale(smoke, axes=axes or {}, departures=(f"{ON_DIGITS}, 2 epochs on 128 images",)),
        "cpu": Scale(digits, axes=axes or {}, seeds=3, departures=(f"{ON_DIGITS}, 24 epochs",)),
        "gpu": Scale(
            {"training.length": Epochs(400), "training.schedule.warmup": Epochs(20)},
            seeds=3,
            departures=("400 epochs",),
        ),
        "paper": Scale(seeds=3),
    }


def work(config: Study, bench: Bench) -> None:
    """Train one masked autoencoder; read its encoder by class token, and by the mean of all tokens."""
    prepared = prepare(config, bench)
    learn(prepared, bench)
    store_curve(prepared, bench, ("reconstruction",))
    read(prepared, bench)
    read(prepared, bench, reading=replace(config.reading, pool="mean"), tag=MEAN)
