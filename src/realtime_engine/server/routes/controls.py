"""Control messages by WebSocket and by POST."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Annotated, Any

from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from pydantic import Field, GetJsonSchemaHandler, JsonValue, RootModel, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ...infra.rate_limit import MESSAGES_PER_S, TokenBucket, message_cost
from ..bodies import json_body, read_model
from ..runtime import runtime_of
from ..sessions.access import Member
from ..sessions.session import DemoSession
from ..websockets import GOING_AWAY, TOO_SLOW, close_in_time, open_socket, run_until_first
from .sessions import Controlled, member_of

router = APIRouter(tags=["controls"])

_MAX_UNSENT = 256
_MAX_UNSENT_REPLIES = _MAX_UNSENT // 2  # the other half is for events, which never wait
_BURST = 100.0
_MESSAGES_PER_TURN = 4  # after which the event loop runs other tasks
_SEND_TIMEOUT_S = 10.0
_MAX_MESSAGES = 64


class Messages(RootModel[Annotated[list[dict[str, JsonValue]], Field(max_length=_MAX_MESSAGES)]]):
    """One message of the controls protocol, or several, oldest first."""

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        listed = handler(schema)
        return {"anyOf": [listed["items"], listed], "description": listed.get("description", "")}


@router.post("/sessions/{session_id}/actions", openapi_extra=json_body(Messages))
async def act(request: Request, session: Controlled) -> list[dict[str, Any]]:
    """The same messages as over the WebSocket. The response lists the replies to them."""
    limit = runtime_of(request).config.max_body_bytes
    body = await read_model(request, Messages, limit)
    member = member_of(request, session)
    replies: list[dict[str, Any]] = []
    for message in body.root:
        replies += session.receive(message, member)
        await asyncio.sleep(0)  # lets other tasks run
    return replies


@router.websocket("/sessions/{session_id}/controls")
async def controls(socket: WebSocket, session_id: str) -> None:
    """Text messages of the controls protocol, in both directions."""
    session = await open_socket(socket, session_id)
    if session is not None:
        member = member_of(socket, session)
        with member.connection() as revoked:
            await ControlsConnection(socket, session, member, revoked).run()


class ControlsConnection:
    """A WebSocket that carries control messages, until the client or the session ends.

    Args:
        socket: the accepted WebSocket.
        session: the session that it controls.
        member: the client.
        revoked: set when the client loses its access.
    """

    def __init__(self, socket: WebSocket, session: DemoSession, member: Member, revoked: asyncio.Event) -> None:
        self._socket = socket
        self._session = session
        self._member = member
        self._receive_text = session.receiver_for(member)
        self._revoked = revoked
        self._unsent: asyncio.Queue[str] = asyncio.Queue(_MAX_UNSENT)
        self._too_slow = asyncio.Event()
        self._bucket = TokenBucket(MESSAGES_PER_S, _BURST)

    async def run(self) -> None:
        """Exchange messages until the connection ends."""
        self._session.connections.add(self, self._send, self._member)
        try:
            await run_until_first(
                self._read(), self._write(), self._session.ended.wait(), self._too_slow.wait(), self._revoked.wait()
            )
        finally:
            self._session.connections.remove(self)
        await close_in_time(self._close())

    def _send(self, text: str) -> None:
        try:
            self._unsent.put_nowait(text)
        except asyncio.QueueFull:
            self._too_slow.set()

    async def _read(self) -> None:
        with contextlib.suppress(WebSocketDisconnect):
            for count in itertools.count(1):
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                text = message.get("text")
                if text is None:
                    text = message["bytes"].decode(errors="replace")
                for reply in self._receive_text(text):
                    self._send(reply)
                await self._throttle(len(text), count)

    async def _throttle(self, length: int, count: int) -> None:
        """Rate-limit a client that sends too much; disconnect one that does not read its replies."""
        delay_s = self._bucket.reserve(message_cost(length))
        if delay_s or count % _MESSAGES_PER_TURN == 0:
            await asyncio.sleep(delay_s)
        if self._unsent.qsize() >= _MAX_UNSENT_REPLIES:
            try:
                await asyncio.wait_for(self._unsent.join(), _SEND_TIMEOUT_S)
            except asyncio.TimeoutError:
                self._too_slow.set()

    async def _write(self) -> None:
        while True:
            await self._socket.send_text(await self._unsent.get())
            self._unsent.task_done()

    async def _close(self) -> None:
        """Send what is left, unless the client is too slow, and close."""
        while not self._too_slow.is_set() and not self._unsent.empty():
            await self._socket.send_text(self._unsent.get_nowait())
        await self._socket.close(TOO_SLOW if self._too_slow.is_set() else GOING_AWAY)
