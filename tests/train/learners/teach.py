"""A generator of synthetic digits, trained through the training of a learner."""

from winze.data import Preprocess, load
from winze.networks import build
from winze.train import Adam, Steps, Training, fit
from winze.train.objectives.teach import Teach


def learn(**rest):
    digits = load("digits", limit=600)
    net = build("winze/generator_dense", side=8, noise=8, hidden=(32,), norm=True, scale=2.0)
    goal = Teach("winze/learner_mlp", {"width": 16, "depth": 1}, pool=20, batch=5, steps=3, lr=0.1, recompute=True)
    training = Training(Steps(32), 64, Adam(0.01), objective=goal, clip=5.0, evaluate=Steps(8), checkpoint=Steps(4))
    return fit(net, digits.train, training, preprocess=Preprocess.of(digits), **rest), {"net": net}
