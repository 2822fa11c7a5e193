import jaxtyping
import pytest
import torch
from checked_types import checked, quickly, shaped
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from winze.measure.rank import matrix_rank
from winze.place import Place


def test_types_are_enforced_while_testing():
    with pytest.raises(TypeCheckError):
        Place(0, 1, name=3)


def test_shapes_are_enforced_while_testing():
    with pytest.raises(TypeCheckError):
        matrix_rank(torch.zeros(3))


def test_what_a_function_gives_is_checked_with_and_without_shapes():
    def wrong(x: int) -> str:
        return x

    def longer(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        return torch.cat([x, x])

    for function, given in ((wrong, 1), (longer, torch.zeros(3))):
        with pytest.raises(TypeCheckError):
            checked(function, typechecker=lambda one: quickly(one, one.__annotations__))(given)


def test_checks_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert Place(0, 1, name=3).name == 3


@pytest.mark.parametrize(
    "hint", [Float[Tensor, " n"], list[Float[Tensor, " n"]], dict[str, Float[Tensor, " n"] | None]]
)
def test_shapes_are_found_anywhere_in_an_annotation(hint):
    assert shaped(hint)
    assert not shaped(list[Tensor])


@pytest.mark.parametrize("time", ["first", "second"])
def test_every_test_starts_from_the_same_seed(time):
    assert torch.initial_seed() == 0
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))
