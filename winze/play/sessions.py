"""One worker process per page: started when a page connects, ended when it goes away."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from winze.play import worker

USERS = 8
WARM = "winze.play.warm"
FRAMES = 4  # that wait for a slow page before its worker waits too


class FullError(Exception):
    """As many pages are connected as the server takes."""


class Session:
    """The pipe to one worker; frames come in a bounded queue, so that a slow page slows its own worker only."""

    def __init__(self, process: Any, connection: Any) -> None:
        self.process, self.connection = process, connection
        self.frames: asyncio.Queue[bytes | None] = asyncio.Queue(FRAMES)
        self._loop = asyncio.get_running_loop()
        self._order = asyncio.Lock()
        self._closed = False
        threading.Thread(target=self._listen, daemon=True).start()

    async def send(self, message: bytes) -> None:
        """Hand a message to the worker, in order; a worker that is busy makes this wait, not the server."""
        async with self._order:
            await asyncio.to_thread(self.connection.send_bytes, message)

    def close(self) -> None:
        """End the worker."""
        self._closed = True
        self.process.kill()
        while not self.frames.empty():  # a listener that waits for room must not wait for ever
            self.frames.get_nowait()

    def _listen(self) -> None:
        try:
            while not self._closed:
                self._put(self.connection.recv_bytes())
        except (EOFError, OSError):
            pass
        finally:
            if not self._closed:
                self._put(None)

    def _put(self, frame: bytes | None) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self.frames.put(frame), self._loop).result()
        except (RuntimeError, asyncio.CancelledError):  # the server has stopped
            self._closed = True


class Sessions:
    """All connected pages, at most `users`."""

    def __init__(self, users: int = USERS) -> None:
        self.users, self.open = users, 0
        self._context = multiprocessing.get_context("forkserver")
        # a fresh process imports the main module once more: where that is the command line, it is there already
        started_by = [name for name in ("winze.cli",) if name in sys.modules]
        self._context.set_forkserver_preload([worker.__name__, WARM, *started_by])

    def warm(self) -> None:
        """Start the process that workers are forked from, which has imported all they need."""
        from multiprocessing import forkserver

        forkserver.ensure_running()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A worker for as long as a page is connected."""
        if self.open >= self.users:
            raise FullError(f"{self.users} pages are connected already; `winze play --users N` takes more")
        self.open += 1
        session = None
        try:
            session = Session(*await asyncio.to_thread(self._start))
            yield session
        finally:
            self.open -= 1
            if session is not None:
                session.close()
                await asyncio.to_thread(session.process.join, 5)
                session.connection.close()

    def _start(self) -> tuple[Any, Any]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=worker.main, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return process, ours
