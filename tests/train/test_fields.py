"""Annotations that values must fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Optional

import pytest

from winze.train import Epochs, Training
from winze.train.fields import FieldError, Positive, check_types, fits, replaced


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    steps: int = 10


@dataclass(frozen=True)
class Settings:
    name: str = "plain"
    size: int = 3
    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    ("value", "hint", "answer"),
    [
        (3, int, True),
        (True, int, False),
        (True, float, False),
        (True, bool, True),
        (1, bool, False),
        (3, float, True),
        (3.0, int, False),
        (float("nan"), float, True),
        ("3", str, True),
        (None, int | None, True),
        (None, Optional[int], True),  # noqa: UP045
        (None, int, False),
        ("a", Literal["a", 1], True),
        (1, Literal["a", 1], True),
        (True, Literal["a", 1], False),
        ((1, 2), tuple[int, ...], True),
        ((), tuple[int, ...], True),
        ((1, "2"), tuple[int, ...], False),
        ([1, 2], tuple[int, ...], False),
        ((1, "2"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ({"a": 1}, Mapping[str, int], True),
        ({"a": "1"}, Mapping[str, int], False),
        ({1: 1}, dict[str, int], False),
        (["a"], Sequence[str], True),
        ([1], Sequence[str], False),
        (Inner(), Inner, True),
        (Settings(), Inner, False),
        (Inner(), Inner | None, True),
        (len, Callable[[Any], int], True),
        (3, Callable[[Any], int], False),
        (object(), Any, True),
        (0.5, float | Literal["norm"], True),
        ("nrom", float | Literal["norm"], False),
        (0, Positive, False),
        (float("inf"), Positive, False),
        (True, Positive, False),
        (None, Positive | None, True),
    ],
)
def test_a_value_fits_its_annotation_or_does_not(value, hint, answer):
    assert fits(value, hint) is answer


def test_fields_of_fields_are_replaced_and_the_rest_stays():
    before = Settings(size=5)
    after = replaced(before, {"inner.steps": 20, "name": "other"})
    assert after == Settings(name="other", size=5, inner=Inner(steps=20))
    assert before == Settings(size=5)


def test_a_wrong_type_deep_inside_is_named():
    with pytest.raises(FieldError, match=r"Inner.steps must be int, not 'ten' \(str\)"):
        check_types(Settings(inner=Inner(steps="ten")))
    with pytest.raises(FieldError, match=r"Training.batch must be a whole number of at least 1, not '3' \(str\)"):
        replaced(Training(Epochs(3)), {"batch": "3"})


def test_a_field_of_something_without_fields_raises():
    with pytest.raises(FieldError, match="str has no field 'x'; it has no fields"):
        replaced(Settings(), {"name.x": 1})


def test_a_type_that_only_a_function_knows_stands_for_anything():
    @dataclass(frozen=True)
    class Local:
        inner: "Unknown | None" = None  # noqa: F821
        size: int = 3

    check_types(Local(inner=object()))
    with pytest.raises(FieldError, match=r"Local.size must be int, not '3' \(str\)"):
        check_types(Local(size="3"))
