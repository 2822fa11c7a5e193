import pytest
import torch
from jaxtyping import TypeCheckError

from winze.place import Place


def test_types_are_enforced_while_testing():
    with pytest.raises(TypeCheckError):
        Place(0, 1, name=3)


@pytest.mark.parametrize("time", ["first", "second"])
def test_every_test_starts_from_the_same_seed(time):
    assert torch.initial_seed() == 0
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))
