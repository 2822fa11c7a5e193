import os
import resource
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import torch, winze
from torch import nn

class Stream:
    def __init__(self, batches):
        self.batches = batches
    def __iter__(self):
        for i in range(self.batches):
            draw = torch.Generator().manual_seed(i)
            y = torch.randint(4, (500,), generator=draw)
            yield torch.randn(500, 256, generator=draw) + y[:, None], y

torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
winze.scan(net, Stream(8), Stream(8))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scan = winze.scan(net, Stream(50), Stream(200))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) / 1024, scan.readings.conventions["samples"]["data"]["test"])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "getrusage") or sys.platform != "linux", reason="counts in kB on Linux")
def test_memory_does_not_grow_with_a_hundred_thousand_samples():
    """The samples would take 100 MB, the features of one layer 13 MB; correctness takes a byte a place and sample."""
    # large blocks go back to the system when freed: what counts is what is held, not how the heap is strewn
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "100000"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environment)
    grown, samples = done.stdout.split()
    assert int(samples) == 100_000
    assert float(grown) < 16
