"""Who may speak to the server, and how much: tokens, origins, headers, message sizes and rates."""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

MOST_BYTES = 1 << 16  # of one message from the page
RATE, BURST = 120.0, 240.0  # messages per second, and at once
PATIENCE = 500  # messages over the rate before the connection is closed
LOOPBACK = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Guard:
    """The server's address and its token, where it has one."""

    host: str
    port: int
    token: str | None = None

    @property
    def cookie(self) -> str:
        """The name of the cookie that holds the token: cookies of one host are shared by all of its ports."""
        return f"winze-play-{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in LOOPBACK

    def allows_host(self, headers: Mapping[str, str]) -> bool:
        """Whether the address asked for is this server's: on loopback a name that others control is refused."""
        name = _hostname(f"//{headers.get('host', '')}")
        return bool(name) and (not self.is_local or name in LOOPBACK)

    def allows_origin(self, headers: Mapping[str, str]) -> bool:
        """Whether a WebSocket is opened by this server's own page."""
        origin = headers.get("origin", "")
        return origin.startswith(("http://", "https://")) and urlsplit(origin).netloc == headers.get("host", "")

    def allows_token(self, given: str | None) -> bool:
        """Whether the token is right; without one the server asks for none."""
        return self.token is None or hmac.compare_digest((given or "").encode(), self.token.encode())


class Bucket:
    """A rate of messages with room for a burst."""

    def __init__(self, rate: float = RATE, burst: float = BURST) -> None:
        self.rate, self.burst = rate, burst
        self.left, self.seen, self.refused = burst, time.monotonic(), 0

    def takes(self) -> bool:
        """Count one message; false where it comes too soon."""
        now = time.monotonic()
        self.left = min(self.burst, self.left + (now - self.seen) * self.rate)
        self.seen = now
        if self.left < 1:
            self.refused += 1
            return False
        self.left -= 1
        return True


def _hostname(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
