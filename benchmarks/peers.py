"""The tools that `scan.py` measures beside winze, each by its own public call in its best fair setting.

`make peers` installs them in `.venv-peers`, which sees the packages of `.venv`. All three CKA tools flatten feature
maps and take the unbiased estimate batch by batch, so one float64 reference serves them. They run without gradients, on
the same batches, with one network given twice; hooks that a tool leaves behind are removed after each call.

    .venv-peers/bin/python benchmarks/peers.py --row delve [--what memory|beside] [--device cuda] [--images 1024]
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import warnings
from importlib.metadata import version
from typing import Any

import torch
from scan import (
    Batches,
    Case,
    Setting,
    _ready,
    apart,
    arguments,
    features,
    flattened,
    measure,
    memory,
    reference,
    words,
)
from timing import interleaved
from torch import Tensor, nn

EPSILON = 0.0
"""Added under cka-pytorch's root; its own choice, 1e-4, is measured as well and said in its row."""


def pytorch_cka(net: nn.Module, train: Any, test: Batches, places: list[str]) -> Tensor:
    """Features of the batch kept flat, Gram matrices once, all pairs in one product."""
    from cka import compute_cka

    return compute_cka(net, net, test, layers=places, device=_device(net), progress=False)[0]


def cka_pytorch(net: nn.Module, train: Any, test: Batches, places: list[str], epsilon: float = EPSILON) -> Tensor:
    """Gram matrices in the hook, stacked pair by pair; one epoch, since the data do not change."""
    from cka_pytorch.cka import CKACalculator

    tool = CKACalculator(net, net, places, places, device=_device(net), verbose=False)
    try:
        return tool.calculate_cka_matrix(test, num_epochs=1, epsilon=epsilon)
    finally:
        tool.reset()


@torch.no_grad()
def torch_cka(net: nn.Module, train: Any, test: Batches, places: list[str]) -> Tensor:
    """Gram matrices anew for every pair, the network run twice."""
    from torch_cka import CKA

    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        tool = CKA(net, net, model1_layers=places, model2_layers=places, device=str(_device(net)))
        try:
            tool.compare(test, test)
        finally:
            _unhook(net)
    return tool.export()["CKA"]


@torch.no_grad()
def delve(net: nn.Module, train: Any, test: Batches, places: list[str]) -> Tensor:
    """Saturation (the share of directions that hold 99 % of the variance) of averaged feature maps."""
    from delve import SaturationTracker
    from delve.writers import AbstractWriter

    class Keep(AbstractWriter):
        def __init__(self) -> None:
            self.values: dict[str, float] = {}

        def add_scalar(self, name: str, value: float, **rest: Any) -> None:
            self.values[name] = value

        def add_scalars(self, prefix: str, value_dict: dict[str, float], **rest: Any) -> None:
            self.values.update(value_dict)

        def resume_from_saved_state(self, initial_epoch: int) -> None: ...

        def save(self) -> None: ...

        def close(self) -> None: ...

    keep = Keep()
    chosen = {_dashed(name) for name in places}
    with tempfile.TemporaryDirectory() as folder:
        tool = SaturationTracker(
            folder,
            keep,
            net,
            layer_filter=lambda layers: {k: v for k, v in layers.items() if _dashed(k) in chosen},
            stats=["lsat"],
            conv_method="mean",
            device=str(_device(net)),
        )
        try:
            for x, _ in test:
                net(x)
            tool.add_saturations()
        finally:
            _unhook(net)
    found = {_dashed(key.split("_", 1)[1]): value for key, value in keep.values.items() if key.startswith("eval")}
    return torch.tensor([found[_dashed(name)] for name in places])


def saturation(net: nn.Module, places: list[str], batches: Batches) -> Tensor:
    """delve's definition over all samples, in float64 on centred features."""
    from delve.metrics import compute_saturation

    rows = [torch.cat(parts).double() for parts in zip(*features(net, places, batches, "mean"), strict=True)]
    return torch.tensor([compute_saturation(torch.cov(x.T, correction=0)) for x in rows])


def _dashed(name: str) -> str:
    return name.replace(".", "-")


def _device(net: nn.Module) -> torch.device:
    return next(net.parameters()).device


def _unhook(net: nn.Module) -> None:
    for module in net.modules():
        module._forward_hooks.clear()


CASES = (
    Case(
        "pytorch-cka",
        "flattened, unbiased, by batch; Gram matrices once, uncentred float32",
        pytorch_cka,
        pool="flatten",
        parts=2,
        pairs=5,
    ),
    Case(
        "cka-pytorch",
        "flattened, unbiased, by batch; epsilon=0, one epoch",
        cka_pytorch,
        pool="flatten",
        parts=2,
        pairs=3,
    ),
    Case(
        "torch-cka",
        "flattened, unbiased, by batch; two forwards, Gram matrices anew for each pair; under no_grad",
        torch_cka,
        pool="flatten",
        parts=2,
        pairs=3,
    ),
    Case(
        "delve",
        'saturation only, no CKA; conv_method="mean", float64 covariance of the last batch',
        delve,
        pool=None,
        parts=2,
        pairs=5,
    ),
)


def more(tool: str, setting: Setting) -> dict[str, Any]:
    """What a tool's row says beyond the common measures."""
    case = next(case for case in CASES if case.tool == tool)
    _, net, places, train, test = _ready(case, setting)
    if tool == "cka-pytorch":
        exact = reference(net, places, test, "flatten")
        gap = apart(cka_pytorch(net, train, test, places, 1e-4), exact)
        return {"how": f"{case.how} (its own epsilon, 1e-4, gives an error of {gap:.2g})"}
    if tool == "delve":
        return {"error": apart(delve(net, train, test, places), saturation(net, places, test))}
    return {}


def beside(case: Case, setting: Setting) -> dict[str, Any]:
    """Its time over that of winze for the same CKA, a ratio a pair; none where it takes no CKA."""
    if case.pool is None:
        return {}
    part, net, places, train, test = _ready(case, setting)

    def ours() -> None:
        flattened(net, train, test, places)

    def theirs() -> None:
        case.run(net, train, test, places)

    return {"ratios": interleaved(theirs, ours, part.device, part.pairs - 1)[0]}


def main() -> None:
    """Print one row."""
    args, setting = arguments(__doc__)
    case = next(case for case in CASES if case.tool == args.row)
    row: dict[str, Any] = {"how": case.how}
    try:
        row["version"] = version(case.tool)
        if args.what == "time":
            row |= measure(case, setting) | more(case.tool, setting)
        else:
            row |= (memory if args.what == "memory" else beside)(case, setting)
    except Exception as error:
        row["note"] = f"{args.what}: {words(error)}"
    print("ROW " + json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
