"""The description of the demo, for clients."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from ...core.contract import EngineManifest
from ...infra.demo import Demo, FrameFormat
from ...infra.webrtc import IceServer
from ..page import prefix_of, style_prefix_of
from ..resources import frame_rate
from ..runtime import Runtime, runtime_of
from ..security import bearer, check_access

router = APIRouter(tags=["demo"])

TRANSPORTS = ("webrtc", "webcodecs", "mjpeg")


@router.get("/demo")
async def demo(request: Request) -> dict[str, Any]:
    """Name, controls and state of the demo, and the transports that show it.

    Requires the server's token, or that of an invitation.
    """
    runtime = runtime_of(request)
    if not runtime.is_invited(bearer(request)):
        check_access(request, runtime.config.token)
    described, host = runtime.demo, runtime.host
    return {
        "revision": runtime.revision,
        "name": described.name,
        "title": described.title,
        "description": described.description,
        "state": host.state.value,
        "progress": runtime.progress(),
        "error": host.error,
        "manifest": None if host.manifest is None else asdict(host.manifest),
        "video": None if host.manifest is None else _video(host.manifest, described.frames),
        "video_input": None if described.takes_video is None else asdict(described.takes_video),
        "recording": runtime.recordings is not None,
        "controls": described.controls.describe(),
        "required_context": list(described.required_context),
        "transports": list(TRANSPORTS),
        "ice_servers": [_ice_server(server) for server in runtime.config.ice.servers_for(secrets.token_hex(4))],
        "ice_transport_policy": "relay" if runtime.config.relay_only else "all",
        "webrtc_route": None if runtime.reachability is None else runtime.reachability.kind.value,
        "page": _page(runtime),
        "gallery": runtime.gallery,
        "style": _style(described),
    }


def _style(described: Demo) -> dict[str, Any]:
    style = described.style
    return {
        "base": None if style.folder is None else style_prefix_of(described).removeprefix("/") + "/",
        "files": list(style.files),
        "logo": style.logo,
        "help": style.help,
        "footer": style.footer,
        "hud": list(style.hud),
        "theme": style.theme,
        "colors": dict(style.colors),
    }


def _video(manifest: EngineManifest, frames: FrameFormat) -> dict[str, Any]:
    """``width`` and ``height`` are in pixels, or ``None`` if the manifest declares no shape."""
    video: dict[str, Any] = {
        "width": None,
        "height": None,
        "fps": frame_rate(manifest),
        "pixel_aspect": frames.pixel_aspect,
        "scaling": frames.scaling,
    }
    if len(manifest.chunk_shape) == len(frames.layout):
        size = dict(zip(frames.layout, manifest.chunk_shape, strict=True))
        video |= {"width": size["w"] * size.get("v", 1), "height": size["h"]}
    return video


def _ice_server(server: IceServer) -> dict[str, str]:
    """As a browser's ``RTCIceServer``."""
    described = {"urls": server.url, "username": server.username, "credential": server.credential}
    return {name: value for name, value in described.items() if value is not None}


def _page(runtime: Runtime) -> str | None:
    return None if runtime.demo.page is None else prefix_of(runtime.demo).removeprefix("/") + "/"
