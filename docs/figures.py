"""Draw the figures of README.md and docs/ from the readings in results/."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from winze.lab import recipe
from winze.lab.results import load, readings_of
from winze.recipes.tunnel.cells import DEPTHS, STARTS
from winze.report import style
from winze.report.arms import arm_profiles
from winze.report.by_arm import training_by_arm
from winze.report.starts import tunnel_starts

ROOT = Path(__file__).parents[1]


def tunnel(results: Path) -> Figure:
    """Three networks on CIFAR-10, the mean over seeds."""
    runs = readings_of(load(recipe("tunnel/main"), results)["gpu"])
    names = {"mlp12": "MLP-12 on CIFAR-10", "vgg19": "VGG-19 on CIFAR-10", "resnet34": "ResNet-34 on CIFAR-10"}
    return arm_profiles({name: list(runs[arm].values()) for arm, name in names.items()})


def tunnel_small(results: Path) -> Figure:
    """The three small networks on CIFAR-10, the mean over the seeds that were run."""
    runs = readings_of(load(recipe("tunnel/small"), results)["gpu"])
    names = {"vgg19": "VGG-19, a quarter as wide", "resnet20": "ResNet-20", "vit": "ViT of 6 blocks"}
    return arm_profiles({name: list(runs[arm].values()) for arm, name in names.items()})


def tunnel_capacity(results: Path) -> Figure:
    """Starts by depth, width and number of classes, beside the thesis's."""
    runs = readings_of(load(recipe("tunnel/capacity"), results)["gpu"])
    names = {
        **{f"mlp{depth}": f"MLP-{depth}" for depth in DEPTHS},
        "vgg19_narrow": "VGG-19, width 1/4",
        "vgg19": "VGG-19",
        "vgg19_wide": "VGG-19, width 2",
        "vgg19_50": "VGG-19, 5 classes",
        "vgg19_30": "VGG-19, 3 classes",
    }
    told = {name: STARTS[arm] for arm, name in names.items()}
    return tunnel_starts(
        {name: list(runs[arm].values()) for arm, name in names.items()}, told=told, whose="the thesis, CIFAR-10"
    )


def droppath_curves(scale: str) -> Callable[[Path], Figure]:
    """Accuracy of the algorithms while ResNet50d learns CIFAR-10 at a scale, the mean over seeds."""

    def make(results: Path) -> Figure:
        runs = readings_of(load(recipe("residual_droppath/table1"), results)[scale])
        return training_by_arm({arm: list(runs[arm].values()) for arm in runs if arm.startswith("cifar10")})

    return make


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


def of(name: str, title: str, said: Mapping[str, str] | None = None) -> Callable[[Path], Figure]:
    """One of a recipe's own figures, at the largest scale but the paper's of which every arm was run.

    `said` chooses arms and names them, in its order.
    """

    def make(results: Path) -> Figure:
        made = recipe(name)
        kept = load(made, results)
        ran = (scale for scale in ("gpu", "cpu") if scale in kept and set(made.arms_at(scale)) <= set(kept[scale]))
        runs = readings_of(kept[next(ran)])
        draw = {"Depth profile": arm_profiles, **made.figures}[title]
        return draw(
            {called: list(runs[arm].values()) for arm, called in (said or {a: a for a in runs}).items()}, "light"
        )

    return make


THREE = {"mlp12": "MLP-12", "vgg19": "VGG-19", "resnet34": "ResNet-34"}
VGG = {"vgg19": "VGG-19"}
SPLITS = {
    "three_seven": "VGG-19, 3 classes, then 7",
    "five_five": "VGG-19, 5 classes, then 5",
    "seven_three": "VGG-19, 7 classes, then 3",
}
WIDTHS = {
    "vgg13_narrow": "VGG-13, width 1/4",
    "vgg19_narrow": "VGG-19, width 1/4",
    "vgg13": "VGG-13, width 1",
    "five_five": "VGG-19, width 1",
    "vgg13_wide": "VGG-13, width 2",
    "vgg19_wide": "VGG-19, width 2",
}
FIGURES: dict[str, Callable[[Path], Figure]] = {
    "tunnel": tunnel,
    "tunnel_small": tunnel_small,
    "tunnel_variances": of("tunnel/compression", "Class variances", VGG),
    "tunnel_samples": of("tunnel/compression", "Samples before and after", {"vgg19": ""}),
    "tunnel_cka": of("tunnel/similarity", "CKA", THREE),
    "tunnel_l1": of("tunnel/similarity", "L1 distance", {"mlp12": "MLP-12"}),
    "tunnel_weights": of("tunnel/development", "Weight change", VGG),
    "tunnel_ranks": of(
        "tunnel/development",
        "Ranks while learning",
        {"first_steps": "VGG-19, its first 75 steps", "vgg19": "VGG-19, 16 epochs"},
    ),
    "tunnel_put_back": of("tunnel/development", "Tunnel put back", VGG),
    "tunnel_other": of("tunnel/ood", "Depth profile", THREE),
    "tunnel_other_sets": of("tunnel/ood", "Many other sets", THREE),
    "tunnel_other_classes": of("tunnel/ood", "Numbers of other classes", THREE),
    "tunnel_learnt_classes": of(
        "tunnel/ood",
        "Depth profile",
        {
            "few_classes": "VGG-19, 10 classes",
            "more_classes": "VGG-19, 30 classes",
            "all_classes": "VGG-19, 100 classes",
        },
    ),
    "tunnel_capacity": tunnel_capacity,
    "tunnel_swap": of("tunnel/swap", "Extractors and tunnels crossed"),
    "tunnel_shorter": of("tunnel/shorter", "Accuracy and forgetting"),
    "tunnel_substitution": of("tunnel/substitution", "Layers substituted", SPLITS),
    "tunnel_substitution_widths": of("tunnel/substitution", "Layers substituted", WIDTHS),
    "tunnel_no_shortcut": of(
        "tunnel/no_shortcut",
        "Depth profile",
        {
            "resnet18": "ResNet-18",
            "plain18": "ResNet-18 without shortcuts",
            "resnet34": "ResNet-34",
            "plain34": "ResNet-34 without shortcuts",
        },
    ),
    "tunnel_rules": of(
        "tunnel/rules",
        "Start of the tunnel",
        {
            "vgg": "VGG-19",
            "vgg_slow": "VGG-19, a slow tunnel",
            "resnet": "ResNet-34",
            "resnet_droppath": "with ResidualDroppath",
            "resnet_decayed": "with decayed shortcuts",
            "vit": "ViT of 12 blocks",
        },
    ),
    "tunnel_stem": of(
        "tunnel/stem",
        "Start of the tunnel",
        {"quarter": "maps of 8 x 8", "half": "maps of 16 x 16", "full": "maps of 32 x 32"},
    ),
    "tunnel_held": of("tunnel/held", "Both tasks at the end"),
    "residual_droppath": droppath_curves("gpu"),
    "residual_droppath_300": droppath_curves("paper"),
    "droppath_cost": droppath_cost,
    "spiral_blocks": of("residual_droppath/spiral", "Blocks"),
    "spiral_maps": of("residual_droppath/spiral", "Node maps, 32x32_ours"),
    "spiral_training": of("residual_droppath/spiral", "Node maps over training, 6x6_ours"),
    "spiral_distances": of("residual_droppath/spiral", "Distances between layers"),
    "temperature_toy_ranks": of("temperature/toy", "Rank during training"),
    "temperature_toy_noise": of("temperature/toy", "Accuracy on noisy samples"),
    "temperature_toy_values": of("temperature/toy", "Singular values during training"),
    "temperature_toy_softmax": of("temperature/toy", "Singular values before and after softmax"),
    "temperature_softmax_rank": of("temperature/softmax_rank", "Rank of a softmax over its scale"),
    "temperature_softmax_columns": of("temperature/softmax_rank", "Columns of a softmax over its scale"),
    "temperature_propositions": of("temperature/propositions", "Seven propositions"),
    "temperature_ranks": of("temperature/training", "Ranks over depth"),
    "temperature_norms": of("temperature/training", "Norms over depth"),
    "temperature_logits": of("temperature/training", "Norm of the logits during training"),
    "temperature_alignment": of("temperature/training", "Alignment in MLP-8"),
    "temperature_probes": of("temperature/training", "Probes over depth"),
    "temperature_schedule": of("temperature/schedule", "Ranks over depth"),
    "decayed_depth": of("decayed/supervised", "Effective rank over depth"),
    "decayed_blocks": of("decayed/supervised", "Effective rank by the number of blocks"),
    "decayed_training": of("decayed/supervised", "Effective rank over training"),
    "decayed_accuracy": of("decayed/supervised", "Accuracy by alpha_min"),
    "decayed_other": of("decayed/supervised", "Other data over depth"),
}


def draw(folder: Path, results: Path = ROOT / "results") -> list[Path]:
    """Write every figure into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.svg" for name in FIGURES]
    for path, make in zip(paths, FIGURES.values(), strict=True):
        style.save(make(results), path)
    return paths


if __name__ == "__main__":
    draw(ROOT / "docs" / "figures")
