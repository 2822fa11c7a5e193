"""How the features of an encoder are judged: linear probes by two published protocols, neighbours, fine-tuning.

LINEAR["imagenet100"].fit(net.encoder, dataset.train, dataset.test, preprocess=preprocess)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from winze.data import Flip, Preprocess, RandomResizedCrop
from winze.measure import Value, knn_accuracy
from winze.modes import unchanged
from winze.train.fit import History, fit
from winze.train.hardware import Hardware, device_of
from winze.train.training import AdamW, Classify, Cosine, CosineAfterWarmup, Epochs, Lars, Training

Labelled = tuple[Tensor, Tensor]
TokenPool = Literal["token", "mean"]
AT_ONCE = 500  # images that go through an encoder at once
SCALED = 256  # the batch for which published learning rates are given


@dataclass(frozen=True)
class LinearProbe:
    """A linear classifier trained on the frozen features of an encoder.

    `norm`: features go through a BatchNorm without learned parameters first. `scaled`: where the data have fewer
    samples than a batch, the learning rate shrinks with the batch. Without augmentation every image goes through the
    encoder once; with it, at every step.
    """

    training: Training
    norm: bool = False
    scaled: bool = False

    def fit(
        self,
        encoder: nn.Module,
        train: Labelled,
        test: Labelled,
        *,
        preprocess: Preprocess | None = None,
        pool: TokenPool = "token",
        seed: int = 0,
        hardware: Hardware | None = None,
        progress: bool | None = None,
    ) -> History:
        """Train the classifier; the last row of the history's metrics has its test `accuracy`."""
        classes = int(max(train[1].max(), test[1].max())) + 1
        with unchanged(encoder.to(device_of(hardware)), training=False):
            width = features_of(encoder, train[0][:2], preprocess=preprocess, pool=pool).shape[1]
            torch.manual_seed(seed)
            head = linear_head(width, classes, self.norm)
            net, training = self._classifier(encoder, head, pool, self.for_samples(len(train[1])))
            if net.frozen and not training.augment:
                train, test = (
                    (features_of(encoder, x, preprocess=preprocess, pool=pool), labels) for x, labels in (train, test)
                )
                net, preprocess = head, None
            own: Any = {"seed": seed, "hardware": hardware, "progress": progress}
            return fit(net, train, training, tests={"test": test}, preprocess=preprocess, **own)

    def _classifier(
        self, encoder: nn.Module, head: nn.Module, pool: TokenPool, training: Training
    ) -> tuple[Any, Training]:
        return Classifier(encoder, head, pool, frozen=True), training

    def for_samples(self, samples: int) -> Training:
        """The training on so many samples: a batch holds no more than there are."""
        training, batch = self.training, min(self.training.batch, samples)
        share = batch / training.batch if self.scaled else 1.0
        optimizer = replace(training.optimizer, lr=training.optimizer.lr * share)
        return replace(training, batch=batch, optimizer=optimizer)


LINEAR: Mapping[str, LinearProbe] = {
    "imagenet1k": LinearProbe(
        Training(
            Epochs(90),
            batch=16384,
            # timm adapts the rate of decayed weights alone: this decay turns it on for matrices, and changes nothing
            optimizer=Lars(0.1 * 16384 / SCALED, 1e-12, decay_vectors=False, momentum=0.9),
            schedule=CosineAfterWarmup(warmup=Epochs(10)),
            augment=(RandomResizedCrop(), Flip()),
            evaluate=Epochs(90),
            checkpoint=Epochs(90),
        ),
        norm=True,
        scaled=True,
    ),
    "imagenet100": LinearProbe(
        Training(
            Epochs(200),
            batch=1024,
            optimizer=AdamW(1e-2, 1e-2),
            schedule=Cosine(),
            evaluate=Epochs(200),
            checkpoint=Epochs(200),
        )
    ),
}
"""the paper's protocols for ImageNet-1k (BatchNorm and LARS) and for ImageNet-100 (AdamW without augmentation)"""


TUNING = Training(
    Epochs(100),
    batch=1024,
    optimizer=AdamW(5e-4 * 1024 / SCALED, 0.05, decay_vectors=False),
    schedule=CosineAfterWarmup(warmup=Epochs(5)),
    objective=Classify(smoothing=0.1),
    augment=(RandomResizedCrop(), Flip()),
    evaluate=Epochs(10),
    checkpoint=Epochs(100),
)


@dataclass(frozen=True)
class FineTune(LinearProbe):
    """A copy of an encoder that has `blocks`, trained with a classifier on top, early layers at a lower learning rate.

        lr_l = lr decay^(L - l),   l = 0 for the embedding, 1 ... L - 1 for the blocks, L for the classifier

    Branches are dropped with a probability that rises linearly over the blocks to `drop_path`. The published recipe
    has RandAugment, mixup, CutMix and random erasing on top, which this one leaves out.
    """

    training: Training = TUNING
    scaled: bool = True
    layer_decay: float = 0.65
    drop_path: float = 0.1

    def _classifier(
        self, encoder: nn.Module, head: nn.Module, pool: TokenPool, training: Training
    ) -> tuple[Any, Training]:
        own = deepcopy(encoder).train()
        _drop_branches(own, self.drop_path)
        optimizer = replace(training.optimizer, rates=self.rates(own))
        return Classifier(own, head, pool), replace(training, optimizer=optimizer)

    def rates(self, encoder: nn.Module) -> tuple[tuple[str, float], ...]:
        """The factor on the learning rate of every layer, as optimizers take it."""
        last = len(_blocks(encoder)) + 1
        blocks = tuple((f"encoder.blocks.{spot}.*", self.layer_decay ** (last - 1 - spot)) for spot in range(last - 1))
        after = (("encoder.norm.*", 1.0),) if any(True for _ in encoder.get_submodule("norm").parameters()) else ()
        return (*blocks, *after, ("encoder.*", self.layer_decay**last))


def neighbours(
    encoder: nn.Module,
    train: Labelled,
    test: Labelled,
    *,
    preprocess: Preprocess | None = None,
    pool: TokenPool = "token",
    count: int = 20,
) -> Value:
    """The test accuracy of a vote of the nearest training images in an encoder's features."""
    known, asked = (features_of(encoder, one, preprocess=preprocess, pool=pool) for one in (train[0], test[0]))
    return knn_accuracy(known, train[1], asked, test[1], min(count, len(known)))


@torch.no_grad()
def features_of(
    encoder: nn.Module, images: Tensor, *, preprocess: Preprocess | None = None, pool: TokenPool = "token"
) -> Tensor:
    """The features [sample, feature] of images: the class token of the encoder's last tokens, or the mean of all."""
    device = next(encoder.parameters()).device
    with unchanged(encoder, training=False):
        parts = images.split(AT_ONCE)
        inputs = (one.to(device) if preprocess is None else preprocess(one.to(device)) for one in parts)
        return torch.cat([pooled_tokens(encoder(one), pool).float() for one in inputs])


def pooled_tokens(tokens: Tensor, pool: TokenPool) -> Tensor:
    """Tokens [sample, token, feature] as one row per sample; rows [sample, feature] stay."""
    if pool not in ("token", "mean"):
        raise ValueError(f"pool is 'token' or 'mean', not {pool!r}")
    if tokens.ndim == 2:
        return tokens
    if tokens.ndim != 3:
        raise ValueError(f"an encoder gives tokens [sample, token, feature] or rows, not {tuple(tokens.shape)}")
    return tokens[:, 0] if pool == "token" else tokens.mean(1)


def linear_head(width: int, classes: int, norm: bool) -> nn.Module:
    """A linear classifier with weights of N(0, 0.01²), behind a BatchNorm without parameters with `norm`."""
    layer = nn.Linear(width, classes)
    nn.init.trunc_normal_(layer.weight, std=0.01)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.BatchNorm1d(width, affine=False, eps=1e-6), layer) if norm else layer


class Classifier(nn.Module):
    """A classifier on the tokens of an encoder; a frozen encoder is no part of it: neither trained nor stored."""

    def __init__(self, encoder: nn.Module, head: nn.Module, pool: TokenPool, frozen: bool = False) -> None:
        super().__init__()
        self._run, self.frozen = encoder.__call__, frozen
        if not frozen:
            self.encoder = encoder
        self.head, self.pool = head, pool

    def forward(self, images: Tensor) -> Tensor:
        with torch.no_grad() if self.frozen else nullcontext():
            tokens = self._run(images)
        logits: Tensor = self.head(pooled_tokens(tokens, self.pool).float())
        return logits


def _blocks(encoder: nn.Module) -> list[nn.Module]:
    blocks = getattr(encoder, "blocks", None)
    if not isinstance(blocks, nn.Module):
        raise ValueError(f"fine-tuning by layers needs an encoder with `blocks`; {type(encoder).__name__} has none")
    return list(blocks.children())


def _drop_branches(encoder: nn.Module, most: float) -> None:
    """Give timm's blocks a DropPath in their branches, rising linearly over depth."""
    from timm.layers.drop import DropPath

    blocks = _blocks(encoder)
    for spot, block in enumerate(blocks):
        rate = most * spot / max(1, len(blocks) - 1)
        for name in ("drop_path1", "drop_path2"):
            if rate and hasattr(block, name):
                setattr(block, name, DropPath(rate))
