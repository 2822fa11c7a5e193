"""Beyond the thesis: a lower learning rate for the tunnel, other rules for shortcuts, and a small ViT.

    winze run tunnel/rules --scale cpu    # small networks on digits, 6 run-minutes
    winze run tunnel/rules --scale gpu    # VGG-19, ResNet-34 and a ViT on CIFAR-10, two learning rates, 3 seeds

The thesis leaves open whether learning rates per layer would cure the tunnel, and whether networks other than MLPs,
VGGs and ResNets have one. `slow_tunnel` trains the layers behind the eighth at a tenth of the learning rate. The ViT is
timm's ViT-Tiny on patches of 4 x 4, read after every block at its class token.
"""

from dataclasses import replace

from winze.lab import Axis, Question, Recipe, at_most, higher, lower, not_below, several
from winze.readings import Point
from winze.recipes.tunnel import _settings as use
from winze.recipes.tunnel._quantities import FINAL_RANK, OOD_LOST, START_SHARE
from winze.report.experiment import over_depth, tunnel_starts
from winze.shape import DecayedIdentity, ResidualDropPath
from winze.train import Epochs

NETWORKS = use.networks("vgg19", "resnet34") | {
    "resnet18": {**use.resnet, "network.options.stem_stride": 1},
    "vit": {
        "network.name": "vit_tiny_patch16_224",
        "network.options": {"img_size": 32, "patch_size": 4},
        "reading.places": "blocks",
        "training": use.VIT,
    },
}
RULES = {"residual_droppath": ResidualDropPath(), "decayed": DecayedIdentity(0.6)}
OF = {"vgg": ("standard", "slow_tunnel"), "res": ("standard", "residual_droppath", "decayed"), "vit": ("standard",)}
SLOW = {"rule": "slow_tunnel"}, {"training.optimizer.rates": tuple((glob, 0.1) for glob in use.TUNNEL)}
PATCHES = {"img_size": 8, "patch_size": 2, "in_chans": 1, "embed_dim": 48, "depth": 6, "num_heads": 3}
TOKEN = {"network": "vit"}, {"reading.pool": "token"}
STANDARD, each = {"rule": "standard"}, ("network", "rule", "rate")
EFFECTS = {
    "earlier start": lower("tunnel_start", than=STANDARD),
    "less OOD accuracy lost": lower(OOD_LOST, than=STANDARD),
    "higher final rank": higher(FINAL_RANK, than=STANDARD),
    "same accuracy": not_below("accuracy", than=STANDARD, margin=0.01),
}
large = {"network": ("vgg19", "resnet34", "vit")}


def runs(point: Point) -> bool:
    """The rules of each network, at learning rates of its own."""
    return point["rule"] in OF[str(point["network"])[:3]] and use.rate_of_its_own(point)


cpu = use.on_digits(
    {},
    "an eighth of the channels; a ViT of 6 blocks, 48 wide, on patches of 2 x 2, 60 epochs; the others",
    axes={"network": ("vgg19", "resnet18", "vit"), "rate": (0.1, 0.001)},
    only=runs,
    at=(
        *(({"network": one}, {"network.name": f"winze/{one}x0.125"}) for one in ("vgg19", "resnet18")),
        ({"rate": 0.1}, {"training": use.CONVOLUTIONS}),
        ({"network": "vit"}, {"network.options": PATCHES, "training": replace(use.VIT, length=Epochs(60), augment=())}),
        *(TOKEN, SLOW),
    ),
)
recipe = Recipe(
    "tunnel/rules",
    **use.scanned(departures=("layers of a ViT are its patch embedding, four per block, and the output",)),
    shows="whether slower layers, other shortcuts or attention change the tunnel",
    study=use.study,
    axes={
        "network": Axis("", NETWORKS),
        "rule": Axis("network.rule", {"standard": None, "slow_tunnel": None} | RULES),
        "rate": Axis("training.optimizer.lr", (0.03, 0.1, 0.001)),
    },
    scales=use.scales(
        cpu,
        use.on_gpu(
            {},
            "16 epochs of VGG and ResNet, 24 of the ViT, in bf16",
            axes=large,
            only=runs,
            at=(
                *use.at_rates({"network": "vgg19"}, use.VGG, 16),
                *use.at_rates({"network": "resnet34"}, use.RESNET, 16),
                ({"network": "resnet34"}, {"reading.pool": use.POOLED}),
                ({"network": "vit"}, {"training": replace(use.VIT, length=Epochs(24), precision="bf16-mixed")}),
                *(TOKEN, SLOW),
            ),
        ),
        use.as_published(axes=large | {"rate": (0.1, 0.001)}, only=runs, at=(TOKEN, SLOW)),
    ),
    questions=(
        Question(
            "does the tunnel start within the first three quarters of the layers?",
            at_most(START_SHARE, 0.75),
            each=("network", "rate"),
        ),
        Question(
            "does a slow tunnel, ResidualDroppath or a decayed shortcut make the tunnel start earlier, lose less OOD "
            "accuracy, end at a higher rank, and keep the accuracy (margin 1 point)?",
            several("effect", EFFECTS),
            each=each,
            departure=f"{use.OWN_BAR}; {use.FEW_IMAGES}",
        ),
    ),
    figures=(tunnel_starts(each, within=0.75), over_depth("probe", colour="rule", panel=("network", "rate"), ood=True)),
)
