"""What synthetic data are compared with: a conditional GAN, and a plain MLP on all real images of each task."""

import torch
from torch import Tensor, nn

from winze.data import Dataset, Preprocess
from winze.lab import Bench
from winze.networks import build
from winze.networks.models.generator import Critic, DenseGenerator, labelled
from winze.train import Adam, Adversarial, Steps, Training, evaluate
from winze.train.seeds import mix, seed_all

RATE = Adam(2e-4, betas=(0.5, 0.999))
GAN = Training(Steps(20_000), batch=128, optimizer=RATE, evaluate=Steps(500), checkpoint=Steps(2000))
MLP = Training(Steps(2000), batch=128, optimizer=Adam(1e-3))


def train_gan(dataset: Dataset, training: Training, bench: Bench) -> DenseGenerator:
    """A conditional GAN on images in [-1, 1], each given as one vector with its class behind it."""
    channels, side, _ = dataset.shape
    classes = len(dataset.classes)
    generator = DenseGenerator(channels, side, classes).to(bench.device)
    critic = Critic(channels * side * side + classes).to(bench.device)
    pixels = dataset.train_images.float() / 127.5 - 1

    def sample(net: nn.Module, x: Tensor, y: Tensor | None) -> Tensor:
        assert y is not None
        return labelled(net(torch.randn(len(x), generator.noise, device=x.device), y), y, classes)

    data = labelled(pixels, dataset.train_labels, classes), dataset.train_labels
    update = Adversarial(generator, critic, sample, (RATE, RATE), capturable=True)
    bench.train(update, data, training, name="gan")
    return generator.eval()


def draw_gan(generator: DenseGenerator, labels: Tensor) -> Tensor:
    """Images of these classes on the scale 0-1."""
    noise = torch.randn(len(labels), generator.noise, device=labels.device)
    return ((generator(noise, labels) + 1) / 2).clamp(0, 1)


def train_mlp(
    dataset: Dataset, preprocess: Preprocess, training: Training, tasks: tuple[int, ...], orders: int, bench: Bench
) -> list[list[float]]:
    """The accuracy on all classes seen, after each task of real images, for each random order of the classes."""
    curves = []
    for number in range(orders):
        seed_all(mix(bench.seed, "order", number))
        order, seen = torch.randperm(len(dataset.classes)).tolist(), 0
        net, curve = build("winze/mlp2x400", len(dataset.classes), inputs=dataset.train_images[0].numel()), []
        for task, size in enumerate(tasks):
            own = torch.isin(dataset.train_labels, torch.tensor(order[seen : seen + size]))
            data = dataset.train_images[own], dataset.train_labels[own]
            bench.train(net, data, training, name=f"mlp-{number}-{task}", preprocess=preprocess)
            seen += size
            known = torch.isin(dataset.test_labels, torch.tensor(order[:seen]))
            tests = preprocess(dataset.test_images[known]), dataset.test_labels[known]
            curve.append(evaluate(net, zip(tests[0].split(500), tests[1].split(500), strict=True)))
        curves.append(curve)
    return curves
