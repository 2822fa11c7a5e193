"""Something to feed a network with, so that its forwards can be read: given by the user, or worked out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from winze.memory import is_out_of_memory

BATCH = 2
SMALL = 96
T = TypeVar("T")


class Example:
    """The arguments of one call of a network, with a batch size that can be changed."""

    def __init__(self, given: Any) -> None:
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        if isinstance(given, dict):
            self.kwargs = dict(given)
        elif isinstance(given, tuple | list):
            self.args = tuple(given)
        elif isinstance(given, Tensor):
            self.args = (given,)
        else:
            raise TypeError(
                "example= takes a tensor, a tuple of arguments or a dict of keyword arguments, "
                f"not {type(given).__name__}"
            )

    @property
    def batch(self) -> int:
        """The number of samples: the first axis of the first tensor."""
        sizes = [t.shape[0] for t in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(t, Tensor) and t.ndim]
        if not sizes:
            raise ValueError("example= holds no tensor with a batch axis")
        return int(sizes[0])

    def copied(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for one call: whatever the network does to tensors, caches and lists, the example stays."""
        held, copies = {id(t): t.detach().clone() for t in self.tensors}, copy.deepcopy
        return copies((self.args, self.kwargs), memo=dict(held))

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return [t for t in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(t, Tensor)]

    def with_batch(self, size: int) -> Example:
        """The same call with `size` samples, repeated from the first ones."""
        batch = self.batch

        def sized(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or leaf.ndim == 0 or leaf.shape[0] != batch:
                return leaf
            return leaf[torch.arange(size, device=leaf.device) % batch]

        copied = Example(())
        copied.args, copied.kwargs = pytree.tree_map(sized, (self.args, self.kwargs))
        return copied


def accepted(net: nn.Module, given: Any, use: Callable[[Example], T]) -> T:
    """`use` on the given example, or on the first guess, from the network's configuration and layers, that it takes."""
    if given is not None:
        example = Example(given)
        try:
            return use(example)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise ValueError(
                f"{type(net).__name__} does not take this example: {type(error).__name__}: {error}"
            ) from error
    tried = []
    for guess in _guesses(_unwrapped(net)):
        try:
            return use(Example(guess))
        except Exception as error:
            tried.append(f"{_describe(guess)}: {type(error).__name__}")
    raise ValueError(
        f"no input could be worked out for {type(net).__name__}"
        + (f" (tried {'; '.join(tried)})" if tried else "")
        + ": pass example=, a batch that it takes (a tensor, a tuple, or a dict of keyword arguments)"
    )


def small(net: nn.Module) -> Example | None:
    """Images of 96 pixels for a torchvision network, most of which take any size: a fifth of the work of 224 pixels."""
    net = _unwrapped(net)
    first = next((layer for layer in net.modules() if isinstance(layer, nn.Conv2d | nn.Conv3d)), None)
    if not type(net).__module__.startswith("torchvision") or not isinstance(first, nn.Conv2d):
        return None
    return Example(_noise(net, first.in_channels, SMALL, SMALL))


def _unwrapped(net: nn.Module) -> nn.Module:
    while True:
        inner = net._modules.get("module") or net._modules.get("_orig_mod")
        if inner is None:
            return net
        net = inner


def _guesses(net: nn.Module) -> Iterator[Any]:
    yield from _from_patches(net)
    yield from _from_timm(net)
    yield from _from_transformers(net)
    yield from _from_first_layer(net)


def _from_patches(net: nn.Module) -> Iterator[Any]:
    """Transformers that cut images of one size into patches store it."""
    cutter = getattr(net, "patch_embed", None)
    size, projection = (getattr(cutter, name, None) for name in ("img_size", "proj"))
    if size is not None and isinstance(projection, nn.Conv2d):
        yield _noise(net, projection.in_channels, *(size if isinstance(size, list | tuple) else (size, size)))


def _from_timm(net: nn.Module) -> Iterator[Any]:
    config = getattr(net, "pretrained_cfg", None) or getattr(net, "default_cfg", None)
    if isinstance(config, dict) and "input_size" in config:
        channels, *shape = config["input_size"]
        first = next((layer for layer in net.modules() if isinstance(layer, nn.Conv2d)), None)
        for seen in dict.fromkeys((channels if first is None else first.in_channels, channels)):
            yield _noise(net, seen, *shape)


def _from_transformers(net: nn.Module) -> Iterator[Any]:
    config = getattr(net, "config", None)
    if config is None or not hasattr(net, "main_input_name"):
        return
    if net.main_input_name == "pixel_values":
        size = getattr(config, "image_size", 224)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        yield {"pixel_values": _noise(net, getattr(config, "num_channels", 3), height, width)}
    tokens = torch.arange(8, device=_device(net)).repeat(BATCH, 1) % getattr(config, "vocab_size", 8)
    if net.main_input_name == "input_values":
        yield from ({"input_values": _noise(net, length)} for length in (400, 4000))
    if net.main_input_name == "input_features":
        frames = 2 * getattr(config, "max_source_positions", 1500)
        features = _noise(net, getattr(config, "num_mel_bins", 80), frames)
        yield {"input_features": features, "decoder_input_ids": tokens}
        yield {"input_features": features}
    yield {"input_ids": tokens}
    yield {"input_ids": tokens, "decoder_input_ids": tokens}


def _from_first_layer(net: nn.Module) -> Iterator[Any]:
    """What the layers take: convolutions, else embeddings, else one linear layer after the other."""
    layers = list(net.modules())
    images = dict.fromkeys(layer.in_channels for layer in layers if isinstance(layer, nn.Conv2d))
    sizes = (224, 299) if type(net).__module__.startswith("torchvision") else (32, 64, 224, 28, 299)
    yield from (_noise(net, channels, size, size) for channels in list(images)[:4] for size in sizes)
    for layer in layers:
        if isinstance(layer, nn.Conv1d | nn.Conv3d):
            yield _noise(net, layer.in_channels, *((64,) if isinstance(layer, nn.Conv1d) else (16, 32, 32)))
            break
    for layer in layers:
        if isinstance(layer, nn.Embedding):
            yield torch.arange(8, device=_device(net)).repeat(BATCH, 1) % layer.num_embeddings
    for width in dict.fromkeys(layer.in_features for layer in layers if isinstance(layer, nn.Linear)):
        yield _noise(net, width)
        yield _noise(net, 8, width)
    for layer in layers:
        if isinstance(layer, nn.LayerNorm):
            yield _noise(net, 8, *layer.normalized_shape)


def _noise(net: nn.Module, *shape: int) -> Tensor:
    dtype = next((p.dtype for p in net.parameters() if p.is_floating_point()), torch.get_default_dtype())
    generator = torch.Generator().manual_seed(0)
    return torch.randn(BATCH, *shape, generator=generator).to(_device(net), dtype)


def _device(net: nn.Module) -> torch.device:
    return next((p.device for p in net.parameters()), torch.device("cpu"))


def _describe(guess: Any) -> str:
    return str({k: tuple(v.shape) for k, v in guess.items()} if isinstance(guess, dict) else tuple(guess.shape))
