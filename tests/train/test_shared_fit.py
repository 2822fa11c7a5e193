import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from forked import Forked
from shared_fit import SAMPLES, net, train

pytestmark = pytest.mark.slow
TOLERANCE = 1e-10  # weights are float64, and gradients are summed in another order


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """What each of two processes got, by the name of the training."""
    folder = tmp_path_factory.mktemp("shared")
    script = str(Path(__file__).with_name("shared_fit.py"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with ExitStack() as stack:
        processes = [stack.enter_context(Forked(script, folder, rank, port)) for rank in range(2)]
        for process in processes:
            stack.callback(process.kill)
        assert [process.wait(timeout=300) for process in processes] == [0, 0], processes[0].stdout.read()
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", SAMPLES)
def test_two_processes_end_with_the_weights_of_one_with_the_same_global_batch(shared, name):
    one, start = train(name), net().state_dict()
    first, second = (dict(rank[name]) for rank in shared)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    for metric in ("loss", "accuracy", "test_loss"):  # losses are kept in float32
        torch.testing.assert_close(first.pop(metric), one.pop(metric), rtol=1e-6, atol=0)
    torch.testing.assert_close(first, one, rtol=TOLERANCE, atol=TOLERANCE / 100)
    assert any(not torch.allclose(one[key], start[key]) for key in start)
