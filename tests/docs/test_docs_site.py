"""The docs site: it is built offline, fetches nothing, and leaves out pages that are not there."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from scripts import script

import winze

ROOT = Path(__file__).parents[2]
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "srcset", "object": "data"}


class Fetched(HTMLParser):
    """The addresses that a page loads by itself; links that a reader may follow are not among them."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "link" and known.get("rel") in ("canonical", "next", "prev"):
            return
        address = known.get(FETCHED.get(tag, ""))
        if address and re.match(r"(https?:)?//", address):
            self.found.append(f"{tag} {address}")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_loads_no_script_style_font_or_image_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        body = page.read_text(encoding="utf-8")
        assert Fetched(body).found == [], page.name
        assert "fonts.googleapis" not in body
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style.name


@pytest.mark.slow
def test_the_search_finds_a_rule_on_a_page_opened_as_a_file(site, tmp_path):
    playwright, chromium = pytest.importorskip("playwright.sync_api"), shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as p:
        context = p.chromium.launch_persistent_context(tmp_path, executable_path=chromium, args=["--no-sandbox"])
        page, said = context.new_page(), []
        page.on("console", lambda message: said.append(message.text))
        page.goto((site / "reference" / "measure.html").as_uri())
        page.locator(".md-search__input").click()
        page.locator(".md-search-result__meta", has_text="Type to start searching").wait_for()
        page.keyboard.type("DecayedIdentity", delay=20)
        page.locator(".md-search-result__link", has_text="Junctions and rules").first.wait_for()
        context.close()
    assert said == []


@pytest.mark.slow
def test_the_reference_is_made_of_docstrings(site):
    body = (site / "reference" / "scan.html").read_text(encoding="utf-8")
    assert "Read what a network represents at every depth" in body
    assert 'id="winze.observe.watch.Watch"' in body


@pytest.mark.slow
def test_every_page_is_in_the_navigation(site):
    start = (site / "index.html").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        assert page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() in start, page.name


def test_every_name_of_the_top_level_is_in_the_reference():
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    described = set(re.findall(r"^::: \S+\.(\w+)$", pages, re.MULTILINE))
    asked = {name for name in winze.__all__ if not isinstance(getattr(winze, name), ModuleType)}
    assert len(asked) > 20
    assert asked - described == set()


def test_addresses_that_a_page_fetches_are_found():
    assert Fetched('<script src="https://cdn.example/a.js"></script>').found == ["script https://cdn.example/a.js"]
    assert Fetched('<link rel="stylesheet" href="//fonts.example/b.css">').found == ["link //fonts.example/b.css"]
    assert Fetched('<a href="https://arxiv.org"></a><img src="figures/a.svg">').found == []


def test_pages_that_are_not_there_are_left_out_of_the_navigation(tmp_path):
    hooks = script("site_hooks")
    (tmp_path / "here.md").touch()
    asked = [{"A": "here.md"}, {"B": [{"C": "gone.md"}, {"D": "here.md"}]}, {"E": [{"F": "gone.md"}]}]
    assert hooks.pruned(asked, tmp_path) == [{"A": "here.md"}, {"B": [{"D": "here.md"}]}]


def test_pages_that_no_entry_names_are_added_to_the_navigation(tmp_path):
    hooks = script("site_hooks")
    (tmp_path / "results").mkdir()
    for name in ("here.md", "results/new.md"):
        (tmp_path / name).write_text(f"# Of {name}\n\ntext\n")
    assert hooks.unnamed([{"A": "here.md"}], tmp_path) == [{"More": [{"Of results/new.md": "results/new.md"}]}]
    assert hooks.unnamed([{"A": "here.md"}, {"B": [{"C": "results/new.md"}]}], tmp_path) == []
