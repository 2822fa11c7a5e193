"""What each change of a network moves, from the kept runs."""

import json
import re
import statistics
import sys
from pathlib import Path

import pytest
from scripts import script

ROOT = Path(__file__).parents[2]
script("figures")
all_runs = sys.modules["all_runs"]


@pytest.fixture(scope="module")
def changes():
    return all_runs.changes(ROOT / "results")


def test_a_difference_is_the_mean_over_pairs_of_seeds(changes):
    runs = json.loads((ROOT / "results/decayed/supervised.json").read_text())["runs"]
    accuracy = {
        (run["point"]["alpha"], run["seed"]): row["values"][-1]
        for run in runs
        if run["scale"] == "gpu" and run["point"]["blocks"] == 8
        for row in run["rows"]
        if row["measure"] == "accuracy" and row["data"] == "cifar10"
    }
    gains = [100 * (accuracy[0.4, seed] - accuracy[1.0, seed]) for seed in (0, 1, 2)]
    (found,) = [one for one in changes if one.what == "alpha 0.4" and one.network == "resnet, blocks 8"]
    assert found.accuracy.estimate == pytest.approx(statistics.fmean(gains))
    assert found.accuracy.n == 3


def test_no_change_is_there_twice_or_with_fewer_than_three_seeds(changes):
    assert len({(one.kind, one.what, one.network) for one in changes}) == len(changes)
    assert min(one.ood.n for one in changes) >= 3


def test_the_counts_in_the_text_are_those_of_the_table(changes):
    page = (ROOT / "docs/all_runs.md").read_text()
    small, total = map(int, re.search(r"(\d+) of (\d+) changes move accuracy by less than one point", page).groups())
    assert total == len(changes)
    assert small == sum(abs(one.accuracy.estimate) < 1 for one in changes)
    assert f"and {total} comparisons" in page
