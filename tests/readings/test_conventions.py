"""Conventions: typed, said once, never edited."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import winze
from winze.readings import Conventions, Readings, ReadingsError

PACKAGE = Path(winze.__file__).parent
EDITS = re.compile(r"conventions(\[[^]]*\] *=[^=]|\.update\(|\.pop\(|\.setdefault\(| *\|=| = )|del .*conventions\[")


def test_no_code_outside_readings_edits_conventions():
    for path in sorted(PACKAGE.rglob("*.py")):
        if "readings" not in path.relative_to(PACKAGE).parts:
            lines = [line for line in path.read_text().splitlines() if EDITS.search(line) and "readings." in line]
            assert not lines, f"{path}: {lines}"


def test_what_is_unsaid_is_none_as_an_attribute_and_absent_as_a_key():
    said = Conventions.of({"data": "digits", "classes": None})
    assert (said.data, said.classes) == ("digits", None)
    assert dict(said) == {"data": "digits"}
    assert "classes" not in said
    with pytest.raises(KeyError, match="classes"):
        said["classes"]


def test_what_winze_does_not_know_is_stored_beside_it(tmp_path):
    Readings(conventions={"data": "digits", "mine": [1, 2]}).save(tmp_path)
    back = Readings.load(tmp_path).conventions
    assert back == {"data": "digits", "mine": [1, 2]}
    assert json.loads((tmp_path / "scan.json").read_text())["conventions"] == dict(back)


def test_a_renamed_convention_is_read_from_an_older_file():
    assert dict(Conventions.of({"pictures": "channels last"})) == {"memory_format": "channels last"}


@pytest.mark.parametrize("edit", ["said['data'] = 'b'", "said.update(data='b')", "said.data = 'b'", "said |= {}"])
def test_an_edit_is_refused(edit):
    with pytest.raises((TypeError, AttributeError)):
        exec(edit, {"said": Conventions.of({"data": "a"})})


def test_what_is_declared_twice_must_agree_and_notes_add_up():
    readings = Readings(conventions={"data": "a", "notes": ["one"]})
    readings.declare(data="a", network="mlp", notes=["two", "one"])
    assert readings.conventions == {"data": "a", "network": "mlp", "notes": ["one", "two"]}
    with pytest.raises(ReadingsError, match="data is 'a' and 'b'"):
        readings.declare(data="b")


def test_a_scan_is_told_about_its_network_when_it_is_made():
    x = torch.randn(40, 4)
    data = x, x[:, :2].argmax(1)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

    def about(places: list[str]) -> dict:
        return {"network": "mine", "layers": {"here": list(range(len(places)))}, "seconds": None, "notes": ["seen"]}

    said = winze.scan(net, data, data, about=about).readings.conventions
    assert (said.network, said.layers, said.seconds) == ("mine", {"here": [0, 1]}, None)
    assert said.notes[-1] == "seen"
    assert winze.scan(net, data, data).readings.conventions.network == "Sequential"


@pytest.mark.parametrize("layers", [{"1": 1}, {"here": ["first"]}, {"here": [-1]}, [1]])
def test_layer_numbers_are_lists_of_numbers(layers):
    with pytest.raises(ReadingsError, match="the convention layers cannot be"):
        Conventions.of({"layers": layers})
