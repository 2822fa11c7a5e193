"""Draw the figures of README.md and docs/ from the readings in results/."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from winze.lab import recipe
from winze.lab.results import load, readings_of
from winze.report import style
from winze.report.arms import arm_profiles

ROOT = Path(__file__).parents[1]


def tunnel(results: Path) -> Figure:
    """MLP-12 and VGG-19 on CIFAR-10, the mean over seeds."""
    runs = readings_of(load(recipe("tunnel/main"), results)["gpu"])
    names = {"mlp12": "MLP-12 on CIFAR-10", "vgg19": "VGG-19 on CIFAR-10"}
    return arm_profiles({name: list(runs[arm].values()) for arm, name in names.items()})


FIGURES: dict[str, Callable[[Path], Figure]] = {"tunnel": tunnel}


def draw(folder: Path, results: Path = ROOT / "results") -> list[Path]:
    """Write every figure into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.svg" for name in FIGURES]
    for path, make in zip(paths, FIGURES.values(), strict=True):
        style.save(make(results), path)
    return paths


if __name__ == "__main__":
    draw(ROOT / "docs" / "figures")
