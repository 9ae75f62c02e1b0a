"""Pictures by WebRTC, received with WHEP, and messages over its data channel."""

from __future__ import annotations

from ..infra.webrtc import BadAnswerError, PeerClosedError, ReceivedFrame, WebRtcReceiver
from .connection import UNREAD_FRAMES, ClientFrame, ConnectionLost
from .errors import TransportError
from .rest import Rest, SessionGrant


class WebRtcConnection:
    """See :class:`~realtime_engine.client.connection.ServerConnection`."""

    def __init__(self, rest: Rest, place: SessionGrant) -> None:
        self._rest = rest
        self._place = place
        self._receiver = WebRtcReceiver(unread=UNREAD_FRAMES)

    async def open(self) -> None:
        offer = await self._receiver.offer()
        headers = {"Content-Type": "application/sdp"}
        link = self._place.links["whep"]
        answer = await self._rest.request("POST", link, place=self._place, headers=headers, content=offer)
        try:
            await self._receiver.accept(answer.text)
            await self._receiver.channel_open()
        except (BadAnswerError, PeerClosedError) as error:
            raise TransportError(f"WebRTC could not connect: {error}") from error

    def send(self, text: str) -> None:
        try:
            self._receiver.send(text)
        except PeerClosedError as error:
            raise ConnectionLost(str(error)) from error

    async def next_message(self) -> str:
        try:
            return await self._receiver.next_message()
        except PeerClosedError as error:
            raise ConnectionLost(str(error)) from error

    async def next_frame(self) -> ClientFrame:
        try:
            return _frame(await self._receiver.next_frame())
        except PeerClosedError as error:
            raise ConnectionLost(str(error)) from error

    async def close(self) -> None:
        await self._receiver.close()


def _frame(received: ReceivedFrame) -> ClientFrame:
    info = received.info
    return ClientFrame(
        epoch=info.epoch if info else None,
        seq=info.seq if info else None,
        index=info.index if info else None,
        action_seq=info.action_seq if info else None,
        received_ns=received.received_ns,
        rtp=received.rtp,
        decode=received.rgb,
    )
