"""Compare compiled with eager steps of the readings of ResidualDropPath, and count the graphs of a longer training.

Run by test_alternation.py.
"""

import sys

import torch
import torch._dynamo.utils
from cases import CASES, rewired, take_step
from torch import Tensor, nn

import winze

DENSE, ROWS = {}, {"draw": "count", "compute": "rows"}
# each kind of network, frozen part, mask and way to run at least twice
RUNS = [("native mlp", "output", "sample", DENSE), ("native mlp", "weights", "batch", DENSE)]
RUNS += [("foreign transformer", "output", "batch", DENSE), ("foreign transformer", "weights", "sample", DENSE)]
RUNS += [("native mlp", "weights", "sample", ROWS), ("foreign transformer", "output", "sample", ROWS)]

for name, frozen, mask, how in RUNS:
    torch._dynamo.reset()
    case = CASES[name]
    net = rewired(case, winze.ResidualDropPath(0.5, "constant", frozen=frozen, mask=mask, **how))
    alternate = winze.Alternation(net, rows=6)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=bool(how))
    for stage in (1, 2):
        eager, fast = take_step(net, case.batch()), take_step(compiled, case.batch())
        torch.testing.assert_close(fast.output, eager.output, rtol=1e-12, atol=1e-12)
        gradients = [list(step.gradients.values()) for step in (fast, eager)]
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
        sys.stdout.write("same\n" if alternate.stage == stage else "wrong stage\n")
        alternate.step()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.norm(self.layer(x)).relu()


def native() -> winze.Junction:
    return winze.Junction(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))


for kind in (Block, native):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    net = nn.Sequential(*(kind() for _ in range(3))).train()
    winze.rewire(net, winze.ResidualDropPath(0.5, "constant", frozen="weights"), example=torch.randn(6, 4))
    alternate = winze.Alternation(net)  # the first batch tells how many rows its masks have
    compiled = torch.compile(net, backend="eager")
    graphs = []
    for size in (6, 6, 6, 6, 5, 6, 6, 6, 6, 5):
        compiled(torch.randn(size, 4)).sum().backward()
        alternate.step()
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    breaks = len(torch._dynamo.utils.counters["graph_break"])
    sys.stdout.write(f"{graphs} graphs, {breaks or 'no'} breaks\n")
