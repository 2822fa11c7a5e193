"""Do synthetic data help learners that they were not trained for? Beyond arXiv 2004.14046.

    winze run synthetic/other_learners --scale cpu             # after synthetic/meta: its meta-training is shared
    winze run synthetic/other_learners --scale gpu --jobs 3    # MNIST, on an H200

The generator of synthetic/meta, and learners of another width, depth or kind (CNN against MLP) at the end.
"""

from winze.lab import Axis, Question, Recipe, higher, lower
from winze.lab.claims.quantities import Whole
from winze.recipes.synthetic._meta import DEPARTURES, PAPER, SEEN, URL, over, scales, study, work
from winze.report.experiment import over_setting

SYNTHETIC, REAL = {"source": "synthetic"}, {"source": "real"}

recipe = Recipe(
    "synthetic/other_learners",
    system="S5",
    paper=f"beyond {PAPER}",
    url=URL,
    shows="whether synthetic data help learners that they were not trained for",
    study=study,
    axes={
        "learner": Axis("tested", ("same", "narrower", "wider", "deeper", "other kind")),
        "source": Axis("source", ("synthetic", "real")),
    },
    scales=scales,
    work=work,
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
    quantities={name: Whole(name) for name in ("final_accuracy", "first_accuracy")},
    figures=(
        over_setting("final_accuracy", x="learner", line="source"),
        over(SEEN, "Accuracy after each task by learner", "tasks learned", panel="learner"),
    ),
    departures=(*DEPARTURES, "the learners at the end differ from the one in meta-training; its rates are kept"),
    measures=("final_accuracy", "final_deviation", "first_accuracy", SEEN, "learner_*"),
    learned=("first_accuracy", 0.6),
)
