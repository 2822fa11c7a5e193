"""The tunnel: the thesis's tables beside ours (5.2.1, 5.3.1, 5.3.2, 5.4.1), held layers, and networks to try it on."""

import math
from collections.abc import Iterable
from pathlib import Path

from table_kept import BESIDE, NONE, Cell, Seeds, beside, quantities, quantity, shown, source, spread
from table_text import table

from winze.lab import tunnel_at
from winze.lab.recipe import Recipe
from winze.lab.results import readings_of
from winze.networks import all_trained, build, own_weights
from winze.recipes.tunnel import capacity, main, swap
from winze.recipes.tunnel import held as held_recipe
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


def held(results: Path) -> str:
    """One line a scale and what stood still or slowed down in task 2, with both tasks at the end."""
    rates = {0.1: "at a tenth of the rate", 0.0: "standing still"}
    parts = {held_recipe.EXTRACTOR: "extractor", held_recipe.TUNNEL: "tunnel"}
    lines = []
    for scale, arms in shown(held_recipe.recipe, results).items():
        for arm, runs in arms.items():
            weights, rate = held_recipe.ARMS[arm]
            found = quantities(held_recipe.recipe, runs)
            numbers = [spread(found[name], 1, 100) for name in ("kept_of_task_1", "forgetting_of_task_1")]
            numbers.append(spread(found["learnt_of_task_2"], 1, 100))
            does = f"the {parts[weights]} {rates[rate]}" if weights else "all layers free"
            lines.append([does, *numbers, len(runs), source(held_recipe.recipe, scale, arm)])
    return table(
        ["in task 2", "task 1 at the end", "forgotten of task 1", "task 2", *BESIDE], lines, "In percent right."
    )


def trained(_: Path) -> str:
    """One line a network that comes with winze: its size, and what it gets right."""
    head = ["name", "weights", "file", "right on CIFAR-10's test part", "learnt for"]
    lines = []
    for name in all_trained():
        known = own_weights.trained(name)
        assert known is not None
        count = sum(weight.numel() for weight in build(name).parameters())
        size = (own_weights.FOLDER / f"{name.removeprefix('winze/')}.safetensors").stat().st_size
        epochs = f"{known.made['epochs']} epochs"
        lines.append(
            [f"`{name}`", f"{count / 1e6:.2f} M", f"{size / 1e6:.1f} MB", f"{100 * known.accuracy:.1f} %", epochs]
        )
    return table(head, lines)


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
