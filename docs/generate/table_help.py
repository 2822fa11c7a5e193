"""The help texts of the commands, as they are printed on a terminal of 96 columns."""

import contextlib
import io
import os
import textwrap
from pathlib import Path
from unittest import mock

from winze.cli import VERBS, main

COLUMNS = "96"


def of(verb: str) -> str:
    """What `winze VERB --help` prints, as a code block."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # frames are drawn in lines where the encoding has them
    with mock.patch.dict(os.environ, COLUMNS=COLUMNS), contextlib.redirect_stdout(printed):
        main([verb, "--help"])
    printed.seek(0)
    lines = [part for line in printed.read().strip().splitlines() for part in _wrapped(line)]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _wrapped(line: str) -> list[str]:
    """A paragraph in lines of that width, as a terminal breaks it; frames have it already."""
    return textwrap.wrap(line, int(COLUMNS)) or [""]


def helps(_: Path) -> str:
    """The help of every command, one section each."""
    return "\n".join(f"## winze {verb}\n\n{of(verb)}" for verb in VERBS)
