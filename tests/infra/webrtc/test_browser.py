"""A real browser plays what is sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.async_api import async_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from realtime_engine.infra.encoding import Codec
from realtime_engine.infra.publisher import FramePublisher
from realtime_engine.infra.webrtc import ViewerCloseReason, ViewerPeer

from ...browser import FLAGS, chromium_path
from .support import Player, luma, shared, until

AUTOPLAY = "--autoplay-policy=no-user-gesture-required"

PAGE = """<!doctype html><meta charset=utf-8><title>viewer</title><video muted autoplay playsinline></video><script>
const video = document.querySelector("video");
const seen = [], identities = new Map(), replies = [];
let began = 0, firstPicture = 0, pc = null, channel = null;

function read() {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  const context = canvas.getContext("2d");
  context.drawImage(video, 0, 0);
  const row = context.getImageData(0, canvas.height >> 1, canvas.width, 1).data;
  let best = 0;
  for (let x = 0; x < canvas.width; x++) if (row[4 * x + 2] > row[4 * best + 2]) best = x;
  const mean = [0, 1, 2].map(c => { let s = 0; for (let x = 0; x < canvas.width; x++) s += row[4 * x + c];
                                    return s / canvas.width; });
  return {width: canvas.width, height: canvas.height, brightest: best, mean};
}

function onFrame(now, meta) {
  firstPicture ||= performance.now() - began;
  seen.push({rtp: meta.rtpTimestamp, ...read()});
  video.requestVideoFrameCallback(onFrame);
}

async function watch(codec) {
  began = performance.now();
  pc = new RTCPeerConnection();
  const transceiver = pc.addTransceiver("video", {direction: "recvonly"});
  const all = RTCRtpReceiver.getCapabilities("video").codecs;
  transceiver.setCodecPreferences(all.filter(c => c.mimeType === "video/" + codec || c.mimeType === "video/rtx"));
  pc.ontrack = e => { video.srcObject = new MediaStream([e.track]); video.requestVideoFrameCallback(onFrame); };
  channel = pc.createDataChannel("controls");
  channel.onmessage = e => {
    const message = JSON.parse(e.data);
    if (message.type === "frame") identities.set(message.rtp, message.seq); else replies.push(message);
  };
  channel.onopen = () => channel.send("hello");
  await pc.setLocalDescription();
  const response = await fetch("/whep", {method: "POST", body: pc.localDescription.sdp});
  await pc.setRemoteDescription({type: "answer", sdp: await response.text()});
}
</script>"""


class Site:
    """A page and a WHEP resource over one source."""

    def __init__(self, source: FramePublisher) -> None:
        self.video = shared(source)
        self.peers: list[ViewerPeer] = []
        self.reasons: asyncio.Queue[ViewerCloseReason] = asyncio.Queue()
        self.accept_ms = 0.0
        self.url = ""

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Site]:
        routes = [Route("/", self.page), Route("/whep", self.whep, methods=["POST"])]
        app = Starlette(routes=routes)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none", lifespan="off"))
        server.install_signal_handlers = lambda: None
        serving = asyncio.create_task(server.serve())
        await until(lambda: server.started, pause_s=0.01)
        self.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        try:
            yield self
        finally:
            for peer in self.peers:
                await peer.close()
            server.should_exit = True
            await serving

    async def page(self, request: Request) -> Response:
        return HTMLResponse(PAGE)

    async def whep(self, request: Request) -> Response:
        offer = (await request.body()).decode()
        began = time.perf_counter()
        peer = await ViewerPeer.from_offer(
            offer,
            source=self.video,
            on_controls=lambda text: [json.dumps({"type": "reply", "text": text})],
            on_closed=self.reasons.put_nowait,
        )
        self.accept_ms = 1000 * (time.perf_counter() - began)
        self.peers.append(peer)
        return Response(peer.answer, 201, media_type="application/sdp", headers={"Location": "/whep/1"})


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Any]:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch_persistent_context(
            str(tmp_path / "profile"),
            executable_path=chromium_path(),
            headless=True,
            args=[*FLAGS, "--autoplay-policy=no-user-gesture-required"],
        )
        yield await browser.new_page()
        await browser.close()


@pytest.mark.parametrize("codec", list(Codec))
async def test_chromium_shows_the_frames_and_their_identity(
    page: Any, codec: Codec, capsys: pytest.CaptureFixture[str]
) -> None:
    source = FramePublisher()
    site = Site(source)
    async with Player(source, period_s=1 / 30) as player, site.serve():
        await page.goto(site.url)
        await page.evaluate("codec => watch(codec)", codec.value)
        await page.wait_for_function("seen.filter(f => identities.has(f.rtp)).length >= 20")
        state = await page.evaluate(
            "({seen: seen.map(f => ({...f, seq: identities.get(f.rtp)})), replies, firstPicture,"
            " decoder: pc.getReceivers()[0].getParameters().codecs[0].mimeType})"
        )
        assert site.peers[0].codec is codec
        known = [frame for frame in state["seen"] if frame.get("seq") is not None]
        for frame in known:
            pixels = player.pictures[frame["seq"]]
            assert (frame["width"], frame["height"]) == (320, 180)
            row = luma(pixels)[90]
            bar = int(row.argmax())
            assert bar - 3 <= frame["brightest"] <= bar + 320 // 16 + 3
            assert frame["mean"] == pytest.approx(list(pixels[90].mean(axis=0)), abs=4)
        assert len({frame["brightest"] for frame in known}) > 5
        assert state["replies"] == [{"type": "reply", "text": "hello"}]
        await page.evaluate("pc.close()")
        assert await site.reasons.get() is ViewerCloseReason.VIEWER
    with capsys.disabled():
        report = f"{codec.value}: first picture {state['firstPicture']:.0f} ms after the offer was begun"
        sys.stdout.write(f"\n{report}, answered in {site.accept_ms:.0f} ms\n")
