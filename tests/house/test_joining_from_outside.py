"""CONTRIBUTING's three lists from outside the package: a rule, a measure and a recipe in one file of one's own."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

import winze
from winze.cli import BAD_INPUT, DONE, main
from winze.lab.runs.store import Runs
from winze.readings import Readings

MINE = '''
from dataclasses import dataclass
from math import inf

import winze
from winze.lab import Axis, Claim, Data, Network, Reading, Recipe, Scale, Study
from winze.lab import rises
from winze.lab.claims.quantities import last
from winze.measure import Measure, register
from winze.report.experiment import over_depth
from winze.train import SGD, Epochs, Training


@dataclass(frozen=True)
class Weighted(winze.Rule):
    """Weight the shortcut by a constant: y = a x + f(x)."""

    a: float = 1.0

    def join(self, place, shortcut, branch):
        return self.a * shortcut() + branch()


def gap(spectrum):
    """The largest eigenvalue of the covariance over the second."""
    return float(spectrum[0] / spectrum[1])


register(Measure("gap", gap, needs="spectrum", label="spectral gap", bounds=(1, inf), better="lower"))

recipe = Recipe(
    "mine/weighted",
    system="S0",
    paper="Weighted Shortcuts",
    url="https://example.org",
    shows="a weight on shortcuts changes the spectral gap",
    study=Study(
        Network("winze/resmlp4x16", rule=Weighted()),
        Data("digits[0-2]", limit=60),
        Training(Epochs(1), 32, SGD(0.05)),
        Reading("blocks", measures=("probe", "rank", "gap")),
    ),
    axes={"a": Axis("network.rule.a", (1.0, 0.5))},
    scales={"smoke": Scale()},
    claims=(Claim("a larger weight raises the gap", "table 1", rises(last("gap"), over="a")),),
    figures=(over_depth("gap", colour="a"),),
)
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return str(file)


def test_a_rule_a_measure_and_a_recipe_from_outside_are_run_and_shown_on_the_page(mine, capsys):
    assert main(["run", mine, "--scale", "smoke", "--accelerator", "cpu"]) == DONE
    said = capsys.readouterr().out
    assert "a larger weight raises the gap" in said
    runs = [run for run in Runs("runs").all() if run.status == "done"]
    assert sorted(run.point["a"] for run in runs) == [0.5, 1.0]
    gaps = {}
    for run in runs:
        readings = Readings.load(run.folder)
        gaps[run.point["a"]] = readings.curve("gap")
        for index, value in enumerate(readings.curve("gap")):
            spectrum = readings.arrays[f"spectrum/{index}"]
            assert value == pytest.approx(spectrum[0] / spectrum[1])
    assert not (gaps[0.5] == gaps[1.0]).any()
    page = Path(said.splitlines()[-1]).read_text()
    assert "spectral gap" in page
    assert "a larger weight raises the gap" in page


def test_set_gives_a_rule_from_outside_a_value_of_its_own(mine, capsys):
    assert main(["run", mine, "--scale", "smoke", "--set", "network.rule.a=0.25", "--accelerator", "cpu"]) == DONE
    stored = [json.loads((run.folder / "run.json").read_text())["config"] for run in Runs("runs").all()]
    assert [config["network"]["rule"]["a"] for config in stored] == [0.25], stored
    assert main(["run", mine, "--scale", "smoke", "--set", "network.rule.b=0.25"]) == BAD_INPUT
    assert "Weighted has no field 'b'; there is a" in capsys.readouterr().err


def test_a_rule_and_a_measure_from_outside_are_seen_in_a_scan_and_on_its_page(mine, tmp_path):
    space: dict = {"__name__": "mine"}
    exec(compile(MINE.split("recipe = ")[0], mine, "exec"), space)
    net = winze.rewire(winze.networks.build("winze/resmlp4x16", inputs=8, classes=3), space["Weighted"](0.5))
    assert {type(junction.rule).__name__ for junction in winze.junctions(net)} == {"Weighted"}
    x = torch.randn(90, 8)
    scan = winze.scan(net, (x, x[:, :3].argmax(1)), (x, x[:, :3].argmax(1)))
    assert all(math.isfinite(value) for value in scan.curve("gap"))
    page = scan.report(tmp_path / "page.html").read_text()
    assert re.search(r"<th[^>]*>spectral gap</th>", page)
    assert "Spectral gap: " in page
    assert (tmp_path / "page_figures" / "depth_profile_gap.svg").is_file()
