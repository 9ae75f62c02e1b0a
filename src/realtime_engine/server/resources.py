"""What all sessions of a server share."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from ..core.contract import EngineManifest
from ..core.inbox import Inbox
from ..core.monitor import ServeMonitor
from ..core.outbox import Outbox
from ..infra.control_log import UNRECORDED, ControlRecorder, SessionLog
from ..infra.copy_stats import CopyStats
from ..infra.demo import Demo
from ..infra.encoding import Encoders
from ..infra.jpeg import JpegEncoder
from ..infra.recording import RecordingStore
from ..infra.telemetry.frame_latency import FrameTotals
from .config import ServerConfig


@dataclass(frozen=True, kw_only=True)
class ServerResources:
    """The demo, its engine, the encoders and the telemetry of one server.

    Attributes:
        demo: the demo that is served.
        config: the settings of the server.
        manifest: what the engine declares.
        inbox: messages to the engine.
        outbox: chunks and events from the engine.
        monitor: counters of the engine.
        jpeg: the JPEG encoder.
        pool: threads that convert and encode pictures.
        encoders: the factory of video encoders.
        copies: counters of pixel copies and conversions.
        totals: frame times over all sessions.
        recordings: storage of recordings; ``None`` if recording is disabled.
        recorder: writes control logs; ``None`` if control logging is disabled.
    """

    demo: Demo
    config: ServerConfig
    manifest: EngineManifest
    inbox: Inbox
    outbox: Outbox
    monitor: ServeMonitor
    jpeg: JpegEncoder
    pool: Executor
    encoders: Encoders
    copies: CopyStats
    totals: FrameTotals
    recordings: RecordingStore | None = None
    recorder: ControlRecorder | None = None

    @property
    def fps(self) -> float:
        """Frames per second of a session's video."""
        return frame_rate(self.manifest)

    def open_log(self, session_id: str) -> SessionLog:
        """The control log of a new session; one that records nothing if control logging is disabled."""
        return UNRECORDED if self.recorder is None else self.recorder.begin(session_id)

    def close_log(self, session_id: str) -> None:
        """Stop recording the session's controls."""
        if self.recorder is not None:
            self.recorder.end(session_id)


def frame_rate(manifest: EngineManifest) -> float:
    """Frames per second of an engine's video."""
    return manifest.rate_hz * manifest.frames_per_chunk
