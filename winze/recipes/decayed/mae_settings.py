"""What the gain of decayed shortcuts depends on in a masked autoencoder: one setting changed at a time.

    winze run decayed/mae_settings --scale cpu             # digits, 2 x 4 points x 3 seeds, minutes on one core
    winze run decayed/mae_settings --scale gpu --jobs 7    # CIFAR-10, 2 x 16 points x 3 seeds, 400 epochs on an H200

A claim of table 2 (decayed/mae_alpha) that fails at this size may hold at another learning rate, warm-up, start, width,
patch size, mask ratio or bound on the norm of features; each is a value of the axis `setting`.
"""

from dataclasses import replace
from typing import Any

from winze.lab import Axis, Question, Recipe, higher
from winze.recipes.decayed import _mae as use
from winze.recipes.decayed._mae import DECAYED, PLAIN, probe
from winze.report.experiment import over_setting
from winze.train import Epochs

SETTINGS: dict[str, dict[str, Any]] = {
    "base": {},
    "learning rate 1e-4": {"training.optimizer.lr": 1e-4},
    "learning rate 3e-4": {"training.optimizer.lr": 3e-4},
    "learning rate 1.5e-3": {"training.optimizer.lr": 1.5e-3},
    "no warm-up": {"training.schedule.warmup": Epochs(0)},
    "warm-up 80": {"training.schedule.warmup": Epochs(80)},
    "no zero-init": {"network.options.zero_init": False},
    "width 128": {"network.options.width": 128},
    "width 384": {"network.options.width": 384},
    "patch 2": {"network.options.patch": 2},
    "patch 8": {"network.options.patch": 8},
    "mask 0.5": {"network.options.mask": 0.5},
    "mask 0.85": {"network.options.mask": 0.85},
    "norm clip 1": {"network.options.norm_clip": 1.0},
    "norm clip 4": {"network.options.norm_clip": 4.0},
    "gradient clip 1": {"training.clip": 1.0},
}
SMALL = ("base", "no zero-init", "mask 0.5", "norm clip 4")
of_all = use.scales({"setting": SMALL}, protocols=use.study.protocols)

recipe = Recipe(
    "decayed/mae_settings",
    **use.about("table 2", departures=(*use.DEPARTURES, "the paper reports none of these settings")),
    shows="which settings the gain of decayed shortcuts depends on",
    axes={"setting": Axis("", SETTINGS), "alpha": Axis("network.rule.alpha_min", (1.0, 0.6))},
    scales=of_all | {"smoke": replace(of_all["smoke"], axes={"setting": SMALL[-1:]})},
    questions=(
        Question(
            "does alpha_min = 0.6 raise the probe accuracy of the class token?",
            higher(probe, DECAYED, than=PLAIN),
            each="setting",
        ),
        *use.other_probes("setting"),
    ),
    figures=(
        over_setting(probe, x="setting", line="alpha"),
        use.during_training("probe", colour="alpha", panel="setting"),
    ),
)
