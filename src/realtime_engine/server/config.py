"""The settings of a server."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from ..infra.encoding import ENCODER_CHOICES, MAX_BITRATE, MIN_BITRATE
from ..infra.webrtc import IceConfig, IceServer, TurnSecret, UdpPorts
from .prefix import PREFIX, is_own_path

ADMISSION_CHOICES = ("capacity", "deadline")
LOBBY_CHOICES = ("auto", "on", "off")

_MIN_TOKEN = 8  # characters
_ORIGIN = re.compile(
    r"(?!https://\S*:443$)(?!http://\S*:80$)https?://(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?"
)
"""An origin as a browser serializes it (RFC 6454, section 6.2); it is copied into a Content Security Policy."""
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
    """Settings of a server. The command line derives its flags and their help from them.

    Attributes:
        host: address to listen on; ``0.0.0.0`` listens on all interfaces.
        port: port to listen on; 0 picks a free one.
        root_path: path prefix below which a proxy serves this server, such as ``/demo``.
        token: token that clients must send to start a session; without one, every client may.
        token_file: file that contains the token, such as a container secret; surrounding whitespace is ignored.
        open: allow an address other than loopback without a token.
        idle_timeout_s: seconds without viewers and controls after which a session ends.
        reconnect_grace_s: seconds that a session without any connection is kept, so that its page can return to it;
            the idle timeout by default.
        turn_minutes: minutes that a session lasts while others wait; not limited by default.
        queue_limit: maximum number of clients that wait for a session; 0 disables the waiting line.
        max_per_client: maximum number of sessions of one browser or address; not limited by default.
        admission: ``capacity`` starts as many sessions as the model has room for; ``deadline`` starts another one only
            while the measured step times leave the others their rate.
        lobby: ``on`` shows every client pictures of the running sessions, and lets it watch them; ``off`` does not;
            ``auto``: on, unless the demo takes video.
        unload_after_s: seconds without sessions, waiting clients and requests after which one of several demos is
            unloaded until its next use; never by default.
        viewer_grace_s: seconds without viewers after which a session is paused.
        media_age_budget_ms: maximum delay, in milliseconds, that pacing may add to smooth out late chunks.
        jpeg_quality: quality of MJPEG and snapshots, from 1 (smallest) to 100 (best).
        bitrate: bits per second of video, 10 thousand to 250 million; derived from the frame size by default.
        encoder: H.264 encoder: ``auto`` (hardware if it works, else software), ``software``, ``h264_nvenc``,
            ``h264_vaapi`` or ``h264_videotoolbox``.
        ice_servers: STUN or TURN server, for viewers and for the server.
        turn_secret: shared secret of the TURN server, from which each viewer gets credentials valid for a day.
        relay_only: send video through the TURN server only.
        udp_ports: range of UDP ports for video, such as ``50000-50100``; chosen by the system by default.
        public_address: IP address that viewers send to, for a server behind a NAT or in a container.
        otel: export frame times as OpenTelemetry spans to ``OTEL_EXPORTER_OTLP_ENDPOINT``.
        recordings: directory for recordings; recording is disabled without one.
        recording_max_bytes: maximum size of one recording, in bytes.
        recordings_max_bytes: maximum size of all recordings together, in bytes.
        allowed_origins: origin of another site, such as ``https://example.org``, whose pages may use this server.
        heartbeat_s: keep-alive interval of an idle connection, in seconds.
        max_body_bytes: maximum size of a request body, in bytes.
        record_controls: directory for control logs, one for each session, which ``realtime-engine run`` replays.
        stall_timeout_s: seconds without a reply of the engine after which it counts as not responding.
        shutdown_timeout_s: seconds that open requests and the engine get to finish at shutdown.

    Raises:
        ValueError: a setting is invalid; the message names it.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    root_path: str = ""
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    open: bool = False
    idle_timeout_s: float = 30.0
    reconnect_grace_s: float | None = None
    turn_minutes: float | None = None
    queue_limit: int = 1000
    max_per_client: int | None = None
    admission: str = "capacity"
    lobby: str = "auto"
    unload_after_s: float | None = None
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
        for name in ("reconnect_grace_s", "turn_minutes", "unload_after_s"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), above_zero=True)
        _check_integer("queue_limit", self.queue_limit, 0)
        if self.max_per_client is not None:
            _check_integer("max_per_client", self.max_per_client, 1)
        if not isinstance(self.port, int) or not 0 <= self.port <= 65535:
            raise ValueError(f"port must be an integer from 0 to 65535, got {self.port!r}")
        if not isinstance(self.jpeg_quality, int) or not 1 <= self.jpeg_quality <= 100:
            raise ValueError(f"jpeg_quality must be an integer from 1 to 100, got {self.jpeg_quality!r}")
        if self.bitrate is not None and not (
            isinstance(self.bitrate, int) and MIN_BITRATE <= self.bitrate <= MAX_BITRATE
        ):
            raise ValueError(
                f"bitrate must be {MIN_BITRATE} to {MAX_BITRATE} bits per second, or None, got {self.bitrate!r}"
            )
        _check_root_path(self.root_path)
        _check_choice("admission", self.admission, ADMISSION_CHOICES)
        _check_choice("lobby", self.lobby, LOBBY_CHOICES)
        _check_choice("encoder", self.encoder, ENCODER_CHOICES)
        for origin in self.allowed_origins:
            _check_origin(origin)
        if self.recordings is not None and not _is_writable(self.recordings):
            raise ValueError(f"recordings must be an existing, writable directory, got {self.recordings!r}")
        self._check_exposure()
        self._make_ice()

    @property
    def reconnect_timeout_s(self) -> float:
        """Seconds that a session without any connection is kept."""
        return self.idle_timeout_s if self.reconnect_grace_s is None else self.reconnect_grace_s

    @property
    def is_loopback(self) -> bool:
        """Whether the server is reachable from this machine only."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def ice(self) -> IceConfig:
        """The ICE settings of WebRTC."""
        return self._make_ice()

    def _read_token(self, path: str) -> None:
        try:
            token = Path(path).read_text(encoding="utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ValueError(f"token_file {path!r} cannot be read: {reason}") from error
        if not token:
            raise ValueError(f"token_file {path!r} is empty")
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

    def _check_exposure(self) -> None:
        if self.token is not None and len(self.token) < _MIN_TOKEN:
            raise ValueError(f"token must have at least {_MIN_TOKEN} characters")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise ValueError("token must consist of printable ASCII characters in one line, to be sent in a header")
        if not self.is_loopback and self.token is None and not self.open:
            raise ValueError(
                f"host {self.host!r} is reachable from other machines: set a token (--token) that clients must send, "
                "or set open (--open) to allow every client"
            )


def _check_number(name: str, value: object, *, above_zero: bool) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or (above_zero and value == 0):  # type: ignore[operator]
        raise ValueError(f"{name} must be a number {'above 0' if above_zero else 'of 0 or more'}, got {value!r}")


def _check_integer(name: str, value: object, minimum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be an integer of {minimum} or more, got {value!r}")


def _is_writable(directory: str) -> bool:
    return os.path.isdir(directory) and os.access(directory, os.W_OK | os.X_OK)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _check_root_path(root_path: str) -> None:
    if not isinstance(root_path, str) or not PREFIX.fullmatch(root_path):
        raise ValueError(f"root_path must look like /demo, without a slash at the end, got {root_path!r}")
    if is_own_path(root_path):
        raise ValueError(f"root_path must not begin with /api or /demos, which the server uses, got {root_path!r}")


def _check_origin(origin: str) -> None:
    if not isinstance(origin, str) or _ORIGIN.fullmatch(origin) is None:
        raise ValueError(
            f"allowed_origins must look like https://example.org or http://localhost:3000, as browsers write them: "
            f"lower case, no path, no default port; got {origin!r}"
        )
