"""The tables of networks that learn at a temperature: all that was read, and the thesis's κ and ρ beside ours."""

from collections.abc import Iterator
from pathlib import Path

from table_kept import BESIDE, NONE, Cell, Seeds, beside, quantities, quantity, shown, spread
from table_text import table

from winze.recipes.temperature.settings import TEMPERATURES, arms_of
from winze.recipes.temperature.training import TABLE, recipe
from winze.report import facts

PERCENT = (
    "κ and ρ in percent; the thesis's ρ is that of SVHN (ImageNet: of CIFAR-100). It does not say whether its last "
    "layer is the last hidden one or the output. The second set is 10 classes of Tiny-ImageNet, for 10 of CIFAR-100."
)


def networks(results: Path) -> str:
    """One line a network and temperature that was run: κ and ρ beside the thesis's, accuracy, rank and tunnel."""
    head = ["network", "scale", "T", "seeds", "rate", "accuracy", "κ", "paper", "ρ", "with the output", "paper"]
    head += ["ρ of the second", "with the output", "rank, last hidden layer", "95 % at layer", "norm of the logits"]
    lines = []
    for scale, arms in shown(recipe, results).items():
        for network, (name, *_) in TABLE.items():
            for arm, heat, kappa, rho in (*_told(network), (f"{network}_norm", "norm", NONE, NONE)):
                runs = arms.get(arm)
                if not runs:
                    continue
                read = quantities(recipe, runs)
                lines.append(
                    [
                        *(name, scale, heat, len(runs)),
                        *(spread(read["rate"], 2), spread(read["accuracy"], 1, 100)),
                        *(spread(read["kappa"], 0, 100), kappa),
                        *(spread(read["rho"], 0, 100), spread(read["rho_at_the_output"], 0, 100), rho),
                        *_second(runs),
                        *(spread(read["rank_at_the_end"], 1), spread(read["tunnel_start"], 1)),
                        spread(read["logits_norm"], 1),
                    ]
                )
    return table(head, lines, PERCENT)


def shares(results: Path) -> str:
    """Tables 6.3.1 and 6.3.2: one line a network, temperature and scale, with κ and ρ."""
    cells = [
        Cell(arm, (TABLE[network][0], heat), (kappa, rho), _ours)
        for network in TABLE
        for arm, heat, kappa, rho in _told(network)
    ]
    head = ["network", "T", "κ: paper", "κ: ours", "ρ: paper", "ρ: ours", *BESIDE]
    return table(head, beside(recipe, results, cells), PERCENT)


def _told(network: str) -> Iterator[tuple[str, str, object, object]]:
    """A network's arms with their temperatures and what the thesis says of them."""
    _, kappas, rhos = TABLE[network]
    for arm, heat, kappa, rho in zip(arms_of(network), TEMPERATURES, kappas, rhos, strict=True):
        yield arm, f"{heat:g}", kappa, rho


def _ours(runs: Seeds) -> list[str]:
    """κ, with the number of seeds that diverged, and ρ without and with the output, with the data that it is of."""
    kappa, rho, output = (
        spread(quantity(recipe, runs, name), 0, 100) for name in ("kappa", "rho", "rho_at_the_output")
    )
    diverged = sum(value == 1 for value in quantity(recipe, runs, "diverged"))
    first, *more = _others(runs) or ("",)
    counted = f"{rho}, with the output {output}, on {first}" if first else rho
    if more:
        counted += "; {}, with the output {}, on {}".format(*_second(runs), more[-1])
    return [kappa + (f", {diverged} diverged" if diverged else ""), counted]


def _second(runs: Seeds) -> list[str]:
    """ρ of the second set of other data without and with the output."""
    if len(_others(runs)) < 2:
        return [NONE, NONE]
    names = ("rho_of_the_second", "rho_of_the_second_at_the_output")
    return [spread(quantity(recipe, runs, name), 0, 100) for name in names]


def _others(runs: Seeds) -> list[str]:
    return next((found for one in runs.values() if (found := facts.others(one.readings))), [])
