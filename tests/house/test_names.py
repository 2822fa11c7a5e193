"""One meaning per name: a class, a type and a module of winze are each named once."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import winze

PACKAGE = Path(winze.__file__).parent
VERBS_AND_RECIPES = ("cli", "recipes")
"""Their files are named by what a user types."""
DEFINED = [(file, ast.parse(file.read_text(encoding="utf-8"))) for file in sorted(PACKAGE.rglob("*.py"))]


def classes():
    """Every class by its name."""
    found = defaultdict(list)
    for file, tree in DEFINED:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(file.relative_to(PACKAGE)))
    return found


def aliases():
    """What every alias of a type at the top of a module stands for, by its name."""
    found = defaultdict(dict)
    for file, tree in DEFINED:
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name[0].isupper() and not name.isupper():
                    found[name][str(file.relative_to(PACKAGE))] = ast.unparse(node.value)
    return found


def test_a_class_name_is_defined_once():
    known = classes()
    assert len(known) > 200
    assert {name: files for name, files in known.items() if len(files) > 1} == {}


def test_an_alias_means_one_thing_and_is_no_class():
    known, taken = aliases(), classes()
    assert len(known) > 50
    assert {name: found for name, found in known.items() if len(set(found.values())) > 1} == {}
    assert {name: (taken[name], list(found)) for name, found in known.items() if name in taken} == {}


def test_a_file_name_is_used_once():
    found = defaultdict(list)
    for file, _ in DEFINED:
        room = file.relative_to(PACKAGE).parts[0]
        if file.stem != "__init__" and room not in VERBS_AND_RECIPES:
            found[file.stem].append(str(file.relative_to(PACKAGE)))
    assert len(found) > 150
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_every_room_that_docs_call_is_reached_from_the_door():
    assert winze.lab.Processes.__module__ == "winze.lab.workers.processes"
    assert {winze.__getattr__(room).__name__ for room in winze.ROOMS} == {f"winze.{room}" for room in winze.ROOMS}
    with pytest.raises(AttributeError, match="no attribute 'recipe'"):
        winze.recipe  # noqa: B018
