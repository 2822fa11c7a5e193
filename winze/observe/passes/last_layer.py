"""The final linear layer of a network, for the measures of neural collapse that need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from winze.measure import ClassMeans
from winze.measure.streaming import moments_table
from winze.observe.passes.feed import Batch


class Seen(NamedTuple):
    """The network's output where it has one row per sample, and the input of the linear layer that made it."""

    logits: Tensor | None
    features: Tensor | None = None


class OutputLayer:
    """Finds the linear layer whose result is the network's output, and accumulates the class means of its input. `name`
    is the layer's; None before it has run, and where the network ends in another layer.
    """

    def __init__(self, net: nn.Module, classes: int) -> None:
        self.classes = classes
        self.name: str | None = None
        self._means: ClassMeans | None = None
        self._gathered: list[tuple[Tensor, Tensor]] = []
        layers = ((module, name) for name, module in net.named_modules() if isinstance(module, nn.Linear))
        # layers of other widths are not watched: what they take and give would stay in memory during the forward
        self._names: dict[nn.Module, str] = {layer: name for layer, name in layers if layer.out_features == classes}
        self._last: tuple[nn.Module, Any, Any] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While open, observe the calls of linear layers with one output per class."""

        def notice(layer: nn.Module, args: Any, output: Any) -> None:
            self._last = layer, args[0] if args else None, output

        handles = [layer.register_forward_hook(notice) for layer in self._names]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def see(self, output: Any, samples: int) -> Seen:
        """Output and last-layer input of the batch that has just run."""
        last, self._last = self._last, None
        logits = logits_of(output, samples)
        if last is None or logits is None or logits.shape[1] != self.classes:
            return Seen(logits)
        layer, features, result = last
        if result is not logits or not isinstance(features, Tensor) or features.ndim != 2:
            return Seen(logits)
        self.name = self._names[layer]
        return Seen(logits, features)

    def add(self, batch: Batch, seen: Seen) -> None:
        """Add a batch, if it went through such a layer."""
        if seen.features is None:
            return
        waits = seen.features.device.type in moments_table.DEVICES  # as moments do, and for the same reason
        self._gathered.append((seen.features.clone() if waits else seen.features, batch.labels))
        if not waits or sum(len(labels) for _, labels in self._gathered) >= moments_table.GATHERED:
            self._take_in()

    @property
    def means(self) -> ClassMeans | None:
        """The class means of all batches so far; None if none went through such a layer."""
        self._take_in()
        return self._means

    def _take_in(self) -> None:
        if not self._gathered:
            return
        features, labels = (torch.cat(parts) for parts in zip(*self._gathered, strict=True))
        self._gathered.clear()
        if self._means is None:
            self._means = ClassMeans(features.shape[1], self.classes, f"what goes into {self.name!r}")
        self._means.update(features, labels)


def logits_of(output: Any, samples: int) -> Tensor | None:
    """A network's output, or its part `logits`, if it has one row per sample."""
    named = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    logits = output if isinstance(output, Tensor) else named
    return logits if isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == samples else None
