"""Draw the figures of README.md and docs/ from the readings in results/."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from winze.lab import recipe
from winze.lab.results import load, readings_of
from winze.report import style
from winze.report.arms import arm_profiles
from winze.report.by_arm import training_by_arm

ROOT = Path(__file__).parents[1]


def tunnel(results: Path) -> Figure:
    """MLP-12 and VGG-19 on CIFAR-10, the mean over seeds."""
    runs = readings_of(load(recipe("tunnel/main"), results)["gpu"])
    names = {"mlp12": "MLP-12 on CIFAR-10", "vgg19": "VGG-19 on CIFAR-10"}
    return arm_profiles({name: list(runs[arm].values()) for arm, name in names.items()})


def residual_droppath(results: Path) -> Figure:
    """Accuracy over training of all algorithms, the mean over seeds, at the largest scale but the paper's with runs."""
    kept = load(recipe("residual_droppath/table1"), results)
    runs = readings_of(kept[next(scale for scale in ("gpu", "cpu") if scale in kept)])
    return training_by_arm({arm: list(seeds.values()) for arm, seeds in runs.items()})


FIGURES: dict[str, Callable[[Path], Figure]] = {"tunnel": tunnel, "residual_droppath": residual_droppath}


def draw(folder: Path, results: Path = ROOT / "results") -> list[Path]:
    """Write every figure into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.svg" for name in FIGURES]
    for path, make in zip(paths, FIGURES.values(), strict=True):
        style.save(make(results), path)
    return paths


if __name__ == "__main__":
    draw(ROOT / "docs" / "figures")
