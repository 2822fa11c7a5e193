"""ResNets without shortcuts: an earlier tunnel, no spike of rank, more OOD accuracy lost (figures 5.15.1 and 5.15.2).

    winze run tunnel/no_shortcut --scale cpu    # ResNet-18 with an eighth of the channels on digits, a minute
    winze run tunnel/no_shortcut --scale gpu    # ResNet-18 and 34 on CIFAR-10, two learning rates, 3 seeds

A plain network is a ResNet under the rule `NoShortcut`: y = f(x), projections not run. The thesis draws plain networks
at 98 % of the accuracy and ResNets at 95 %; here both are compared at 95 %.
"""

from winze.lab import Axis, Claim, Question, Recipe, at_least, higher, lower
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._quantities import FINAL_RANK, OOD_LOST, SPIKE, SPIKE_AT, SPIKE_HEIGHT
from winze.report.experiment import over_depth, profiles
from winze.shape import NoShortcut

PLAIN, WHOLE = {"network": "plain"}, {"network": "resnet"}
each = ("depth", "rate")
cpu = use.on_digits(
    {"network.options.stem_stride": 1},
    "ResNet-18 with an eighth of the channels, stem of stride 1",
    5,
    axes={"depth": (18,), "rate": (0.1,)},
    at=(({}, {"network.name": "winze/resnet18x0.125"}),),
)

recipe = Recipe(
    "tunnel/no_shortcut",
    **use.scanned(),
    shows="without shortcuts a ResNet's tunnel starts earlier and loses more OOD accuracy",
    study=use.resnets,
    axes={
        "depth": Axis("network.name", {18: "winze/resnet18", 34: "winze/resnet34"}),
        "network": Axis("network.rule", {"resnet": None, "plain": NoShortcut()}),
        "rate": Axis("training.optimizer.lr", (0.03, 0.1)),
    },
    scales=use.scales(
        cpu,
        use.on_gpu(
            {"reading.pool": use.POOLED},
            "20 epochs (24 at a learning rate of 0.1) instead of 164, in bf16",
            at=use.at_rates({}, use.RESNET, 20, 24),
        ),
        use.as_published(axes={"rate": (0.1,)}),
    ),
    claims=(
        Claim(
            "probes of a ResNet saturate earlier without shortcuts (at 95 % of the accuracy)",
            "figs. 5.15.1 and 5.15.2",
            lower("tunnel_start", PLAIN, than=WHOLE),
            each=each,
            paper="about two layers",
            departure=f"{use.OWN_BAR}; at a learning rate of 0.1 ResNet-34 reaches 37 % without shortcuts",
        ),
        Claim(
            "the rank of ResNet-34 has a spike at layer 29 (end of its penultimate stage), but not without shortcuts",
            "figs. 5.2.1 and 5.15.2",
            higher(SPIKE_HEIGHT, WHOLE, than=PLAIN),
            at={"depth": 34},
            each="rate",
            paper="spike, none without",
            departure=SPIKE_AT,
            post_hoc="the control, a spike with shortcuts, was added after the readings were seen",
        ),
        Claim(
            "a ResNet without shortcuts loses more OOD accuracy in its tunnel",
            "figs. 5.15.1 and 5.15.2",
            higher(OOD_LOST, PLAIN, than=WHOLE),
            each=each,
            paper="stronger drop",
            departure=use.FEW_IMAGES,
        ),
    ),
    questions=(
        Question(
            "does a ResNet without shortcuts end at a lower rank?", lower(FINAL_RANK, PLAIN, than=WHOLE), each=each
        ),
        Question(
            "does the rank of ResNet-34 have a spike at layer 29 with shortcuts?",
            at_least(SPIKE, 1),
            at={"depth": 34, **WHOLE},
            each="rate",
            departure=SPIKE_AT,
        ),
    ),
    figures=(
        profiles(("network", "depth", "rate")),
        over_depth("numerical_rank", colour="network", panel=each, log=True),
        over_depth("probe", colour="network", panel=each, ood=True),
    ),
)
