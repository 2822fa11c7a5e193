"""Meta-gradients against finite differences, recomputed segments against the plain graph, and memory predicted."""

import math

import pytest
import torch
import torch.nn.functional as F

from winze.memory import NoRoomError, available
from winze.networks import build
from winze.networks.models.generator import Learner
from winze.train.objectives import teach
from winze.train.objectives.teach import Teach, picks, pools
from winze.train.unroll import Course, Unrolled, root, step_bytes, unrolled_bytes

GOAL = {"learner": "winze/learner_mlp", "options": {"width": 6, "depth": 1}, "pool": 6, "batch": 3, "steps": 2}
X, Y = torch.randn(24, 1, 8, 8, generator=torch.Generator().manual_seed(0)).double(), torch.arange(24) % 4


def generator(kind="generator_dense", **options):
    torch.manual_seed(0)
    sizes = {"hidden": (10,), "norm": True} if kind == "generator_dense" else {"hidden": 10, "widths": (6, 4)}
    return build(f"winze/{kind}", side=8, classes=4, noise=4, **{**sizes, **options}).double()


def loss_of(net, objective):
    torch.manual_seed(7)
    return objective(net, X, Y)


def objective(**settings):
    return Teach(**{**GOAL, "tasks": (2, 2), **settings}).build(1).double()


@pytest.mark.parametrize("kind", ["generator_dense", "generator"])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_meta_gradient_is_that_of_central_differences(kind, recompute):
    net, meta = generator(kind), objective(recompute=recompute)
    loss_of(net, meta).backward()
    for name, weight in [*net.named_parameters(), *meta.named_parameters()]:
        direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                weight += sign * 1e-6 * direction
                ends.append(loss_of(net, meta).item())
                weight -= sign * 1e-6 * direction
        expected = (ends[0] - ends[1]) / 2e-6
        assert (weight.grad * direction).sum().item() == pytest.approx(expected, rel=1e-5, abs=1e-8), name


def test_one_inner_step_has_the_gradient_of_the_formula():
    """dL(w₁)/dx = −lr (∂²ℓ/∂w∂x)ᵀ ∇L(w₁)."""
    torch.manual_seed(0)
    unrolled = Unrolled(Learner(1, 8, 4, "mlp", 6, 1).double())
    x = torch.randn(5, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    y, lr, start = torch.tensor([0, 1, 2, 3, 0]), torch.tensor(0.1).double(), unrolled.start()
    state = unrolled(start, Course(x, y, torch.arange(5)[None]), lr, torch.tensor(0.5).double())
    (found,) = torch.autograd.grad(F.cross_entropy(unrolled.logits(state, X), Y), x)
    count = len(unrolled.names)
    after = [one.detach().requires_grad_() for one in state[:count]]
    slope = torch.autograd.grad(F.cross_entropy(unrolled.logits(after, X), Y), after)
    inner = torch.autograd.grad(F.cross_entropy(unrolled.logits(start, x), y), start[:count], create_graph=True)
    (expected,) = torch.autograd.grad(inner, x, [-lr * one for one in slope])
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("segment", [1, 3, 7, 20])
def test_recomputed_segments_give_what_the_plain_graph_gives(kind, segment):
    found = []
    for length in (0, segment):
        torch.manual_seed(0)
        unrolled = Unrolled(Learner(1, 8, 4, kind, 4, 2).double(), length)
        images = torch.randn(24, 1, 8, 8, dtype=torch.float64, requires_grad=True)
        rates = [torch.tensor(value).double().requires_grad_() for value in (0.1, 0.5)]
        course = Course(images, Y, picks((2, 2), 6, 3, 5, torch.device("cpu")))
        start = unrolled.start()
        loss = F.cross_entropy(unrolled.logits(unrolled(start, course, *rates), X), Y)
        found.append([loss, *torch.autograd.grad(loss, [images, *rates, *start[: len(unrolled.names)]])])
    for plain, recomputed in zip(*found, strict=True):
        assert torch.allclose(plain, recomputed, rtol=1e-12, atol=1e-14)


def test_a_step_is_that_of_torch_sgd():
    torch.manual_seed(0)
    learner = Learner(1, 8, 4, "mlp", 6, 1).double()
    unrolled = Unrolled(learner)
    course = Course(X, Y, picks((2, 2), 6, 3, 4, torch.device("cpu")))
    state = unrolled(unrolled.start(), course, *torch.tensor([0.1, 0.9], dtype=torch.float64))
    optimizer = torch.optim.SGD(learner.parameters(), 0.1, momentum=0.9)
    for rows in course.picks:
        optimizer.zero_grad()
        F.cross_entropy(learner(X[rows]), Y[rows]).backward()
        optimizer.step()
    for mine, torchs in zip(state, learner.parameters(), strict=False):
        assert torch.allclose(mine, torchs, rtol=1e-12)


def test_no_image_of_an_earlier_task_is_shown_again():
    images, labels = pools(generator(), [3, 0, 2, 1], (2, 2), 6, X)
    rows = picks((2, 2), 6, 3, 5, torch.device("cpu"))
    assert images.shape == (24, 1, 8, 8)
    assert [set(labels[row].tolist()) for row in rows] == [{0, 3}] * 5 + [{1, 2}] * 5
    assert labels[rows].eq(3).sum(1).tolist() == [3] * 5 + [0] * 5


def test_every_iteration_starts_a_new_learner():
    net, meta = generator(), objective()
    losses = {meta(net, X, Y).item() for _ in range(3)}
    assert len(losses) == 3


def graph_bytes(run):
    """The largest number of bytes that autograd's graphs held at one moment of a call."""
    held, peak = {}, [0]

    class Stored:
        def __init__(self, tensor):
            self.tensor, self.storage = tensor.detach(), tensor.untyped_storage().data_ptr()
            count, size = held.get(self.storage, (0, tensor.untyped_storage().nbytes()))
            held[self.storage] = count + 1, size
            peak[0] = max(peak[0], sum(size for _, size in held.values()))

        def __del__(self):
            count, size = held.pop(self.storage)
            if count > 1:
                held[self.storage] = count - 1, size

    with torch.autograd.graph.saved_tensors_hooks(Stored, lambda stored: stored.tensor):
        run()
    return peak[0]


def live_bytes(steps, segment):
    """The largest number of bytes that graphs held at a moment of one forward and backward pass."""
    torch.manual_seed(0)
    unrolled = Unrolled(Learner(1, 8, 4, "mlp", 64, 2).double(), segment)
    images = torch.randn(24, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    course = Course(images, Y, picks((2, 2), 6, 20, steps // 2, torch.device("cpu")))
    lr = torch.tensor(0.1).double().requires_grad_()
    start = unrolled.start()
    peak = graph_bytes(lambda: F.cross_entropy(unrolled.logits(unrolled(start, course, lr, lr), X), Y).backward())
    return peak, unrolled_bytes(step_bytes(unrolled, start, course, lr, lr), start, steps, segment)


def test_memory_grows_with_the_steps_and_recomputed_with_their_root():
    plain = [live_bytes(steps, 0)[0] for steps in (16, 64)]
    recomputed = [live_bytes(steps, root(steps))[0] for steps in (16, 64)]
    assert plain[1] / plain[0] == pytest.approx(4, rel=0.1)
    assert recomputed[1] / recomputed[0] < 2.3
    assert recomputed[1] < plain[1] / 3


@pytest.mark.parametrize("segment", [0, 4, 8])
def test_memory_is_predicted_within_a_factor(segment):
    measured, predicted = live_bytes(64, segment)
    assert 0.6 < predicted / measured < 1.6


def test_a_loop_that_does_not_fit_is_refused_before_it_starts(monkeypatch):
    monkeypatch.setattr(teach, "available", lambda device: 100_000)
    net = generator()
    with pytest.raises(NoRoomError, match=r"400 unrolled steps .* MiB are available: recompute=True needs about"):
        loss_of(net, objective(steps=200))
    assert all(weight.grad is None for weight in net.parameters())


def test_a_loop_far_too_long_is_refused_before_its_batches_are_drawn(monkeypatch):
    monkeypatch.setattr(teach, "picks", lambda *args: pytest.fail("batches were drawn"))
    with pytest.raises(NoRoomError, match="unrolled steps"):
        loss_of(generator(), objective(steps=10**9))


def test_available_memory_is_a_number_of_bytes():
    assert available(torch.device("cpu")) > 2**24


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Teach(tasks=(2, 1)), "at least two classes"),
        (lambda: Teach(tasks=()), "at least two classes"),
        (lambda: Teach(pool=0), "pool must be a whole number"),
        (lambda: Teach(lr=0.0), "lr must be a positive"),
        (lambda: loss_of(generator(), objective(tasks=(2, 2, 2))), "need 6, there are 4"),
        (lambda: loss_of(build("winze/mlp2x8", 4, inputs=64), objective()), r"trains a generator G\(z, y\)"),
        (lambda: objective()(generator(), X, None), "needs real images with labels"),
        (lambda: Unrolled(torch.nn.BatchNorm1d(3)), "track_running_stats=False"),
        (lambda: Teach(tasks=(2, 3)), "give equal sizes"),
    ],
)
def test_what_makes_no_sense_is_named(made, said):
    with pytest.raises(ValueError, match=said):
        made()


def test_segments_of_the_root_need_least():
    assert [root(steps) for steps in (1, 25, 26, 200)] == [1, 5, 6, 15]
    sizes = {segment: unrolled_bytes(100, [torch.zeros(25)], 100, segment) for segment in range(1, 100)}
    assert math.isclose(min(sizes, key=sizes.get), root(100))
