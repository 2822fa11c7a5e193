"""The tables of decayed shortcuts: all that was read, and accuracy and rank by alpha_min and the number of blocks."""

from collections.abc import Callable, Iterator
from pathlib import Path

from table_kept import BESIDE, NONE, Seeds, quantities, quantity, shown, source, spread
from table_text import table

from winze.lab.verdicts import NOT_RUN
from winze.recipes.decayed.supervised import ALPHAS, BEST, BLOCKS, PLAIN, arm, recipe
from winze.recipes.decayed.watched import RANK

TOLD = {8: (f"{100 * PLAIN:.1f}", f"{100 * BEST:.1f}")}
"""The paper's accuracies by the number of blocks: at alpha_min 1 and at its best."""
EPOCHS = (1, 3, 6, 12)
OURS = [*(f"ours, {alpha:g}" for alpha in ALPHAS), *BESIDE]


def networks(results: Path) -> str:
    """One line a number of blocks and alpha_min that was run: accuracy, ranks, and what the paper does not have."""
    head = ["scale", "blocks", "alpha_min", "seeds", "accuracy", "effective rank, last block", "mean of all blocks"]
    head += ["95 % at layer", "other data, last block", "lost since the best block"]
    lines = []
    for scale, arms in shown(recipe, results).items():
        for name, runs in arms.items():
            config = recipe.config(scale, name)
            read = quantities(recipe, runs)
            lines.append(
                [
                    *(scale, config.blocks, f"{config.rule.alpha_min:g}", len(runs)),
                    *(spread(read["accuracy"], 1, 100), spread(read["rank_at_the_end"], 3)),
                    *(spread(read["rank_of_all_blocks"], 3), spread(read["tunnel_start"], 1)),
                    spread(read["other_data_at_the_end"], 1, 100),
                    spread(read["other_data_lost_at_the_end"], 1, 100),
                ]
            )
    plain, best = TOLD[8]
    return table(head, lines, f"The paper, ResNet-18 (8 blocks): {best} at its best alpha_min, {plain} at 1.")


def accuracies(results: Path) -> str:
    """The table of appendix B.3: one line a number of blocks and scale, with the accuracy under every alpha_min."""
    lines = [
        [count, *TOLD.get(count, ("similar", "similar")), *ours]
        for count, ours in _by_alpha(results, lambda runs: spread(quantity(recipe, runs, "accuracy"), 1, 100))
    ]
    head = ["blocks", "paper, alpha_min 1", "paper, its best alpha_min", *OURS]
    return table(
        head,
        lines,
        "In percent. Our copy of the paper has lost its alpha_min: that one is 1 is inferred, the best is unknown.",
    )


def ranks(results: Path) -> str:
    """Figure 7a in numbers: one line a number of blocks and scale, with the last rank under every alpha_min."""
    read = _by_alpha(results, lambda runs: spread(quantity(recipe, runs, "rank_at_the_end"), 3))
    lines = [[count, *ours] for count, ours in read]
    below = "The paper has a figure and no numbers: the rank falls with more blocks, and with a smaller alpha_min."
    return table(["blocks", *OURS], lines, below)


def training(results: Path) -> str:
    """Figure 7b in numbers: the same after some epochs, of 8 and of 16 blocks."""
    lines = [
        [count, epoch, *ours]
        for epoch in EPOCHS
        for count, ours in _by_alpha(results, lambda runs, epoch=epoch: spread(_ranks_after(runs, epoch), 3))
        if ours[-1] != NONE
    ]
    below = (
        "The paper has a figure and no numbers: the rank of decayed networks is lower from early on. On 4000 samples."
    )
    return table(["blocks", "epoch", *OURS], sorted(lines, key=lambda line: (line[-1], *line[:2])), below)


def _ranks_after(runs: Seeds, epoch: int) -> list[float]:
    """The effective rank of the last features of every seed after an epoch."""
    found = []
    for one in runs.values():
        steps = next(row.value for row in one.readings.rows if row.measure == "epoch_steps")
        found += [row.value for row in one.readings.rows if row.measure == RANK and row.step == epoch * steps]
    return found


def _by_alpha(results: Path, read: Callable[[Seeds], str]) -> Iterator[tuple[int, list[str]]]:
    """What is read under every alpha_min: a line for each number of blocks and scale that ran, or one that says no."""
    kept = shown(recipe, results)
    for count in BLOCKS:
        names = [arm(count, alpha) for alpha in ALPHAS]
        scales = [scale for scale, arms in kept.items() if arms.keys() & set(names)]
        for scale in scales:
            runs = {one: kept[scale][one] for one in names if one in kept[scale]}
            said = {one: read(seeds) for one, seeds in runs.items()}
            seeds = " or ".join(map(str, sorted({len(each) for each in runs.values()})))
            yield count, [*(said.get(one, NOT_RUN) for one in names), seeds, source(recipe, scale, next(iter(runs)))]
        if not scales:
            yield count, [*(NOT_RUN for _ in names), NONE, NONE]
