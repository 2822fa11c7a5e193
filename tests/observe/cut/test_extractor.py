"""The extractor's weights: exactly those that move what the place shows."""

import copy
from types import SimpleNamespace

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


def test_left_out_the_place_is_the_start_of_the_tunnel(resnet, monkeypatch):
    net, scan, _ = resnet
    start = scan.places[2]
    monkeypatch.setattr(winze.Scan, "tunnel", lambda scan, threshold: SimpleNamespace(start=start))
    assert winze.extractor(net, scan) == winze.extractor(net, scan, start)


def test_with_its_weights_and_norms_held_a_place_shows_the_same_while_the_tunnel_learns(resnet):
    net, scan, x = resnet
    net = copy.deepcopy(net)
    before = winze.truncate(net, scan, at=4, head=None, measure=False).eval()
    held = winze.extractor(net, scan, at=4)
    net.train()
    for name in held:
        net.get_parameter(name).requires_grad_(False)
    for name, module in net.named_modules():
        if f"{name}.weight" in held:
            module.eval()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, weight_decay=0.1)
    whole = net(x).detach()
    for _ in range(2):
        net(x).square().sum().backward()
        optimizer.step()
    after = winze.truncate(net, scan, at=4, head=None, measure=False, force=True).eval()
    with torch.no_grad():
        assert torch.equal(before(x), after(x))
        assert not torch.allclose(net(x), whole)
