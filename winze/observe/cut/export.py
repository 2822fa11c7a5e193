"""Export a network as a program that runs without winze: ONNX or `torch.export`."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from winze.modes import unchanged
from winze.observe.passes.cuda_graph import alike
from winze.shape.sums.example import Example

BATCH = 3
"""Samples of the batch that is traced: torch treats batches of 0 and 1 as special."""


class Callee(nn.Module):
    """A network that takes all of its inputs by position; the last ones go to arguments of these names."""

    def __init__(self, net: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.net, self.names = net, names

    def forward(self, *args: Any) -> Any:
        first = len(args) - len(self.names)
        return self.net(*args[:first], **dict(zip(self.names, args[first:], strict=True)))


def to_pt2(net: nn.Module, example: Example) -> bytes:
    """The network as a `torch.export` program, in eval mode, for batches of any size."""
    buffer = io.BytesIO()
    with _quiet():
        torch.export.save(_program(net, example), buffer)
    return buffer.getvalue()


def to_onnx(net: nn.Module, example: Example) -> bytes:
    """The network as an ONNX model, in eval mode, for batches of any size.

    Where ONNX Runtime is installed, its output for another batch is compared with the network's.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(f"writing ONNX needs {error.name}: pip install 'winze[onnx]'") from error
    program = _program(net, example)
    try:
        with _quiet():
            made = torch.onnx.export(program, dynamo=True, verbose=False)
            assert made is not None
            body: bytes = made.model_proto.SerializeToString()
    except Exception as error:
        raise ValueError(f"{type(net).__name__} cannot be written as ONNX: {_first_line(error)}") from error
    _check_onnx(body, net, example)
    return body


def _program(net: nn.Module, example: Example) -> torch.export.ExportedProgram:
    sample = example.with_batch(BATCH)
    batch = torch.export.Dim("batch")

    def axes(leaf: Any) -> Any:
        rows = isinstance(leaf, Tensor) and leaf.ndim > 0 and len(leaf) == BATCH
        return {0: batch} if rows else None

    inputs = (*sample.args, *sample.kwargs.values())
    shapes = {"args": pytree.tree_map(axes, inputs)}
    try:
        with _quiet(), torch.no_grad(), unchanged(net, training=False):
            return torch.export.export(Callee(net, tuple(sample.kwargs)), inputs, dynamic_shapes=shapes)
    except Exception as error:
        raise ValueError(
            f"{type(net).__name__} cannot be exported with batches of any size: {_first_line(error)}"
        ) from error


def _check_onnx(body: bytes, net: nn.Module, example: Example) -> None:
    try:
        import onnxruntime
    except ImportError:
        return
    sample = example.with_batch(BATCH + 2)
    session = onnxruntime.InferenceSession(body, providers=["CPUExecutionProvider"])
    tensors = [leaf for leaf in pytree.tree_leaves((sample.args, sample.kwargs)) if isinstance(leaf, Tensor)]
    given = {told.name: leaf.cpu().numpy() for told, leaf in zip(session.get_inputs(), tensors, strict=True)}
    found = [torch.from_numpy(array) for array in session.run(None, given)]
    with torch.no_grad(), unchanged(net, training=False):
        own = net(*sample.args, **sample.kwargs)
    expected = [leaf.cpu() for leaf in pytree.tree_leaves(own) if isinstance(leaf, Tensor)]
    if not alike(found, expected):
        raise ValueError(f"ONNX Runtime returns other values than {type(net).__name__}: nothing was written")


@contextmanager
def _quiet() -> Iterator[None]:
    """While open, torch's exporters print no advice; errors are still raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
