"""The command line: one typed dataclass per verb, each with a `run`."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, Protocol, Union, runtime_checkable

import tyro

from winze.cli.compare import CompareVerb
from winze.cli.data import DataVerb
from winze.cli.demo import DemoVerb
from winze.cli.exit_codes import BAD_INPUT, DONE, INTERRUPTED, FailedError, is_bad_input, printable, said
from winze.cli.junctions import JunctionsVerb
from winze.cli.listing import ListVerb
from winze.cli.play import PlayVerb
from winze.cli.report import ReportVerb
from winze.cli.run import RunVerb
from winze.cli.runs import RunsVerb
from winze.cli.scan import ScanVerb
from winze.cli.truncate import TruncateVerb
from winze.hints import did_you_mean
from winze.interrupt import import_is_over

ABOUT = "Shape and measure what a neural network represents at every depth."


@runtime_checkable
class Verb(Protocol):
    """What a command is asked to do."""

    def run(self) -> None: ...


VERBS: dict[str, type[Verb]] = {
    "demo": DemoVerb,
    "scan": ScanVerb,
    "truncate": TruncateVerb,
    "compare": CompareVerb,
    "report": ReportVerb,
    "data": DataVerb,
    "junctions": JunctionsVerb,
    "list": ListVerb,
    "run": RunVerb,
    "runs": RunsVerb,
    "play": PlayVerb,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 something failed, 2 bad input, 130 interrupted."""
    import_is_over()
    words = list(sys.argv[1:] if argv is None else argv)
    usual_format, warnings.formatwarning = warnings.formatwarning, _warning
    try:
        verb = _parsed(words)
        if verb is not None:
            verb.run()
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        usual = "interrupted; nothing half-written was left behind, the same command starts again"
        return _said(INTERRUPTED, str(stop) or usual)
    except FailedError as failed:
        return _said(failed.code, str(failed))
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        return DONE
    except Exception as error:
        if not is_bad_input(error) or os.environ.get("WINZE_TRACEBACK"):
            raise
        return _said(BAD_INPUT, said(error))
    finally:
        warnings.formatwarning = usual_format
    return DONE


def _parsed(words: list[str]) -> Verb | None:
    """The command that the words spell; None where help was all that was asked for."""
    if not words or words[0] in ("-h", "--help", "help"):
        everything: Any = Union[tuple(_briefly(name, kind) for name, kind in VERBS.items())]  # noqa: UP007
        _cli(everything, ["--help"])
        return None
    if words[0] == "--version":
        from winze import __version__

        sys.stdout.write(f"winze {__version__}\n")
        return None
    kind = VERBS.get(words[0])
    if kind is None:
        hint = did_you_mean(words[0], VERBS) or f"; there are {', '.join(VERBS)}"
        raise ValueError(f"there is no command {words[0]!r}{hint}")
    return _cli(kind, words[1:], f"winze {words[0]}")


def _briefly(name: str, kind: type[Verb]) -> Any:
    """A command with the first paragraph of its help, for the list of all."""
    first = (kind.__doc__ or "").split("\n\n")[0]
    return Annotated[kind, tyro.conf.subcommand(name, description=" ".join(first.split()))]


def _cli(kind: Any, words: list[str], prog: str = "winze") -> Verb | None:
    """tyro's reading of the words; its boxed complaints become one line."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(kind, args=words, prog=prog, description=ABOUT if prog == "winze" else None)
    except SystemExit as left:
        if not left.code:
            return None
    raise ValueError(f"{_one_line(complaint.getvalue())} (see {prog} --help)")


def _one_line(boxed: str) -> str:
    """The first section of a box, framed in lines or in ASCII; of missing arguments only the names."""
    inside = [line.strip("│╭╰╮╯").rstrip() for line in boxed.splitlines()[1:]]
    said: list[str] = []
    for line in inside:
        is_rule = re.fullmatch(r"[─\-\s]+", line) is not None
        if (is_rule and said) or line.strip().startswith("Arguments are applied"):
            break
        if not is_rule:
            said.append(line)
    text = textwrap.dedent("\n".join(said)).splitlines()
    if text and text[0].startswith("Missing from"):
        text = [text[0], ", ".join(line.strip() for line in text[1:] if not line.startswith(" " * 8))]
    return _plainly(" ".join(" ".join(text).split()))


def _plainly(complaint: str) -> str:
    """What the parser says of a value, without its own types."""
    if found := re.match(r"Error parsing (\S+): .*?(?: from \[(.+?)\]|: ('[^']*')$)", complaint):
        return f"{found[1]} cannot be {found[2] or found[3]}"
    if found := re.match(r"invalid choice (.+) for argument '(.+?)'\. Expected one of \((.+)\)", complaint):
        names = ", ".join(sorted(set(re.findall(r"'([^']+)'", found[3])) - {"None"}))
        is_option = found[2].startswith("-")
        return f"{found[2]} is one of {names}, not {found[1]}" if is_option else f"{found[1]} is none of {names}"
    if found := re.match(r"Missing value for argument '(.+?)'", complaint):
        return f"{found[1]} needs a value"
    return complaint


def _warning(message: Warning | str, *_: object, **__: object) -> str:
    """A warning as one line, without the place in the code that it comes from."""
    return f"winze: {printable(str(message))}\n"


def _said(code: int, message: str) -> int:
    sys.stderr.write(f"winze: {printable(message)}\n")
    return code
