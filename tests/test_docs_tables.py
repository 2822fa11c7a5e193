"""The tables of kept runs, from made-up readings: the paper's numbers beside ours, at every scale that was run."""

import json

import pytest
from scripts import script

from winze.depth import Place
from winze.lab.counting import WITH, WITHOUT
from winze.lab.job import plain
from winze.lab.packing import packed
from winze.lab.results import write
from winze.readings import Readings
from winze.recipes.decayed import supervised
from winze.recipes.residual_droppath import ablation, table1
from winze.recipes.temperature import training
from winze.recipes.tunnel import capacity, held, main, swap
from winze.recipes.tunnel.tasks import title

tables = script("tables")


def keep(results, recipe, scale, arm, runs):
    """Add the readings of an arm's seeds to a recipe's kept runs."""
    file = results / f"{recipe.name}.json"
    entries = json.loads(file.read_text())["runs"] if file.exists() else []
    told = {"scale": scale, "arm": arm, "device": "", "versions": {}, "commit": "", "started": ""}
    told |= {"seconds": 1.0, "config": plain(recipe.config(scale, arm))}
    for job, readings in zip(recipe.jobs(scale, [arm], range(len(runs))), runs, strict=True):
        entries.append(told | {"key": job.key, "seed": job.seed} | packed(readings, recipe.measures))
    write(file, recipe.name, entries)


def whole(measures, data="cifar10", **conventions):
    """Readings of the whole network."""
    readings = Readings(conventions={"data": data, **conventions})
    for measure, value in measures.items():
        readings.add(measure, value, data=data, split="test", step=10)
    return readings


def curve(readings, measure, values, data="cifar10"):
    """The same readings with a measure at every place."""
    for index, value in enumerate(values):
        readings.add(measure, value, place=Place(index, len(values), f"layer{index}"), data=data, split="test")
    return readings


def probed(*values, **conventions):
    """Readings of a network that is always right, and of its probes."""
    counted = {"layers": {WITHOUT: list(range(1, len(values) + 1))}, "layer_count": len(values)}
    return curve(whole({"accuracy": 1.0}, **counted | conventions), "probe", values)


def filled(name, results):
    return tables.refresh(f"<!-- table:{name} -->\nold\n<!-- /table -->", results)


def test_accuracies_of_droppath_are_the_mean_over_seeds_beside_the_papers(tmp_path):
    runs = [whole({"accuracy": accuracy}) for accuracy in (0.90, 0.92)]
    keep(tmp_path, table1.recipe, "gpu", "cifar10_output_batch", runs)
    said = filled("residual_droppath.table1", tmp_path)
    assert (
        "| ResNet50d on CIFAR-10 | gpu | ours: kept outputs frozen, a mask a batch | 2 | 91.00 ± 1.41 | 90.84 |" in said
    )
    assert "standard" not in said


def test_the_ablation_has_a_line_for_every_arm(tmp_path):
    keep(tmp_path, ablation.recipe, "gpu", "same_batch", [whole({"accuracy": 0.8})])
    said = filled("residual_droppath.ablation", tmp_path)
    assert "| `same_batch` | 80.00 | 1 |" in said
    assert "| `ours` | - | 0 |" in said


@pytest.mark.parametrize(
    "name",
    [
        "tunnel.start",
        "tunnel.width",
        "tunnel.classes",
        "tunnel.swap",
        "temperature.shares",
        "decayed.accuracy",
        "decayed.rank",
    ],
)
def test_where_nothing_was_run_every_line_says_so(name, tmp_path):
    lines = [line for line in filled(name, tmp_path).splitlines() if line.startswith("|")][2:]
    assert lines
    assert all("| not run |" in line and line.endswith("| - | - |") for line in lines)


def test_the_start_of_a_tunnel_is_that_of_the_mean_curve_at_each_scale_that_was_run(tmp_path):
    runs = [probed(0.90, 1.0, 1.0), probed(0.96, 0.96, 1.0), probed(0.96, 1.0, 1.0)]
    keep(tmp_path, main.recipe, "gpu", "mlp12", runs)
    keep(tmp_path, main.recipe, "paper", "mlp12", [probed(0.1, 0.2, 1.0)])
    said = filled("tunnel.start", tmp_path)
    # two of three seeds alone start at layer 1; their mean, .94 there, does not
    assert "| MLP-12 on CIFAR-10 | 4 | 2 of 3 [1, 2] | 5 | 2 of 3 [2, 3] | 3 | gpu: `mlp12` on cifar10 |" in said
    assert "| MLP-12 on CIFAR-10 | 4 | 3 of 3 [3, 3] | 5 | 3 of 3 [3, 3] | 1 | paper: `mlp12` on cifar10 |" in said
    assert "| VGG-19 on CIFAR-10 | 8 | not run | 8 | not run | - | - |" in said


def test_the_start_in_a_resnet_is_told_under_both_countings(tmp_path):
    run = probed(0.1, 0.96, 1.0, layers={WITHOUT: [3, 27, 33], WITH: [3, 29, 36]}, layer_count=34)
    keep(tmp_path, main.recipe, "gpu", "resnet34", [run])
    said = filled("tunnel.start", tmp_path)
    assert "| 20 | 27 of 34 [27, 27]; 29 with projections [29, 29] | 29 | 33 of 34 [33, 33]; 36 with proj" in said


def test_a_tunnel_that_no_probe_reaches_has_no_start(tmp_path):
    keep(tmp_path, main.recipe, "gpu", "vgg19", [probed(0.1, 0.2, 0.3)])
    assert "| VGG-19 on CIFAR-10 | 8 | at none of 3 | 8 | at none of 3 | 1 |" in filled("tunnel.start", tmp_path)


def test_widths_and_classes_share_the_network_of_width_1_that_learns_all(tmp_path):
    for arm in ("vgg19", "vgg19_wide", "vgg19_30"):
        keep(tmp_path, capacity.recipe, "gpu", arm, [probed(0.5, 1.0)])
    said = filled("tunnel.width", tmp_path)
    assert "| VGG-19 | 1 | 7 | 2 of 2 [2, 2] | 1 | gpu: `vgg19` on cifar10 |" in said
    assert "| VGG-19 | 2 | 7 | 2 of 2 [2, 2] | 1 | gpu: `vgg19x2` on cifar10 |" in said
    said = filled("tunnel.classes", tmp_path)
    assert "| VGG-19 | CIFAR-10 | 100 % | 7 | 2 of 2 [2, 2] | 1 | gpu: `vgg19` on cifar10 |" in said
    assert "| VGG-19 | CIFAR-10 | 30 % | 6 | 2 of 2 [2, 2] | 1 | gpu: `vgg19` on cifar10[0-2] |" in said


def test_a_number_on_digits_says_so(tmp_path):
    keep(tmp_path, capacity.recipe, "cpu", "vgg19_narrow", [probed(1.0, 1.0)])
    assert "| VGG-19 | 0.25 | 8 | 1 of 2 [1, 1] | 1 | cpu: `vgg19x0.0625` on digits |" in filled(
        "tunnel.width", tmp_path
    )


def test_a_smoke_test_is_no_evidence(tmp_path):
    keep(tmp_path, swap.recipe, "smoke", "five_five", [whole({"E1+T1": 0.9}, title(1))])
    assert "smoke" not in filled("tunnel.swap", tmp_path)


def test_the_swap_has_both_tasks_where_the_thesis_has(tmp_path):
    run = whole({"E1+T1": 0.9, swap.PROBED: 0.7}, title(1))
    run.add("E1+T1", 0.5, data=title(2), split="test")
    keep(tmp_path, swap.recipe, "gpu", "five_five", [run])
    said = filled("tunnel.swap", tmp_path)
    assert "| E1+T1 | 92.04 | 90.0 | 56.8 | 50.0 | 1 | gpu: `vgg19` on cifar10 |" in said
    assert "| E2 (FT) | 74.4 | 70.0 | - | - | 1 |" in said


def test_shares_of_a_temperature_name_the_other_data_and_seeds_that_diverged(tmp_path):
    layers = {"layers": {WITHOUT: list(range(1, 10))}, "layer_count": 9, "network": "winze/mlp8"}
    run = curve(whole({"diverged": 0.0}, **layers), "probe", [0.1, 0.2, 0.3, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    run = curve(run, "probe", [0.1, 0.2, 0.8, 0.8, 0.6, 0.6, 0.6, 0.6, 0.2], "mnist")
    keep(tmp_path, training.recipe, "gpu", "mlp8_t10", [run, whole({"diverged": 1.0}, data="")])
    said = filled("temperature.shares", tmp_path)
    assert (
        "| MLP-8 | 10 | 50 | 50, 1 diverged | 67 | 25, with the output 75, on mnist | 2 | gpu: `mlp8` on cifar10 |"
        in said
    )
    assert "| MLP-8 | 1 | 75 | not run | 67 | not run | - | - |" in said


def test_decayed_shortcuts_have_a_column_for_every_alpha_min(tmp_path):
    for alpha, accuracies in ((1.0, (0.9, 0.92)), (0.4, (0.95,))):
        runs = [curve(whole({"accuracy": each}), "effective_rank", [4.0, 2.5]) for each in accuracies]
        keep(tmp_path, supervised.recipe, "gpu", supervised.arm(16, alpha), runs)
    unrun = "not run | " * 5
    said = filled("decayed.accuracy", tmp_path)
    assert f"| 16 | similar | similar | 91.0 ± 1.4 | {unrun}95.0 | not run | not run | 1 or 2 | gpu: `resnet18`" in said
    assert "| 8 | 93.6 | 94.4 | not run |" in said
    said = filled("decayed.rank", tmp_path)
    assert f"| 16 | 2.500 ± 0.000 | {unrun}2.500 | not run | not run | 1 or 2 | gpu: `resnet18` on cifar10 |" in said


def test_held_layers_are_told_with_both_tasks_at_the_end(tmp_path):
    runs = []
    for kept in (0.5, 0.7):
        readings = Readings()
        for measure, task, value in (("kept", 1, kept), ("forgetting", 1, 0.9 - kept), ("learnt", 2, 0.8)):
            readings.add(measure, value, data=title(task), split="test")
        runs.append(readings)
    keep(tmp_path, held.recipe, "gpu", "extractor_slow", runs)
    said = tables.refresh("<!-- table:tunnel.held -->\n<!-- /table -->", tmp_path)
    assert "| the extractor at a tenth of the rate | 60.0 ± 14.1 | 30.0 ± 14.1 | 80.0 ± 0.0 | 2 | gpu: `vgg19`" in said


def test_the_networks_that_come_with_winze_are_told_with_their_files(tmp_path):
    said = tables.refresh("<!-- table:trained -->\n<!-- /table -->", tmp_path)
    assert "| `winze/resnet20` | 0.27 M | 0.6 MB |" in said
