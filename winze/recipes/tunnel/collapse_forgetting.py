"""Beyond the thesis: do networks whose tunnel has collapsed further forget more?

    winze run tunnel/collapse_forgetting --scale cpu    # VGG-19 with an eighth of the channels on digits
    winze run tunnel/collapse_forgetting --scale gpu    # VGG-19 on CIFAR-10, 3 points x 3 seeds

Task 1 is trained at different learning rates, each until the same training loss is reached, so that networks differ in
the rank of their last hidden layer and not in how well they fit. Task 2 is the same for all.
"""

from winze.lab import Axis, Question, Recipe, Scale, Whole, alike, at_most, higher, lower
from winze.recipes.tunnel import _continual as two
from winze.recipes.tunnel._settings import FAST
from winze.report.experiment import over_setting
from winze.train import Epochs

LOW, HIGH = {"rate": 0.01}, {"rate": 0.1}
rank = Whole("last_rank").named("rank of the last hidden layer after task 1")
loss = Whole("train_loss").named("training loss after task 1")


round_ = {"training.length": Epochs(2), "training.evaluate": Epochs(2)}
recipe = Recipe(
    "tunnel/collapse_forgetting",
    **two.about(
        two.learn_matched,
        "task 1 is trained in rounds of 2 epochs with a new optimizer each, until the loss is reached",
        study=two.Matched(**two.parts),
        measures=(*two.STORED, "last_rank", "train_loss", "rounds"),
    ),
    shows="whether networks of lower rank forget more at the same training loss",
    axes={"rate": Axis("training.optimizer.lr", (0.01, 0.03, 0.1), default=0.03)},
    scales={
        "smoke": Scale({**two.smoke, "loss": 1.5, "rounds": 2}, departures=(two.SMOKE,)),
        "cpu": Scale({**two.digits, **round_, "rounds": 15}, seeds=5, departures=(two.DIGITS,)),
        "gpu": Scale({**FAST, **round_}, seeds=3, departures=("bf16",)),
        "paper": Scale(round_, seeds=3),
    },
    questions=(
        Question(
            "control: is the rank of the last hidden layer lower at a learning rate of 0.1 than at 0.01?",
            lower(rank, HIGH, than=LOW),
        ),
        Question(
            "do networks trained at 0.1 forget more than those trained at 0.01?", higher(two.forgetting, HIGH, than=LOW)
        ),
        Question(
            "control: do networks of every learning rate reach the training loss (0.05 or less)?",
            at_most(loss, 0.05),
            each="rate",
        ),
        Question(
            "control: are networks of both learning rates as accurate on task 1 (within 2 points)?",
            alike(two.learned[1], HIGH, to=LOW, within=0.02),
        ),
    ),
    figures=(
        over_setting(two.forgetting, x="rate", log=True, up="forgetting of task 1"),
        over_setting(rank, x="rate", log=True, up="rank after task 1"),
    ),
)
