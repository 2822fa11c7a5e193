"""Settings from a page are checked, and come back as they were."""

import json
from typing import Any

import pytest

import winze
from winze.play.settings import RULES, SettingsError, Setup, catalogue, parse, plain


def test_settings_survive_the_way_to_the_page_and_back():
    given = {
        "data": "gaussians", "points": 64, "noise": 0.1, "classes": 3, "batch": 16, "seed": 7,
        "arms": [
            {"depth": 3, "width": 5, "activation": "tanh", "lr": 0.1, "optimizer": "SGD"},
            {"rule": {"name": "DropPath", "rate": 0.3, "mask": "batch"}, "temperature": "norm"},
        ],
    }  # fmt: skip
    setup = parse(given)
    assert parse(json.loads(json.dumps(plain(setup)))) == setup
    assert setup.arms[1].rule == winze.DropPath(rate=0.3, mask="batch")


def test_every_public_rule_is_offered_and_builds_from_its_own_parameters():
    public = {name for name in winze.__all__ if isinstance(getattr(winze, name), type)}
    rules = {name for name in public if issubclass(getattr(winze, name), winze.Rule)} - {"Rule"}
    assert set(RULES) == rules
    for name, about in catalogue()["rules"].items():
        options = {key: one["default"] for key, one in about["options"].items()}
        assert parse({"arms": [{"rule": {"name": name, **options}}]}).arms[0].rule == RULES[name]()


def test_the_catalogue_is_plain_json():
    assert parse(json.loads(json.dumps(catalogue(), allow_nan=False))["defaults"]) == Setup()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "must be an object"),
        ({"points": 5}, "points lies between 16 and 16384"),
        ({"points": True}, "points is a whole number"),
        ({"points": 1e300}, "points is a whole number"),
        ({"noise": float("nan")}, "noise lies between 0 and 0.5"),
        ({"noise": float("inf")}, "noise lies between 0 and 0.5"),
        ({"noise": 10**400}, "noise lies between 0 and 0.5"),
        ({"seed": -(10**400)}, "seed lies between"),
        ({"data": "../etc"}, "data is one of"),
        ({"strange": 1}, "no setting 'strange'"),
        ({"arms": []}, "one or two networks"),
        ({"arms": [{}, {}, {}]}, "one or two networks"),
        ({"arms": [{"depth": 65}]}, "depth lies between 1 and 64"),
        ({"arms": [{"width": 1}]}, "width lies between 2 and 32"),
        ({"arms": [{"rule": {"name": "Rule"}}]}, "name is one of"),
        ({"arms": [{"rule": {"name": "Standard", "rate": 1}}]}, "no parameter 'rate'"),
        ({"arms": [{"rule": {"name": "DropPath", "rate": 2}}]}, "rate lies between 0 and 0.9"),
        ({"arms": [{"rule": {"name": "DropPath", "scale": 1}}]}, "scale is true or false"),
        ({"arms": [{"lr": 0}]}, "lr lies between"),
        ({"data": "drawn"}, "draw at least four points"),
        ({"data": "drawn", "drawn": [[0, 0, 9]] * 4}, "class of a drawn point"),
        ({"data": "drawn", "drawn": [[0, 0]] * 4}, r"\[x, y, class\]"),
        ({"drawn": [[0, 0, 0]] * 2001}, "at most 2000 points"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(given: Any, said: str):
    with pytest.raises(SettingsError, match=said):
        parse(given)
