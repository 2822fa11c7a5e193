"""The thesis's tables of the tunnel beside ours: where it starts (5.2.1, 5.3.1, 5.3.2), and the swap (5.4.1)."""

import math
from collections.abc import Iterable
from pathlib import Path

from table_kept import BESIDE, NONE, Cell, Seeds, beside, quantity, spread
from table_text import table

from winze.lab import tunnel_at
from winze.lab.recipe import Recipe
from winze.lab.results import readings_of
from winze.recipes.tunnel import capacity, main, swap
from winze.recipes.tunnel.cells import CLASS_TABLE, SHARES, WIDTH_TABLE, WIDTHS, named
from winze.report.names import number


def starts(results: Path) -> str:
    """Table 5.2.1: one line a network, data set and scale, with the start of the tunnel at 95 % and at 98 %."""
    told = ((arm, (name,), layers) for arm, (name, *layers) in main.START.items())
    head = ["network and data", "95 %: paper", "95 %: ours", "98 %: paper", "98 %: ours"]
    return _of_starts(main.recipe, results, head, told, (0.95, 0.98))


def widths(results: Path) -> str:
    """Table 5.3.1: one line a network, width and scale, with the start of the tunnel at 95 %."""
    told = (
        (named(network, word), (capacity.NAMES[network], factor.removeprefix("x") or "1"), [layer])
        for network, layers in WIDTH_TABLE.items()
        for (word, factor), layer in zip(WIDTHS.items(), layers, strict=True)
    )
    return _of_starts(capacity.recipe, results, ["network", "width", "95 %: paper", "95 %: ours"], told)


def classes(results: Path) -> str:
    """Table 5.3.2: one line a network, data set, share of its classes and scale, with the start at 95 %."""
    told = (
        (named(network, data, str(percent)), (capacity.NAMES[network], capacity.SETS[data], f"{percent} %"), [layer])
        for (network, data), layers in CLASS_TABLE.items()
        for percent, layer in zip(SHARES, layers, strict=True)
    )
    return _of_starts(capacity.recipe, results, ["network", "data", "classes", "95 %: paper", "95 %: ours"], told)


def swaps(results: Path) -> str:
    """Table 5.4.1: one line a pair of extractor and tunnel and scale, with its accuracy on both tasks."""

    def cell(row: str, *told: float) -> Cell:
        def ours(runs: Seeds) -> list[str]:
            tasks = range(1, len(told) + 1)
            found = [spread(quantity(swap.recipe, runs, f"{row} on task {task}"), 1, 100) for task in tasks]
            return [*found, *missing]

        missing = [NONE] * (2 - len(told))
        return Cell("five_five", (row,), (*told, *missing), ours)

    lines = beside(swap.recipe, results, [cell(row, *told) for row, told in swap.TABLE.items()])
    head = ["extractor and tunnel", "task 1: paper", "task 1: ours", "task 2: paper", "task 2: ours", *BESIDE]
    return table(head, lines, "In percent right. E and T: extractor and tunnel after task 1 or 2; FT: a new head.")


def _of_starts(
    recipe: Recipe,
    results: Path,
    head: list[str],
    told: Iterable[tuple[str, tuple[str, ...], list[int]]],
    thresholds: tuple[float, ...] = (0.95,),
) -> str:
    """The table of arms, each with what is said of it and the paper's layer at each threshold."""

    def cell(arm: str, says: tuple[str, ...], layers: list[int]) -> Cell:
        return Cell(arm, says, tuple(layers), lambda runs: [_start(arm, runs, threshold) for threshold in thresholds])

    return table([*head, *BESIDE], beside(recipe, results, [cell(*one) for one in told]))


def _start(arm: str, runs: Seeds, threshold: float) -> str:
    """The layer at which the tunnel of the mean curve starts, under every counting that the readings know."""
    read = readings_of({arm: runs})
    conventions = next(iter(read[arm].values())).conventions
    parts: list[str] = []
    for counting in conventions["layers"]:
        # which layer is claimed does not move the start
        found = tunnel_at(arm, threshold, layer=0, counting=counting).judge(read, {})
        if math.isnan(found.estimate):
            return found.word
        if math.isinf(found.estimate):
            return f"at none of {conventions['layer_count']}"
        counted = f" {counting}" if parts else f" of {conventions['layer_count']}"
        parts.append(f"{number(found.estimate)}{counted} [{number(found.low)}, {number(found.high)}]")
    return "; ".join(parts)
