"""Multilayer perceptrons: the plain one with a tunnel, and one whose every layer is a junction."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from winze.networks.models.init import check_sizes, started
from winze.networks.network_error import NetworkError
from winze.shape import Junction

Norm = Literal["none", "layer", "batch"]
NORMS: dict[str, type[nn.Module]] = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": nn.BatchNorm1d}


class MLP(nn.Module):
    """MLP-k: k hidden layers and a linear output; whatever comes in is flattened.

        h_0 = x,   h_l = relu(W_l h_{l-1} + b_l),   logits = W_out h_k + b_out

    Weights start as Kaiming's for ReLU, so that eight layers train without normalisation; biases start at zero.
    `alpha` starts the output's weights from U(-alpha, alpha) instead, and `output_norm` puts a norm ("layer", "batch")
    on the logits.
    Masarczyk et al., 2023, arXiv 2305.19753 (there: 3072 inputs, width 1024, k = 6 to 12).
    """

    def __init__(
        self,
        inputs: int = 3072,
        width: int = 1024,
        depth: int = 8,
        classes: int = 10,
        alpha: float | None = None,
        output_norm: Norm = "none",
    ) -> None:
        super().__init__()
        check_sizes(inputs=inputs, width=width, depth=depth, classes=classes)
        if alpha is not None and not alpha > 0:
            raise NetworkError(f"alpha is a positive number, not {alpha}")
        sizes = [inputs] + [width] * depth
        self.layers = nn.Sequential(*(_layer(a, b) for a, b in pairwise(sizes)))
        self.output = started(nn.Linear(width, classes))
        self.norm = _norm(output_norm, classes)
        if alpha is not None:
            nn.init.uniform_(self.output.weight, -alpha, alpha)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.output(self.layers(x.flatten(1))))


class ResidualMLP(nn.Module):
    """A residual MLP: an input layer, `depth` junctions, a linear output; whatever comes in is flattened.

        h_0 = relu(W_in x + b_in),   h_l = h_{l-1} + relu(W_l norm(h_{l-1}) + b_l),   logits = W_out h_L + b_out

    `norm` is "none", "layer" or "batch". The residual layers keep PyTorch's own start, whose small weights let the
    stream pass at first; its shortcuts are winze's own, so that every rule fits.
    """

    def __init__(
        self, inputs: int = 3072, width: int = 1024, depth: int = 12, classes: int = 10, norm: Norm = "none"
    ) -> None:
        super().__init__()
        check_sizes(inputs=inputs, width=width, depth=depth, classes=classes)
        self.input = _layer(inputs, width)
        self.layers = nn.Sequential(*(Junction(_residual_branch(width, norm)) for _ in range(depth)))
        self.output = started(nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.layers(self.input(x.flatten(1))))


def _residual_branch(width: int, norm: Norm) -> nn.Sequential:
    before = [] if norm == "none" else [_norm(norm, width)]
    return nn.Sequential(*before, nn.Linear(width, width), nn.ReLU())


def _norm(norm: Norm, width: int) -> nn.Module:
    if norm not in NORMS:
        raise NetworkError(f"norm is one of {', '.join(map(repr, NORMS))}, not {norm!r}")
    return NORMS[norm](width)


def _layer(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(started(nn.Linear(inputs, width)), nn.ReLU())
