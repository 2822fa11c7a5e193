"""Captured steps against plain ones; on a machine with a GPU."""

import pytest
import torch
from torch import nn

from winze import Alternation, DropPath, ResidualDropPath, rewire
from winze.data import ColourJitter, Flip, PadCrop, Preprocess
from winze.networks import build
from winze.train import SGD, Adam, AdamW, Checkpoints, Cosine, Epochs, Hardware, Training, fit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")

DRAW = torch.Generator().manual_seed(0)
IMAGES = torch.randint(0, 256, (200, 3, 16, 16), dtype=torch.uint8, generator=DRAW)
LABELS = torch.randint(10, (200,), generator=DRAW)
PREPROCESS = Preprocess(None, (0.5,) * 3, (0.25,) * 3)
AUGMENT = (PadCrop(2), Flip(), ColourJitter())


def network(rule=None, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    net = build("winze/resnet20", 10)
    if dropout:
        net = nn.Sequential(net, nn.Dropout(dropout), nn.Linear(10, 10))
    return net if rule is None else rewire(net, rule)


def trained(net: nn.Module, step: str, epochs=3, checkpoints=None, followers=(), **kwargs):
    settings = {"optimizer": SGD(0.05, momentum=0.9), "augment": AUGMENT, "schedule": Cosine()} | kwargs
    if any(getattr(getattr(m, "rule", None), "staged", False) for m in net.modules()):
        followers = [Alternation(net, rows=64), *followers]
    history = fit(
        net, (IMAGES, LABELS), Training(Epochs(epochs), 64, **settings), preprocess=PREPROCESS,
        checkpoints=checkpoints, hardware=Hardware("cuda", step=step, deterministic=True), followers=followers,
    )  # fmt: skip
    return history, torch.cat([value.detach().double().flatten().cpu() for value in net.state_dict().values()])


@pytest.mark.parametrize("optimizer", [SGD(0.05, momentum=0.9), Adam(0.05), AdamW(0.05)], ids=str)
def test_a_captured_training_is_the_plain_one_bit_for_bit(optimizer):
    plain, weights = trained(network(), "plain", optimizer=optimizer)
    graph, again = trained(network(), "graph", optimizer=optimizer)
    assert torch.equal(weights, again)
    assert plain.losses == graph.losses


@pytest.mark.parametrize(
    "extra", [{"clip": 0.5}, {"ema": 0.9}, {"repeat": 2}, {"precision": "bf16-mixed", "channels_last": True}]
)
def test_clipping_averages_repeats_and_half_precision_can_be_captured(extra):
    assert torch.equal(trained(network(), "plain", **extra)[1], trained(network(), "graph", **extra)[1])


def test_dropout_is_the_same_in_both():
    assert torch.equal(trained(network(dropout=0.5), "plain")[1], trained(network(dropout=0.5), "graph")[1])


@pytest.mark.parametrize(
    "rule",
    [
        DropPath(0.5),
        ResidualDropPath(0.5),
        ResidualDropPath(0.5, frozen="weights"),
        ResidualDropPath(0.5, mask="batch", compute="dense"),
        ResidualDropPath(0.5, frozen="weights", mask="batch", compute="dense"),
        ResidualDropPath(0.5, draw="count"),
    ],
)
def test_rules_with_masks_can_be_captured(rule):
    torch.testing.assert_close(trained(network(rule), "plain")[1], trained(network(rule), "graph")[1])


def test_a_captured_training_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    class Stop(BaseException):
        pass

    def stop(net, step):
        if step == 10:
            raise Stop

    with pytest.raises(Stop):
        trained(network(), "graph", checkpoints=Checkpoints(tmp_path), followers=[stop], epochs=4)
    assert Checkpoints(tmp_path).newest().step == 8
    resumed = trained(network(), "graph", checkpoints=Checkpoints(tmp_path), epochs=4)
    whole = trained(network(), "graph", epochs=4)
    assert torch.equal(resumed[1], whole[1])
    assert resumed[0].metrics == whole[0].metrics


def test_a_captured_step_leaves_no_trace_of_its_warm_up():
    net, before = network(), network()
    training, hardware = Training(Epochs(1), 64, SGD(1e-30)), Hardware("cuda", step="graph")
    fit(net, (IMAGES, LABELS), training, preprocess=PREPROCESS, hardware=hardware)
    for now, then in zip(net.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(now.cpu(), then, rtol=0, atol=1e-25)
    assert {int(value) for name, value in net.named_buffers() if name.endswith("num_batches_tracked")} == {4}
