"""A GAN: points on a circle, judged by their distance to it."""

import math

import torch
from torch import nn

from winze.train import Adam, Adversarial, Objective, Steps, Training, fit


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


def circle(samples):
    angle = 2 * math.pi * torch.rand(samples, generator=torch.Generator().manual_seed(0))
    return torch.stack([angle.cos(), angle.sin()], 1)


def sample(generator, x, y):
    return generator(torch.randn(len(x), 4, device=x.device))


class OnTheCircle(Objective):
    def judge(self, net, x, y):
        generator = torch.Generator(x.device).manual_seed(0)
        fake = net(torch.randn(len(x), 4, generator=generator, device=x.device))
        return {"off": (fake.norm(dim=1) - 1).abs().sum()}


def learn(steps=300, capturable=True, **rest):
    points, rates = circle(512), (Adam(1e-3, betas=(0.5, 0.9)), Adam(1e-3, betas=(0.5, 0.9)))
    update = Adversarial(mlp(4, 2), mlp(2, 1), sample, rates, objective=OnTheCircle(), capturable=capturable)
    training = Training(Steps(steps), 64, evaluate=Steps(100), checkpoint=Steps(30))
    history = fit(update, points, training, tests={"test": points}, **rest)
    return history, {name: update.modules[name] for name in ("generator", "discriminator")}
