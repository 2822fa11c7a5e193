"""Features of one task for tasks that were never seen (arXiv 2109.01844, tables 3.3.1 and 3.3.2).

    winze run generative/transfer --scale small           # splitMNIST, minutes on one core
    winze run generative/transfer --scale gpu --jobs 4    # three data sets, 5 seeds, on an H200

The network learns task 1 alone. Softmax regression on its features then learns each of the five two-way tasks, and all
ten classes at once.
"""

from __future__ import annotations

from winze.lab import Claim, Question, Recipe, higher, level
from winze.lab.claims.quantities import Whole
from winze.recipes.generative import _split as use
from winze.recipes.generative._split import AE, VAE, D
from winze.report.experiment import over_setting

NUMBERS = ("two_way_accuracy", "ten_way_accuracy", "unseen_accuracy", "two_way_deviation")
SETS, MODELS = ("mnist", "fashion_mnist", "cifar10"), ("discriminative", "autoencoder", "vae")
TWO_WAY = ((0.768, 0.743, 0.692), (0.968, 0.921, 0.805), (0.889, 0.942, 0.789))
TEN_WAY = ((0.314, 0.360, 0.233), (0.829, 0.746, 0.444), (0.586, 0.611, 0.374))
two_way, ten_way = (
    {(data, model): row[spot] for model, row in zip(MODELS, table, strict=True) for spot, data in enumerate(SETS)}
    for table in (TWO_WAY, TEN_WAY)
)


def gains(table: dict[tuple[str, str], float], model: str, over: str) -> dict[str, str]:
    """The published differences in points, by data set."""
    return {data: f"{100 * (table[data, model] - table[data, over]):+.1f} points" for data in SETS}


def claim(model: str, over: str, table: str, said: str) -> Claim:
    """A model's features serve better than another's, on every data set."""
    numbers, published = ("two_way_accuracy", two_way) if table == "3.3.1" else ("ten_way_accuracy", ten_way)
    check = higher(numbers, {"model": model}, than={"model": over})
    return Claim(said, f"table {table}", check, each="data", paper=gains(published, model, over))


recipe = Recipe(
    "generative/transfer",
    **use.about("tables 3.3.1 and 3.3.2", use.transfer),
    shows="features of autoencoders and VAEs transfer better to unseen tasks than those of classifiers",
    scales=use.scales(),
    claims=(
        claim(*MODELS[1::-1], "3.3.1", "two-way tasks: an autoencoder of task 1 transfers better than a classifier"),
        claim("vae", MODELS[0], "3.3.1", "two-way tasks: a VAE of task 1 transfers better than a classifier"),
        claim(*MODELS[1::-1], "3.3.2", "all ten classes: an autoencoder of task 1 transfers better than a classifier"),
        claim("vae", MODELS[0], "3.3.2", "all ten classes: a VAE of task 1 transfers better than a classifier"),
        claim(*MODELS[1:], "3.3.2", "all ten classes: an autoencoder of task 1 transfers better than a VAE"),
    ),
    questions=(
        Question(
            "is the ten-way accuracy within 5 points of table 3.3.2?",
            level("ten_way_accuracy", ten_way, within=0.05),
            each=("data", "model"),
        ),
        Question(
            "do unseen tasks alone show the gain of an autoencoder?", higher("unseen_accuracy", AE, than=D), each="data"
        ),
        Question("do unseen tasks alone show the gain of a VAE?", higher("unseen_accuracy", VAE, than=D), each="data"),
    ),
    quantities={name: Whole(name) for name in NUMBERS},
    figures=(
        over_setting("two_way_accuracy", x="model", panel="data", paper={(m, d): v for (d, m), v in two_way.items()}),
        over_setting("ten_way_accuracy", x="model", panel="data", paper={(m, d): v for (d, m), v in ten_way.items()}),
    ),
    departures=(*use.DEPARTURES, "softmax regression with 200 iterations from zeros"),
    measures=(*NUMBERS, "two_way"),
    learned=("two_way_accuracy", 0.55),
)
