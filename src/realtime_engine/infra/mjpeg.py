"""Motion JPEG over HTTP: ``multipart/x-mixed-replace``, which an ``<img>`` shows as video.

Independent of web frameworks.
"""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable
from urllib.parse import quote, unquote

from .frame import FrameId, slot_zero
from .jpeg import JpegFrame, JpegPublisher
from .publisher import PublisherClosed, Subscription

BOUNDARY = "frame"

HEADERS = {
    "Content-Type": f"multipart/x-mixed-replace;boundary={BOUNDARY}",  # Safari does not support quotes here
    "Cache-Control": "no-cache, no-store, max-age=0",
    "Pragma": "no-cache",
    "X-Accel-Buffering": "no",  # else nginx buffers pictures
}

_USER_TIMEOUT_S = 20
_PROBE_AFTER_S, _PROBE_INTERVAL_S, _MAX_PROBES = 10, 5, 2

_DELIMITER = f"--{BOUNDARY}\r\n".encode()


class MjpegStream:
    """The pictures of one session as bodies of HTTP responses, one for each viewer.

    Args:
        jpegs: the pictures.
        idle_repeat_s: seconds without a new picture after which the last one is repeated, so that browsers that show a
            part late show it, proxies keep the connection, and a viewer that has left is detected.
    """

    headers = HEADERS

    def __init__(self, jpegs: JpegPublisher, idle_repeat_s: float = 1.0) -> None:
        if not idle_repeat_s > 0:
            raise ValueError(f"idle_repeat_s must be seconds above 0, got {idle_repeat_s!r}")
        self._jpegs = jpegs
        self._idle_repeat_s = idle_repeat_s
        self._newest: tuple[JpegFrame, dict[int, bytes]] | None = None

    async def parts(self, slot: Callable[[], int] = slot_zero) -> AsyncIterator[bytes]:
        """The body for one viewer; each part is the newest picture when the viewer has received the one before.

        ``slot`` returns the slot of the viewer, as of :meth:`FrameId.seen_by`.

        Each part ends with the next boundary, since browsers show a picture when that arrives. The body ends with the
        session, without a closing delimiter, so that the last picture stays on the page. Close the generator when the
        viewer has disconnected.
        """
        try:
            viewer = self._jpegs.subscribe()
        except PublisherClosed:
            return
        with viewer:
            picture: JpegFrame | None = None
            opening = _DELIMITER
            while True:
                try:
                    picture = await self._next(viewer, picture)
                except PublisherClosed:
                    return
                if picture is not None:
                    part = self._part(picture, slot())
                    yield opening + part if opening else part
                    opening = b""

    async def _next(self, viewer: Subscription[JpegFrame], last: JpegFrame | None) -> JpegFrame | None:
        try:
            return await viewer.next(self._idle_repeat_s)
        except TimeoutError:
            return last if last is not None and last.id.epoch >= self._jpegs.epoch else None

    def _part(self, picture: JpegFrame, slot: int) -> bytes:
        """The part of a picture, made once for all viewers with the same slot."""
        if self._newest is None or self._newest[0] is not picture:
            self._newest = (picture, {})
        parts = self._newest[1]
        if slot not in parts:
            parts[slot] = encode_part(JpegFrame(picture.data, picture.id.seen_by(slot)))
        return parts[slot]


def encode_part(picture: JpegFrame) -> bytes:
    """Part headers, picture and the next boundary.

    ``X-Frame`` is the frame's identity (:func:`format_frame_id`). ``X-Timestamp`` is when the engine emitted it, in
    Unix seconds of this machine's clock; omitted when the frame has no stamps.
    """
    lines = [
        "Content-Type: image/jpeg",
        f"Content-Length: {len(picture.data)}",
        f"X-Frame: {format_frame_id(picture.id)}",
    ]
    if picture.id.stamps.emitted:
        unix_ns = picture.id.stamps.emitted + time.time_ns() - time.monotonic_ns()
        lines.append(f"X-Timestamp: {unix_ns / 1e9:.6f}")
    head = "\r\n".join(lines).encode("ascii")
    return b"".join((head, b"\r\n\r\n", picture.data, b"\r\n", _DELIMITER))


def format_frame_id(frame: FrameId) -> str:
    """``session=..;epoch=..;seq=..;index=..;action=..``: texts percent-encoded, an empty ``action`` for none."""
    action = "" if frame.action_id is None else quote(str(frame.action_id), safe="")
    return (
        f"session={quote(frame.session_id, safe='')};epoch={frame.epoch};seq={frame.seq};"
        f"index={frame.frame_index};action={action}"
    )


def parse_frame_id(text: str) -> FrameId:
    """Read a text of :func:`format_frame_id`; ``action_id`` becomes a text or ``None``, and there are no stamps.

    Raises:
        ValueError: it is not the identity of a frame.
    """
    try:
        fields = dict(item.split("=", 1) for item in text.strip().split(";"))
        return FrameId(
            session_id=unquote(fields["session"]),
            epoch=int(fields["epoch"]),
            seq=int(fields["seq"]),
            frame_index=int(fields["index"]),
            action_id=unquote(fields["action"]) or None,
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"not the identity of a frame: {text!r}, expected session=..;epoch=..;seq=..;...") from error


def listening_socket(
    host: str, port: int, *, send_buffer_bytes: int = 32 * 1024, unsent_bytes: int = 16 * 1024
) -> socket.socket:
    """A bound, listening TCP socket whose connections buffer little, so that slow viewers are sent recent pictures.

    Accepted sockets inherit the limits on Linux. The connection of a client that has vanished or does not read ends
    after about 20 s. Without ``TCP_NOTSENT_LOWAT``, the send buffer alone limits what is buffered.

    Args:
        host: address to bind.
        port: port to bind; 0 lets the system choose.
        send_buffer_bytes: ``SO_SNDBUF``, for data in flight and not yet sent; the kernel doubles it for its own use. It
            also limits a viewer to about that many bytes per round trip.
        unsent_bytes: ``TCP_NOTSENT_LOWAT``; while that much is not yet sent, the socket accepts no more.

    Raises:
        OSError: the address cannot be bound; the message names it.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise OSError(error.errno, f"cannot listen on {host!r}: no such address ({error.strerror})") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
        _set_timeouts(listener)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}; choose another port") from error
    listener.setblocking(False)
    return listener


def _set_timeouts(listener: socket.socket) -> None:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _PROBE_AFTER_S),
        ("TCP_KEEPINTVL", _PROBE_INTERVAL_S),
        ("TCP_KEEPCNT", _MAX_PROBES),
        ("TCP_USER_TIMEOUT", _USER_TIMEOUT_S * 1000),
    ):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
