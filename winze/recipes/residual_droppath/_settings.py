"""The training of the paper, and the rules that it compares."""

from typing import Any

from winze.data import ColourJitter, Flip, RandomResizedCrop
from winze.shape import DropPath, ResidualDropPath, Rule
from winze.train import SGD, Classify, Cosine, Epochs, Training

ABOUT: dict[str, Any] = {"system": "S1", "url": "https://arxiv.org/abs/2411.09475"}
PAPER = "ResidualDroppath: Enhancing Feature Reuse over Residual Connections (2024)"
STAND_IN = "digits and a small ResNet stand in for the paper's data and networks"
RULES: dict[str, Rule | None] = {  # dense: a captured step cannot look at a mask, and BatchNorm needs the whole batch
    "standard": None,
    "droppath": DropPath(compute="dense"),
    "output_sample": ResidualDropPath(frozen="output", mask="sample", compute="dense"),  # Algorithm 1 to the letter
    "output_batch": ResidualDropPath(frozen="output", mask="batch", compute="dense"),
    "weights_sample": ResidualDropPath(frozen="weights", mask="sample", compute="dense"),
    "weights_batch": ResidualDropPath(frozen="weights", mask="batch", compute="dense"),
}
TIMM = Training(  # timm's defaults at a batch of 128
    Epochs(300),
    optimizer=SGD(0.05, momentum=0.9, nesterov=True, weight_decay=2e-5, decay_vectors=False),
    schedule=Cosine(warmup=Epochs(5), warmup_lr=1e-5, per="epoch"),
    objective=Classify(smoothing=0.1),
    augment=(RandomResizedCrop(), Flip(), ColourJitter()),
    drop_last=True,
    precision="bf16-mixed",
    channels_last=True,
    evaluate=Epochs(20),
    checkpoint=Epochs(20),
)


def lasting(epochs: float, warmup: float, evaluate: float, checkpoint: float) -> dict[str, Any]:
    """The settings of a training of so many epochs."""
    lengths = {"schedule.warmup": warmup, "length": epochs, "evaluate": evaluate, "checkpoint": checkpoint}
    return {f"training.{name}": Epochs(count) for name, count in lengths.items()}


plain = {"training.augment": (), "training.precision": "32-true", "training.channels_last": False}
DIGITS = plain | lasting(12, 2, 2, 12) | {"training.batch": 64}
SMOKE = plain | lasting(1, 0, 2, 1) | {"training.batch": 32, "data.limit": 100}
