"""Every precision trains, clips, evaluates and resumes; on a machine with a GPU also there."""

from importlib import import_module
from typing import get_args

import pytest
import torch
from torch import nn

from winze.networks import MLP
from winze.train import SGD, AdamW, Checkpoints, Classify, Epochs, Hardware, Training, evaluate, fit
from winze.train.training import Precision

PRECISIONS = get_args(Precision)

POINTS = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
LABELS = (POINTS.sum(1) > 0).long()
DATA = POINTS, LABELS
ON_GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"))
devices = pytest.mark.parametrize("device", ["cpu", ON_GPU])
precisions = pytest.mark.parametrize("precision", PRECISIONS)
# a gradient scaler is where clipping makes a difference
clipped = pytest.mark.parametrize(("precision", "clip"), [("16-mixed", None), *((one, 0.5) for one in PRECISIONS)])


@pytest.fixture(autouse=True)
def half_on_the_cpu(monkeypatch):
    """Fabric takes bf16-mixed for 16-mixed on a CPU; its plugin for 16-mixed works there, with a scaler of its own."""
    from lightning_fabric import Fabric
    from lightning_fabric.plugins import MixedPrecision

    module = import_module("winze.train.fit")
    made = module.make_fabric

    def on_cpu(hardware, precision="32-true"):
        if precision != "16-mixed" or hardware.accelerator != "cpu":
            return made(hardware, precision)
        scaler = torch.amp.GradScaler("cpu", growth_interval=3)  # so that it grows and overflows within a few steps
        return Fabric(accelerator="cpu", devices=1, plugins=[MixedPrecision("16-mixed", "cpu", scaler)])

    monkeypatch.setattr(module, "make_fabric", on_cpu)


def trained(device, precision, clip, epochs=10, optimizer=None, tests=None, checkpoints=None, followers=(), **settings):
    torch.manual_seed(0)
    net = nn.Sequential(MLP(4, 16, 2, 2), nn.Dropout(0.0))
    optimizer = SGD(0.2, momentum=0.9) if optimizer is None else optimizer
    training = Training(Epochs(epochs), 32, optimizer, precision=precision, clip=clip, **settings)
    where = {"hardware": Hardware(device, deterministic=True), "checkpoints": checkpoints}
    return net, fit(net, DATA, training, tests=tests, followers=followers, **where)


def weights(net):
    return torch.cat([value.detach().double().cpu().flatten() for value in net.parameters()])


@devices
@clipped
def test_every_precision_learns_and_evaluates(device, precision, clip):
    net, history = trained(device, precision, clip, tests={"test": DATA})
    assert history.metrics[-1]["accuracy"] > 0.9
    assert evaluate(net, [DATA]) == pytest.approx(history.metrics[-1]["accuracy"], abs=0.02)


@devices
@precisions
@pytest.mark.parametrize("optimizer", [SGD(0.2), AdamW(0.2)], ids=lambda one: type(one).__name__)
def test_clipped_steps_go_as_far_as_in_float32(device, precision, optimizer):
    ends = []
    for one in ("32-true", precision):
        net, _ = trained(device, one, 0.1, epochs=2, optimizer=optimizer)
        ends.append(weights(net))
    torch.manual_seed(0)
    start = weights(MLP(4, 16, 2, 2))
    moved, expected = (float((end - start).norm()) for end in reversed(ends))
    assert moved == pytest.approx(expected, rel=0.4)


@devices
@clipped
def test_every_precision_resumes_bit_for_bit(device, precision, clip, tmp_path):
    def stop(net, step):
        if step == 20:
            raise KeyboardInterrupt

    ema = None if precision == "bf16-true" else 0.5
    hot = {"objective": Classify(temperature=0.02), "optimizer": SGD(0.002, momentum=0.9), "ema": ema}
    whole, _ = trained(device, precision, clip, **hot)
    with pytest.raises(KeyboardInterrupt):
        trained(device, precision, clip, checkpoints=Checkpoints(tmp_path), followers=[stop], **hot)
    assert Checkpoints(tmp_path).newest().step == 16
    resumed, _ = trained(device, precision, clip, checkpoints=Checkpoints(tmp_path), **hot)
    assert torch.equal(weights(resumed), weights(whole))


@devices
def test_the_scale_of_half_precision_is_part_of_a_checkpoint(device, tmp_path):
    hot = {"objective": Classify(temperature=1e-4), "optimizer": SGD(1e-6, momentum=0.9)}
    trained(device, "16-mixed", 0.5, checkpoints=Checkpoints(tmp_path), **hot)
    kept = Checkpoints(tmp_path).newest().state["scaler"]
    assert kept["scale"] != 65536.0  # the one it starts from
