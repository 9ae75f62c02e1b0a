"""The Prometheus metrics of a server, collected on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from ..core.clock import NS_PER_S
from ..core.monitor import PipelineSnapshot
from ..core.statistics import WindowSnapshot
from ..infra.copy_stats import CopyStats
from ..infra.telemetry.frame_latency import FrameTotals
from ..infra.telemetry.server_stats import LoopMonitor
from ..infra.webrtc import Loss, Tier
from .admission.admission import Admission
from .counters import Counts
from .engine_host import EngineHost, EngineState
from .sessions.registry import Sessions
from .sessions.session import DemoSession

PREFIX = "realtime_engine_"
_QUANTILES = (0.5, 0.95, 0.99)


class MetricSources(NamedTuple):
    """What the metrics are read from.

    Attributes:
        host: the engine and its monitor.
        loop: the lag of the server's event loop.
        copies: counters of pixel copies and conversions.
        sessions: returns the sessions; ``None`` before the engine is ready.
        admission: returns the admission; ``None`` before the engine is ready.
        frames: frame times over all sessions.
    """

    host: EngineHost
    loop: LoopMonitor
    copies: CopyStats
    sessions: Callable[[], Sessions | None]
    admission: Callable[[], Admission | None]
    frames: FrameTotals


class Metrics:
    """A registry of its own, so that several servers in one process are counted separately.

    Args:
        sources: what the metrics are read from.
    """

    def __init__(self, sources: MetricSources) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Reader(sources))

    def families(self) -> Iterator[Metric]:
        """All metrics."""
        yield from self._registry.collect()

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)


def labelled_text(families: Mapping[str, Iterable[Metric]]) -> bytes:
    """The metrics of several demos, by name, in the Prometheus text format; each sample has the label ``demo``."""
    merged: dict[str, Metric] = {}
    for demo, metrics in families.items():
        for metric in metrics:
            family = merged.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            family.samples += [sample._replace(labels={"demo": demo, **sample.labels}) for sample in metric.samples]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(merged.values()))
    return generate_latest(registry)


def readiness(is_ready: bool) -> Metric:
    """The metric of whether a model is ready."""
    return _gauge("ready", "1 if the model is loaded and running", is_ready)


class _Collected(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class _Reader(Collector):
    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        host, loop, copies, sessions, admission, frames = self._sources
        yield readiness(host.state is EngineState.READY)
        yield from _of_engine(host)
        yield from _of_loop(loop)
        yield from _of_copies(copies)
        existing = sessions()
        if existing is not None:
            yield from _of_sessions(existing)
            yield from _of_frames(frames)
        line = admission()
        if line is not None:
            yield _gauge("waiting_clients", "Clients in the waiting line", line.waiting)


def _of_engine(host: EngineHost) -> Iterator[Metric]:
    loop = host.monitor.snapshot()
    yield _counter("ticks", "Ticks of the serve loop that stepped the engine", loop.ticks)
    yield _counter("overruns", "Deadlines missed by the serve loop", loop.overruns)
    yield _counter("steps", "Calls of the engine's step", loop.steps)
    yield _counter("chunks", "Chunks produced", loop.chunks)
    yield _counter("rejected", "Messages and sessions refused by the engine", loop.rejected)
    yield _counter("failed", "Failures of single sessions", loop.failed)
    dropped = host.outbox.statistics().dropped_total
    yield _counter("chunks_dropped", "Chunks dropped because the server read them too slowly", dropped)
    yield _summary("step_seconds", "Duration of the engine's step", loop.step)
    yield _summary("input_to_step_seconds", "Time from an input to the step that uses it", loop.input_to_step)
    yield from _of_pipeline(loop.pipeline)


def _of_pipeline(pipeline: PipelineSnapshot | None) -> Iterator[Metric]:
    """The families exist for every engine; only one that serves a stage graph has values in them."""
    yield from _of_stages(pipeline)
    for name, text in (
        ("first_output", "From the first inputs of a session to its first output"),
        ("control_to_output", "From a new value of a control to the first output made with it"),
        ("chunk_period", "Between two chunks of a session"),
    ):
        family = SummaryMetricFamily(f"{PREFIX}pipeline_{name}_seconds", text, labels=[])
        if pipeline is not None:
            _add_window(family, {}, getattr(pipeline, name))
        yield family
    factor = GaugeMetricFamily(
        PREFIX + "pipeline_real_time_factor", "p95 of the chunk period over the media duration of a chunk", labels=[]
    )
    if pipeline is not None and pipeline.real_time_factor is not None:
        factor.add_metric([], pipeline.real_time_factor)
    yield factor


def _of_stages(pipeline: PipelineSnapshot | None) -> Iterator[Metric]:
    chunks = CounterMetricFamily(
        PREFIX + "pipeline_stage_chunks", "Chunks given to a stage, by outcome", labels=["stage", "outcome"]
    )
    waiting = GaugeMetricFamily(
        PREFIX + "pipeline_stage_waiting", "Chunks whose inputs wait for a stage", labels=["stage"]
    )
    in_flight = GaugeMetricFamily(PREFIX + "pipeline_stage_in_flight", "Chunks that a stage has", labels=["stage"])
    times = SummaryMetricFamily(
        PREFIX + "pipeline_stage_seconds", "Time of a chunk at a stage, by phase", labels=["stage", "phase"]
    )
    intervals = CounterMetricFamily(
        PREFIX + "pipeline_stage_idle_intervals", "Times that a stage was idle, by reason", labels=["stage", "reason"]
    )
    idle = CounterMetricFamily(
        PREFIX + "pipeline_stage_idle_seconds", "Idle time of a stage, by reason", labels=["stage", "reason"]
    )
    for stage_id, stage in () if pipeline is None else pipeline.stages.items():
        for outcome in ("admitted", "completed", "failed"):
            chunks.add_metric([stage_id, outcome], getattr(stage, outcome))
        waiting.add_metric([stage_id], stage.waiting)
        in_flight.add_metric([stage_id], stage.in_flight)
        for phase in ("queue", "mailbox", "run"):
            _add_window(times, {"stage": stage_id, "phase": phase}, getattr(stage, phase))
        for reason, total in stage.idle.items():
            intervals.add_metric([stage_id, reason], total.intervals)
            idle.add_metric([stage_id, reason], total.idle_ns / NS_PER_S)
    yield from (chunks, waiting, in_flight, times, intervals, idle)


def _of_loop(loop: LoopMonitor) -> Iterator[Metric]:
    lag = loop.snapshot()
    yield _summary("event_loop_lag_seconds", "Lag of the server's event loop", lag)
    yield _gauge("event_loop_lag_max_seconds", "Maximum lag of the server's event loop", lag.peak_ns / NS_PER_S)


def _of_sessions(sessions: Sessions) -> Iterator[Metric]:
    active, counts = sessions.all(), sessions.counts()
    yield _gauge("sessions", "Active sessions", len(active))
    yield _gauge("places", "Maximum number of sessions", sessions.capacity)
    viewers = GaugeMetricFamily(PREFIX + "viewers", "Connected viewers", labels=["transport"])
    viewers.add_metric(["webrtc"], sum(session.media.viewers.connected for session in active))
    viewers.add_metric(["webcodecs"], sum(session.media.feeds.connected for session in active))
    viewers.add_metric(["mjpeg"], sum(session.media.jpegs.viewers for session in active))
    yield viewers
    yield _counter("frames_published", "Frames published, with or without viewers", counts.published)
    yield _counter("frames_dropped", "Frames dropped to stay within the media-age budget", counts.dropped)
    yield _counter("underruns", "Times that no frame was ready when one was due", counts.underruns)
    yield _counter("jpeg_encodes", "Frames encoded as JPEG for MJPEG viewers", counts.jpeg_encodes)
    yield _counter("video_input_frames", "Frames of input video made available to the model", counts.video_received)
    yield _counter("video_input_dropped", "Frames of input video dropped", counts.video_dropped)
    recording = [each for session in active if (each := session.media.recordings) is not None]
    yield _gauge("recordings_running", "Sessions being recorded", sum(each.is_running for each in recording))
    yield _counter("recordings", "Recordings started", counts.recordings)
    yield _counter("recorded_bytes", "Bytes written by recordings", counts.recorded_bytes)
    yield from _of_video(active, counts)


def _of_video(active: list[DemoSession], counts: Counts) -> Iterator[Metric]:
    tiers = [entry for session in active for entry in session.media.tiers()]
    watching = GaugeMetricFamily(PREFIX + "tier_viewers", "Viewers by bitrate tier", labels=["tier"])
    rates = GaugeMetricFamily(
        PREFIX + "tier_bits_per_second", "Sum of the target bitrates of all encoders", labels=["tier"]
    )
    encodes = CounterMetricFamily(PREFIX + "video_encodes", "Frames encoded as video", labels=["tier"])
    keyframes = CounterMetricFamily(PREFIX + "keyframes", "Frames encoded as keyframes", labels=["tier"])
    losses = CounterMetricFamily(
        PREFIX + "picture_losses", "Times that a viewer needed a keyframe to resume", labels=["tier", "cause"]
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
    texts = ("Copies and conversions of pixels", "Bytes written by them", "Time spent in them")
    totals = [
        CounterMetricFamily(PREFIX + name, text, labels=["copy"])
        for name, text in zip(("copies", "copied_bytes", "copy_seconds"), texts, strict=True)
    ]
    for copy, tally in copies.snapshot().items():
        for total, value in zip(totals, (tally.times, tally.bytes, tally.ns / NS_PER_S), strict=True):
            total.add_metric([copy.value], value)
    yield from totals


def _of_frames(frames: FrameTotals) -> Iterator[Metric]:
    """The stages and outcomes are defined in docs/latency.md."""
    stages = SummaryMetricFamily(
        PREFIX + "frame_stage_seconds",
        "Frame times reported by viewers, by stage",
        labels=["stage", "transport"],
    )
    for transport in frames.times.transports():
        for stage, times in frames.times.snapshot(transport).items():
            _add_window(stages, {"stage": stage, "transport": transport}, times)
    yield stages
    clocks = SummaryMetricFamily(PREFIX + "clock_uncertainty_seconds", "Uncertainty of viewers' clocks", labels=[])
    _add_window(clocks, {}, frames.uncertainty.snapshot())
    yield clocks
    records = CounterMetricFamily(PREFIX + "frame_records", "Frame records by outcome", labels=["outcome"])
    for outcome, count in vars(frames.counts).items():
        records.add_metric([outcome], count)
    yield records


def _add_window(metric: SummaryMetricFamily, labels: dict[str, str], times: WindowSnapshot) -> None:
    """Add a sample; ``labels`` in the order of the metric's label names."""
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
