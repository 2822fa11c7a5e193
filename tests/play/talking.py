"""A page without a browser: messages to the server and frames from it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from waiting_page import PATIENCE
from websockets.sync.client import connect

from winze.play.frames import unpack


class Talk:
    """An open WebSocket that acknowledges every update."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    def send(self, do: str, **more: Any) -> None:
        self.socket.send(json.dumps({"do": do, **more}))

    def get(self, kind: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
        """The next frame, or the next of this kind."""
        while True:
            head, arrays = unpack(self.socket.recv(timeout=PATIENCE))
            if head["kind"] == "update":
                self.send("ack")
            if not kind or head["kind"] == kind:
                return head, arrays

    def get_within(self, seconds: float) -> None:
        """Take one frame, or raise TimeoutError."""
        head, _ = unpack(self.socket.recv(timeout=seconds))
        if head["kind"] == "update":
            self.send("ack")

    def drain(self) -> None:
        """Take frames until the connection is closed, which raises."""
        while True:
            self.get()

    def flood(self, count: int) -> None:
        """Send more messages than a server takes, then wait for it to close."""
        for _ in range(count):
            self.send("ack")
        self.drain()


@contextmanager
def talk(address: str, page: str = "", **more: Any) -> Iterator[Talk]:
    base = address.split("?")[0]
    more.setdefault("origin", base.rstrip("/"))
    live = base.replace("http", "ws") + "live" + (f"?page={page}" if page else "")
    with connect(live, max_size=None, open_timeout=PATIENCE, **more) as socket:
        yield Talk(socket)
