import pytest
import torch
import torch.nn.functional as F
from torch import nn

from winze.data import Flip, Preprocess
from winze.networks import MLP
from winze.train import (
    SGD,
    Adam,
    AdamW,
    Checkpoints,
    Classify,
    DivergedError,
    Epochs,
    Hardware,
    HardwareError,
    Lars,
    NAdam,
    Training,
    fit,
)
from winze.train.optimizers import EMA

IMAGES = torch.randint(0, 256, (40, 1, 4, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 3
PREPROCESS = Preprocess(None, (0.5,), (0.25,), 1)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(24, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)
    )


def weights(net: nn.Module) -> torch.Tensor:
    return torch.cat([value.detach().flatten().double() for value in net.state_dict().values()])


def trained(net=None, epochs=3, **kwargs) -> nn.Module:
    net = small() if net is None else net
    settings = {"length": Epochs(epochs), "batch": 16, "optimizer": SGD(0.05)} | kwargs
    fit(net, (IMAGES, LABELS), Training(**settings), preprocess=PREPROCESS)
    return net


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("temperature", [1.0, 10.0])
def test_the_loss_is_smoothed_cross_entropy_of_logits_over_temperature(smoothing, temperature):
    logits = torch.randn(7, 3, dtype=torch.float64)
    y = torch.arange(7) % 3
    q = (1 - smoothing) * F.one_hot(y, 3).double() + smoothing / 3
    expected = -(q * (logits / temperature).log_softmax(1)).sum(1).mean()
    objective = Classify(smoothing, temperature).build(1).double()
    torch.testing.assert_close(objective(nn.Identity(), logits, y), expected)


OPTIMIZERS = [SGD(0.1, momentum=0.9), Lars(0.03, momentum=0.9), Adam(0.01), AdamW(0.01), NAdam(0.01)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda one: type(one).__name__)
def test_every_optimizer_lowers_the_loss(optimizer):
    net = MLP(24, 32, 1, 3)
    history = fit(net, (IMAGES, LABELS), Training(Epochs(30), 16, optimizer), preprocess=PREPROCESS)
    assert history.losses[-1] < 0.9 * history.losses[0]


@pytest.mark.parametrize("optimizer", [SGD, AdamW, Lars])
def test_weights_may_learn_at_a_share_of_the_rate(optimizer):
    """One step from the same start moves a weight by so much less; the first glob that fits counts."""
    plain, shared, before = small(), small(), small().state_dict()
    trained(plain, 1, batch=40, optimizer=optimizer(0.01))
    rates = (("5.*", 0.25), ("5.bias", 9.0), ("1.bias", 0.0))
    trained(shared, 1, batch=40, optimizer=optimizer(0.01, rates=rates))
    moved = [{name: net.state_dict()[name] - before[name] for name in before} for net in (plain, shared)]
    for name, share in {"5.weight": 0.25, "5.bias": 0.25, "1.weight": 1.0, "1.bias": 0.0}.items():
        torch.testing.assert_close(moved[1][name], share * moved[0][name], rtol=1e-4, atol=1e-8)


def test_a_rate_of_a_weight_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"rates: no weight of Sequential is called 'head.\*'; there is '1.weight'"):
        trained(optimizer=SGD(rates=(("head.*", 0.1),)))
    with pytest.raises(ValueError, match=r"SGD\.rates must be .* at least 0"):
        SGD(rates=(("*", -1.0),))


def test_weight_decay_can_spare_biases_and_norms():
    """A loss of zero gradient leaves decay alone to move the weights."""

    def still(net, x, y):
        return 0 * net(x).sum()

    net, before = small(), small()
    optimizer = SGD(0.1, weight_decay=0.5, decay_vectors=False)
    fit(net, (IMAGES, LABELS), Training(Epochs(1), 40, optimizer, objective=still), preprocess=PREPROCESS)
    for (name, now), then in zip(net.named_parameters(), before.parameters(), strict=True):
        factor = 0.95 if now.ndim > 1 else 1.0
        torch.testing.assert_close(now, factor * then, msg=name)


def test_clipping_bounds_the_first_step():
    net, before = small(), small()
    fit(net, (IMAGES, LABELS), Training(Epochs(1), 40, SGD(1.0), clip=1e-3), preprocess=PREPROCESS)
    moved = torch.cat([(a - b).flatten() for a, b in zip(net.parameters(), before.parameters(), strict=True)])
    assert 0.9e-3 < moved.norm() < 1.1e-3


def test_the_average_follows_its_formula_and_ends_in_the_network():
    net = small()
    seen = []
    fit(
        net, (IMAGES, LABELS), Training(Epochs(2), 40, SGD(0.1), ema=0.75), preprocess=PREPROCESS,
        followers=[lambda net, step: seen.append({name: p.detach().clone() for name, p in net.named_parameters()})],
    )  # fmt: skip
    for name, value in net.named_parameters():
        expected = seen[0][name]
        for later in seen[1:]:
            expected = 0.75 * expected + 0.25 * later[name]
        torch.testing.assert_close(value.detach(), expected)


def test_an_average_can_stand_in_the_network_for_a_while():
    net = small()
    average = EMA(net, 0.5)
    with torch.no_grad():
        net[1].weight.add_(1.0)
    now = net[1].weight.clone()
    with average.inside(net):
        torch.testing.assert_close(net[1].weight.detach(), now - 1)
    torch.testing.assert_close(net[1].weight, now)


def test_augmentation_is_drawn_anew_each_step_and_the_same_in_two_runs():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(24, 3)

        def forward(self, x):
            seen.append(x.clone())
            return self.layer(x.flatten(1))

    for _ in range(2):
        trained(Spy(), epochs=2, batch=40, augment=(Flip(0.5),))
    first, second = seen[:2], seen[2:]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    plain = PREPROCESS(IMAGES)
    known = {tuple(row.flatten().tolist()) for row in (*plain, *plain.flip(3))}
    assert all(tuple(row.flatten().tolist()) in known for x in seen for row in x)
    flipped = [
        sum(tuple(r.flatten().tolist()) in {tuple(p.flatten().tolist()) for p in plain.flip(3)} for r in x)
        for x in first
    ]
    assert all(8 <= count <= 32 for count in flipped)
    order = [x[x.flatten(1).sum(1).argsort()] for x in first]
    assert not torch.equal(*order)


def test_the_last_small_batch_can_be_left_out():
    seen = []
    trained(nn.Sequential(nn.Flatten(), Counting(seen)), epochs=1, batch=16, drop_last=True)
    assert seen == [16, 16]


class Counting(nn.Linear):
    def __init__(self, seen: list[int]) -> None:
        super().__init__(24, 3)
        self.seen = seen

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(x))
        return super().forward(x)


def test_metrics_hold_test_accuracy_when_it_is_due():
    history = fit(
        small(), (IMAGES, LABELS), Training(Epochs(5), 16, SGD(0.1), evaluate=Epochs(2)),
        tests={"test": (IMAGES, LABELS)}, preprocess=PREPROCESS,
    )  # fmt: skip
    assert ["accuracy" in row for row in history.metrics] == [False, True, False, True, True]
    assert [row["step"] for row in history.metrics] == [3, 6, 9, 12, 15]


@pytest.mark.parametrize("ema", [None, 0.9])
def test_a_training_that_was_stopped_goes_on_bit_for_bit(tmp_path, ema):
    settings = {"length": Epochs(6), "batch": 16, "optimizer": AdamW(0.01), "augment": (Flip(),), "ema": ema}
    tests = {"test": (IMAGES, LABELS)}
    whole, again = small(), small()
    done = fit(whole, (IMAGES, LABELS), Training(**settings), preprocess=PREPROCESS, tests=tests)

    class Stop(BaseException):
        pass

    def stop(net, step):
        if step == 10:
            raise Stop

    checkpoints = Checkpoints(tmp_path)
    kwargs = {"preprocess": PREPROCESS, "tests": tests, "checkpoints": checkpoints}
    with pytest.raises(Stop):
        fit(again, (IMAGES, LABELS), Training(**settings), followers=[stop], **kwargs)
    assert checkpoints.newest().step == 9
    fresh = small()
    history = fit(fresh, (IMAGES, LABELS), Training(**settings), **kwargs)
    assert torch.equal(weights(fresh), weights(whole))
    assert history.metrics == done.metrics
    finished = small()
    assert fit(finished, (IMAGES, LABELS), Training(**settings), **kwargs).metrics == done.metrics
    assert torch.equal(weights(finished), weights(whole))


def test_a_lost_loss_names_the_last_good_checkpoint(tmp_path):
    def spoil(net, step):
        if step == 7:
            net[5].bias.data.fill_(float("nan"))

    with pytest.raises(DivergedError, match=r"nan at step 8; the last good checkpoint is of step 6; try a lower lr"):
        fit(
            small(), (IMAGES, LABELS), Training(Epochs(6), 16, SGD(0.1)), preprocess=PREPROCESS,
            checkpoints=Checkpoints(tmp_path), followers=[spoil],
        )  # fmt: skip
    assert all(torch.isfinite(value).all() for value in Checkpoints(tmp_path).newest().weights.values())


def test_batches_of_a_loader_are_as_good():
    x = PREPROCESS(IMAGES)

    class Loader:
        def __init__(self):
            self.epochs = []

        def set_epoch(self, number: int) -> None:
            self.epochs.append(number)

        def __len__(self) -> int:
            return 2

        def __iter__(self):
            yield x[:20], LABELS[:20]
            yield x[20:], LABELS[20:]

    loader = Loader()
    history = fit(MLP(24, 16, 1, 3), loader, Training(Epochs(5), 20, SGD(0.2, momentum=0.9)), tests={"test": loader})
    assert loader.epochs == list(range(5))
    assert history.losses[-1] < history.losses[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        (Hardware(accelerator="cuda"), "no GPU"),
        (Hardware(devices=2), "torchrun --nproc-per-node 2"),
        (Hardware(step="graph"), 'step="graph" is not possible: there is no CUDA device'),
    ],
)
def test_hardware_that_is_not_there_is_told(hardware, said):
    with pytest.raises(HardwareError, match=said):
        fit(small(), (IMAGES, LABELS), Training(Epochs(1)), preprocess=PREPROCESS, hardware=hardware)


def test_a_compiled_training_is_the_plain_one(monkeypatch):
    """`aot_eager` stands in for the compiler's own back end, which takes long."""
    import functools

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    nets = [MLP(24, 16, 2, 3) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    for net, compiled in zip(nets, (False, True), strict=True):
        training = Training(Epochs(3), 20, SGD(0.1))
        fit(net, (IMAGES, LABELS), training, preprocess=PREPROCESS, hardware=Hardware(compile=compiled))
    torch.testing.assert_close(weights(nets[0]), weights(nets[1]))
