"""Small matrices are decomposed by one thread, and torch has its threads back afterwards."""

import pytest
import torch

from winze.measure.features import SMALL, few_threads


@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize(("size", "threads"), [(1, 1), (SMALL, 1), (SMALL + 1, 2)])
def test_small_matrices_take_one_thread(size, threads):
    with few_threads(torch.empty(3, size, size)):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
def test_the_threads_are_back_after_an_error():
    with pytest.raises(RuntimeError, match="inside"), few_threads(torch.empty(2, 2)):
        raise RuntimeError("inside")
    assert torch.get_num_threads() == 2
