"""The residual MLP whose layers are looked at, one by one, on the two-armed spiral."""

from __future__ import annotations

from torch import Tensor, nn

from winze.networks.models.init import check_sizes
from winze.networks.network_error import NetworkError
from winze.shape import Junction

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "sigmoid": nn.Sigmoid,
    "identity": nn.Identity,
}


class SpiralMLP(nn.Module):
    """A narrow residual MLP from points to two classes; every layer is a junction.

        h_0 = W_in x + b_in,   h_l = h_{l-1} + gelu(W_l h_{l-1} + b_l),   logits = W_out h_L + b_out

    `activation` replaces the gelu: "relu", "tanh", "silu", "sigmoid", "identity".
    Weights start as PyTorch's. The toy of ResidualDroppath, arXiv 2411.09475 (there: 6 layers of 6, 32 of 32).
    """

    def __init__(
        self, inputs: int = 2, width: int = 6, depth: int = 6, classes: int = 2, activation: str = "gelu"
    ) -> None:
        super().__init__()
        check_sizes(inputs=inputs, width=width, depth=depth, classes=classes)
        if activation not in ACTIVATIONS:
            raise NetworkError(f"activation is one of {', '.join(map(repr, ACTIVATIONS))}, not {activation!r}")
        self.input = nn.Linear(inputs, width)
        layers = (Junction(nn.Sequential(nn.Linear(width, width), ACTIVATIONS[activation]())) for _ in range(depth))
        self.layers = nn.Sequential(*layers)
        self.output = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.layers(self.input(x.flatten(1))))
