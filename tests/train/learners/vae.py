"""A variational autoencoder whose KL term is warmed up by a counter in Python."""

import torch
import torch.nn.functional as F
from torch import nn

from winze.data import Preprocess, load
from winze.train import Adam, Epochs, Objective, Steps, Training, fit


class VAE(nn.Module):
    def __init__(self, inputs=64, code=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 2 * code))
        self.decoder = nn.Sequential(nn.Linear(code, 32), nn.ReLU(), nn.Linear(32, inputs))

    def encode(self, x):
        return self.encoder(x).chunk(2, 1)

    def forward(self, x):
        mean, log_variance = self.encode(x)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        return self.decoder(code).view_as(x), mean, log_variance


class Elbo(Objective):
    def __init__(self, warmup=50):
        super().__init__()
        self.warmup, self.done = warmup, 0

    def forward(self, net, x, y):
        found, mean, log_variance = net(x)
        kl = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        beta = min(1.0, self.done / self.warmup)
        return {"reconstruction": F.mse_loss(found, x, reduction="sum") / len(x), "kl": beta * kl}

    def judge(self, net, x, y):
        found = net.decoder(net.encode(x)[0]).view_as(x)
        return {"reconstruction": (found - x).square().flatten(1).mean(1).sum()}

    def view(self, net):
        return net.encoder

    def advance(self):
        self.done += 1

    def get_extra_state(self):
        return self.done

    def set_extra_state(self, state):
        self.done = state


def learn(objective=Elbo, **rest):
    digits, net = load("digits", limit=600), VAE()
    training = Training(Epochs(4), 64, Adam(0.005), objective=objective(), evaluate=Epochs(2), checkpoint=Steps(4))
    history = fit(net, digits.train, training, preprocess=Preprocess.of(digits), tests={"test": digits.test}, **rest)
    return history, {"net": net}
