"""`winze.continual`: tasks in turn on one's own network, what is read after each, and what it refuses."""

import subprocess
import sys
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import winze
from winze.data import DataError, Flip, Squares
from winze.data.task_list import task_list
from winze.measure import task_accuracy as lost
from winze.networks import NetworkError, give_heads
from winze.observe.sequence import DepthProfiles, Sequence
from winze.readings import Readings, ReadingsError
from winze.train import SGD, Epochs, Training

UNTYPED = getattr(winze.continual, "__wrapped__", winze.continual)  # as users call it, whose types nobody checks
BRIEF = Training(Epochs(3), 32, SGD(0.1, momentum=0.9))


def small(outputs=4, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, outputs))


def blobs(classes, seed=0, shift=0.0, count=96):
    """Points around one centre per class, as (x, y)."""
    centres = 4 * torch.randn(10, 6, generator=torch.Generator().manual_seed(9)) + shift
    labels = torch.tensor(classes).repeat(count // len(classes))
    noise = torch.randn(len(labels), 6, generator=torch.Generator().manual_seed(seed))
    return centres[labels] + noise, labels


def pair(classes, **how):
    return blobs(classes, seed=1, **how), blobs(classes, seed=2, **how)


@pytest.fixture(scope="module")
def found():
    net = small()
    sequence = winze.continual(net, [pair([0, 1]), pair([2, 3])], BRIEF)
    return net, sequence


def test_a_network_is_trained_in_place_and_forgets_the_classes_of_task_1(found):
    net, sequence = found
    (x, y), (x2, y2) = blobs([0, 1], seed=2), blobs([2, 3], seed=2)
    with torch.no_grad():
        now = [float((net(a).argmax(1) == b).double().mean()) for a, b in ((x, y), (x2, y2))]
    assert sequence.matrix[-1] == pytest.approx(now)
    assert sequence.matrix[0, 0] > 0.9
    assert sequence.matrix[1, 1] > 0.9
    assert sequence.forgetting[0] == pytest.approx(sequence.matrix[0, 0] - sequence.matrix[1, 0])
    assert sequence.forgetting[0] > 0.5  # one head without any regularisation


def test_drift_is_zero_after_task_1_and_one_minus_cka_to_it_later(found):
    _, sequence = found
    first = small()
    winze.continual(first, [pair([0, 1]), pair([2, 3])], [BRIEF, Training(Epochs(0))], measures=())
    now, test = found[0], blobs([0, 1], seed=2)
    names = [place.name for place in sequence.places]
    assert names == ["1", "3"]  # the output is no place
    expected = winze.cka_between(first, now, test, places=names, other_places=names).cka
    drift = sequence.profile("cka_drift")
    assert drift[0] == pytest.approx([0, 0], abs=1e-6)
    assert drift[1] == pytest.approx(1 - expected.diagonal(), abs=1e-5)
    assert sequence.readings.arrays["cka_to_first/2"] == pytest.approx(expected, abs=1e-5)


def test_profiles_are_those_of_a_scan_of_the_network(found):
    net, sequence = found
    read = winze.scan(net, *pair([0, 1]), places=["1", "3"], measures=("probe", "rank"), name="task 1", batch=500)
    assert sequence.profile("numerical_rank")[-1].tolist() == read.curve("numerical_rank").tolist()
    assert sequence.profile("probe")[-1] == pytest.approx(read.curve("probe"))
    assert sequence.profile("probe", task=2).shape == (2, 2)
    with pytest.raises(ReadingsError, match="numbered 1 to 2"):
        sequence.profile("probe", task=3)


def test_the_table_is_tidy_and_has_every_accuracy(found):
    _, sequence = found
    table = sequence.table
    rows = table[table.measure == "accuracy"]
    assert rows.after.tolist() == [0, 0, 1, 1, 2, 2]
    assert rows.value.to_numpy().reshape(3, 2) == pytest.approx(np.vstack([sequence.start, sequence.matrix]))


def test_a_sequence_comes_back_from_its_folder_and_writes_its_page(found, tmp_path):
    _, sequence = found
    sequence.save(tmp_path / "read")
    back = Sequence.load(tmp_path / "read")
    assert back.table.equals(sequence.table)
    assert (back.matrix == sequence.matrix).all()
    page = back.report(tmp_path / "page.html").read_text()
    for title in ("Accuracy matrix", "Accuracy during training", "Drift over depth and tasks", "Probes of task 1"):
        assert title in page
    assert (tmp_path / "page_figures" / "cka_drift.png").is_file()
    with pytest.raises(ReadingsError, match="no accuracy matrix"):
        Sequence(Readings())


def test_every_task_has_a_head_of_its_own_in_task_incremental_sequences():
    net = small()
    sequence = winze.continual(net, [pair([0, 1]), pair([5, 7, 9])], BRIEF, incremental="task", measures=())
    assert [head.out_features for head in net[-1].heads] == [2, 3]
    assert sequence.matrix.diagonal().min() > 0.9
    assert sequence.places == []


def test_two_calls_with_one_seed_agree_and_another_seed_differs():
    runs = [
        winze.continual(small(), [pair([0, 1]), pair([2, 3])], BRIEF, measures=(), seed=seed).readings.arrays["curves"]
        for seed in (3, 3, 4)
    ]
    assert (runs[0] == runs[1]).all()
    assert not (runs[0] == runs[2]).all()


def test_each_task_may_have_a_training_of_its_own():
    net = small(2)
    still = Training(Epochs(0))
    sequence = winze.continual(net, [pair([0, 1]), pair([0, 1], shift=9)], [BRIEF, still], incremental="domain")
    assert (sequence.matrix[0] == sequence.matrix[1]).all()
    assert sequence.profile("cka_drift")[1] == pytest.approx([0, 0], abs=1e-6)


def test_transfer_follows_its_definitions():
    matrix = np.array([[0.9, 0.3, 0.2], [0.7, 0.8, 0.4], [0.4, 0.7, 0.6]])
    assert lost.average_accuracy(matrix) == pytest.approx([0.9, 0.75, 1.7 / 3])
    assert lost.forgetting(matrix) == pytest.approx([0.5, 0.1, 0.0])
    assert lost.backward_transfer(matrix) == pytest.approx(-0.3)
    assert lost.forward_transfer(matrix, np.array([0.1, 0.1, 0.2])) == pytest.approx((0.2 + 0.2) / 2)
    with pytest.raises(ValueError, match="one row and one column"):
        lost.forgetting(np.zeros((2, 3)))


BAD = {
    "share the classes 1": ([pair([0, 1]), pair([1, 2])], {}),
    "1 class": ([pair([0, 1]), pair([2])], {}),
    "at least two tasks": ([pair([0, 1])], {}),
    "up to 9": ([pair([0, 1]), pair([8, 9])], {}),
    "one per task": ([pair([0, 1]), pair([2, 3])], {"training": [BRIEF]}),
    "shapes": ([pair([0, 1]), tuple((x[:, :5], y) for x, y in pair([2, 3]))], {}),
    "its training set lacks: 3": ([pair([0, 1]), (blobs([2, 4]), blobs([3, 4]))], {}),
    "incremental is": ([pair([0, 1]), pair([2, 3])], {"incremental": "none"}),
    "split=": ([pair([0, 1]), pair([2, 3])], {"split": 2}),
    "samples must be at least 1": ([pair([0, 1]), pair([2, 3])], {"samples": 0}),
    "training is a": ([pair([0, 1]), pair([2, 3])], {"training": None}),
    "does not take samples such as": ([tuple((x[:, :5], y) for x, y in pair([k, k + 1])) for k in (0, 2)], {}),
    "measures are": ([pair([0, 1]), pair([2, 3])], {"measures": "prob"}),
    "probe must be": ([pair([0, 1]), pair([2, 3])], {"probe": "rige"}),
    "pool must be": ([pair([0, 1]), pair([2, 3])], {"pool": "men"}),
    "no module '9'": ([pair([0, 1]), pair([2, 3])], {"places": ["9"]}),
    "whole-number label": ([pair([0, 1]), tuple((x, y.double()) for x, y in pair([2, 3]))], {}),
}


@pytest.mark.parametrize("why", BAD)
def test_tasks_that_make_no_sequence_are_refused_before_anything_is_trained(why):
    tasks, how = BAD[why]
    net = small()
    before = [weight.clone() for weight in net.parameters()]
    with pytest.raises(ValueError, match=why):
        UNTYPED(net, tasks, **{"training": BRIEF} | how)
    assert all(map(torch.equal, before, net.parameters()))


def test_what_is_no_network_is_named():
    with pytest.raises(NetworkError, match=r"a torch\.nn\.Module, not str"):
        UNTYPED("net", [pair([0, 1]), pair([2, 3])], BRIEF)


def test_arrays_of_numpy_go_in_as_they_are_made():
    arrays = [tuple((x.double().numpy(), y.int().numpy()) for x, y in pair([k, k + 1])) for k in (0, 2)]
    tensors = [pair([0, 1]), pair([2, 3])]
    one, other = (winze.continual(small(), given, BRIEF, measures=()) for given in (arrays, tensors))
    assert np.array_equal(one.matrix, other.matrix)


def test_loaders_of_batches_are_read_as_the_tensors_that_they_hold():
    tensors = [pair([0, 1]), pair([2, 3])]
    loaders = [tuple(DataLoader(TensorDataset(*part), batch_size=7) for part in task) for task in tensors]
    one, other = (winze.continual(small(), given, BRIEF, measures=()) for given in (loaders, tensors))
    assert np.array_equal(one.matrix, other.matrix)
    with pytest.raises(DataError, match=r"task 1, train is a pair .*, or a loader of batches"):
        winze.continual(small(), [(iter([1, 2]), iter([3]))] * 2, BRIEF)


def test_a_page_says_which_layers_are_constant_and_that_nothing_was_forgotten(found, tmp_path):
    _, sequence = found
    readings = deepcopy(sequence.readings)
    readings.arrays["accuracy_matrix"] = np.array([[0.8, 0.1], [0.9, 0.9]])
    first = sequence.places[0].name
    readings.rows = [
        replace(row, value=float("nan")) if row.measure == "cka_drift" and row.place == first else row
        for row in readings.rows
    ]
    page = Sequence(readings).report(tmp_path / "page.html").read_text()
    assert "It forgets nothing: no task lost accuracy, and the mean gain is 10.0 points." in page
    assert f"Features of layer 1 ({first}) are constant at the end" in page
    assert "has drifted most" not in page, "one layer alone is not compared"


def test_drift_of_constant_features_says_why_it_is_missing():
    net = small()
    data = {"task 1": (blobs([0, 1]), blobs([0, 1]))}
    profiles = DepthProfiles(data, ["1"], ("cka_drift",))
    profiles.read(net, 1)
    net[0].weight.data.zero_()
    profiles.read(net, 2)
    assert [row.note for row in profiles.readings.rows] == ["", "constant features have no CKA"]


@pytest.mark.parametrize(("heads", "why"), [((2, 2, 2), "3 heads for 2 tasks"), ((2, 3), "head 2 has 3 outputs")])
def test_heads_that_do_not_fit_the_tasks_are_refused(heads, why):
    net = small()
    give_heads(net, heads)
    with pytest.raises(NetworkError, match=why):
        winze.continual(net, [pair([0, 1]), pair([2, 3])], BRIEF, incremental="task")


def test_heads_per_task_are_refused_where_all_tasks_share_one():
    net = small()
    give_heads(net, (2, 2))
    with pytest.raises(NetworkError, match="incremental='task'"):
        winze.continual(net, [pair([0, 1]), pair([2, 3])], BRIEF)


@pytest.mark.parametrize(
    ("square", "why"), [(Squares(9), "reach beyond"), (Squares(2, classes=3), "3 codes for 4 classes")]
)
def test_squares_that_do_not_fit_are_refused_before_anything_is_trained(square, why):
    x, y = torch.zeros(40, 3, 8, 8, dtype=torch.uint8), torch.arange(40) % 4
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    painted = Training(Epochs(1), augment=(Flip(), square))
    with pytest.raises(DataError, match=why):
        winze.continual(net, [((x, y), (x, y))] * 2, [BRIEF, painted], incremental="domain")


def test_a_data_set_is_split_by_its_classes():
    parts = task_list("digits", 5).parts
    assert [part.classes for part in parts] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert set(parts[1].train[1].tolist()) == {2, 3}
    assert set(task_list("digits", 5, "task").parts[1].train[1].tolist()) == {0, 1}
    for split, why in ((3, "cannot be split into 3 equal"), (None, "give split="), (("0-4", "4-9"), "in two tasks")):
        with pytest.raises(DataError, match=why):
            task_list("digits", split)


def test_importing_winze_does_not_import_what_trains():
    code = "import sys, winze; print('winze.train' in sys.modules, 'lightning_fabric' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "False"]
    with pytest.raises(AttributeError, match="has no attribute"):
        winze.no_such_name  # noqa: B018
