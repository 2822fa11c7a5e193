"""Beyond the thesis: a lower rate for the tunnel, other rules for shortcuts, and a small ViT.

    winze run tunnel/rules --scale cpu    # small networks on digits
    winze run tunnel/rules --scale gpu    # VGG-19, ResNet-34 and a ViT on CIFAR-10, 3 seeds

The thesis leaves open whether rates by layer would cure the tunnel, and whether networks other than MLPs, VGGs and
ResNets have one. `vgg_slow` learns the layers behind the eighth at a tenth of the rate. `resnet_droppath` is taught by
ResidualDroppath, `resnet_decayed` has shortcuts that fade with depth. `vit` is timm's ViT-Tiny on patches of 4 x 4,
read after every block at its class token, from which it answers. No published number exists: the claims are what one
would expect, and the verdicts tell whether it holds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from winze.lab import Claim, Recipe, Scale, higher, lower
from winze.lab.quantities import OOD, PeakLayer, TunnelLayer, Whole, drop, hidden
from winze.lab.study import Study, train_and_read
from winze.recipes.tunnel.claims import has_tunnel, loses_other_data
from winze.recipes.tunnel.numbers import TunnelShare
from winze.recipes.tunnel.settings import (
    CONVOLUTIONS,
    COUNTED,
    FLAT,
    GENTLE,
    GRID,
    NORM,
    ON_GRID,
    OTHER_DIGITS,
    OWN_BAR,
    OWN_NORMALISATION,
    PAPER,
    PICTURES,
    POOLED,
    REFERENCE,
    RESNET,
    SYSTEM,
    TEN_OF_CIFAR100,
    TINY,
    TUNNEL,
    URL,
    VGG,
    VIT,
    gentle,
    shortened,
)
from winze.report.starts import tunnel_starts
from winze.shape import DecayedIdentity, ResidualDropPath
from winze.train import Training

SLOW = tuple((glob, 0.1) for glob in TUNNEL)
RULES = {"resnet_droppath": ResidualDropPath(), "resnet_decayed": DecayedIdentity(alpha_min=0.6)}
NAMES = {
    "vgg": "VGG-19",
    "resnet": "ResNet-34",
    "resnet_droppath": "ResNet-34 with ResidualDroppath",
    "resnet_decayed": "ResNet-34 with decayed shortcuts",
    "vit": "a small ViT",
}
STAND_INS = {"smoke": OTHER_DIGITS, "cpu": OTHER_DIGITS, "gpu": TINY}
SMALLER = {"smoke": "on smaller networks", "cpu": "on smaller networks"}


def resnets(
    training: Training, network: str = "winze/resnet34", pool: str | int = "flatten", **options: Any
) -> dict[str, dict[str, Any]]:
    """The fields of all ResNet arms; their rules are the recipe's."""
    fields = {"network": network, "training": training, "options": {"stem": "thesis", **options}, "pool": pool}
    return dict.fromkeys(("resnet", *RULES), fields)


def vggs(training: Training, network: str = "winze/vgg19") -> dict[str, dict[str, Any]]:
    """The fields of both VGG arms."""
    return {
        "vgg": {"network": network, "training": training},
        "vgg_slow": {"network": network, "training": replace(training, rates=SLOW)},
    }


def vit(training: Training, side: int, patch: int, **options: Any) -> dict[str, dict[str, Any]]:
    """The fields of the ViT's arm."""
    own = {"img_size": side, "patch_size": patch, **options}
    return {"vit": {"training": training, "options": own, "pool": "token"}}


digits = Study("winze/vgg19x0.125", "digits[0-4]", CONVOLUTIONS, ood=("digits[5-9]",), pool="flatten")
tiny_vit = partial(vit, side=8, patch=2, in_chans=1, embed_dim=48, depth=6, num_heads=3)
small_vit = replace(VIT, epochs=60, augment=())
recipe = Recipe(
    name="tunnel/rules",
    system=SYSTEM,
    shows="whether slower layers, other shortcuts or attention change the tunnel, and where it is",
    paper=PAPER,
    url=URL,
    arms={
        "vgg": {},
        "vgg_slow": {},
        "resnet": {"places": "blocks"},
        **{arm: {"places": "blocks", "rule": rule} for arm, rule in RULES.items()},
        "vit": {"network": "vit_tiny_patch16_224", "places": "blocks"},
    },
    scales={
        "smoke": Scale(
            replace(digits, limit=200),
            seeds=(0,),
            arms=("vgg", "vgg_slow", "resnet_droppath", "vit"),
            changes={
                **vggs(shortened(CONVOLUTIONS, 1), "winze/vgg19x0.0625"),
                "resnet_droppath": resnets(shortened(CONVOLUTIONS, 1), "winze/resnet18x0.0625", stem_stride=1)[
                    "resnet"
                ],
                **tiny_vit(replace(small_vit, epochs=1, warmup=0)),
            },
            departures=(OTHER_DIGITS, "very small networks, 1 epoch on 200 samples"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2),
            changes={
                **vggs(CONVOLUTIONS, "winze/vgg19x0.125"),
                **resnets(CONVOLUTIONS, "winze/resnet18x0.125", stem_stride=1),
                **tiny_vit(small_vit),
            },
            departures=(
                OTHER_DIGITS,
                "VGG-19 and ResNet-18 with an eighth of the channels, a ViT of 6 blocks, 48 wide, patches of 2 x 2",
            ),
        ),
        "gpu": Scale(
            Study(
                "winze/vgg19",
                "cifar10",
                gentle(VGG, 16),
                ood=("tinyimagenet",),
                **GRID,
            ),
            seeds=(0, 1, 2),
            changes={
                **vggs(gentle(VGG, 16)),
                **resnets(gentle(RESNET, 16), pool=POOLED),
                **vit(replace(VIT, epochs=24, precision="bf16-mixed"), side=32, patch=4),
            },
            departures=(TINY, "16 epochs of VGG and ResNet, 24 of the ViT, in bf16", GENTLE, ON_GRID),
        ),
        "paper": Scale(
            Study("winze/vgg19", "cifar10", VGG, ood=(TEN_OF_CIFAR100,), **FLAT),
            seeds=(0, 1, 2),
            changes={**vggs(VGG), **resnets(RESNET), **vit(VIT, side=32, patch=4)},
            departures=("there is no published setting: the trainings of the thesis, and a usual one for the ViT",),
        ),
    },
    work=train_and_read,
    quantities={
        "accuracy": Whole("accuracy"),
        "tunnel_start": TunnelLayer(0.95),
        "share_of_layers_before_the_tunnel": TunnelShare(),
        "rank_at_the_end": hidden("numerical_rank"),
        "other_data_lost_at_the_end": drop("probe", OOD),
        "other_data_peak_layer": PeakLayer("probe", OOD),
    },
    claims=(
        *(
            claim
            for arm, name in NAMES.items()
            for claim in (
                has_tunnel(arm, name, {"vgg": "42 %", "resnet": "59 %"}.get(arm, "open"), SMALLER),
                loses_other_data(arm, name, "falls" if arm in ("vgg", "resnet") else "open", STAND_INS),
            )
        ),
        Claim(
            "a tenth of the rate in the layers of the tunnel makes it begin later",
            higher("tunnel_start", "vgg_slow", than="vgg"),
            paper="open",
        ),
        Claim(
            "a tenth of the rate in the layers of the tunnel leaves more for other data",
            lower("other_data_lost_at_the_end", "vgg_slow", than="vgg"),
            paper="open",
            departure=STAND_INS,
        ),
        Claim(
            "a tenth of the rate in the layers of the tunnel leaves features of a higher rank",
            higher("rank_at_the_end", "vgg_slow", than="vgg"),
            paper="open",
        ),
        Claim(
            "a tenth of the rate in the layers of the tunnel costs no accuracy (a point at most)",
            higher("accuracy", "vgg_slow", than="vgg", by=-0.01),
            paper="open",
        ),
        Claim(
            "ResidualDroppath, which teaches every block, makes the tunnel begin later",
            higher("tunnel_start", "resnet_droppath", than="resnet"),
            paper="open",
            departure=OWN_BAR,
        ),
        Claim(
            "ResidualDroppath leaves more for other data",
            lower("other_data_lost_at_the_end", "resnet_droppath", than="resnet"),
            paper="open",
            departure=STAND_INS,
        ),
        Claim(
            "decayed shortcuts, on the way to none, make the tunnel begin earlier",
            lower("tunnel_start", "resnet_decayed", than="resnet"),
            paper="open",
            departure=OWN_BAR,
        ),
        Claim(
            "decayed shortcuts, on the way to none, lose more for other data",
            higher("other_data_lost_at_the_end", "resnet_decayed", than="resnet"),
            paper="open",
            departure=STAND_INS,
        ),
    ),
    departures=(
        NORM,
        PICTURES,
        REFERENCE,
        COUNTED,
        OWN_NORMALISATION,
        "layers of a ViT are its patch embedding, four linear layers a block, and the output",
    ),
    measures=("probe", "accuracy", "numerical_rank", "loss"),
    figures={"Start of the tunnel": partial(tunnel_starts, within=0.75)},
)
