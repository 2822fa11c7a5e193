"""The server: the page's files, and a WebSocket that joins each page to its worker, or to stored readings."""

from __future__ import annotations

import asyncio
import errno
import json
import mimetypes
import re
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from winze.play.frames import pack
from winze.play.guard import HEADERS, MOST_BYTES, PATIENCE, Bucket, Guard
from winze.play.sessions import USERS, FullError, Session, Sessions

TRY_LATER, TOO_MANY, REFUSED, FAILED = 1013, 1008, 1008, 1011
BROKEN = (1005, 1006, 1011, 1012)  # closed without a reason, not closed at all, no answer to a ping, restarted
NAME = re.compile(r"[A-Za-z0-9_-]{22,64}")  # by which a page finds its worker again: random, known to it alone
TOO_FAST = "too many messages: some were left out"
PING = 20.0  # seconds after which a page that does not answer counts as gone
STUCK = 2 * PING  # seconds after which a page that takes no frame counts as gone
CLOSING = 1.0  # seconds in which a page to which nothing can be sent may still say that it was closed

StoredScan = dict[str, Any] | None
"""What the scan viewer shows; None: the page trains"""


def assets() -> dict[str, bytes]:
    """The files of the page by name; nothing else is ever served."""
    folder = files("winze.play") / "assets"
    return {
        one.name: one.read_bytes() for one in folder.iterdir() if one.name.endswith((".html", ".css", ".js", ".svg"))
    }


def app(guard: Guard, sessions: Sessions, stored: StoredScan = None) -> Starlette:
    """The application of one server."""
    kept = assets()

    async def file(request: Request) -> Response:
        refused = _refused(guard, request)
        if refused is not None:
            return refused
        name = request.path_params.get("name") or "index.html"
        if name not in kept:
            return PlainTextResponse("there is no such file\n", 404, HEADERS)
        kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
        return Response(kept[name], media_type=kind, headers=HEADERS)

    async def live(websocket: WebSocket) -> None:
        allowed = guard.allows_host(websocket.headers) and guard.allows_origin(websocket.headers)
        if not allowed or not guard.allows_token(websocket.cookies.get(guard.cookie)):
            await websocket.close(REFUSED)  # before `accept`: the handshake fails with 403
            return
        await websocket.accept()
        with suppress(WebSocketDisconnect, RuntimeError):  # a page that goes away while a frame is sent
            if stored is not None:
                await _show(websocket, stored)
                return
            try:
                await _serve_page(websocket, sessions)
            except FullError as full:
                await websocket.send_bytes(pack("full", {"message": str(full)}))
                await websocket.close(TRY_LATER)

    routes = [Route("/", file), Route("/{name}", file), WebSocketRoute("/live", live)]
    return Starlette(routes=[routes[2], *routes[:2]])


def _refused(guard: Guard, request: Request) -> Response | None:
    """The answer to a request that may not pass: a wrong address, a wrong token, or one that becomes a cookie."""
    if not guard.allows_host(request.headers):
        return PlainTextResponse("this server answers to its own address only\n", 421, HEADERS)
    given = request.query_params.get("token")
    if given is not None and guard.token is not None and guard.allows_token(given):
        answer = RedirectResponse("/", 303, HEADERS)
        answer.set_cookie(guard.cookie, given, httponly=True, samesite="lax")  # strict refuses links on other sites
        return answer
    if given is None and guard.allows_token(request.cookies.get(guard.cookie)):
        return None
    if given is not None and guard.token is None:
        return None
    return PlainTextResponse("open the address with the token that `winze play` printed\n", 403, HEADERS)


async def _serve_page(websocket: WebSocket, sessions: Sessions) -> None:
    """Join a page to a worker: the one it had before its connection broke off, or a new one."""
    name = websocket.query_params.get("page", "")
    if not NAME.fullmatch(name):
        name = ""
    found = await sessions.resume(name)
    session = found or await sessions.start(name)
    taken, lost = session.taken, False
    try:
        lost = await _joined(websocket, session, again=found is not None)
    finally:
        if not taken.is_set() and not (lost and sessions.keep(name, session)):
            await sessions.end(name, session)


async def _joined(websocket: WebSocket, session: Session, again: bool) -> bool:
    """Carry messages one way and frames the other until either side ends; whether the connection broke off."""
    ways = (_upstream(websocket, session, again), _downstream(websocket, session), session.taken.wait())
    work: list[asyncio.Task[Any]] = [asyncio.create_task(one) for one in ways]
    try:
        done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        ended = [task.result() for task in done]  # all of them, so that none of their errors is left out
        return True in ended
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def _upstream(websocket: WebSocket, session: Session, again: bool) -> bool:
    """Messages of the page to its worker, bounded in size and rate; the worker answers what is malformed.

    A page that is connected `again` is sent what it missed. Returns whether the connection broke off: not where the
    page was closed or left.
    """
    bucket = Bucket()
    while again and not session.send(json.dumps({"do": "resume"}).encode()):
        await asyncio.sleep(0.1)  # the worker is busy, and messages of the page's older connection wait
    while True:
        told = await websocket.receive()
        if told["type"] == "websocket.disconnect":
            return told.get("code") in BROKEN
        wrong = _malformed(told.get("text")) if bucket.takes() else TOO_FAST
        if not wrong and not session.send(told["text"].encode()):
            bucket.refused += 1
            wrong = TOO_FAST
        if bucket.refused > PATIENCE:
            await websocket.close(TOO_MANY)
            return False
        if wrong and (wrong != TOO_FAST or bucket.refused % 100 == 1):
            await session.frames.put(pack("error", {"message": wrong}))


def _malformed(text: str | None) -> str:
    if text is None:
        return "messages are text: JSON objects"
    if len(text.encode()) > MOST_BYTES:
        return f"a message has at most {MOST_BYTES} bytes"
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return "this message is no JSON"
    return "" if isinstance(told, dict) else "a message is a JSON object"


async def _downstream(websocket: WebSocket, session: Session) -> bool:
    """Frames of the worker to the page; returns whether the connection broke off, which `_upstream` may know better."""
    while (frame := await session.frames.get()) is not None:
        try:
            async with asyncio.timeout(STUCK):
                await websocket.send_bytes(frame)
        except (WebSocketDisconnect, RuntimeError, TimeoutError):
            await asyncio.sleep(CLOSING)
            return True
    await websocket.send_bytes(
        pack("error", {"message": "the training process ended; a new one starts with the same settings"})
    )
    await websocket.close(FAILED)
    return False


async def _show(websocket: WebSocket, stored: dict[str, Any]) -> None:
    """Send stored readings; the page asks for nothing else."""
    await websocket.send_bytes(pack("stored", stored))
    bucket = Bucket()
    while (await websocket.receive())["type"] != "websocket.disconnect":
        if not bucket.takes() and bucket.refused > PATIENCE:
            await websocket.close(TOO_MANY)
            return


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    users: int = USERS,
    stored: StoredScan = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until interrupted; `ready` is given the address once the server can be reached.

    On an address that other machines can reach a token is needed: one is made where none is given.
    """
    listening = _listen(host, port)
    number = listening.getsockname()[1]
    guard = Guard(host, number, token)
    if not guard.is_local and token is None:
        guard = Guard(host, number, secrets.token_urlsafe(16))
    sessions = Sessions(users)
    if stored is None:
        sessions.warm()
    config = uvicorn.Config(
        app(guard, sessions, stored),
        log_level="error",
        access_log=False,
        server_header=False,
        ws_max_size=MOST_BYTES,
        ws_ping_interval=PING,
        ws_ping_timeout=PING,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{number}/" + (f"?token={guard.token}" if guard.token else "")
    server = uvicorn.Server(config)
    if ready is not None:
        ready(address)  # the socket listens already, so that a browser that is quick waits and is not refused
    server.run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        other = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        raise OSError(f"{host}:{port} cannot be used: {error.strerror or error}; give another {other}") from error
    listening.listen(128)
    return listening
