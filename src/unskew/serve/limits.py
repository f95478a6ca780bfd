"""What keeps one client from hurting others: sizes of requests, time for them, and what was answered, counted."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Histogram
from uvicorn.protocols.http.h11_impl import H11Protocol

LARGEST_BODY = 1 << 20
SECONDS = 30.0  # from a connection, or the answer before, to the next whole answer
CONNECTIONS = 512
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class SlowClientsAreCutOff(H11Protocol):
    """Uvicorn's protocol with a deadline: who sends or reads too slowly loses the connection."""

    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # An answer is two writes: without this the second waits 40 ms for the client to confirm the first.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        self.deadline = self.loop.call_later(SECONDS, self.transport.abort)


class Bounded:
    """Refuse a body that is too large, hand a whole one on, and count and time every answer by path and status."""

    def __init__(self, app: FastAPI, registry: CollectorRegistry) -> None:
        self.app, self.paths = app, frozenset(app.openapi()["paths"])
        labels = ("path", "status")
        self.requests = Counter("unskew_requests", "Requests answered.", labels, registry=registry)
        self.seconds = Histogram(
            "unskew_request_seconds", "Time to an answer.", ("path",), registry=registry, buckets=BUCKETS
        )

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, path = time.perf_counter(), scope["path"] if scope["path"] in self.paths else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.requests.labels(path, str(message["status"])).inc()
                self.seconds.labels(path).observe(time.perf_counter() - started)
            await send(message)

        body = await _whole_body(scope, receive)
        if body is None:
            answer = JSONResponse({"error": f"The request is larger than {LARGEST_BODY:,} bytes: send less."}, 413)
            await answer(scope, receive, counted)
            return
        pending = [body]

        async def replay() -> Message:
            return {"type": "http.request", "body": pending.pop()} if pending else await receive()

        await self.app(scope, replay, counted)


async def _whole_body(scope: Any, receive: Receive) -> bytes | None:
    """All of the body, None if it is too large; a length that is announced is believed before it is sent."""
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > LARGEST_BODY:
        return None
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)
