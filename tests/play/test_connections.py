"""Pages that lose their server, attack it, or are many."""

import re
from typing import Any

import pytest
from serving import no_new_workers
from waiting import soon
from waiting_page import PATIENCE, QUICK, step_of, train_to, url_of

from winze.play.settings import parse
from winze.play.trainer import Trainer

pytestmark = pytest.mark.slow


def test_messages_that_are_malformed_or_too_large_are_survived(open_page: Any):
    page = open_page(QUICK, spy=True)
    for message, said in (("{", "no JSON"), ("[]", "JSON object"), ('{"do": "fly"}', "one of")):
        page.evaluate("(message) => window.opened.at(-1).send(message)", message)
        soon(lambda said=said: said in page.inner_text("#notice"))
    page.evaluate("() => window.opened.at(-1).send('x'.repeat(70000))")
    soon(lambda: "A new one starts" in page.inner_text("#notice"))
    page.click("#step")
    soon(lambda: step_of(page) == 1)
    assert page.input_value("#a-depth") == "3"


def test_a_wrong_token_and_a_wrong_origin_are_refused_in_the_browser(chromium: Any, public: tuple[str, dict[str, str]]):
    address = public[0]
    base, token = address.split("?token=")
    with chromium.new_context(bypass_csp=True) as context:
        page = context.new_page()
        assert page.goto(base).status == 403
        assert page.goto(f"{base}?token={token[:-1]}").status == 403
        page.goto("about:blank")
        page.set_content(f"<a href='{address}'>a link on another site</a>")
        page.click("a", timeout=1000 * PATIENCE)
        page.wait_for_selector("html[data-frames]", timeout=1000 * PATIENCE)
        assert url_of(page) == base
        page.goto(address.replace("127.0.0.1", "localhost"))
        opened = "(url) => new Promise((done) => { const s = new WebSocket(url); s.onopen = () => done(true); s.onerror = () => done(false); })"  # noqa: E501
        assert page.evaluate(opened, base.replace("http://127.0.0.1", "ws://localhost") + "live") is True
        assert page.evaluate(opened, base.replace("http://", "ws://") + "live") is False


def test_twenty_users_train_at_once_in_the_browser(chromium: Any, public: tuple[str, dict[str, str]]):
    address = public[0]
    with chromium.new_context(viewport={"width": 700, "height": 500}) as context:
        context.set_default_timeout(1000 * PATIENCE)
        pages = [context.new_page() for _ in range(20)]
        for number, page in enumerate(pages):
            page.bring_to_front()
            page.goto(f"{address}{QUICK}&seed={number}")
            page.wait_for_selector("html[data-frames]")
        for number, page in enumerate(pages):
            page.bring_to_front()
            soon(lambda page=page, number=number: page.input_value("#seed") == str(number))
            page.click("#step")
            soon(lambda page=page: step_of(page) == 1 and re.search(r"loss \d", page.inner_text("#loss .read")))
            shown = float(re.search(r"loss ([\d.]+)", page.inner_text("#loss .read"))[1])
            own = parse({"points": 64, "batch": 16, "seed": number, "arms": [{"depth": 3, "width": 4}]})
            assert shown == float(f"{Trainer(own).step()[0]:.3g}")
        more = context.new_page()
        more.goto(address)
        soon(lambda: "20 pages are connected already" in more.inner_text("#notice"))


def test_a_page_that_loses_its_connection_finds_its_training_again(open_page: Any):
    page = open_page(f"{QUICK}&a.activation=tanh", spy=True)
    train_to(page, 5)
    reached = step_of(page)
    page.evaluate("() => window.opened.at(-1).close()")
    soon(lambda: "Connected again" in page.inner_text("#notice"))
    page.click("#step")
    soon(lambda: step_of(page) == reached + 1)
    page.click("#start")
    page.evaluate("() => window.opened.at(-1).close()")
    soon(lambda: step_of(page) > reached + 3 and page.inner_text("#start") == "Pause")
    assert page.input_value("#a-activation") == "tanh"


def test_the_first_paint_does_not_wait_for_the_training_process(chromium: Any, address: str):
    with chromium.new_context() as context:
        page = context.new_page()
        with no_new_workers():
            page.goto(address, timeout=1000 * PATIENCE)
            soon(lambda: page.evaluate("() => performance.getEntriesByName('first-contentful-paint').length"))
            assert "Starting the training process" in page.inner_text("#notice")
            assert page.get_attribute("html", "data-frames") is None
        page.wait_for_selector("html[data-frames]", timeout=1000 * PATIENCE)
        assert page.inner_text("#notice") == ""


def test_start_is_remembered_until_the_training_process_is_there(chromium: Any, address: str):
    with chromium.new_context() as context:
        page = context.new_page()
        with no_new_workers():
            page.goto(address, timeout=1000 * PATIENCE)
            page.click("#start")
            page.click("#step")  # without a network there is no step to take
            assert "as soon as its process has started" in page.inner_text("#notice")
        soon(lambda: step_of(page) > 1)
        assert page.inner_text("#notice") == ""
