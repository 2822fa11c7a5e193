"""What a call saves for its backward pass is counted in bytes, each piece of memory once."""

import torch
from torch import nn

from winze.memory import saved_bytes


def test_what_a_linear_layer_and_tanh_save_is_counted_in_bytes_without_parameters():
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    x = torch.randn(5, 4)
    found = saved_bytes(lambda: net(x).sum(), net.parameters())
    assert found == 4 * (x.numel() + 5 * 3)  # float32: the layer's input and the output of tanh


def test_memory_that_two_operations_save_is_counted_once():
    x = torch.randn(6, requires_grad=True)
    assert saved_bytes(lambda: (x.sin() + x.view(2, 3).cos().flatten()).sum()) == 4 * x.numel()
