"""One set of weights is read by every protocol, and starts are found by the network's own bar and by a fixed one."""

import math

import pytest

from winze.lab.runs.perform import perform
from winze.lab.runs.store import Runs
from winze.readings import Readings, ReadingsError
from winze.recipes.tunnel._quantities import LayerReaching
from winze.recipes.tunnel.protocol import recipe


def probed(*values):
    readings = Readings(
        conventions={"data": "own", "layers": {"": [1, 3, 5]}, "layer_count": 5, "places": ["a", "b", "c"]}
    )
    for index, value in enumerate(values):
        readings.add("probe", value, place="abc"[index], index=index, total=3, data="own", split="test")
    return readings


def test_the_first_layer_at_an_accuracy_is_given_by_the_papers_number():
    assert LayerReaching(0.8)(probed(0.5, 0.8, 0.9)) == 3
    assert LayerReaching(0.81)(probed(0.5, 0.8, 0.9)) == 5


def test_a_bar_above_every_layer_is_missing_with_the_best_accuracy():
    value = LayerReaching(0.95)(probed(0.5, 0.8, 0.9))
    assert math.isnan(value)
    assert "90.0%" in value.note
    with pytest.raises(ReadingsError, match="probe"):
        LayerReaching(0.5)(probed())


def test_every_protocol_of_a_network_reads_the_same_training(tmp_path):
    jobs = [job for job in recipe.jobs("smoke", {"network": ["vgg19"]}) if job.point["pool"] == "mean"]
    assert {job.point["probe"] for job in jobs} == {"ridge", "adam"}
    folders = [perform(job, Runs(tmp_path), progress=False) for job in jobs]
    ridge, adam = ((one / "net.safetensors").read_bytes() for one in folders)
    assert ridge == adam
    assert len(list((tmp_path / ".shared").glob("[0-9a-f]*"))) == 1


def test_a_vgg_has_one_stem_and_a_resnet_three():
    points = recipe.grid("gpu").points
    for network, stems in {"vgg19": {"own"}, "resnet34": {"7x7/2", "7x7/1", "3x3"}}.items():
        assert {point["stem"] for point in points if point["network"] == network} == stems
    assert len(points) == 4 * 6
