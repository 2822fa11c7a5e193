"""Captured steps against plain ones for every objective: on a GPU as CUDA graphs, on a CPU with Python frozen."""

import pkgutil
import random
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from frozen import FrozenPython
from objectives import CASES, Case, classifier
from torch import nn

from winze import Alternation, ResidualDropPath, rewire
from winze.networks import ResidualMLP
from winze.observe.passes.cuda_graph import EmptyGraphError
from winze.train import SGD, Adam, CrossEntropy, Epochs, Hardware, HardwareError, Lars, Objective, Steps, Training, fit
from winze.train import objectives as library

sys.path.insert(0, str(Path(__file__).with_name("learners")))

import gan
import vae


@pytest.fixture
def on_a_cpu(monkeypatch):
    """Capture steps on a CPU, as far as Python is concerned."""
    monkeypatch.setattr("winze.train.captured.CudaGraph", FrozenPython)


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def trained(case: Case, step: str, accelerator: str = "cpu", followers=(), **kwargs) -> dict[str, torch.Tensor]:
    """The state of the network and the losses at the end of three epochs, the last batch of each a smaller one."""
    torch.manual_seed(0)
    net = case.net()
    settings = {"optimizer": SGD(0.05, momentum=0.9), "objective": case.objective} | kwargs
    hardware = Hardware(accelerator, step=step, deterministic=True, threads=1)
    history = fit(net, case.data, Training(Epochs(3), 16, **settings), hardware=hardware, followers=followers)
    losses = {name: torch.tensor([row[name] for row in history.metrics]) for name in history.metrics[0]}
    return {name: value.cpu() for name, value in net.state_dict().items()} | losses


@pytest.mark.parametrize("name", CASES)
def test_an_objective_that_may_be_captured_agrees_with_its_plain_steps(on_a_cpu, name):
    torch.testing.assert_close(trained(CASES[name], "graph"), trained(CASES[name], "plain"), rtol=0, atol=0)


def test_every_objective_that_says_it_may_be_captured_is_among_them():
    for module in pkgutil.iter_modules(library.__path__):
        import_module(f"{library.__name__}.{module.name}")
    made = {type(case.objective.build(1)) for case in CASES.values()}
    own = {kind for kind in _below(Objective) if kind.__module__.startswith(library.__name__)}
    assert {kind for kind in own if kind.capturable} == made


def _below(kind):
    return {kind}.union(*map(_below, kind.__subclasses__()))


@on_gpu
@pytest.mark.parametrize("optimizer", [SGD(0.05, momentum=0.9), Adam(0.01)], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("name", CASES)
def test_captured_as_a_cuda_graph_it_agrees_bit_for_bit(name, optimizer):
    found = [trained(CASES[name], step, "cuda", optimizer=optimizer) for step in ("graph", "plain")]
    torch.testing.assert_close(*found, rtol=0, atol=0)


ON_GPU = pytest.param("cuda", marks=on_gpu)
devices = pytest.mark.parametrize("device", ["cpu", ON_GPU])


@pytest.fixture
def captures(request, device):
    """Capture for real on a GPU, with Python frozen on a CPU."""
    if device == "cpu":
        request.getfixturevalue("on_a_cpu")


class Warmed(CrossEntropy):
    """Says that it may be captured, though its weight is a number in Python that `advance` raises."""

    done = 0

    def forward(self, net, x, y):
        return {"certain": super().forward(net, x, y), "small": self.done / 100 * net(x).square().mean()}

    def advance(self):
        self.done += 1


class Counting(CrossEntropy):
    """Counts in Python within forward."""

    calls = 0

    def forward(self, net, x, y):
        self.calls += 1
        return super().forward(net, x, y) * (1 + self.calls / 1000)


class Tossing(CrossEntropy):
    """Throws a coin in Python."""

    def forward(self, net, x, y):
        return super().forward(net, x, y) * (1 + random.random())


class Dicing(CrossEntropy):
    """Draws in Python, from a generator of its own that no step can take back."""

    dice = random.Random(0)

    def forward(self, net, x, y):
        return super().forward(net, x, y) * (1 + self.dice.random())


class Fading(CrossEntropy):
    """Fades by a factor in Python."""

    factor = 1.0

    def forward(self, net, x, y):
        return super().forward(net, x, y) * self.factor

    def advance(self):
        self.factor *= 0.99


class Rebinding(CrossEntropy):
    """Fades by a buffer that it replaces by a new tensor instead of filling it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("factor", torch.ones(()))

    def forward(self, net, x, y):
        return super().forward(net, x, y) * self.factor

    def advance(self):
        self.factor = self.factor * 0.99


@on_gpu
def test_a_buffer_that_is_replaced_rather_than_filled_is_found():
    with pytest.raises(ValueError, match=r"Rebinding sets capturable = True, but .* one: loss is"):
        trained(Case(Rebinding(), classifier), "graph", "cuda")


@devices
@pytest.mark.parametrize(
    ("objective", "tensor"),
    [(Warmed, "loss.small"), (Counting, "loss"), (Tossing, "loss"), (Dicing, "loss"), (Fading, "loss")],
)
def test_an_objective_that_says_so_and_is_not_is_named_with_the_tensor_that_differs(
    captures, device, objective, tensor
):
    said = rf"{objective.__name__} sets capturable = True, but .* plain one: {tensor} is .* captured and .* plain"
    with pytest.raises(ValueError, match=said):
        trained(Case(objective(), classifier), "graph", device)


class Touching(nn.Module):
    """A network whose buffer follows a counter in Python."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(6, 3), 0
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x):
        self.calls += self.training
        self.seen.fill_(float(self.calls))
        return self.layer(x)


@devices
def test_a_buffer_that_differs_is_named(captures, device):
    with pytest.raises(ValueError, match=r"net\.seen differs by \d"):
        trained(Case(CrossEntropy(), Touching), "graph", device)


class Noting(CrossEntropy):
    """Counts in Python, which changes nothing that is computed."""

    calls = 0

    def forward(self, net, x, y):
        self.calls += 1
        return super().forward(net, x, y)


@devices
def test_warming_up_and_comparing_leave_the_python_state_of_plain_steps(captures, device):
    objective = Noting()
    training = Training(Steps(3), 16, objective=objective)
    fit(classifier(), CASES["ramp"].data, training, hardware=Hardware(device, step="graph"))
    assert objective.calls == 3


class Quiet(Objective):
    def forward(self, net, x, y):
        return F.cross_entropy(net(x), y)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"objective": Quiet()}, "Quiet does not set capturable = True"),
        ({"optimizer": Lars(0.1)}, "the optimizer Lars cannot be captured"),
    ],
)
def test_what_may_not_be_captured_is_refused_where_one_insists_and_taken_plainly_else(on_a_cpu, settings, said):
    case = Case(settings.get("objective", CrossEntropy()), classifier)
    with pytest.raises(HardwareError, match=rf'step="graph" is not possible: {said}'):
        trained(case, "graph", **settings)
    torch.testing.assert_close(trained(case, "auto", **settings), trained(case, "plain", **settings), rtol=0, atol=0)


def test_a_kl_warm_up_in_python_is_not_captured(on_a_cpu):
    with pytest.raises(HardwareError, match="Elbo does not set capturable = True"):
        vae.learn(hardware=Hardware("cpu", step="graph"))


@devices
def test_a_gan_is_captured_as_it_trains_plainly(captures, device):
    ends = []
    for step in ("graph", "plain"):
        torch.manual_seed(0)
        history, nets = gan.learn(30, hardware=Hardware(device, step=step, deterministic=True, threads=1))
        ends.append([history.metrics, *({k: v.cpu() for k, v in net.state_dict().items()} for net in nets.values())])
    torch.testing.assert_close(*ends, rtol=0, atol=0)


@devices
def test_each_stage_of_a_staged_rule_is_captured_and_compared(captures, device):
    ends = []
    for step in ("graph", "plain"):
        torch.manual_seed(0)
        net = rewire(ResidualMLP(6, 8, 2, 3), ResidualDropPath(0.5, compute="dense"))
        case = Case(CrossEntropy(), lambda net=net: net)
        ends.append(trained(case, step, device, followers=[Alternation(net, every=2, rows=16)]))
    torch.testing.assert_close(*ends, rtol=0, atol=0)


@devices
def test_a_training_shorter_than_the_comparison_is_captured_too(captures, device):
    torch.manual_seed(0)
    hardware = Hardware(device, step="graph")
    assert fit(classifier(), CASES["ramp"].data, Training(Steps(2), 16), hardware=hardware).steps == 2


def test_a_stage_whose_graph_is_empty_takes_plain_steps(on_a_cpu, monkeypatch):
    tried = []

    def empty(self, step, pool=None):
        tried.append(1)
        raise EmptyGraphError("nothing was launched")

    name = next(iter(CASES))
    plain = trained(CASES[name], "plain")
    monkeypatch.setattr(FrozenPython, "__init__", empty)
    torch.testing.assert_close(trained(CASES[name], "graph"), plain, rtol=0, atol=0)
    assert tried == [1]
