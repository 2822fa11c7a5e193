import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset

from winze import Alternation, ResidualDropPath, Watch, rewire
from winze.data import Batches, Preprocess, load
from winze.networks import MLP, ResidualMLP
from winze.train import (
    SGD,
    AdamW,
    Checkpoints,
    Classify,
    Cosine,
    CrossEntropy,
    DivergedError,
    Epochs,
    NAdam,
    Steps,
    StoreError,
    Training,
    evaluate,
    fit,
)
from winze.train.sources import source_of

POINTS = torch.randn(65, 4, generator=torch.Generator().manual_seed(0))
LABELS = (POINTS.sum(1) > 0).long()
DATA = POINTS, LABELS


def training(epochs: float = 2, lr: float = 0.05, **kwargs) -> Training:
    return Training(**({"length": Epochs(epochs), "batch": 16, "optimizer": SGD(lr)} | kwargs))


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return MLP(4, 8, 2, 2)


def weights(net: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def trained(seed: int = 0, followers=(), **kwargs) -> nn.Module:
    net = small()
    fit(net, DATA, training(**kwargs), seed=seed, followers=followers)
    return net


def test_an_mlp_learns_the_digits():
    digits = load("digits")
    preprocess = Preprocess.of(digits)
    net = MLP(64, 64, 2, 10)
    history = fit(net, digits.train, Training(Epochs(20), 64, SGD(0.05, momentum=0.9)), preprocess=preprocess)
    assert evaluate(net, Batches(*digits.test, preprocess=preprocess)) > 0.95
    assert history.losses[-1] < 0.1 * history.losses[0]


@pytest.mark.parametrize("optimizer", [SGD(0.05), AdamW(0.05)], ids=lambda one: type(one).__name__)
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
    assert torch.equal(weights(first), weights(trained(followers=[drawing])))


def test_dropout_is_the_same_in_two_runs_whatever_a_watch_draws():
    def once(*followers):
        net = small()
        net = nn.Sequential(net.layers, nn.Dropout(0.5), net.output)
        fit(net, DATA, training(), followers=followers)
        return weights(net)

    assert torch.equal(once(), once(lambda net, step: torch.rand(3)))


def test_training_leaves_the_global_random_state_alone():
    def state():
        return torch.random.get_rng_state().tolist(), np.random.get_state()[1].tolist()

    net, before = small(), state()
    fit(net, DATA, training(epochs=1))
    assert state() == before


@pytest.mark.parametrize("mode", [True, False])
def test_the_mode_of_the_network_is_left_as_it_was(mode):
    net = small().train(mode)
    fit(net, DATA, training(epochs=1))
    evaluate(net, [(POINTS, LABELS)])
    assert net.training is mode


class Frozen(nn.Module):
    """A network whose first norm the caller froze by `.eval()`; it notes the modes it runs in."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 8), nn.BatchNorm1d(8))
        self.head, self.seen = nn.Linear(8, 2), set()

    def forward(self, x):
        self.seen.add((self.training, *(module.training for module in self.body)))
        return self.head(self.body(x))


def test_a_norm_frozen_by_eval_stays_frozen_during_training_and_after():
    net = Frozen()
    net.body[1].eval()
    fit(net, DATA, training(), tests={"test": DATA}, followers=[lambda net, step: net.eval() if step % 2 else None])
    assert net.seen == {(True, True, False, True, True)}
    assert net.body[1].num_batches_tracked == 0
    assert net.body[3].num_batches_tracked == 8
    assert [module.training for module in net.body] == [True, False, True, True]


def test_a_norm_frozen_by_eval_stays_frozen_where_the_objective_holds_it_too():
    class Holding(CrossEntropy):
        def __init__(self, part):
            super().__init__()
            self.part = part

    net = Frozen()
    net.body[1].eval()
    fit(net, DATA, training(epochs=1, objective=Holding(net.body)))
    assert net.seen == {(True, True, False, True, True)}


def test_a_module_whose_own_train_keeps_it_in_eval_mode_stays_there():
    class Still(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    net = Frozen()
    net.body[1].__class__ = Still
    fit(net, DATA, training())
    assert net.seen == {(True, True, False, True, True)}


def test_a_network_wholly_in_eval_mode_is_trained_in_train_mode_and_given_back_in_eval_mode():
    net = Frozen().eval()
    fit(net, DATA, training(epochs=1))
    assert net.seen == {(True,) * 5}
    assert not any(module.training for module in net.modules())


def test_evaluating_leaves_the_mode_of_each_module():
    net = Frozen()
    net.body[1].eval()
    evaluate(net, [(POINTS, LABELS)])
    assert [module.training for module in net.body] == [True, False, True, True]


class Jittered(TensorDataset):
    """Samples that are moved a little by global generators; beartype draws from Python's while testing."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.01 * (torch.rand(()) + np.random.rand()), y


LOADERS = {
    "shuffle": lambda: DataLoader(TensorDataset(*DATA), 16, shuffle=True),
    "own generator": lambda: DataLoader(TensorDataset(*DATA), 16, shuffle=True, generator=torch.Generator()),
    "own sampler": lambda: DataLoader(TensorDataset(*DATA), 16, sampler=RandomSampler(DATA[0], replacement=True)),
    "jitter": lambda: DataLoader(Jittered(*DATA), 16, shuffle=True),
    "persistent workers": lambda: DataLoader(Jittered(*DATA), 16, num_workers=1, persistent_workers=True),
}


def loaded(name, seed=0, epochs=3, **kwargs):
    torch.manual_seed(random.randrange(2**30))  # whatever else was drawn before
    np.random.seed(random.randrange(2**30))
    net = nn.Sequential(small(), nn.Dropout(0.1))
    with torch.random.fork_rng([]):
        net[0].load_state_dict(small().state_dict())
    fit(net, LOADERS[name](), training(epochs=epochs), seed=seed, **kwargs)
    return weights(net)


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_that_draws_follows_the_seed(name):
    assert torch.equal(loaded(name), loaded(name))
    assert not torch.equal(loaded(name), loaded(name, seed=1))


@pytest.mark.parametrize("name", LOADERS)
def test_a_training_from_a_loader_that_was_stopped_goes_on_bit_for_bit(name, tmp_path):
    def stop(net, step):
        np.random.rand()
        if step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loaded(name, checkpoints=Checkpoints(str(tmp_path)), followers=[stop])
    assert torch.equal(loaded(name, checkpoints=Checkpoints(tmp_path)), loaded(name))


def test_epochs_of_a_shuffling_loader_differ():
    seen = []
    loader = DataLoader(TensorDataset(torch.arange(65.0)[:, None], LABELS), 65, shuffle=True)

    def spy(net, x, y):
        seen.append(x)
        return net(x).mean()

    fit(nn.Linear(1, 2), loader, training(lr=1e-9, objective=spy))
    assert torch.equal(seen[0].sort(0).values, seen[1].sort(0).values)
    assert not torch.equal(seen[0], seen[1])


@pytest.mark.parametrize(("length", "found"), [(2, "more"), (5, "only 4")])
def test_a_loader_whose_length_is_not_that_of_its_batches_is_refused(length, found):
    class Odd(list):
        def __len__(self):
            return length

    batches = Odd((POINTS[i : i + 16], LABELS[i : i + 16]) for i in range(0, 64, 16))
    with pytest.raises(ValueError, match=f"a length of {length} batches, but it gave {found}"):
        fit(small(), batches, training(epochs=1))


def test_a_loader_without_a_length_is_refused_in_words():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(zip(*DATA, strict=True))

    with pytest.raises(ValueError, match="the loader has no length, so no epoch"):
        fit(small(), DataLoader(Stream(), 16), training(epochs=1))


def test_a_loader_of_dicts_is_refused_in_words():
    with pytest.raises(
        ValueError, match=r"a loader gives batches \(x, y\) of tensors, or x alone; its batch 1 is a dict"
    ):
        fit(small(), [{"x": POINTS, "y": LABELS}], training(epochs=1))


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

    fit(small(), DATA, training(epochs=10, batch=65, schedule=Cosine()), followers=[measure])
    assert moves[-1] < 0.1 * moves[1]


def test_a_watch_is_called_before_the_first_step_and_after_every_one():
    steps = []
    fit(small(), DATA, training(), followers=[lambda net, step: steps.append(step)])
    assert steps == list(range(9))


def test_a_watch_of_epochs_is_told_of_each_and_counts_on_after_a_stop(tmp_path):
    for epochs in (1, 4):  # the second goes on from the first's checkpoint
        net = small()
        watch = Watch(net, DATA, every_epoch=2)
        fit(net, DATA, training(epochs=epochs), followers=[watch], checkpoints=Checkpoints(tmp_path))
    assert list(dict.fromkeys(row.step for row in watch.readings.rows)) == [0, 8, 16]
    assert watch.epochs == 4


def test_a_watch_that_leaves_the_network_in_evaluation_does_not_stop_training_mode():
    modes = []

    class Spy(nn.Linear):
        def forward(self, x):
            modes.append(self.training)
            return super().forward(x)

    fit(Spy(4, 2), DATA, training(epochs=1), followers=[lambda net, step: net.eval()])
    assert all(modes)


def test_an_alternation_is_stepped_after_the_optimizer():
    net = rewire(ResidualMLP(4, 8, 3, 2), ResidualDropPath(0.5))
    alternation = Alternation(net, rows=16)
    fit(net, (POINTS[:48], LABELS[:48]), training(epochs=1), followers=[alternation])
    assert alternation.stage == 2


def test_nan_in_the_data_is_reported_with_the_sample_whichever_step_meets_it():
    spoiled = POINTS.clone()
    spoiled[41, 2] = float("nan")
    with pytest.raises(DivergedError, match=r"the loss is nan at step \d; .*1 of 1[67] samples: number 41.*the data"):
        fit(small(), (spoiled, LABELS), training(epochs=1))


def test_nan_in_the_batches_of_a_loader_is_reported_as_such():
    spoiled = POINTS[:64].clone()
    spoiled[40, 0] = float("inf")
    loader = DataLoader(TensorDataset(spoiled, LABELS[:64]), 16, shuffle=True)
    with pytest.raises(DivergedError, match=r"its inputs or labels hold NaN or infinite values.*1 of 16 samples"):
        fit(small(), loader, training(epochs=1))


def test_nan_in_probabilities_is_reported_as_such():
    soft = nn.functional.one_hot(LABELS, 2).float()
    soft[3] = float("nan")
    with pytest.raises(DivergedError, match=r"inputs or labels hold NaN .*number 3\)"):
        fit(small(), (POINTS, soft), training(epochs=1))


def test_weights_that_are_nan_before_training_are_suspected_at_the_first_step():
    net = small()
    net.output.bias.data.fill_(float("nan"))
    with pytest.raises(DivergedError, match=r"at step 1; inputs are finite.*look at the weights"):
        fit(net, DATA, training(epochs=1))


def test_the_step_of_a_lost_loss_is_the_first_one():
    def spoil(net, step):
        if step == 61:
            net.output.bias.data.fill_(float("inf"))

    with pytest.raises(DivergedError, match="at step 62;"):
        trained(epochs=20, followers=[spoil])


def spoil_the_last(net, step):
    if step == 8:
        net.output.bias.data.fill_(float("nan"))


def test_a_last_update_that_spoils_the_weights_is_an_error_and_leaves_no_checkpoint(tmp_path):
    kept = Checkpoints(tmp_path)
    with pytest.raises(
        DivergedError, match=r"output.bias became NaN .*by step 8; the last good checkpoint is of step 4"
    ):
        fit(small(), DATA, training(epochs=2), followers=[spoil_the_last], checkpoints=kept)
    assert kept.newest().step == 4


def test_a_buffer_that_holds_infinity_from_the_start_is_no_divergence():
    net = small()
    net.register_buffer("mask", torch.full((3,), float("-inf")))
    assert fit(net, DATA, training(epochs=1)).steps == 4


def test_a_test_loss_that_is_not_finite_is_an_error():
    with pytest.raises(DivergedError, match="the test loss is nan after step 4; look for NaN or inf in the test set"):
        fit(small(), DATA, training(epochs=1), tests={"test": (POINTS * float("nan"), LABELS)})


@pytest.mark.parametrize("optimizer", [AdamW(1e9), NAdam(1e9)], ids=lambda one: type(one).__name__)
def test_a_loss_that_is_finite_and_absurd_is_an_error(optimizer):
    with pytest.raises(DivergedError, match=r"the mean loss of epoch 1 is .*e\+.*try a lower lr than 1e\+09"):
        trained(optimizer=optimizer)


def test_a_last_update_that_blows_up_shows_in_the_test_loss():
    with pytest.raises(DivergedError, match=r"the test loss after step 1 is .*e\+.*that of the first step was"):
        fit(small(), DATA, Training(Steps(1), 16, SGD(1e9)), tests={"test": DATA})


def test_logits_as_large_as_their_temperature_are_no_divergence():
    hot = Training(Epochs(2), 16, AdamW(1e3), objective=Classify(temperature=1e9))
    wrong = POINTS, 1 - LABELS
    assert fit(small(), DATA, hot, tests={"test": wrong}).metrics[-1]["test_loss"] > 1e5


def test_a_checkpoint_of_weights_that_are_nan_is_told_for_what_it_is(tmp_path):
    kept = Checkpoints(tmp_path)
    fit(small(), DATA, training(epochs=1), checkpoints=kept)
    newest = kept.newest()
    newest.weights["net.output.bias"][0] = float("nan")
    kept.save(newest.step, newest.weights, newest.state)
    with pytest.raises(StoreError, match=r"checkpoint of step 4 .*NaN or infinite values in net.output.bias.*remove"):
        fit(small(), DATA, training(epochs=2), checkpoints=kept)


def test_a_checkpoint_of_a_training_without_a_part_is_refused_by_name(tmp_path):
    fit(small(), DATA, training(epochs=1), checkpoints=Checkpoints(tmp_path))
    net = small()
    with pytest.raises(
        StoreError, match=r"step 4 .*is of a training without the follower 'ema': train with its settings"
    ):
        fit(net, DATA, training(epochs=2, ema=0.9), checkpoints=Checkpoints(tmp_path))
    with pytest.raises(StoreError, match="without the follower 'watch'"):
        fit(net, DATA, training(epochs=2), checkpoints=Checkpoints(tmp_path), followers=[Watch(net, DATA, every=2)])
    assert torch.equal(weights(net), weights(small()))


def test_samples_and_labels_must_be_as_many():
    with pytest.raises(ValueError, match="65 images but 64 labels"):
        fit(small(), (POINTS, LABELS[:64]), training())


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (LABELS + 1, "labels go up to 2, but MLP outputs 2 classes"),
        (LABELS - 1, "the least is -1"),
        (LABELS.index_fill(0, torch.arange(3), -100), "the least is -100: leave samples without a label out"),
        (LABELS.double(), "whole numbers from 0, not torch.float64"),
        (LABELS[:, None], r"labels of shape \(16, 1\) do not fit the outputs \(16, 2\) of MLP.*shape \(16,\)"),
        (LABELS[:, None].float(), r"labels of shape \(16, 1\) do not fit"),
    ],
)
@pytest.mark.parametrize("how", ["tensors", "loader"])
def test_labels_that_are_no_classes_of_the_network_are_refused(labels, said, how):
    net = small()
    before = weights(net)
    data = (POINTS, labels) if how == "tensors" else DataLoader(TensorDataset(POINTS, labels), 16)
    with pytest.raises(ValueError, match=said):
        fit(net, data, training())
    assert torch.equal(weights(net), before)


@pytest.mark.parametrize("kind", [torch.int32, torch.uint8, torch.bool, torch.int16])
def test_whole_numbers_of_any_type_are_labels(kind):
    net = small()
    fit(net, (POINTS, LABELS.to(kind)), training(), tests={"test": (POINTS, LABELS.to(kind))})
    assert torch.equal(weights(net), weights(trained()))


def test_outputs_that_are_no_tensor_want_an_objective():
    class Pair(nn.Linear):
        def forward(self, x):
            return super().forward(x), x

    with pytest.raises(ValueError, match="Pair outputs a tuple: give Training an objective="):
        fit(Pair(4, 2), DATA, training())


def test_probabilities_of_all_classes_are_labels():
    soft, hard = small(), small()
    fit(soft, (POINTS, torch.nn.functional.one_hot(LABELS, 2).float()), training())
    fit(hard, DATA, training())
    torch.testing.assert_close(weights(soft), weights(hard))


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="no samples"):
        fit(small(), (POINTS[:0], LABELS[:0]), training())


def test_a_network_without_parameters_cannot_be_trained():
    with pytest.raises(ValueError, match="no parameter to train"):
        fit(nn.Flatten(), DATA, training())


def test_accuracy_is_the_share_of_right_answers_over_ragged_batches():
    net = nn.Identity()
    outputs = torch.eye(3)[[0, 1, 2, 0, 1]]
    assert evaluate(net, [(outputs[:4], torch.tensor([0, 1, 0, 0])), (outputs[4:], torch.tensor([1]))]) == 0.8


def test_accuracy_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no samples"):
        evaluate(small(), [])


def test_arrays_are_refused_with_the_way_to_tensors():
    x, y = (part.numpy() for part in DATA)
    with pytest.raises(ValueError, match="a tuple of ndarray, ndarray: pass torch"):
        fit(small(), (x, y), training())
    with pytest.raises(ValueError, match="a tuple of ndarray, ndarray: pass torch"):
        fit(small(), DATA, training(), tests={"test": (x, y)})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            (torch.rand(40, 4).double(), LABELS[:40]),
            r"float64 and the network takes torch.float32: pass x.to\(torch.float32\)",
        ),
        (
            (torch.ones(40, 4, dtype=torch.uint8), LABELS[:40]),
            "uint8 and the network takes torch.float32: pass preprocess=",
        ),
        ((torch.rand(1, 4), LABELS[:1]), "a batch of one sample: choose another batch size, or drop_last=True"),
    ],
    ids=["float64", "bytes", "one sample"],
)
def test_inputs_that_a_network_cannot_take_are_refused_with_the_remedy(data, said):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    with pytest.raises(ValueError, match=said):
        fit(net, data, Training(Epochs(1), 8))


def test_a_dataset_without_a_loader_is_refused_with_the_way_to_one():
    untyped = getattr(source_of, "__wrapped__", source_of)  # as users call it, whose types nobody checks
    with pytest.raises(ValueError, match=r"not a TensorDataset: pass DataLoader\(dataset"):
        untyped(TensorDataset(POINTS, LABELS), training(), None, 0, torch.device("cpu"))
