"""A diffusion transformer whose shortcuts fade with depth (Zhang et al., 2024, arXiv 2404.10947, table 4).

    winze run decayed/diffusion --scale cpu             # digits, 4 points x 3 seeds, minutes on one core
    winze run decayed/diffusion --scale gpu --jobs 4    # CIFAR-10, 8 points x 3 seeds, 20,000 steps on an H200

The best linear probe over blocks and noise levels, and the quality of images, against alpha_min. Image quality is a
Fréchet distance in features of a CIFAR-10 classifier that comes with winze: no FID, and not comparable with one. `fid`
is read besides where Inception's weights are present (`winze.networks.inception` says where it looks).
"""

from functools import partial

from winze.data import Flip
from winze.lab import Axis, Claim, Data, Network, Question, Reading, Recipe, Scale, Whole, higher, lower
from winze.recipes.decayed._diffusion import BestProbe, Diffusion, sheets, work
from winze.recipes.decayed._mae import PAPER, URL
from winze.report.experiment import of_scans, over_depth, over_setting, profiles
from winze.report.scan.cka_map import cka_map
from winze.shape import DecayedIdentity
from winze.train import AdamW, Constant, Steps, Training
from winze.train.objectives.denoise import Denoise

frechet, guided = (
    Whole(one).named(name)
    for one, name in {"frechet": "Fréchet distance", "frechet_guided": "Fréchet distance with guidance"}.items()
)
best, PLAIN = BestProbe().named("best probe accuracy over blocks and times"), {"alpha": 1.0}
study = Diffusion(
    Network("winze/uvit_s2", {"zero_init": True}, rule=DecayedIdentity(0.7)),
    Data("cifar10", size=32, normalise="half"),
    Training(
        Steps(500_000),
        batch=128,
        optimizer=AdamW(2e-4, betas=(0.99, 0.999), weight_decay=0.03),
        schedule=Constant(warmup=Steps(2500)),
        objective=Denoise(),
        augment=(Flip(),),
        precision="bf16-mixed",
        ema=0.9999,
        drop_last=True,
        evaluate=Steps(5000),
        checkpoint=Steps(5000),
    ),
    Reading("blocks", ("probe", "rank", "cka")),
)
digits = {
    "network.name": "winze/uvit4x48",
    "network.options": {"zero_init": True, "heads": 2},
    "data": Data("digits", normalise="half"),
    "training.length": Steps(400),
    "training.batch": 64,
    "training.optimizer.lr": 1e-3,
    "training.schedule": Constant(warmup=Steps(50)),
    "training.augment": (),
    "training.precision": "32-true",
    "training.ema": 0.99,
    "training.evaluate": Steps(100),
    "training.checkpoint": Steps(400),
    "times": (0.01, 0.1, 0.3),
    "images": 500,
    "features": "",
}
smoke = digits | {"data": Data("digits", normalise="half", limit=128), "training.length": Steps(4), "images": 64}
smoke |= {"training.schedule": Constant(), "times": (0.01, 0.1), "steps": 3}
tiny = {
    "network.name": "winze/uvit_tiny",
    "training.length": Steps(20_000),
    "training.batch": 256,
    "training.ema": 0.999,
}

LABELS = {"none": {}, "classes": {"network.options.labels": 10, "training.objective": Denoise(labels=True)}}
claim = partial(Claim, each="alpha", at={"labels": "none"})

recipe = Recipe(
    "decayed/diffusion",
    system="S3",
    paper=f"{PAPER}, table 4",
    url=URL,
    shows="decayed shortcuts raise a diffusion model's probe accuracy and lower the Fréchet distance of its images",
    study=study,
    axes={"labels": Axis("", LABELS), "alpha": Axis("network.rule.alpha_min", (1.0, 0.8, 0.7, 0.6))},
    scales={
        "smoke": Scale(smoke, axes={"alpha": (1.0, 0.7)}, departures=("digits of 8 x 8, 4 steps on 128 images",)),
        "cpu": Scale(digits, axes={"alpha": (1.0, 0.7)}, seeds=3, departures=("digits of 8 x 8, U-ViT of 4 x 48",)),
        "gpu": Scale(tiny, seeds=3, departures=("a U-ViT of 8 x 256, 20,000 steps with batches of 256",)),
        "paper": Scale({"images": 50_000}, seeds=3),
    },
    work=work,
    claims=(
        claim(
            "decayed shortcuts raise the best linear-probe accuracy of a diffusion model",
            "table 4, CIFAR-100: 62.5 to 66.9 at 0.7",
            higher(best, than=PLAIN),
            paper={0.8: "+1.11 points", 0.7: "+4.39 points", 0.6: "+2.16 points"},
        ),
        claim(
            "decayed shortcuts lower the Fréchet distance of a diffusion model's images",
            "table 4, CIFAR-100: FID 14.3 to 9.0 at 0.7",
            lower(frechet, than=PLAIN),
            paper={0.8: "-2.69", 0.7: "-5.35", 0.6: "-2.63"},
        ),
        claim(
            "decayed shortcuts lower the Fréchet distance of a class-conditional diffusion model's images",
            "table 4, ImageNet-100: FID 6.93 to 4.98 at 0.6",
            lower(frechet, than=PLAIN),
            at={"labels": "classes"},
            paper={0.8: "-1.18", 0.7: "-1.82", 0.6: "-1.95"},
        ),
    ),
    questions=(
        Question(
            "do decayed shortcuts lower the Fréchet distance of images drawn with guidance?",
            lower(guided, than=PLAIN),
            each="alpha",
            at={"labels": "classes"},
        ),
    ),
    quantities={"Fréchet distance": frechet, "Fréchet distance with guidance": guided},
    figures=(
        over_setting(best, x="alpha", line="labels"),
        over_setting(frechet, x="alpha", line="labels"),
        over_depth("probe", colour="alpha", panel="labels"),
        profiles(("labels", "alpha"), second="effective_rank"),
        of_scans("CKA between blocks", cka_map),
        sheets,
    ),
    departures=(
        "CIFAR-10 instead of CIFAR-100 and ImageNet-100",
        "image quality is a Fréchet distance of 5,000 images (paper scale: 50,000) to the training set, in features of "
        "winze/vgg19x0.25 (digits: in pixels)",
        "images are drawn by 50 network calls of DPM-Solver-3 instead of 1,000 Euler-Maruyama steps",
        "probes are ridge regressions on the mean of all tokens, with noise fixed by the position in the batch",
    ),
    measures=("probe*", "effective_rank*", "cka", "frechet*", "fid*", "noise_error", "loss", "epoch_steps", "images*"),
    learned=(best, 0.2),
)
