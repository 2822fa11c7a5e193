"""No path of the machine on which something was measured is part of the project."""

import json
import re
from pathlib import Path

import pytest

from winze.lab.runs.results import MACHINE

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"/(?:home|root|Users|work|mnt|tmp|data|opt|scratch|usr|var)/[\w.-]+")
TEXTS = [path for folder in ("results", "docs") for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (
    ".json", ".md", ".html", ".csv", ".svg", ".txt")]  # fmt: skip


def texts(value):
    """Every text in JSON; arrays are compressed bytes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            if key != "arrays":
                yield from texts(one)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_was_measured_names_no_path_of_a_machine(path):
    body = path.read_text(encoding="utf-8")
    parts = list(texts(json.loads(body))) if path.suffix == ".json" else [body]
    found = [match[0] for part in parts for match in OURS.finditer(part)]
    assert not found, found[:3]


@pytest.mark.parametrize(
    "text",
    ["looked for /root/data/set", "(/home/me/x.npz)", "see '/srv/runs/a/b'", "/work/main/results", "C:\\\\Users"],
)
def test_an_absolute_path_is_recognised(text):
    assert MACHINE.search(text)


@pytest.mark.parametrize(
    "text",
    ["train/test split", "https://arxiv.org/abs/2404.10947", "a/b/c", "1/2 of 3/4", "results/tunnel/ood.json", "/"],
)
def test_other_texts_are_no_absolute_path(text):
    assert not MACHINE.search(text)
