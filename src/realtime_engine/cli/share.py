"""``serve --share``: which tunnels could publish the server, and what the settings mean for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..server import ServerConfig


@dataclass(frozen=True)
class ShareNote:
    """A line of the report.

    Attributes:
        text: the line.
        is_warning: whether it names something to change.
    """

    text: str
    is_warning: bool = False


def share_notes(config: ServerConfig, url: str, find: Callable[[str], str | None] = shutil.which) -> list[ShareNote]:
    """The commands that publish a server by a tunnel, and what does not work or is open in its settings.

    Args:
        config: the settings of the server.
        url: its address on this machine.
        find: finds a program; ``None`` if it is not installed.
    """
    return [*_tunnels(url, find), *_access(config), *_media(config), *_clients(config)]


def _tunnels(url: str, find: Callable[[str], str | None]) -> list[ShareNote]:
    port = urlsplit(url).port
    commands = {
        "cloudflared": f"cloudflared tunnel --url {url.rstrip('/')}",
        "ssh": f"ssh -N -R 8000:127.0.0.1:{port} USER@HOST",
    }
    found = [ShareNote(f"run: {command}") for program, command in commands.items() if find(program) is not None]
    missing = [program for program in commands if find(program) is None]
    if not found:
        return [ShareNote(f"no tunnel is installed: install {' or '.join(missing)}", True)]
    absent = [ShareNote(f"not installed: {program}, for {commands[program]}") for program in missing]
    return [*found, *absent]


def _access(config: ServerConfig) -> list[ShareNote]:
    if config.token is not None:
        return [ShareNote("append the part of the address after ? to that of the tunnel: it contains the token")]
    if config.is_loopback and not config.allowed_origins:
        return [
            ShareNote(
                "without a token, this server answers to the names of this machine only: add --token, or "
                "--allowed-origin https://NAME with the name of the tunnel for a demo that is open to everyone",
                True,
            )
        ]
    return [ShareNote("no token: everyone who knows the address can play; --token limits it", True)]


def _media(config: ServerConfig) -> list[ShareNote]:
    video = "video needs no UDP: through the tunnel it is H.264 or Motion JPEG over a WebSocket"
    insecure = "an address with http:// has Motion JPEG only; the tunnel's https:// address has both"
    if config.relay_only or config.ice_servers:
        video += ", and WebRTC by the ICE servers where the page reaches them"
    return [ShareNote(video), ShareNote(insecure)]


def _clients(config: ServerConfig) -> list[ShareNote]:
    if config.max_per_client is None:
        return []
    return [
        ShareNote(
            "--max-per-client counts by address: a tunnel without X-Forwarded-For, such as ssh -R, makes all users one",
            True,
        )
    ]
