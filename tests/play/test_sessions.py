"""Workers: how many run, which page gets its own again, and what waits for a busy one."""

import asyncio
import multiprocessing
import time
from types import SimpleNamespace

import pytest
from waiting_page import PATIENCE

from winze.play.sessions import UNSENT, FullError, Session, Sessions


def test_a_worker_that_ended_by_itself_is_counted_out_once_and_not_given_to_its_page_again():
    async def ended() -> list[object]:
        sessions, (ours, theirs) = Sessions(users=1), multiprocessing.Pipe()
        process = SimpleNamespace(kill=lambda: None, join=lambda _: None, is_alive=lambda: True)  # not yet reaped
        sessions._start = lambda: (process, ours)
        session = await sessions.start("0" * 32)
        theirs.close()
        assert await session.frames.get() is None
        found = [await sessions.resume("0" * 32)]
        await sessions.end("0" * 32, session)  # what its connection does at its own end
        return [*found, sessions.open]

    assert asyncio.run(ended()) == [None, 0]


def test_messages_for_a_busy_worker_wait_without_holding_up_the_server_and_not_without_end():
    async def taken() -> int:
        ours, theirs = multiprocessing.Pipe()
        session = Session(SimpleNamespace(kill=theirs.close), ours)
        found = sum(session.send(bytes(60_000)) for _ in range(2 * UNSENT))
        session.close()
        return found

    assert asyncio.run(taken()) == UNSENT


def test_a_worker_that_waits_for_its_page_gives_way_to_a_new_page():
    async def full() -> list[bool]:
        sessions = Sessions(users=1, grace=30)
        lost = await sessions.start("c" * 32)
        assert sessions.keep("c" * 32, lost)
        new = await sessions.start("d" * 32)
        found = [lost.is_alive, new.is_alive]
        with pytest.raises(FullError):
            await sessions.start("e" * 32)
        await sessions.end("d" * 32, new)
        return [*found, sessions.open == 0]

    assert asyncio.run(full()) == [False, True, True]


def test_pages_that_come_at_once_each_take_the_place_of_a_worker_that_waits():
    async def at_once() -> list[bool]:
        sessions = Sessions(users=2)

        def started() -> tuple[object, object]:
            ours, theirs = multiprocessing.Pipe()
            return SimpleNamespace(kill=theirs.close, join=lambda _: time.sleep(0.2)), ours  # it takes a moment to end

        sessions._start = started
        for name in "ab":
            assert sessions.keep(32 * name, await sessions.start(32 * name))
        new = await asyncio.gather(*(sessions.start(32 * name) for name in "cd"))
        found = [one.is_alive for one in new]
        await asyncio.gather(*(sessions.end(32 * name, one) for name, one in zip("cd", new, strict=True)))
        return [*found, sessions.open == 0]

    assert asyncio.run(at_once()) == [True, True, True]


def test_a_worker_whose_page_does_not_come_back_ends():
    async def alone() -> bool:
        sessions = Sessions(users=1, grace=0.2)
        lost = await sessions.start("f" * 32)
        sessions.keep("f" * 32, lost)
        async with asyncio.timeout(PATIENCE):
            while sessions.open:
                await asyncio.sleep(0.05)
        return lost.is_alive

    assert asyncio.run(alone()) is False
