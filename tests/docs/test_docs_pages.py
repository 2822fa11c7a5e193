"""The pages tell the truth: their tables match results/, and their code runs."""

import ast
import doctest
import importlib
import json
import re
import textwrap
from pathlib import Path

import pytest
from scripts import script

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)(`{3,}|~{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)


tables, figures = script("tables"), script("figures")

PAGES = {str(page.relative_to(ROOT)): page.read_text() for page in tables.pages()}


def python_blocks(page: str) -> list[tuple[int, str, str]]:
    """Line, fence label and code of every Python block of a page."""
    return [
        (page[: block.start(4)].count("\n"), block[3].strip(), textwrap.dedent(block[4]))
        for block in FENCE.finditer(page)
        if block[3].strip().lower().startswith("py")
    ]


def modules_with_examples() -> list[str]:
    files = [file for file in sorted(ROOT.glob("winze/**/*.py")) if ">>> " in file.read_text()]
    return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]


@pytest.mark.parametrize("name", PAGES)
def test_tables_are_up_to_date(name):
    assert tables.refresh(PAGES[name], ROOT / "results") == PAGES[name], "run `make pages`"


def test_figures_are_up_to_date(tmp_path):
    """Shapes may move with matplotlib's version; the numbers that the lines go through come from results/."""
    for new in figures.draw(tmp_path):
        old = ROOT / "docs" / "figures" / new.name
        assert words(old.read_text()) == words(new.read_text()), "run `make pages`"
    drawn = (ROOT / "docs" / "figures").glob("*.svg")  # screenshots are PNG
    assert {path.name for path in drawn} == {path.name for path in tmp_path.iterdir()}


def words(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if python_blocks(page)])
def test_code_of_a_page_runs(name, tmp_path, monkeypatch, request):
    if any(data in code for _, _, code in python_blocks(PAGES[name]) for data in ("cifar10", "imagenet")):
        request.getfixturevalue("real_data")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for line, label, code in python_blocks(PAGES[name]):
        if named := re.fullmatch(r'python title="(\w+\.py)"', label):
            Path(named[1]).write_text(code)
            continue
        assert label == "python", f"{name}, line {line}: every Python block is run, so its label is just `python`"
        # the empty lines make a traceback point at the line of the page
        exec(compile("\n" * line + code, str(ROOT / name), "exec"), namespace)


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_run(name):
    # doctest's own search passes over functions that the type checker has wrapped, so the docstrings are read as text
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text, label = ast.get_docstring(node) or "", getattr(node, "name", name)
            runner.run(doctest.DocTestParser().get_doctest(text, dict(vars(module)), label, module.__file__, 0))
    assert runner.summarize(verbose=False).failed == 0


TIMES = {"ratio": 0.5, "low": 0.4, "high": 0.6}
RESULTS = {
    "cut": {
        "machine": {"gpu": "H200"},
        "rows": [
            {"network": "a", "device": "cpu", "start": 8, "places": 19, "accuracy": 0.9, "accuracy_cut": 0.88}
            | {"parameters": 0.11, "flops": 0.6, "best_for_other": 5, "other": 0.7, "other_last": 0.4}
            | {"time_1": TIMES, "time_256": TIMES},
        ],
    },
    "scan": {
        "machine": {"gpu": "H200"},
        "rows": [
            {"tool": "winze: CKA", "device": "cpu", "ratio": 1.1, "low": 1.0, "high": 1.2, "pairs": 10, "images": 1024}
            | {"places": 20, "extra_mb": 1.0, "error": 1e-15, "error_offset": None, "how": "a | b", "note": ""}
            | {"beside": None},
            {"tool": "peer", "version": "1.0", "device": "cpu", "ratio": 1.4, "low": 1.3, "high": 1.5, "pairs": 5}
            | {
                "images": 512,
                "places": 20,
                "extra_mb": 200.0,
                "extra_low": -8.0,
                "extra_high": 210.4,
                "error": 1e-2,
                "error_offset": None,
                "how": "",
                "note": "",
            }
            | {"beside": {"ratio": 1.1, "low": 0.9, "high": 1.2, "pairs": 24}},
        ],
    },
    "reach": {
        "machine": "2 cores",
        "versions": {"torch": "2.11"},
        "rows": [
            {"source": "timm", "family": "resnet", "network": "resnet18", "junctions": 8, "expected": 8}
            | {
                "identical": True,
                "seconds": 0.31,
                "rules": {"Standard": "ok", "Highway": "ok"},
                "export": "ok",
                "scan": "ok",
                "truncate": "ok",
                "reason": "",
            },
            {"source": "timm", "family": "hrnet", "network": "hrnet_w18", "junctions": 0, "expected": None}
            | {
                "identical": None,
                "seconds": 1.0,
                "rules": {"Standard": "ok", "Highway": "a | b"},
                "reason": "two\nlines",
            },
        ],
    },
    "junctions": {
        "machine": {"gpu": "H200"},
        "rows": [
            {"network": "vit", "device": "cpu", "ratio": 1.0123, "low": 1.0, "high": 1.02, "capture_seconds": 0.4},
        ],
    },
    "train": {
        "machine": {"gpu": "H200"},
        "rows": [
            {"network": "resnet50", "device": "H200", "how": "captured | packed", "processes": 6, "ratio": 7.4}
            | {"images_per_second": 33970},
            {"network": "mlp", "device": "cpu", "how": "plain", "processes": 1, "ratio": 1.02, "low": 1.0, "high": 1.1},
        ],
    },
    "residual_droppath": {
        "machine": {"gpu": "H200"},
        "rows": [
            {"network": "vit", "way": "count", "how": "eager", "batch": 256, "ratio": 0.7, "low": 0.6, "high": 0.8}
            | {"stage1": 0.9, "stage2": 0.5, "memory_plain": 16.0, "memory_stage1": 15.0, "memory_stage2": 3.0},
            {"network": "vit", "way": "standard", "how": "captured", "batch": 256, "ratio": 0.7},
        ],
    },
    "generative": {
        "machine": {"gpu": "H200"},
        "rows": [{"network": "mae", "device": "cuda", "how": "plain", "images_per_second": 100.0, "ratio": 1.0}],
    },
    "meta": {
        "machine": {"gpu": "H200"},
        "rows": [
            {"device": "cpu", "steps": 25, "segment": segment, "megabytes": 9.0, "predicted": 8.0, "seconds": 1.0}
            for segment in (0, 5)
        ],
    },
    "scan_networks": {
        "machine": {"gpu": "H200"},
        "rows": [
            {"row": "vit at 224, CKA, 9 images", "device": "cuda", "ratio": 1.2, "pairs": 1, "seconds": 0.5}
            | {"low": 1.1, "high": 1.3, "extra_mb": 9.0},
            {"row": "vit at 224, from the shell, 9 images", "device": "cuda", "seconds": 0.5, "less_15_s": 1.5},
        ],
    },
    "spiral": {
        "machine": {"gpu": "H200"},
        "rows": [
            {"network": "mlp, ours", "device": "cpu", "networks": 10, "steps": 16, "ratio": 0.2}
            | {"low": 0.1, "high": 0.25, "seconds": 1.5},
        ],
    },
}


@pytest.fixture
def results(tmp_path):
    for stem, result in RESULTS.items():
        (tmp_path / f"{stem}.json").write_text(json.dumps(result))
    return tmp_path


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_has_one_heading_for_each_column_and_is_stable(name, results):
    page = f"before\n<!-- table:{name} -->\nold\n<!-- /table -->\nafter\n"
    filled = tables.refresh(page, results)
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in filled.splitlines() if line.startswith("|")}
    assert len(bars) == 1
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    assert "old" not in filled
    assert tables.refresh(filled, results) == filled


def test_the_reach_table_names_the_rules_that_fail(results):
    filled = tables.refresh("<!-- table:reach -->\n<!-- /table -->", results)
    assert "| `resnet18` | resnet | timm | 8 | 8 | yes | 2 of 2 | ok | ok | ok | 0.3 | before 2026-11-18 |  |" in filled
    failing = "| `hrnet_w18` | hrnet | timm | 0 | - | - | 1 of 2, not Highway | - | - | - | 1.0 | before 2026-11-18 |"
    assert f"{failing} two lines |" in filled
    assert "2 cores; torch 2.11" in filled


def test_the_sources_table_counts_what_passes(results):
    filled = tables.refresh("<!-- table:reach.sources -->\n<!-- /table -->", results)
    assert "| timm | 2 | 2 | 1 | 1 of 1 known | 1 | 1 | 1 | 1 | 1 |" in filled


def test_a_table_without_results_is_left_as_it_is(tmp_path):
    page = "<!-- table:reach -->\nold\n<!-- /table -->"
    assert tables.refresh(page, tmp_path) == page


def test_an_unknown_table_raises_with_the_known_names(results):
    with pytest.raises(ValueError, match=r"'speed'; there are reach"):
        tables.refresh("<!-- table:speed -->\n<!-- /table -->", results)


def test_a_peer_is_told_with_its_time_beside_winze(results):
    said = tables.refresh("<!-- table:scan -->\n<!-- /table -->", results)
    assert "| peer 1.0 | cpu | 1.40 [1.30-1.50] | 1.10 [0.90-1.20], 24 pairs | 200 MB [-8 to 210] |" in said
    assert "| winze: CKA | cpu | 1.10 [1.00-1.20] | - | 1 MB |" in said


def test_a_cut_is_told_with_its_time_and_what_other_data_gain(results):
    said = tables.refresh("<!-- table:cut -->\n<!-- /table -->", results)
    time = "0.50 [0.40-0.60] x"
    assert f"| `a` | cpu | 8 of 19 | 90.0 % | 88.0 % | 11 % | 60 % | {time} | {time} | 5 of 19 | +30 points |" in said


def test_a_table_that_is_not_closed_raises(results):
    with pytest.raises(ValueError, match="not closed"):
        tables.refresh("<!-- table:reach -->\n<!-- table:junctions -->\n<!-- /table -->", results)


def test_blocks_are_found_with_their_label_and_line():
    page = "text\n```python\na = 1\n```\n```bash\nls\n```\n- list\n  ```python notest\n  b = 2\n  ```\n"
    assert python_blocks(page) == [(2, "python", "a = 1\n"), (9, "python notest", "b = 2\n")]
