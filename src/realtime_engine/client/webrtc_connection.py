"""A connection over WebRTC: frames by WHEP, messages over the data channel."""

from __future__ import annotations

from ..infra.webrtc import BadAnswerError, PeerClosedError, ReceivedFrame, WebRtcReceiver
from .connection import UNREAD_FRAMES, ClientFrame, ConnectionLost
from .errors import TransportError
from .rest import Rest, SessionGrant


class WebRtcConnection:
    """Frames and messages over WebRTC; implements :class:`.connection.ServerConnection`."""

    def __init__(self, rest: Rest, grant: SessionGrant) -> None:
        self._rest = rest
        self._grant = grant
        self._receiver = WebRtcReceiver(unread=UNREAD_FRAMES)

    async def open(self) -> None:
        """Connect; see :class:`.connection.ServerConnection`."""
        offer = await self._receiver.offer()
        headers = {"Content-Type": "application/sdp"}
        link = self._grant.links["whep"]
        answer = await self._rest.request("POST", link, grant=self._grant, headers=headers, content=offer)
        try:
            await self._receiver.set_answer(answer.text)
            await self._receiver.channel_open()
        except (BadAnswerError, PeerClosedError) as error:
            raise TransportError(f"WebRTC could not connect: {error}") from error

    def send(self, text: str) -> None:
        """Queue a message."""
        try:
            self._receiver.send(text)
        except PeerClosedError as error:
            raise ConnectionLost(str(error)) from error

    async def next_message(self) -> str:
        """Wait for the oldest unread message."""
        try:
            return await self._receiver.next_message()
        except PeerClosedError as error:
            raise ConnectionLost(str(error)) from error

    async def next_frame(self) -> ClientFrame:
        """Wait for the oldest unread frame."""
        try:
            return _frame(await self._receiver.next_frame())
        except PeerClosedError as error:
            raise ConnectionLost(str(error)) from error

    async def close(self) -> None:
        """Close the connection."""
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
