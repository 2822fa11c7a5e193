"""A running playground and a real browser for it."""

import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from serving import playground
from talking import talk
from waiting_page import PATIENCE

CHROMIUM = shutil.which("chromium")
SPY = "window.opened = []; const Real = WebSocket; window.WebSocket = class extends Real { constructor(...given) { super(...given); window.opened.push(this); } };"  # noqa: E501
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with playground() as found:
        with talk(found) as page:  # the process that workers are forked from has imported torch after this
            page.get("hello")
        yield found


@pytest.fixture(scope="session")
def public() -> Iterator[tuple[str, dict[str, str]]]:
    """A server that other machines could reach, with room for twenty pages, and the cookie that its token becomes."""
    with playground("--host", "0.0.0.0", "--users", "20") as address:
        token = address.split("?token=")[1]
        yield address.replace("0.0.0.0", "127.0.0.1"), {"Cookie": f"winze-play-{urlsplit(address).port}={token}"}


@pytest.fixture(scope="module")  # two of them must not be open in one process, and other folders open theirs
def chromium() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any, address: str) -> Iterator[Any]:
    """Open the page in a context of its own; what the console says, and any outside address, fails the test."""
    contexts: list[Any] = []
    troubles: list[str] = []

    def opener(
        hash: str = "", width: int = 1280, scheme: str = "light", at: str = "", spy: bool = False, **more: Any
    ) -> Any:
        base = at or address
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        own = base.split("?")[0]
        page.on("request", lambda asked: asked.url.startswith((own, "blob:", "data:")) or troubles.append(asked.url))
        if spy:
            page.add_init_script(SPY)
        page.goto(base + hash)
        page.wait_for_selector("html[data-frames]")
        return page

    yield opener
    for context in contexts:
        context.close()
    assert troubles == []
