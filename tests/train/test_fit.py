import pytest
import torch
from torch import nn

from winze import Alternation, ResidualDropPath, Watch, rewire
from winze.data import Batches, Preprocess, load
from winze.networks import MLP, ResidualMLP
from winze.train import Checkpoints, DivergedError, Training, evaluate, fit

POINTS = torch.randn(65, 4, generator=torch.Generator().manual_seed(0))
LABELS = (POINTS.sum(1) > 0).long()
DATA = POINTS, LABELS


def training(**kwargs) -> Training:
    return Training(**({"epochs": 2, "batch": 16, "lr": 0.05} | kwargs))


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return MLP(4, 8, 2, 2)


def weights(net: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def trained(seed: int = 0, watch=None, **kwargs) -> nn.Module:
    net = small()
    fit(net, DATA, training(**kwargs), seed=seed, watch=watch)
    return net


def test_an_mlp_learns_the_digits():
    digits = load("digits")
    preprocess = Preprocess.of(digits)
    net = MLP(64, 64, 2, 10)
    history = fit(net, digits.train, Training(20, 64, lr=0.05, momentum=0.9), preprocess=preprocess)
    assert evaluate(net, Batches(*digits.test, preprocess=preprocess)) > 0.95
    assert history.losses[-1] < 0.1 * history.losses[0]


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_two_runs_with_one_seed_are_bit_identical(optimizer):
    assert torch.equal(weights(trained(optimizer=optimizer)), weights(trained(optimizer=optimizer)))


def test_another_seed_is_another_order():
    assert not torch.equal(weights(trained(seed=0)), weights(trained(seed=1)))


def test_what_others_draw_at_random_changes_nothing():
    def drawing(net, step):
        torch.rand(7)

    torch.manual_seed(123)
    first = trained()
    torch.manual_seed(321)
    assert torch.equal(weights(first), weights(trained(watch=drawing)))


def test_dropout_is_the_same_in_two_runs_whatever_a_watch_draws():
    def once(watch):
        net = small()
        net = nn.Sequential(net.layers, nn.Dropout(0.5), net.output)
        fit(net, DATA, training(), watch=watch)
        return weights(net)

    assert torch.equal(once(None), once(lambda net, step: torch.rand(3)))


def test_training_leaves_the_random_state_of_the_world_alone():
    net, before = small(), torch.random.get_rng_state()
    fit(net, DATA, training(epochs=1))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("mode", [True, False])
def test_the_mode_of_the_network_is_left_as_it_was(mode):
    net = small().train(mode)
    fit(net, DATA, training(epochs=1))
    evaluate(net, [(POINTS, LABELS)])
    assert net.training is mode


def test_one_plain_step_is_one_gradient_step():
    net, twin = small(), small()
    fit(net, DATA, training(epochs=1, batch=65, lr=0.1))
    nn.functional.cross_entropy(twin(POINTS), LABELS).backward()
    expected = torch.cat([(p - 0.1 * p.grad).detach().flatten() for p in twin.parameters()])
    torch.testing.assert_close(weights(net), expected)


def test_no_epoch_is_no_change():
    net = small()
    before = weights(net)
    assert fit(net, DATA, training(epochs=0)).steps == 0
    assert torch.equal(weights(net), before)


def test_every_sample_is_seen_once_an_epoch_and_no_batch_is_a_single_one():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            seen.append(x)
            return self.layer(x)

    history = fit(Spy(), DATA, training(epochs=1))
    assert [len(x) for x in seen] == [16, 16, 16, 17]
    assert history.steps == 4
    assert torch.equal(torch.cat(seen).sort(0).values, POINTS.sort(0).values)


def test_the_loss_of_an_epoch_is_the_mean_over_its_samples():
    net = small()
    expected = nn.functional.cross_entropy(net(POINTS), LABELS).item()
    assert fit(net, DATA, training(epochs=1, lr=1e-12)).losses[0] == pytest.approx(expected, rel=1e-5)


def test_the_cosine_ends_near_zero():
    moves = []
    last = [weights(small())]

    def measure(net, step):
        moves.append(float((weights(net) - last[0]).norm()))
        last[0] = weights(net)

    fit(small(), DATA, training(epochs=10, batch=65, schedule="cosine"), watch=measure)
    assert moves[-1] < 0.1 * moves[1]


def test_a_watch_is_called_before_the_first_step_and_after_every_one():
    steps = []
    fit(small(), DATA, training(), watch=lambda net, step: steps.append(step))
    assert steps == list(range(9))


def test_a_watch_of_epochs_is_told_of_each_and_counts_on_after_a_stop(tmp_path):
    for epochs in (1, 4):  # the second goes on from the first's checkpoint
        net = small()
        watch = Watch(net, DATA, every_epoch=2)
        fit(net, DATA, training(epochs=epochs), watch=watch, checkpoints=Checkpoints(tmp_path))
    assert list(dict.fromkeys(row.step for row in watch.readings.rows)) == [0, 8, 16]
    assert watch.epochs == 4


def test_a_watch_that_leaves_the_network_in_evaluation_does_not_stop_training_mode():
    modes = []

    class Spy(nn.Linear):
        def forward(self, x):
            modes.append(self.training)
            return super().forward(x)

    fit(Spy(4, 2), DATA, training(epochs=1), watch=lambda net, step: net.eval())
    assert all(modes)


def test_an_alternation_is_stepped_after_the_optimizer():
    net = rewire(ResidualMLP(4, 8, 3, 2), ResidualDropPath(0.5))
    alternation = Alternation(net, rows=16)
    fit(net, (POINTS[:48], LABELS[:48]), training(epochs=1), alternation=alternation)
    assert alternation.stage == 2


def test_a_lost_loss_stops_with_its_step_and_a_likely_cause():
    net, spoiled = small(), POINTS.clone()
    spoiled[:] = float("nan")
    with pytest.raises(DivergedError, match=r"the loss is nan at step 1; .*NaN or inf in the data"):
        fit(net, (spoiled, LABELS), training(epochs=1))


def test_the_step_of_a_lost_loss_is_the_first_one():
    def spoil(net, step):
        if step == 60:
            net.output.bias.data.fill_(float("inf"))

    with pytest.raises(DivergedError, match="at step 61;"):
        trained(epochs=20, watch=spoil)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epochs": -1}, "epochs must be at least 0"),
        ({"batch": 0}, "batch at least 1"),
        ({"lr": 0.0}, "lr must be a positive number"),
        ({"lr": float("nan")}, "lr must be a positive number"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, said):
    with pytest.raises(ValueError, match=said):
        trained(**change)


def test_samples_and_labels_must_be_as_many():
    with pytest.raises(ValueError, match="65 images but 64 labels"):
        fit(small(), (POINTS, LABELS[:64]), training())


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (LABELS + 1, "labels go up to 2, but MLP puts out 2 classes"),
        (LABELS - 1, "the least is -1"),
        (LABELS.double(), "whole numbers from 0, not torch.float64"),
    ],
)
def test_labels_that_are_no_classes_of_the_network_are_refused(labels, said):
    net = small()
    before = weights(net)
    with pytest.raises(ValueError, match=said):
        fit(net, (POINTS, labels), training())
    assert torch.equal(weights(net), before)


def test_labels_that_cross_entropy_leaves_out_and_probabilities_are_taken():
    fit(small(), (POINTS, LABELS.index_fill(0, torch.arange(3), -100)), training())
    soft, hard = small(), small()
    fit(soft, (POINTS, torch.nn.functional.one_hot(LABELS, 2).float()), training())
    fit(hard, DATA, training())
    torch.testing.assert_close(weights(soft), weights(hard))


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="not one sample"):
        fit(small(), (POINTS[:0], LABELS[:0]), training())


def test_a_network_without_parameters_cannot_be_trained():
    with pytest.raises(ValueError, match="no parameter to train"):
        fit(nn.Flatten(), DATA, training())


def test_accuracy_is_the_share_of_right_answers_over_ragged_batches():
    net = nn.Identity()
    outputs = torch.eye(3)[[0, 1, 2, 0, 1]]
    assert evaluate(net, [(outputs[:4], torch.tensor([0, 1, 0, 0])), (outputs[4:], torch.tensor([1]))]) == 0.8


def test_accuracy_of_nothing_is_refused():
    with pytest.raises(ValueError, match="not one sample"):
        evaluate(small(), [])
