"""One worker process per page: started when a page connects, ended when it goes away.

A page whose connection breaks off finds its worker again by the name it gave, for a while.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from winze.play import worker

USERS = 8
WARM = "winze.play.warm"
GRACE = 60.0  # seconds that a worker waits for a page whose connection broke off
UNSENT = 64  # messages that wait for a busy worker
FRAMES = 4  # that wait for a slow page before its worker waits too


class FullError(Exception):
    """As many pages are connected as the server takes."""


class Session:
    """The pipe to one worker: a bounded queue of frames and a thread each way, so that a page slows itself only."""

    def __init__(self, process: Any, connection: Any) -> None:
        self.process, self.connection = process, connection
        self.frames: asyncio.Queue[bytes | None] = asyncio.Queue(FRAMES)
        self._loop = asyncio.get_running_loop()
        self._unsent = 0
        self._sender = ThreadPoolExecutor(1)  # its own: a worker that is busy must not use up threads that all share
        self.is_alive = True  # false as soon as the worker is ended or ends by itself
        self.is_closed = False
        self.taken = asyncio.Event()  # set when another connection takes this worker over
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, message: bytes) -> bool:
        """Hand a message to the worker, in order and without waiting; false where too many wait already."""
        if self._unsent >= UNSENT:
            return False
        self._unsent += 1
        sending = self._loop.run_in_executor(self._sender, self.connection.send_bytes, message)
        sending.add_done_callback(self._sent)
        return True

    def _sent(self, sending: asyncio.Future[None]) -> None:
        self._unsent -= 1
        if not sending.cancelled():
            sending.exception()  # a worker that died is noticed where its frames are read

    def close(self) -> None:
        """End the worker."""
        self.is_alive, self.is_closed = False, True
        self.process.kill()
        self._sender.shutdown(wait=False, cancel_futures=True)
        while not self.frames.empty():  # a listener that waits for room must not wait for ever
            self.frames.get_nowait()

    def _listen(self) -> None:
        try:
            while self.is_alive:
                self._put(self.connection.recv_bytes())
        except (EOFError, OSError):
            if self.is_alive:  # it ended by itself
                self.is_alive = False
                self._put(None)

    def _put(self, frame: bytes | None) -> None:
        putting = self.frames.put(frame)
        try:
            asyncio.run_coroutine_threadsafe(putting, self._loop).result()
        except (RuntimeError, asyncio.CancelledError):  # the server has stopped
            self.is_alive = False
            putting.close()


class Sessions:
    """The workers of all pages, at most `users`; those that wait for their page give way to a new one."""

    def __init__(self, users: int = USERS, grace: float = GRACE) -> None:
        self.users, self.grace, self.open = users, grace, 0
        self._named: dict[str, Session] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}  # workers without a page, the longest waiting first
        self._ending: set[asyncio.Task[None]] = set()
        self._context = multiprocessing.get_context("forkserver")
        # a fresh process imports the main module once more: where that is the command line, it is there already
        started_by = [name for name in ("winze.cli",) if name in sys.modules]
        self._context.set_forkserver_preload([worker.__name__, WARM, *started_by])

    def warm(self) -> None:
        """Start the process that workers are forked from, which has imported all they need."""
        from multiprocessing import forkserver

        forkserver.ensure_running()

    async def resume(self, name: str) -> Session | None:
        """The worker that a page of this name had, if it still runs; the page's older connection gives it up."""
        session = self._named.get(name)
        if session is None:
            return None
        if not session.is_alive:  # it ended by itself
            await self.end(name, session)
            return None
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            waiting.cancel()
        session.taken.set()
        session.taken = asyncio.Event()
        return session

    async def start(self, name: str = "") -> Session:
        """A new worker, under the name by which its page may find it again."""
        if self.open >= self.users and self._waiting:
            longest = next(iter(self._waiting))
            self.end(longest, self._named[longest])
        if self.open >= self.users:
            raise FullError(f"{self.users} pages are connected already; `winze play --users N` takes more")
        self.open += 1
        try:
            session = Session(*await asyncio.to_thread(self._start))
        except BaseException:
            self.open -= 1
            raise
        if name and name not in self._named:
            self._named[name] = session
        return session

    def keep(self, name: str, session: Session) -> bool:
        """Let a worker wait for its page; false where the page cannot find it again."""
        if not session.is_alive or self._named.get(name) is not session:
            return False
        self._waiting[name] = asyncio.get_running_loop().call_later(self.grace, self.end, name, session)
        return True

    def end(self, name: str, session: Session) -> asyncio.Task[None]:
        """End a worker at once; the task is done when its process is gone."""
        if self._named.get(name) is session:
            del self._named[name]
            if name in self._waiting:
                self._waiting.pop(name).cancel()
        if not session.is_closed:
            self.open -= 1
        session.close()
        ending = asyncio.get_running_loop().create_task(self._gone(session))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending

    async def _gone(self, session: Session) -> None:
        await asyncio.to_thread(session.process.join, 5)
        session.connection.close()

    def _start(self) -> tuple[Any, Any]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=worker.main, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return process, ours
