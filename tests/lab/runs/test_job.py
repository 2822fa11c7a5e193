import pickle
import sys
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType

import pytest

from winze.lab import recipe
from winze.lab.recipe import _from_file
from winze.lab.runs.job import Job, plain
from winze.readings import Point
from winze.shape import DecayedIdentity
from winze.train import Epochs, Training


class Colour(Enum):
    RED = "red"


THREE = Training(Epochs(3))


@dataclass(frozen=True)
class Config:
    training: Training = THREE
    rule: object = DecayedIdentity(0.6)
    width: float = 1.0
    names: tuple[str, ...] = ("a", "b")


JOB = Job("tunnel/main", "cpu", Point(blocks=8), 0, Config())


def test_the_key_is_sixteen_hexadecimal_digits_and_stays_the_same():
    assert len(JOB.key) == 16
    assert int(JOB.key, 16) >= 0
    assert JOB.key == Job("tunnel/main", "cpu", Point(blocks=8), 0, Config()).key


def test_the_key_does_not_depend_on_the_names_that_only_say_why_it_is_run():
    assert replace(JOB, scale="gpu", point=Point(blocks=9), file="mine.py").key == JOB.key


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, recipe="tunnel/other"),
        replace(JOB, seed=1),
        replace(JOB, config=Config(width=2)),
        replace(JOB, config=Config(Training(Epochs(4)))),
        replace(JOB, config=Config(rule=DecayedIdentity(0.5))),
        replace(JOB, config=Config(names=("b", "a"))),
        replace(JOB, config=Config(rule=None)),
    ],
)
def test_whatever_changes_the_work_changes_the_key(other):
    assert other.key != JOB.key


def test_a_key_once_given_is_given_for_ever():
    assert Job("tunnel/main", "cpu", Point(), 3, DecayedIdentity(0.5)).key == "3e87e5aa35ada750"


def test_a_whole_number_written_as_float_is_the_same_number():
    assert replace(JOB, config=Config(width=1)).key == JOB.key


def test_the_type_of_a_dataclass_is_part_of_it():
    @dataclass(frozen=True)
    class Twin:
        alpha_min: float = 0.6

    assert plain(Twin()) != plain(DecayedIdentity())
    assert plain(DecayedIdentity()) == {"type": "DecayedIdentity", "alpha_min": 0.6}


def test_plain_values_are_what_json_holds():
    value = {"a": (1, 2.5), "b": MappingProxyType({"c": None}), "d": Path("x/y"), "e": Colour.RED, "f": float("inf")}
    assert plain(value) == {"a": [1, 2.5], "b": {"c": None}, "d": "x/y", "e": "red", "f": "inf"}


def test_true_is_not_one():
    assert plain(True) is True


@pytest.mark.parametrize("value", [print, object(), {1, 2}, Training, lambda: 0])
def test_what_cannot_be_told_apart_by_its_content_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"config\.rule is a"):
        plain(Config(rule=value))


def test_keys_that_are_no_text_are_refused():
    with pytest.raises(ValueError, match="the key 1 is not a string"):
        plain({1: 2})


OWN_FILE = """
from dataclasses import dataclass
from winze.lab import Axis, Data, Network, Recipe, Scale, Study
from winze.shape import Rule
from winze.train import Epochs, Training

@dataclass(frozen=True)
class Halved(Rule):
    weight: float = 0.5

    def join(self, place, shortcut, branch):
        return shortcut() + self.weight * branch()

recipe = Recipe(
    "my/halved", "own", "none", "https://example.org",
    study=Study(Network("winze/resmlp3x8", rule=Halved()), Data("digits"), Training(Epochs(1))),
    axes={"weight": Axis("network.rule.weight", (0.5, 1.0))}, scales={"quick": Scale()},
)
"""


def test_a_rule_of_a_recipes_own_file_comes_along_to_another_process(tmp_path):
    file = tmp_path / "halved.py"
    file.write_text(OWN_FILE)
    jobs = recipe(str(file)).jobs("quick")
    sent = pickle.dumps(jobs)
    for name in [name for name in sys.modules if name.startswith("winze_recipe_halved")]:
        del sys.modules[name]  # another process has not loaded it
    _from_file.cache_clear()
    there = pickle.loads(sent)
    assert [job.config.network.rule.weight for job in there] == [0.5, 1.0]
    assert [job.key for job in there] == [job.key for job in jobs]
    assert type(there[0].config.network.rule) is not type(jobs[0].config.network.rule)
