"""The propositions behind chapter 6 of the thesis, P1 to P7, each tested on many random matrices.

    winze run temperature/propositions --scale paper    # a minute and a half

`_laws.py` has each of them with its equation.
"""

from dataclasses import dataclass
from typing import Literal

from winze.lab import Axis, Bench, Claim, Recipe, Scale, Whole, holds
from winze.recipes.temperature import _figures
from winze.recipes.temperature._laws import LAWS, ROUNDING
from winze.recipes.temperature._settings import ABOUT
from winze.train.seeds import generator


@dataclass(frozen=True)
class Trial:
    """One proposition and its number of random cases."""

    law: Literal["P1", "P2", "P3", "P4", "P5", "P6", "P7"] = "P1"
    cases: int = 3000


def work(trial: Trial, bench: Bench) -> None:
    """Test one proposition."""
    slack, x, curves = LAWS[trial.law](trial.cases, generator("cpu", bench.seed, trial.law))
    note = f"the worst case has {slack:.1e} to spare"
    bench.readings.add("holds", float(slack >= -ROUNDING), n=trial.cases, note=note)
    bench.readings.arrays |= {f"law/{name}": one.float().numpy() for name, one in {"x": x, **curves}.items()}


recipe = Recipe(
    "temperature/propositions",
    **ABOUT,
    shows="what softmax and alignment can do to rank and norm: seven propositions, tested on random matrices",
    study=Trial(),
    axes={"law": Axis("law", tuple(LAWS))},
    scales={"smoke": Scale({"cases": 50}), "cpu": Scale(), "paper": Scale({"cases": 20_000})},
    work=work,
    claims=(
        Claim(
            "propositions P1 to P7 hold in every random case",
            "sections 6.2 to 6.4",
            holds(Whole("holds")),
            each="law",
            paper={
                "P1": "some matrix of rank 2 has a softmax of full rank",
                "P2": "inner products of columns bound σ₁ - σₙ of a matrix of probabilities",
                "P3": "softmax of a rank-1 matrix goes to rank 1 at high T, and to 2 at most at low T",
                "P4": "a product is largest where the singular vectors of its factors are aligned",
                "P5": "largest singular values of aligned layers multiply: logits grow exponentially with depth",
                "P6": "at high T the loss goes to ln n, and T times its gradient to 1/n - y",
                "P7": "cross-entropy learns no common shift of all logits: C - 1 directions are enough",
            },
            scales=("paper",),
        ),
    ),
    figures=_figures.PROPOSITIONS,
    departures=(
        "P3 counts singular values above a millionth of the largest; P1 uses PyTorch's own rank in float64",
        "P6 has ln n where the thesis has ln(1/n), a slip of the sign; P5 has as many factors as layers, not L - 1",
    ),
    measures=("*", "law/*"),
)
