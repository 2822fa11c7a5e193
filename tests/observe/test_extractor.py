"""The extractor's weights: exactly those that move what the place shows."""

import pytest
import torch
import torchvision
from samples import images, lively

import winze


@pytest.fixture(scope="module")
def resnet():
    torch.manual_seed(0)
    net = lively(torchvision.models.resnet18(num_classes=3)).eval()
    data = images(40, size=32, seed=0)
    return net, winze.scan(net, data, data, costs=False, progress=False), data[0][:4]


@pytest.mark.parametrize("at", [0, 3, 7])
def test_it_names_the_weights_that_have_a_gradient_at_the_place(resnet, at):
    net, scan, x = resnet
    seen = {}
    place = scan.places[at].name
    hook = net.get_submodule(place).register_forward_hook(lambda _, __, output: seen.update(output=output))
    net(x)
    hook.remove()
    weights = dict(net.named_parameters())
    gradients = torch.autograd.grad(seen["output"].square().sum(), list(weights.values()), allow_unused=True)
    used = [name for name, gradient in zip(weights, gradients, strict=True) if gradient is not None]
    assert winze.extractor(net, scan, at) == used
    assert used
    assert len(used) < len(weights)


def test_left_out_the_place_is_the_start_of_the_tunnel(resnet):
    net, scan, _ = resnet
    start = scan.tunnel(0.5).start
    assert start is not None
    assert winze.extractor(net, scan, threshold=0.5) == winze.extractor(net, scan, start)


def test_held_weights_stay_while_the_tunnel_learns(resnet):
    net, scan, x = resnet
    held = winze.extractor(net, scan, at=4)
    before = {name: weight.clone() for name, weight in net.named_parameters()}
    for name in held:
        net.get_parameter(name).requires_grad_(False)
    optimizer = torch.optim.SGD([weight for weight in net.parameters() if weight.requires_grad], 0.1)
    net(x).square().sum().backward()
    optimizer.step()
    moved = {name for name, weight in net.named_parameters() if not torch.equal(weight, before[name])}
    assert moved
    assert not moved & set(held)
