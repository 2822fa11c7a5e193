"""One set of weights is read by every protocol, and starts are found by the network's own bar and by a fixed one."""

from winze.lab.runs.perform import perform
from winze.lab.runs.store import Runs
from winze.recipes.tunnel.protocol import recipe


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
