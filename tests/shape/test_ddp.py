from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from cases import WITHOUT_BATCHNORM, rewired
from ddp_worker import SAMPLES, rule, train
from forked import Forked

RUNS = [("foreign transformer", "sample"), ("native mlp", "batch")]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("name", "mask"), RUNS)
def test_two_processes_train_as_one_with_the_doubled_batch(tmp_path, name, mask):
    worker = str(Path(__file__).with_name("ddp_worker.py"))
    with ExitStack() as stack:
        processes = [stack.enter_context(Forked(worker, tmp_path, name, mask, rank)) for rank in range(2)]
        for process in processes:
            stack.callback(process.kill)
        assert [process.wait(timeout=300) for process in processes] == [0, 0], processes[0].stdout.read()
    ranks = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    net = rewired(WITHOUT_BATCHNORM[name], rule(mask))
    whole = train(net, net, WITHOUT_BATCHNORM[name].batch(2 * SAMPLES))
    slices = [torch.cat(pair, 1) for pair in zip(*(rank["masks"] for rank in ranks), strict=True)]
    torch.testing.assert_close(slices, whole)
    for rank in ranks:
        torch.testing.assert_close(rank["net"], net.state_dict(), rtol=1e-10, atol=1e-10)
