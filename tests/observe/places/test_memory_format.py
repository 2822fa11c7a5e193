"""How images lie in memory changes how long a scan takes, and nothing else."""

import platform

import numpy as np
import pytest
import torch
from torch import nn

import winze
from winze.measure import linear_cka
from winze.networks import build
from winze.observe.places.memory_format import by_pixel, is_quicker_by_pixel
from winze.observe.places.pooling import UNORDERED, Layout, pooled

CPU = torch.device("cpu")
x86 = pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="images stay as they come")


def random_images(n=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, 16, 16, generator=generator), torch.arange(n) % 3


def convolutional():
    torch.manual_seed(0)
    return build("winze/resnet20x0.5", 3).eval()


class Viewing(nn.Module):
    """Takes its features apart by `view`, which wants them channel by channel."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2)
        self.output = nn.Linear(4 * 7 * 7, 3)

    def forward(self, x):
        return self.output(self.conv(x).relu().view(len(x), -1))


def formats_seen(net):
    """Whether each whole batch came in channels-last format; trial runs of a few samples do not count."""
    seen = []
    net.register_forward_pre_hook(lambda _, args: seen.append(args[0].stride(1) == 1) if len(args[0]) == 60 else None)
    return seen


@x86
def test_a_scan_gives_convolutions_images_pixel_by_pixel_and_reads_the_same(monkeypatch):
    net = convolutional()
    seen = formats_seen(net)
    quick = winze.scan(net, random_images(), random_images(seed=1), progress=False)
    assert seen
    assert all(seen)
    assert quick.readings.conventions["memory_format"] == "channels last"
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    seen.clear()
    slow = winze.scan(net, random_images(), random_images(seed=1), progress=False)
    assert not any(seen)
    assert slow.readings.conventions["memory_format"] == "as given"
    for measure in ("probe", "effective_rank", "intra_variance"):
        np.testing.assert_allclose(quick.curve(measure), slow.curve(measure), rtol=1e-4, atol=1e-5)
    assert all(weight.is_contiguous() for weight in net.parameters())


def test_a_network_that_takes_images_only_as_they_come_gets_them_so():
    net = Viewing().eval()
    seen = formats_seen(net)
    scan = winze.scan(net, random_images(), random_images(seed=1), progress=False)
    assert scan.readings.conventions["memory_format"] == "as given"
    assert len(scan.curve("probe"))
    assert not any(seen[-2:])


def test_an_error_that_has_nothing_to_do_with_it_is_told_as_such():
    class Broken(Viewing):
        def forward(self, x):
            raise RuntimeError("no such luck")

    with pytest.raises(ValueError, match="no such luck"):
        winze.scan(Broken().eval(), random_images(), random_images(seed=1), progress=False)


def test_images_stay_as_they_come_where_nothing_is_won(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    assert is_quicker_by_pixel(convolutional(), CPU, "mean")
    assert not is_quicker_by_pixel(nn.Linear(3, 3), CPU, "mean")
    assert is_quicker_by_pixel(convolutional(), torch.device("cuda"), "mean")
    assert is_quicker_by_pixel(nn.Conv2d(3, 4, 1), CPU, "mean")
    assert not is_quicker_by_pixel(nn.Conv2d(3, 4, 16, 16), CPU, "mean")  # the patches of a transformer
    assert not is_quicker_by_pixel(convolutional(), torch.device("meta"), "mean")
    assert not is_quicker_by_pixel(convolutional(), CPU, "flatten")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert not is_quicker_by_pixel(convolutional(), CPU, "mean")


def test_only_batches_of_images_are_turned():
    given = {"image": torch.zeros(2, 3, 4, 4), "ids": torch.zeros(2, 3, 4, 4).long(), "text": torch.zeros(2, 5)}
    found = by_pixel(given)
    assert found["image"].stride() == (48, 1, 12, 3)
    assert found["ids"] is given["ids"]
    assert found["text"] is given["text"]


@pytest.mark.parametrize(
    ("output", "layout"),
    [
        (torch.randn(4, 3, 5, 5), Layout(1)),
        (torch.randn(4, 3, 5, 5).contiguous(memory_format=torch.channels_last), Layout(1)),
        (torch.randn(4, 5, 5, 3), Layout(3)),
        (torch.randn(4, 7, 3), Layout(2)),
        (torch.randn(4, 3), Layout(1)),
        (torch.randn(8, 5, 3), Layout(2, scale=2)),
    ],
)
def test_unordered_features_are_all_of_them_without_a_copy(output, layout):
    ordered, unordered = pooled(output, layout, "flatten"), pooled(output, layout, UNORDERED)
    assert unordered.data_ptr() == output.data_ptr()
    torch.testing.assert_close(unordered.sort(1).values, ordered.sort(1).values, rtol=0, atol=0)
    torch.testing.assert_close(unordered @ unordered.mT, ordered @ ordered.mT)


def test_cka_of_flattened_features_does_not_depend_on_how_they_lie():
    net, (x, y) = convolutional(), random_images()
    places = ["stages.0", "stages.2"]
    scan = winze.scan(net, None, (x, y), places=places, measures=("cka",), pool="flatten", progress=False)
    features = []
    hooks = [
        net.get_submodule(name).register_forward_hook(lambda _, args, out: features.append(out.flatten(1).double()))
        for name in places
    ]
    with torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    assert scan.readings.conventions["pool"] == "flatten"
    assert scan.cka[0, 1] == pytest.approx(linear_cka(*features, unbiased=True), rel=1e-5)
