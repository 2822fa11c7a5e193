"""The tables of ResidualDroppath: accuracies beside the paper's, the spiral, and the ablation."""

from pathlib import Path

from table_kept import quantities, quantity, shown, spread
from table_text import table

from winze.recipes.residual_droppath import ablation, spiral, table1
from winze.recipes.residual_droppath.table1 import CELLS, READINGS, RULES


def accuracies(results: Path) -> str:
    """One line a network, data set and algorithm that was run: accuracies beside the paper's, and what was read."""
    head = ["network and data", "scale", "algorithm", "seeds", "top-1", "paper", "top-5", "paper"]
    head += ["effective rank, last block", "95 % at block", "other data, last block"]
    lines = []
    for scale, arms in shown(table1.recipe, results).items():
        for cell, told in CELLS.items():
            for name in RULES:
                runs = arms.get(f"{cell}_{name}")
                if not runs:
                    continue
                paper = told.ours if name in READINGS else getattr(told, name)
                read = quantities(table1.recipe, runs)
                lines.append(
                    [
                        *(told.says, scale, f"ours: {READINGS[name]}" if name in READINGS else name, len(runs)),
                        *(spread(read["accuracy"], 2, 100), f"{paper[0]:.2f}" if paper[0] else "-"),
                        *(spread(read["top5"], 2, 100), f"{paper[1]:.2f}" if paper[1] else "-"),
                        spread(read["effective_rank_at_the_end"], 1),
                        spread(read["tunnel_start"], 1),
                        spread(read["other_data_at_the_end"], 1, 100),
                    ]
                )
    return table(head, lines)


def spirals(results: Path) -> str:
    """One line a network and algorithm: what its pictures say, as numbers."""
    readings = {"recurring_maps": ("", "_branches")} | dict.fromkeys(
        ("feature_reuse", "non_monotonicity"), ("", "_normalised", "_branches")
    )
    head = ["network", "scale", "algorithm", "networks", "lost", "accuracy", "maps that recur: streams / branches"]
    head += [f"{what}: streams / patterns / branches" for what in ("closer to one far before", "distance that falls")]
    head += ["R² of the input, last layer", "CKA to the input, last layer", "groups of similar nodes, last layer"]
    lines = []
    for scale, arms in shown(spiral.recipe, results).items():
        for arm, runs in arms.items():
            read = quantities(spiral.recipe, runs)
            network, algorithm = arm.split("_")
            means = [
                " / ".join(spread(read[f"{name}{one}"], 1, 100).partition(" ")[0] for one in each)
                for name, each in readings.items()
            ]
            ends = spread(read["input_kept"], 1, 100), spread(read["input_alike"], 2)
            told = network, scale, algorithm, len(read["lost"]), f"{sum(read['lost']):.0f}"
            accuracy, groups = spread(read["accuracy"], 1, 100), spread(read["node_groups_at_the_end"], 1)
            lines.append([*told, accuracy, *means, *ends, groups])
    return table(head, lines, "In percent, but for CKA and counts; with ± the standard deviation over networks.")


def ablations(results: Path) -> str:
    """One line an arm: its accuracy at every scale that was run, and the number of seeds."""
    kept = shown(ablation.recipe, results)
    rows = []
    for arm in ablation.recipe.arms:
        cells: list[object] = [f"`{arm}`"]
        for arms in kept.values():
            runs = arms.get(arm, {})
            cells += [spread(quantity(ablation.recipe, runs, "accuracy"), 2, 100), len(runs)]
        rows.append(cells)
    return table(["arm", *(name for scale in kept for name in (f"top-1, {scale}", "seeds"))], rows)
