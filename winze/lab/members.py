"""Runs of several networks: one is kept as one, and taken apart again as if each of its networks had been a run.

A recipe may train its seeds side by side in one run. What is read of network n carries `#n` at the end of a row's
split and of an array's name; whatever carries none belongs to all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from winze.readings import Readings

MARK = re.compile(r"(.*)#(\d+)", re.DOTALL)


def together(members: Mapping[int, Readings]) -> Readings:
    """The readings of several networks, by their numbers, as those of one run; their conventions must agree."""
    whole = Readings()
    for number, one in members.items():
        rows = [replace(row, split=f"{row.split}#{number}") for row in one.rows]
        arrays = {f"{name}#{number}": array for name, array in one.arrays.items()}
        whole.extend(Readings(rows, arrays, one.conventions))
    return whole


def apart(seed: int, readings: Readings) -> dict[int, Readings]:
    """The readings of each network of a run; a run of one network has the number of its seed."""
    numbers = {int(mark[2]) for name in _names(readings) if (mark := MARK.fullmatch(name))}
    if not numbers:
        return {seed: readings}
    return {number: _of(number, readings) for number in sorted(numbers)}


def _names(readings: Readings) -> list[str]:
    return [*dict.fromkeys(row.split for row in readings.rows), *readings.arrays]


def _of(number: int, readings: Readings) -> Readings:
    """What carries this number, without it, and what carries none."""
    own = Readings(conventions=readings.conventions)
    for row in readings.rows:
        mark = MARK.fullmatch(row.split)
        if mark is None or int(mark[2]) == number:
            own.rows.append(row if mark is None else replace(row, split=mark[1]))
    for name, array in readings.arrays.items():
        mark = MARK.fullmatch(name)
        if mark is None or int(mark[2]) == number:
            own.arrays[name if mark is None else mark[1]] = array
    return own
