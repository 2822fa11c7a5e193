"""Features of one task for tasks that were never seen (arXiv 2109.01844, tables 3.3.1 and 3.3.2).

    winze run generative/transfer --scale small           # splitMNIST, minutes on one core
    winze run generative/transfer --scale gpu --jobs 4    # three data sets, 5 seeds, on an H200

The network learns task 1 alone. Softmax regression on its features then learns each of the five two-way tasks, and all
ten classes at once.
"""

from winze.lab import Claim, Question, Recipe, higher, level
from winze.recipes.generative import _split as use
from winze.recipes.generative._split import AE, VAE, D

NUMBERS = ("two_way_accuracy", "ten_way_accuracy", "unseen_accuracy", "two_way_deviation")
SETS = ("mnist", "fashion_mnist", "cifar10")
MODELS = {"discriminative": "a classifier", "autoencoder": "an autoencoder", "vae": "a VAE"}
TWO_WAY = ((0.768, 0.743, 0.692), (0.968, 0.921, 0.805), (0.889, 0.942, 0.789))  # table 3.3.1
TEN_WAY = ((0.314, 0.360, 0.233), (0.829, 0.746, 0.444), (0.586, 0.611, 0.374))  # table 3.3.2
two_way, ten_way = (
    {(data, model): row[spot] for model, row in zip(MODELS, table, strict=True) for spot, data in enumerate(SETS)}
    for table in (TWO_WAY, TEN_WAY)
)


def transfers(model: str, over: str, ten: bool) -> Claim:
    """A model's features serve better than another's, on every data set."""
    what, number, table = (
        ("all ten classes", "ten_way", ten_way) if ten else ("tasks of two classes", "two_way", two_way)
    )
    text = f"{MODELS[model]} of task 1 transfers better to {what} than {MODELS[over]}"
    check = higher(f"{number}_accuracy", {"model": model}, than={"model": over})
    gains = {data: f"{100 * (table[data, model] - table[data, over]):+.1f} points" for data in SETS}
    return Claim(
        text, f"table 3.3.{1 + ten}", check, each="data", paper=gains, headline=ten and over == "discriminative"
    )


recipe = Recipe(
    "generative/transfer",
    **use.about("tables 3.3.1 and 3.3.2", use.transfer, NUMBERS, "two_way")
    | {
        "departures": (*use.DEPARTURES, "softmax regression with 200 iterations from zeros"),
        "learned": ("two_way_accuracy", 0.55),
    },
    shows="features of autoencoders and VAEs transfer better to unseen tasks than those of classifiers",
    claims=(
        *(transfers(model, "discriminative", ten) for ten in (False, True) for model in use.GENERATIVE),
        transfers("autoencoder", "vae", ten=True),
    ),
    questions=(
        Question(
            "is the ten-way accuracy within 5 points of table 3.3.2?",
            level("ten_way_accuracy", ten_way, within=0.05),
            each=("data", "model"),
        ),
        *(
            Question(
                f"on unseen tasks alone, is {name} more accurate than a discriminative network?",
                higher("unseen_accuracy", one, than=D),
                each="data",
            )
            for name, one in {"an autoencoder": AE, "a VAE": VAE}.items()
        ),
    ),
    figures=tuple(
        use.by_model(f"{number}_accuracy", paper={(model, data): one for (data, model), one in table.items()})
        for number, table in {"two_way": two_way, "ten_way": ten_way}.items()
    ),
)
