"""Rows of metrics: when they are written, what they mean, and what followers and test sets add to them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from winze import Watch
from winze.networks import MLP
from winze.train import SGD, Checkpoints, Epochs, Follower, Objective, Steps, Training, fit

POINTS = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
LABELS = (POINTS.sum(1) > 0).long()
DATA = POINTS, LABELS


def small(outputs=2) -> nn.Module:
    torch.manual_seed(0)
    return MLP(4, 8, 2, outputs)


THREE = Epochs(3)


def trained(length=THREE, net=None, data=DATA, tests=None, followers=(), **settings):
    """A history of epochs of four steps."""
    training = Training(length, 16, SGD(0.05), **settings)
    return fit(small() if net is None else net, data, training, tests=tests, followers=followers)


class Parts(Objective):
    """A loss of two parts."""

    def forward(self, net, x, y):
        return {"fit": F.cross_entropy(net(x), y), "size": 0.1 * net(x).square().mean()}

    def judge(self, net, x, y):
        return {"size": net(x).square().mean(1).sum()}


@pytest.mark.parametrize(
    ("length", "evaluate", "steps"),
    [
        (Epochs(3), Epochs(1), [4, 8, 12]),
        (Epochs(2.5), Epochs(1), [4, 8, 10]),
        (Steps(10), Epochs(2), [4, 8, 10]),
        (Epochs(2), Steps(3), [3, 4, 6, 8]),
        (Steps(3), Epochs(1), [3]),
        (Epochs(1), Epochs(0.5), [2, 4]),
        (Steps(0), Epochs(1), []),
    ],
    ids=str,
)
def test_a_row_is_written_at_each_epoch_each_evaluation_and_the_end(length, evaluate, steps):
    history = trained(length, tests={"test": DATA}, evaluate=evaluate)
    assert [row["step"] for row in history.metrics] == steps
    assert [row["epoch"] for row in history.metrics] == [step / 4 for step in steps]
    assert history.steps == (steps[-1] if steps else 0)
    due = [step % max(1, evaluate.steps(4)) == 0 or step == history.steps for step in steps]
    assert ["accuracy" in row for row in history.metrics] == due


def test_the_loss_of_a_row_is_the_mean_over_the_samples_since_the_last_one():
    fine = trained(Epochs(1), data=(POINTS[:56], LABELS[:56]), evaluate=Steps(1)).metrics
    (coarse,) = trained(Epochs(1), data=(POINTS[:56], LABELS[:56])).metrics
    sizes = (16, 16, 16, 8)
    mean = sum(size * row["loss"] for size, row in zip(sizes, fine, strict=True)) / 56
    assert coarse["loss"] == pytest.approx(mean, rel=1e-12)


def test_evaluating_more_often_changes_nothing_that_is_learned():
    nets = [small(), small()]
    trained(net=nets[0], tests={"test": DATA}, evaluate=Steps(1))
    trained(net=nets[1])
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


@pytest.mark.parametrize(("length", "same"), [(Epochs(2), Steps(8)), (Epochs(1.5), Steps(6))], ids=str)
def test_a_length_in_steps_trains_as_the_same_length_in_epochs(length, same):
    nets = [small(), small()]
    metrics = [trained(one, net).metrics for one, net in zip((length, same), nets, strict=True)]
    assert metrics[0] == metrics[1]
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


def test_parts_of_a_loss_are_logged_by_name_and_sum_to_the_loss():
    for row in trained(objective=Parts()).metrics:
        assert row.keys() == {"epoch", "step", "lr", "loss", "loss.fit", "loss.size"}
        assert row["loss"] == pytest.approx(row["loss.fit"] + row["loss.size"], rel=1e-6)


def test_named_parts_train_as_their_sum():
    def total(net, x, y):
        return F.cross_entropy(net(x), y) + 0.1 * net(x).square().mean()

    nets = [small(), small()]
    for net, objective in zip(nets, (Parts(), total), strict=True):
        trained(net=net, objective=objective)
    torch.testing.assert_close(nets[0].state_dict(), nets[1].state_dict())


def test_every_test_set_is_judged_and_the_one_called_test_has_plain_names():
    row = trained(tests={"test": DATA, "clean": (POINTS[:20], LABELS[:20])}).metrics[-1]
    judged = {"accuracy", "test_loss", "clean: accuracy", "clean: test_loss"}
    assert row.keys() == {"epoch", "step", "lr", "loss"} | judged
    net = small()
    history = trained(net=net, tests={"clean": (POINTS[:20], LABELS[:20])})
    right = (net(POINTS[:20]).argmax(1) == LABELS[:20]).double().mean()
    assert history.metrics[-1]["clean: accuracy"] == pytest.approx(float(right))


@pytest.mark.parametrize("how", ["tensors", "loader", "list"])
def test_a_metric_is_the_mean_over_samples_however_they_come(how):
    data = {
        "tensors": DATA,
        "loader": DataLoader(TensorDataset(*DATA), 24),
        "list": [(POINTS[:50], LABELS[:50]), (POINTS[50:], LABELS[50:])],
    }[how]
    net = small()
    row = trained(net=net, tests={"test": data}, objective=Parts()).metrics[-1]
    assert row["size"] == pytest.approx(net(POINTS).square().mean().item(), rel=1e-6)


def test_a_judgement_is_taken_in_eval_mode_and_leaves_the_network_alone():
    seen = []

    class Spy(Parts):
        def judge(self, net, x, y):
            seen.append((net.training, self.training, torch.is_grad_enabled()))
            torch.rand(3)
            return super().judge(net, x, y)

    nets = [nn.Sequential(small(), nn.Dropout(0.3)) for _ in range(2)]
    trained(net=nets[0], tests={"test": DATA}, objective=Spy())
    trained(net=nets[1], objective=Parts())
    assert set(seen) == {(False, False, False)}
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


class Looking:
    """A follower that reports the size of the weights after each epoch."""

    def __init__(self):
        self.steps, self.epochs = [], []

    def after_step(self, net, step):
        self.steps.append(step)

    def after_epoch(self, net, epoch):
        self.epochs.append(epoch)
        return {"size": net.output.weight.norm().item()}


def test_what_a_follower_reports_after_an_epoch_stands_in_its_row():
    follower, net = Looking(), small()
    assert isinstance(follower, Follower)
    history = trained(Epochs(2.5), net, followers=[follower], evaluate=Steps(3))
    assert follower.steps == list(range(1, 11))
    assert follower.epochs == [1, 2]
    assert [row["step"] for row in history.metrics if "size" in row] == [4, 8]


def test_followers_of_one_kind_and_by_name_are_all_called():
    first, second, calls = Looking(), Looking(), []
    trained(followers={"one": first, "two": lambda net, step: calls.append(step)})
    trained(Steps(5), followers=[lambda net, step: None, lambda net, step: second.after_step(net, step)])
    assert (len(first.steps), len(second.steps), len(calls)) == (12, 1 + 5, 1 + 12)


def test_two_reports_of_one_name_are_refused():
    with pytest.raises(ValueError, match="the metric 'size' is reported twice in one row"):
        trained(tests={"test": DATA}, objective=Parts(), followers=[Looking()])


def test_a_follower_that_is_none_is_refused():
    with pytest.raises(TypeError, match="follower 'int' is a int: expected an Alternation, a Watch, an object with"):
        trained(followers=[3])


class Lasting(Looking):
    def state_dict(self):
        return {"steps": self.steps, "epochs": self.epochs}

    def load_state_dict(self, state):
        self.steps, self.epochs = state["steps"], state["epochs"]


def test_the_state_of_followers_is_stored_and_restored(tmp_path):
    for epochs in (2, 4):
        net = small()
        follower, watch = Lasting(), Watch(net, DATA, every_epoch=1)
        training = Training(Epochs(epochs), 16, SGD(0.05))
        fit(net, DATA, training, followers=[follower, watch], checkpoints=Checkpoints(tmp_path))
    assert follower.steps == list(range(1, 17))
    assert follower.epochs == [1, 2, 3, 4]
    assert watch.epochs == 4


def test_a_test_set_of_other_classes_is_named():
    with pytest.raises(ValueError, match="test set 'ood': labels go up to 2, but MLP outputs 2 classes"):
        trained(tests={"test": DATA, "ood": (POINTS, LABELS + 1)})


def test_a_test_set_without_labels_is_named():
    with pytest.raises(ValueError, match="test set 'test': classification needs labels"):
        trained(tests={"test": POINTS})


def test_a_test_set_of_no_samples_is_named():
    with pytest.raises(ValueError, match="test set 'test': evaluate: no samples"):
        trained(tests={"test": (POINTS[:0], LABELS[:0])})


def test_metrics_that_change_from_batch_to_batch_are_refused():
    class Fickle(Parts):
        def judge(self, net, x, y):
            return {f"of {len(x)}": net(x).sum()}

    with pytest.raises(ValueError, match=r"Fickle\.judge returns"):
        trained(tests={"test": [(POINTS[:10], LABELS[:10]), (POINTS[:9], LABELS[:9])]}, objective=Fickle())
