"""The baseline: what aiortc's own server example does, in a process of its own.

A ``VideoStreamTrack`` that asks ``next_timestamp`` when its next frame is due, aiortc's encoders as they are, and a
data channel for the key presses.
"""

from __future__ import annotations

import socket
from multiprocessing.connection import Connection
from pathlib import Path

import uvicorn
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription, VideoStreamTrack
from av import VideoFrame
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from latency_rig.barcode import Barcode
from latency_rig.process import run_until_told

_PAGE = Path(__file__).with_name("plain.html")


class BarcodeTrack(VideoStreamTrack):
    """Shows ``presses``."""

    def __init__(self, barcode: Barcode) -> None:
        super().__init__()
        self.presses = 0
        self._barcode = barcode
        self._frames = 0

    async def recv(self) -> VideoFrame:
        pts, time_base = await self.next_timestamp()
        self._frames += 1
        frame = VideoFrame.from_ndarray(self._barcode.picture(self._frames, self.presses), format="rgb24")
        frame.pts, frame.time_base = pts, time_base
        return frame


class PlainServer:
    def __init__(self) -> None:
        self._barcode = Barcode()
        self._connections: set[RTCPeerConnection] = set()
        routes = [Route("/", self.page), Route("/offer", self.offer, methods=["POST"])]
        self.app = Starlette(routes=routes)

    async def page(self, request: Request) -> Response:
        return HTMLResponse(_PAGE.read_text())

    async def offer(self, request: Request) -> Response:
        offer = RTCSessionDescription(**await request.json())
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._connections.add(connection)
        track = BarcodeTrack(self._barcode)

        @connection.on("datachannel")
        def on_datachannel(channel: RTCDataChannel) -> None:
            @channel.on("message")
            def on_message(message: str) -> None:
                track.presses += 1

        connection.addTrack(track)
        await connection.setRemoteDescription(offer)
        await connection.setLocalDescription(await connection.createAnswer())
        answer = connection.localDescription
        return JSONResponse({"sdp": answer.sdp, "type": answer.type})

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


def main(pipe: Connection) -> None:
    """Serve until the pipe says that it is enough; then answer with the milliseconds of a model, which there is not."""
    plain = PlainServer()
    config = uvicorn.Config(plain.app, log_config=None, timeout_graceful_shutdown=2)
    run_until_told(uvicorn.Server(config), socket.create_server(("127.0.0.1", 0)), pipe, plain.close)
    pipe.send(0.0)
