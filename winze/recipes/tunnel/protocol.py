"""Beyond the thesis: one set of weights, and every protocol by which the start of its tunnel can be read.

    winze run tunnel/protocol --scale cpu    # VGG-19 and ResNet-18 with an eighth of the channels on digits
    winze run tunnel/protocol --scale gpu --at pool=mean --at probe=ridge --jobs 8    # 4 trainings per seed
    winze run tunnel/protocol --scale gpu --jobs 4                                    # then every other reading of them

The thesis's 8 (VGG-19) and 20 (ResNet-34) depend on what it does not state: how feature maps become features, which
probe is fitted, and what the accuracy of a layer is compared with. Points that differ in `pool` and `probe` alone share
their training. `stem` is the first convolution of a ResNet: 7 x 7 of stride 2 or 1, then a pool, or 3 x 3.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

from winze.lab import Axis, Bench, Question, Recipe, Scale, Study, alike, at_least, higher, several, tunnel_at
from winze.lab.claims.quantities import LayerReaching, TunnelLayer
from winze.lab.study import learn, prepare, read
from winze.readings import Point
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._tables import BY_DATA
from winze.report.experiment import over_depth, over_setting

POOLS, PROBES, EACH = ("flatten", 4, 2, "mean"), ("ridge", "adam"), ("network", "stem", "pool", "probe")
FULL = ("vgg19", "resnet34")
START, START_98 = (
    {cell: BY_DATA[cell[0], "cifar10"][column] for cell in product(FULL, ("own", *use.STEMS), POOLS, PROBES)}
    for column in (0, 1)
)
BARS = {"own accuracy": TunnelLayer(), "80 % accuracy": LayerReaching(0.8)}
BETWEEN = (TunnelLayer(0.98) - TunnelLayer(0.9)).named("layers between thresholds of 90 % and 98 %")


def work(study: Study, bench: Bench) -> None:
    """Train a network, once for all points that differ in their reading alone, and read it."""
    prepared = prepare(study, bench)
    learn(prepared, bench, shared="protocol")
    read(prepared, bench)


def runs(point: Point) -> bool:
    """Adam probes see whole feature maps or their means; a VGG has a stem of its own."""
    own = (point["network"] == "vgg19") == (point["stem"] == "own")
    return own and (point["probe"] == "ridge" or point["pool"] in ("flatten", "mean"))


def by_bar(check: Callable[..., Any], *values: Any, **rest: Any) -> Any:
    """A check of the tunnel's start by each bar."""
    return several("bar", {name: check(start, *values, **rest) for name, start in BARS.items()})


def by_network(*axes: str) -> dict[str, Any]:
    """The cells of a question; smoke runs are too short to have a tunnel by every bar."""
    return {"each": ("network", *axes), "scales": ("cpu", "gpu", "paper")}


small: dict[str, Any] = {
    "network": ("vgg19", "resnet18"),
    "stem": ("own", "7x7/2", "3x3"),
    "pool": ("flatten", 2, "mean"),
}
cpu = use.on_digits(
    {},
    "VGG-19 and ResNet-18 with an eighth of the channels",
    axes=small,
    only=runs,
    at=tuple(({"network": one}, {"network.name": f"winze/{one}x0.125"}) for one in small["network"]),
)
full = {"network": FULL}
quick = {"pool": ("flatten", "mean"), "stem": ("own", "7x7/2", "3x3")}

recipe = Recipe(
    "tunnel/protocol",
    **use.scanned("correct/*"),
    shows="the tunnel of one network starts at different layers by the pooling, the probe and the bar",
    study=use.study,
    axes={
        "network": Axis("", {
            "vgg19": {"network.name": "winze/vgg19"},
            **{one: {"network.name": f"winze/{one}", "reading.places": "blocks"} for one in ("resnet34", "resnet18")},
        }),
        "stem": Axis("network.options", {"own": {}, **use.STEMS}),
        "pool": Axis("reading.pool", POOLS),
        "probe": Axis("reading.probe", PROBES),
    },
    scales={
        "smoke": use.smoke(Scale(cpu.settings, small | quick, 1, runs, cpu.at, cpu.departures)),
        "cpu": cpu,
        "gpu": Scale({"data.size": 32}, full, 3, runs, (({}, use.FAST),),
                     ("bf16; ResNets are trained for 160 epochs instead of 164",)),
        "paper": Scale({"data.size": 32}, full, 3, runs),
    },
    work=work,
    questions=(
        Question("does the tunnel start at the layer of table 5.2.1 by 95 % of the accuracy (within two layers)?",
                 tunnel_at(0.95, START), each=EACH, paper=START, scales=("gpu", "paper")),
        Question("does the tunnel start at the layer of table 5.2.1 by 98 % of the accuracy (within two layers)?",
                 tunnel_at(0.98, START_98), each=EACH, paper=START_98, scales=("gpu", "paper")),
        Question("does the tunnel start later if features are means over positions than if they are whole maps?",
                 by_bar(higher, {"pool": "mean"}, than={"pool": "flatten"}), **by_network("stem", "probe")),
        Question("do ridge and Adam probes find the same start (within a layer)?",
                 by_bar(alike, {"probe": "ridge"}, to={"probe": "adam"}, within=1), **by_network("stem", "pool")),
        Question("do thresholds of 90 % and 98 % of the accuracy lie two or more layers apart?",
                 at_least(BETWEEN, 2), **by_network("stem", "pool", "probe")),
        Question("does the tunnel start later with a 3 x 3 stem than with one of 7 x 7 and stride 2?",
                 by_bar(higher, {"stem": "3x3"}, than={"stem": "7x7/2"}), **by_network("pool", "probe")),
    ),
    figures=(
        over_depth("probe", colour="pool", panel=("network", "stem", "probe")),
        *(over_setting(start, "pool", "probe", ("network", "stem"), up="layer", title=f"Tunnel start by {name}")
          for name, start in BARS.items()),
    ),
)  # fmt: skip
