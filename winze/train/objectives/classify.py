"""Classification: softmax cross-entropy, accuracy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from winze.shape import Temperature
from winze.train.objectives.base import Objective, in_float, judged, uncompiled


class CrossEntropy(Objective):
    """Softmax cross-entropy with label smoothing s and temperature T.

        loss = - Σ_c q_c log softmax(logits / T)_c,   q = (1 - s) onehot(y) + s / C

    With `compensate` the loss is multiplied by T. Fewer outputs than the labels have classes are an error, which a GPU
    would report as a device fault. Judged by accuracy, with more than five classes also top-5 accuracy, and by
    cross-entropy without smoothing and temperature.
    """

    capturable = True  # the temperature is a buffer, which `advance` fills

    def __init__(
        self, smoothing: float = 0.0, temperature: Temperature | None = None, compensate: bool = False
    ) -> None:
        super().__init__()
        self.smoothing, self.temperature, self.compensate = smoothing, temperature, compensate
        self.classes = 0  # how many the labels distinguish, as far as they were seen

    def forward(self, net: nn.Module, x: Tensor, y: Tensor | None) -> Tensor:
        logits = _logits(net, x)
        if self.temperature is not None and logits.ndim != 2:
            raise ValueError(
                f"a temperature divides logits [sample, class]; {_name(net)} outputs a tensor of shape "
                f"{tuple(logits.shape)}"
            )
        labels = _fitting(y, logits, net, self.classes)
        if self.temperature is None:
            return F.cross_entropy(logits, labels, label_smoothing=self.smoothing)
        loss = F.cross_entropy(self.temperature(logits), labels, label_smoothing=self.smoothing)
        return loss * self.temperature.temperature if self.compensate else loss

    def judge(self, net: nn.Module, x: Tensor, y: Tensor | None) -> dict[str, Tensor]:
        logits = _logits(net, x)
        labels = None if y is None else class_labels(y)
        labels = _fitting(labels, logits, net, 0 if labels is None else classes_of(labels))
        answers = labels.argmax(1) if labels.is_floating_point() else labels
        best = logits.topk(5 if logits.shape[1] > 5 else 1, 1).indices == answers[:, None]
        each = answers.numel() // len(answers)  # of a map, the mean over its positions counts
        found = {"accuracy": best[:, 0].sum() / each}
        if logits.shape[1] > 5:
            found["top5"] = best.sum() / each
        return found | {"test_loss": F.cross_entropy(logits, labels, reduction="sum") / each}

    def advance(self) -> None:
        if self.temperature is not None:
            self.temperature.step()

    def labels(self, y: Tensor | None) -> Tensor:
        """Whole numbers, or probabilities of all classes; how many classes there are is noted."""
        if y is None:
            raise ValueError(
                "classification needs labels, and the data has none: give (x, y), or an objective without labels"
            )
        whole = class_labels(y)
        self.classes = max(self.classes, classes_of(whole))
        return whole


def evaluate(net: nn.Module, batches: Iterable[Any]) -> float:
    """The accuracy of a network over batches (x, y); the network is left as it was."""
    return judged(net, batches, CrossEntropy())["accuracy"]


def class_labels(labels: Tensor) -> Tensor:
    """Labels as cross-entropy takes them: whole numbers of any type as int64; probabilities of all classes stay."""
    if labels.is_floating_point() and labels.ndim > 1:
        return labels
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"labels are whole numbers from 0, not {labels.dtype}")
    whole = labels.long()
    if whole.ndim == 1 and len(whole) and int(whole.min()) < 0:
        raise ValueError(
            f"labels are whole numbers from 0, but the least is {int(whole.min())}: leave samples without a label out"
        )
    return whole


def classes_of(labels: Tensor) -> int:
    """How many classes the labels distinguish; 0, unknown, of probabilities."""
    return 0 if labels.is_floating_point() or not len(labels) else int(labels.max()) + 1


def _logits(net: nn.Module, x: Tensor) -> Tensor:
    logits = net(x)
    if not isinstance(logits, Tensor):
        raise ValueError(
            f"cross-entropy takes logits [sample, class]; {_name(net)} outputs a {type(logits).__name__}: "
            "give Training an objective= of your own"
        )
    return in_float(logits)


def _fitting(labels: Tensor | None, logits: Tensor, net: nn.Module, classes: int) -> Tensor:
    """The labels, if they fit the outputs; `classes` is how many they distinguish."""
    if labels is None:
        raise ValueError("classification needs labels, and this batch has none")
    wanted = logits.shape if labels.is_floating_point() else (*logits.shape[:1], *logits.shape[2:])
    if tuple(labels.shape) != tuple(wanted):
        raise ValueError(
            f"labels of shape {tuple(labels.shape)} do not fit the outputs {tuple(logits.shape)} of {_name(net)}: give "
            f"one whole number per sample, shape {tuple(wanted)}, or the probabilities of all classes as floats"
        )
    if logits.ndim > 1 and logits.shape[1] < classes:
        raise ValueError(f"labels go up to {classes - 1}, but {_name(net)} outputs {logits.shape[1]} classes")
    return labels


def _name(net: nn.Module) -> str:
    return type(uncompiled(net)).__name__
