"""Do synthetic data help learners that they were not trained for? Beyond arXiv 2004.14046.

    winze run synthetic/other_learners --scale cpu             # after synthetic/meta: its meta-training is shared
    winze run synthetic/other_learners --scale gpu --jobs 3    # MNIST, on an H200

The generator of synthetic/meta, and learners of another width, depth or kind (CNN against MLP) at the end.
"""

from winze.lab import Axis, Question, Recipe, Whole, higher, lower
from winze.recipes.synthetic import _meta as use
from winze.recipes.synthetic._meta import REAL, SEEN, SYNTHETIC
from winze.report.experiment import over_setting

others = "the learners at the end differ from the one in meta-training; its rates are kept"
recipe = Recipe(
    "synthetic/other_learners",
    **use.ABOUT | {"departures": (*use.DEPARTURES, others)},
    paper=f"beyond {use.PAPER}",
    shows="whether synthetic data help learners that they were not trained for",
    axes={
        "learner": Axis("tested", ("same", "narrower", "wider", "deeper", "other kind")),
        "source": Axis("source", ("synthetic", "real")),
    },
    questions=(
        Question(
            "are synthetic data better than real data for this learner?",
            higher("final_accuracy", SYNTHETIC, than=REAL),
            each="learner",
        ),
        Question(
            "do synthetic data help another learner less than their own?",
            lower("final_accuracy", than={"learner": "same"}),
            at=SYNTHETIC,
            each="learner",
        ),
    ),
    figures=(
        over_setting("final_accuracy", x="learner", line="source"),
        use.over(SEEN, "Accuracy after each task by learner", "tasks learned", panel="learner"),
    ),
    quantities={name: Whole(name) for name in ("final_accuracy", "first_accuracy")},
    measures=("final_accuracy", "final_deviation", "first_accuracy", SEEN, "learner_*"),
)
