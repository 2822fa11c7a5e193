"""What recipes say reads as their papers' statements, and their files as the experiments."""

from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from winze import recipes as package
from winze.lab import recipes

RECIPES = recipes()
CARRIED_ON = ("so", "and", "it", "they", "that", "this", "but", "or")


@pytest.mark.parametrize("name", RECIPES)
def test_every_statement_stands_alone(name):
    for one in (*RECIPES[name].claims, *RECIPES[name].questions):
        assert one.text.split()[0].lower() not in CARRIED_ON, one.text


def test_a_system_has_about_twenty_claims_at_most():
    counted = Counter(one.system for one in RECIPES.values() for _ in one.claims)
    assert max(counted.values()) <= 21, counted


def test_files_of_recipes_are_short():
    files = [path for path in Path(package.__file__).parent.glob("*/*.py") if not path.name.startswith("_")]
    lines = [len(path.read_text().splitlines()) for path in files]
    assert len(files) == len(RECIPES)
    assert median(lines) <= 90
    assert max(lines) <= 140
