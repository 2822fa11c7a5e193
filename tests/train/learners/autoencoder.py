"""An autoencoder, judged by reconstruction."""

import torch.nn.functional as F
from torch import nn

from winze.data import Preprocess, load
from winze.train import AdamW, Cosine, Epochs, Objective, Steps, Training, fit


class Autoencoder(nn.Module):
    def __init__(self, inputs=64, code=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, code))
        self.decoder = nn.Sequential(nn.Linear(code, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, inputs))

    def forward(self, x):
        return self.decoder(self.encoder(x)).view_as(x)


class Reconstruction(Objective):
    capturable = True

    def forward(self, net, x, y):
        return F.mse_loss(net(x), x)

    def judge(self, net, x, y):
        return {"reconstruction": (net(x) - x).square().flatten(1).mean(1).sum()}

    def view(self, net):
        return net.encoder


def learn(**rest):
    digits, net = load("digits", limit=600), Autoencoder()
    training = Training(
        Epochs(4), 64, AdamW(0.01), Cosine(), Reconstruction(), ema=0.9, evaluate=Steps(7), checkpoint=Steps(4)
    )
    history = fit(net, digits.train, training, preprocess=Preprocess.of(digits), tests={"test": digits.test}, **rest)
    return history, {"net": net}
