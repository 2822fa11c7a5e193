"""Networks: our own, those of timm and torchvision by name, and weights from files."""

from winze.networks.build import SYNTAX, build, describe, options_for
from winze.networks.fingerprint import ANSWERS, answers, begun_fingerprint, difference, fingerprint
from winze.networks.heads import Heads, give_heads
from winze.networks.models.mlp import MLP, ResidualMLP
from winze.networks.models.resnet import ResNet
from winze.networks.models.spiral_mlp import SpiralMLP
from winze.networks.models.vgg import VGG
from winze.networks.network_error import NetworkError
from winze.networks.own_weights import OwnWeights, all_trained, trained
from winze.networks.published import Published, head_of, published
from winze.networks.stored import build_stored
from winze.networks.untrained import is_untrained
from winze.networks.unwrap import interpreted, unwrapped
from winze.networks.weights import load_weights, read_weights

__all__ = [
    "ANSWERS",
    "MLP",
    "SYNTAX",
    "VGG",
    "Heads",
    "NetworkError",
    "OwnWeights",
    "Published",
    "ResNet",
    "ResidualMLP",
    "SpiralMLP",
    "all_trained",
    "answers",
    "begun_fingerprint",
    "build",
    "build_stored",
    "describe",
    "difference",
    "fingerprint",
    "give_heads",
    "head_of",
    "interpreted",
    "is_untrained",
    "load_weights",
    "options_for",
    "published",
    "read_weights",
    "trained",
    "unwrapped",
]
