from __future__ import annotations

from collections.abc import Collection

import pytest

from realtime_engine.cli.share import share_notes
from realtime_engine.server import ServerConfig

from .support import Command

URL = "http://127.0.0.1:8123/"


def lines(config: ServerConfig, installed: Collection[str] = ("ssh", "cloudflared")) -> list[str]:
    notes = share_notes(config, URL, lambda name: f"/bin/{name}" if name in installed else None)
    return [f"! {note.text}" if note.is_warning else note.text for note in notes]


def test_the_commands_of_installed_tunnels_are_printed() -> None:
    assert lines(ServerConfig())[:2] == [
        "run: cloudflared tunnel --url http://127.0.0.1:8123",
        "run: ssh -N -R 8000:127.0.0.1:8123 USER@HOST",
    ]
    assert lines(ServerConfig(), ["ssh"])[:2] == [
        "run: ssh -N -R 8000:127.0.0.1:8123 USER@HOST",
        "not installed: cloudflared, for cloudflared tunnel --url http://127.0.0.1:8123",
    ]
    assert lines(ServerConfig(), [])[0] == "! no tunnel is installed: install cloudflared or ssh"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ServerConfig(), "! without a token, this server answers to the names of this machine only"),
        (
            ServerConfig(allowed_origins=("https://name.example",)),
            "! no token: everyone who knows the address can play",
        ),
        (ServerConfig(token="open-sesame"), "append the part of the address after ?"),
        (ServerConfig(max_per_client=1), "! --max-per-client counts by address"),
    ],
)
def test_settings_that_matter_for_a_tunnel_are_checked(config: ServerConfig, expected: str) -> None:
    assert any(line.startswith(expected) for line in lines(config))


def test_the_token_is_not_repeated() -> None:
    assert not any("open-sesame" in line for line in lines(ServerConfig(token="open-sesame")))


def test_serve_prints_them_after_the_address() -> None:
    with Command("serve", "maze", "--port", "0", "--share", "--token", "open-sesame") as running:
        running.wait_for_output(r"share +.*WebSocket")
        assert running.interrupt() == 0
