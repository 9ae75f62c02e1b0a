"""Mock of the server's API with synthetic video.

It records the requests and messages of the page, and fails on demand.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from .mock_demo import FIELDS, FPS, KEYS, describe, jpeg_packet, paint, part
from .mock_peer import MockPeer
from .mock_video import packet

WEB = Path(__file__).parents[2] / "web"
STYLE = Path(__file__).parent / "style"


@dataclass
class Behavior:
    """How the server responds; tests change it while it runs."""

    transports: list[str] = field(default_factory=lambda: ["webrtc", "mjpeg"])
    required_context: list[str] = field(default_factory=list)
    fields: dict[str, Any] | None = field(default_factory=lambda: FIELDS)
    loading_polls: int = 0
    load_error: str | None = None
    busy_responses: int = 0
    unavailable: tuple[str, str] = ("full", "All 4 sessions are in use.")  # the problem of a busy response
    rejected_field: str | None = None
    whep: str = "serve"  # "serve", "refuse" or "silent" (answers, but sends no packet)
    video: str = "serve"  # "serve", "refuse" or "garbage" (H.264 that cannot be decoded)
    jpegs: str = "serve"  # over the video WebSocket: "serve", "refuse" or "silent" (closes without a picture)
    keys: list[dict[str, str]] = field(default_factory=lambda: KEYS)
    pointer: str | None = "lock"
    sized: bool = True  # whether the demo declares the size of its frames
    shows_frames: bool = True  # whether Motion JPEG has frames
    page: str | None = None
    style: dict[str, Any] = field(default_factory=dict)  # in addition to the defaults
    pixel_aspect: float = 1.0
    scaling: str = "smooth"
    recording: str | None = None  # "serve", or the reason for which a recording stops


class MockServer:
    """Runs in its own thread on a free port; use it as a context manager."""

    def __init__(self, behavior: Behavior) -> None:
        self.behavior = behavior
        self.messages: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str, Any]] = []
        self.alive: set[str] = set()
        self.action_seq: int | None = None
        self.acknowledged = -1
        self.frames_sent = 0  # over MJPEG and WebCodecs
        self._changed = threading.Condition()
        self._sockets: set[WebSocket] = set()
        self._peers: dict[str, MockPeer] = {}
        self._created = 0
        self._recordings = 0
        self._config = uvicorn.Config(
            Starlette(routes=self._routes()), port=0, log_level="warning", ws="websockets-sansio", lifespan="off"
        )
        self._server = uvicorn.Server(self._config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> MockServer:
        self._thread.start()
        self.wait_for(lambda: self._server.started and bool(self._server.servers), "the server to start")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=60)

    @property
    def url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/"

    def wait_for(self, condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        with self._changed:
            deadline = time.monotonic() + timeout
            while not condition():
                if time.monotonic() > deadline:
                    raise AssertionError(f"waited {timeout} s for {what}")
                self._changed.wait(0.05)

    def edges(self) -> list[dict[str, Any]]:
        return [edge for message in self.messages for edge in message.get("edges", ())]

    def fields(self) -> dict[str, Any]:
        """The newest value of each field."""
        return {key: value for message in self.messages for key, value in message.get("fields", {}).items()}

    def count(self, method: str, ending: str) -> int:
        return sum(1 for call in self.calls if call[0] == method and call[1].endswith(ending))

    @property
    def created(self) -> list[Any]:
        """Contexts of the requested sessions."""
        return [body["context"] for method, path, body in self.calls if path == "/api/sessions"]

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the page over every WebSocket."""
        assert self._loop is not None
        self.wait_for(lambda: bool(self._sockets), "a WebSocket of the page")
        for socket in list(self._sockets):
            asyncio.run_coroutine_threadsafe(socket.send_json(message), self._loop).result(5)

    def drop_connections(self) -> None:
        """Close every WebRTC connection; the sessions stay."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._close_peers(), self._loop).result(5)

    def drop_controls(self) -> None:
        """Close every WebSocket of the controls and every data channel; the sessions stay."""
        assert self._loop is not None
        for socket in list(self._sockets):
            asyncio.run_coroutine_threadsafe(socket.close(1012), self._loop).result(5)
        self.drop_connections()

    def end_sessions(self) -> None:
        """End all sessions and their video, as after an idle timeout."""
        self.alive.clear()
        self.drop_connections()

    def _run(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        await self._server.serve()
        await self._close_peers()

    async def _close_peers(self) -> None:
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            await peer.close()

    def _routes(self) -> list[Any]:
        one = "/api/sessions/{id}"
        return [
            Route("/api/demo", self._demo),
            Route("/api/sessions", self._create, methods=["POST"]),
            Route(one, self._self, methods=["GET", "PATCH", "DELETE"]),
            Route(f"{one}/reset", self._reset, methods=["POST"]),
            Route(f"{one}/recording", self._recording, methods=["GET", "POST", "DELETE"]),
            Route(f"{one}/recording/{{name}}", self._recording_file),
            Route(f"{one}/leave", self._leave, methods=["POST"]),
            Route(f"{one}/whep", self._whep, methods=["POST"]),
            Route(f"{one}/whep/1", self._whep_resource, methods=["PATCH", "DELETE"]),
            Route(f"{one}/stream.mjpeg", self._mjpeg),
            WebSocketRoute(f"{one}/video", self._video),
            WebSocketRoute(f"{one}/controls", self._controls),
            Mount("/style", StaticFiles(directory=STYLE)),
            Mount("/demos/maze", StaticFiles(directory=WEB, html=True)),
            Mount("/", StaticFiles(directory=WEB, html=True)),
        ]

    def _record(self, request: Request, body: object = None) -> None:
        with self._changed:
            self.calls.append((request.method, request.url.path, body))
            self._changed.notify_all()

    def _authorized(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer secret-{request.path_params['id']}"

    async def _demo(self, request: Request) -> Response:
        self._record(request)
        state, progress = "ready", {"message": "ready", "fraction": 1.0}
        if self.behavior.loading_polls > 0:
            self.behavior.loading_polls -= 1
            state, progress = "loading", {"message": "Reading weights 3 of 8", "fraction": 0.375}
        elif self.behavior.load_error:
            state = "failed"
        described = describe(self.behavior.fields, self.behavior.keys, self.behavior.pointer)
        more = {"state": state, "progress": progress, "error": self.behavior.load_error}
        context = {"required_context": self.behavior.required_context, "transports": self.behavior.transports}
        more["recording"] = self.behavior.recording is not None
        shown = {"pixel_aspect": self.behavior.pixel_aspect, "scaling": self.behavior.scaling}
        size = {} if self.behavior.sized else {"width": None, "height": None}
        more["video"] = {**described["video"], **shown, **size}
        more["style"] = {**described["style"], **self.behavior.style}
        return JSONResponse({**described, **more, **context, "page": self.behavior.page})

    async def _create(self, request: Request) -> Response:
        body = await request.json()
        self._record(request, body)
        if self.behavior.busy_responses > 0:
            self.behavior.busy_responses -= 1
            kind, detail = self.behavior.unavailable
            return problem(500 if kind == "engine-failed" else 503, kind, detail, headers={"Retry-After": "2"})
        name = self.behavior.rejected_field
        if name is not None:
            self.behavior.rejected_field = None
            detail = "must be the name of a theme"
            return problem(422, "invalid-context", detail, errors=[{"pointer": f"#/context/{name}", "detail": detail}])
        self._created += 1
        session = f"s{self._created}"
        self.alive.add(session)
        at = f"/api/sessions/{session}"
        links = {
            "self": at,
            "leave": f"{at}/leave",
            "invitations": f"{at}/invitations",
            "qr": f"{at}/qr",
            "reset": f"{at}/reset",
            "whep": f"{at}/whep",
            "frame": f"{at}/frame.jpg",
        }
        links |= {"mjpeg": f"{at}/stream.mjpeg", "video": f"{at}/video", "controls": f"{at}/controls"}
        if self.behavior.recording is not None:
            links["recording"] = f"{at}/recording"
        answer = {"session_id": session, "token": f"secret-{session}", "links": links}
        return JSONResponse(answer, status_code=201)

    async def _self(self, request: Request) -> Response:
        body = await request.json() if request.method == "PATCH" else None
        self._record(request, body)
        if not self._authorized(request):
            return problem(401, "token", "The token is missing or wrong.")
        if request.path_params["id"] not in self.alive:
            return problem(404, "no-session", "There is no such session.")
        if request.method == "DELETE":
            self.alive.discard(request.path_params["id"])
            return Response(status_code=204)
        described = {"epoch": 1, "state": "running", "active": True, "fields": {}, "publisher": None}
        return JSONResponse({"session_id": request.path_params["id"], **described, **(body or {})})

    async def _leave(self, request: Request) -> Response:
        self._record(request)
        return Response(status_code=204)

    async def _recording(self, request: Request) -> Response:
        """Each recording has two files, as after a change of the video size."""
        self._record(request)
        if not self._authorized(request):
            return problem(401, "token", "The token is missing or wrong.")
        session = request.path_params["id"]
        ended = session not in self.alive or self.behavior.recording != "serve"
        runs = request.method == "POST" or (request.method == "GET" and not ended)
        if request.method == "POST":
            self._recordings += 1
        parts = [part for number in range(1, self._recordings + 1) for part in (f"{number}", f"{number}-2")]
        files = [
            {"name": f"recording-{part}.mp4", "bytes": 2_345_678, "href": f"{request.url.path}/recording-{part}.mp4"}
            for part in parts
        ]
        reason = None if runs else self.behavior.recording
        state = "recording" if runs else "stopped"
        answer = {"state": state, "reason": reason, "seconds": 64.5, "bytes": 2 * 2_345_678, "files": files}
        return JSONResponse(answer, 201 if request.method == "POST" else 200)

    async def _recording_file(self, request: Request) -> Response:
        self._record(request)
        if request.query_params.get("token") != f"secret-{request.path_params['id']}":
            return problem(401, "token", "The token is missing or wrong.")
        return Response(b"mp4 data", media_type="video/mp4", headers={"Content-Disposition": "attachment"})

    async def _reset(self, request: Request) -> Response:
        self._record(request, await request.json())
        return JSONResponse({"epoch": 2})

    async def _whep(self, request: Request) -> Response:
        self._record(request)
        if not self._authorized(request):
            return problem(401, "token", "The token is missing or wrong.")
        if self.behavior.whep == "refuse":
            return problem(503, "no-webrtc", "No UDP port is free.")
        peer = MockPeer(self._receive, lambda: self.action_seq, paint)
        self._peers[request.path_params["id"]] = peer
        answer = await peer.answer((await request.body()).decode())
        if self.behavior.whep == "silent":
            await peer.close()
            answer = "".join(line for line in answer.splitlines(True) if not line.startswith("a=candidate"))
        headers = {"Location": f"{request.url.path}/1", "ETag": '"1"'}
        return Response(answer, 201, headers, media_type="application/sdp")

    async def _whep_resource(self, request: Request) -> Response:
        self._record(request, (await request.body()).decode())
        if request.method == "DELETE" and (peer := self._peers.pop(request.path_params["id"], None)):
            await peer.close()
        return Response(status_code=204)

    async def _mjpeg(self, request: Request) -> Response:
        self._record(request)
        session = request.path_params["id"]
        if request.query_params.get("token") != f"secret-{session}":
            return problem(401, "token", "The token is missing or wrong.")
        return StreamingResponse(self._parts(session), media_type="multipart/x-mixed-replace; boundary=frame")

    async def _parts(self, session: str) -> AsyncIterator[bytes]:
        yield b"--frame\r\n"
        index = 0
        while session in self.alive and not self._server.should_exit:
            if self.behavior.shows_frames:
                yield part(index, self.action_seq)
                index += 1
                self.frames_sent += 1
            await asyncio.sleep(1 / FPS)

    async def _video(self, socket: WebSocket) -> None:
        session = socket.path_params["id"]
        is_jpeg = socket.query_params.get("codec") == "jpeg"
        behavior = self.behavior.jpegs if is_jpeg else self.behavior.video
        if behavior == "refuse" or socket.query_params.get("token") != f"secret-{session}":
            await socket.close(4401)
            return
        await socket.accept()
        if behavior == "silent":
            await socket.close(1001)
            return
        sending = asyncio.ensure_future((self._jpegs if is_jpeg else self._packets)(socket, session))
        try:
            while True:
                message = await socket.receive_json()
                with self._changed:
                    self.acknowledged = message.get("number", self.acknowledged)
                    self._changed.notify_all()
        except WebSocketDisconnect:
            sending.cancel()

    async def _jpegs(self, socket: WebSocket, session: str) -> None:
        number = 0
        while session in self.alive and not self._server.should_exit:
            if self.behavior.shows_frames:
                await socket.send_bytes(jpeg_packet(number, self.action_seq))
                number += 1
                self.frames_sent += 1
            await asyncio.sleep(1 / FPS)
        await socket.close(1001)

    async def _packets(self, socket: WebSocket, session: str) -> None:
        number = 0
        while session in self.alive and not self._server.should_exit:
            await socket.send_bytes(packet(number, self.action_seq, usable=self.behavior.video != "garbage"))
            number += 1
            self.frames_sent += 1
            await asyncio.sleep(1 / FPS)
        await socket.close(1001)

    async def _controls(self, socket: WebSocket) -> None:
        if socket.query_params.get("token") != f"secret-{socket.path_params['id']}":
            await socket.close(4401)
            return
        await socket.accept()
        self._sockets.add(socket)
        try:
            while True:
                self._receive(await socket.receive_text(), lambda text: reply(socket, text))
        except WebSocketDisconnect:
            self._sockets.discard(socket)

    def _receive(self, text: str, answer: Callable[[str], None]) -> None:
        message = json.loads(text)
        with self._changed:
            self.messages.append(message)
            if message["type"] == "controls":
                self.action_seq = message["seq"]
            self._changed.notify_all()
        if message["type"] == "ping":
            times = {"t": message["t"], "server_ns": time.monotonic_ns()}
            answer(json.dumps({"v": 1, "type": "pong", "seq": message["seq"], **times}))


def reply(socket: WebSocket, text: str) -> None:
    task = asyncio.ensure_future(socket.send_text(text))
    task.add_done_callback(lambda done: done.exception())


def problem(status: int, kind: str, detail: str, *, headers: dict[str, str] | None = None, **more: object) -> Response:
    body = {"type": f"urn:realtime-engine:problem:{kind}", "title": kind, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, headers, media_type="application/problem+json")
