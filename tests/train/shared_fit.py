"""A training that several processes may share; each runs this file as `torchrun` would, and stores what it got."""

import os
import sys
from pathlib import Path

import torch
from torch import nn

from winze import Alternation, Junction, ResidualDropPath
from winze.data import Flip, Noise, PadCrop
from winze.train import SGD, Cosine, Epochs, Hardware, Training, fit

PLAIN = Training(
    Epochs(3),
    batch=16,
    optimizer=SGD(0.05, momentum=0.9, weight_decay=1e-3),
    schedule=Cosine(),
    clip=1.0,
    ema=0.9,
    augment=(PadCrop(1), Flip(), Noise(0.1)),
    precision="64-true",
)
STAGED = Training(Epochs(3), batch=16, optimizer=SGD(0.05, momentum=0.9), precision="64-true")
SAMPLES = {"plain": 53, "staged": 48, "one left over": 33}


def data(samples):
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(samples) % 3
    return torch.rand(samples, 1, 4, 4, generator=generator, dtype=torch.float64) + labels[:, None, None, None], labels


def net():
    torch.manual_seed(0)
    branches = (nn.Sequential(nn.Linear(12, 12), nn.LayerNorm(12), nn.ReLU()) for _ in range(3))
    return nn.Sequential(
        nn.Flatten(), nn.Linear(16, 12), *(Junction(branch) for branch in branches), nn.Linear(12, 3)
    ).double()


def train(name):
    """The weights and losses at the end."""
    torch.set_num_threads(1)
    made, followers = net(), []
    if name == "staged":
        for module in made.modules():
            if isinstance(module, Junction):
                module.rule = ResidualDropPath(0.4, mask="batch")  # one mask for all processes
        followers = [Alternation(made, rows=16, seed=3)]
    hardware = Hardware(accelerator="cpu", threads=1, step="plain")
    training = STAGED if name == "staged" else PLAIN
    tests = {"test": data(17)}
    history = fit(made, data(SAMPLES[name]), training, seed=5, hardware=hardware, followers=followers, tests=tests)
    metrics = {key: [row[key] for row in history.metrics] for key in ("loss", "accuracy", "test_loss")}
    return {**made.state_dict(), **{key: torch.tensor(rows, dtype=torch.float64) for key, rows in metrics.items()}}


if __name__ == "__main__":
    rank, port = sys.argv[2:]
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none"}
    torch.save({name: train(name) for name in SAMPLES}, Path(sys.argv[1], f"rank{rank}.pt"))
