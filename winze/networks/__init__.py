"""Networks: our own, those of timm and torchvision by name, and weights from files."""

from winze.networks.errors import NetworkError
from winze.networks.mlp import MLP, ResidualMLP
from winze.networks.named import SYNTAX, build, describe
from winze.networks.published import Published, head_of, published
from winze.networks.weights import load_weights, read_weights

__all__ = [
    "MLP",
    "SYNTAX",
    "NetworkError",
    "Published",
    "ResidualMLP",
    "build",
    "describe",
    "head_of",
    "load_weights",
    "published",
    "read_weights",
]
