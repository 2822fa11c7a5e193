"""Studies: what bounds other data and features, and who looks on."""

from dataclasses import replace

import pytest

from winze.lab.bench import Bench
from winze.lab.study import Study, train, train_and_read
from winze.train import Training

STUDY = Study("winze/mlp4x64", "digits[0-4]", Training(1, 128, lr=0.03), ood=("digits[5-9]",), limit=100)


def samples(study, folder):
    bench = Bench(folder)
    train_and_read(study, bench)
    return bench.readings


@pytest.mark.parametrize(("limit", "expected"), [(None, 100), (40, 40)])
def test_other_data_has_a_limit_of_its_own_where_one_is_given(tmp_path, limit, expected):
    told = samples(replace(STUDY, ood_limit=limit), tmp_path).conventions["samples"]
    assert told["digits[5-9]"]["train"] == expected
    assert told["digits[0-4]"]["train"] == 100


def test_ranks_are_of_so_many_features_at_most(tmp_path):
    readings = samples(replace(STUDY, max_features=10, ood=()), tmp_path)
    assert readings.curve("numerical_rank").max() <= 10
    assert readings.curve("features").tolist() == [64, 64, 64, 64, 5]


def test_the_onlooker_is_made_of_the_network_before_it_learns_and_sees_every_step(tmp_path):
    seen = []

    def watching(net, dataset, preprocess):
        start = net.output.weight.detach().clone()
        assert (len(dataset.train_labels), preprocess is not None) == (100, True)
        return lambda watched, step: seen.append((step, bool((watched.output.weight == start).all())))

    train(STUDY, Bench(tmp_path), watch=watching)
    assert seen == [(0, True), (1, False)]


def test_a_run_learns_on_the_device_that_it_says(tmp_path):
    bench = Bench(tmp_path)
    trained = train(STUDY, bench)
    assert next(trained.net.parameters()).device == bench.device
