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

    def drain(self) -> None:
        """Take frames until the connection is closed, which raises."""
        while True:
            self.get()

    def flood(self) -> None:
        """Send messages as fast as possible until the server closes, which raises."""
        while True:
            self.send("ack")


@contextmanager
def talk(address: str, page: str = "", **more: Any) -> Iterator[Talk]:
    """A page that is connected; its first frame is `hello`, `resumed`, or `full` where there is no room."""
    base = address.split("?")[0]
    more.setdefault("origin", base.rstrip("/"))
    live = base.replace("http", "ws") + "live" + (f"?page={page}" if page else "")
    with connect(live, max_size=None, open_timeout=PATIENCE, **more) as socket:
        yield Talk(socket)
