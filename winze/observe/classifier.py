"""The linear layer that a network ends in, for the signs of neural collapse that need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from winze.measure import ClassMeans
from winze.observe.feed import Batch


class Classifier:
    """Watches for a linear layer whose result is the network's, and gathers the class means of what goes into it.

    `name` is the layer's, once it has been seen; None where the network ends in something else.
    """

    def __init__(self, net: nn.Module, classes: int) -> None:
        self.classes = classes
        self.name: str | None = None
        self.means: ClassMeans | None = None
        layers = ((module, name) for name, module in net.named_modules() if isinstance(module, nn.Linear))
        self._names: dict[nn.Module, str] = dict(layers)
        self._last: tuple[nn.Module, Any, Any] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While open, notice the calls of linear layers."""

        def notice(layer: nn.Module, args: Any, output: Any) -> None:
            self._last = layer, args[0] if args else None, output

        handles = [layer.register_forward_hook(notice) for layer in self._names]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def add(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Count a batch that has just run; what went into the layer, where there is one."""
        last, self._last = self._last, None
        if last is None or logits is None or logits.shape[1] != self.classes:
            return None
        layer, features, output = last
        if output is not logits or not isinstance(features, Tensor) or features.ndim != 2:
            return None
        self.name = self._names[layer]
        if self.means is None:
            self.means = ClassMeans(features.shape[1], self.classes, f"what goes into {self.name!r}")
        self.means.update(features, batch.labels)
        return features


def logits_of(output: Any, samples: int) -> Tensor | None:
    """A network's output where it is one row of numbers a sample."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    return logits if isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == samples else None
