"""Description and synthetic frames of the mock server's demo."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from realtime_engine.infra.webcodecs import VideoPacket

WIDTH, HEIGHT, FPS = 640, 360, 30

FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "default": "a quiet stone maze at dusk",
            "title": "Prompt",
            "description": "What the world looks like. Enter sends it.",
            "maxLength": 200,
        },
        "theme": {"$ref": "#/$defs/Theme", "default": "stone", "description": "Colors of walls and sky."},
        "fog": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": 0.4,
            "title": "Fog",
            "description": "Density of the fog.",
        },
        "seed": {"type": "integer", "minimum": 0, "maximum": 2147483647, "default": 7, "title": "Seed"},
        "sprites": {"type": "boolean", "default": True, "title": "Moving lights"},
        "image": {
            "anyOf": [{"type": "string", "contentMediaType": "image/*"}, {"type": "null"}],
            "default": None,
            "title": "First frame",
        },
    },
    "$defs": {"Theme": {"type": "string", "enum": ["stone", "ice", "lava"], "title": "Theme"}},
}

KEYS = [
    {"code": "KeyW", "label": "forward", "group": "move"},
    {"code": "KeyS", "label": "back", "group": "move"},
    {"code": "KeyA", "label": "left", "group": "move"},
    {"code": "KeyD", "label": "right", "group": "move"},
    {"code": "Space", "label": "jump", "group": "act"},
    {"code": "ShiftLeft", "label": "run", "group": "act"},
]


def describe(fields: dict[str, Any] | None, keys: list[dict[str, str]], pointer: str | None) -> dict[str, Any]:
    """The constant part of ``GET /api/demo``."""
    controls = {
        "v": 1,
        "keys": keys,
        "opposing": [["KeyS", "KeyW"], ["KeyA", "KeyD"]],
        "aliases": {"ArrowUp": "KeyW", "ArrowDown": "KeyS", "ArrowLeft": "KeyA", "ArrowRight": "KeyD"},
        "pointer": pointer,
        "wheel": True,
        "sticks": ["move", "look"],
        "gamepad": True,
        "fields": fields,
        "defaults": {},
    }
    return {
        "revision": "1",
        "name": "maze",
        "title": "The Maze",
        "description": "A first-person world, rendered live by the engine. Each session has its own copy.",
        "manifest": {"max_sessions": 4, "chunk_shape": [1, HEIGHT, WIDTH, 3], "rate_hz": FPS, "frames_per_chunk": 1},
        "video": {"width": WIDTH, "height": HEIGHT, "fps": FPS, "pixel_aspect": 1.0, "scaling": "smooth"},
        "style": {
            "base": None,
            "files": [],
            "logo": None,
            "help": "",
            "footer": "",
            "hud": [],
            "theme": "auto",
            "colors": {},
        },
        "controls": controls,
        "ice_servers": [],
    }


def part(index: int, action_seq: int | None) -> bytes:
    data = jpeg(index % 21)
    action = "" if action_seq is None else action_seq
    identity = f"session=s;epoch=1;seq={index};index=0;action={action}"
    head = f"Content-Type: image/jpeg\r\nContent-Length: {len(data)}\r\nX-Frame: {identity}\r\n\r\n"
    return head.encode() + data + b"\r\n--frame\r\n"


def jpeg_packet(number: int, action_seq: int | None) -> bytes:
    """A picture as a message of the video WebSocket."""
    timestamp_us = number * 1_000_000 // FPS
    return VideoPacket(number, True, timestamp_us, 1, number, 0, action_seq, jpeg(number % 21)).encode()


@cache
def jpeg(index: int) -> bytes:
    data: bytes = simplejpeg.encode_jpeg(paint(index), quality=80, colorspace="RGB")
    return data


def paint(index: int) -> NDArray[np.uint8]:
    """Draw a corridor that moves with the index.

    Returns:
        (360, 640, 3) uint8 RGB.
    """
    y, x = np.mgrid[-1 : 1 : HEIGHT * 1j, -1.78 : 1.78 : WIDTH * 1j]
    depth = 1 / np.maximum(0.08, np.maximum(np.abs(x) * 0.7, np.abs(y)))
    rings = 0.5 + 0.5 * np.sin(depth * 5 + index * 0.3)
    light = np.clip(1.3 / depth, 0, 1) * (0.35 + 0.65 * rings)
    pixels: NDArray[np.uint8] = (light[..., None] * np.array([255, 190, 120])).astype(np.uint8)
    return pixels
