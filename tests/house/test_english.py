"""Words that must not come back: text that a person reads uses the field's own terms."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ONE = "sample|batch|run|network|layer|place|class|scan|step|seed|device|tool|paper|recipe|measure|epoch|feature|image"
COUNTED = "mask|line|row|column|dot|coin|curve|number|value|page|file|figure|verb|panel|bar|point"
WORDS = {
    "borne out": "supported, contradicted or inconclusive",
    r"not enough evidence": "inconclusive",
    r"pictures?": "image (a plot is a figure)",
    r"told": "reported, stored, logged",
    r"(?:is|are) right on": "reaches ... accuracy",
    r"(?:those who|whoever|nobody|somebody)": "a program is not a person: a worker, the process",
    r"other data": "out-of-distribution data, OOD accuracy",
    r"learnt": "trained on",
    r"of one make": "of one architecture",
    r"side by side, members": "ensemble",
    r"world's random": "global RNG state",
    r"loss that is lost": "diverged",
    r"pixel by pixel": "channels-last memory format",
    rf"(?:an?|one) (?:{COUNTED}) an? (?:{ONE})": "per: one line per run, a per-sample mask",
    r"(?:images|numbers|samples) a (?:second|sample|class)": "per: images per second",
    r"so it does": "a row that stands alone",
    r"puts? out": "a network outputs",
    r"not one (?:sample|image|batch)": "no samples",
    r"belongs? into": "belongs in",
    r"in vain": "without using the result",
    r"dotted upright": "dotted vertical line",
    r"no layer is of use": "none",
    r"side by side on one page": "compare ... on one page",
}
"""What is not written, as a regular expression, and what is written instead."""


def found(text: str) -> list[str]:
    """The words of a text that must not come back, with what to write."""
    return [
        f"{match[0]!r}: write {instead}"
        for word, instead in WORDS.items()
        for match in re.finditer(rf"\b{word}\b", text, re.IGNORECASE)
    ]


def prose(page: str) -> str:
    """A page without its code, and without the errors of networks that the tables of reach quote."""
    page = re.sub(r"(?s)<!-- table:reach.*?<!-- /table -->", "", page)
    return re.sub(r"`[^`\n]+`", "", re.sub(r"(?ms)^( *)```.*?^\1```", "", page))


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, messages, help texts and comments of a module: every string of more than one word."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, re.sub(r"</?picture>", "", node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def page_strings(source: str) -> Iterator[str]:
    """The strings of more than one word of a script, and the text of a page."""
    for one in re.findall(r'"[^"\n]*"|`[^`]*`|>[^<>\n]+<', source):
        text = re.sub(r"\$\{[^}]*\}", "", one[1:-1])
        if " " in text.strip():
            yield text


PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted(ROOT.glob("docs/**/*.md"))
ASSETS = sorted(path for path in ROOT.glob("winze/*/assets/*") if path.suffix in (".js", ".html"))
ROOMS = sorted(path for path in ROOT.joinpath("winze").iterdir() if path.is_dir() and path.name != "__pycache__")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_use_the_words_of_the_field(page):
    lines = enumerate(prose(page.read_text()).splitlines(), 1)
    assert not [f"line {number} of the prose: {said}" for number, line in lines for said in found(line)]


@pytest.mark.parametrize("room", [ROOT / "winze", *ROOMS], ids=lambda path: path.name)
def test_docstrings_messages_and_comments_use_the_words_of_the_field(room):
    modules = sorted(room.glob("*.py") if room.name == "winze" else room.rglob("*.py"))
    texts = [(module, *text) for module in modules for text in strings(module.read_text())]
    assert texts
    assert not [f"{module.relative_to(ROOT)}:{line}: {said}" for module, line, text in texts for said in found(text)]


@pytest.mark.parametrize("asset", ASSETS, ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_pages_in_the_browser_use_the_words_of_the_field(asset):
    assert not [said for text in page_strings(asset.read_text(encoding="utf-8")) for said in found(text)]


@pytest.mark.parametrize(
    "text",
    [
        "A mask a sample.",
        "one line a run",
        "the pictures",
        "It is TOLD.",
        "borne out",
        "34 images a second",
        "other data",
    ],
)
def test_the_list_catches_what_it_should(text):
    assert found(text)


@pytest.mark.parametrize("text", ["a per-sample mask", "one line per run", "a row at a time", "images", "on data"])
def test_the_list_lets_good_english_pass(text):
    assert not found(text)


def test_strings_of_a_script_are_found_without_its_code():
    script = 'const told = 1; say: () => "no other data", `${told} one line a run`'
    assert [said for text in page_strings(script) for said in found(text)] == [
        "'other data': write out-of-distribution data, OOD accuracy",
        "'one line a run': write per: one line per run, a per-sample mask",
    ]


def test_code_is_no_prose():
    assert found(prose("text `told` and\n```\npictures\n```\nmore")) == []
