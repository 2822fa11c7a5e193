"""Draw the figures of README.md and docs/ from the readings in results/."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # where its neighbours are, whoever loads this file

from all_runs import all_runs
from block_diagram import block_diagram
from kept_runs import ROOT, largest, recipes, runs_of
from matplotlib.figure import Figure
from opening_figure import opening_figure

from winze import lab
from winze.report import style
from winze.report.experiment import UnreadError, profiles
from winze.report.scan.figure_files import folders

MOST = 3  # figures of one recipe that its page shows


def tunnel_small(results: Path) -> Figure:
    """The three small networks on CIFAR-10, the mean over seeds."""
    _, runs = largest("tunnel/small", results)
    sound = lab.recipe("tunnel/small").sound(runs)
    return profiles("network", at={}).draw({point: list(seeds.values()) for point, seeds in sound.items()}, "light")


def droppath_cost(results: Path) -> Figure:
    """Time and memory of a training step of ViT-B/16 under each way to run the rules, against the plain step."""
    rows = json.loads((results / "residual_droppath.json").read_text())["rows"]
    found = [row for row in rows if row["network"] == "vit_base_patch16_224" and row["how"] == "eager"]
    found.sort(key=lambda row: -row["ratio"])
    with style.use() as colours:
        drawing, (time, memory) = style.panels(2, tall=2.6)
        for spot, row in enumerate(found):
            time.plot([row["low"], row["high"]], [spot, spot], color=colours.faint, linewidth=1)
            time.plot(row["ratio"], spot, "o", color=colours.probe)
            stages = [row[name] for name in ("memory", "memory_stage1", "memory_stage2") if name in row]
            memory.plot([used / row["memory_plain"] for used in stages], [spot] * len(stages), "s", color=colours.rank)
        for axes in (time, memory):
            axes.axvline(1, color=colours.faint, linestyle=":")
            axes.set_yticks(range(len(found)), [row["way"] for row in found])
        time.set(title="Time of a step, mean of both stages", xlabel="x the plain step", xlim=(0.5, 1.15))
        memory.set(title="Memory of a step, each stage", xlabel="x the plain step", xlim=(0, 1.15))
        return drawing


def of(name: str, title: str, scale: str = "") -> Callable[[Path], Figure]:
    """The figure of a recipe that has this title, at a scale or at the largest."""

    def make(results: Path) -> Figure:
        (drawing,) = [one for one in lab.recipe(name).figures if one.title == title]
        runs = runs_of(name, results)[scale] if scale else largest(name, results)[1]
        sound = lab.recipe(name).sound(runs)
        return drawing.draw({point: list(seeds.values()) for point, seeds in sound.items()}, "light")

    return make


FIGURES: dict[str, Callable[[Path], Figure]] = {
    "tunnel": opening_figure,
    "tunnel_small": tunnel_small,
    "all_runs": all_runs,
    "droppath_cost": droppath_cost,
    "residual_droppath_300": of("residual_droppath/table1", "Accuracy over training", "paper"),
    "spiral_blocks": lambda results: block_diagram(),
    "spiral_maps": of("residual_droppath/spiral", "Node maps, 32x32, output sample", "cpu"),
    "spiral_training": of("residual_droppath/spiral", "Node maps over training, 6x6, output sample", "cpu"),
    "spiral_distances": of("residual_droppath/spiral", "Distances between layers", "cpu"),
    "decayed_accuracy": of("decayed/supervised", "Accuracy by alpha"),
    "decayed_ood": of("decayed/supervised", "Probe accuracy over depth on OOD data"),
    "temperature_norms": of("temperature/training", "Norm of features over depth"),
    "temperature_logits": of("temperature/training", "Logits norm over training"),
    "temperature_alignment": of("temperature/training", "Alignment in mlp8"),
}
"""Figures of pages that are no results; those of docs/results are the recipes' own."""


def of_recipes(results: Path) -> Iterator[tuple[str, Figure]]:
    """The first figures of every recipe that its kept runs can show, by the name of their file."""
    for recipe in (one for several in recipes().values() for one in several):
        _, runs = largest(recipe.name, results)
        there = {point: list(seeds.values()) for point, seeds in recipe.sound(runs).items() if seeds}
        made = 0
        for name, drawing in zip(folders([one.title for one in recipe.figures]), recipe.figures, strict=True):
            if made == MOST or not there:
                break
            try:
                figure = drawing.draw(there, "light")
            except UnreadError:
                continue
            made += 1
            yield f"{recipe.name.replace('/', '_')}_{name.lower()}", figure


def draw(folder: Path, results: Path = ROOT / "results") -> list[Path]:
    """Write every figure into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in (*((name, make(results)) for name, make in FIGURES.items()), *of_recipes(results)):
        paths.append(folder / f"{name}.svg")
        style.save(figure, paths[-1])
    return paths


if __name__ == "__main__":
    target = ROOT / "docs" / "figures"
    written = set(draw(target))
    for old in set(target.glob("*.svg")) - written:
        old.unlink()
