"""What a scan adds to the forwards of its data: runs of the network, waits for a GPU, and operations, all counted."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, ClassVar

import pytest
import torch
from samples import images, loader
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import winze
from winze.measure import PENALTIES, Moments, ridges
from winze.measure.probes import ridge
from winze.measure.streaming import moments_table
from winze.modes import unchanged
from winze.networks import ResidualMLP, build
from winze.observe.cut import costs
from winze.observe.cut.every_cut import measure_cuts

BATCH = 16
FREE = ("view", "reshape", "unbind", "slice", "select", "expand", "permute", "transpose", "detach", "alias", "squeeze")
FREE += ("as_strided", "split", "diagonal.", ".t.", "is_pinned", "_local_scalar", "promote_types")


class Runs(nn.Module):
    """Notes the number of samples of each run of a network, also where hooks are not called.

    The notes go into a queue, which winze does not put back as it does lists and counters.
    """

    seen: ClassVar[SimpleQueue[int]] = SimpleQueue()

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        Runs.seen.put(len(x))
        return self.net(x)


def runs() -> list[int]:
    """The numbers that were noted since the last call."""
    return [Runs.seen.get() for _ in range(Runs.seen.qsize())]


class Operations(TorchDispatchMode):
    """Counts operations that a GPU would launch, and those by which Python would wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.launched = self.waited = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        self.launched += not any(part in name for part in FREE)
        self.waited += waits(name, args)
        return func(*args, **(kwargs or {}))


class Reads(TorchFunctionMode):
    """Counts, beside the operations, the methods that move values to Python without one."""

    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self.operations = operations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        moves = getattr(func, "__name__", "") in ("tolist", "cpu", "numpy")
        self.operations.waited += moves and args[0].dtype != torch.int64
        return func(*args, **(kwargs or {}))


def waits(name: str, args: Any) -> bool:
    """Whether Python reads values; labels and the positions of held-out samples are on the CPU in any case."""
    if "aten.index.Tensor" in name:
        return any(one is not None and one.dtype == torch.bool and len(one) != BATCH for one in args[1])
    if "_local_scalar_dense" in name:
        return bool(args[0].dtype != torch.int64)
    if "nonzero" in name:
        return args[0].shape != (BATCH,)
    return "aten.equal" in name or "masked_select" in name


def network(depth: int = 20) -> nn.Module:
    torch.manual_seed(0)
    return build(f"winze/resnet{depth}x0.5", 3).eval()


def perceptron(depth: int) -> nn.Module:
    torch.manual_seed(0)
    return ResidualMLP(3 * 12 * 12, 24, depth, classes=3).eval()


def batches(count: int, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    return loader(images(count * BATCH, size=12, seed=seed), BATCH)


def counted(net: nn.Module, count: int, measures: Any) -> Operations:
    train, test = batches(count), batches(count, seed=1)
    with Operations() as operations, Reads(operations):
        winze.scan(net, None if measures == "cka" else train, test, measures=measures, progress=False)
    return operations


def per_batch(net: nn.Module, measures: Any) -> tuple[float, float]:
    """Launches and waits that one more batch costs beyond the network's own operations."""
    _, few, more = (counted(net, count, measures) for count in (4, 4, 8))  # the first fills caches
    with Operations() as plain, torch.no_grad():
        net(batches(1)[0][0])
    passes = 1 if measures == "cka" else 2
    return (more.launched - few.launched) / 4 - passes * plain.launched, (more.waited - few.waited) / 4


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are gathered, and several penalties solved at once."""
    for module in (moments_table, ridge):
        monkeypatch.setattr(module, "DEVICES", ("cpu",))


@pytest.mark.parametrize(("measures", "passes", "most"), [("cka", 1, 44), (None, 2, 96)])
def test_one_more_place_costs_a_batch_its_pooling_alone(as_on_a_gpu, measures, passes, most):
    few, more = (per_batch(perceptron(depth), measures)[0] for depth in (4, 8))
    assert few <= most
    assert more - few == 4 * passes


@pytest.mark.parametrize("measures", ["cka", None])
def test_no_batch_waits_for_the_gpu(as_on_a_gpu, measures):
    assert per_batch(network(), measures)[1] == 0


def test_probes_on_ood_data_do_not_wait_for_the_gpu_in_each_batch(as_on_a_gpu):
    waited = []
    for count in (4, 8):
        train, test = batches(2), batches(2, seed=1)
        with Operations() as operations, Reads(operations):
            winze.scan(perceptron(2), train, test, {"other": (batches(4, 2), batches(count, 3))}, progress=False)
        waited.append(operations.waited)
    assert waited[0] == waited[1]


def test_a_network_runs_five_times_besides_its_data():
    """Twice to find its junctions, in eval and train mode, once for its places, twice for its fingerprint."""
    net = Runs(network())
    runs()
    winze.scan(net, batches(2), batches(3, seed=1), progress=False)
    assert runs() == [2, 3, 2, *[BATCH] * 5, 2, 2]


def test_train_data_like_the_test_data_need_no_run_of_their_own():
    net = Runs(perceptron(2))
    runs()
    winze.scan(net, images(2 * BATCH, size=12), images(BATCH, size=12), batch=BATCH, progress=False)
    assert runs() == [2, 3, 2, *[BATCH] * 3, 2, 2]


def test_all_cuts_share_one_survey_of_the_network(monkeypatch):
    """Each cut runs twice, for its values and its batch size; operations are counted and all cuts timed in one run."""
    monkeypatch.setattr(costs, "ENOUGH", 0.0)
    net = Runs(network())
    scan = winze.scan(net, batches(2), batches(2, seed=1), progress=False)
    runs()
    measure_cuts(net, scan, batches(1)[0][0])
    seen = runs()
    timed = seen.count(BATCH)
    assert timed in range(4, 9)  # a warm-up, and three to seven rounds
    assert len(seen) - timed == 2 + 2 * len(scan.places)


def test_many_buffers_are_put_back_by_as_many_operations_as_few():
    launched = []
    for depth in (20, 34):
        net = network(depth)
        with Operations() as operations, unchanged(net, training=True), torch.no_grad():
            operations.launched = 0
        launched.append(operations.launched)
    assert launched[0] == launched[1] <= 6


def test_several_penalties_are_solved_at_once_where_a_call_is_what_takes_long(as_on_a_gpu, monkeypatch):
    x, y = images(300, size=4)
    x = x.flatten(1) + 100.0
    parts = [[Moments.of(x[rows, : 8 * i], y[rows], 3) for i in (2, 2, 5)] for rows in (slice(200), slice(200, 300))]
    calls = []
    plain = torch.linalg.cholesky_ex
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda each: calls.append(len(each[0])) or plain(each))
    together = ridges(*parts)
    assert calls == [len(PENALTIES)] * 2
    monkeypatch.setattr(ridge, "DEVICES", ())
    alone = ridges(*parts)
    assert calls[2:] == [1] * (2 * len(PENALTIES))
    for one, other in zip(together, alone, strict=True):
        assert one.penalty == other.penalty
        torch.testing.assert_close(one.weight, other.weight, rtol=1e-12, atol=0)
        torch.testing.assert_close(torch.tensor(one.errors), torch.tensor(other.errors), rtol=1e-9, atol=0)
