"""What all sessions of a server share."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from ..core.contract import EngineManifest
from ..core.inbox import Inbox
from ..core.monitor import ServeMonitor
from ..core.outbox import Outbox
from ..infra.control_log import ControlRecorder
from ..infra.copy_stats import CopyStats
from ..infra.demo import Demo
from ..infra.encoding import Encoders
from ..infra.jpeg import JpegEncoder
from ..infra.recording import RecordingStore
from ..infra.telemetry.frame_latency import FrameTotals
from .config import ServerConfig


@dataclass(frozen=True)
class ServerResources:
    """The demo and its engine, and what encodes pictures: ``pool`` are the threads for that.

    ``copies`` counts what is copied on the way.
    ``totals`` are the times of the frames of all sessions.
    ``recordings`` is where they are kept; ``None`` if there shall be none.
    ``recorder`` writes down what they are told; ``None`` if nobody asked for that.
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
    recordings: RecordingStore | None
    recorder: ControlRecorder | None = None
