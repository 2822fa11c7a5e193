"""Steps of one's own: what `fit` asks of an update, and what it does for it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from winze.networks import MLP
from winze.train import (
    SGD,
    Adam,
    Adversarial,
    Checkpoints,
    Cosine,
    CrossEntropy,
    Descend,
    Epochs,
    HardwareError,
    Objective,
    Steps,
    StoreError,
    Training,
    Update,
    fit,
)

POINTS = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
LABELS = (POINTS.sum(1) > 0).long()
DATA = POINTS, LABELS


def small(outputs=2) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(MLP(4, 8, 2, outputs), nn.Dropout(0.1))


class Bare:
    """One step of SGD as it stands in any tutorial."""

    def __init__(self, lr=0.05):
        net = small()
        self.modules, self.optimizers = {"net": net}, {"all": torch.optim.SGD(net.parameters(), lr, momentum=0.9)}
        self.capturable = False

    def __call__(self, x, y):
        loss = F.cross_entropy(self.modules["net"](x), y)
        self.optimizers["all"].zero_grad()
        loss.backward()
        self.optimizers["all"].step()
        return {"loss": loss}


class Engined(Bare):
    """The same with the devices, precision and clipping of the run."""

    def setup(self, engine):
        self.engine, self.net = engine, engine.module(self.modules["net"])
        self.optimizers = {"all": engine.optimizer(SGD(0.05, momentum=0.9), self.modules["net"])}

    def __call__(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        self.engine.descend(loss, self.optimizers["all"])
        return {"loss": loss}


class Halves(Bare):
    """Two losses, two optimizers, one after the other."""

    def __init__(self):
        super().__init__()
        layers = self.modules["net"][0]
        self.optimizers = {
            "body": torch.optim.SGD(layers.layers.parameters(), 0.1),
            "head": torch.optim.Adam(layers.output.parameters(), 0.01),
        }

    def __call__(self, x, y):
        found = {}
        for name, optimizer in self.optimizers.items():
            found[name] = F.cross_entropy(self.modules["net"](x), y)
            optimizer.zero_grad()
            found[name].backward()
            optimizer.step()
        return found


def descend():
    return Descend(small(), CrossEntropy(), SGD(0.05, momentum=0.9))


THREE = Epochs(3)


def trained(update, length=THREE, **kwargs):
    settings = {name: kwargs.pop(name) for name in ("precision", "clip", "checkpoint", "schedule") if name in kwargs}
    history = fit(update, DATA, Training(length, 16, **settings), **kwargs)
    return history, torch.cat([value.flatten() for value in update.modules[next(iter(update.modules))].parameters()])


UPDATES = {"bare": Bare, "engined": Engined, "halves": Halves, "descend": descend}


@pytest.mark.parametrize("name", UPDATES)
def test_whatever_has_the_four_names_is_an_update(name):
    assert isinstance(UPDATES[name](), Update)


@pytest.mark.parametrize("make", [Bare, Engined, descend])
def test_an_update_that_descends_ends_as_fit_with_the_network_alone(make):
    net = small()
    history = fit(net, DATA, Training(Epochs(3), 16, SGD(0.05, momentum=0.9)))
    found, weights = trained(make())
    assert torch.equal(weights, torch.cat([value.flatten() for value in net.parameters()]))
    assert [row["loss"] for row in found.metrics] == [row["loss"] for row in history.metrics]


@pytest.mark.parametrize("name", UPDATES)
def test_it_resumes_bit_for_bit(name, tmp_path):
    def stop(net, step):
        if step == 7:
            raise KeyboardInterrupt

    whole, weights = trained(UPDATES[name]())
    given = {"checkpoints": Checkpoints(tmp_path), "checkpoint": Steps(3)}
    with pytest.raises(KeyboardInterrupt):
        trained(UPDATES[name](), followers=[stop], **given)
    history, again = trained(UPDATES[name](), **given)
    assert torch.equal(again, weights)
    assert history.metrics == whole.metrics


def test_several_losses_and_learning_rates_are_logged_by_name():
    rows = trained(Halves(), schedule=Cosine(min_lr=0.001))[0].metrics
    assert rows[0].keys() == {"epoch", "step", "loss", "loss.body", "loss.head", "lr.body", "lr.head"}
    assert rows[0]["loss"] == pytest.approx(rows[0]["loss.body"] + rows[0]["loss.head"], rel=1e-6)
    assert 0.05 < rows[0]["lr.body"] < 0.1
    assert 0.005 < rows[0]["lr.head"] < 0.01


def test_the_checkpoint_of_another_update_is_refused(tmp_path):
    trained(Bare(), checkpoints=Checkpoints(tmp_path))
    with pytest.raises(StoreError, match=r"another training, Bare \(net Sequential\), and this is Halves"):
        trained(Halves(), checkpoints=Checkpoints(tmp_path))


def test_an_engine_clips_for_an_update():
    before, after = trained(Engined(), Steps(0))[1], trained(Engined(), Steps(1), clip=1e-3)[1]
    assert 0.9 < (after - before).norm() / (0.05 * 1e-3) < 1.1


@pytest.mark.parametrize("make", [Bare, Engined])
def test_modules_of_an_update_run_in_its_precision(make):
    update = make()
    trained(update, precision="64-true")
    assert {value.dtype for value in update.modules["net"].parameters()} == {torch.float64}


@pytest.mark.filterwarnings("ignore:You passed `Fabric")
def test_an_update_without_an_engine_cannot_scale_gradients():
    with pytest.raises(HardwareError, match=r"Bare needs a method setup\(engine\) for several processes or 16-mixed"):
        trained(Bare(), precision="16-mixed")


def test_test_sets_need_an_objective_that_judges_them():
    with pytest.raises(ValueError, match="test sets need an `objective` that judges them; Bare has none"):
        trained(Bare(), tests={"test": DATA})


def test_an_objective_judges_what_an_update_trains():
    update = Bare()
    update.net, update.objective = update.modules["net"], CrossEntropy()
    assert trained(update, tests={"test": DATA})[0].metrics[-1]["accuracy"] > 0.7


def test_followers_are_given_the_network_or_all_modules():
    seen = []
    trained(Bare(), Steps(1), followers=[lambda net, step: seen.append(set(dict(net.named_children())))])
    trained(descend(), Steps(1), followers=[lambda net, step: seen.append(type(net))])
    assert seen == [{"net"}, {"net"}, nn.Sequential, nn.Sequential]


@pytest.mark.parametrize(
    ("returned", "said"),
    [({}, "Odd returns no loss"), ({"loss": torch.zeros(2)}, r"Odd returns a loss of shape \(2,\)")],
)
def test_an_update_that_returns_no_losses_is_named(returned, said):
    class Odd(Bare):
        def __call__(self, x, y):
            return returned

    with pytest.raises(ValueError, match=said):
        trained(Odd())


def test_losses_that_change_their_names_are_refused():
    class Odd(Bare):
        count = 0

        def __call__(self, x, y):
            self.count += 1
            return {f"loss {self.count}": super().__call__(x, y)["loss"]}

    with pytest.raises(ValueError, match=r"a step returned the losses \('loss', 'loss.loss 2'\), those before it"):
        trained(Odd())


def test_what_is_neither_network_nor_update_is_refused():
    with pytest.raises(Exception, match=r"Update|type hint|Type-check"):
        fit("resnet20", DATA, Training(Epochs(1)))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            lambda net, x: net(x).square().mean(1),
            r"a loss of shape \(16,\): expected one number, the mean over the batch",
        ),
        (lambda net, x: {"a": net(x).mean(), "b": net(x)}, r"a loss part 'b' of shape \(16, 2\)"),
        (lambda net, x: {"a": 3.0}, r"a loss part 'a' of type float"),
    ],
)
def test_a_loss_that_is_no_number_is_named(found, said):
    class Odd(Objective):
        def forward(self, net, x, y):
            return found(net, x)

    with pytest.raises(Exception, match=rf"Odd returns {said}|type hint"):
        fit(small(), DATA, Training(Epochs(1), 16, objective=Odd()))


@pytest.mark.parametrize(
    "data", [POINTS, DataLoader(TensorDataset(POINTS), 16), DataLoader(POINTS, 16)], ids=["tensor", "tuples", "tensors"]
)
def test_data_without_labels_are_refused_by_classification_and_fine_for_others(data):
    with pytest.raises(ValueError, match=r"classification needs labels, and the data has none: give \(x, y\)"):
        fit(small(), data, Training(Epochs(1), 16))
    seen = []

    def shrink(net, x, y):
        seen.append(y)
        return net(x).square().mean()

    fit(small(), data, Training(Epochs(1), 16, objective=shrink))
    assert seen == [None] * 4


def test_a_gan_alternates_between_its_networks():
    """With a generator that does not learn only the discriminator moves, and the other way round."""
    for still in ("generator", "discriminator"):
        rates = tuple(Adam(1e-12 if name == still else 0.01) for name in ("generator", "discriminator"))
        update = Adversarial(nn.Linear(2, 4), nn.Linear(4, 1), lambda net, x, y: net(torch.randn(len(x), 2)), rates)
        before = {name: module.weight.clone() for name, module in list(update.modules.items())[:2]}
        history = fit(update, POINTS, Training(Epochs(2), 16))
        moved = {name: (update.modules[name].weight - weight).norm().item() for name, weight in before.items()}
        assert {name: value > 1e-3 for name, value in moved.items()} == {name: name != still for name in moved}
    assert {"loss.generator", "loss.discriminator", "lr.generator", "lr.discriminator"} < history.metrics[0].keys()
