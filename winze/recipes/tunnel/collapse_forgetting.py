"""Beyond the thesis: do networks whose tunnel has collapsed further forget more?

    winze run tunnel/collapse_forgetting --scale cpu    # VGG-19 with an eighth of the channels on digits
    winze run tunnel/collapse_forgetting --scale gpu    # VGG-19 on CIFAR-10, 3 points x 3 seeds

Task 1 is trained at different learning rates, each until the same training loss is reached, so that networks differ in
the rank of their last hidden layer and not in how well they fit. Task 2 is the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from winze.lab import Axis, Bench, Continual, Question, Recipe, Scale
from winze.lab.claims import alike, at_most, higher, lower
from winze.lab.claims.quantities import Whole
from winze.recipes.tunnel import _continual as two
from winze.recipes.tunnel._matched import learn_matched
from winze.recipes.tunnel._settings import FAST, THESIS
from winze.report.experiment import over_setting
from winze.train import Epochs

LOW, HIGH = {"rate": 0.01}, {"rate": 0.1}
rank = Whole("last_rank").named("rank of the last hidden layer after task 1")
loss = Whole("train_loss").named("training loss after task 1")


@dataclass(frozen=True)
class Matched(Continual):
    """Two tasks; task 1 is trained in rounds until its training loss is below `loss`, task 2 at the rate `second`."""

    loss: float = 0.05
    rounds: int = 20
    second: float = 0.03


def work(study: Matched, bench: Bench) -> None:
    """Train task 1 to the loss, read the rank of its last hidden layer, train task 2, and store what was forgotten."""
    later = replace(study.training, optimizer=replace(study.training.optimizer, lr=study.second))
    learn_matched(study, bench, later, study.loss, study.rounds)


round_ = {"training.length": Epochs(2), "training.evaluate": Epochs(2)}
recipe = Recipe(
    "tunnel/collapse_forgetting",
    **THESIS,
    shows="whether networks of lower rank forget more at the same training loss",
    study=Matched(**two.parts),
    axes={"rate": Axis("training.optimizer.lr", (0.01, 0.03, 0.1), default=0.03)},
    scales={
        "smoke": Scale({**two.smoke, "loss": 1.5, "rounds": 2}, departures=(two.SMOKE,)),
        "cpu": Scale({**two.digits, **round_, "rounds": 15}, seeds=5, departures=(two.DIGITS,)),
        "gpu": Scale({**FAST, **round_}, seeds=3, departures=("bf16",)),
        "paper": Scale(round_, seeds=3),
    },
    work=work,
    questions=(
        Question(
            "control: is the rank of the last hidden layer lower at a learning rate of 0.1 than at 0.01?",
            lower(rank, HIGH, than=LOW),
        ),
        Question(
            "do networks trained at 0.1 forget more than those trained at 0.01?", higher(two.forgetting, HIGH, than=LOW)
        ),
        Question("control: do all reach the training loss (0.05 or less)?", at_most(loss, 0.05), each="rate"),
        Question(
            "control: are networks of both learning rates as accurate on task 1 (within 2 points)?",
            alike(two.learned[1], HIGH, to=LOW, within=0.02),
        ),
    ),
    figures=(
        over_setting(two.forgetting, x="rate", log=True, up="forgetting of task 1"),
        over_setting(rank, x="rate", log=True, up="rank after task 1"),
    ),
    departures=(
        *two.DEPARTURES,
        "task 1 is trained in rounds of 2 epochs with a new optimizer each, until the loss is reached",
    ),
    **two.stored | {"measures": (*two.stored["measures"], "last_rank", "train_loss", "rounds")},
)
