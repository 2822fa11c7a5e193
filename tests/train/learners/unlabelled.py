"""A denoiser of images without labels, for a number of steps that ends within an epoch."""

import torch
import torch.nn.functional as F
from torch import nn

from winze.data import Flip, Preprocess, load
from winze.train import AdamW, Constant, Objective, Steps, Training, fit


class Denoising(Objective):
    capturable = True

    def forward(self, net, x, y):
        assert y is None
        return F.mse_loss(net(x + 0.5 * torch.randn_like(x)), x)

    def judge(self, net, x, y):
        return {"error": (net(x) - x).square().flatten(1).mean(1).sum()}


def learn(**rest):
    digits = load("digits", limit=600)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    training = Training(
        Steps(50), 64, AdamW(0.01), Constant(warmup=Steps(5)), Denoising(), augment=(Flip(),), evaluate=Steps(20),
        checkpoint=Steps(6), repeat=2,
    )  # fmt: skip
    preprocess = Preprocess.of(digits)
    tests = {"test": digits.test_images, "train": digits.train_images[:100]}
    return fit(net, digits.train_images, training, preprocess=preprocess, tests=tests, **rest), {"net": net}
