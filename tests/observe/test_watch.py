import copy
import sys

import numpy as np
import pandas
import pytest
import torch
from nets import ResNet, mlp
from samples import hooks_of, images, lively, loader, rows
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import winze

MEASURES = ("rank", "norm", "cka", "weight_change")


def train(net: nn.Module, watch: winze.Watch | None, steps: int, data: tuple[Tensor, Tensor]) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(data[0]), data[1]).backward()
        optimizer.step()
        if watch is not None:
            watch.step()


def test_a_watch_reads_at_the_start_and_every_so_many_steps():
    net = mlp()
    watch = winze.Watch(net, rows(30), every=3)
    train(net, watch, 8, rows(30, seed=1))
    assert steps_read(watch) == [0, 3, 6]


def steps_read(watch: winze.Watch) -> list[int | None]:
    """The steps of all readings, in order; one that was read twice in a row shows as one."""
    return list(dict.fromkeys(row.step for row in watch.readings.rows))


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"every_epoch": 1}, [0, 3, 6, 9, 12]),
        ({"every_epoch": 2}, [0, 6, 12]),
        ({"every": 4, "every_epoch": 2}, [0, 4, 6, 8, 12]),
        ({"every": 3}, [0, 3, 6, 9, 12]),
        ({}, [0]),
    ],
    ids=str,
)
def test_a_watch_reads_after_so_many_epochs_steps_or_both_and_no_step_twice(options, steps):
    net = mlp()
    watch = winze.Watch(net, rows(30), measures=["norm", "weight_change"], **options)
    for _ in range(4):
        train(net, watch, 3, rows(30, seed=1))
        watch.epoch()
    assert steps_read(watch) == steps
    assert watch.epochs == 4
    for measure in ("sample_norm", "weight_change"):
        read = [(row.place, row.step) for row in watch.readings.select(measure=measure).rows]
        assert len(read) == len(set(read))
        assert list(dict.fromkeys(step for _, step in read)) == steps
    assert watch.readings.conventions.every_epoch == options.get("every_epoch")


def test_a_watch_that_is_set_back_counts_its_epochs_on():
    net, data = mlp(), rows(30, seed=1)
    watch = winze.Watch(net, rows(30), every_epoch=2)
    train(net, watch, 3, data)
    watch.epoch()
    other = winze.Watch(net, rows(30), every_epoch=2)
    other.load_state_dict(watch.state_dict())
    train(net, other, 3, data)
    other.epoch()
    assert (other.epochs, steps_read(other)) == (2, [0, 6])
    older = {key: value for key, value in watch.state_dict().items() if key != "epochs"}
    other.load_state_dict(older)
    assert other.epochs == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_watch_follows_a_network_that_is_moved():
    net = mlp()
    watch = winze.Watch(net, rows(30), every=1, train=rows(40, seed=1), measures=MEASURES)
    net.cuda()
    watch.step()
    for measure in ("numerical_rank", "probe", "sample_norm", "cka_to_reference"):
        first, moved = (watch.readings.curve(measure, step=step) for step in (0, 1))
        np.testing.assert_allclose(moved, first, rtol=1e-4)


def test_a_watch_reads_what_a_scan_reads_at_that_moment():
    net, test, fit = ResNet(), images(40), images(60, seed=1)
    watch = winze.Watch(net, test, every=2, train=fit, measures=["rank", "norm", "variance", "collapse"], batch=16)
    train(net, watch, 2, fit)
    scan = winze.scan(net, fit, test, batch=16)
    for measure in ("numerical_rank", "effective_rank", "sample_norm", "intra_variance", "nc1", "probe"):
        np.testing.assert_array_equal(watch.readings.curve(measure, step=2), scan.curve(measure))
    assert watch.readings.curve("effective_rank", step=0).tolist() != scan.curve("effective_rank").tolist()


def test_weights_may_be_read_less_often_and_then_change_since_their_own_last_reading():
    net, data = mlp(), rows(30)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    watch = winze.Watch(net, data, every=1, measures=["rank", "weight_change"], weights_every=3)
    train(net, watch, 4, data)
    read = watch.readings.select(measure="weight_change").rows
    assert list(dict.fromkeys(row.step for row in read)) == [0, 3]
    assert len({row.step for row in watch.readings.select(measure="numerical_rank").rows}) == 5
    again = mlp()
    again.load_state_dict(before)
    train(again, None, 3, data)
    for name, p in again.named_parameters():
        (row,) = (row for row in read if row.step == 3 and row.place == name)
        assert row.value == pytest.approx(float((p.detach() - before[name]).square().mean().sqrt()), rel=1e-5)
    with pytest.raises(ValueError, match="multiple of every, 2, not 3"):
        winze.Watch(net, data, every=2, weights_every=3)


def test_weight_change_is_the_root_mean_square_since_the_last_reading():
    net = mlp()
    watch = winze.Watch(net, rows(30), every=2, measures=["weight_change"])
    train(net, watch, 2, rows(30, seed=1))
    middle = {name: p.detach().clone() for name, p in net.named_parameters()}
    train(net, watch, 2, rows(30, seed=1))
    for name, parameter in net.named_parameters():
        (row,) = (r for r in watch.readings.select(measure="weight_change", place=name).rows if r.step == 4)
        expected = (parameter.detach() - middle[name]).double().square().mean().sqrt()
        assert row.value == pytest.approx(float(expected))
        assert row.value > 0


def test_similarity_to_the_start_is_one_there_and_falls():
    net = mlp()
    watch = winze.Watch(net, rows(60), every=20, measures=["cka"], batch=60)
    train(net, watch, 20, rows(60, seed=1))
    np.testing.assert_allclose(watch.readings.curve("cka_to_reference", step=0), 1, atol=1e-9)
    assert (watch.readings.curve("cka_to_reference", step=20) < 1 - 1e-6).all()


def test_similarity_to_another_network_is_cka_between_the_two():
    net, other, (x, y) = mlp(), mlp(), rows(60)
    watch = winze.Watch(net, (x, y), measures=["cka"], reference=other, places=["1", "6"], batch=60)
    expected = [
        float(winze.measure.linear_cka(net[: i + 1](x).detach(), other[: i + 1](x).detach(), unbiased=True))
        for i in (1, 6)
    ]
    np.testing.assert_allclose(watch.readings.curve("cka_to_reference"), expected, atol=1e-6)


def test_similarity_of_broken_features_is_no_number_and_says_why():
    x, y = rows(60)
    x[3] = torch.nan
    watch = winze.Watch(mlp(), (x, y), measures=["cka"])
    found = watch.readings.select(measure="cka_to_reference").rows
    assert found
    assert all(np.isnan(row.value) and row.note == "1 of 60 samples hold NaN or inf" for row in found)


def test_similarity_of_a_network_to_itself_is_one():
    net = mlp()
    watch = winze.Watch(net, rows(60), measures=["cka"], reference=net)
    np.testing.assert_allclose(watch.readings.curve("cka_to_reference"), 1, atol=1e-9)


def test_similarity_over_a_shuffled_loader_compares_the_same_samples():
    shuffled = DataLoader(TensorDataset(*rows(60)), 20, shuffle=True)
    watch = winze.Watch(mlp(), shuffled, measures=["cka"])
    np.testing.assert_allclose(watch.readings.curve("cka_to_reference"), 1, atol=1e-9)


def test_watching_does_not_change_the_training():
    plain, watched = ResNet(), None
    watched = copy.deepcopy(plain)
    fit = images(30, seed=1)
    train(plain, None, 4, fit)
    train(watched, winze.Watch(watched, images(20), every=1, train=fit, measures=MEASURES), 4, fit)
    torch.testing.assert_close(plain.state_dict(), watched.state_dict(), rtol=0, atol=0)


def test_modes_and_statistics_stay_and_no_hooks_are_left():
    net = lively(ResNet()).train()
    net.stem.eval()
    state, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    watch = winze.Watch(net, images(20), train=images(30, seed=1), measures=MEASURES)
    watch.read()
    torch.testing.assert_close(net.state_dict(), state, rtol=0, atol=0)
    assert [m.training for m in net.modules()] == modes
    assert hooks_of(net) == 0
    assert torch.is_grad_enabled()


def test_a_network_that_raises_leaves_no_hooks():
    net = mlp().train()
    watch = winze.Watch(net, rows(30), measures=["cka"], batch=16)
    net[2] = nn.Linear(5, 8)
    with pytest.raises(RuntimeError):
        watch.read()
    assert hooks_of(net) == 0
    assert all(m.training for m in net.modules())


def test_curves_over_training_are_saved(tmp_path):
    net = mlp()
    watch = winze.Watch(net, loader(rows(30), 10), every=1, name="toy")
    train(net, watch, 2, rows(30, seed=1))
    watch.save(tmp_path)
    back = winze.Scan.load(tmp_path)
    pandas.testing.assert_frame_equal(back.table, watch.readings.table)
    assert back.readings.conventions["every"] == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"measures": ["rnak"]}, "measures are probe, rank.*got rnak"),
        ({"measures": ["probe"]}, "probes need train data"),
        ({"every": 0}, "every must be at least 1, got 0"),
        ({"every_epoch": 0}, "every_epoch must be at least 1, got 0"),
        ({"every_epoch": 1, "weights_every": 5}, "weights_every is a multiple of every, None, not 5"),
        ({"pool": "max"}, "pool must be"),
        ({"places": "nowhere"}, "nearest names"),
    ],
)
def test_an_option_of_a_watch_that_makes_no_sense_is_named(options, reason):
    with pytest.raises(ValueError, match=reason):
        winze.Watch(mlp(), rows(30), **options)


def test_a_watch_without_data_says_so():
    with pytest.raises(ValueError, match="data test: no samples"):
        winze.Watch(mlp(), [])


def test_the_callback_asks_for_lightning_where_it_is_missing(monkeypatch):
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, f"{name}.callbacks", None)
    with pytest.raises(ImportError, match="pip install lightning"):
        winze.Watch(mlp(), rows(30)).callback()


def test_a_watch_set_back_to_an_earlier_state_reads_on_from_there():
    net, data = mlp(), rows(30, seed=1)
    watch = winze.Watch(net, rows(30), every=2, measures=MEASURES)
    start = copy.deepcopy(net)
    train(net, watch, 3, data)
    state, weights = copy.deepcopy(watch.state_dict()), copy.deepcopy(net.state_dict())
    train(net, watch, 3, data)
    other = winze.Watch(start, rows(30), every=2, measures=MEASURES)
    start.load_state_dict(weights)
    other.load_state_dict(state)
    train(start, other, 3, data)
    pandas.testing.assert_frame_equal(other.readings.table, watch.readings.table)
    assert other.steps == 6


def test_a_watch_restored_from_a_file_reads_what_an_uninterrupted_one_does(tmp_path):
    options = {"every": 2, "measures": MEASURES, "train": rows(40, seed=3)}
    net, data = mlp(), rows(30, seed=1)
    first = copy.deepcopy(net)
    whole = winze.Watch(net, rows(30), **options)
    train(net, whole, 6, data)
    stopped = winze.Watch(first, rows(30), **options)
    train(first, stopped, 3, data)
    torch.save({"net": first.state_dict(), "watch": stopped.state_dict()}, tmp_path / "state.pt")
    train(first, stopped, 1, data)  # what was saved does not move on

    other = mlp()  # other weights than the first had at its start
    resumed = winze.Watch(other, rows(30), **options)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    other.load_state_dict(state["net"])
    resumed.load_state_dict(state["watch"])
    train(other, resumed, 3, data)
    pandas.testing.assert_frame_equal(resumed.readings.table, whole.readings.table, check_exact=True)
    assert {"cka_to_reference", "weight_change", "probe"} <= {row.measure for row in whole.readings.rows}


def test_a_state_taken_earlier_does_not_move_with_the_watch():
    net, data = mlp(), rows(30, seed=1)
    watch = winze.Watch(net, rows(30), every=1, measures=MEASURES)
    train(net, watch, 1, data)
    state = watch.state_dict()
    before = copy.deepcopy(state)
    train(net, watch, 2, data)
    watch.load_state_dict(state)
    train(net, watch, 2, data)
    assert str(state["rows"]) == str(before["rows"])  # as text, since NaN is not itself
    for part in ("weights", "reference"):
        assert state[part].keys() == before[part].keys()
        assert all(torch.equal(value, before[part][name]) for name, value in state[part].items())


def test_a_given_reference_is_not_in_the_state():
    watch = winze.Watch(mlp(), rows(30), measures=["cka"], reference=mlp())
    assert watch.state_dict()["reference"] == {}
