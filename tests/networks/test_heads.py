import pytest
import torch
from torch import nn

import winze
from winze.networks import MLP, VGG, Heads, NetworkError, ResNet, build, give_heads


@pytest.mark.parametrize(
    ("net", "shape"), [(MLP(12, 8, 2), (12,)), (VGG(11, 0.05), (3, 8, 8)), (ResNet(20), (3, 8, 8))]
)
def test_each_task_has_an_output_of_its_own_size(net, shape):
    heads = give_heads(net, (5, 3))
    x = torch.randn(4, *shape)
    assert net(x).shape == (4, 5)
    heads.use(1)
    assert net(x).shape == (4, 3)


def test_only_the_head_in_use_learns():
    net = MLP(12, 8, 2)
    give_heads(net, (2, 2)).use(1)
    net(torch.randn(4, 12)).sum().backward()
    first, second = net.output.heads
    assert first.weight.grad is None
    assert second.weight.grad is not None


def test_all_heads_are_saved_with_the_network():
    net, other = MLP(12, 8, 2), MLP(12, 8, 2)
    give_heads(net, (2, 3))
    give_heads(other, (2, 3)).use(1)
    other.load_state_dict(net.state_dict())
    net.output.use(1)
    x = torch.randn(4, 12)
    assert torch.equal(net(x), other(x))


def test_a_network_of_others_gets_heads_too():
    net = build("test_resnet", 10)
    give_heads(net, (2, 2))
    assert net(torch.randn(2, 3, 32, 32)).shape == (2, 2)


def test_places_are_read_through_the_head_in_use():
    net = MLP(12, 8, 2).eval()
    give_heads(net, (3, 2)).use(1)
    data = torch.randn(20, 12), torch.arange(20) % 2
    names = [place.name for place in winze.scan(net, data, data, measures=["probe"]).places]
    assert names == ["layers.0.1", "layers.1.1", "output.heads.1"]


def test_heads_that_cannot_be_are_refused():
    with pytest.raises(NetworkError, match="heads must be at least 1"):
        Heads(4, ())
    with pytest.raises(NetworkError, match="outputs must be at least 1"):
        Heads(4, (2, 0))
    with pytest.raises(NetworkError, match="no head 2; they are numbered 0 to 1"):
        Heads(4, (2, 2)).use(2)
    with pytest.raises(NetworkError, match="does not end in a linear layer"):
        give_heads(nn.Sequential(nn.Conv2d(3, 4, 1)), (2, 2))
