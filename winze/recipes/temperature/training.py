"""Networks that learn at T = 1, 10, 100 and 1000: ranks, norms, alignment and other data (tables 6.3.1 and 6.3.2).

    winze run temperature/training --scale cpu    # MLP-8 on digits, 8 minutes on one core
    winze run temperature/training --scale gpu    # MLP-8, ResNet-18 and ResNet-20 on CIFAR-10, 3 seeds

At a high temperature the loss is low only with large logits. Layers get them by aligning their singular vectors, which
leaves few directions in the deep layers: the network is compressed, and its last features serve other data worse.
"""

from __future__ import annotations

from dataclasses import replace

from winze.lab import Claim, Recipe, Scale, at_least, at_most, falls, higher, level, lower, rises, share
from winze.recipes.temperature import figures
from winze.recipes.temperature.heated import work
from winze.recipes.temperature.quantities import MEASURES, QUANTITIES
from winze.recipes.temperature.settings import (
    DIGITS,
    LONG,
    MLP,
    OURS,
    POWERS,
    SHORT,
    SMALL,
    STAND_IN,
    TEMPERATURES,
    arms,
    arms_of,
    cifar,
    digits,
)
from winze.recipes.tunnel.settings import TEN_OF_CIFAR100

TABLE = {  # 6.3.1 and 6.3.2: κ and ρ in percent, by temperature
    "mlp8": ("MLP-8", (75, 50, 38, 38), (67, 67, 71, 78)),
    "resnet18": ("ResNet-18", (94, 83, 72, 67), (17, 56, 54, 67)),
    "resnet20": ("ResNet-20", (90, 85, 80, 60), (10, 28, 36, 50)),
    "resnet34": ("ResNet-34", (94, 94, 94, 82), (5, 2, 11, 23)),
    "resnet50": ("ResNet-50", (96, 96, 90, 78), (5, 2, 14, 22)),
}


def _table_claims(network: str) -> list[Claim]:
    name, kappas, rhos = TABLE[network]
    arms = arms_of(network)
    told = {"smoke": DIGITS, "cpu": DIGITS, "gpu": STAND_IN} if network == "mlp8" else {"gpu": STAND_IN}
    told = told if network in SMALL else {}
    cells = [
        Claim(
            f"{symbol} of {name} at T = {temperature:g} is {percent} % (within 15 points)",
            level(quantity, arm, percent / 100, within=0.15),
            paper=f"{percent} %",
            scales=scales,
        )
        for quantity, symbol, row, scales in (
            ("kappa", "κ", kappas, ("gpu", "paper") if network in SMALL else ("paper",)),
            ("rho", "ρ", rhos, ("paper",)),  # a share of what other data lose depends on the other data
        )
        for arm, temperature, percent in zip(arms, TEMPERATURES, row, strict=True)
    ]
    return [
        Claim(
            f"{name} is more compressed the higher the temperature: κ falls",
            falls("kappa", arms, POWERS),
            paper=f"{kappas[0]} % to {kappas[-1]} %",
        ),
        Claim(
            f"its last features serve other data worse: ρ rises ({name})",
            rises("rho", arms, POWERS),
            paper=f"{rhos[0]} % to {rhos[-1]} %",
            departure=told,
        ),
        Claim(
            f"so does its output: ρ counted with it rises ({name})",
            rises("rho_at_the_output", arms, POWERS),
            paper=f"{rhos[0]} % to {rhos[-1]} %",
            departure=told,
        ),
        *(
            Claim(
                f"{said} ({name})",
                rises(quantity, arms, POWERS),
                paper="declines",
                scales=("gpu", "paper"),
                departure={"gpu": STAND_IN},
            )
            for said, quantity in (
                ("so does ρ of the second set of other data", "rho_of_the_second"),
                ("and ρ of the second set counted with the output", "rho_of_the_second_at_the_output"),
            )
            if network in SMALL
        ),
        Claim(
            f"{name} ends at a lower rank the higher the temperature",
            falls("rank_at_the_end", arms, POWERS),
            paper="falls",
        ),
        *(
            Claim(
                f"temperature costs {name} little accuracy: at T = {temperature:g} it keeps 93 % of that at T = 1",
                share("accuracy", arm, of=arms[0], at_least=0.93),
                paper="little",
            )
            for arm, temperature in zip(arms[1:], TEMPERATURES[1:], strict=True)
        ),
        Claim(
            f"the tunnel of {name} starts earlier the higher the temperature",
            falls("tunnel_start", arms, POWERS),
            paper=OURS,
        ),
        *cells,
    ]


def _how_claims(network: str) -> list[Claim]:
    """How the rank is lost: by large logits, aligned layers, and not by larger weights in the deep ones."""
    name, (cold, _, hot, hottest) = TABLE[network][0], arms_of(network)
    return [
        Claim(
            f"the logits of {name} grow more than tenfold at T = 100",
            at_least("logits_growth", hot, 10),
            paper="grow",
        ),
        Claim(
            f"they stay or shrink at T = 1 ({name})",
            at_most("logits_growth", cold, 1),
            paper="stay or shrink",
        ),
        Claim(
            f"and are more than 5 times as large at T = 100 as at T = 1 ({name})",
            share("logits_norm", hot, of=cold, at_least=5),
            paper="larger",
        ),
        Claim(
            f"early in training the layers of {name} are more aligned at T = 100 than at T = 1",
            higher("alignment", hot, than=cold),
            paper="bright diagonals against none",
        ),
        Claim(
            f"the weights of {name} are larger at T = 100 than at T = 1",
            higher("weight_norm", hot, than=cold),
            paper="higher",
        ),
        Claim(
            f"a norm of the logits as temperature keeps a higher rank than T = 1 ({name})",
            higher("rank_at_the_end", f"{network}_norm", than=cold),
            paper=OURS,
        ),
        Claim(f"and loses less on other data ({name})", lower("rho", f"{network}_norm", than=cold), paper=OURS),
        Claim(
            f"so it does on the second set of other data ({name})",
            lower("rho_of_the_second", f"{network}_norm", than=cold),
            paper=OURS,
            scales=("gpu", "paper"),
        ),
    ] + (
        [
            Claim(
                "training at T = 1 raises the rank of MLP-8's last layer above that of fresh weights",
                at_least("rank_at_the_end_over_start_of_training", cold, 1),
                paper="raises",
            ),
            Claim(
                "at T = 1000 the last rank of MLP-8 is less than a tenth of its first layer's",
                at_most("rank_at_the_end_over_first", hottest, 0.1),
                paper="falls to about 0",
            ),
            Claim(
                "at T = 1000 the early layers of MLP-8 have a higher rank than at T = 1",
                higher("highest_rank", hottest, than=cold),
                paper="reaches its bound",
            ),
            Claim(
                "at T = 100 the later half of MLP-8 adds most of the norm",
                at_least("norm_added_late", hot, 0.5),
                paper="most",
            ),
            Claim(
                "though its weights are smaller than those of the earlier half",
                at_most("late_weights_over_early", hot, 1),
                paper="smaller",
            ),
        ]
        if network == "mlp8"
        else [
            Claim(
                f"at T = 1000 other data are served best by layer 12 of {name} (within two)",
                level("other_data_peak", hottest, 12, within=2),
                paper=12,
                departure={"gpu": STAND_IN},
            )
        ]
        if network == "resnet18"
        else []
    )


recipe = Recipe(
    name="temperature/training",
    system="S9",
    shows="a high softmax temperature compresses a network, lowers the rank of its deep layers, and harms other data",
    paper="Unpacking Softmax: How Temperature Drives Representation Collapse; thesis, section 6.3",
    url="https://arxiv.org/abs/2506.01562",
    arms=arms(),
    scales={
        "smoke": Scale(
            replace(digits, training=replace(digits.training, epochs=3), limit=200, trial=1, look_samples=64),
            seeds=(0,),
            arms=(*arms_of("mlp8"), "mlp8_norm"),
            changes={"*": {"network": "winze/mlp8x32", "look_at": (0, 3), "every_look": 3, "factors": (1.0,)}},
            departures=(DIGITS, "3 epochs on 200 samples, at one rate"),
        ),
        "cpu": Scale(
            digits,
            seeds=(0, 1, 2),
            arms=(*arms_of("mlp8"), "mlp8_norm"),
            changes={"*": {"network": "winze/mlp8x128"}},
            departures=(DIGITS, "MLP-8 is 128 wide and learns for 150 epochs; ridge probes"),
        ),
        "gpu": Scale(
            cifar,
            seeds=(0, 1, 2),
            arms=tuple(arm for arm in arms() if arm.startswith(SMALL)),
            changes={arm: SHORT for arm in arms() if arm.startswith(("resnet18", "resnet20"))},
            departures=(
                STAND_IN,
                "MLP-8 for 30 epochs, ResNets for 25 in bf16, with a tenth of the rate from epochs 13 and 20 on",
                "rates are tried for 2 epochs, those of ResNets for 1",
                "20,000 train samples of MNIST",
                "feature maps of ResNets are averaged over a grid of 2 x 2 for ranks and probes, instead of flattened",
            ),
        ),
        "paper": Scale(
            replace(
                cifar,
                training=MLP,
                ood=("svhn", TEN_OF_CIFAR100),
                ood_limit=None,
                pool="flatten",
            ),
            seeds=(0, 1, 2),
            changes={arm: LONG for arm in arms() if arm.startswith(("resnet18", "resnet20"))},
        ),
    },
    work=work,
    quantities=QUANTITIES,
    claims=tuple(
        claim
        for network in TABLE
        for claim in (*_table_claims(network), *(_how_claims(network) if network in SMALL else ()))
    ),
    departures=(
        "the rate is the best of lr x {1, √T, T} after a short trial on the training loss; gradients are clipped at a "
        "norm of 5 / T, and weight decay is divided as the rate is multiplied (at T = 1000 ResNets learn nothing "
        "otherwise); the norm of the logits as temperature has the rate of T = 1",
        "κ counts up to the number in a network's name, of MLP-8 without its output; ρ compares with the last hidden "
        "layer",
        "alignment is that of the 15 leading singular vectors, at the last of the early looks; a convolution reads "
        "channels, and positions are samples",
        "the optimiser is that of the tunnel experiments, since the thesis does not give one; ImageNet: SGD, 90 epochs",
    ),
    measures=(*MEASURES, "alignment/*"),
    figures=figures.FIGURES,
)
