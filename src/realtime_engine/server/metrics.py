"""What a server counts, in the words of Prometheus; read when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from ..core.clock import NS_PER_S
from ..core.monitor import HistogramSnapshot
from ..infra.loop_monitor import LoopMonitor
from ..infra.webrtc import Loss, Tier
from .counts import Counts
from .hosting import EngineHost, EngineState
from .session import DemoSession
from .sessions import Sessions

PREFIX = "realtime_engine_"
_QUANTILES = (0.5, 0.95, 0.99)


class Metrics:
    """A registry of its own, so that several servers of one process do not add up.

    Args:
        host: the engine.
        loop: how late the server's event loop is.
        sessions: called for the sessions; ``None`` before there can be any.
    """

    def __init__(self, host: EngineHost, loop: LoopMonitor, sessions: Callable[[], Sessions | None]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Reader(host, loop, sessions))

    def text(self) -> bytes:
        """The Prometheus text format."""
        return generate_latest(self._registry)


class _Reader(Collector):
    def __init__(self, host: EngineHost, loop: LoopMonitor, sessions: Callable[[], Sessions | None]) -> None:
        self._host = host
        self._loop = loop
        self._sessions = sessions

    def collect(self) -> Iterator[Metric]:
        yield _gauge("ready", "1 when the model is loaded and runs", self._host.state is EngineState.READY)
        yield from self._engine()
        lag = self._loop.snapshot()
        yield _summary("event_loop_lag_seconds", "By how much the server's event loop was late", lag)
        yield _gauge("event_loop_lag_max_seconds", "By how much it was late at most", lag.max_ns / NS_PER_S)
        sessions = self._sessions()
        if sessions is not None:
            yield from _of_sessions(sessions)

    def _engine(self) -> Iterator[Metric]:
        loop = self._host.monitor.snapshot()
        yield _counter("ticks", "Rounds of the serve loop that stepped the engine", loop.ticks)
        yield _counter("overruns", "Deadlines missed by the serve loop", loop.overruns)
        yield _counter("steps", "Calls of the engine's step", loop.steps)
        yield _counter("chunks", "Chunks made", loop.chunks)
        yield _counter("rejected", "Messages and sessions that the engine refused", loop.rejected)
        yield _counter("failed", "Failures of single sessions", loop.failed)
        dropped = self._host.outbox.statistics().dropped_total
        yield _counter("chunks_dropped", "Chunks dropped because they were read too slowly", dropped)
        yield _summary("step_seconds", "Time that the engine took for a tick", loop.step)
        yield _summary("input_to_step_seconds", "From an input to the step that it shapes", loop.input_to_step)


def _of_sessions(sessions: Sessions) -> Iterator[Metric]:
    living, counts = sessions.all(), sessions.counts()
    yield _gauge("sessions", "Sessions that live", len(living))
    yield _gauge("places", "Sessions that there is room for", sessions.capacity)
    viewers = GaugeMetricFamily(PREFIX + "viewers", "Viewers that are connected", labels=["transport"])
    viewers.add_metric(["webrtc"], sum(session.viewers.connected for session in living))
    viewers.add_metric(["mjpeg"], sum(session.jpegs.viewers for session in living))
    yield viewers
    yield _counter("frames_published", "Frames shown, whether somebody watched or not", counts.published)
    yield _counter("frames_dropped", "Frames given up to stay within the media-age budget", counts.dropped)
    yield _counter("underruns", "Times that no frame was ready when it should have been shown", counts.underruns)
    yield _counter("jpeg_encodes", "Frames encoded as JPEG for MJPEG viewers", counts.jpeg_encodes)
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


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(PREFIX + name, text, value=value)


def _summary(name: str, text: str, times: HistogramSnapshot) -> Metric:
    metric = SummaryMetricFamily(PREFIX + name, text, count_value=times.count, sum_value=times.sum_ns / NS_PER_S)
    for share in _QUANTILES:
        metric.add_sample(PREFIX + name, {"quantile": str(share)}, times.quantile_ns(share) / NS_PER_S)
    return metric
