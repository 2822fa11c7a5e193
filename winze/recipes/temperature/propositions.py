"""The propositions behind chapter 6, P1 to P7, each put to many random matrices.

    winze run temperature/propositions --scale cpu    # seconds

`laws.py` has each of them with its equation; docs/temperature.md tells them in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from winze.lab import Claim, Recipe, Scale, holds
from winze.lab.bench import Bench
from winze.lab.quantities import Whole
from winze.recipes.temperature.laws import LAWS
from winze.recipes.temperature.laws_figure import propositions
from winze.train.seeds import generator

SAID = {
    "P1": "some matrix of rank 2 has a softmax of full rank",
    "P2": "the inner products of columns bound σ₁ − σₙ of a matrix of probabilities",
    "P3": "softmax of a scaled rank-1 matrix goes to rank 1 at high, and to at most 2 at low temperature",
    "P4": "a product is largest where the singular vectors of its factors are aligned",
    "P5": "of aligned layers the largest singular values multiply, so that logits grow exponentially with depth",
    "P6": "at high temperature the loss goes to ln n, and T times its gradient to 1/n − y",
    "P7": "cross-entropy learns no common shift of all logits, so that C − 1 directions are enough",
}


@dataclass(frozen=True)
class Trial:
    """One proposition and the number of random cases it is put to."""

    law: Literal["P1", "P2", "P3", "P4", "P5", "P6", "P7"] = "P1"
    cases: int = 3000


def work(trial: Trial, bench: Bench) -> None:
    """Put one proposition to its cases."""
    found = LAWS[trial.law](trial.cases, generator("cpu", bench.seed, trial.law))
    bench.readings.add(
        "holds", float(found.holds), n=trial.cases, note=f"the worst case has {found.slack:.1e} to spare"
    )
    bench.readings.arrays["law/x"] = found.x.float().numpy()
    for name, curve in found.curves.items():
        bench.readings.arrays[f"law/{name}"] = curve.float().numpy()


recipe = Recipe(
    name="temperature/propositions",
    system="S9",
    shows="what softmax and alignment can do to rank and norm: seven propositions, put to random matrices",
    paper="Unpacking Softmax: How Temperature Drives Representation Collapse; thesis, sections 6.2 to 6.4",
    url="https://arxiv.org/abs/2506.01562",
    arms={law: {"law": law} for law in LAWS},
    scales={
        "smoke": Scale(Trial(cases=50), seeds=(0,), departures=("50 cases",)),
        "cpu": Scale(Trial(), seeds=(0,)),
        "paper": Scale(Trial(cases=20_000), seeds=(0,)),
    },
    work=work,
    quantities={"holds": Whole("holds")},
    claims=tuple(Claim(f"{law}: {said}", holds("holds", law), paper="proved") for law, said in SAID.items()),
    departures=(
        "P3 counts singular values above a millionth of the largest; P1 uses PyTorch's own rank in float64",
        "P6 prints ln n where the thesis has ln(1/n), a slip of the sign",
        "P5 uses as many factors as there are layers, where the thesis has L and L − 1",
    ),
    measures=("*", "law/*"),
    figures={"Seven propositions": propositions},
)
