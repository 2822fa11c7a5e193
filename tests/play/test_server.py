"""Who may talk to the server, what it survives, and that every page has a worker of its own."""

import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from serving import descendants
from talking import Talk, talk
from waiting import soon
from waiting_page import PATIENCE
from websockets.exceptions import ConnectionClosed, InvalidStatus

from winze.play.frames import unpack
from winze.play.guard import MOST_BYTES, Bucket, Guard
from winze.play.server import assets
from winze.play.sessions import Sessions

SMALL = {"points": 32, "batch": 16, "arms": [{"depth": 2, "width": 3}]}


def asked(address: str, path: str = "", **headers: str):
    request = urllib.request.Request(address.split("?")[0] + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_files_come_with_a_strict_policy_and_nothing_else_is_served(address: str):
    status, headers, body = asked(address)
    policy = headers["content-security-policy"]
    assert status == 200
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert b"<script type" in body
    assert b"style=" not in body
    assert headers["x-content-type-options"] == "nosniff"
    for path in ("missing.js", "..%2fserver.py", "%2e%2e/server.py", "main.js/x", "__init__.py"):
        assert asked(address, path)[0] == 404


def test_no_file_of_the_page_names_an_outside_address():
    for name, body in assets().items():
        text = body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text.replace('"http://', "").replace("`http", ""), name
        assert "https://" not in text, name


def test_a_page_of_another_origin_is_refused(address: str):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", None):
        with pytest.raises(InvalidStatus, match="403"), talk(address, origin=origin):
            pass


def test_a_name_that_others_control_is_refused(address: str):
    status, _, _ = asked(address, Host="evil.example")
    assert status == 421


def test_malformed_messages_are_answered_and_survived(address: str):
    with talk(address) as page:
        page.get("update")
        for message in ("", "{", "[]", "7", '"x"', "{}", '{"do": 3}', '{"do": "fly"}', '{"do": "show", "step": "x"}',
                        '{"do": "view", "columns": 1e9, "rows": 1}', '{"do": "focus", "net": 5}', "[" * 9000,
                        '{"do": "setup"}', '{"do": "step", "count": -1}'):  # fmt: skip
            page.socket.send(message)
            assert page.get("error")[0]["message"]
        page.socket.send(b"\x00\x01")
        assert "text" in page.get("error")[0]["message"]
        page.send("setup", settings=SMALL)
        assert page.get("setup")[0]["settings"]["points"] == 32


def test_an_oversized_message_closes_that_page_alone(address: str):
    with talk(address) as other, talk(address) as page:
        page.get("update")
        page.socket.send(json.dumps({"do": "setup", "settings": "x" * MOST_BYTES}))
        with pytest.raises(ConnectionClosed):
            page.drain()
        other.send("step")
        assert soon(lambda: other.get("update")[0]["step"] == 1)


def test_a_flood_of_messages_is_cut_off(address: str):
    with talk(address) as page:
        page.get("update")
        with pytest.raises(ConnectionClosed):
            page.flood()
        assert page.socket.close_code == 1008


def test_a_bucket_lets_a_burst_pass_and_then_a_rate():
    bucket = Bucket(rate=0.0, burst=3)
    assert [bucket.takes() for _ in range(5)] == [True, True, True, False, False]
    assert bucket.refused == 2


@pytest.mark.parametrize(
    ("host", "asks", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:80", True),
        ("127.0.0.1", "localhost:80", True),
        ("127.0.0.1", "evil.example:80", False),
        ("127.0.0.1", "", False),
        ("0.0.0.0", "lab.example:80", True),
    ],
)
def test_on_loopback_only_loopback_names_are_answered(host: str, asks: str, allowed: bool):
    assert Guard(host, 80).allows_host({"host": asks}) is allowed


def test_a_page_that_does_not_acknowledge_gets_two_updates_and_no_more(address: str):
    with talk(address) as page:
        page.send("setup", settings=SMALL)
        page.send("start")
        updates = shown = trained = 0
        while updates < 2 or trained < shown + 200:  # it trains on, and answers what is asked
            page.send("code")
            while (head := unpack(page.socket.recv(timeout=PATIENCE))[0])["kind"] != "code":
                updates += head["kind"] == "update"
            trained = int(re.search(r"Steps\((\d+)\)", head["text"])[1])
            shown = trained if updates < 2 else shown
        assert updates == 2
        page.send("ack")
        assert page.get("update")[0]["step"] >= trained


def test_the_first_loss_of_a_setup_is_the_same_for_two_pages(address: str):
    losses = []
    for _ in range(2):
        with talk(address) as page:
            page.send("setup", settings=SMALL)
            page.get("setup")
            page.send("step")
            losses.append(next(a["losses"][0, 1] for h, a in iter(lambda: page.get("update"), 0) if len(a["losses"])))
    assert losses[0] == losses[1]


def test_a_loss_that_is_lost_stops_the_training_with_advice(address: str):
    with talk(address) as page:
        arm = {"depth": 24, "width": 8, "activation": "identity", "optimizer": "SGD", "lr": 1.0, "objective": "mse"}
        page.send("setup", settings={"points": 32, "arms": [arm]})
        page.get("setup")
        page.send("start")
        told = soon(lambda: page.get("update")[0]["problem"])
        assert "diverged" in told
        page.send("start")
        assert "reset to train again" in page.get("error")[0]["message"]


@pytest.mark.slow
def test_a_token_is_needed_where_others_can_reach_the_server(public: tuple[str, dict[str, str]]):
    address, cookie = public
    for path in ("", "main.js", "?token=wrong-token", "?token="):
        assert asked(address, path)[0] == 403
    for wrong in ("", cookie["Cookie"][:-1], cookie["Cookie"].replace("=", "0=")):
        with pytest.raises(InvalidStatus, match="403"), talk(address, additional_headers={"Cookie": wrong}):
            pass
    assert asked(address, **cookie)[0] == 200
    with talk(address, additional_headers=cookie) as page:
        assert page.get()[0]["kind"] == "hello"


@pytest.mark.slow
def test_twenty_pages_train_at_once_each_its_own_network_and_one_more_waits(public: tuple[str, dict[str, str]]):
    address, cookie = public
    with ExitStack() as stack:
        pages = [stack.enter_context(_taken(address, cookie)) for _ in range(20)]
        for number, page in enumerate(pages):
            page.send("setup", settings={**SMALL, "seed": number})
            page.send("step", count=3)
        losses = set()
        for number, page in enumerate(pages):
            soon(lambda page=page, number=number: page.get("setup")[0]["settings"]["seed"] == number)
            losses.add(soon(lambda page=page: [float(v) for v in page.get("update")[1]["losses"][:1, 1]])[0])
        assert len(losses) == 20
        with talk(address, additional_headers=cookie) as more:
            assert "--users" in more.get()[0]["message"]
            with pytest.raises(ConnectionClosed):
                more.drain()
        pages[3].socket.close()
        stack.enter_context(_taken(address, cookie))


@contextmanager
def _taken(address: str, cookie: dict[str, str]) -> Iterator[Talk]:
    """A page that has a worker; it asks again while the server is full, for other pages may have left a moment ago."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with talk(address, additional_headers=cookie) as page:
            if page.get()[0]["kind"] != "full":
                yield page
                return
    raise AssertionError("the server stays full")


def test_a_page_that_goes_away_frees_its_worker(address: str):
    before = set(descendants())
    with talk(address) as page:
        page.send("setup", settings=SMALL)
        page.send("start")
        page.get("update")
        own = set(descendants()) - before
        assert own
    assert soon(lambda: not own & set(descendants()))


def test_a_broken_connection_finds_its_worker_again_and_a_closed_page_does_not(address: str):
    name, before = "a" * 32, set(descendants())
    with talk(address, page=name) as page:
        page.send("setup", settings=SMALL)
        page.send("step", count=7)
        soon(lambda: page.get("update")[0]["step"] == 7)
        page.socket.close(1011)
    with talk(address, page=name) as page:
        assert page.get("resumed")[0]["step"] == 7
        own = set(descendants()) - before
        page.socket.close(1001)
    assert soon(lambda: not own & set(descendants()))
    with talk(address, page=name) as page:
        assert page.get()[0]["kind"] == "hello"


def test_a_second_connection_of_a_page_takes_the_worker_over(address: str):
    name = "b" * 32
    with talk(address, page=name) as first:
        first.get("update")
        with talk(address, page=name) as second:
            second.get("resumed")
            with pytest.raises(ConnectionClosed):
                first.drain()
            second.send("step")
            assert soon(lambda: second.get("update")[0]["step"] == 1)


def test_a_killed_worker_is_told_to_its_page_alone_and_replaced(address: str):
    name, before = "9" * 32, set(descendants())
    with talk(address, page=name) as page:
        page.send("step", count=2)
        soon(lambda: page.get("update")[0]["step"] == 2)
        (own,) = set(descendants()) - before
        with talk(address) as other:
            other.get("update")
            os.kill(own, signal.SIGKILL)
            assert "a new one starts" in page.get("error")[0]["message"]
            with pytest.raises(ConnectionClosed):
                page.drain()
            other.send("step")
            assert soon(lambda: other.get("update")[0]["step"] == 1)
    with talk(address, page=name) as page:
        assert page.get()[0]["kind"] == "hello"


def test_a_worker_at_work_keeps_neither_the_server_nor_another_page_waiting(address: str):
    with talk(address) as busy:
        busy.send("setup", settings={"batch": 1024, "arms": [{"depth": 64, "width": 32}] * 2})
        soon(lambda: busy.get("setup")[0]["settings"]["arms"][0]["depth"] == 64)
        busy.send("step", count=1000)  # answered by one update, when all are done
        assert asked(address, "main.js")[0] == 200
        with talk(address) as other:
            other.send("setup", settings=SMALL)
            other.send("step", count=2)
            soon(lambda: other.get("update")[0]["step"] == 2)
        assert not _has_reached(busy, 1000)


def _has_reached(page: Talk, step: int) -> bool:
    """Whether one of the frames that have come shows this step."""
    try:
        while unpack(page.socket.recv(timeout=0.01))[0].get("step", 0) < step:
            pass
    except TimeoutError:
        return False
    return True


def test_a_paused_page_costs_no_time(address: str):
    before = set(descendants())
    with talk(address) as page:
        page.send("setup", settings=SMALL)
        page.send("step")
        soon(lambda: page.get("update")[0]["nets"][0].get("profile", {}).get("step") == 1)  # all has been read
        (own,) = set(descendants()) - before
        spent = _ticks(own)
        with pytest.raises(TimeoutError):
            page.socket.recv(timeout=2.0)
        assert _ticks(own) - spent <= 2


def _ticks(process: int) -> int:
    """Processor time of a process, in hundredths of a second."""
    words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def test_a_link_with_a_step_trains_up_to_it_and_pauses(address: str):
    with talk(address) as page:
        page.send("setup", settings=SMALL, until=9)
        head = soon(lambda: (head := page.get("update")[0])["last"] == 9 and not head["running"] and head)
        assert head["step"] == 9
        page.send("setup", settings=SMALL, until=-1)
        assert "until" in page.get("error")[0]["message"]


def test_frames_of_the_largest_networks_stay_small(address: str):
    with talk(address) as page:
        page.send("view", columns=24, rows=8)
        arm = {"depth": 64, "width": 32}
        page.send("setup", settings={"points": 64, "arms": [arm, arm]})
        soon(lambda: page.get("setup")[0]["settings"]["arms"][0]["depth"] == 64)
        page.send("start")
        page.get("update")
        sizes = []
        while len(sizes) < 4:
            frame = page.socket.recv(timeout=PATIENCE)
            if unpack(frame)[0]["kind"] == "update":
                page.send("ack")
                sizes.append(len(frame))
        assert max(sizes) < 300_000


def test_eight_pages_are_taken_unless_told_otherwise():
    from winze.cli.play import PlayVerb

    assert PlayVerb().users == Sessions().users == 8


def test_a_port_in_use_is_told_in_one_line(capsys: pytest.CaptureFixture[str]):
    from winze.cli import main

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code = main(["play", "--no-browser", "--port", str(taken.getsockname()[1])])
    assert code == 2
    assert "give another --port" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--users", "0"],
        ["--token", "short"],
        ["--token", "with a space"],
        ["--port", "70000"],
        ["--host", "192.0.2.1"],
        ["missing-folder"],
    ],
)
def test_bad_input_is_told_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]):
    from winze.cli import main

    assert main(["play", "--no-browser", *words]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
