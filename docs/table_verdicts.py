"""The tables of claims: every one with its verdict, and how many of each recipe hold."""

from collections import Counter
from dataclasses import astuple
from pathlib import Path

from table_text import table

from winze import lab
from winze.lab.lines import lines
from winze.lab.results import stale
from winze.lab.verdicts import WORDS


def verdicts(results: Path) -> str:
    """One section a recipe: every claim with the paper's number, ours, and what it rests on."""
    head = ["claim", "paper", "ours", "n", "scale", "machine", "date", "seconds", "verdict", "departure"]
    parts = []
    for name, recipe in lab.recipes().items():
        told = [f"## `{name}`: {recipe.shows}\n", f"{recipe.system}. [{recipe.paper}]({recipe.url})\n"]
        told.append(table(head, map(astuple, lines(recipe, results))))
        if recipe.departures:
            told.append("Departures of all scales: " + "; ".join(recipe.departures) + ".\n")
        told += [
            f"At scale {scale}: {'; '.join(one.departures)}.\n"
            for scale, one in recipe.scales.items()
            if one.departures
        ]
        old = stale(recipe, results)
        if old:
            told.append(f"{len(old)} runs of earlier settings are kept and not counted here.\n")
        parts.append("\n".join(told))
    return "\n" + "\n".join(parts) + "\n"


def tallies(results: Path) -> str:
    """One line a recipe: what it shows, and how many of its claims hold here."""
    rows = []
    for name, recipe in lab.recipes().items():
        words = Counter(one.word for one in lines(recipe, results))
        rows.append([f"`{name}`", f"[{recipe.shows}]({recipe.url})", *(words[word] for word in WORDS)])
    return table(["recipe", "what it shows", *WORDS], rows)
