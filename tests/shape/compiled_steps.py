"""Compare compiled with eager steps of the readings of ResidualDropPath; run by test_alternation.py."""

import sys

import torch
from cases import CASES, rewired, take_step

import winze

DENSE, ROWS = {}, {"draw": "count", "compute": "rows"}
RUNS = [("native mlp", frozen, mask, DENSE) for frozen in ("output", "weights") for mask in ("sample", "batch")]
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
