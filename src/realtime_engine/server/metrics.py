"""What a server counts, in the words of Prometheus; read when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from ..core.clock import NS_PER_S
from ..core.statistics import WindowSnapshot
from ..infra.copy_stats import CopyStats
from ..infra.telemetry.frame_latency import FrameTotals
from ..infra.telemetry.server_stats import LoopMonitor
from ..infra.webrtc import Loss, Tier
from .counters import Counts
from .engine_host import EngineHost, EngineState
from .sessions.registry import Sessions
from .sessions.session import DemoSession

PREFIX = "realtime_engine_"
_QUANTILES = (0.5, 0.95, 0.99)


class Measured(NamedTuple):
    """What is read.

    Attributes:
        host: the engine.
        loop: how late the server's event loop is.
        copies: what is copied on the way from the engine to the encoders.
        sessions: called for the sessions; ``None`` before there can be any.
        frames: the times of the frames of all sessions.
    """

    host: EngineHost
    loop: LoopMonitor
    copies: CopyStats
    sessions: Callable[[], Sessions | None]
    frames: FrameTotals


class Metrics:
    """A registry of its own, so that several servers of one process do not add up."""

    def __init__(self, measured: Measured) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Reader(measured))

    def text(self) -> bytes:
        """The Prometheus text format."""
        return generate_latest(self._registry)


class _Reader(Collector):
    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        host, loop, copies, sessions, frames = self._measured
        yield _gauge("ready", "1 when the model is loaded and runs", host.state is EngineState.READY)
        yield from _of_engine(host)
        yield from _of_loop(loop)
        yield from _of_copies(copies)
        living = sessions()
        if living is not None:
            yield from _of_sessions(living)
            yield from _of_frames(frames)


def _of_engine(host: EngineHost) -> Iterator[Metric]:
    loop = host.monitor.snapshot()
    yield _counter("ticks", "Rounds of the serve loop that stepped the engine", loop.ticks)
    yield _counter("overruns", "Deadlines missed by the serve loop", loop.overruns)
    yield _counter("steps", "Calls of the engine's step", loop.steps)
    yield _counter("chunks", "Chunks made", loop.chunks)
    yield _counter("rejected", "Messages and sessions that the engine refused", loop.rejected)
    yield _counter("failed", "Failures of single sessions", loop.failed)
    dropped = host.outbox.statistics().dropped_total
    yield _counter("chunks_dropped", "Chunks dropped because they were read too slowly", dropped)
    yield _summary("step_seconds", "Time that the engine took for a tick", loop.step)
    yield _summary("input_to_step_seconds", "From an input to the step that it shapes", loop.input_to_step)


def _of_loop(loop: LoopMonitor) -> Iterator[Metric]:
    lag = loop.snapshot()
    yield _summary("event_loop_lag_seconds", "By how much the server's event loop was late", lag)
    yield _gauge("event_loop_lag_max_seconds", "By how much it was late at most", lag.peak_ns / NS_PER_S)


def _of_sessions(sessions: Sessions) -> Iterator[Metric]:
    living, counts = sessions.all(), sessions.counts()
    yield _gauge("sessions", "Sessions that live", len(living))
    yield _gauge("places", "Sessions that there is room for", sessions.capacity)
    viewers = GaugeMetricFamily(PREFIX + "viewers", "Viewers that are connected", labels=["transport"])
    viewers.add_metric(["webrtc"], sum(session.viewers.connected for session in living))
    viewers.add_metric(["webcodecs"], sum(session.feeds.connected for session in living))
    viewers.add_metric(["mjpeg"], sum(session.jpegs.viewers for session in living))
    yield viewers
    yield _counter("frames_published", "Frames shown, whether somebody watched or not", counts.published)
    yield _counter("frames_dropped", "Frames given up to stay within the media-age budget", counts.dropped)
    yield _counter("underruns", "Times that no frame was ready when it should have been shown", counts.underruns)
    yield _counter("jpeg_encodes", "Frames encoded as JPEG for MJPEG viewers", counts.jpeg_encodes)
    yield _counter("video_input_frames", "Frames of clients' video that models could see", counts.video_received)
    yield _counter("video_input_dropped", "Frames of clients' video that were left out", counts.video_dropped)
    recording = [session.recordings for session in living if session.recordings is not None]
    yield _gauge("recordings_running", "Sessions that are recorded now", sum(each.is_running for each in recording))
    yield _counter("recordings", "Recordings begun", counts.recordings)
    yield _counter("recorded_bytes", "Bytes written by recordings", counts.recorded_bytes)
    yield from _of_video(living, counts)


def _of_video(living: list[DemoSession], counts: Counts) -> Iterator[Metric]:
    tiers = [entry for session in living for entry in session.tiers()]
    watching = GaugeMetricFamily(PREFIX + "tier_viewers", "Viewers of a share of the video's rate", labels=["tier"])
    rates = GaugeMetricFamily(
        PREFIX + "tier_bits_per_second", "What the encoders of all sessions aim at", labels=["tier"]
    )
    encodes = CounterMetricFamily(PREFIX + "video_encodes", "Frames encoded as video", labels=["tier"])
    keyframes = CounterMetricFamily(PREFIX + "keyframes", "Those that need no other", labels=["tier"])
    losses = CounterMetricFamily(
        PREFIX + "picture_losses", "Times that a viewer needed a keyframe to go on", labels=["tier", "cause"]
    )
    for tier in Tier:
        watching.add_metric([tier.value], sum(stats.viewers for other, stats in tiers if other is tier))
        rates.add_metric([tier.value], sum(stats.bitrate for other, stats in tiers if other is tier))
        encodes.add_metric([tier.value], counts.encodes[tier])
        keyframes.add_metric([tier.value], counts.keyframes[tier])
        for loss in Loss:
            losses.add_metric([tier.value, loss.value], counts.losses[tier, loss])
    yield from (watching, rates, encodes, keyframes, losses)


def _of_copies(copies: CopyStats) -> Iterator[Metric]:
    texts = ("Times that pixels were copied or converted", "Bytes written by that", "Time that it took")
    totals = [
        CounterMetricFamily(PREFIX + name, text, labels=["copy"])
        for name, text in zip(("copies", "copied_bytes", "copy_seconds"), texts, strict=True)
    ]
    for copy, tally in copies.snapshot().items():
        for total, value in zip(totals, (tally.times, tally.bytes, tally.ns / NS_PER_S), strict=True):
            total.add_metric([copy.value], value)
    yield from totals


def _of_frames(frames: FrameTotals) -> Iterator[Metric]:
    """docs/latency.md says what each of them means."""
    stages = SummaryMetricFamily(
        PREFIX + "frame_stage_seconds", "Time of frames that viewers told of, by stage", labels=["stage", "transport"]
    )
    for transport in frames.times.transports():
        for stage, times in frames.times.snapshot(transport).items():
            _add_window(stages, {"stage": stage, "transport": transport}, times)
    yield stages
    clocks = SummaryMetricFamily(PREFIX + "clock_uncertainty_seconds", "How far off viewers' clocks may be", labels=[])
    _add_window(clocks, {}, frames.uncertainty.snapshot())
    yield clocks
    records = CounterMetricFamily(PREFIX + "frame_records", "Frames by what came of their record", labels=["outcome"])
    for outcome, count in vars(frames.counts).items():
        records.add_metric([outcome], count)
    yield records


def _add_window(metric: SummaryMetricFamily, labels: dict[str, str], times: WindowSnapshot) -> None:
    """``labels`` in the order of the metric's own."""
    metric.add_metric(list(labels.values()), count_value=times.count, sum_value=times.sum_ns / NS_PER_S)
    for share in _QUANTILES:
        metric.add_sample(metric.name, {**labels, "quantile": str(share)}, times.quantile_ns(share) / NS_PER_S)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=value)


def _summary(name: str, text: str, times: WindowSnapshot) -> Metric:
    metric = SummaryMetricFamily(PREFIX + name, text, labels=[])
    _add_window(metric, {}, times)
    return metric
