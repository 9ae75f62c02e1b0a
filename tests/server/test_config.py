import re
from dataclasses import replace
from pathlib import Path

import pytest

from realtime_engine.infra.webrtc import IceConfig, IceServer, TurnSecret, UdpPorts
from realtime_engine.server import ServerConfig


def test_the_defaults_listen_on_loopback_only() -> None:
    config = ServerConfig()
    assert config.is_loopback
    assert config.token is None and not config.open


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    assert ServerConfig(host=host).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_other_addresses_need_a_token_or_open(host: str) -> None:
    with pytest.raises(ValueError, match=f"host '{host}' is reachable from other machines: set a token .* or set open"):
        ServerConfig(host=host)
    assert not ServerConfig(host=host, token="long enough").is_loopback
    assert ServerConfig(host=host, open=True).open


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_token_can_be_read_from_a_file(tmp_path: Path, mark: bytes) -> None:
    (tmp_path / "token").write_bytes(mark + b"long enough\n")
    config = ServerConfig(host="0.0.0.0", token_file=str(tmp_path / "token"))
    assert config.token == "long enough"
    assert "long enough" not in repr(config)
    assert replace(config, port=9000).token == "long enough"


@pytest.mark.parametrize(
    ("content", "token", "text"),
    [
        (None, None, "token_file {path!r} cannot be read: No such file or directory"),
        (b"\xff\xfe", None, "token_file {path!r} cannot be read: it is not UTF-8 text"),
        (b"\n", None, "token_file {path!r} is empty"),
        (b"\xef\xbb\xbf\n", None, "token_file {path!r} is empty"),
        (b"two lines\nof a token", None, "token must consist of printable ASCII characters in one line"),
        (b"from the file", "from elsewhere", "token and token_file {path!r} differ: set one of them"),
    ],
)
def test_a_bad_token_file_is_named(tmp_path: Path, content: bytes | None, token: str | None, text: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(text.format(path=str(path)))):
        ServerConfig(token=token, token_file=str(path))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"port": 70000}, "port must be an integer from 0 to 65535, got 70000"),
        ({"token": "short"}, "token must have at least 8 characters"),
        ({"token": "s\u00e9cr\u00e8ts\u00e9cr\u00e8t"}, "token must consist of printable ASCII characters"),
        ({"idle_timeout_s": 0}, "idle_timeout_s must be a number above 0, got 0"),
        ({"viewer_grace_s": -1}, "viewer_grace_s must be a number of 0 or more, got -1"),
        ({"media_age_budget_ms": float("nan")}, "media_age_budget_ms must be a number of 0 or more"),
        ({"jpeg_quality": 0}, "jpeg_quality must be an integer from 1 to 100, got 0"),
        ({"bitrate": 9_999}, "bitrate must be 10000 to 250000000 bits per second, or None, got 9999"),
        ({"bitrate": 2_000_000_000}, "bitrate must be 10000 to 250000000 bits per second"),
        ({"encoder": "x265"}, "encoder must be one of auto, software, h264_nvenc, .*, got 'x265'"),
        (
            {"allowed_origins": ("example.org",)},
            "allowed_origins must look like https://example.org .*; got 'ex",
        ),
        ({"recordings": "/nowhere"}, "recordings must be an existing, writable directory, got '/nowhere'"),
        ({"recording_max_bytes": 0}, "recording_max_bytes must be a number above 0, got 0"),
        ({"udp_ports": "high"}, "udp_ports must look like 50000-50100, got 'high'"),
        ({"public_address": "a.example"}, "public_address must be an IP address such as 203.0.113.5, got 'a.example'"),
        ({"relay_only": True}, "relay_only needs a TURN server among ice_servers"),
        ({"turn_secret": "s"}, "turn_secret is for a TURN server"),
        ({"allowed_origins": ("https://a.org/",)}, "allowed_origins must look like"),
        ({"allowed_origins": ("https://a.org; script-src *",)}, "allowed_origins must look like"),
        ({"allowed_origins": ("https://a.org:443",)}, "allowed_origins must look like"),
        ({"allowed_origins": ("https://A.org",)}, "allowed_origins must look like"),
        ({"allowed_origins": ("https://*.org",)}, "allowed_origins must look like"),
        ({"root_path": "/api"}, "root_path must not begin with /api"),
    ],
)
def test_a_bad_setting_is_named(given: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ServerConfig(**given)


def test_the_ice_settings_follow_from_the_configuration() -> None:
    servers = (IceServer("turn:t.example"),)
    config = ServerConfig(
        ice_servers=servers,
        turn_secret="north",
        relay_only=True,
        udp_ports="50000-50100",
        public_address="203.0.113.5",
    )
    assert config.ice == IceConfig(
        servers,
        turn_secret=TurnSecret("north"),
        relay_only=True,
        udp_ports=UdpPorts(50000, 50100),
        public_address="203.0.113.5",
    )
    assert "north" not in repr(config)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "60"])
def test_a_demo_is_unloaded_after_a_time_above_zero(value: object) -> None:
    with pytest.raises(ValueError, match="unload_after_s must be a number above 0, got"):
        ServerConfig(unload_after_s=value)  # type: ignore[arg-type]
    assert ServerConfig().unload_after_s is None
