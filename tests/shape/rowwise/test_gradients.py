"""A gradient under a mask, for one network and for several at once."""

import pytest
import torch

from winze.shape.rowwise.gradients import with_gradient_where

# of value and mask: shape, and the axis of members (None: all have the same)
CASES = [
    ((5, 4, 3), 0, (5, 4, 1), 0),
    ((5, 4, 3), 0, (5,), 0),
    ((4, 3), None, (4, 5, 3), 1),
    ((4, 5, 3), 1, (4, 1), None),
]


@pytest.mark.parametrize(("value", "value_at", "mask", "mask_at"), CASES)
def test_of_several_at_once_it_is_that_of_each(value, value_at, mask, mask_at):
    x = torch.randn(value, dtype=torch.float64, requires_grad=True)
    keep = torch.rand(mask) < 0.5

    def loss(value, mask):
        return (with_gradient_where(mask, value) ** 3).sum()

    together = torch.func.vmap(loss, in_dims=(value_at, mask_at))(x, keep)
    found = torch.autograd.grad(together.sum(), x)[0]
    each = [
        loss(x if value_at is None else x.select(value_at, i), keep if mask_at is None else keep.select(mask_at, i))
        for i in range(5)
    ]
    torch.testing.assert_close(together, torch.stack(each))
    torch.testing.assert_close(found, torch.autograd.grad(sum(each), x)[0], rtol=0, atol=1e-12)
    assert found.abs().sum() > 0


def test_the_value_is_left_as_it_is_and_the_gradient_masked():
    x = torch.randn(4, 3, requires_grad=True)
    mask = torch.tensor([[True], [False], [True], [False]])
    y = with_gradient_where(mask, x)
    assert torch.equal(y, x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], mask.float().expand(4, 3))
