"""What the person who runs the server chooses."""

from __future__ import annotations

import ipaddress
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..infra.encoding import ENCODER_CHOICES, MAX_BITRATE, MIN_BITRATE
from ..infra.webrtc import IceConfig, IceServer, TurnSecret, UdpPorts

_MIN_TOKEN = 8
_ABOVE_ZERO = (
    "idle_timeout_s",
    "heartbeat_s",
    "stall_timeout_s",
    "shutdown_timeout_s",
    "max_body_bytes",
    "recording_max_bytes",
    "recordings_max_bytes",
)


@dataclass(frozen=True)
class ServerConfig:
    """Settings of the server; the command line makes its flags of them.

    Attributes:
        host: address to listen on; ``0.0.0.0`` is every one of this machine.
        port: port to listen on; 0 lets the system choose.
        token: what a client must show before it may take a place; ``None`` asks for nothing.
        token_file: file that holds the token, such as a container's secret; surrounding whitespace does not count.
        open: serve everybody who reaches an address other than this machine's own, without a token.
        idle_timeout_s: seconds without viewers and controls after which a session is over.
        viewer_grace_s: seconds without viewers after which a session is paused.
        media_age_budget_ms: greatest delay, in milliseconds, by which pacing may even out late chunks.
        jpeg_quality: 1 (small) to 100 (good), of MJPEG and single pictures.
        bitrate: bits per second of WebRTC video, 10 thousand to 250 million; ``None`` lets the picture's size decide.
        encoder: what makes H.264: ``auto`` (hardware that works, else software), ``software``, ``h264_nvenc``,
            ``h264_vaapi`` or ``h264_videotoolbox``.
        ice_servers: STUN and TURN servers, for viewers and for this side.
        turn_secret: shared with the TURN server, to make each viewer credentials for a day.
        relay_only: send video by the TURN server and no other way.
        udp_ports: UDP ports for video, such as ``50000-50100``; by default the system chooses.
        public_address: IP address that viewers send to instead of this machine's own, behind a NAT or in a container.
        otel: send the times of frames as OpenTelemetry spans, to where ``OTEL_EXPORTER_OTLP_ENDPOINT`` says.
        recordings: folder for recordings, which sessions may make then; without one there are none.
        recording_max_bytes: size of one recording.
        recordings_max_bytes: size of everything in that folder.
        allowed_origins: other sites, such as ``https://example.org``, whose pages may use this server.
        heartbeat_s: seconds without news after which a connection is given a sign of life.
        max_body_bytes: size of the largest request that is read.
        record_controls: folder into which each session's controls are written as a log that ``realtime-engine run``
            reads.
        stall_timeout_s: seconds without an answer of the engine after which its step counts as stuck.
        shutdown_timeout_s: seconds that running requests and the engine have to end.

    Raises:
        ValueError: naming the field.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    open: bool = False
    idle_timeout_s: float = 30.0
    viewer_grace_s: float = 2.0
    media_age_budget_ms: float = 100.0
    jpeg_quality: int = 80
    bitrate: int | None = None
    encoder: str = "auto"
    ice_servers: tuple[IceServer, ...] = ()
    turn_secret: str | None = field(default=None, repr=False)
    relay_only: bool = False
    udp_ports: str | None = None
    public_address: str | None = None
    otel: bool = False
    recordings: str | None = None
    recording_max_bytes: int = 2**30
    recordings_max_bytes: int = 10 * 2**30
    allowed_origins: tuple[str, ...] = ()
    heartbeat_s: float = 1.0
    max_body_bytes: int = 16 * 1024 * 1024
    record_controls: str | None = None
    stall_timeout_s: float = 30.0
    shutdown_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if self.token_file is not None:
            self._read_token(self.token_file)
        for name in _ABOVE_ZERO:
            _check_number(name, getattr(self, name), above_zero=True)
        for name in ("viewer_grace_s", "media_age_budget_ms"):
            _check_number(name, getattr(self, name), above_zero=False)
        if not isinstance(self.port, int) or not 0 <= self.port <= 65535:
            raise ValueError(f"port must be a number from 0 to 65535, got {self.port!r}")
        if not isinstance(self.jpeg_quality, int) or not 1 <= self.jpeg_quality <= 100:
            raise ValueError(f"jpeg_quality must be an integer from 1 to 100, got {self.jpeg_quality!r}")
        if self.bitrate is not None and not (
            isinstance(self.bitrate, int) and MIN_BITRATE <= self.bitrate <= MAX_BITRATE
        ):
            raise ValueError(
                f"bitrate must be {MIN_BITRATE} to {MAX_BITRATE} bits per second, or None, got {self.bitrate!r}"
            )
        if self.encoder not in ENCODER_CHOICES:
            raise ValueError(f"encoder must be one of {', '.join(ENCODER_CHOICES)}, got {self.encoder!r}")
        for origin in self.allowed_origins:
            _check_origin(origin)
        if self.recordings is not None and not _is_writable(self.recordings):
            raise ValueError(f"recordings must be a folder that exists and can be written to, got {self.recordings!r}")
        self._check_reach()
        self._make_ice()

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def ice(self) -> IceConfig:
        """How WebRTC finds addresses."""
        return self._make_ice()

    def _read_token(self, path: str) -> None:
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ValueError(f"token_file {path!r} cannot be read: {reason}") from error
        if self.token not in (None, token):
            raise ValueError(f"token and token_file {path!r} differ: set one of them")
        object.__setattr__(self, "token", token)

    def _make_ice(self) -> IceConfig:
        return IceConfig(
            self.ice_servers,
            turn_secret=None if self.turn_secret is None else TurnSecret(self.turn_secret),
            relay_only=self.relay_only,
            udp_ports=None if self.udp_ports is None else UdpPorts.parse(self.udp_ports),
            public_address=self.public_address,
        )

    def _check_reach(self) -> None:
        if self.token is not None and len(self.token) < _MIN_TOKEN:
            raise ValueError(f"token must be {_MIN_TOKEN} characters or longer, or anybody would guess it")
        if not self.is_loopback and self.token is None and not self.open:
            raise ValueError(
                f"host {self.host!r} can be reached from other machines: set a token (--token) that clients must show, "
                "or set open (--open) to serve everybody who comes"
            )


def _check_number(name: str, value: object, *, above_zero: bool) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or (above_zero and value == 0):  # type: ignore[operator]
        raise ValueError(f"{name} must be a number {'above 0' if above_zero else 'of 0 or more'}, got {value!r}")


def _is_writable(folder: str) -> bool:
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
        raise ValueError(f"allowed_origins must look like https://example.org, got {origin!r}")
